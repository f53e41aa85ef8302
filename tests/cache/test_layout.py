"""Nodes of one layout differ in amounts alone, and what amounts cannot tell has none."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from numalign.cache.layout import HALF, MOST_BYTES, MOST_PIECES, layout_of, only_free_differs
from numalign.model.attributes import Attributes
from numalign.model.node import CpuManager, Known, MemoryManager, Node, Zone, alike
from numalign.model.resources import CPU, MEMORY, Resources
from tests.in_columns import layout, left
from tests.notation import GPU, HUGE, NIC, Ids, bag, machine, node, options, table, zone_ids

ZONE = "cpu=16/15 mem=64Gi gpu=2"
CLOSEST = options("prefer-closest-numa-nodes")
GATE = "PodLevelResourceManagers"
CORDONED = Attributes(cordoned=True)


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
            ("threads of cores", told(threads=2)),
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
    assert (found.ids, found.count) == (zone_ids(0, 1), 2)


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


# Nodes of which amounts do not tell everything.


def grouped(cells: tuple[int, ...], assignments: int) -> Node:
    return with_zone(lambda zone: replace(zone, cells=frozenset(zone_ids(*cells)), assignments=assignments))


def sized(*zones: str, costs: Mapping[Ids, int] | None = None) -> Node:
    return node(*zones, policy="restricted", costs=costs)


def shared_cpus(count: int) -> Node:
    return told("none", f"cpu={count}", cpu_manager=CpuManager.NONE)


NEAR: dict[Ids, int] = dict.fromkeys([(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)], 12)
"""Of three zones, the first two are on one socket."""

FULL = options("full-pcpus-only")
WITHOUT = with_bags(capacity=bag("cpu=16"), allocatable=bag("gpu=1"), free=bag(""))


@pytest.mark.parametrize(
    "one",
    table(
        [
            ("it has no zones", node()),
            ("it has more zones than are counted", node(*[ZONE] * 9)),
            ("its machine is described", machine("cpu=0-3 mem=8Gi", "cpu=4-7 mem=8Gi")),
            ("its kubelet has an option for CPUs", told(options=FULL)),
            (
                "one of them is not harmless",
                told(options=options("full-pcpus-only strict-cpu-reservation")),
            ),
            ("its kubelet looks at pods as a whole", told(options=options(GATE))),
            ("a group of zones has no block", grouped((0, 1), 0)),
            ("zones differ in CPUs", sized("cpu=16", "cpu=8")),
            ("sockets differ in zones", sized("cpu=4", "cpu=4", "cpu=4", costs=NEAR)),
            ("cores differ in threads", told("restricted", "cpu=3", "cpu=3", threads=2)),
            ("more is free than may be given out", with_bags(free=bag("cpu=16"))),
            ("something is free of which nothing is given out", with_bags(free=bag("nic=1"))),
            ("less than nothing is free", with_bags(free=Resources({CPU: -1}))),
            ("less than nothing may be given out", with_bags(allocatable=Resources({"x": -1}), free=bag(""))),
            ("more devices are given out than there are", with_bags(capacity=bag("cpu=16 gpu=1"))),
            ("a device is given out of which there is none", WITHOUT),
            ("more bytes are given out than anything has", with_bags(allocatable=bag("mem=513Ti"))),
            ("there are more bytes than anything has", with_bags(capacity=bag("mem=513Ti cpu=16 gpu=2"))),
            ("there are absurdly many devices", sized(f"gpu={MOST_PIECES + 1}")),
            ("there are absurdly many CPUs", shared_cpus(MOST_PIECES + 1)),
        ]
    ),
)
def test_a_node_has_no_layout_where(one: Node) -> None:
    assert layout_of(one) is None


@pytest.mark.parametrize(
    "one",
    table(
        [
            ("it has as many zones as are counted", node(*[ZONE] * 8)),
            (
                "its option is for CPUs that are shared",
                told(options=FULL, cpu_manager=CpuManager.NONE),
            ),
            ("its version does not know the gate", told(options=options(GATE, minor=34))),
            ("a group of zones has a block", grouped((0, 1), 1)),
            ("blocks lie on zones without a group", grouped((), 2)),
            ("some zones have no CPUs at all", sized("cpu=8", "cpu=8", "cpu=0 mem=1Gi")),
            ("zones differ in CPUs that nobody gives out", told("none", "cpu=16/0", "cpu=8/0")),
            ("sockets have as many zones", sized(*["cpu=4"] * 2, costs=NEAR)),
            ("more memory is given out than there is", with_bags(capacity=bag("cpu=16 mem=1Gi gpu=2"))),
            ("there are as many CPUs as are counted", shared_cpus(MOST_PIECES)),
            ("there is as much as anything has", sized(f"gpu={MOST_PIECES} mem={MOST_BYTES}")),
            ("less CPUs are listed than given out", with_bags(allocatable=bag("cpu=17"), free=bag(""))),
        ]
    ),
)
def test_a_node_has_a_layout_though(one: Node) -> None:
    assert layout_of(one) is not None


def test_what_eight_zones_have_at_the_most_is_still_counted() -> None:
    assert 8 * MOST_BYTES <= 2**53
    assert 8 * MOST_PIECES < 2**31


# Which sets of zones come first.

SQUARE: dict[Ids, int] = {
    (0, 0): 10, (0, 1): 21, (0, 2): 21, (0, 3): 12,
    (1, 0): 21, (1, 1): 10, (1, 2): 12, (1, 3): 21,
    (2, 0): 21, (2, 1): 12, (2, 2): 10, (2, 3): 21,
    (3, 0): 12, (3, 1): 21, (3, 2): 21, (3, 3): 10,
}  # fmt: skip
"""Zones 0 and 3 are close, and 1 and 2."""

NUMBERED = [0b0011, 0b0101, 0b0110, 0b1001, 0b1010, 0b1100]
CLOSE_FIRST = [0b0110, 0b1001, 0b0011, 0b0101, 0b1010, 0b1100]


def four(policy: str, words: str) -> Node:
    return node(*[ZONE] * 4, policy=policy, costs=SQUARE, options=options(words))


@pytest.mark.parametrize(
    ("policy", "words", "order"),
    table(
        [
            ("without the option, by number", "restricted", "", NUMBERED),
            ("with it, close ones first", "restricted", "prefer-closest-numa-nodes", CLOSE_FIRST),
            ("of a best effort too", "best-effort", "prefer-closest-numa-nodes", CLOSE_FIRST),
            ("one zone has no distance", "single-numa-node", "prefer-closest-numa-nodes", NUMBERED),
            ("nobody asks", "none", "prefer-closest-numa-nodes", NUMBERED),
        ]
    ),
)
def test_sets_of_two_zones_stand_in_the_kubelets_order(policy: str, words: str, order: list[int]) -> None:
    found = layout(four(policy, words))

    assert found.of_width(2) == tuple(order)


def test_sets_are_told_by_their_halves_too() -> None:
    found = layout(node(*[ZONE] * 6))
    low, high = found.halves(3)

    assert (low | high << HALF).tolist() == [*found.of_width(3)]
    assert low.max() < 1 << HALF


def test_single_zones_stand_in_order_unless_one_is_nearer_to_itself() -> None:
    nearer: dict[Ids, int] = {(0, 0): 20, (1, 1): 10, (0, 1): 30, (1, 0): 30}
    odd = node(ZONE, ZONE, policy="restricted", costs=nearer, options=CLOSEST)

    assert layout(told()).in_order
    assert not layout(odd).in_order
    assert layout(odd).of_width(1) == (2, 1)


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
            ("threads of cores", told(threads=2)),
            ("an option for CPUs", told(options=FULL)),
            ("what it has in health", told(health=told())),
        ]
    ),
)
def test_more_than_what_is_free_differs_by(other: Node) -> None:
    assert not only_free_differs(other, told())
    assert not only_free_differs(told(), other)


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
