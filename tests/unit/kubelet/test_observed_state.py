"""
Observed placements in place of predicted ones.

What a container holds is written by zones: `0:cpu=2 mem=1Gi 01:mem=4Gi`, where `01` are both and `-` none.
"""

from dataclasses import replace

import pytest

from numalign.kubelet.admit import admit, charge
from numalign.kubelet.managers_state import Assignments
from numalign.kubelet.observed_state import FreeByZone, ObservedContainer, observe
from numalign.model.demand import Demand
from numalign.model.machine import read_list, render_list
from numalign.model.node import Node
from numalign.model.placement import ZoneSet
from numalign.model.resources import Resources
from tests.worlds.notation import asks, bag, free_of, machine, node, table, zone_ids

GIB = 2**30


def by_zones(text: str) -> dict[ZoneSet, Resources]:
    amounts_by_zones: dict[ZoneSet, Resources] = {}
    zones = zone_ids()
    for word in text.split():
        digits, _, amount = word.rpartition(":")
        zones = zone_ids(*map(int, digits.strip("-"))) if digits else zones
        amounts_by_zones[zones] = amounts_by_zones.get(zones, bag("")).plus(bag(amount))
    return amounts_by_zones


def seen(*containers: str) -> list[ObservedContainer]:
    """Containers as they stand: `0-1 / 0:cpu=2`; without a slash their CPUs are not known."""
    return [_seen(f"c{at}", *reversed(text.split("/"))) for at, text in enumerate(containers)]


def _seen(name: str, amounts: str, cpus: str | None = None) -> ObservedContainer:
    return ObservedContainer(name, None if cpus is None else read_list(cpus), by_zones(amounts))


def free_cpus(of: Node) -> str:
    assert of.stock
    return render_list(of.stock.cpus)


TWO = machine("cpu=0-3 mem=10Gi", "cpu=4-7 mem=10Gi", reserved="0", devices="gpu=0,1,01,-")
COUNTS = node("cpu=4/3 mem=10Gi gpu=2", "cpu=4 mem=10Gi gpu=2")
APP = asks("cpu=2 mem=6Gi gpu=1")
TWICE = asks("init cpu=2 mem=6Gi", "cpu=2 mem=4Gi")


def test_cpus_of_an_init_container_are_reused_first() -> None:
    after, held = observe(COUNTS, TWICE, seen("0:cpu=2 mem=6Gi", "0:cpu=2 mem=4Gi"))
    assert free_of(after, "cpu") == [1, 4]
    assert held.cpus.bit_count() == 2
    assert free_of(after, "mem") == [6, 10], "the init container's block is gone"


def test_unused_init_cpus_stay_held() -> None:
    later = seen("1-2 / 0:mem=6Gi", "5-6 / 1:mem=4Gi")
    after, held = observe(TWO, TWICE, later)
    assert render_list(held.cpus) == "1-2,5-6"
    assert free_of(after, "mem") == [10, 6]
    assert [block.container for block in held.blocks] == ["c1"]


GROUP = asks("cpu=1 mem=14Gi")


def test_free_amounts_divide_a_group_among_its_zones() -> None:
    after, held = observe(COUNTS, GROUP, seen("01:mem=14Gi"), by_zones("0:mem=4Gi 1:mem=2Gi"))
    assert free_of(after, "mem") == [4, 2]
    assert sum(block.size for block in held.blocks) == 14 * GIB


FREE = [
    # what it shows                   left                                cpus    memory
    ("nothing reported",              None,                               [2, 3], [4, 10]),
    ("fewer",                         "0:cpu=1 mem=3Gi 1:cpu=2 mem=9Gi",  [1, 2], [3, 9]),
    ("more, if some were used twice", "0:cpu=3 mem=5Gi 1:cpu=4 mem=10Gi", [3, 4], [5, 10]),
    ("one zone reported",             "0:cpu=2 mem=3Gi",                  [2, 3], [3, 10]),
]  # fmt: skip


@pytest.mark.parametrize(("reported", "cpus", "mem"), table(FREE))
def test_reported_free_amounts_replace_computed_ones(
    reported: str | None, cpus: list[int], mem: list[int]
) -> None:
    free: FreeByZone | None = None if reported is None else by_zones(reported)
    after, held = observe(COUNTS, asks("cpu=2 mem=6Gi"), seen("0:cpu=1 mem=6Gi 1:cpu=1"), free)
    assert (free_of(after, "cpu"), free_of(after, "mem")) == (cpus, mem)
    assert held.cpus.bit_count() == 7 - sum(cpus)


def test_reserved_cpu_is_never_free() -> None:
    after, _ = observe(COUNTS, APP, seen("0:cpu=1 1:cpu=1"), by_zones("0:cpu=9 1:cpu=3"))
    assert free_cpus(after) == "1-3,5-7"
    after, _ = observe(TWO, APP, seen("1-2 / 0:cpu=2"), by_zones("0:cpu=3 1:cpu=4"))
    assert free_cpus(after) == "3-7"


def test_unknown_containers_and_zones_take_nothing() -> None:
    unknown = [replace(one, container="other") for one in seen("1 / 0:cpu=1 mem=1Gi gpu=1")]
    assert observe(COUNTS, APP, unknown) == (COUNTS, Assignments())
    after, held = observe(COUNTS, APP, seen("9:cpu=1"))
    assert (after, held.cpus) == (COUNTS, 0)


SAME = [
    # what it shows                 node    demand
    ("an init container on counts", COUNTS, TWICE),
    ("an app on a machine",         TWO,    APP),
    ("an init container on one",    TWO,    TWICE),
    ("a group",                     COUNTS, GROUP),
]  # fmt: skip


@pytest.mark.parametrize(("host", "demand"), table(SAME))
def test_observing_a_prediction_equals_charging_it(host: Node, demand: Demand) -> None:
    admission = admit(host, demand)
    grants = [
        ObservedContainer(grant.container, grant.cpus, grant.amounts) for grant in admission.placement.grants
    ]
    after, held = observe(host, demand, grants)
    assert after == charge(host, admission)
    assert (held.cpus, held.devices) == (admission.held.cpus, admission.held.devices)
