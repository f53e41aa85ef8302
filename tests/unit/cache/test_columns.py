"""Columns hold what the rules read of nodes, and add it up."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.columns import (
    BOUNDLESS,
    CORES,
    EVER,
    GROUPED,
    GROUPS,
    MOST_RESOURCES,
    RAW,
    SIZES,
    SPLIT,
    USED,
    Columns,
    FreeOrEmpty,
    When,
    dtype,
    sums_of,
)
from numalign.cache.layout import MOST_BYTES
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.resources import CPU, MEMORY, Resources
from tests.worlds.in_columns import columns, layout, left
from tests.worlds.notation import GPU, HUGE, NIC, bag, machine, node, options, table

GIB = 2**30

PLAIN = node("cpu=16/15 mem=8Gi gpu=2", "cpu=16/16/4 mem=8Gi//1Gi gpu=2//0", policy="restricted")


def gives(made: Columns, name: str, when: FreeOrEmpty = When.NOW) -> list[list[int]]:
    """By row what each zone may give of a resource."""
    return list[list[int]](made.free(when, [name])[0].T.tolist())


def told(one: Node, when: str, feature: str) -> list[int]:
    """What columns tell of one node beside resources."""
    (row,) = columns(one).of(when, feature).T.tolist()
    return list[int](row)


def at_most(one: Node, name: str) -> list[int]:
    """What one, two, ... zones of one node have at the most."""
    (row,) = columns(one).top([name])[0].T.tolist()
    return list[int](row)


def total(one: Node, name: str) -> int:
    """What one node has as a whole."""
    ((amount,),) = columns(one).totals([name]).tolist()
    return int(amount)


# What each zone may give.


@pytest.mark.parametrize(
    ("name", "now", "empty"),
    table(
        [
            ("CPUs, whole", CPU, [15, 4], [15, 16]),
            ("bytes", MEMORY, [8 * GIB, GIB], [8 * GIB, 8 * GIB]),
            ("devices", GPU, [2, 0], [2, 2]),
        ]
    ),
)
def test_a_zone_gives_what_is_free_and_empty_what_may_be_given_out(
    name: str, now: list[int], empty: list[int]
) -> None:
    assert gives(columns(PLAIN), name) == [now]
    assert gives(columns(PLAIN), name, When.EMPTY) == [empty]


def test_a_part_of_a_cpu_is_no_cpu() -> None:
    parts = node("cpu=4/3500m/1500m mem=1Gi", "cpu=4")

    assert gives(columns(parts), CPU) == [[1, 4]]
    assert gives(columns(parts), CPU, When.EMPTY) == [[3, 4]]
    assert told(parts, When.NOW, RAW) == [1500, 4000]
    assert told(parts, When.EMPTY, RAW) == [3500, 4000]


def test_shared_cpus_are_nobodys_own() -> None:
    shared = replace(PLAIN, cpu_manager=CpuManager.NONE)

    assert gives(columns(shared), CPU) == gives(columns(shared), CPU, When.EMPTY) == [[0, 0]]
    assert told(shared, When.NOW, RAW) == [15_000, 4000]
    assert told(shared, EVER, SIZES) == [0, 0]


def test_a_zone_that_does_not_list_something_has_none() -> None:
    bare = node("cpu=4 mem=1Gi", "cpu=4/3 gpu=2", "gpu=1")

    assert gives(columns(bare), GPU) == [[0, 2, 1]]
    assert gives(columns(bare), MEMORY, When.EMPTY) == [[GIB, 0, 0]]
    assert told(bare, When.NOW, RAW) == told(bare, When.EMPTY, RAW) == [4000, 3000, 0]
    assert at_most(bare, GPU) == [2, 3, 3]


# Cores.


@pytest.mark.parametrize(
    ("zone", "whole", "split"),
    table(
        [
            ("all are free", "cpu=8", 4, 0),
            ("one CPU is given out", "cpu=8/8/7", 3, 0),
            ("one CPU is reserved", "cpu=8/7", 3, 1),
            ("the one beside it is given out", "cpu=8/7/6", 3, 0),
            ("nothing is free", "cpu=8/8/0", 0, 0),
        ]
    ),
)
def test_of_cores_with_two_threads_columns_tell_the_whole_free_and_the_split_ones(
    zone: str, whole: int, split: int
) -> None:
    cores = node("cpu=8", zone, policy="restricted", threads=2)

    assert told(cores, When.NOW, CORES) == [4, whole]
    assert told(cores, When.NOW, SPLIT) == [0, split]


DESCRIBED = [
    # the machine                                            whole      split
    ("threads of a core are side by side or far apart",
     machine("cpu=0-3", "cpu=4-7", threads=2, free="0,2-6"),  [1, 1],    [0, 0]),
    ("zones have every other CPU",
     machine("cpu=0,2,4,6", "cpu=1,3,5,7", threads=2),       [2, 2],    [0, 0]),
    ("a core of each zone is kept in part",
     machine("cpu=0-3", "cpu=4-7", threads=2, reserved="0,7"), [1, 1],  [1, 1]),
    ("two cores are",
     machine("cpu=0-3", "cpu=4-7", threads=2, reserved="0,1"), [0, 2],  [2, 0]),
    ("one thread of a core is all there is",
     machine("cpu=0-3", "cpu=4-7", threads=2, free="3,4"),   [0, 0],    [0, 0]),
]  # fmt: skip


@pytest.mark.parametrize(("one", "whole", "split"), table(DESCRIBED))
def test_cores_of_a_described_machine_are_counted_wherever_their_threads_are(
    one: Node, whole: list[int], split: list[int]
) -> None:
    assert told(one, When.NOW, CORES) == whole
    assert told(one, When.NOW, SPLIT) == split


def test_an_empty_described_machine_gives_all_cpus_but_those_that_it_keeps() -> None:
    used = columns(machine("cpu=0-3", "cpu=4-7", threads=2, reserved="0,2,4", free="7"))

    assert gives(used, CPU) == [[0, 1]]
    assert gives(used, CPU, When.EMPTY) == [[2, 3]]
    assert used.of(When.EMPTY, CORES).T.tolist() == [[1, 1]]
    assert used.of(EVER, SIZES).T.tolist() == [[4, 4]]


def test_empty_nodes_have_all_cores_but_what_is_reserved() -> None:
    used = node("cpu=8/7/0", "cpu=8/8/1", policy="restricted", threads=2)

    assert told(used, When.EMPTY, CORES) == [3, 4]
    assert told(used, When.EMPTY, SPLIT) == [1, 0]
    assert told(used, EVER, SIZES) == [8, 8]


@pytest.mark.parametrize(
    ("one", "counted"),
    table(
        [
            ("they have two threads", replace(PLAIN, threads=2), True),
            ("CPUs are given out in whole cores", replace(PLAIN, options=options("full-pcpus-only")), True),
            ("they have one thread", PLAIN, False),
        ]
    ),
)
def test_cores_are_counted_where(one: Node, *, counted: bool) -> None:
    assert columns(one).counts_cores is counted
    assert columns(one).of(When.NOW, CORES).shape == (2 if counted else 0, 1)


def test_a_node_whose_cores_are_counted_changes_nothing_of_the_others() -> None:
    both = columns(PLAIN, replace(PLAIN, threads=2))

    assert both.of(When.NOW, CORES).T.tolist() == [[0, 0], [7, 2]]
    assert gives(both, CPU) == [[15, 4], [15, 4]]
    assert both.of(EVER, SIZES).T.tolist() == [[16, 16], [16, 16]]


# What is asked of hardware.


def test_the_largest_zones_come_first_in_what_so_many_have() -> None:
    uneven = node("mem=1Gi/512Mi gpu=1/0", "mem=8Gi gpu=4/3", "mem=4Gi gpu=2")

    assert at_most(uneven, MEMORY) == [8 * GIB, 12 * GIB, 12 * GIB + GIB // 2]
    assert at_most(uneven, GPU) == [4, 6, 7]


def test_reserved_cpus_count_as_hardware() -> None:
    assert at_most(PLAIN, CPU) == [16, 32]


@pytest.mark.parametrize(
    ("name", "hosts"),
    [(CPU, 0b011), (GPU, 0b001), (MEMORY, 0b101), (NIC, 0b000)],
)
def test_zones_host_what_they_have_by_hardware(name: str, hosts: int) -> None:
    some = node("cpu=4/3 gpu=1/0 mem=1Gi", "cpu=4/4/0", "mem=1Gi nic=0")

    assert columns(some).hosts([name]).tolist() == [[hosts]]


# The node as a whole.


def test_nodes_that_tell_no_totals_have_what_their_zones_have() -> None:
    assert total(PLAIN, GPU) == 4
    assert total(PLAIN, CPU) == 31_999, "the sum of both, and almost one that is in no zone"


def test_totals_are_the_nodes_own_where_it_tells_them() -> None:
    whole = replace(PLAIN, totals=bag("cpu=20 mem=9Gi pods=110"))

    found = {name: total(whole, name) for name in (CPU, MEMORY, "pods", GPU)}
    assert found == {CPU: 20_000, MEMORY: 9 * GIB, "pods": 110, GPU: 0}


def test_of_what_nobody_tells_there_is_any_amount() -> None:
    silent = node("cpu=4/0 mem=1Gi", cpu_manager=CpuManager.STATIC)
    vast = node("mem=1Gi", totals=f"mem={2**63 - 1}")

    assert total(silent, CPU) == total(vast, MEMORY) == BOUNDLESS


# The memory manager's groups.

BOUND = node(*["mem=8Gi"] * 4, ids=(0, 3, 5, 7), blocks=[(0, 3), (5,)])
"""Zones 0 and 3 serve each other, zone 5 has a block of its own, and zone 7 none."""


def test_groups_of_memory_are_sets_of_zones() -> None:
    assert told(BOUND, When.NOW, GROUPS) == [0b0011, 0b0011, 0b0100, 0b1000]
    assert told(BOUND, When.NOW, USED) == [0b0111]
    assert told(BOUND, When.NOW, GROUPED) == [0b0011]


@pytest.mark.parametrize(
    "one",
    table(
        [
            ("memory is shared", replace(BOUND, memory_manager=MemoryManager.NONE)),
            ("none is given out", node(*["mem=8Gi"] * 4)),
        ]
    ),
)
def test_each_zone_serves_itself_where(one: Node) -> None:
    assert told(one, When.NOW, GROUPS) == [0b0001, 0b0010, 0b0100, 0b1000]
    assert told(one, When.NOW, USED) == told(one, When.NOW, GROUPED) == [0]


# Nodes that differ.

BARE = node("cpu=8", "cpu=8", policy="none")


def test_nodes_of_all_policies_and_resources_stand_side_by_side() -> None:
    mixed = columns(BARE, PLAIN, node("nic=3", "mem=1Gi", scope="pod"))

    assert gives(mixed, CPU) == [[8, 8], [15, 4], [0, 0]]
    assert gives(mixed, GPU) == [[0, 0], [2, 0], [0, 0]]
    assert gives(mixed, NIC) == [[0, 0], [0, 0], [3, 0]]
    assert mixed.free(When.NOW, [NIC, CPU])[:, 0].tolist() == [[0, 0, 3], [8, 15, 0]]


def test_a_resource_that_comes_later_is_one_of_which_others_have_none() -> None:
    told_all = replace(BARE, totals=bag("cpu=16"))
    later = columns(BARE, told_all, replace(PLAIN, totals=bag("gpu=4 pods=9")))

    assert later.top([GPU])[0].T.tolist() == [[0, 0], [0, 0], [2, 4]]
    assert later.hosts([GPU]).tolist() == [[0, 0, 0b11]]
    assert later.totals([GPU, CPU]).tolist() == [[BOUNDLESS, 0, 4], [16_999, 16_000, 0]]


def test_of_what_concerns_the_node_alone_there_is_any_amount_unless_it_is_told() -> None:
    told_all = replace(BARE, totals=bag("cpu=16"))
    later = columns(told_all, replace(BARE, totals=bag("ephemeral-storage=1Gi")))

    assert later.totals(["ephemeral-storage"]).tolist() == [[BOUNDLESS, GIB]]


@given(st.permutations([BARE, PLAIN, BOUND, replace(PLAIN, threads=2), replace(PLAIN, totals=bag("pods=1"))]))
def test_columns_tell_the_same_of_a_node_whoever_came_before(nodes: Sequence[Node]) -> None:
    two = [replace(one, zones=one.zones[:2]) for one in nodes]
    made = columns(*two)

    for row, one in enumerate(two):
        alone = columns(one)
        names = layout(one).names
        for when in (When.NOW, When.EMPTY):
            assert made.free(when, names)[..., row].tolist() == alone.free(when, names)[..., 0].tolist()
        assert made.top(names)[..., row].tolist() == alone.top(names)[..., 0].tolist()
        every = layout(one).all_names
        assert made.totals(every)[:, row].tolist() == alone.totals(every)[:, 0].tolist()
        for feature in (RAW, GROUPS, USED, GROUPED):
            assert made.of(When.NOW, feature)[:, row].tolist() == told(one, When.NOW, feature)


def test_there_are_columns_for_what_some_node_lists() -> None:
    made = columns(BARE, replace(PLAIN, totals=bag("pods=1")))

    assert [made.has(name) for name in (GPU, NIC, "pods")] == [True, False, False]
    assert [made.has_total(name) for name in (GPU, NIC, "pods")] == [True, False, True]


def test_a_table_has_room_for_so_many_names() -> None:
    def listing(first: int, count: int) -> Node:
        return node(" ".join(f"example.com/d{at}=1" for at in range(first, first + count)))

    half = MOST_RESOURCES // 2
    made = columns(listing(0, half), listing(half, half - 1))

    assert made.has_room_for(layout(listing(0, half)))
    assert made.has_room_for(layout(listing(MOST_RESOURCES - 1, 1)))
    assert not made.has_room_for(layout(listing(MOST_RESOURCES - 1, 2)))


# Layouts.


def test_rows_know_the_number_of_their_layout() -> None:
    used = left(PLAIN, "gpu=0", "")
    made = columns(PLAIN, BARE, used)

    assert made.layout_of().tolist() == [0, 1, 0]
    assert made.layout_of(np.array([1, 2])).tolist() == [1, 0]
    assert [*made.layouts_with_examples()] == [(layout(PLAIN), PLAIN), (layout(BARE), BARE)]


def test_a_number_that_comes_to_mean_something_else_begins_an_era() -> None:
    made, other = columns(PLAIN, BARE), replace(BARE, cpu_manager=CpuManager.NONE)
    era = made.era
    made.put(2, layout(PLAIN), PLAIN)
    assert made.era == era

    made.put(1, layout(other), other)
    assert made.era > era
    assert made.layouts == [layout(PLAIN), None, layout(other)], "nobody has the second one any more"

    era = made.era
    made.put(0, layout(BARE), BARE)
    assert made.era > era
    assert made.layouts == [layout(PLAIN), layout(BARE), layout(other)]
    assert made.layout_of().tolist() == [1, 2, 0]


def test_the_last_node_of_a_layout_takes_it_along() -> None:
    made = columns(PLAIN, BARE, BARE)
    made.remove(1)
    assert made.layouts == [layout(PLAIN), layout(BARE)]

    made.remove(1)
    assert made.layouts == [layout(PLAIN), None]


# Rows.


def free(*amounts: int) -> list[Node]:
    return [left(PLAIN, f"gpu={amount}", "") for amount in amounts]


def gpus(made: Columns) -> list[int]:
    """What the first zone has free of them."""
    return list[int](made.free(When.NOW, [GPU])[0, 0].tolist())


def test_more_nodes_come_than_there_was_room_for() -> None:
    amounts = [at % 3 for at in range(50)]
    made = columns(*free(*amounts), BARE)

    assert gpus(made) == [*amounts, 0]
    assert made.layout_of().tolist() == [0] * 50 + [1]


def test_a_node_that_is_put_again_is_read_again() -> None:
    made = columns(*free(2, 1, 0))
    made.put(1, layout(PLAIN), free(2)[0])

    assert gpus(made) == [2, 2, 0]
    assert made.count == 3


def test_the_only_node_of_a_layout_keeps_it() -> None:
    made, era = columns(PLAIN), columns(PLAIN).era
    made.put(0, layout(PLAIN), left(PLAIN, "gpu=1", ""))

    assert made.layouts == [layout(PLAIN)]
    assert made.era == era


def test_it_is_counted_how_often_nodes_come_and_go() -> None:
    made = columns(PLAIN, PLAIN)
    placed = made.placed
    assert made.refresh(0, left(PLAIN, "gpu=1", ""))
    assert made.placed == placed

    made.put(0, layout(BARE), BARE)
    made.remove(1)
    assert made.placed == placed + 2


def test_the_last_row_moves_to_the_place_of_one_that_is_removed() -> None:
    made = columns(BARE, *free(1, 2))

    assert made.remove(0) == 2
    assert gpus(made) == [2, 1]
    assert made.layout_of().tolist() == [1, 1]
    assert made.remove(1) == 1
    assert gpus(made) == [2]


def test_some_rows_can_be_looked_at_alone() -> None:
    made, rows = columns(*free(0, 1), BARE), np.array([2, 1])

    assert made.free(When.NOW, [GPU], rows)[0, 0].tolist() == [0, 1]
    assert made.of(When.NOW, RAW, rows).T.tolist() == [[8000, 8000], [15_000, 4000]]
    assert made.top([GPU], rows)[0].T.tolist() == [[0, 0], [2, 4]]
    assert made.hosts([GPU], rows).tolist() == [[0, 0b11]]
    assert made.totals([GPU], rows).tolist() == [[BOUNDLESS, 4]]
    assert made.sums(When.NOW, GPU, 2, rows).tolist() == [[0, 1]]


# What is free changes all day long.


def test_what_is_free_is_read_anew() -> None:
    made = columns(PLAIN, PLAIN)
    emptier = left(PLAIN, "cpu=2500m mem=1Gi gpu=1", "cpu=1 mem=0 gpu=2")

    assert made.refresh(1, emptier)
    assert gives(made, CPU) == [[15, 4], [2, 1]]
    assert gives(made, GPU) == [[2, 0], [1, 2]]
    assert gives(made, GPU, When.EMPTY) == [[2, 2], [2, 2]]
    assert made.of(When.NOW, RAW).T.tolist() == [[15_000, 4000], [2500, 1000]]


def test_groups_and_cores_are_read_anew_too() -> None:
    unused = replace(BOUND, zones=tuple(zone.emptied() for zone in BOUND.zones))
    made = columns(unused)
    assert made.refresh(0, BOUND)
    assert made.of(When.NOW, GROUPED).tolist() == [[0b0011]]

    cores = node("cpu=8", "cpu=8", threads=2)
    made = columns(cores)
    assert made.refresh(0, left(cores, "", "cpu=5"))
    assert made.of(When.NOW, CORES).tolist() == [[4], [2]]


@pytest.mark.parametrize("more", [0, 300])
def test_sums_follow_what_is_read_anew(more: int) -> None:
    made = columns(*free(0, 1, *[1] * more, 2))
    assert made.sums(When.NOW, GPU, 2)[:, :2].tolist() == [[0, 1]]
    made.refresh(0, free(1)[0])
    assert made.sums(When.NOW, GPU, 2)[:, :2].tolist() == [[1, 1]]
    made.remove(1)

    assert made.sums(When.NOW, GPU, 2)[:, :2].tolist() == [[1, 2]]
    assert made.sums(When.NOW, GPU, 2).shape == (1, made.count)


def test_sums_are_kept() -> None:
    made = columns(*free(1, 2))

    assert np.shares_memory(made.sums(When.NOW, GPU, 2), made.sums(When.NOW, GPU, 2))


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize(
    "amounts",
    table(
        [
            ("devices", Resources({GPU: 3})),
            ("CPUs", Resources({CPU: 16_000})),
            ("memory", Resources({MEMORY: 8 * GIB + 1})),
            ("less than nothing", Resources({GPU: -1})),
            ("parts of CPUs below nothing", Resources({CPU: -1})),
        ]
    ),
)
def test_it_is_told_where_more_is_free_than_there_can_be(at: int, amounts: Resources) -> None:
    even = node(*["cpu=16/15 mem=8Gi gpu=2"] * 2)
    zones = tuple(replace(zone, free=amounts) if zone.id == at else zone for zone in even.zones)

    assert not columns(even).refresh(0, replace(even, zones=zones))


def test_it_is_told_where_something_is_free_that_a_zone_does_not_list() -> None:
    one = node("cpu=4", "cpu=4 gpu=2")
    first, second = one.zones
    beyond = replace(one, zones=(replace(first, free=bag("cpu=4 gpu=1")), second))

    assert not columns(one).refresh(0, beyond)


# Sums.

amounts = st.integers(0, 2**20) | st.integers(0, MOST_BYTES) | st.just(MOST_BYTES)


@given(st.data(), st.integers(1, 8), st.integers(1, 4))
def test_what_sets_of_zones_have_is_the_sum_of_what_their_zones_have(
    data: st.DataObject, zones: int, rows: int
) -> None:
    own = st.lists(amounts, min_size=zones, max_size=zones)
    told, width = data.draw(st.lists(own, min_size=rows, max_size=rows)), data.draw(st.integers(1, zones))

    sets = [mask for mask in range(1 << zones) if mask.bit_count() == width]
    plain = [[sum(row[at] for at in range(zones) if mask >> at & 1) for row in told] for mask in sets]
    assert sums_of(np.array(told).T, width).tolist() == plain


@pytest.mark.parametrize(
    ("name", "bits"), [(CPU, np.int32), (GPU, np.int32), (MEMORY, np.int64), (HUGE, np.int64)]
)
def test_pieces_are_added_in_half_the_space(name: str, bits: type) -> None:
    sums = sums_of(np.full((2, 3), 3), 2, dtype(name))

    assert sums.dtype == dtype(name) == bits
    assert (sums == 6).all()


@given(st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=1, max_size=6), st.integers(1, 3))
def test_kept_sums_are_those_of_the_nodes_as_they_stand(frees: list[tuple[int, ...]], width: int) -> None:
    one = node(*["gpu=5"] * 3)
    made = columns(one)
    for at, free in enumerate(frees):
        used = left(one, *(f"gpu={amount}" for amount in free))
        made.put(at % 3 if at % 3 <= made.count else 0, layout(one), used)
        rows = made.free(When.NOW, [GPU])[0]
        plain = [rows[list(some)].sum(axis=0).tolist() for some in combinations(range(3), width)]
        assert made.sums(When.NOW, GPU, width).tolist() == plain
