"""One pod after another on one node, as its kubelet admits them; recordings have the many cases."""

from dataclasses import replace

import pytest

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
from numalign.model.intent import Policy, Scope
from numalign.model.node import Node
from tests.worlds.notation import GPU, HUGE, asks, bag, free_of, machine, node, options, pod, table, zone_ids

TWO = node("cpu=16", "cpu=16")
RESERVED = node("cpu=16/15", "cpu=16/15")
ONE_GPU = node("cpu=16 gpu=1", "cpu=16 gpu=1")
BIG_GPU = node("cpu=40 gpu=4", "cpu=40 gpu=4")
TEN = node("cpu=16 mem=10Gi", "cpu=16 mem=10Gi")
TWO_GPU = node("cpu=16 mem=10Gi gpu=2", "cpu=16 mem=10Gi gpu=2")
HUNDRED = node("cpu=40 mem=100Gi", "cpu=40 mem=100Gi")
WORN = node("cpu=16//14 mem=100Gi", "cpu=16//6 mem=100Gi")
PAGES = node("cpu=16 mem=10Gi", "cpu=16 mem=10Gi huge=8Gi")


def admitted(start: Node, policy: str, *containers: str) -> PodAdmitResult:
    """What becomes of a pod; containers whose memory is no matter get some."""
    texts = (text if "mem=" in text else f"{text} mem=1Gi" for text in containers)
    return admit(replace(start, policy=Policy(policy)), asks(*texts))


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
    admission = admitted(start, policy, pods)
    assert admission.refusal
    assert (admission.refusal.step.container, admission.refusal.resources) == (step, names)
    assert not admission.placement.grants


def test_rejection_names_the_first_short_resource() -> None:
    """Both are short; a set of names has another order in every process."""
    many = {f"example.com/{letter}": letter for letter in "hgfedcba"}
    listed = " ".join(f"{name}=1" for name in many)
    admission = admitted(node(listed), "none", " ".join(f"{name}=2" for name in many))
    assert admission.refusal
    assert admission.refusal.resources == ("example.com/a",)


@pytest.mark.parametrize(("devices", "chance"), [("gpu=-,-", ()), ("gpu=0,0", ()), ("gpu=0,1", (GPU,))])
def test_device_of_the_only_place_is_no_chance(devices: str, chance: tuple[str, ...]) -> None:
    [grant] = admit(machine("cpu=0-3", "cpu=4-7", devices=devices), asks("cpu=1.. gpu=1")).placement.grants
    assert grant.chosen == chance


def test_rejected_pod_holds_until_the_next_admission() -> None:
    fraction = node("cpu=16//7500m", "cpu=16")
    refused = admitted(fraction, "restricted", "cpu=40")
    assert charge(fraction, refused) == fraction
    refused = admitted(TEN, "restricted", "cpu=2 mem=1Gi", "cpu=40 mem=1Gi")
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
