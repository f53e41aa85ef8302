"""
One pod after another on one node, as its kubelet admits them; `tests/kubelet/recordings` has the many cases.

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
RESERVED = node("cpu=16/15", "cpu=16/15")
ONE_GPU = node("cpu=16 gpu=1", "cpu=16 gpu=1")
BIG_GPU = node("cpu=40 gpu=4", "cpu=40 gpu=4")
TEN = node("cpu=16 mem=10Gi", "cpu=16 mem=10Gi")
TWO_GPU = node("cpu=16 mem=10Gi gpu=2", "cpu=16 mem=10Gi gpu=2")
HUNDRED = node("cpu=40 mem=100Gi", "cpu=40 mem=100Gi")
WORN = node("cpu=16//14 mem=100Gi", "cpu=16//6 mem=100Gi")
PAGES = node("cpu=16 mem=10Gi", "cpu=16 mem=10Gi huge=8Gi")


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


EXAMPLES = [
    # what it shows, scope, node, pods
    #     best-effort, restricted, single-numa-node
    ("cpu takes two zones, memory one", Scope.CONTAINER, HUNDRED, "cpu=60 mem=10Gi",
         "01 cpu=40+20", "TAE", "TAE"),
    ("a reserved CPU counts as hardware", Scope.CONTAINER, RESERVED, "cpu=16", "01 cpu=15+1", "TAE", "TAE"),
    ("no zone joins a zone with a block", Scope.CONTAINER, TEN, "cpu=2 mem=2Gi; cpu=2 mem=12Gi",
         "0p; UAE", "0p; UAE", "0p; UAE"),
    ("a group takes the next pod", Scope.CONTAINER, TEN, "cpu=20 mem=12Gi; cpu=1 mem=1Gi",
         "01p; 01", "01p; TAE", "TAE; 0p"),
    ("init containers hold later ones", Scope.CONTAINER, TWO, "cpu=12; init cpu=2 | cpu=16",
         "0p; 0p | 01 cpu=0+16", "0p; TAE c1", "0p; TAE c1"),
    ("a rejected pod leaves nothing behind", Scope.CONTAINER, TWO, "cpu=10 | cpu=10 | cpu=10; cpu=16",
         "0p | 1p | 01 cpu=6+4; UAE", "TAE c2; 0p", "TAE c2; 0p"),
    ("apps together are too large for one", Scope.POD, TWO, "cpu=10 | cpu=10",
         "01p cpu=10+0 | 01p cpu=6+4", "01p cpu=10+0 | 01p cpu=6+4", "TAE"),
    ("more memory for init than for the app", Scope.POD, TEN,
         "init cpu=500m mem=16Gi | cpu=500m mem=8Gi", "UAE c1", "UAE c1", "TAE"),
]  # fmt: skip


@pytest.mark.parametrize(("scope", "start", "pods", "best_effort", "restricted", "single"), table(EXAMPLES))
def test_pods_are_admitted_one_after_another(  # noqa: PLR0913, PLR0917  a column for each policy
    scope: Scope, start: Node, pods: str, best_effort: str, restricted: str, single: str
) -> None:
    for policy, like in zip(list(Policy)[1:], (best_effort, restricted, single), strict=True):
        results = zip(outcomes(start, policy, pods, scope=scope), like.split(";"), strict=True)
        assert "; ".join(written(admission, like=part) for admission, part in results) == like


REFUSED = [
    # what it shows                node     policy         pods                      step  resources
    ("the topology manager, none", TWO,     "restricted",  "cpu=40",                 "c0", ()),
    ("the device manager",         ONE_GPU, "best-effort", "gpu=3",                  "c0", (GPU,)),
    ("the CPU manager",            TWO,     "best-effort", "cpu=40",                 "c0", ("cpu",)),
    ("the memory manager",         TEN,     "none",        "cpu=1 mem=25Gi",         "c0", ("memory",)),
    ("all that is of one block",   PAGES,   "none",        "cpu=1 mem=1Gi huge=9Gi", "c0", (HUGE, "memory")),
    ("the first manager",          TWO_GPU, "none",        "cpu=40 mem=25Gi gpu=9",  "c0", (GPU,)),
]  # fmt: skip


@pytest.mark.parametrize(("start", "policy", "pods", "step", "names"), table(REFUSED))
def test_rejection_names_container_and_resources(
    start: Node, policy: str, pods: str, step: str, names: tuple[str, ...]
) -> None:
    [admission] = outcomes(start, policy, pods)
    assert admission.refusal
    assert (admission.refusal.step.container, admission.refusal.resources) == (step, names)
    assert not admission.placement.grants


def test_rejection_names_the_first_short_resource() -> None:
    """Both are short; a set of names has another order in every process."""
    many = {f"example.com/{letter}": letter for letter in "hgfedcba"}
    listed = " ".join(f"{name}=1" for name in many)
    [admission] = outcomes(node(listed), "none", " ".join(f"{name}=2" for name in many))
    assert admission.refusal
    assert admission.refusal.resources == ("example.com/a",)


def test_rejected_pod_holds_until_the_next_admission() -> None:
    fraction = node("cpu=16//7500m", "cpu=16")
    [refused] = outcomes(fraction, "restricted", "cpu=40")
    assert charge(fraction, refused) == fraction
    [refused] = outcomes(TEN, "restricted", "cpu=2 mem=1Gi | cpu=40 mem=1Gi")
    after = after_admission(TEN, refused)
    assert (free_of(after, "cpu"), free_of(after, "mem")) == ([14, 16], [9, 10])
    back = release(after, [refused.held])
    assert (free_of(back, "cpu"), free_of(back, "mem")) == ([16, 16], [10, 10])


STATED = "cpu=6 mem=6Gi"
PINNED, SHARING = "cpu=4 mem=4Gi", "cpu=1.. mem=1Gi.."
HEEDS = options("PodLevelResourceManagers", minor=36)


def test_since_1_38_pod_scope_counts_init_memory() -> None:
    pod_demand = demand.of(pod("init cpu=1 mem=1Gi huge=1Gi", "cpu=1 mem=1Gi"))
    for minor, counted in ((37, False), (38, True)):
        kubelet = replace(TEN, options=options(minor=minor))
        assert (HUGE in effective_demand(kubelet, pod_demand).whole.memory) is counted


def test_pod_level_resources_are_held_until_deletion() -> None:
    """Devices are none of them: the device manager's AllocatePod does nothing."""
    pod_demand = demand.of(pod(f"{PINNED} gpu=1", SHARING, requests=STATED, limits=STATED))
    kubelet = replace(TWO_GPU, scope=Scope.POD, policy=Policy.RESTRICTED, options=HEEDS)
    admission = admit(kubelet, pod_demand)
    assert admission.placement.kept == {zone_ids(0): bag(STATED)}
    after = charge(kubelet, admission)
    assert (free_of(after, "cpu"), free_of(after, "mem")) == ([10, 16], [4, 10])
    back = release(after, [admission.held])
    assert (free_of(back, "cpu"), free_of(back, "mem")) == ([16, 16], [10, 10])


WIDTHS = [
    # what it shows                    node     pod                           zones
    ("each resource by itself",        BIG_GPU, "cpu=60 mem=1Gi gpu=1",       {"cpu": 2, GPU: 1}),
    ("names of memory together",       PAGES,   "cpu=500m mem=12Gi huge=1Gi", {"memory": 2, HUGE: 2}),
    ("what is given out is no matter", WORN,    "cpu=16 mem=1Gi",             {"cpu": 1, "memory": 1}),
    ("nothing that no zone lists",     TWO,     "cpu=1 mem=1Gi gpu=1",        {"cpu": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("start", "pod", "zones"), table(WIDTHS))
def test_min_widths_are_the_fewest_zones_by_hardware(start: Node, pod: str, zones: dict[str, int]) -> None:
    [step] = asks(pod).steps
    assert min_widths(start, step) == zones
