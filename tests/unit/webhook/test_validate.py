"""Yes, no and what is said, as tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.model.intent import RESOURCES, Match
from tests.worlds.notation import GPU, node, table
from tests.worlds.webhook import POLICY, Raw, Reviewing, cluster, decided, raw, read, with_spec
from webhook.handlers import validate
from webhook.review import LONGEST_SHOWN, LONGEST_WARNING, Allowed, Denied, StatusReason

SINGLE = "single-numa-node"

TWO = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy=SINGLE)
FULL = node("cpu=8/8/1 mem=8Gi gpu=2", "cpu=8/8/1 mem=8Gi gpu=2", policy=SINGLE)

ROOM = cluster([TWO])

ONE_GPU, FOUR_GPUS = "cpu=2 mem=1Gi gpu=1", "cpu=2 mem=1Gi gpu=4"
FITS = raw(ONE_GPU, policy=SINGLE)
NEVER = raw(FOUR_GPUS, policy=SINGLE)
SILENT = raw(ONE_GPU)


def verdict(
    made: Raw, now: Reviewing, *, match: str = "satisfies", may_fit: bool = False
) -> Allowed | Denied:
    pod = read(made, now, match=Match(match)).request
    return validate(pod, decided(now, may_fit=may_fit)(pod))


def under(*, unknown: int = 0, **labels: str) -> Reviewing:
    return cluster([TWO], unknown=unknown, labels=labels)


BEST_EFFORT = raw(ONE_GPU, policy="best-effort")
CPUS_AND_GPUS = raw(ONE_GPU, annotations={POLICY: SINGLE, RESOURCES: f"cpu,{GPU}"})
OPTED_OUT = raw(ONE_GPU, policy="none")


def test_admitted_pod_is_warned_of_all_at_once() -> None:
    assert verdict(FITS, ROOM) == Allowed(audit={"verdict": f"admitted with {SINGLE}"})
    assert verdict(BEST_EFFORT, cluster([FULL], labels={"warn": "restricted"})).warnings == (
        "numalign: this namespace expects NUMA alignment restricted; the pod requests best-effort",
        "numalign: no node can provide best-effort alignment now; the pod will stay pending",
    )


NO_NODE = (
    f'no node can align container "c0" as {SINGLE} (0 of 1 node): 1 has at most 2 nvidia.com/gpu in one NUMA'
    " zone. Request at most 2 nvidia.com/gpu."
)
TOO_LITTLE = (
    'namespace "team" enforces NUMA alignment of at least restricted, and the pod requests best-effort.'
    f" Set annotation {POLICY} to restricted or single-numa-node."
)
DENIED = [
    ("it fits no node",  NEVER,       ROOM,                        f"numalign: {NO_NODE}"),
    ("it says less",     BEST_EFFORT, under(enforce="restricted"), f"numalign: {TOO_LITTLE}"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "now", "text"), table(DENIED))
def test_a_pod_is_refused(made: Raw, now: Reviewing, text: str) -> None:
    refused = verdict(made, now)
    assert isinstance(refused, Denied)
    assert (refused.reason, refused.message) == (StatusReason.FORBIDDEN, text)


def test_denial_is_audited_with_state_policy_and_level() -> None:
    assert verdict(NEVER, under(enforce=SINGLE)).audit == {
        "verdict": "denied", "state": "never", "policy": SINGLE, "level": SINGLE
    }  # fmt: skip
    assert verdict(SILENT, under(enforce="restricted")).audit == {
        "verdict": "denied", "state": "below-enforced", "policy": "nothing", "level": "restricted"
    }  # fmt: skip
    assert "level" not in verdict(NEVER, under()).audit


policies = st.sampled_from(["none", "best-effort", "restricted", SINGLE])
levels = st.dictionaries(st.sampled_from(["enforce", "warn", "audit", "default"]), policies)
words = st.text(st.sampled_from("abc-"), min_size=1, max_size=63).map(lambda word: f"a{word}z")


LONG = ("no node can align", "applies to nvidia.com/gpu only", "has no effect")
"""Texts that need more room than others: their reason stands at the end."""


@given(
    policies,
    levels,
    st.sampled_from([ONE_GPU, FOUR_GPUS, "cpu=1..2 mem=1Gi", "cpu=1..2 mem=1Gi gpu=1"]),
    words,
    st.booleans(),
)
def test_no_warning_is_longer_than_clients_show(
    policy: str, labels: dict[str, str], container: str, name: str, placed: object
) -> None:
    made = raw(container, policy=policy)
    made["spec"]["containers"][0]["name"] = name
    answer = verdict(with_spec(made, nodeName="node") if placed else made, cluster([FULL], labels=labels))

    assert all(
        len(texts) <= LONGEST_WARNING or any(text in texts for text in LONG) for texts in answer.warnings
    )
    assert all(len(texts) <= LONGEST_SHOWN for texts in answer.warnings)


# The audit log.

AUDITED = [
    # what it keeps           the pod, the labels of its namespace, the text
    ("its policy",            FITS,      {},                        "admitted with single-numa-node"),
    ("an opt-out",            OPTED_OUT, {"warn": "none"},          "admitted with none"),
    ("less than is audited",  BEST_EFFORT, {"audit": SINGLE}, f"admitted with best-effort, below {SINGLE}"),
    ("fewer resources",       CPUS_AND_GPUS, {"audit": "restricted"},
        "admitted with single-numa-node, below restricted: numalign.io/resources lacks memory"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "labels", "kept"), table(AUDITED))
def test_the_audit_log_keeps(made: Raw, labels: dict[str, str], kept: str) -> None:
    assert verdict(made, cluster([TWO], labels=labels)).audit["verdict"] == kept


# Pods that cannot be read.
