"""Which pods are admitted, and the warnings for their owners, as a table of what is known of a cluster."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache import ClusterCache, Question
from numalign.cache.admission import (
    AdmissionDecision,
    Reaction,
    Refusals,
    RequestReaction,
    answered,
    decide,
    invalid_text,
    shortfalls,
)
from numalign.cache.admission import AdmissionState as State
from numalign.cache.pod_question import ExceededLimit, Pin, PinReason, PodQuestion, StatedBy
from numalign.model import demand
from numalign.model.attributes import OS_LABEL, Attributes, Labels, Taint
from numalign.model.constraints import Constraints, Operator, Requirement, Term, Tolerating, Toleration
from numalign.model.errors import Mistake
from numalign.model.intent import UNRULED, NamespaceRules, Policy
from numalign.model.node import Node
from numalign.model.steps import finished
from numalign.shapes import GrowablePools, KnownShape, LeftOut, Pool, UnknownNode
from numalign.shapes.growable_pools import BUILT_IN
from numalign.shapes.shape import of
from tests.worlds.naming import named
from tests.worlds.notation import GPU, NIC, asks, bag, means, node, pod, table

SINGLE = "single-numa-node"
NOW = 1_000_000.0
HOUR = 3600.0

TWO = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy=SINGLE)
FOUR = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy=SINGLE)
FULL = node("cpu=8 mem=8Gi gpu=2/2/0", "cpu=8 mem=8Gi gpu=2/2/0", policy=SINGLE)
LARGER = node("cpu=16 mem=8Gi gpu=4", "cpu=16 mem=8Gi gpu=4", policy=SINGLE)
LOOSE = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy="none")
VAST = node(*["cpu=8 mem=8Gi gpu=2"] * 18, policy=SINGLE)
"""More zones than are evaluated."""


def request(*containers: str, policy: str = SINGLE, **more: Any) -> PodQuestion:  # noqa: ANN401  its fields
    """The question of a pod with its own policy, in a namespace without rules."""
    question = Question(asks(*containers), means(policy))
    facts = {"constraints": Constraints(), "rules": UNRULED, "namespace": "team", "by": StatedBy.POD}
    return PodQuestion(question=question, **{**facts, "pin": None, "excess": None, **more})


def cache_of(
    *nodes: Node,
    known: tuple[KnownShape, ...] = (),
    bare: tuple[UnknownNode, ...] = (),
    left_out: LeftOut | None = None,
    pools: GrowablePools = BUILT_IN,
) -> ClusterCache:
    return ClusterCache.of(named(nodes), known, {each.name: each for each in bare}, left_out, pools)


ONE_GPU, THREE_GPUS = "cpu=2 mem=1Gi gpu=1", "cpu=2 mem=1Gi gpu=3"
FITS, LARGE = request(ONE_GPU), request(THREE_GPUS)
RESERVING = node("cpu=8/6 mem=8Gi", "cpu=8 mem=8Gi", policy=SINGLE)
ANCHORED = request("init cpu=1 mem=1Gi", "cpu=7 mem=1Gi")
"""The init container gets a CPU of the first zone, where the other one does not fit."""
GOLD = Constraints(selector=(Requirement("tier", Operator.IN, frozenset({"gold"})),))
ZONE_C = Constraints(selector=(Requirement("topology.kubernetes.io/zone", Operator.IN, frozenset("c")),))
IN_A, IN_C = (Attributes(Labels({"topology.kubernetes.io/zone": zone})) for zone in "ac")
GOLDEN = replace(TWO, attributes=Attributes(Labels({"tier": "gold"})))
TAINTED = replace(FOUR, attributes=Attributes(taints=(Taint("dedicated", "gpu"),)))
LINUX = replace(TWO, attributes=Attributes(Labels({OS_LABEL: "linux"}), os="linux"))
AWAY = replace(FOUR, attributes=Attributes(cordoned=True))
NOT_READY = replace(FOUR, attributes=Attributes(ready=False))
ILL = replace(
    node("cpu=8 mem=8Gi gpu=4//0", "cpu=8 mem=8Gi gpu=4//0", policy=SINGLE, totals="cpu=16 mem=16Gi gpu=0"),
    health=node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy=SINGLE, totals="cpu=16 mem=16Gi gpu=8"),
)
REPORTING = replace(TWO, totals=bag("cpu=16 mem=16Gi gpu=4"))
LARGE_BARE = UnknownNode("new", bag("cpu=16 mem=16Gi gpu=8"))
SMALL_BARE = UnknownNode("old", bag("cpu=16 mem=16Gi"))
UNTOLD_BARE = UnknownNode("who", None)

WAITS = "no node can provide single-numa-node alignment now; the pod will stay pending"
NOT_KEPT = (
    "no known node shape can align the pod, but not all that were seen are remembered; it may stay pending"
)
NOT_MATCHED = (
    "NUMA alignment was not checked: node selector, affinity, OS and tolerations match no known node"
)
IN_VAIN = (
    "single-numa-node has no effect: the pod requests no devices, and cpu and memory are not pinned, because"
    ' container "c0" requests 1 cpu, and its limit is 2 (the pod is Burstable)'
)
MAY = "no node with a NUMA topology can align the pod; 1 node without one may"
NOT_EVALUATED = "not evaluated: placing 1 container on so many NUMA zones takes too long"
REUSES = (
    'for container "c1" it would spread 7 cpu and 1Gi memory over more than one NUMA zone, as it must reuse'
    ' the CPUs of init container "c0" in zone 0'
)
WHEN_EMPTY = [
    f"an empty node would reject the pod, because {REUSES}",
    'an empty node would admit it if init container "c0" requested no whole number of CPUs',
    'an empty node would admit it if the Topology Manager scope was "pod"',
]
MISSPELT = 'no node lists the resource "nvidia.com/gpuu"; did you mean "nvidia.com/gpu"?'
CLAIMED = 'DRA devices give the kubelet no topology hints: alignment of claim "nic" is unknown'

TOO_LARGE = (
    f'no node can align container "c0" as {SINGLE} (0 of 1 node): 1 has at most 2 {GPU} in one NUMA zone'
)
DEFAULT_POOL = Pool("karpenter.sh/nodepool", "default")
GROWS = f"node pool {DEFAULT_POOL} may get other nodes; now"
POOLED_LABELS = Attributes(Labels({DEFAULT_POOL.key: "default"}))
POOLED = replace(TWO, attributes=POOLED_LABELS)
POOLED_BARE = replace(SMALL_BARE, attributes=POOLED_LABELS)
IN_DEFAULT = Requirement(DEFAULT_POOL.key, Operator.IN, frozenset({"default"}))
GOLD_OR_DEFAULT = Constraints(terms=(Term(GOLD.selector), Term((IN_DEFAULT,))))

ADMITTED = [
    # what it shows                 the pod, the cluster, the state and what is told
    ("a node has room",
        FITS, cache_of(TWO), State.FITS, []),
    ("none has room now",
        FITS, cache_of(FULL), State.WAITS, [WAITS]),
    ("nodes that could take it are elsewhere, and others are where it must go",
        replace(LARGE, constraints=ZONE_C),
        cache_of(replace(FOUR, attributes=IN_A), replace(TWO, attributes=IN_C)), State.NO_NODE_HERE,
        ["nodes that could align the pod exist, but it may not be scheduled to them now"]),
    ("a node without topology that could take it is elsewhere",
        replace(LARGE, constraints=ZONE_C),
        cache_of(replace(TWO, attributes=IN_C), bare=(replace(LARGE_BARE, attributes=IN_A),)),
        State.UNKNOWN_NODE, [MAY]),
    ("not all that were seen are kept",
        LARGE, cache_of(TWO, left_out=LeftOut(NOW)), State.NO_NODE_HERE, [NOT_KEPT]),
    ("those that are not kept may list what it asks for",
        LARGE, cache_of(TWO, left_out=LeftOut(NOW, frozenset({GPU}))), State.NO_NODE_HERE, [NOT_KEPT]),
    ("the pool that it names, which had no node yet, or another node that is too small",
        replace(LARGE, constraints=GOLD_OR_DEFAULT), cache_of(GOLDEN), State.UNKNOWN_NODE,
        [f"{GROWS} {TOO_LARGE}"]),
    ("a DaemonSet whose pool may grow",
        replace(LARGE, pin=Pin(None, PinReason.DAEMON_SET)), cache_of(POOLED), State.PLACED, []),
    ("two that do not answer, and one that says no",
        LARGE, cache_of(VAST, VAST, TWO), State.FITS, [f"2 nodes were {NOT_EVALUATED}"]),
    ("only a node in use, which is empty now",
        ANCHORED, cache_of(RESERVING), State.WAITS, [WAITS, *WHEN_EMPTY]),
    ("nothing to align",
        request("cpu=1..2 mem=1Gi"), cache_of(TWO), State.NOTHING_TO_ALIGN, [IN_VAIN]),
    ("a policy for what it does not ask for",
        replace(FITS, question=Question(asks(ONE_GPU), means(f"{SINGLE} nic"))),
        cache_of(TWO), State.NOTHING_TO_ALIGN,
        ['numalign.io/resources: no container requests "example.com/nic"',
         "numalign.io/resources lists nothing that a kubelet could align for this pod"]),
    ("too much of something to be steered",
        replace(FITS, excess=ExceededLimit.OWNERS), cache_of(TWO), State.FITS,
        [f"the pod was not changed: {ExceededLimit.OWNERS}"]),
    ("devices that come by DRA",
        replace(FITS, claims=("nic",)), cache_of(TWO), State.FITS, [CLAIMED]),
    ("less than the namespace wants",
        replace(FITS, rules=NamespaceRules(warn=Policy.SINGLE_NUMA_NODE),
                question=Question(asks(ONE_GPU), means("restricted"))),
        cache_of(TWO), State.FITS, [("this namespace expects NUMA alignment single-numa-node; the pod"
                                    " requests restricted")]),
    ("less than the namespace wants of its resources",
        replace(FITS, left_out=("cpu", GPU), rules=NamespaceRules(warn=Policy.SINGLE_NUMA_NODE)),
        cache_of(TWO), State.FITS,
        [f"this namespace expects NUMA alignment {SINGLE}; numalign.io/resources lacks cpu and {GPU}"]),
    ("its own node is too small",
        replace(LARGE, pin=Pin("two", PinReason.NODE_NAME)), cache_of(replace(TWO, name="two")), State.PLACED,
        [f"node two cannot align the pod: it has at most 2 {GPU} in one NUMA zone"]),
    ("its own node has no room now",
        replace(FITS, pin=Pin("full", PinReason.NODE_NAME)), ClusterCache.of([replace(FULL, name="full")]),
        State.PLACED,
        [f"node full cannot align the pod now: it has no {GPU} free in any NUMA zone"]),
    ("a DaemonSet that no node could take",
        replace(LARGE, pin=Pin(None, PinReason.DAEMON_SET)), cache_of(TWO), State.PLACED,
        ["a DaemonSet owns it, but no node can ever align the pod"]),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "cluster", "state", "warnings"), table(ADMITTED))
def test_a_pod_is_admitted(
    pod: PodQuestion, cluster: ClusterCache, state: State, warnings: list[str]
) -> None:
    decision = decided(pod, cluster)

    assert (decision.state, decision.refusal, decision.all_warnings) == (state, None, tuple(warnings))


LESS = f"Request at most 2 {GPU}."
ENFORCED = (
    'namespace "team" enforces NUMA alignment of at least single-numa-node, and the pod requests restricted.'
    " Set annotation numalign.io/policy to single-numa-node."
)

REFUSED = [
    # what it shows                 the pod, the cluster, the state and why
    ("no shape could take it",
        LARGE, cache_of(TWO), State.NEVER, f"{TOO_LARGE}. {LESS}"),
    ("no shape could take it, whatever its operating system",
        replace(LARGE, constraints=Constraints(os="windows")), cache_of(LINUX), State.NEVER,
        f"{TOO_LARGE}. {LESS}"),
    ("no shape that it may go to, others are counted",
        replace(LARGE, constraints=GOLD), cache_of(LARGER, GOLDEN), State.NEVER,
        (f'no node can align container "c0" as {SINGLE} (0 of 2 nodes): 1 has at most 2 {GPU} in one NUMA'
         f" zone, 1 didn't match the pod's node affinity/selector. {LESS}")),
    ("and those that are not kept list nothing of what it asks for",
        LARGE, cache_of(TWO, left_out=LeftOut(NOW, frozenset({NIC}))), State.NEVER, f"{TOO_LARGE}. {LESS}"),
    ("the namespace enforces more",
        replace(request(ONE_GPU, policy="restricted"), rules=NamespaceRules(enforce=Policy.SINGLE_NUMA_NODE)),
        cache_of(TWO), State.BELOW_ENFORCED, ENFORCED),
    ("it enforces it for more than the pod lists",
        replace(FITS, left_out=("cpu", GPU), rules=NamespaceRules(enforce=Policy.RESTRICTED)),
        cache_of(TWO), State.BELOW_ENFORCED,
        ('namespace "team" enforces NUMA alignment of at least restricted, and numalign.io/resources lacks'
         f" cpu and {GPU}. Add what is missing, or remove the annotation.")),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "cluster", "state", "why"), table(REFUSED))
def test_a_pod_is_denied(pod: PodQuestion, cluster: ClusterCache, state: State, why: str) -> None:
    assert decided(pod, cluster) == AdmissionDecision(state, why)


def test_no_policy_below_an_exclusive_request_is_advised() -> None:
    pod = request(THREE_GPUS)
    alone = replace(pod, question=replace(pod.question, intent=replace(pod.question.intent, exclusive=True)))
    nodes = cache_of(TWO, replace(TWO, policy=Policy.BEST_EFFORT))
    loose, strict = decided(pod, nodes).refusal, decided(alone, nodes).refusal

    assert loose
    assert strict
    assert 'set annotation numalign.io/policy to "best-effort"' in loose
    assert 'set annotation numalign.io/policy to "restricted"' not in strict
    assert "best-effort" not in strict


FOR_DEDICATED = Constraints(tolerations=(Toleration("CPUAffinity", Tolerating.EQUAL, "dedicated"),))
SHARES = 'it tolerates CPUAffinity=dedicated, but container "c0" gets no exclusive CPUs'
CHANGE = "Set equal requests and limits and whole CPUs in every container, or remove the toleration."
SHARING = replace(request("cpu=500m mem=1Gi", policy="none", by=None), constraints=FOR_DEDICATED)

MESH = request("cpu=2 mem=1Gi gpu=1", "")
PARTLY = (
    f'{SINGLE} applies to {GPU} only: cpu and memory are not pinned, because container "c1" sets no cpu limit'
    " (the pod is Burstable)"
)
BESIDE = (
    f"{SINGLE} applies to part of cpu, memory and {GPU} only: the rest of cpu is not pinned, because"
    ' container "c1" requests 500m cpu, which is not a whole number'
)
EQUALIZE = (
    "Set equal requests and limits and whole CPUs in every container, or list in numalign.io/resources only"
    " what is to be aligned."
)
WARNED_OF = AdmissionDecision(State.FITS, unpinned=PARTLY)
DENIED = AdmissionDecision(State.PARTLY_ALIGNED, f"{PARTLY}. {EQUALIZE}")
BEST_EFFORT = replace(MESH, question=MESH.question.with_policy(Policy.BEST_EFFORT))
AT_POD_LEVEL = replace(
    FITS, question=Question(demand.of(pod("gpu=1", limits="cpu=2 mem=1Gi")), means(SINGLE))
)
GPUU = request("cpu=2 mem=1Gi nvidia.com/gpuu=1")
ELSEWHERE = Constraints((Requirement("pool", Operator.IN, frozenset({"nowhere"})),))
LOOSELY = replace(request("cpu=500m mem=1Gi gpu=1", policy="restricted"), constraints=FOR_DEDICATED,
                  rules=NamespaceRules(enforce=Policy.SINGLE_NUMA_NODE))  # fmt: skip
STRICT = Refusals(unknown_resources=Reaction.DENY)
DENY_PARTS, DENY_TAINTS = Refusals(partial=RequestReaction.DENY), Refusals(taints=RequestReaction.DENY)

DECIDED = [
    # what it shows                       the pod, the refusals, and what is decided
    ("best-effort is never denied for nodes",
        request("cpu=2 mem=1Gi gpu=6", policy="best-effort"), Refusals(),
        AdmissionDecision(State.NEVER, waived=("no node can align the pod as best-effort (0 of 1 node): 1 has"
                                               f" at most 4 {GPU} in total."))),
    ("a toleration that contradicts requests is warned of",
        SHARING, Refusals(), AdmissionDecision(State.NOT_ASKED, warnings=(SHARES,))),
    ("it is refused where that is wanted",
        SHARING, DENY_TAINTS, AdmissionDecision(State.CONTRADICTS_TAINT, f"{SHARES}. {CHANGE}")),
    ("who is placed has to tolerate anything",
        replace(SHARING, pin=Pin("a", PinReason.DAEMON_SET)), DENY_TAINTS,
        AdmissionDecision(State.NOT_ASKED)),
    ("a toleration is told beside all else",
        replace(request("cpu=500m mem=1Gi gpu=1", policy="restricted gpu"), constraints=FOR_DEDICATED),
        Refusals(), AdmissionDecision(State.FITS, warnings=(SHARES,))),
    ("what a namespace enforces is told before a toleration",
        LOOSELY, DENY_TAINTS, AdmissionDecision(State.BELOW_ENFORCED, ENFORCED)),
    ("a policy that applies to a part is warned of", MESH, Refusals(), WARNED_OF),
    ("a part is refused where that is wanted",       MESH, DENY_PARTS, DENIED),
    ("nothing is said of a part where that is wanted",
        MESH, Refusals(partial=RequestReaction.IGNORE), AdmissionDecision(State.FITS)),
    ("a policy that applies to all",         FITS, DENY_PARTS, AdmissionDecision(State.FITS)),
    ("a sidecar with a part of a CPU beside whole ones",
        request(ONE_GPU, "cpu=500m mem=1Gi"), DENY_PARTS, AdmissionDecision(State.FITS, unpinned=BESIDE)),
    ("best-effort guarantees nothing",
        BEST_EFFORT, DENY_PARTS, replace(WARNED_OF, unpinned=PARTLY.replace(SINGLE, "best-effort"))),
    ("who is placed already is not refused",
        replace(MESH, pin=Pin("a", PinReason.DAEMON_SET)), DENY_PARTS,
        replace(WARNED_OF, state=State.PLACED)),
    ("a policy without any effect is no part",
        request("cpu=1..2 mem=1Gi"), DENY_PARTS,
        AdmissionDecision(State.NOTHING_TO_ALIGN, unpinned=IN_VAIN)),
    ("what a namespace enforces is told before a part",
        replace(MESH, rules=LOOSELY.rules, question=MESH.question.with_policy(Policy.RESTRICTED)),
        DENY_PARTS, AdmissionDecision(State.BELOW_ENFORCED, ENFORCED)),
    ("a resource that no node lists is refused where that is wanted",
        GPUU, STRICT, AdmissionDecision(State.UNKNOWN_RESOURCE, MISSPELT)),
    ("it is not in the first week",
        GPUU, replace(STRICT, never=Reaction.WARN),
        AdmissionDecision(State.UNKNOWN_RESOURCE, waived=MISSPELT)),
    ("it is not where it is best-effort",
        replace(GPUU, question=GPUU.question.with_policy(Policy.BEST_EFFORT)), STRICT,
        AdmissionDecision(State.UNKNOWN_RESOURCE, waived=MISSPELT)),
    ("it is told beside a selector that matches nothing",
        replace(GPUU, constraints=ELSEWHERE), Refusals(),
        AdmissionDecision(State.UNKNOWN_RESOURCE, warnings=(MISSPELT, NOT_MATCHED))),
    ("it is not where the pool that it names may list it",
        replace(GPUU, constraints=Constraints((IN_DEFAULT,))), STRICT,
        AdmissionDecision(State.UNKNOWN_RESOURCE, warnings=(MISSPELT, NOT_MATCHED))),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "refusals", "decision"), table(DECIDED))
def test_refusals_are_chosen(pod: PodQuestion, refusals: Refusals, decision: AdmissionDecision) -> None:
    assert decided(pod, cache_of(REPORTING), refusals) == decision


def test_pod_level_resources_are_no_reason_to_deny() -> None:
    decision = decided(AT_POD_LEVEL, cache_of(TWO), Refusals(partial=RequestReaction.DENY))

    assert decision.state is State.FITS
    assert "the pod sets spec.resources" in (decision.unpinned or "")


UNREQUESTED = [
    # what it shows                     the annotation                   what is told
    ("all is requested",                "cpu memory gpu",                []),
    ("the last part of a name",         "cpu gpus",                      [("gpus", GPU)]),
    ("one that only nodes list",        "cpu memory nvidia.com/gpu hca", [("hca", "rdma/hca")]),
    ("a prefix of what nodes list",     "cpu memory gpu rdma/*",         [("rdma/*", None)]),
    ("too many",                        " ".join("abcdef"),              [(each, None) for each in "abcd"]),
]  # fmt: skip


@pytest.mark.parametrize(("listed", "warnings"), table(UNREQUESTED))
def test_a_listed_resource_may_not_be_requested(listed: str, warnings: list[tuple[str, str | None]]) -> None:
    nodes = cache_of(node("cpu=8 mem=8Gi gpu=2 rdma/hca=1", policy=SINGLE))
    pod = replace(FITS, question=Question(asks(ONE_GPU), means(f"{SINGLE} {listed}")))

    hints = [f'"{name}"; did you mean "{meant}"?' if meant else f'"{name}"' for name, meant in warnings]

    assert [text for text in decided(pod, nodes).warnings if "no container requests" in text] == [
        f"numalign.io/resources: no container requests {hint}" for hint in hints
    ]


def test_nodes_without_topology_may_not_count() -> None:
    for bare in (LARGE_BARE, POOLED_BARE):
        decision = decided(LARGE, cache_of(TWO, bare=(bare,)), Refusals(unknown_may_fit=False))

        assert (decision.state, bool(decision.refusal)) == (State.NEVER, True)


def test_no_pod_is_denied_for_a_resource_of_dra() -> None:
    large, mesh = (
        decide(pod, cache_of(TWO), Refusals(), now=NOW, served=frozenset({GPU})) for pod in (LARGE, MESH)
    )

    assert large.refusal is None
    assert any(text.startswith("DRA devices give the kubelet no topology") for text in large.warnings)
    assert mesh.unpinned is None


STEPS = [
    FITS, LARGE, replace(LARGE, constraints=GOLD), replace(LARGE, pin=Pin("node-0", PinReason.NODE_NAME)),
    replace(LARGE, pin=Pin(None, PinReason.DAEMON_SET)), request(ONE_GPU, policy="none"),
]  # fmt: skip


@pytest.mark.parametrize("pod", STEPS)
def test_steps_change_no_decision(pod: PodQuestion) -> None:
    patient, at_once = cache_of(TWO, GOLDEN, FULL), cache_of(TWO, GOLDEN, FULL)

    assert finished(patient.pace.in_steps(partial(decided, pod, patient))) == decided(pod, at_once)
    assert answered(pod, patient)


def test_a_pinned_node_that_does_not_answer_is_warned_of() -> None:
    pinned, alone = (
        replace(FITS, pin=Pin("vast", PinReason.NODE_NAME)),
        ClusterCache.of([replace(VAST, name="vast")]),
    )

    assert not answered(FITS, cache_of(VAST))
    assert not answered(pinned, alone)
    [warning] = decided(pinned, alone).warnings
    assert warning.startswith("node vast was not evaluated: it has too many NUMA zones to evaluate")


LEVELS = NamespaceRules(enforce=Policy.RESTRICTED, warn=Policy.SINGLE_NUMA_NODE, audit=Policy.BEST_EFFORT)
EVERY_LEVEL = ("enforce", "warn", "audit")

SHORT = [
    ("meets all but the tightest", request(ONE_GPU, policy="restricted"),      LEVELS, ("warn",)),
    ("meets none",                 request(ONE_GPU, policy="none"),            LEVELS, EVERY_LEVEL),
    ("leaves something out",       replace(FITS, left_out=(GPU,)),             LEVELS, EVERY_LEVEL),
    ("has nothing to align",       request("cpu=1..2 mem=1Gi", policy="none"), LEVELS, ()),
    ("meets a level of none", replace(FITS, left_out=(GPU,)), NamespaceRules(enforce=Policy.NONE), ()),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "rules", "levels"), table(SHORT))
def test_shortfalls_are_levels_that_a_pod_does_not_meet(
    pod: PodQuestion, rules: NamespaceRules, levels: tuple[str, ...]
) -> None:
    assert shortfalls(replace(pod, rules=rules)) == levels


def test_the_first_mistake_of_an_invalid_pod_is_named() -> None:
    mistakes = (Mistake("metadata.annotations[a]", "is wrong"), Mistake("spec", "is wrong too"))

    assert invalid_text(mistakes[:1]) == "metadata.annotations[a]: is wrong"
    assert invalid_text(mistakes) == "metadata.annotations[a]: is wrong (and 1 more)"


members = st.sampled_from([TWO, FOUR, FULL, LOOSE, GOLDEN, TAINTED, AWAY, NOT_READY, ILL])
pods = st.builds("cpu={} mem={}Gi gpu={}".format, st.integers(1, 9), st.integers(1, 9), st.integers(0, 9))
reactions = st.builds(Refusals, st.sampled_from(Reaction), st.sampled_from(Reaction), st.booleans())


@given(
    st.lists(members, max_size=4), pods, st.sampled_from(Policy), st.sampled_from([Constraints(), GOLD]),
    reactions, st.sampled_from([(), (LARGE_BARE,), (SMALL_BARE,), (UNTOLD_BARE,)]),
)  # fmt: skip
def test_no_pod_is_denied_when_nodes_leave(  # noqa: PLR0913, PLR0917  all that is drawn
    nodes: list[Node],
    pod: str,
    policy: Policy,
    constraints: Constraints,
    refusals: Refusals,
    bare: tuple[UnknownNode, ...],
) -> None:
    question = replace(request(pod, policy=policy), constraints=constraints)
    before = decided(question, cache_of(*nodes, bare=bare), refusals)
    remembered = tuple(KnownShape(of(each), seen=NOW) for each in nodes)
    emptied = decided(question, cache_of(known=remembered, bare=bare), refusals)

    # Nodes that leave take no hope along.
    assert (emptied.refusal is None) >= (before.refusal is None)
    # Whoever is not refused where refusals are made is not where none is.
    assert (
        decided(question, cache_of(*nodes, bare=bare), replace(refusals, never=Reaction.WARN)).refusal is None
    )


def decided(pod: PodQuestion, cluster: ClusterCache, refusals: Refusals = Refusals()) -> AdmissionDecision:  # noqa: B008
    return decide(pod, cluster, refusals, now=NOW)
