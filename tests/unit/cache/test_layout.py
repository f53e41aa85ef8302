"""Nodes of one layout differ in amounts alone; nodes of which amounts do not decide all have a reason."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from numalign.cache.layout import (
    MOST_BYTES,
    MOST_NAMES,
    MOST_PIECES,
    Layout,
    Unfit,
    layout_of,
    only_free_differs,
)
from numalign.model.attributes import Attributes
from numalign.model.bitset import bits
from numalign.model.machine import MOST_CPUS, Core, CpuSet, DevicePlace, Machine, Stock
from numalign.model.node import CpuManager, Known, MemoryManager, Node, Zone, alike
from numalign.model.resources import CPU, Resources, ZoneId
from tests.worlds.columns import layout, with_free
from tests.worlds.notation import GPU, NIC, Ids, bag, machine, node, options, table, zone_ids

ZONE = "cpu=16/15 mem=64Gi gpu=2"
CLOSEST = options("prefer-closest-numa-nodes")
FULL = options("full-pcpus-only")
BY_SOCKET = options("align-by-socket")
GATE = "PodLevelResourceManagers"
CORDONED = Attributes(cordoned=True)

PAIRS: dict[Ids, int] = {
    (one, two): 10 if one == two else 12 if one + two == 3 else 21 for one in range(4) for two in range(4)
}
"""Zones 0 and 3 are close, and 1 and 2."""


def plain(policy: str = "restricted", *zones: str, **facts: Any) -> Node:  # noqa: ANN401 - as `replace`
    return replace(node(*(zones or (ZONE, ZONE)), policy=policy), **facts)


def with_zone(change: Callable[[Zone], Zone]) -> Node:
    first, second = plain().zones
    return replace(plain(), zones=(change(first), second))


def with_bags(**bags: Any) -> Node:  # noqa: ANN401 - as `replace`
    return with_zone(lambda zone: replace(zone, **bags))


def grouped(cells: tuple[int, ...], assignments: int) -> Node:
    return with_zone(lambda zone: replace(zone, cells=frozenset(zone_ids(*cells)), assignments=assignments))


# Two nodes of one layout.

ONE_LAYOUT = [
    ("free amounts", with_free(plain(), "cpu=3 mem=1Gi", "gpu=0")),
    ("how much there is", plain("restricted", "cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=4")),
    ("names and labels", plain(name="another", label="a-class")),
    ("blocks of memory", node(ZONE, ZONE, policy="restricted", blocks=[(0, 1), (0,)])),
    ("an option that changes nothing", plain(options=options("strict-cpu-reservation"))),
    ("versions that hint alike", plain(options=options(minor=36))),
]
TWO_LAYOUTS = [
    ("the policy", plain("single-numa-node")),
    ("the scope", node(ZONE, ZONE, policy="restricted", scope="pod")),
    ("the CPU manager", plain(cpu_manager=CpuManager.NONE)),
    ("the memory manager", plain(memory_manager=MemoryManager.NONE)),
    ("whole cores", plain(options=FULL)),
    ("threads of cores", plain(threads=2)),
    ("how many zones there are", plain("restricted", ZONE, ZONE, ZONE)),
    ("the ids of zones", node(ZONE, ZONE, policy="restricted", ids=(0, 3))),
    ("a device more", plain("restricted", ZONE, f"{ZONE} nic=0")),
    ("the hardware of a zone", with_bags(capacity=bag("cpu=16 mem=64Gi gpu=2 huge=1Gi"))),
    ("whether totals are reported", plain(totals=bag("cpu=32"))),
    ("the most zones that it copes with", plain(max_zones=16)),
    ("distances", node(ZONE, ZONE, policy="restricted", costs={(0, 0): 10, (0, 1): 20})),
    ("where devices are hinted", plain(options=options(minor=34))),
    ("whether the closest zones are preferred", plain(options=CLOSEST)),
    ("resources whose zones are uncertain", plain(uncertain=frozenset({GPU}))),
]


@pytest.mark.parametrize(
    ("other", "same"), table([*((*row, True) for row in ONE_LAYOUT), *((*row, False) for row in TWO_LAYOUTS)])
)
def test_nodes_are_of_one_layout_or_not_if_they_differ_in(other: Node, *, same: bool) -> None:
    assert (layout(other) == layout(plain())) is same
    assert hash(layout(other)) == hash(layout(plain())) or not same


# Nodes of which amounts do not decide all.


def sized(*zones: str, costs: Mapping[Ids, int] | None = None) -> Node:
    return node(*zones, policy="restricted", costs=costs)


def scattered(threads: int) -> Node:
    """A node of which the allocated CPUs are known: none so far."""
    return plain(threads=threads, stock=Stock(bits(range(32)), ()))


def listing(count: int) -> Node:
    return node(" ".join(f"example.com/d{at}=1" for at in range(count)))


def shared_cpus(count: int) -> Node:
    return plain("none", f"cpu={count}", cpu_manager=CpuManager.NONE)


NEAR: dict[Ids, int] = dict.fromkeys([(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)], 12)
"""Of three zones, the first two are on one socket."""

DESCRIBED = machine("cpu=0-3 mem=8Gi", "cpu=4-7 mem=8Gi", devices="gpu=0,1*", reserved="0")
"""A described machine that reserves a CPU, with a device allocated."""

OTHER_DEVICES = replace(DESCRIBED, zones=node("cpu=4/3 mem=8Gi gpu=1", "cpu=4 mem=8Gi gpu=1//0 nic=1").zones)


def with_stock(cpus: CpuSet = 0b110, gpus: tuple[int, ...] = (1, 0)) -> Node:
    return replace(DESCRIBED, stock=Stock(cpus, ((GPU, gpus),)))


ACROSS = replace(
    node("cpu=2"), machine=Machine(zone_ids(0), tuple(Core(ZoneId(0), at, 0, 1 << at) for at in range(2)))
)
"""A described machine of one zone on two sockets."""


def cores(reserved: str) -> Node:
    """A described machine that allocates whole cores: 0 and 2 are one, and 1 and 3."""
    return machine("cpu=0-3", threads=2, reserved=reserved, options=FULL)


def scored(policy: str) -> Node:
    return node(ZONE, ZONE, policy=policy, options=options(strategy="most-allocated"))


MUCH = bag("mem=513Ti cpu=16 gpu=2")
UNFIT = [
    ("it has no zones", Unfit.ZONES, node()),
    ("it has more zones than are counted", Unfit.ZONES, node(*[ZONE] * 9)),
    ("only one of several zones is in hints",
        Unfit.ZONES, plain("restricted", ZONE, others=node(ZONE).zones)),
    ("its kubelet chooses CPUs",
        Unfit.CPU_OPTIONS, plain(options=options("align-by-socket strict-cpu-reservation"))),
    ("its kubelet chooses zones by their use", Unfit.SCORES, scored("best-effort")),
    ("its kubelet serves pods as a whole", Unfit.POD_LEVEL, plain(options=options(GATE))),
    ("a group of zones has no block", Unfit.MEMORY_GROUPS, grouped((0, 1), 0)),
    ("zones differ in CPUs", Unfit.UNEVEN_CPUS, sized("cpu=16", "cpu=8")),
    ("sockets differ in zones", Unfit.UNEVEN_CPUS, sized("cpu=4", "cpu=4", "cpu=4", costs=NEAR)),
    ("cores differ in threads", Unfit.UNEVEN_CPUS, plain("restricted", "cpu=3", "cpu=3", threads=2)),
    ("more is free than allocatable", Unfit.AMOUNTS, with_bags(free=bag("cpu=16"))),
    ("less than nothing is free", Unfit.AMOUNTS, with_bags(free=Resources({CPU: -1}))),
    ("more devices than there are", Unfit.AMOUNTS, with_bags(capacity=bag("cpu=16 gpu=1"))),
    ("more bytes than possible", Unfit.AMOUNTS, with_bags(allocatable=MUCH)),
    ("absurdly many devices", Unfit.AMOUNTS, sized(f"gpu={MOST_PIECES + 1}")),
    ("absurdly many CPUs", Unfit.AMOUNTS, shared_cpus(MOST_CPUS + 1)),
    ("allocated threads of wide cores are known", Unfit.THREADS, scattered(4)),
    ("a zone is on two sockets", Unfit.SOCKETS, ACROSS),
    ("a core is split after a whole one", Unfit.SPLIT_CORES, cores("1")),
    ("a machine has more devices than reported", Unfit.AMOUNTS, with_stock(gpus=(1, 1))),
    ("devices that a machine has not", Unfit.AMOUNTS, OTHER_DEVICES),
    ("what is left of its machine is unknown", Unfit.AMOUNTS, replace(DESCRIBED, stock=None)),
    ("it lists too many resources", Unfit.NAMES, listing(MOST_NAMES + 1)),
]  # fmt: skip


@pytest.mark.parametrize(("why", "one"), table(UNFIT))
def test_a_node_has_no_layout_where(why: Unfit, one: Node) -> None:
    assert layout_of(one) is why


def test_every_reason_has_an_example() -> None:
    assert {why for _, why, _ in UNFIT} == {*Unfit}


FIT = [
    ("zones are chosen by their use", scored("restricted")),
    ("allocated threads in pairs are known", scattered(2)),
    ("it lists as many resources as are told apart", listing(MOST_NAMES)),
    ("its version does not know the gate", plain(options=options(GATE, minor=34))),
    ("a group of zones has a block", grouped((0, 1), 1)),
    ("more memory than by hardware", with_bags(capacity=bag("cpu=16 mem=1Gi gpu=2"))),
    ("as many CPUs as are counted", shared_cpus(MOST_CPUS)),
    ("the first core is split", cores("2")),
    ("a whole core is reserved after others", cores("1,3")),
    ("a core that may be broken is split", machine("cpu=0-3", threads=2, reserved="1")),
    ("as much as anything has", sized(f"gpu={MOST_PIECES} mem={MOST_BYTES}")),
]  # fmt: skip


@pytest.mark.parametrize("one", table(FIT))
def test_a_node_has_a_layout_though(one: Node) -> None:
    assert isinstance(layout_of(one), Layout)


EMPTY_PLACE = Machine(zone_ids(0), (), devices=((GPU, (DevicePlace(zone_ids(0), 0, 0),)),))


UNPLACED = [
    ("each on a zone", machine("cpu=0-3", "cpu=4-7", devices="gpu=0,1,0x,1*"), set()),
    ("between zones", machine("cpu=0-3", "cpu=4-7", devices="gpu=0,01 nic=1"), {GPU}),
    ("on none", machine("cpu=0-3", "cpu=4-7", devices="gpu=0,- nic=-"), {GPU, NIC}),
    ("not there at all", replace(node("mem=8Gi"), machine=EMPTY_PLACE), {GPU}),
]  # fmt: skip


@pytest.mark.parametrize(("one", "unplaced"), table(UNPLACED))
def test_devices_are_unplaced(one: Node, unplaced: set[str]) -> None:
    assert layout(one).unplaced == unplaced


# What changes all day long.

ILL = plain(health=plain(attributes=CORDONED, name="another"))
CHANGES = [
    # what differs                         the node, another, only what is free differs, verdicts are equal
    ("free amounts", with_free(plain(), "cpu=1", "gpu=0"), plain(), True, False),
    ("blocks and groups of memory", grouped((0, 1), 3), plain(), True, False),
    ("a group without a block", grouped((0, 1), 0), plain(), False, False),
    ("names and labels", plain(name="another", label="a"), plain(), True, True),
    ("which pods may use it", plain(attributes=CORDONED), plain(), True, True),
    ("how much is known", plain(known=Known.MACHINE), plain(), True, False),
    ("free threads of pairs", scattered(2), plain(threads=2), True, False),
    ("free threads of wide cores", scattered(4), plain(threads=4), False, False),
    ("free CPUs of a machine", with_stock(), DESCRIBED, True, False),
    ("devices that zones contradict", with_stock(gpus=(0, 0)), DESCRIBED, False, False),
    ("reserved CPUs that are free", with_stock(cpus=bits([0])), DESCRIBED, False, False),
    ("hardware", with_bags(capacity=bag("cpu=17 mem=64Gi gpu=2")), plain(), False, False),
    ("a described machine", DESCRIBED, plain(), False, False),
    ("health", plain(health=plain()), plain(), False, False),
    ("the policy when healthy", ILL, plain(health=plain(policy="none")), False, False),
]  # fmt: skip
CHANGES += [(what, other, plain(), False, False) for what, other in TWO_LAYOUTS]


@pytest.mark.parametrize(("other", "before", "only_free", "equal"), table(CHANGES))
def test_nodes_differ_in(other: Node, before: Node, *, only_free: bool, equal: bool) -> None:
    assert (only_free_differs(other, before), alike(other, before)) == (only_free, equal)


def test_a_node_is_not_like_none() -> None:
    assert (alike(None, None), alike(plain(), None), alike(None, plain())) == (True, False, False)
