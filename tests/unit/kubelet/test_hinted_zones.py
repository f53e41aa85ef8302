"""Which zones can be part of a hint."""

from dataclasses import replace

import pytest

from numalign.cache import ClusterCache, Question
from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.decision.verdict import Cause
from numalign.kubelet.admit import admit
from numalign.kubelet.hinted_zones import apart, together
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node, node_class
from numalign.model.options import Options
from numalign.model.resources import CPU, MEMORY
from tests.worlds.notation import GPU, asks, machine, node, table

SILENT = [""] * 32
TRAY = node("cpu=72/71 gpu=2", "cpu=72/71 gpu=2", *SILENT, policy="restricted")


HINTED = [
    # what it shows     node                                               in hints  others
    ("zones with CPUs", node("cpu=4/3", "", "cpu=4", policy="restricted"), (0, 2), (1,)),
    ("a zone with a device", node("cpu=4/3", "", "gpu=1", policy="restricted"), (0, 2), (1,)),
    ("a machine", machine("cpu=0-3", "", "", reserved="0", devices="gpu=2"), (0, 2), (1,)),
    ("a device between zones", machine("cpu=0-3", "", "", devices="gpu=12"), (0, 1, 2), ()),
    ("a zone with reserved CPUs only", node("cpu=4", "", "cpu=4", ""), (0, 1, 2), (3,)),
]  # fmt: skip


@pytest.mark.parametrize(("host", "ids", "others"), table(HINTED))
def test_zones_without_cpus_and_devices_are_apart(
    host: Node, ids: tuple[int, ...], others: tuple[int, ...]
) -> None:
    split = apart(replace(host, memory_manager=TRAY.memory_manager))
    assert (split.ids, tuple(zone.id for zone in split.others)) == (ids, others)


BARE = node("cpu=4/3", "", policy="restricted")
UNSPLIT = [
    ("a memory manager, which visits all zones", node("cpu=4 mem=1Gi", "mem=1Gi", policy="restricted")),
    ("hints of 1.35", replace(TRAY, options=Options(minor=35))),
    ("nothing but bare zones", node("", "", policy="restricted")),
    ("CPUs that no zone lists", node("gpu=4", "", policy="none")),
    ("an uncertain resource that no zone lists", replace(BARE, uncertain=frozenset({GPU}))),
]


@pytest.mark.parametrize("host", table(UNSPLIT))
def test_zones_stay_together(host: Node) -> None:
    assert apart(host) is host


def test_zones_apart_can_be_joined() -> None:
    host = machine(
        "cpu=0-3", "", "cpu=4-7", reserved="0", devices="gpu=2,0x", memory_manager=TRAY.memory_manager
    )
    assert together(apart(host)) == host


def test_memory_may_come_from_zones_without_hints() -> None:
    one = apart(node("cpu=72/71 gpu=1", *SILENT, policy="restricted"))
    verdict = evaluate(one, asks("cpu=8 mem=500Gi"), Intent(Policy.SINGLE_NUMA_NODE, (CPU, MEMORY)))
    assert verdict.refusal is not None
    assert verdict.refusal.cause is Cause.NOT_ALIGNED


def test_zones_apart_belong_to_the_class() -> None:
    assert node_class(apart(TRAY)) == node_class(TRAY)


def test_pod_without_hints_has_affinity_to_all_zones() -> None:
    [grant] = admit(apart(TRAY), asks("mem=1Gi")).placement.grants
    assert grant.affinity == tuple(range(34))


@pytest.mark.parametrize(("requests", "admitted"), [
    ("cpu=1 mem=16Gi", True),
    ("cpu=1 mem=17Gi", False),
    # Of these, the zones that hints can include have none.
    ("cpu=1 huge=2Gi", True),
    ("cpu=1 huge=3Gi", False),
])  # fmt: skip
def test_memory_of_zones_apart_counts_in_the_total(*, requests: str, admitted: bool) -> None:
    host = node("cpu=4/3 mem=4Gi", "cpu=4 mem=4Gi", "mem=8Gi huge=2Gi", policy="restricted")
    split = apart(replace(host, memory_manager=TRAY.memory_manager))
    assert split.others
    demand = asks(requests)
    assert evaluate(split, demand).admitted is admitted
    answer = ClusterCache.of([split]).ask([split.name], Question(demand, NO_INTENT))
    assert answer.admitted.tolist() == [admitted]
