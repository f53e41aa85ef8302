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
from tests.worlds.columns import columns, layout, with_free
from tests.worlds.notation import GPU, HUGE, NIC, bag, machine, node, options, table

GIB = 2**30

PLAIN = node("cpu=16/15 mem=8Gi gpu=2", "cpu=16/16/4 mem=8Gi//1Gi gpu=2//0", policy="restricted")
PARTS = node("cpu=4/3500m/1500m mem=1Gi", "cpu=4 gpu=2")
SHARED = replace(PLAIN, cpu_manager=CpuManager.NONE)
BARE = node("cpu=8", "cpu=8", policy="none")


def free(made: Columns, name: str, when: FreeOrEmpty = When.NOW) -> list[list[int]]:
    return list[list[int]](made.free(when, [name])[0].T.tolist())


def of(one: Node, when: str, feature: str) -> list[int]:
    return list[int](columns(one).of(when, feature)[:, 0].tolist())


GIVEN = [
    ("whole CPUs", PLAIN, CPU, [15, 4], [15, 16]),
    ("bytes", PLAIN, MEMORY, [8 * GIB, GIB], [8 * GIB, 8 * GIB]),
    ("devices", PLAIN, GPU, [2, 0], [2, 2]),
    ("no part of a CPU", PARTS, CPU, [1, 4], [3, 4]),
    ("nothing that a zone does not list", PARTS, GPU, [0, 2], [0, 2]),
    ("no shared CPUs", SHARED, CPU, [0, 0], [0, 0]),
]  # fmt: skip


@pytest.mark.parametrize(("one", "name", "now", "empty"), table(GIVEN))
def test_zones_give(one: Node, name: str, now: list[int], empty: list[int]) -> None:
    assert (free(columns(one), name), free(columns(one), name, When.EMPTY)) == ([now], [empty])


def test_millicores_and_sizes_are_kept_beside() -> None:
    assert (of(PARTS, When.NOW, RAW), of(PARTS, When.EMPTY, RAW)) == ([1500, 4000], [3500, 4000])
    assert (of(SHARED, When.NOW, RAW), of(SHARED, EVER, SIZES)) == ([15_000, 4000], [0, 0])
    assert of(PLAIN, EVER, SIZES) == [16, 16]


def machine_of_pairs(reserved: str = "", free: str | None = None) -> Node:
    return machine("cpu=0-3", "cpu=4-7", threads=2, reserved=reserved, free=free)


COUNTED = [
    # what it shows                                     the node                             cores     split
    ("all are free",               node("cpu=8", "cpu=8", threads=2),                       [4, 4],   [0, 0]),
    ("one CPU is allocated",       node("cpu=8", "cpu=8/8/7", threads=2),                   [4, 3],   [0, 0]),
    ("one CPU is reserved",        node("cpu=8", "cpu=8/7", threads=2),                     [4, 3],   [0, 1]),
    ("the one beside it is taken", node("cpu=8", "cpu=8/7/6", threads=2),                   [4, 3],   [0, 0]),
    ("by the option",              replace(PLAIN, options=options("full-pcpus-only")),      [7, 2],   [1, 0]),
    ("one thread",                 PLAIN,                                                   [],       []),
    ("of a described machine",     machine_of_pairs(free="0,2-6"),                          [1, 1],   [0, 0]),
    ("that reserves parts",        machine_of_pairs(reserved="0,7"),                        [1, 1],   [1, 1]),
    ("and has single threads",     machine_of_pairs(free="3,4"),                            [0, 0],   [0, 0]),
]  # fmt: skip


@pytest.mark.parametrize(("one", "cores", "split"), table(COUNTED))
def test_whole_cores_and_split_ones_are_counted(one: Node, cores: list[int], split: list[int]) -> None:
    assert columns(one).counts_cores is bool(cores)
    assert (of(one, When.NOW, CORES), of(one, When.NOW, SPLIT)) == (cores, split)


def test_an_empty_machine_gives_all_but_reserved_cpus() -> None:
    used = machine_of_pairs(reserved="0,2,4", free="7")

    assert (free(columns(used), CPU), free(columns(used), CPU, When.EMPTY)) == ([[0, 1]], [[2, 3]])
    assert of(used, When.EMPTY, CORES) == [1, 1]


UNEVEN = node("cpu=4/3 gpu=1/0 mem=1Gi", "cpu=4/4/0 gpu=4/3", "mem=4Gi nic=0")


LARGEST = [
    (CPU, [4, 8, 8], 0b011),
    (GPU, [4, 5, 5], 0b011),
    (MEMORY, [4 * GIB, 5 * GIB, 5 * GIB], 0b101),
    (NIC, [0, 0, 0], 0b000),
]


@pytest.mark.parametrize(("name", "top", "hosts"), LARGEST)
def test_hardware_is_summed_up_from_the_largest_zone(name: str, top: list[int], hosts: int) -> None:
    assert columns(UNEVEN).top([name])[0].T.tolist() == [top]
    assert columns(UNEVEN).hosts([name]).tolist() == [[hosts]]


STATED = replace(PLAIN, totals=bag("cpu=20 mem=9Gi pods=110"))


TOTALS = [
    ("the sum of its zones", PLAIN, GPU, 4),
    ("and almost a CPU that is in no zone", PLAIN, CPU, 31_999),
    ("what it reports", STATED, CPU, 20_000),
    ("of a node-level resource", STATED, "pods", 110),
    ("nothing of what it leaves out", STATED, GPU, 0),
    ("any amount of what is not reported", node("cpu=4/0", cpu_manager=CpuManager.STATIC), CPU, BOUNDLESS),
    ("no more than numbers hold", node("mem=1Gi", totals=f"mem={2**63 - 1}"), MEMORY, BOUNDLESS),
]  # fmt: skip


@pytest.mark.parametrize(("one", "name", "total"), table(TOTALS))
def test_a_node_as_a_whole_has(one: Node, name: str, total: int) -> None:
    assert columns(one).totals([name]).tolist() == [[total]]


BOUND = node(*["mem=8Gi"] * 4, ids=(0, 3, 5, 7), blocks=[(0, 3), (5,)])
NONE = ([0b0001, 0b0010, 0b0100, 0b1000], [0], [0])


FEATURES = [
    ("zones in groups", BOUND, ([0b0011, 0b0011, 0b0100, 0b1000], [0b0111], [0b0011])),
    ("shared memory", replace(BOUND, memory_manager=MemoryManager.NONE), NONE),
    ("nothing allocated", node(*["mem=8Gi"] * 4), NONE),
]  # fmt: skip


@pytest.mark.parametrize(("one", "features"), table(FEATURES))
def test_groups_of_memory_are_sets_of_zones(one: Node, features: tuple[list[int], ...]) -> None:
    assert tuple(of(one, When.NOW, feature) for feature in (GROUPS, USED, GROUPED)) == features


# Nodes that differ.


def test_a_resource_that_comes_later_has_columns_for_all() -> None:
    reports = replace(BARE, totals=bag("cpu=16"))
    made = columns(BARE, reports, replace(PLAIN, totals=bag("gpu=4 pods=9")))

    assert free(made, GPU) == [[0, 0], [0, 0], [2, 0]]
    assert made.top([GPU])[0].T.tolist() == [[0, 0], [0, 0], [2, 4]]
    assert made.totals([GPU, CPU]).tolist() == [[BOUNDLESS, 0, 4], [16_999, 16_000, 0]]
    assert made.totals(["pods"]).tolist() == [[BOUNDLESS, BOUNDLESS, 9]]
    assert [made.has(name) for name in (GPU, NIC, "pods")] == [True, False, False]
    assert [made.has_total(name) for name in (GPU, NIC, "pods")] == [True, False, True]


@given(st.permutations([BARE, PLAIN, BOUND, replace(PLAIN, threads=2), replace(PLAIN, totals=bag("pods=1"))]))
def test_columns_do_not_depend_on_other_nodes(nodes: Sequence[Node]) -> None:
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
            assert made.of(When.NOW, feature)[:, row].tolist() == of(one, When.NOW, feature)


def test_a_table_has_room_for_so_many_names() -> None:
    def listing(first: int, count: int) -> Node:
        return node(" ".join(f"example.com/d{at}=1" for at in range(first, first + count)))

    half = MOST_RESOURCES // 2
    made = columns(listing(0, half), listing(half, half - 1))

    assert made.has_room_for(layout(listing(MOST_RESOURCES - 1, 1)))
    assert not made.has_room_for(layout(listing(MOST_RESOURCES - 1, 2)))


# Rows and layouts.


def gpus(*amounts: int) -> list[Node]:
    return [with_free(PLAIN, f"gpu={amount}", "") for amount in amounts]


def test_a_number_with_another_layout_begins_an_era() -> None:
    made, other = columns(PLAIN, BARE), SHARED
    era = made.era
    made.put(2, layout(PLAIN), PLAIN)
    assert made.era == era

    made.put(1, layout(other), other)
    assert made.era > era
    assert made.layouts == [layout(PLAIN), None, layout(other)], "no node has the second one any more"

    made.put(0, layout(BARE), BARE)
    assert made.layouts == [layout(PLAIN), layout(BARE), layout(other)]
    assert made.layout_of().tolist() == [1, 2, 0]
    made.remove(0)
    assert made.layouts == [layout(PLAIN), None, layout(other)]


def test_the_last_row_replaces_one_that_is_removed() -> None:
    made = columns(BARE, *gpus(1, 2, *[2] * 50))
    for _ in range(50):
        made.remove(made.count - 1)
    placed = made.placed

    assert made.remove(0) == 2
    assert (free(made, GPU), made.layout_of().tolist()) == ([[2, 0], [1, 0]], [1, 1])
    assert made.remove(1) == 1
    assert (free(made, GPU), made.placed) == ([[2, 0]], placed + 2)


def test_some_rows_are_read_in_their_order() -> None:
    made, rows = columns(*gpus(0, 1), BARE), np.array([2, 1])

    assert made.free(When.NOW, [GPU], rows)[0, 0].tolist() == [0, 1]
    assert made.of(When.NOW, RAW, rows).T.tolist() == [[8000, 8000], [15_000, 4000]]
    assert made.top([GPU], rows)[0].T.tolist() == [[0, 0], [2, 4]]
    assert (made.hosts([GPU], rows).tolist(), made.totals([GPU], rows).tolist()) == (
        [[0, 3]],
        [[BOUNDLESS, 4]],
    )
    assert made.sums(When.NOW, GPU, 2, rows).tolist() == [[0, 1]]


def test_free_amounts_groups_and_cores_are_refreshed() -> None:
    made = columns(PLAIN, PLAIN)
    assert made.refresh(1, with_free(PLAIN, "cpu=2500m mem=1Gi gpu=1", "cpu=1 mem=0 gpu=2"))
    assert (free(made, CPU), free(made, GPU)) == ([[15, 4], [2, 1]], [[2, 0], [1, 2]])
    assert free(made, GPU, When.EMPTY) == [[2, 2], [2, 2]]

    made = columns(replace(BOUND, zones=tuple(zone.emptied() for zone in BOUND.zones)))
    assert made.refresh(0, BOUND)
    assert made.of(When.NOW, GROUPED).tolist() == [[0b0011]]


TOO_MUCH = [
    ("devices", Resources({GPU: 3})),
    ("CPUs", Resources({CPU: 16_000})),
    ("memory", Resources({MEMORY: 8 * GIB + 1})),
    ("less than nothing", Resources({GPU: -1})),
    ("parts of CPUs below nothing", Resources({CPU: -1})),
]  # fmt: skip


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("amounts", table(TOO_MUCH))
def test_more_than_there_can_be_is_not_refreshed(at: int, amounts: Resources) -> None:
    even = node(*["cpu=16/15 mem=8Gi gpu=2"] * 2)
    zones = tuple(replace(zone, free=amounts) if zone.id == at else zone for zone in even.zones)

    assert not columns(even).refresh(0, replace(even, zones=zones))


# Sums.

amounts = st.integers(0, 2**20) | st.integers(0, MOST_BYTES) | st.just(MOST_BYTES)


@given(st.data(), st.integers(1, 8), st.integers(1, 4))
def test_sets_of_zones_have_the_sum_of_their_zones(data: st.DataObject, zones: int, rows: int) -> None:
    own = st.lists(amounts, min_size=zones, max_size=zones)
    by_row, width = data.draw(st.lists(own, min_size=rows, max_size=rows)), data.draw(st.integers(1, zones))

    sets = [mask for mask in range(1 << zones) if mask.bit_count() == width]
    plain = [[sum(row[at] for at in range(zones) if mask >> at & 1) for row in by_row] for mask in sets]
    assert sums_of(np.array(by_row).T, width).tolist() == plain


@pytest.mark.parametrize(
    ("name", "bits"), [(CPU, np.int32), (GPU, np.int32), (MEMORY, np.int64), (HUGE, np.int64)]
)
def test_pieces_are_added_in_half_the_space(name: str, bits: type) -> None:
    assert sums_of(np.full((2, 3), 3), 2, dtype(name)).dtype == dtype(name) == bits


@given(st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=1, max_size=6), st.integers(1, 3))
def test_sums_follow_the_nodes(frees: list[tuple[int, ...]], width: int) -> None:
    one = node(*["gpu=5"] * 3)
    made = columns(one)
    for at, amounts in enumerate(frees):
        used = with_free(one, *(f"gpu={amount}" for amount in amounts))
        if at % 2:
            made.refresh(0, used)
        else:
            made.put(at % 3 if at % 3 <= made.count else 0, layout(one), used)
        rows = made.free(When.NOW, [GPU])[0]
        plain = [rows[list(some)].sum(axis=0).tolist() for some in combinations(range(3), width)]
        assert made.sums(When.NOW, GPU, width).tolist() == plain
