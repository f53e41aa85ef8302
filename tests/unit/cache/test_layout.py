"""Nodes of one layout differ in amounts alone; where amounts do not decide all it is told why."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from numalign.cache.layout import (
    MOST_BYTES,
    MOST_NAMES,
    MOST_PIECES,
    KubeletConfig,
    Layout,
    Unfit,
    config_of,
    layout_of,
    only_free_differs,
)
from numalign.kubelet import cpu_manager
from numalign.model.attributes import Attributes
from numalign.model.bitset import bits
from numalign.model.intent import Policy, Scope
from numalign.model.machine import MOST_CPUS, Core, CpuSet, DevicePlace, Machine, Stock
from numalign.model.node import CpuManager, Known, MemoryManager, Node, Zone, alike
from numalign.model.resources import CPU, MEMORY, Resources, ZoneId
from tests.worlds.in_columns import layout, left
from tests.worlds.notation import GPU, HUGE, NIC, Ids, bag, machine, node, options, table, zone_ids

ZONE = "cpu=16/15 mem=64Gi gpu=2"
CLOSEST = options("prefer-closest-numa-nodes")
FULL = options("full-pcpus-only")
BY_SOCKET = options("align-by-socket")
GATE = "PodLevelResourceManagers"
CORDONED = Attributes(cordoned=True)

PAIRS: dict[Ids, int] = {
    (0, 0): 10, (0, 1): 21, (0, 2): 21, (0, 3): 12,
    (1, 0): 21, (1, 1): 10, (1, 2): 12, (1, 3): 21,
    (2, 0): 21, (2, 1): 12, (2, 2): 10, (2, 3): 21,
    (3, 0): 12, (3, 1): 21, (3, 2): 21, (3, 3): 10,
}  # fmt: skip
"""Zones 0 and 3 are close, and 1 and 2."""


def told(policy: str = "restricted", *zones: str, **facts: Any) -> Node:  # noqa: ANN401 - as `replace`
    return replace(node(*(zones or (ZONE, ZONE)), policy=policy), **facts)


def with_zone(change: Callable[[Zone], Zone]) -> Node:
    """The node of `told`, its first zone changed."""
    first, second = told().zones
    return replace(told(), zones=(change(first), second))


def with_bags(**bags: Resources) -> Node:
    return with_zone(lambda zone: replace(zone, **changes(bags)))


def changes(facts: Mapping[str, Any]) -> dict[str, Any]:
    return dict(facts)


# What makes two nodes of one layout.


@pytest.mark.parametrize(
    "other",
    table(
        [
            ("what is free", left(told(), "cpu=3 mem=1Gi", "gpu=0")),
            ("how much there is", told("restricted", "cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=4")),
            ("names and labels", told(name="another", label="a-class")),
            ("blocks of memory", node(ZONE, ZONE, policy="restricted", blocks=[(0, 1), (0,)])),
            ("an option that changes nothing", told(options=options("strict-cpu-reservation"))),
            ("versions that hint alike", told(options=options(minor=36))),
        ]
    ),
)
def test_nodes_that_differ_in_this_are_of_one_layout(other: Node) -> None:
    assert layout(other) == layout(told())
    assert hash(layout(other)) == hash(layout(told()))


DIFFERENT = [
    ("the policy", told("single-numa-node")),
    ("the scope", node(ZONE, ZONE, policy="restricted", scope="pod")),
    ("the CPU manager", told(cpu_manager=CpuManager.NONE)),
    ("the memory manager", told(memory_manager=MemoryManager.NONE)),
    ("whether CPUs are given out in whole cores", told(options=FULL)),
    ("threads of cores", told(threads=2)),
    ("how many zones there are", told("restricted", ZONE, ZONE, ZONE)),
    ("the ids of zones", node(ZONE, ZONE, policy="restricted", ids=(0, 3))),
    ("a device more", told("restricted", ZONE, f"{ZONE} nic=1")),
    ("a device of which a node has none", told("restricted", ZONE, f"{ZONE} nic=0")),
    ("what zones list", with_bags(capacity=bag("cpu=16 mem=64Gi gpu=2 huge=1Gi"))),
    ("whether totals are told", told(totals=bag("cpu=32"))),
    ("the most zones that it copes with", told(max_zones=16)),
    ("distances", node(ZONE, ZONE, policy="restricted", costs={(0, 0): 10, (0, 1): 20})),
    ("where devices are hinted", told(options=options(minor=34))),
    ("whether the closest zones are preferred", told(options=CLOSEST)),
]


@pytest.mark.parametrize("other", table(DIFFERENT))
def test_nodes_that_differ_in_this_are_of_two_layouts(other: Node) -> None:
    assert layout(other) != layout(told())


def test_which_totals_are_told_makes_a_layout_and_how_much_does_not() -> None:
    few, more, other = (layout(told(totals=bag(text))) for text in ("cpu=1", "cpu=9", "cpu=1 gpu=1"))

    assert few == more
    assert few != other


def test_a_layout_tells_what_its_nodes_have_in_common() -> None:
    found = layout(told("restricted", f"{ZONE} nic=0", f"{ZONE} nic=1", totals=bag("cpu=9 pods=3")))

    assert found.names == (CPU, NIC, MEMORY, GPU)
    assert found.listed == {CPU, MEMORY, GPU, NIC}
    assert found.devices == {GPU, NIC}
    assert found.totals == frozenset({CPU, "pods"})
    assert found.all_names == (CPU, NIC, MEMORY, GPU, "pods")
    assert found.ids == zone_ids(0, 1)


def test_what_only_the_hardware_has_is_not_listed() -> None:
    hidden = replace(
        told(), zones=tuple(replace(zone, allocatable=bag(""), free=bag("")) for zone in told().zones)
    )

    assert layout(hidden).names == (CPU, MEMORY, GPU)
    assert layout(hidden).listed == frozenset()


@pytest.mark.parametrize(
    ("one", "given"),
    table(
        [
            ("all managers are on", told(), {CPU, MEMORY, HUGE, GPU}),
            ("CPUs are shared", told(cpu_manager=CpuManager.NONE), {MEMORY, HUGE, GPU}),
            ("memory is shared", told(memory_manager=MemoryManager.NONE), {CPU, GPU}),
            ("there is no device", told("none", "cpu=4 mem=1Gi gpu=0"), {CPU, MEMORY, HUGE}),
        ]
    ),
)
def test_managers_give_out_what_they_keep(one: Node, given: set[str]) -> None:
    names = (CPU, MEMORY, HUGE, GPU, NIC, "pods")

    assert {name for name in names if layout(one).gives_out(name)} == given


def test_a_layout_tells_how_the_kubelet_is_configured() -> None:
    told_all = node(
        ZONE, ZONE, policy="best-effort", scope="pod", options=options("full-pcpus-only", minor=34)
    )

    assert layout(told_all).config == KubeletConfig(
        policy=Policy.BEST_EFFORT,
        scope=Scope.POD,
        cpu_manager=CpuManager.STATIC,
        memory_manager=MemoryManager.STATIC,
        near=False,
        whole_cores=True,
        threads=2,
        init_memory=False,
    )


@pytest.mark.parametrize(
    ("one", "threads", "whole_cores"),
    table(
        [
            ("one thread, if nobody told", told(), 1, False),
            ("as many threads as are told", told(threads=4), 4, False),
            ("two threads where the option means anything", told(options=FULL), 2, True),
            ("cores that nobody gives out", told(options=FULL, cpu_manager=CpuManager.NONE), 1, False),
        ]
    ),
)
def test_cores_have(one: Node, threads: int, *, whole_cores: bool) -> None:
    config = config_of(one, cpu_manager.topology(one))

    assert (config.threads, config.whole_cores) == (threads, whole_cores)


@pytest.mark.parametrize(
    ("policy", "strict"),
    [("none", False), ("best-effort", False), ("restricted", True), ("single-numa-node", True)],
)
def test_strict_kubelets_refuse_what_they_cannot_align(policy: str, *, strict: bool) -> None:
    one = told(policy)

    assert config_of(one, cpu_manager.topology(one)).strict is strict


@pytest.mark.parametrize(
    ("one", "sockets"),
    table(
        [
            ("each zone is one, if nobody told", told("none", "cpu=4", "cpu=4", "cpu=4"), (0, 1, 2)),
            ("close zones share one", node(*["cpu=4"] * 4, costs=PAIRS), (0, 1, 1, 0)),
            (
                "zones without CPUs share none",
                node("cpu=0", "cpu=4", "cpu=4", "cpu=0", costs=PAIRS),
                (1, 0, 0, 2),
            ),
            ("they come in their own order", machine("cpu=0", "cpu=1", sockets=[1, 0]), (1, 0)),
            ("nobody looks at CPUs", node(*["cpu=4/0"] * 4, costs=PAIRS), (0, 1, 2, 3)),
        ]
    ),
)
def test_zones_lie_on_sockets(one: Node, sockets: tuple[int, ...]) -> None:
    assert layout(one).sockets == sockets


# Nodes of which amounts do not decide all.


def grouped(cells: tuple[int, ...], assignments: int) -> Node:
    return with_zone(lambda zone: replace(zone, cells=frozenset(zone_ids(*cells)), assignments=assignments))


def sized(*zones: str, costs: Mapping[Ids, int] | None = None) -> Node:
    return node(*zones, policy="restricted", costs=costs)


def scattered(threads: int) -> Node:
    """A node of which it is known which CPUs are given out: none so far."""
    return told(threads=threads, stock=Stock(bits(range(32)), ()))


def listing(count: int) -> Node:
    return node(" ".join(f"example.com/d{at}=1" for at in range(count)))


def shared_cpus(count: int) -> Node:
    return told("none", f"cpu={count}", cpu_manager=CpuManager.NONE)


NEAR: dict[Ids, int] = dict.fromkeys([(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)], 12)
"""Of three zones, the first two are on one socket."""

KEEPING = machine("cpu=0-3 mem=8Gi", "cpu=4-7 mem=8Gi", devices="gpu=0,1*", reserved="0")
"""A described machine that keeps a CPU, with a device given out."""

UNKNOWN_DEVICES = replace(KEEPING, zones=node("cpu=4/3 mem=8Gi gpu=1", "cpu=4 mem=8Gi gpu=1//0 nic=1").zones)


def with_stock(cpus: CpuSet = 0b110, gpus: tuple[int, ...] = (1, 0)) -> Node:
    return replace(KEEPING, stock=Stock(cpus, ((GPU, gpus),)))


def across() -> Node:
    """A described machine of one zone on two sockets."""
    known = Machine(zone_ids(0), tuple(Core(ZoneId(0), at, 0, 1 << at) for at in range(2)))
    return replace(node("cpu=2"), machine=known)


ACROSS = across()


def cores(reserved: str) -> Node:
    """A described machine that gives out whole cores: 0 and 2 are one, and 1 and 3."""
    return machine("cpu=0-3", threads=2, reserved=reserved, options=FULL)


BELOW_NOTHING = with_bags(allocatable=Resources({"x": -1}), free=bag(""))


def scored(policy: str) -> Node:
    return node(ZONE, ZONE, policy=policy, options=options(strategy="most-allocated"))


WITHOUT = with_bags(capacity=bag("cpu=16"), allocatable=bag("gpu=1"), free=bag(""))


@pytest.mark.parametrize(
    ("why", "one"),
    table(
        [
            ("it has no zones", Unfit.ZONES, node()),
            ("it has more zones than are counted", Unfit.ZONES, node(*[ZONE] * 9)),
            ("its kubelet chooses CPUs", Unfit.CPU_OPTIONS, told(options=BY_SOCKET)),
            (
                "one option is harmless, one is not",
                Unfit.CPU_OPTIONS,
                told(options=options("align-by-socket strict-cpu-reservation")),
            ),
            ("its kubelet chooses zones by their use", Unfit.SCORES, scored("best-effort")),
            ("its kubelet looks at pods as a whole", Unfit.POD_LEVEL, told(options=options(GATE))),
            ("a group of zones has no block", Unfit.MEMORY_GROUPS, grouped((0, 1), 0)),
            ("zones differ in CPUs", Unfit.UNEVEN_CPUS, sized("cpu=16", "cpu=8")),
            ("sockets differ in zones", Unfit.UNEVEN_CPUS, sized("cpu=4", "cpu=4", "cpu=4", costs=NEAR)),
            ("cores differ in threads", Unfit.UNEVEN_CPUS, told("restricted", "cpu=3", "cpu=3", threads=2)),
            ("more is free than may be given out", Unfit.AMOUNTS, with_bags(free=bag("cpu=16"))),
            ("something is free and nothing given out", Unfit.AMOUNTS, with_bags(free=bag("nic=1"))),
            ("less than nothing is free", Unfit.AMOUNTS, with_bags(free=Resources({CPU: -1}))),
            ("less than nothing may be given out", Unfit.AMOUNTS, BELOW_NOTHING),
            ("more is given out than there is", Unfit.AMOUNTS, with_bags(capacity=bag("cpu=16 gpu=1"))),
            ("something is given out and is not there", Unfit.AMOUNTS, WITHOUT),
            (
                "more bytes are given out than is possible",
                Unfit.AMOUNTS,
                with_bags(allocatable=bag("mem=513Ti")),
            ),
            (
                "there are more bytes than is possible",
                Unfit.AMOUNTS,
                with_bags(capacity=bag("mem=513Ti cpu=16 gpu=2")),
            ),
            ("there are absurdly many devices", Unfit.AMOUNTS, sized(f"gpu={MOST_PIECES + 1}")),
            ("there are absurdly many CPUs", Unfit.AMOUNTS, shared_cpus(MOST_CPUS + 1)),
            ("it is known which threads of many-threaded cores are given out", Unfit.THREADS, scattered(4)),
            ("a machine's cores have many threads", Unfit.THREADS, machine("cpu=0-7", threads=4)),
            ("a machine's zones differ in CPUs", Unfit.UNEVEN_CPUS, machine("cpu=0-3", "cpu=4-5")),
            ("a zone lies on two sockets", Unfit.SOCKETS, ACROSS),
            ("a core is split after a whole one", Unfit.SPLIT_CORES, cores("1")),
            ("a machine has more devices than zones report", Unfit.AMOUNTS, with_stock(gpus=(1, 1))),
            ("a machine has other CPUs than are free", Unfit.AMOUNTS, with_stock(cpus=bits([99]))),
            ("CPUs are free that are kept", Unfit.AMOUNTS, with_stock(cpus=bits([0, 1]))),
            ("zones report devices that a machine has not", Unfit.AMOUNTS, UNKNOWN_DEVICES),
            ("it lists too many resources", Unfit.NAMES, listing(MOST_NAMES + 1)),
        ]
    ),
)
def test_a_node_stands_in_no_table_where(why: Unfit, one: Node) -> None:
    assert layout_of(one) is why


def test_every_reason_is_told_of_some_node() -> None:
    nodes = [node(), ACROSS, cores("1")]
    nodes += [told(options=BY_SOCKET), told(options=options(GATE)), scored("best-effort")]
    nodes += [grouped((0, 1), 0), sized("cpu=16", "cpu=8"), WITHOUT, scattered(4), listing(MOST_NAMES + 1)]

    assert {layout_of(one) for one in nodes} == {*Unfit}


@pytest.mark.parametrize(
    "one",
    table(
        [
            ("it has as many zones as are counted", node(*[ZONE] * 8)),
            ("its kubelet gives out whole cores", told(options=FULL)),
            ("its option is for CPUs that are shared", told(options=BY_SOCKET, cpu_manager=CpuManager.NONE)),
            ("threads of cores in pairs are given out", scattered(2)),
            ("nobody knows which threads are given out", told(threads=4)),
            ("it lists as many resources as are told apart", listing(MOST_NAMES)),
            ("its version does not know the gate", told(options=options(GATE, minor=34))),
            ("a group of zones has a block", grouped((0, 1), 1)),
            ("blocks lie on zones without a group", grouped((), 2)),
            ("some zones have no CPUs at all", sized("cpu=8", "cpu=8", "cpu=0 mem=1Gi")),
            ("zones differ in CPUs that nobody gives out", told("none", "cpu=16/0", "cpu=8/0")),
            ("sockets have as many zones", sized(*["cpu=4"] * 2, costs=NEAR)),
            ("more memory is given out than there is", with_bags(capacity=bag("cpu=16 mem=1Gi gpu=2"))),
            ("there are as many CPUs as are counted", shared_cpus(MOST_CPUS)),
            ("its machine is described", KEEPING),
            ("other CPUs of its machine are given out", with_stock()),
            ("the first core is split", cores("2")),
            ("a whole core is kept after others", cores("1,3")),
            (
                "a core is split anywhere, and may be broken into",
                machine("cpu=0-3", threads=2, reserved="1"),
            ),
            ("some devices sit between zones", machine("cpu=0-3", "cpu=4-7", devices="gpu=0,01,-")),
            ("there is as much as anything has", sized(f"gpu={MOST_PIECES} mem={MOST_BYTES}")),
            ("less CPUs are listed than given out", with_bags(allocatable=bag("cpu=17"), free=bag(""))),
        ]
    ),
)
def test_a_node_has_a_layout_though(one: Node) -> None:
    assert isinstance(layout_of(one), Layout)


def test_what_eight_zones_have_at_the_most_is_still_counted() -> None:
    assert 8 * MOST_BYTES <= 2**53
    assert 8 * MOST_PIECES < 2**31


DEVICES = [
    # where they sit                     devices            unplaced
    ("each on a zone",                   "gpu=0,1,0x,1*",   set()),
    ("ill ones only",                    "gpu=0x",          set()),
    ("one between zones",                "gpu=0,01 nic=1",  {GPU}),
    ("one on none",                      "gpu=0,- nic=-",   {GPU, NIC}),
]  # fmt: skip


@pytest.mark.parametrize(("devices", "unplaced"), table(DEVICES))
def test_devices_that_do_not_each_sit_on_one_zone_are_unplaced(devices: str, unplaced: set[str]) -> None:
    assert layout(machine("cpu=0-3", "cpu=4-7", devices=devices)).unplaced == unplaced


def test_where_devices_of_counted_nodes_sit_is_told() -> None:
    assert layout(told()).unplaced == frozenset()


def test_of_devices_that_are_not_there_columns_say_nothing() -> None:
    known = Machine(zone_ids(0), (), devices=((GPU, (DevicePlace(zone_ids(0), 0, 0),)),))

    assert layout(replace(node("mem=8Gi"), machine=known)).unplaced == {GPU}


# How far apart zones are.


@pytest.mark.parametrize(
    ("policy", "words", "first"),
    table(
        [
            ("the lowest ones without the option", "restricted", "", 0b0011),
            ("close ones with it", "restricted", "prefer-closest-numa-nodes", 0b0110),
            ("close ones of a best effort too", "best-effort", "prefer-closest-numa-nodes", 0b0110),
            (
                "the lowest ones where single zones count",
                "single-numa-node",
                "prefer-closest-numa-nodes",
                0b0011,
            ),
            ("the lowest ones where nothing is aligned", "none", "prefer-closest-numa-nodes", 0b0011),
        ]
    ),
)
def test_of_two_zones_these_come_first(policy: str, words: str, first: int) -> None:
    found = layout(node(*[ZONE] * 4, policy=policy, costs=PAIRS, options=options(words))).numa

    assert min((0b0011, 0b0110, 0b1001, 0b1100), key=found.rank) == first


# What changes all day long.


@pytest.mark.parametrize(
    "other",
    table(
        [
            ("amounts", left(told(), "cpu=1", "gpu=0")),
            ("blocks and groups of memory", grouped((0, 1), 3)),
            ("names and labels", told(name="another", label="a-class")),
            ("who may go there", told(attributes=CORDONED)),
        ]
    ),
)
def test_no_more_than_what_is_free_differs_by(other: Node) -> None:
    assert only_free_differs(other, told())
    assert only_free_differs(told(), other)


@pytest.mark.parametrize(
    "other",
    table(
        [
            *DIFFERENT,
            ("how much there is", with_bags(capacity=bag("cpu=17 mem=64Gi gpu=2"))),
            ("how much may be given out", with_bags(allocatable=bag("cpu=16 mem=64Gi gpu=2"))),
            ("how much the node may give out", told(totals=bag("cpu=1"))),
            ("a described machine", machine("cpu=0-3 mem=8Gi", "cpu=4-7 mem=8Gi")),
            ("what it has in health", told(health=told())),
        ]
    ),
)
def test_more_than_what_is_free_differs_by(other: Node) -> None:
    assert not only_free_differs(other, told())
    assert not only_free_differs(told(), other)


def test_which_threads_are_given_out_is_an_amount_of_cores_in_pairs_alone() -> None:
    assert only_free_differs(scattered(2), told(threads=2))
    assert not only_free_differs(scattered(4), told(threads=4))


def test_what_a_described_machine_has_left_is_an_amount_unless_its_zones_report_another() -> None:
    assert only_free_differs(with_stock(), KEEPING)
    assert not only_free_differs(with_stock(gpus=(0, 0)), KEEPING)
    assert not only_free_differs(with_stock(cpus=bits([0])), KEEPING)


def test_a_group_without_a_block_is_no_amount() -> None:
    assert not only_free_differs(grouped((0, 1), 0), told())
    assert only_free_differs(told(), grouped((0, 1), 0))


ALIKE = [
    # what differs                          the node                                              alike
    ("nothing",                             told(),                                               True),
    ("the name",                            told(name="another"),                                 True),
    ("the class that it is labelled with",  told(label="a-class"),                                True),
    ("who may go there",                    told(attributes=CORDONED),                            True),
    ("what is free",                        left(told(), "gpu=0", ""),                            False),
    ("how much is known",                   told(known=Known.MACHINE),                            False),
    ("its health",                          told(health=told()),                                  False),
]  # fmt: skip


@pytest.mark.parametrize(("other", "expected"), table(ALIKE))
def test_verdicts_are_the_same_if_there_differs(other: Node, expected: bool) -> None:  # noqa: FBT001
    assert alike(other, told()) is expected
    assert alike(told(), other) is expected


def test_of_ill_nodes_it_does_not_matter_who_may_go_there_in_health() -> None:
    ill = told(health=told(attributes=CORDONED, name="another"))

    assert alike(ill, told(health=told()))
    assert only_free_differs(ill, told(health=told()))
    assert not alike(ill, told(health=told(policy="none")))
    assert not only_free_differs(ill, told(health=told(policy="none")))


def test_no_node_is_like_nobody() -> None:
    assert alike(None, None)
    assert not alike(told(), None)
    assert not alike(None, told())
