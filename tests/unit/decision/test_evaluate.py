"""Who refuses a pod and why: the node in total, what its kubelet aligns, the kubelet, the intent."""

from dataclasses import replace

import pytest

from numalign.decision import wording
from numalign.decision.doubts import Doubt
from numalign.decision.evaluate import UNSATISFIED, evaluate
from numalign.decision.verdict import Cause, Refusal, Refuser, Verdict
from numalign.model import demand
from numalign.model.demand import Demand
from numalign.model.intent import Policy
from numalign.model.node import Known, Node
from numalign.model.pod import Pod, Role
from numalign.model.resources import EMPTY
from tests.worlds.notation import GPU, NIC, asks, means, node, options, pod, table

TWO = ("cpu=16 mem=10Gi gpu=2", "cpu=16 mem=10Gi gpu=2")


def two(policy: str, *, scope: str = "container") -> Node:
    return node(*TWO, policy=policy, scope=scope)


LOOSE = two("best-effort")
TIGHT = two("single-numa-node")
OFF = two("none")
ONE = node("cpu=16 mem=10Gi gpu=2", policy="none")
NO_CPUS = node("mem=10Gi gpu=2", "mem=10Gi gpu=2", policy="best-effort", totals="cpu=32 mem=20Gi gpu=4")
SHARES = node("cpu=16 gpu=2", "cpu=16 gpu=2", policy="best-effort", totals="cpu=32 mem=20Gi gpu=4")

ANY, SPREAD, SINGLE = "best-effort", "restricted", "single-numa-node"

SMALL = "cpu=4 mem=4Gi gpu=1"
TALL = "cpu=20 mem=4Gi"
WIDE = "cpu=20 mem=12Gi gpu=3"


def refused(verdict: Verdict) -> Refusal:
    assert verdict.refusal
    return verdict.refusal


# Which zones have some resource is uncertain: nothing is refused for that.
LOST = replace(
    node("cpu=16 mem=10Gi", "cpu=16 mem=10Gi", policy="single-numa-node", totals="cpu=32 mem=20Gi gpu=8"),
    uncertain=frozenset({GPU}),
)
FREE_LOST = replace(TIGHT, uncertain=frozenset({GPU}))
UNCERTAIN = [
    # what it shows                        node       container              intent           verdict
    ("the zones of devices are uncertain", LOST,      "cpu=4 mem=1Gi gpu=8", SINGLE,          "admitted"),
    ("the intent may name them",           LOST,      "cpu=4 mem=1Gi gpu=8", f"{SINGLE} gpu", "admitted"),
    ("the node as a whole is known",       LOST,      "cpu=4 mem=1Gi gpu=9", SINGLE,          "never"),
    ("what zones list is known",           FREE_LOST, "cpu=4 mem=1Gi gpu=3", SINGLE,          "never"),
]  # fmt: skip


@pytest.mark.parametrize(("host", "container", "intent", "expected"), table(UNCERTAIN))
def test_no_refusal_rests_on_an_uncertain_resource(
    host: Node, container: str, intent: str, expected: str
) -> None:
    verdict = evaluate(host, asks(container), means(intent))
    assert ("admitted" if verdict.admitted else "never" if verdict.permanent else "later") == expected
    assert Doubt.ZONES in verdict.doubts


# Devices that DRA may serve count where zones list them.
BARE = node("cpu=16 mem=10Gi", "cpu=16 mem=10Gi", policy="single-numa-node", totals="cpu=32 mem=20Gi")
ILL = replace(BARE, health=TIGHT)
BY_DRA = [
    # what it shows                        node   container                    verdict
    ("a node without device plugins",      BARE,  "cpu=4 mem=1Gi gpu=8",       "admitted"),
    ("a device plugin's are aligned",      TIGHT, "cpu=4 mem=1Gi gpu=3",       "never"),
    ("a device plugin that is gone now",   ILL,   "cpu=4 mem=1Gi gpu=3",       "admitted"),
    ("what DRA does not serve is missing", BARE,  "cpu=4 mem=1Gi gpu=1 nic=1", "never"),
]  # fmt: skip


@pytest.mark.parametrize(("host", "container", "expected"), table(BY_DRA))
def test_devices_of_dra_listed_by_zones_are_evaluated(host: Node, container: str, expected: str) -> None:
    verdict = evaluate(host, replace(asks(container), by_dra=frozenset({GPU})), means(SINGLE))
    assert (verdict.admitted, verdict.permanent) == (expected == "admitted", expected == "never")


# On a best-effort node the intent decides.
KEPT = [
    # what it shows                 container                intent               cause
    ("all in one zone",             SMALL,                   SINGLE,              None),
    ("in as few zones as it takes", WIDE,                    SPREAD,              None),
    ("which are more than one",     WIDE,                    SINGLE,              "zones-too-small"),
    ("each its own few zones",      TALL,                    SPREAD,              "widths-differ"),
    ("only what is named counts",   TALL,                    "restricted memory", "spread"),
    ("devices of a Burstable pod",  "cpu=4.. gpu=2",         SINGLE,              None),
    ("a part of a CPU has no zone", "cpu=500m mem=4Gi",      SINGLE,              None),
    ("and cannot be named",         "cpu=500m mem=4Gi",      "restricted cpu",    "not-exclusive"),
    ("nor memory of a Burstable",   "cpu=4.. mem=4Gi gpu=1", "restricted memory", "not-exclusive"),
    ("a star names it as well",     "cpu=4..",               "restricted *",      "not-exclusive"),
]  # fmt: skip


@pytest.mark.parametrize(("container", "intent", "cause"), table(KEPT))
def test_intent_on_a_best_effort_node(container: str, intent: str, cause: str | None) -> None:
    verdict = evaluate(LOOSE, asks(container), means(intent))
    assert (verdict.refusal and verdict.refusal.cause) == cause
    if verdict.refusal:
        assert (verdict.refusal.refuser, verdict.refusal.reason) == (Refuser.INTENT, UNSATISFIED)
        assert verdict.refusal.policy is means(intent).policy


ALIGNED = [
    # what it shows                node     container            intent                cause
    ("policy none aligns nothing", OFF,     SMALL,               SINGLE,               "not-aligned"),
    ("even for shared CPUs",       OFF,     "cpu=4..",           SINGLE,               "not-aligned"),
    ("one zone is aligned anyway", ONE,     SMALL,               SINGLE,               None),
    ("cpu is off, and named",      NO_CPUS, SMALL,               "restricted cpu gpu", "not-aligned"),
    ("cpu is off, and not named",  NO_CPUS, SMALL,               SPREAD,               None),
    ("cpu is off, all resources",  NO_CPUS, "cpu=4.. mem=1Gi..", SPREAD,               None),
    ("memory is off, and named",   SHARES,  SMALL,               "restricted memory",  "not-aligned"),
]  # fmt: skip


@pytest.mark.parametrize(("host", "container", "intent", "cause"), table(ALIGNED))
def test_intent_on_a_node_that_aligns_less(
    host: Node, container: str, intent: str, cause: str | None
) -> None:
    verdict = evaluate(host, asks(container), means(intent))
    assert (verdict.refusal and verdict.refusal.cause) == cause


WHY_SHARED = [
    # what it shows                pod                                           because
    ("the pod is not Guaranteed",  pod("cpu=4.. mem=4Gi"),                       "the pod is Burstable"),
    ("not a whole number of CPUs", pod("cpu=1500m mem=4Gi"),                     "is not a whole number"),
    ("pod-level resources",        pod("mem=4Gi cpu=4", limits="cpu=4 mem=4Gi"), "sets spec.resources"),
]  # fmt: skip


@pytest.mark.parametrize(("shared", "because"), table(WHY_SHARED))
@pytest.mark.parametrize("name", ["cpu", "*"])
def test_refusal_names_why_cpus_are_shared(shared: Pod, because: str, name: str) -> None:
    verdict = evaluate(LOOSE, demand.of(shared), means(f"restricted {name}"))
    assert because in wording.of_node(verdict)


def test_refusal_names_unequal_limits_under_the_gate() -> None:
    gated = replace(LOOSE, options=options("PodLevelResourceManagers"))
    shared = demand.of(pod("cpu=1.. mem=1Gi..", requests=STATED, limits=STATED))
    why = refused(evaluate(gated, shared, means("restricted cpu"))).detail
    assert 'container "c0" does not set equal requests and limits' in why


MATCHED = [
    # what it shows           node   meant   cause
    ("the same word",         TIGHT, SINGLE, None),
    ("a looser word",         TIGHT, SPREAD, "other-policy"),
    ("a tighter word",        LOOSE, SPREAD, "other-policy"),
    ("best-effort is a word", TIGHT, ANY,    "other-policy"),
]  # fmt: skip


@pytest.mark.parametrize(("host", "intent", "cause"), table(MATCHED))
def test_match_equal_compares_policies(host: Node, intent: str, cause: str | None) -> None:
    verdict = evaluate(host, asks(SMALL), means(intent, match="equal"))
    assert (verdict.refusal and verdict.refusal.cause) == cause
    assert evaluate(host, asks(SMALL), means(intent)).admitted


SCOPED = [
    # what it shows                           of the node  of the intent admitted
    ("each container by itself",        "container", None,        True),
    ("all of them, as the node has it", "pod",       None,        False),
    ("all of them, across zones",       "pod",       "container", False),
]  # fmt: skip


@pytest.mark.parametrize(("node_scope", "scope", "admitted"), table(SCOPED))
def test_scope_of_node_and_intent_decides_the_unit(
    node_scope: str, scope: str | None, *, admitted: bool
) -> None:
    apps = asks("cpu=10 mem=4Gi | cpu=10 mem=4Gi")
    verdict = evaluate(two("best-effort", scope=node_scope), apps, means(SINGLE, scope=scope))
    assert verdict.admitted is admitted


def test_kubelet_refusal_precedes_the_intent() -> None:
    verdict = evaluate(TIGHT, asks(TALL))

    why = (Refuser.KUBELET, "TopologyAffinityError", Cause.ZONES_TOO_SMALL, Policy.SINGLE_NUMA_NODE)
    needs, shortages = refused(verdict).needs, refused(verdict).shortages
    assert refused(verdict) == Refusal(*why, "c0", Role.APP, needs, shortages)
    assert (verdict.known, len(verdict.doubts)) == (Known.COUNTS, 2)
    assert [(need.resource, need.asked, need.zones, need.most) for need in needs] == [
        ("cpu", 20_000, 1, 16_000),
        ("memory", 4 * 2**30, 1, 10 * 2**30),
    ]
    assert [*map(wording.shortage, shortages)] == [
        "zone 0: cpu 20 requested, 16 free",
        "zone 1: cpu 20 requested, 16 free",
    ]


CORES = node("cpu=8/6", "cpu=8", options=options("full-pcpus-only"), threads=2)
STATED = "cpu=4 mem=4Gi"


FULL = node("cpu=16 mem=10Gi//4Gi", "cpu=16 mem=10Gi//4Gi", policy="best-effort", blocks=[(0,), (1,)])
GATED = node(*TWO, policy="best-effort", scope="pod", options=options("PodLevelResourceManagers"))
WITHOUT_REST = demand.of(pod("cpu=4 mem=4Gi", "cpu=1.. mem=1Gi..", requests=STATED, limits=STATED))

REJECTED = [
    # what it shows, node, demand, reason
    #     cause, subject, by resource in how many zones it is needed
    ("memory in blocks of single zones", FULL, asks("cpu=2 mem=6Gi"), "UnexpectedAdmissionError",
         Cause.NOT_ALLOCATED, 'container "c0"', {"memory": 2}),
    ("no shared CPUs remain", GATED, WITHOUT_REST, "EmptyPodSharedPoolError",
         Cause.NOTHING_TO_SHARE, "the pod", {"cpu": 2}),
    ("containers together in pod scope", two(SINGLE, scope="pod"), asks("cpu=10 mem=4Gi | cpu=10 mem=4Gi"),
         "TopologyAffinityError", Cause.ZONES_TOO_SMALL, "the pod", {"cpu": 1, "memory": 1}),
    # An init container's devices bind the app to both zones, and zero devices take but one.
    ("zero devices", node("gpu=1", "gpu=2", policy="restricted"), asks("init gpu=3 | gpu=0"),
         "TopologyAffinityError", Cause.SPREAD, 'container "c1"', {GPU: 1}),
]  # fmt: skip


@pytest.mark.parametrize(("host", "wanted", "reason", "cause", "subject", "needs"), table(REJECTED))
def test_rejection_names_reason_subject_and_resources(  # noqa: PLR0913, PLR0917  a column for each part
    host: Node, wanted: Demand, reason: str, cause: Cause, subject: str, needs: dict[str, int]
) -> None:
    refusal = refused(evaluate(host, wanted))
    assert (refusal.reason, refusal.cause, refusal.subject) == (reason, cause, subject)
    assert {need.resource: need.zones for need in refusal.needs} == needs


@pytest.mark.parametrize(("role", "subject"), [("init", 'init container "c0"'), ("sidecar", 'sidecar "c0"')])
def test_refusal_names_the_role_of_a_container(role: str, subject: str) -> None:
    assert refused(evaluate(TIGHT, asks(f"{role} {TALL}", SMALL))).subject == subject


@pytest.mark.parametrize("container", [SMALL, TALL])
def test_a_verdict_has_no_truth_value(container: str) -> None:
    with pytest.raises(TypeError, match=r"ask for \.admitted"):
        bool(evaluate(TIGHT, asks(container)))


def test_refusal_of_half_a_core_has_the_core_size() -> None:
    verdict = evaluate(CORES, asks("cpu=3 mem=1Gi"))
    assert (refused(verdict).reason, refused(verdict).cause) == ("SMTAlignmentError", Cause.NOT_WHOLE_CORES)
    assert wording.of_node(verdict) == "allocates whole cores of 2 CPUs, and 3 cpu is no multiple of that"
    assert verdict.permanent


def test_core_with_a_reserved_thread_is_not_whole() -> None:
    verdict = evaluate(replace(CORES, totals=None), asks("cpu=14 mem=1Gi"))
    too_many = evaluate(
        node("cpu=8/7", "cpu=8", options=CORES.options, threads=2, totals="cpu=16 mem=9Gi"),
        asks("cpu=16 mem=1Gi"),
    )
    assert verdict.admitted
    assert wording.of_node(too_many) == "has at most 14 cpu in whole cores"


RESERVES = ("cpu=16/13 mem=8Gi", "cpu=16 mem=8Gi")
HAS_NO_GPU = ("cpu=16 mem=8Gi gpu=0", "cpu=16 mem=8Gi gpu=2")
USED_UP = ("cpu=8 mem=8Gi//1Gi", "cpu=8//1 mem=8Gi")

ONE_CPU, TWICE = "init cpu=1 mem=1Gi", "init cpu=2 mem=1Gi | cpu=2 mem=1Gi"

REUSED = [
    # what it shows                   zones       policy  init     app                    reused
    ("its CPUs are in a small zone",  RESERVES,   SINGLE, ONE_CPU, "cpu=14 mem=1Gi",      "c0"),
    ("and the kubelet refuses none",  RESERVES,   ANY,    ONE_CPU, "cpu=14 mem=1Gi",      "c0"),
    ("they are where no device is",   HAS_NO_GPU, SINGLE, ONE_CPU, "cpu=4 mem=1Gi gpu=1", "c0"),
    ("another has the zone's memory", USED_UP,    ANY,    TWICE,   "cpu=6 mem=1Gi",       ""),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "policy", "init", "app", "reused"), table(REUSED))
def test_init_container_with_too_many_cpus_is_named(
    zones: tuple[str, str], policy: str, init: str, app: str, reused: str
) -> None:
    stated = SPREAD if policy == SPREAD else SINGLE
    why = refused(evaluate(node(*zones, policy=policy), asks(init, app), means(stated)))
    assert (why.cause, why.reused, why.zones) == (Cause.SPREAD, reused, ("node-0",) if reused else ())


TOO_LARGE = [
    # what it shows                  node                                 container      reason
    ("all zones together have less", LOOSE,                               "cpu=33..",    "OutOfcpu"),
    ("the node has less in total",   replace(LOOSE, totals=EMPTY),        "nic=1",       f"OutOf{NIC}"),
    ("kept per node",                node("cpu=1", totals="storage=1Gi"), "storage=2Gi", "OutOfstorage"),
    ("all devices are out of use",   node("gpu=2/0", policy="none"),      "gpu=1",       f"OutOf{GPU}"),
]  # fmt: skip


@pytest.mark.parametrize(("host", "container", "reason"), table(TOO_LARGE))
def test_pod_too_large_for_the_node_in_total(host: Node, container: str, reason: str | None) -> None:
    verdict = evaluate(host, asks(container))
    assert (verdict.refusal and verdict.refusal.reason) == reason


def test_overhead_of_a_runtime_class_is_named_if_too_much() -> None:
    verdict = evaluate(LOOSE, demand.of(pod("cpu=32 mem=1Gi", overhead="cpu=1 mem=64Mi")))
    assert wording.of_node(verdict) == (
        "has at most 32 cpu in total, and the pod requests 32 cpu and 1 overhead of its RuntimeClass"
    )


def test_reserved_cpus_are_rounded_up_to_whole_cpus() -> None:
    """500m reserved are one CPU of a zone, yet the scheduler may fill 31500m of the node."""
    host = node("cpu=16/15", "cpu=16", policy="restricted")
    assert evaluate(host, asks("cpu=31500m.. mem=1Gi..")).admitted


USED = node("cpu=16//4 mem=10Gi", "cpu=16//6 mem=10Gi", policy="restricted")


def test_temporary_shortage_is_of_the_node_in_use() -> None:
    shortages = refused(evaluate(USED, asks("cpu=8 mem=1Gi"))).shortages
    assert [(shortage.zone, shortage.free) for shortage in shortages] == [(0, 4000), (1, 6000)]
    needs = refused(evaluate(USED, asks("cpu=20 mem=1Gi"))).needs
    assert [need.most for need in needs if need.resource == "cpu"] == [32_000]


def test_refusal_counts_other_containers_of_the_pod() -> None:
    two = node("cpu=16", "cpu=16", policy="single-numa-node")
    verdict = evaluate(two, asks(*["cpu=10 mem=1Gi"] * 3))
    alone = evaluate(two, asks("cpu=20 mem=1Gi"))
    assert verdict.refusal
    assert alone.refusal
    assert (verdict.refusal.beside, alone.refusal.beside) == (True, False)
    assert wording.of_node(verdict).endswith(
        "at most 6 cpu in one NUMA zone after the pod's other containers"
    )
