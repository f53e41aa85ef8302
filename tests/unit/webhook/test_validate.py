"""Yes, no and what is said, as tables."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.model.errors import Mistake
from numalign.model.intent import RESOURCES, Match
from numalign.model.node import MemoryManager
from tests.unit.webhook.conftest import POLICY, Cluster, Raw, cluster, decided, raw, read, with_spec
from tests.worlds.notation import GPU, node, table
from webhook.review import Allowed, Denied, StatusReason
from webhook.subject import InvalidPod
from webhook.validate import LONGEST_SHOWN, LONGEST_WARNING, refuse_broken, validate

SINGLE = "single-numa-node"

TWO = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy=SINGLE)
FULL = node("cpu=8/8/1 mem=8Gi gpu=2", "cpu=8/8/1 mem=8Gi gpu=2", policy=SINGLE)
LOOSE = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy="none")

ROOM = cluster([TWO])

ONE_GPU, FOUR_GPUS = "cpu=2 mem=1Gi gpu=1", "cpu=2 mem=1Gi gpu=4"
FITS = raw(ONE_GPU, policy=SINGLE)
NEVER = raw(FOUR_GPUS, policy=SINGLE)
SILENT = raw(ONE_GPU)
SHARED = raw("cpu=1..2 mem=1Gi")
MESH = raw(ONE_GPU, "", policy=SINGLE)


def verdict(made: Raw, now: Cluster, *, match: str = "satisfies", may_fit: bool = False) -> Allowed | Denied:
    return validate(read(made, now, match=Match(match)).request, decided(now, may_fit=may_fit))


def under(*, unknown: int = 0, **labels: str) -> Cluster:
    """A node of two GPUs a zone, and these labels on the namespace."""
    return cluster([TWO], unknown=unknown, labels=labels)


# Admitted, and what is said.

BEST_EFFORT = raw(ONE_GPU, policy="best-effort")
CPUS_AND_GPUS = raw(ONE_GPU, annotations={POLICY: SINGLE, RESOURCES: f"cpu,{GPU}"})
NO_MEMORY = replace(TWO, memory_manager=MemoryManager.NONE)
OPTED_OUT = raw(ONE_GPU, policy="none")

FOR_DEDICATED = [{"key": "CPUAffinity", "value": "dedicated", "effect": "NoSchedule"}]

# Of which pods it is said is held of admission itself.
ADMITTED = [
    # what it shows                      the pod      the cluster                            what is said
    ("a pod that fits",                  FITS,        ROOM,                                  []),
    ("as much as is enforced",           FITS,        under(enforce=SINGLE),                 []),
    ("no level for what nobody aligns",  SHARED,      under(enforce=SINGLE),                 []),
    ("enough by the default",            SILENT,      under(enforce=SINGLE, default=SINGLE), []),
    ("all that these kubelets align",    CPUS_AND_GPUS, cluster([NO_MEMORY], labels={"enforce": SINGLE}), []),
    ("less than is audited",             BEST_EFFORT, under(audit="restricted"),             []),
    ("a pod for nodes that it is not for", with_spec(SHARED, tolerations=FOR_DEDICATED), ROOM,
        ['numalign: it tolerates CPUAffinity=dedicated, but container "c0" gets no exclusive CPUs']),
    ("a daemon that tolerates everything",
        with_spec(FITS, tolerations=[{"operator": "Exists"}]), ROOM,           []),
    ("a pod that is to be alone",
        raw(ONE_GPU, annotations={POLICY: SINGLE, "numalign.io/exclusive": "zone"}), ROOM, []),
    ("a sidecar without limits",
        MESH, ROOM,
        [(f'numalign: {SINGLE} applies to {GPU} only: cpu and memory are not pinned, because container "c1"'
          " sets no cpu limit (the pod is Burstable)")]),
    ("warned twice",
        BEST_EFFORT, cluster([FULL], labels={"warn": "restricted"}),
        ["numalign: this namespace expects NUMA alignment restricted; the pod requests best-effort",
         "numalign: no node can provide best-effort alignment now; the pod will stay pending"]),
]  # fmt: skip


@pytest.mark.parametrize(("made", "now", "said"), table(ADMITTED))
def test_a_pod_is_admitted(made: Raw, now: Cluster, said: list[str]) -> None:
    answer = verdict(made, now)

    assert isinstance(answer, Allowed)
    assert answer.warnings == tuple(said)


# Refused.

NEVER_FITS = (
    'numalign: no node can align container "c0" as single-numa-node (0 of {}):'
    " 1 has at most 2 nvidia.com/gpu in one NUMA zone{}. Request at most 2 nvidia.com/gpu."
)


def enforced(level: str, asked: str, choices: str) -> str:
    return (
        f'numalign: namespace "team" enforces NUMA alignment of at least {level}, and the pod requests'
        f" {asked}. Set annotation {POLICY} to {choices}."
    )


RESTRICTED_UP = "restricted or single-numa-node"

DENIED = [
    # what it shows          the pod         the cluster            the text
    ("it fits no node",      NEVER,          ROOM,                  NEVER_FITS.format("1 node", "")),
    ("unknown nodes do not save it",     NEVER,       under(unknown=3),
        NEVER_FITS.format("4 nodes", ", 3 publish no NUMA topology")),
    ("it says less",                     BEST_EFFORT, under(enforce="restricted"),
        enforced("restricted", "best-effort", RESTRICTED_UP)),
    ("even where nothing is known",      SILENT,      cluster([], labels={"enforce": "restricted"}),
        enforced("restricted", "none", RESTRICTED_UP)),
    ("it lists less than kubelets align", CPUS_AND_GPUS, under(enforce="restricted"),
        ('numalign: namespace "team" enforces NUMA alignment of at least restricted, and'
         " numalign.io/resources lacks memory. Add what is missing, or remove the annotation.")),
    ("a level, before that it never fits", raw(FOUR_GPUS, policy="best-effort"), under(enforce=SINGLE),
        enforced(SINGLE, "best-effort", SINGLE)),
]  # fmt: skip


@pytest.mark.parametrize(("made", "now", "text"), table(DENIED))
def test_a_pod_is_refused(made: Raw, now: Cluster, text: str) -> None:
    refused = verdict(made, now)
    assert isinstance(refused, Denied)
    assert (refused.reason, refused.message) == (StatusReason.FORBIDDEN, text)


def test_of_a_refusal_the_audit_log_keeps_what_it_rests_on() -> None:
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


def test_a_policy_is_advised_only_if_the_namespace_would_take_it() -> None:
    lax, strict = cluster([TWO, LOOSE]), cluster([TWO, LOOSE], labels={"enforce": "restricted"})

    answers = verdict(NEVER, lax), verdict(NEVER, strict)

    assert all(isinstance(answer, Denied) for answer in answers)
    assert ['set annotation numalign.io/policy to "best-effort"' in repr(answer) for answer in answers] == [
        True,
        False,
    ]


# Pods that somebody has placed.

OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1", "controller": True}


# The nodes of the notation are called "node"; the sentences are cut where clients would cut them.


def on_node(made: Raw, name: str = "node") -> Raw:
    return with_spec(made, nodeName=name)


def of_daemon(made: Raw) -> Raw:
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [OWNER]}}


NODE_ZERO = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node"]}]}


def crowded(made: Raw) -> Raw:
    """With so many terms, each of which names the same node, that they are not read."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_ZERO] * 513}}
    return with_spec(made, affinity={"nodeAffinity": required})


def test_a_pod_with_more_terms_than_are_read_is_not_placed_and_its_owner_is_warned() -> None:
    answer = verdict(crowded(FITS), ROOM)

    assert isinstance(answer, Allowed)
    assert answer.warnings == (
        "numalign: the pod was not changed: its node affinity has more than 512 terms",
    )
    assert isinstance(verdict(crowded(NEVER), ROOM), Denied)


@pytest.mark.parametrize("made", [on_node(SILENT), of_daemon(SILENT)], ids=["on a node", "of a DaemonSet"])
def test_a_namespace_enforces_its_policy_on_placed_pods_too(made: Raw) -> None:
    assert isinstance(verdict(made, under(enforce="restricted")), Denied)


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

    assert all(len(said) <= LONGEST_WARNING or any(text in said for text in LONG) for said in answer.warnings)
    assert all(len(said) <= LONGEST_SHOWN for said in answer.warnings)


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


def test_a_broken_pod_is_invalid_with_every_mistake_at_its_place() -> None:
    mistakes = (Mistake("spec.a", "is missing"), Mistake("spec.b", "is wrong", "x y", 2), Mistake("c", "d"))

    assert refuse_broken(InvalidPod(mistakes)) == Denied(
        reason=StatusReason.INVALID,
        message="numalign: spec.a: is missing (and 2 more)",
        causes=mistakes,
        audit={"verdict": "invalid"},
    )
