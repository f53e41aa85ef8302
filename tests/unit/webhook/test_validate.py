"""Yes, no and what is said, as tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.model.errors import Mistake
from numalign.model.intent import RESOURCES, Match
from tests.worlds.notation import GPU, node, table
from tests.worlds.webhook import POLICY, Cluster, Raw, cluster, decided, raw, read, with_spec
from webhook.review import Allowed, Denied, StatusReason
from webhook.subject import InvalidPod
from webhook.validate import LONGEST_SHOWN, LONGEST_WARNING, refuse_broken, validate

SINGLE = "single-numa-node"

TWO = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy=SINGLE)
FULL = node("cpu=8/8/1 mem=8Gi gpu=2", "cpu=8/8/1 mem=8Gi gpu=2", policy=SINGLE)

ROOM = cluster([TWO])

ONE_GPU, FOUR_GPUS = "cpu=2 mem=1Gi gpu=1", "cpu=2 mem=1Gi gpu=4"
FITS = raw(ONE_GPU, policy=SINGLE)
NEVER = raw(FOUR_GPUS, policy=SINGLE)
SILENT = raw(ONE_GPU)


def verdict(made: Raw, now: Cluster, *, match: str = "satisfies", may_fit: bool = False) -> Allowed | Denied:
    return validate(read(made, now, match=Match(match)).request, decided(now, may_fit=may_fit))


def under(*, unknown: int = 0, **labels: str) -> Cluster:
    return cluster([TWO], unknown=unknown, labels=labels)


# Admitted, and what is said.

BEST_EFFORT = raw(ONE_GPU, policy="best-effort")
CPUS_AND_GPUS = raw(ONE_GPU, annotations={POLICY: SINGLE, RESOURCES: f"cpu,{GPU}"})
OPTED_OUT = raw(ONE_GPU, policy="none")


# Of which pods it is said is held of admission itself.
ADMITTED = [
    # what it shows                      the pod      the cluster                            what is said
    ("a pod that fits",                  FITS,        ROOM,                                  []),
    ("less than is audited",             BEST_EFFORT, under(audit="restricted"),             []),
    ("warned twice",
        BEST_EFFORT, cluster([FULL], labels={"warn": "restricted"}),
        ["numalign: this namespace expects NUMA alignment restricted; the pod requests best-effort",
         "numalign: no node can provide best-effort alignment now; the pod will stay pending"]),
]  # fmt: skip


@pytest.mark.parametrize(("made", "now", "texts"), table(ADMITTED))
def test_a_pod_is_admitted(made: Raw, now: Cluster, texts: list[str]) -> None:
    answer = verdict(made, now)
    assert isinstance(answer, Allowed)
    assert answer.warnings == tuple(texts)


# Refused.

NEVER_FITS = (
    'numalign: no node can align container "c0" as single-numa-node (0 of {}):'
    " 1 has at most 2 nvidia.com/gpu in one NUMA zone{}. Request at most 2 nvidia.com/gpu."
)


def enforced(level: str, requested: str, choices: str) -> str:
    return (
        f'numalign: namespace "team" enforces NUMA alignment of at least {level}, and the pod requests'
        f" {requested}. Set annotation {POLICY} to {choices}."
    )


RESTRICTED_UP = "restricted or single-numa-node"

DENIED = [
    # what it shows          the pod         the cluster            the text
    ("it fits no node",      NEVER,          ROOM,                  NEVER_FITS.format("1 node", "")),
    ("it says less",                     BEST_EFFORT, under(enforce="restricted"),
        enforced("restricted", "best-effort", RESTRICTED_UP)),
]  # fmt: skip


@pytest.mark.parametrize(("made", "now", "text"), table(DENIED))
def test_a_pod_is_refused(made: Raw, now: Cluster, text: str) -> None:
    refused = verdict(made, now)
    assert isinstance(refused, Denied)
    assert (refused.reason, refused.message) == (StatusReason.FORBIDDEN, text)


def test_denial_is_audited_with_state_policy_and_level() -> None:
    assert verdict(NEVER, under(enforce=SINGLE)).audit == {
        "verdict": "denied",
        "state": "never",
        "policy": SINGLE,
        "level": SINGLE,
    }
    assert verdict(SILENT, under(enforce="restricted")).audit == {
        "verdict": "denied",
        "state": "below-enforced",
        "policy": "nothing",
        "level": "restricted",
    }
    assert "level" not in verdict(NEVER, under()).audit


# Pods that somebody has placed.


# The nodes of the notation are called "node"; the sentences are cut where clients would cut them.


def on_node(made: Raw, name: str = "node") -> Raw:
    return with_spec(made, nodeName=name)


# Length.

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
    answer = verdict(on_node(made) if placed else made, cluster([FULL], labels=labels))

    assert all(
        len(texts) <= LONGEST_WARNING or any(text in texts for text in LONG) for texts in answer.warnings
    )
    assert all(len(texts) <= LONGEST_SHOWN for texts in answer.warnings)


# The audit log.

AUDITED = [
    # the pod, the labels of its namespace, what the audit log keeps
    ("its policy",            FITS,      {},                        "admitted with single-numa-node"),
    ("a default",             SILENT,    {"default": "restricted"}, "admitted with restricted"),
    ("silence",               SILENT,    {"warn": "none"},          "admitted with nothing"),
    ("an opt-out",            OPTED_OUT, {"warn": "none"},          "admitted with none"),
    ("less than is audited",      BEST_EFFORT, {"audit": SINGLE},
        "admitted with best-effort, below single-numa-node"),
    ("silence where one audits",  SILENT,      {"audit": SINGLE},
        "admitted with nothing, below single-numa-node"),
    ("as much as is audited", FITS,      {"audit": SINGLE},         "admitted with single-numa-node"),
    ("fewer resources",       CPUS_AND_GPUS, {"audit": "restricted"},
        "admitted with single-numa-node, below restricted: numalign.io/resources lacks memory"),
    ("a refusal",             NEVER,     {},                        "denied"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "labels", "kept"), table(AUDITED))
def test_the_audit_log_keeps(made: Raw, labels: dict[str, str], kept: str) -> None:
    assert verdict(made, cluster([TWO], labels=labels)).audit["verdict"] == kept


# Pods that cannot be read.


def test_invalid_pod_is_denied_with_every_mistake() -> None:
    mistakes = (Mistake("spec.a", "is missing"), Mistake("spec.b", "is wrong", "x y", 2), Mistake("c", "d"))

    assert refuse_broken(InvalidPod(mistakes)) == Denied(
        reason=StatusReason.INVALID,
        message="numalign: spec.a: is missing (and 2 more)",
        causes=mistakes,
        audit={"verdict": "invalid"},
    )
