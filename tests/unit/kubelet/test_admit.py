"""
One pod after another on one node, as its kubelet would admit them: read it to learn what surprises people.

What becomes of a pod is written by container: the digits of the zones of its affinity (`-` if none is
stored), p if it is preferred, and with `cpu=40+20` how many CPUs (or devices) each zone gives. TAE, UAE, SMT
and EMPTY are the kubelet's TopologyAffinityError, UnexpectedAdmissionError, SMTAlignmentError and
EmptyPodSharedPoolError, at the first container or at that named.
"""

from dataclasses import replace

import pytest

from numalign.kubelet.admission_errors import RejectionReason
from numalign.kubelet.admit import (
    PodAdmitResult,
    admit,
    after_admission,
    charge,
    effective_demand,
    min_widths,
    release,
)
from numalign.model import demand
from numalign.model.demand import WHOLE_POD
from numalign.model.intent import Policy, Scope
from numalign.model.node import Node
from numalign.model.placement import Grant
from numalign.model.resources import CPU
from tests.worlds.notation import GPU, HUGE, asks, bag, free_of, node, options, pod, table, zone_ids

SHORT = {
    RejectionReason.TOPOLOGY_AFFINITY: "TAE",
    RejectionReason.UNEXPECTED_ADMISSION: "UAE",
    RejectionReason.SMT_ALIGNMENT: "SMT",
    RejectionReason.EMPTY_SHARED_POOL: "EMPTY",
}

TWO = node("cpu=16", "cpu=16")
BIG = node("cpu=40", "cpu=40")
RESERVED = node("cpu=16/15", "cpu=16/15")
ONE_GPU = node("cpu=16 gpu=1", "cpu=16 gpu=1")
BIG_GPU = node("cpu=40 gpu=4", "cpu=40 gpu=4")
TEN = node("cpu=16 mem=10Gi", "cpu=16 mem=10Gi")
FOUR_TEN = node(*["cpu=8 mem=10Gi"] * 4)
TWO_GPU = node("cpu=16 mem=10Gi gpu=2", "cpu=16 mem=10Gi gpu=2")
HUNDRED = node("cpu=40 mem=100Gi", "cpu=40 mem=100Gi")
WORN = node("cpu=16//14 mem=100Gi", "cpu=16//6 mem=100Gi")
WORN_ONE = node("cpu=16//16 mem=100Gi", "cpu=16//6 mem=100Gi")
PAGES = node("cpu=16 mem=10Gi", "cpu=16 mem=10Gi huge=8Gi")
FILLED = node("cpu=16 mem=10Gi", "cpu=16 mem=10Gi//2Gi huge=8Gi", blocks=[(1,)])
GROUP = node("cpu=16 mem=10Gi//5Gi", "cpu=16 mem=10Gi//5Gi", "cpu=16 mem=10Gi", blocks=[(0, 1)])


def outcomes(start: Node, policy: str, pods: str, *, scope: Scope = Scope.CONTAINER) -> list[PodAdmitResult]:
    """Admit Guaranteed pods one after another, each written like `init cpu=1 mem=1Gi | cpu=2`."""
    kubelet, results = replace(start, policy=Policy(policy), scope=scope), []
    for containers in pods.split(";"):
        results.append(admit(kubelet, asks(*map(guaranteed, containers.split("|")))))
        kubelet = charge(kubelet, results[-1])
    return results


def guaranteed(container: str) -> str:
    """Some memory for a container whose memory is no matter."""
    return container if "mem=" in container or ".." in container else f"{container} mem=1Gi"


def became(start: Node, policy: str, pods: str, *, like: str, scope: Scope = Scope.CONTAINER) -> str:
    """What became of the pods, with the amounts that the expectation speaks of."""
    results = zip(outcomes(start, policy, pods, scope=scope), like.split(";"), strict=True)
    return "; ".join(written(admission, like=part) for admission, part in results)


def written(admission: PodAdmitResult, *, like: str) -> str:
    """What became of a pod, with the amounts that the expectation speaks of."""
    refused = admission.refusal
    if refused:
        first = refused.step.container in {WHOLE_POD, "c0"}
        return SHORT[refused.reason] + ("" if first else f" {refused.step.container}")
    expected = [part.split() for part in like.split("|")]
    grants = admission.placement.grants
    assert len(expected) == len(grants)
    return " | ".join(_grant(grant, words[1:]) for grant, words in zip(grants, expected, strict=True))


def _grant(grant: Grant, amounts: list[str]) -> str:
    zones = "-" if grant.affinity is None else "".join(map(str, grant.affinity))
    names = [amount.partition("=")[0] for amount in amounts]
    return " ".join([zones + "p" * grant.preferred, *(_amounts(grant, name) for name in names)])


def _amounts(grant: Grant, name: str) -> str:
    [(full_name, _)] = bag(f"{name}=1").items()
    unit = 1000 if full_name == CPU else 1
    taken = [grant.amounts.get(zone_ids(zone), bag("")).get(full_name, 0) // unit for zone in range(2)]
    return f"{name}={'+'.join(map(str, taken))}"


# How wide each resource has to go.
WIDE = [
    # what it shows, node, pods
    #     best-effort, restricted, single-numa-node
    ("cpu alone over two zones",          BIG,      "cpu=60",
         "01p cpu=40+20",      "01p cpu=40+20", "TAE"),
    ("cpu takes two zones, memory one",   HUNDRED,  "cpu=60 mem=10Gi",
         "01 cpu=40+20",       "TAE",           "TAE"),
    ("cpu takes two zones, a device one", BIG_GPU,  "cpu=60 gpu=1",
         "01 cpu=40+20",       "TAE",           "TAE"),
    ("memory takes two zones, cpu one",   TEN,      "cpu=2 mem=11Gi",
         "01 cpu=2+0",         "TAE",           "TAE"),
    ("the same on four zones",            FOUR_TEN, "cpu=12 mem=5Gi",
         "01",                 "TAE",           "TAE"),
    ("devices take two zones, cpu one",   ONE_GPU,  "cpu=4 gpu=2",
         "01 cpu=4+0 gpu=1+1", "TAE",           "TAE"),
    ("devices alone take two zones",      ONE_GPU,  "cpu=500m gpu=2",
         "01p gpu=1+1",        "01p",           "TAE"),
    ("a reserved CPU counts as hardware", RESERVED, "cpu=16",
         "01 cpu=15+1",        "TAE",           "TAE"),
    ("so one CPU more is let in",         RESERVED, "cpu=17",
         "01p cpu=15+2",       "01p cpu=15+2",  "TAE"),
    ("zero devices are not asked for",    ONE_GPU,  "cpu=4 gpu=0",
         "0p",                 "0p",            "0p"),
]  # fmt: skip


# Memory that is full, or in groups.
MEMORY = [
    # what it shows, node, pods
    #     best-effort, restricted, single-numa-node
    ("no zone has the memory left",       TEN,      "cpu=2 mem=6Gi; cpu=2 mem=6Gi; cpu=2 mem=6Gi",
         "0p; 1p; UAE",  "0p; 1p; UAE",  "0p; 1p; UAE"),
    ("no zone joins a zone with a block", TEN,      "cpu=2 mem=2Gi; cpu=2 mem=12Gi",
         "0p; UAE",      "0p; UAE",      "0p; UAE"),
    ("more memory than there is",         TEN,      "cpu=2 mem=25Gi",
         "UAE",          "UAE",          "UAE"),
    ("more CPUs than there are",          TEN,      "cpu=40 mem=2Gi",
         "UAE",          "TAE",          "TAE"),
    ("a group takes whoever comes next",  TEN,      "cpu=20 mem=12Gi; cpu=1 mem=1Gi",
         "01p; 01",      "01p; TAE",     "TAE; 0p"),
    ("pages pick the zone",               PAGES,    "cpu=2 mem=4Gi huge=2Gi",
         "1p",           "1p",           "1p"),
    ("unless its memory is given out",    FILLED,   "cpu=2 mem=4Gi huge=2Gi",
         "UAE",          "UAE",          "UAE"),
    ("a group takes no third zone in",    GROUP,    "cpu=20 mem=12Gi",
         "UAE",          "UAE",          "TAE"),
    ("the zone outside the group",        GROUP,    "cpu=4 mem=4Gi",
         "2p",           "2p",           "2p"),
    ("the fuller zone first",             WORN,     "cpu=18 mem=150Gi",
         "01p cpu=12+6", "01p cpu=12+6", "TAE"),
    ("but a whole zone before it",        WORN_ONE, "cpu=18 mem=150Gi",
         "01p cpu=16+2", "01p cpu=16+2", "TAE"),
]  # fmt: skip

# Containers, one by one or together.
CONTAINERS = [
    # what it shows, node, pods
    #     best-effort, restricted, single-numa-node
    ("apps, each in its zone",                TWO, "cpu=10 | cpu=10",
         "0p | 1p",                   "0p | 1p",      "0p | 1p"),
    ("memory of two apps, one by one",        TEN, "cpu=2 mem=6Gi | cpu=2 mem=6Gi",
         "0p | 1p",                   "0p | 1p",      "0p | 1p"),
    ("init containers hold later ones",       TWO, "cpu=12; init cpu=2 | cpu=16",
         "0p; 0p | 01 cpu=0+16",      "0p; TAE c1",   "0p; TAE c1"),
    ("a sidecar, an init container, an app",  TWO, "sidecar cpu=6 | init cpu=11 | cpu=8",
         "0p | 1p | 1p",              "0p | 1p | 1p", "0p | 1p | 1p"),
    ("more memory for init than for the app", TEN, "init cpu=500m mem=16Gi | cpu=500m mem=8Gi",
         "01p | 01",                  "TAE c1",       "TAE"),
    ("an init container's share is reused",   TEN, "init cpu=6 mem=6Gi | cpu=2 mem=2Gi",
         "0p | 0p",                   "0p | 0p",      "0p | 0p"),
    ("a refused pod leaves nothing behind",   TWO, "cpu=10 | cpu=10 | cpu=10; cpu=16",
         "0p | 1p | 01 cpu=6+4; UAE", "TAE c2; 0p",   "TAE c2; 0p"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("start", "pods", "best_effort", "restricted", "single"),
    table([*WIDE, *MEMORY, *CONTAINERS]),
)
def test_each_container_by_itself(
    start: Node, pods: str, best_effort: str, restricted: str, single: str
) -> None:
    assert became(start, "best-effort", pods, like=best_effort) == best_effort
    assert became(start, "restricted", pods, like=restricted) == restricted
    assert became(start, "single-numa-node", pods, like=single) == single


TOGETHER = [
    # what it shows, node, pods
    #     best-effort, restricted, single-numa-node
    ("apps together are too large for one", TWO, "cpu=10 | cpu=10",
         "01p cpu=10+0 | 01p cpu=6+4", "01p cpu=10+0 | 01p cpu=6+4", "TAE"),
    ("a part of a CPU counts for nothing",  TWO, "cpu=10 | cpu=500m",
         "0p | 0p",                    "0p | 0p",                    "0p | 0p"),
    ("memory of two apps together",         TEN, "cpu=2 mem=6Gi | cpu=2 mem=6Gi",
         "01 | 01",                    "TAE",                        "TAE"),
    ("the same three together",             TWO, "sidecar cpu=6 | init cpu=11 | cpu=8",
         "01p | 01p cpu=10+1 | 01p",   "01p | 01p cpu=10+1 | 01p",   "TAE"),
    ("the same, asked for together",        TEN, "init cpu=500m mem=16Gi | cpu=500m mem=8Gi",
         "UAE c1",                     "UAE c1",                     "TAE"),
]  # fmt: skip


@pytest.mark.parametrize(("start", "pods", "best_effort", "restricted", "single"), table(TOGETHER))
def test_the_pod_as_a_whole(start: Node, pods: str, best_effort: str, restricted: str, single: str) -> None:
    for policy, like in zip(list(Policy)[1:], (best_effort, restricted, single), strict=True):
        assert became(start, policy, pods, like=like, scope=Scope.POD) == like


REFUSED = [
    # what it shows                   node     policy         pods                     step  resources
    ("the topology manager, none",     TWO,     "restricted",  "cpu=40",                "c0", ()),
    ("the device manager",             ONE_GPU, "best-effort", "gpu=3",                 "c0", (GPU,)),
    ("the CPU manager",                TWO,     "best-effort", "cpu=40",                "c0", ("cpu",)),
    ("the memory manager",             TEN,     "none",        "cpu=1 mem=25Gi",        "c0", ("memory",)),
    ("all that is of one block", PAGES,   "none",        "cpu=1 mem=1Gi huge=9Gi","c0", (HUGE, "memory")),
    ("the manager asked first",        TWO_GPU, "none",        "cpu=40 mem=25Gi gpu=9", "c0", (GPU,)),
    ("the container that is too much", TWO,     "none",        "cpu=30 | cpu=3",        "c1", ("cpu",)),
]  # fmt: skip


@pytest.mark.parametrize(("start", "policy", "pods", "step", "names"), table(REFUSED))
def test_a_refusal_names(start: Node, policy: str, pods: str, step: str, names: tuple[str, ...]) -> None:
    [admission] = outcomes(start, policy, pods)

    assert admission.refusal
    assert (admission.refusal.step.container, admission.refusal.resources) == (step, names)
    assert not admission.placement.grants


def test_the_name_in_a_refusal_is_the_same_every_time() -> None:
    """Both are short; a set of names would be in another order in every process."""
    many = {f"example.com/{letter}": letter for letter in "hgfedcba"}
    listed = " ".join(f"{name}=1" for name in many)
    [admission] = outcomes(node(listed), "none", " ".join(f"{name}=2" for name in many))

    assert admission.refusal
    assert admission.refusal.resources == ("example.com/a",)


def test_refused_pod_leaves_free_cpus_unchanged() -> None:
    told = node("cpu=16//7500m", "cpu=16")
    [refused] = outcomes(told, "restricted", "cpu=40")

    assert charge(told, refused) == told


def test_amounts_stand_under_the_zones_that_they_come_from() -> None:
    """What the app uses again of an init container's memory is the app's, as the kubelet books it."""
    [admission] = outcomes(HUNDRED, "best-effort", "init cpu=50 mem=5Gi | cpu=60 mem=120Gi")
    init, app = admission.placement.grants

    assert init.amounts == {
        zone_ids(0): bag("cpu=40"),
        zone_ids(0, 1): bag("mem=0"),
        zone_ids(1): bag("cpu=10"),
    }
    assert app.amounts == {
        zone_ids(0): bag("cpu=40"),
        zone_ids(0, 1): bag("mem=120Gi"),
        zone_ids(1): bag("cpu=20"),
    }
    assert admission.placement.kept == app.amounts


def test_ids_of_zones_need_not_be_positions() -> None:
    sparse = node("cpu=16", "cpu=16//0", "cpu=16", ids=(0, 3, 7), policy="restricted")
    [grant] = admit(sparse, asks("cpu=32 mem=1Gi")).placement.grants

    assert grant.affinity == (0, 7)
    assert list(grant.amounts) == [zone_ids(0), zone_ids(7)]


def test_served_containers_hold_until_the_next_admission() -> None:
    [refused] = outcomes(TEN, "restricted", "cpu=2 mem=1Gi | cpu=40 mem=1Gi")

    held = after_admission(TEN, refused)
    assert (free_of(held, "cpu"), free_of(held, "mem")) == ([14, 16], [9, 10])
    after_it = release(held, [refused.held])
    assert (free_of(after_it, "cpu"), free_of(after_it, "mem")) == ([16, 16], [10, 10])


STATED = "cpu=6 mem=6Gi"
PINNED, REST, SHARING = "cpu=4 mem=4Gi", "cpu=2 mem=2Gi", "cpu=1.. mem=1Gi.."
HEEDS = options("PodLevelResourceManagers", minor=36)

POD_LEVEL = [
    # what it shows, scope, containers
    #     best-effort, restricted, single-numa-node
    ("by itself, each whose limits are its requests", Scope.CONTAINER, [PINNED, REST],
         "0p cpu=4+0 | 0p cpu=2+0", "0p cpu=4+0 | 0p cpu=2+0", "0p cpu=4+0 | 0p cpu=2+0"),
    ("a block beside it keeps out what has none",     Scope.CONTAINER, [PINNED, SHARING],
         "UAE c1",                  "UAE c1",                  "UAE c1"),
    ("together, and the others share what is left",   Scope.POD,       [PINNED, SHARING],
         "0p cpu=4+0 | 0p cpu=0+0", "0p cpu=4+0 | 0p cpu=0+0", "0p cpu=4+0 | 0p cpu=0+0"),
    ("nothing is left for the others",                Scope.POD,       [STATED, SHARING],
         "EMPTY",                   "TAE",                     "TAE"),
]  # fmt: skip


@pytest.mark.parametrize(("scope", "containers", "best_effort", "restricted", "single"), table(POD_LEVEL))
def test_a_pod_that_states_its_resources_as_a_whole(
    scope: Scope, containers: list[str], best_effort: str, restricted: str, single: str
) -> None:
    asked = demand.of(pod(*containers, requests=STATED, limits=STATED))
    kubelet = replace(TEN, scope=scope, options=HEEDS)

    for policy, like in zip(list(Policy)[1:], (best_effort, restricted, single), strict=True):
        assert written(admit(replace(kubelet, policy=policy), asked), like=like) == like


def test_since_1_37_no_memory_request_needs_no_block() -> None:
    asked = demand.of(pod(PINNED, SHARING, requests=STATED, limits=STATED))
    kubelet = replace(TEN, options=options("PodLevelResourceManagers", minor=37))

    assert admit(kubelet, asked).placement.grants[1].amounts == {}


def test_since_1_38_pod_scope_counts_init_memory() -> None:
    asked = demand.of(pod("init cpu=1 mem=1Gi huge=1Gi", "cpu=1 mem=1Gi"))
    for minor, counted in ((37, False), (38, True)):
        kubelet = replace(TEN, options=options(minor=minor))
        assert (HUGE in effective_demand(kubelet, asked).whole.memory) is counted


def test_pod_level_resources_are_held_until_deletion() -> None:
    asked = demand.of(pod(PINNED, SHARING, requests=STATED, limits=STATED))
    kubelet = replace(TEN, scope=Scope.POD, policy=Policy.RESTRICTED, options=HEEDS)
    admission = admit(kubelet, asked)

    assert admission.placement.kept == {zone_ids(0): bag(STATED)}
    left = charge(kubelet, admission)
    assert (free_of(left, "cpu"), free_of(left, "mem")) == ([10, 16], [4, 10])
    back = release(left, [admission.held])
    assert (free_of(back, "cpu"), free_of(back, "mem")) == ([16, 16], [10, 10])


def test_a_pod_as_a_whole_is_given_no_devices() -> None:
    """The device manager's AllocatePod does nothing."""
    asked = demand.of(pod("cpu=4 mem=4Gi gpu=1", requests=STATED, limits=STATED))
    kubelet = replace(TWO_GPU, scope=Scope.POD, policy=Policy.RESTRICTED, options=HEEDS)

    assert admit(kubelet, asked).placement.kept == {zone_ids(0): bag(STATED)}


@pytest.mark.parametrize("policy", [Policy.BEST_EFFORT, Policy.RESTRICTED])
def test_pod_level_resources_are_ignored_by_default(policy: Policy) -> None:
    asked = demand.of(pod(PINNED, SHARING, requests=STATED, limits=STATED))
    admission = admit(replace(TEN, policy=policy), asked)

    assert admission.refusal is None
    assert not admission.placement.kept


WIDTHS = [
    # what it shows                   node     pod                          zones
    ("each resource by itself",        BIG_GPU, "cpu=60 mem=1Gi gpu=1",      {"cpu": 2, GPU: 1}),
    ("names of memory together",       PAGES,   "cpu=500m mem=12Gi huge=1Gi", {"memory": 2, HUGE: 2}),
    ("what is given out is no matter", WORN,    "cpu=16 mem=1Gi",            {"cpu": 1, "memory": 1}),
    ("nothing of what no zone lists",  TWO,     "cpu=1 mem=1Gi gpu=1",       {"cpu": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("told", "pod", "zones"), table(WIDTHS))
def test_the_fewest_zones_that_could_hold(told: Node, pod: str, zones: dict[str, int]) -> None:
    [step] = asks(pod).steps

    assert min_widths(told, step) == zones
