"""Columns hold what the rules read of nodes, and add it up."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.columns import (
    BOUNDLESS,
    CORES,
    MOST_RESOURCES,
    SPLIT,
    Columns,
    FreeOrEmpty,
    When,
    dtype,
    sums_of,
)
from numalign.cache.layout import MOST_BYTES
from numalign.model.node import CpuManager, Node
from numalign.model.resources import CPU, MEMORY, Resources
from tests.worlds.columns import columns, layout, with_free
from tests.worlds.notation import GPU, HUGE, bag, machine, node, options, table

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
    made = columns(one)

    assert (free(made, name), free(made, name, When.EMPTY)) == ([now], [empty])
    assert made.sums(When.NOW, name, 2).tolist() == made.sums(When.NOW, name, 2).tolist() == [[sum(now)]]


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
    assert columns(STATED, PLAIN).totals(["pods"]).tolist() == [[110, BOUNDLESS]]


# Nodes that differ.


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
