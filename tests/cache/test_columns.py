"""Columns hold what the rules read of nodes, and add it up."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.columns import (
    GROUPED,
    GROUPS,
    MOST_ZONES_NEEDED,
    RAW,
    TOP,
    TOTAL,
    USED,
    Columns,
    Feature,
    When,
    dtype,
    sums_of,
)
from numalign.cache.layout import MOST_BYTES
from numalign.cache.plan import BOUNDLESS
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.resources import CPU, MEMORY, Resources
from tests.in_columns import columns, layout, left
from tests.notation import GPU, HUGE, NIC, bag, node, options, table

GIB = 2**30

PLAIN = node("cpu=16/15 mem=8Gi gpu=2", "cpu=16/16/4 mem=8Gi//1Gi gpu=2//0", policy="restricted")


def told(one: Node, feature: Feature) -> list[int]:
    """What the columns tell of one node."""
    (row,) = columns(one).of(feature).T.tolist()
    return list[int](row)


# What is read of a node.


@pytest.mark.parametrize(
    ("feature", "amounts"),
    table(
        [
            ("free CPUs, whole", (When.NOW, CPU), [15, 4]),
            ("free millicores", (RAW + When.NOW, CPU), [15_000, 4000]),
            ("free bytes", (When.NOW, MEMORY), [8 * GIB, GIB]),
            ("free devices", (When.NOW, GPU), [2, 0]),
            ("CPUs of the empty node", (When.EMPTY, CPU), [15, 16]),
            ("millicores of the empty node", (RAW + When.EMPTY, CPU), [15_000, 16_000]),
            ("bytes of the empty node", (When.EMPTY, MEMORY), [8 * GIB, 8 * GIB]),
            ("devices of the empty node", (When.EMPTY, GPU), [2, 2]),
            ("CPUs that so many zones have, reserved ones included", (TOP, CPU), [16, 32]),
            ("devices that so many zones have", (TOP, GPU), [2, 4]),
            ("CPUs of the node, and almost one that is in no zone", (TOTAL, CPU), [31_999]),
            ("devices of the node", (TOTAL, GPU), [4]),
            ("which zones have memory of their own", GROUPS, [0, 0]),
            ("that no memory is given out", USED, [0]),
        ]
    ),
)
def test_columns_tell(feature: Feature, amounts: list[int]) -> None:
    assert told(PLAIN, feature) == amounts


def test_a_part_of_a_cpu_is_no_cpu() -> None:
    parts = node("cpu=4/3500m/1500m mem=1Gi", "cpu=4")

    assert told(parts, (When.NOW, CPU)) == [1, 4]
    assert told(parts, (When.EMPTY, CPU)) == [3, 4]
    assert told(parts, (RAW + When.NOW, CPU)) == [1500, 4000]


def test_shared_cpus_are_nobodys_own() -> None:
    shared = replace(PLAIN, cpu_manager=CpuManager.NONE)

    assert told(shared, (When.NOW, CPU)) == [0, 0]
    assert told(shared, (When.EMPTY, CPU)) == [0, 0]
    assert told(shared, (RAW + When.NOW, CPU)) == [15_000, 4000]


def test_the_largest_zones_come_first_in_what_so_many_have() -> None:
    uneven = node("mem=1Gi/512Mi gpu=1/0", "mem=8Gi gpu=4/3", "mem=4Gi gpu=2")

    assert told(uneven, (TOP, MEMORY)) == [8 * GIB, 12 * GIB, 12 * GIB + GIB // 2]
    assert told(uneven, (TOP, GPU)) == [4, 6, 7]


def test_a_zone_that_does_not_list_something_has_none() -> None:
    bare = node("cpu=4 mem=1Gi", "cpu=4/3 gpu=2", "gpu=1")

    assert told(bare, (When.NOW, GPU)) == [0, 2, 1]
    assert told(bare, (RAW + When.NOW, CPU)) == [4000, 3000, 0]
    assert told(bare, (RAW + When.EMPTY, CPU)) == [4000, 3000, 0]
    assert told(bare, (When.EMPTY, MEMORY)) == [GIB, 0, 0]
    assert told(bare, (TOP, GPU)) == [2, 3, 3]


@pytest.mark.parametrize(
    ("minor", "name", "zones"),
    [(36, GPU, 2), (34, GPU, 3), (36, MEMORY, 3), (34, CPU, 2), (36, CPU, 2), (36, NIC, 0)],
)
def test_what_no_zones_could_serve_takes(minor: int, name: str, zones: int) -> None:
    some = node("cpu=4/3 gpu=1 mem=1Gi", "cpu=4 gpu=1", "mem=1Gi nic=0", options=options(minor=minor))

    assert told(some, (MOST_ZONES_NEEDED, name)) == [zones]


def test_cpus_take_a_zone_where_there_are_none() -> None:
    assert told(node("cpu=0 gpu=1", "gpu=1"), (MOST_ZONES_NEEDED, CPU)) == [1]


def test_totals_are_the_nodes_own_where_it_tells_them() -> None:
    whole = replace(PLAIN, totals=bag("cpu=20 mem=9Gi pods=110"))

    assert [told(whole, (TOTAL, name)) for name in (CPU, MEMORY, "pods", GPU)] == [
        [20_000],
        [9 * GIB],
        [110],
        [0],
    ]


def test_of_what_nobody_tells_there_is_any_amount() -> None:
    silent = node("cpu=4/0 mem=1Gi", cpu_manager=CpuManager.STATIC)
    vast = node("mem=1Gi", totals=f"mem={2**63 - 1}")

    assert told(silent, (TOTAL, CPU)) == [BOUNDLESS]
    assert told(vast, (TOTAL, MEMORY)) == [BOUNDLESS]


BOUND = node(*["mem=8Gi"] * 4, ids=(0, 3, 5, 7), blocks=[(0, 3), (5,)])
"""Zones 0 and 3 serve each other, zone 5 has a block of its own, and zone 7 none."""


def test_groups_of_memory_are_sets_of_zones() -> None:
    assert told(BOUND, GROUPS) == [0b0011, 0b0011, 0b0100, 0b1000]
    assert told(BOUND, USED) == [0b0111]
    assert told(BOUND, GROUPED) == [0b0011]


def test_where_memory_is_shared_nobody_asks_for_groups() -> None:
    shared = replace(BOUND, memory_manager=MemoryManager.NONE)

    assert [told(shared, feature) for feature in (GROUPS, USED, GROUPED)] == [[0] * 4, [0], [0]]


def test_there_are_columns_for_what_some_zone_lists() -> None:
    made = columns(replace(PLAIN, totals=bag("pods=1")))

    assert made.has((When.NOW, GPU))
    assert made.has((TOTAL, "pods"))
    assert not made.has((When.NOW, NIC))
    assert not made.has((TOP, "pods"))


# Rows.


def free(*amounts: int) -> list[Node]:
    return [left(PLAIN, f"gpu={amount}", "") for amount in amounts]


def gpus(made: Columns) -> list[int]:
    """What the first zone has free of them."""
    return list[int](made.of((When.NOW, GPU))[0].tolist())


def test_more_nodes_come_than_there_was_room_for() -> None:
    amounts = [at % 3 for at in range(50)]

    assert gpus(columns(*free(*amounts))) == amounts


def test_a_node_that_is_put_again_is_read_again() -> None:
    made = columns(*free(2, 1, 0))
    made.put(1, free(2)[0])

    assert gpus(made) == [2, 2, 0]
    assert made.count == 3


def test_the_last_row_moves_to_the_place_of_one_that_is_removed() -> None:
    made = columns(*free(0, 1, 2))

    assert made.remove(0) == 2
    assert gpus(made) == [2, 1]
    assert made.remove(1) == 1
    assert gpus(made) == [2]


def test_some_rows_can_be_looked_at_alone() -> None:
    made = columns(*free(0, 1, 2))
    rows = np.array([2, 0])

    assert made.of((When.NOW, GPU), rows)[0].tolist() == [2, 0]
    assert made.block(When.NOW, (GPU,), rows)[0].tolist() == [2, 0]


MANY = 300
"""So many rows that their totals are kept."""


def test_totals_of_many_rows_are_kept() -> None:
    made = columns(*free(*[1] * MANY))
    sums, few = made.sums(When.NOW, GPU, 2), columns(*free(1, 2))

    assert np.shares_memory(made.sums(When.NOW, GPU, 2), sums)
    assert not np.shares_memory(few.sums(When.NOW, GPU, 2), few.sums(When.NOW, GPU, 2))


# What is free changes all day long.


def test_what_is_free_is_read_anew() -> None:
    made = columns(PLAIN, PLAIN)
    emptier = left(PLAIN, "cpu=2500m mem=1Gi gpu=1", "cpu=1 mem=0 gpu=2")

    assert made.refresh(1, emptier)
    assert made.of((When.NOW, CPU)).T.tolist() == [[15, 4], [2, 1]]
    assert made.of((RAW + When.NOW, CPU)).T.tolist() == [[15_000, 4000], [2500, 1000]]
    assert made.of((When.NOW, GPU)).T.tolist() == [[2, 0], [1, 2]]
    assert made.of((When.EMPTY, GPU)).T.tolist() == [[2, 2], [2, 2]]


def test_groups_are_read_anew_too() -> None:
    bare = replace(BOUND, zones=tuple(zone.emptied() for zone in BOUND.zones))
    made = columns(bare)

    assert made.refresh(0, BOUND)
    assert made.of(GROUPED).tolist() == [[0b0011]]


@pytest.mark.parametrize("more", [0, MANY])
def test_sums_follow_what_is_read_anew(more: int) -> None:
    made = columns(*free(0, 1, *[1] * more, 2))
    assert made.sums(When.NOW, GPU, 2)[:, :2].tolist() == [[0, 1]]
    made.refresh(0, free(1)[0])
    assert made.sums(When.NOW, GPU, 2)[:, :2].tolist() == [[1, 1]]
    made.remove(1)

    assert made.sums(When.NOW, GPU, 2)[:, :2].tolist() == [[1, 2]]
    assert made.sums(When.NOW, GPU, 2).shape == (1, made.count)


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


def plain_sums(amounts: list[list[int]], order: tuple[int, ...]) -> list[list[int]]:
    """By set, what each row has in the zones of the set."""
    return [[sum(row[at] for at in range(len(row)) if mask >> at & 1) for row in amounts] for mask in order]


amounts = st.integers(0, 2**20) | st.integers(0, MOST_BYTES) | st.just(MOST_BYTES)


@pytest.mark.parametrize("rows", [3, 300])
@given(data=st.data(), zones=st.integers(1, 8))
def test_what_sets_of_zones_have_is_the_sum_of_what_their_zones_have(
    rows: int, data: st.DataObject, zones: int
) -> None:
    kinds = data.draw(st.lists(st.lists(amounts, min_size=zones, max_size=zones), min_size=1, max_size=3))
    told = [kinds[at % len(kinds)] for at in range(rows)]
    found, width = layout(node(*["mem=1Gi"] * zones)), data.draw(st.integers(1, zones))

    assert sums_of(found, np.array(told).T, width).tolist() == plain_sums(told, found.of_width(width))


@pytest.mark.parametrize("rows", [3, 300])
@pytest.mark.parametrize("name", [CPU, GPU, MEMORY, HUGE])
def test_pieces_are_added_in_half_the_space(rows: int, name: str) -> None:
    found, many = layout(node("cpu=4", "cpu=4")), np.full((2, rows), 3)

    assert dtype(name) is (np.int32 if name in {CPU, GPU} else np.int64)
    sums = sums_of(found, many, 2, dtype(name))
    assert sums.dtype == dtype(name)
    assert (sums == 6).all()


@given(st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=1, max_size=6), st.integers(1, 3))
def test_kept_sums_are_those_of_the_nodes_as_they_stand(frees: list[tuple[int, ...]], width: int) -> None:
    one = node(*["gpu=5"] * 3)
    made = columns(one)
    for at, free in enumerate(frees):
        made.put(at % 3 if at % 3 <= made.count else 0, left(one, *(f"gpu={amount}" for amount in free)))
        rows = made.of((When.NOW, GPU))
        plain = [[rows[list(some)].sum(axis=0).tolist() for some in combinations(range(3), width)]]
        assert sorted(made.sums(When.NOW, GPU, width).tolist()) == sorted(plain[0])
