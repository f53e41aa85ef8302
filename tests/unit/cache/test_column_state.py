"""What nodes of a table may give to a pod, row by row."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.column_state import ColumnState
from numalign.cache.columns import When
from numalign.cache.layout import Layout
from numalign.cache.layout_kinds import Trait
from numalign.model.intent import Policy
from numalign.model.node import CpuManager, MemoryManager
from numalign.model.resources import CPU, MEMORY
from tests.worlds.in_columns import asked, by_name, left, state
from tests.worlds.notation import GPU, NIC, asks, node

GIB = 2**30

EMPTY = node(*["cpu=8 mem=8Gi gpu=2"] * 2)
USED = left(EMPTY, "cpu=6500m mem=1Gi gpu=0", "")
NOTHING = asks("")
ONE = asks("cpu=2 mem=3Gi gpu=1")
"""A container that asks for some of everything."""


def test_nodes_give_what_is_free_or_all_there_is() -> None:
    assert state(NOTHING, EMPTY, USED).free(GPU).T.tolist() == [[2, 2], [0, 2]]
    assert state(NOTHING, EMPTY, USED, when=When.EMPTY).free(GPU).T.tolist() == [[2, 2], [2, 2]]


def test_of_what_no_node_has_there_is_none() -> None:
    assert state(NOTHING, EMPTY, USED).free(NIC).tolist() == [[0, 0], [0, 0]]


def test_raw_cpus_are_millicores_and_all_else_is_what_it_is() -> None:
    used = state(NOTHING, USED)

    assert used.free(CPU).T.tolist() == [[6, 8]]
    assert used.raw(CPU).T.tolist() == [[6500, 8000]]
    assert used.raw(MEMORY).T.tolist() == [[GIB, 8 * GIB]]


def test_some_rows_of_some_rows_are_rows_of_the_table() -> None:
    every = state(NOTHING, EMPTY, USED, left(EMPTY, "", "gpu=1"))
    some = every.at(np.array([2, 1]))
    one = some.at(np.array([0]))

    assert (every.count, some.count, one.count) == (3, 2, 1)
    assert some.free(GPU).T.tolist() == [[2, 1], [0, 2]]
    assert one.free(GPU).T.tolist() == [[2, 1]]


# What differs by kind of layout.

STRICT = replace(EMPTY, policy=Policy.RESTRICTED)
SHARED = replace(STRICT, cpu_manager=CpuManager.NONE, memory_manager=MemoryManager.NONE)


def test_rows_have_what_is_true_of_their_kind() -> None:
    mixed = state(ONE, STRICT, EMPTY, SHARED)

    assert mixed.has(Trait.STRICT).tolist() == [True, False, True]
    assert mixed.gives(CPU).tolist() == [True, True, False]
    assert mixed.flags([True, False, False]).tolist() == [True, False, False]
    assert mixed.at(np.array([2, 0])).gives(CPU).tolist() == [False, True]


@pytest.mark.parametrize("value", [True, False])
def test_what_is_true_of_all_kinds_is_true_of_all_rows(*, value: bool) -> None:
    assert state(ONE, STRICT, EMPTY, EMPTY).flags([value, value]).tolist() == [value] * 3


def test_a_request_counts_for_nothing_where_managers_do_not_give_it_out() -> None:
    mixed = state(ONE, STRICT, SHARED)

    assert by_name(asked(mixed), mixed.needs(asked(mixed))) == {
        GPU: [1, 1],
        CPU: [2, 0],
        MEMORY: [3 * GIB, 0],
    }


def policy(layout: Layout) -> Policy:
    return layout.config.policy


def test_rows_are_told_apart_by_a_fact_of_their_layouts() -> None:
    mixed = state(NOTHING, STRICT, EMPTY, SHARED)
    parts = {told: rows if rows is None else rows.tolist() for told, rows in mixed.alike(policy)}

    assert parts == {Policy.RESTRICTED: [0, 2], Policy.NONE: [1]}
    assert [told for told, _ in mixed.at(np.array([0, 2])).alike(policy)] == [Policy.RESTRICTED]


def test_a_fact_of_all_layouts_is_told_once() -> None:
    assert [*state(NOTHING, STRICT, SHARED).alike(policy)] == [(Policy.RESTRICTED, None)]


# Sets of zones that have enough.


def enough(found: ColumnState, width: int) -> list[list[bool]]:
    """By row, which sets of so many zones have all that the container asks for."""
    return list[list[bool]](found.enough(asked(found), width).T.tolist())


def test_sets_have_enough_together() -> None:
    three = state(asks("gpu=3"), node("gpu=1", "gpu=2", "gpu=4"))

    assert enough(three, 1) == [[False, False, True]]
    assert enough(three, 2) == [[True, True, True]]
    assert enough(three, 3) == [[True]]


def test_a_set_needs_enough_of_everything() -> None:
    apart = left(EMPTY, "cpu=1", "gpu=0")

    assert enough(state(ONE, EMPTY, apart), 1) == [[True, True], [False, False]]
    assert enough(state(ONE, EMPTY, apart), 2) == [[True], [True]]
    assert enough(state(ONE, EMPTY, apart, when=When.EMPTY), 1) == [[True, True], [True, True]]


def test_what_does_not_count_is_not_missing() -> None:
    none = "cpu=0 mem=0"

    assert enough(state(ONE, left(STRICT, none, none), left(SHARED, none, none)), 1) == [
        [False, False],
        [True, True],
    ]


def test_of_what_no_node_lists_no_set_has_enough_but_where_it_does_not_count() -> None:
    bare = node("cpu=8/8/2", "cpu=8", memory_manager=MemoryManager.STATIC)
    shared = replace(bare, memory_manager=MemoryManager.NONE)

    assert enough(state(asks("cpu=4 mem=1Gi"), bare, shared), 1) == [[False, False], [False, True]]


frees = st.lists(st.tuples(*[st.integers(0, 4)] * 4), min_size=1, max_size=3)


@given(frees, st.integers(0, 9), st.integers(1, 4), st.sampled_from([1, 300]))
def test_sets_have_what_their_zones_have(
    frees: list[tuple[int, ...]], amount: int, width: int, times: int
) -> None:
    one = node(*["gpu=4"] * 4, policy="restricted")
    rows = [left(one, *(f"gpu={gpus}" for gpus in free)) for free in frees]
    found = state(asks(f"gpu={amount}"), *rows * times)

    sets = [[at for at in range(4) if mask >> at & 1] for mask in range(16) if mask.bit_count() == width]
    plain = [[sum(free[at] for at in zones) >= amount for zones in sets] for free in frees]
    assert enough(found, width) == plain * times


def test_more_than_any_node_has_is_never_enough() -> None:
    many = state(asks(f"gpu={2**40}"), *[node("gpu=2", "gpu=2", "gpu=2")] * 300)

    assert not many.enough(asked(many), 2).any()


# Memory.


BLOCKS = node(*["mem=8Gi"] * 4, blocks=[(0, 1), (2,)])
"""Zones 0 and 1 serve each other, zone 2 has a block of its own, zone 3 none."""

BARE = node(*["mem=8Gi"] * 4)
SETS_OF_TWO = [0b0011, 0b0101, 0b0110, 0b1001, 0b1010, 0b1100]


def open_sets(found: ColumnState, width: int, row: int = 0) -> list[int]:
    """The sets that groups leave open on a row."""
    sets, closed = [mask for mask in range(16) if mask.bit_count() == width], found.closed(width)
    return sets if closed is None else [sets[at] for at in np.flatnonzero(~closed[:, row])]


def test_without_blocks_every_set_is_open() -> None:
    bare = state(NOTHING, BARE)

    assert bare.closed(1) is bare.closed(2) is None
    assert not bare.memory_used().any()


def test_a_group_serves_itself_and_a_zone_with_a_block_no_other() -> None:
    grouped = state(NOTHING, BLOCKS)

    assert open_sets(grouped, 1) == [0b0100, 0b1000]
    assert open_sets(grouped, 2) == [0b0011]
    assert open_sets(grouped, 3) == []


def test_the_empty_node_has_no_groups() -> None:
    empty = state(NOTHING, BLOCKS, when=When.EMPTY)

    assert open_sets(empty, 1) == [0b0001, 0b0010, 0b0100, 0b1000]
    assert open_sets(empty, 2) == SETS_OF_TWO
    assert not empty.memory_used().any()


def test_groups_of_one_node_do_not_close_sets_of_another() -> None:
    both = state(NOTHING, BARE, BLOCKS)

    for found in (both, both.at(np.array([0, 1, 0]))):
        assert open_sets(found, 1, row=0) == [0b0001, 0b0010, 0b0100, 0b1000]
        assert open_sets(found, 2, row=0) == SETS_OF_TWO
        assert open_sets(found, 2, row=1) == [0b0011]
        assert found.memory_used()[:2].tolist() == [False, True]


def test_single_zones_stay_open_where_nobody_has_a_group() -> None:
    own = state(NOTHING, node(*["mem=8Gi"] * 4, blocks=[(0,), (2,)]))

    assert own.closed(1) is None
    assert open_sets(own, 2) == [0b1010]
