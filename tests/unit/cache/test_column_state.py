"""What nodes of a table may give to a pod, row by row."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.column_state import ColumnState
from numalign.cache.columns import FreeOrEmpty, When
from numalign.model.intent import Policy
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.resources import CPU, MEMORY
from tests.worlds.columns import only_request, state, with_free
from tests.worlds.notation import GPU, NIC, asks, node, table

GIB = 2**30

EMPTY = node(*["cpu=8 mem=8Gi gpu=2"] * 2)
USED = with_free(EMPTY, "cpu=6500m mem=1Gi gpu=0", "")
STRICT = replace(EMPTY, policy=Policy.RESTRICTED)
SHARED = replace(STRICT, cpu_manager=CpuManager.NONE, memory_manager=MemoryManager.NONE)
NOTHING = asks("")
ONE = asks("cpu=2 mem=3Gi gpu=1")


def test_nodes_give_what_is_free_or_all_that_they_have() -> None:
    now, empty = state(NOTHING, EMPTY, USED), state(NOTHING, EMPTY, USED, when=When.EMPTY)

    assert (now.free(GPU).T.tolist(), empty.free(GPU).T.tolist()) == ([[2, 2], [0, 2]], [[2, 2], [2, 2]])
    assert now.free(NIC).tolist() == [[0, 0], [0, 0]]
    assert (now.raw(CPU).T.tolist()[1], now.raw(MEMORY).T.tolist()[1]) == ([6500, 8000], [GIB, 8 * GIB])
    assert now.at(np.array([1, 0])).at(np.array([0])).free(GPU).T.tolist() == [[0, 2]]


def test_rows_differ_by_kind_of_layout() -> None:
    mixed = state(ONE, STRICT, EMPTY, SHARED)
    parts = dict(mixed.alike(lambda layout: layout.config.policy))

    assert {policy: rows if rows is None else rows.tolist() for policy, rows in parts.items()} == {
        Policy.RESTRICTED: [0, 2],
        Policy.NONE: [1],
    }
    assert mixed.flags([True, False, False]).tolist() == [True, False, False]
    assert mixed.flags([True] * 3).tolist() == [True] * 3
    assert mixed.needs(only_request(mixed)).tolist() == [[1, 1, 1], [2, 2, 0], [3 * GIB, 3 * GIB, 0]]


def enough(state: ColumnState, width: int) -> list[list[bool]]:
    """By row, which sets of so many zones have all that the container requests."""
    return list[list[bool]](state.enough(only_request(state), width).T.tolist())


BARE = node("cpu=8/8/2", "cpu=8", memory_manager=MemoryManager.STATIC)
ENOUGH = [
    # what it shows                     nodes                                           pod, width, by row
    ("a zone alone", [node("gpu=1", "gpu=2", "gpu=4")], "gpu=3", 1, [[False, False, True]]),
    ("zones together",                  [node("gpu=1", "gpu=2", "gpu=4")], "gpu=3", 2,  [[True, True, True]]),
    ("enough of everything",            [EMPTY, with_free(EMPTY, "cpu=1", "gpu=0")], "cpu=2 mem=3Gi gpu=1", 1,
        [[True, True], [False, False]]),
    ("nobody manages it",               [with_free(SHARED, "cpu=0", "cpu=0")], "cpu=2 mem=3Gi gpu=1", 1,
        [[True, True]]),
    ("no node lists it",                [BARE, replace(BARE, memory_manager=MemoryManager.NONE)],
        "cpu=4 mem=1Gi", 1,             [[False, False], [False, True]]),
    ("more than any node has",          [node("gpu=2", "gpu=2", "gpu=2")] * 300, f"gpu={2**40}", 2,
        [[False] * 3] * 300),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "pod", "width", "rows"), table(ENOUGH))
def test_sets_have_enough_where(nodes: Sequence[Node], pod: str, width: int, rows: list[list[bool]]) -> None:
    assert enough(state(asks(pod), *nodes), width) == rows


frees = st.lists(st.tuples(*[st.integers(0, 4)] * 4), min_size=1, max_size=3)


@given(frees, st.integers(0, 9), st.integers(1, 4), st.sampled_from([1, 300]))
def test_sets_have_what_their_zones_have(
    frees: list[tuple[int, ...]], amount: int, width: int, times: int
) -> None:
    one = node(*["gpu=4"] * 4, policy="restricted")
    rows = [with_free(one, *(f"gpu={gpus}" for gpus in free)) for free in frees]

    sets = [[at for at in range(4) if mask >> at & 1] for mask in range(16) if mask.bit_count() == width]
    plain = [[sum(free[at] for at in zones) >= amount for zones in sets] for free in frees]
    assert enough(state(asks(f"gpu={amount}"), *rows * times), width) == plain * times


NO_BLOCKS, OWN = node(*["mem=8Gi"] * 4), node(*["mem=8Gi"] * 4, blocks=[(0,), (2,)])
BLOCKS = node(*["mem=8Gi"] * 4, blocks=[(0, 1), (2,)])
"""Zones 0 and 1 serve each other, zone 2 has a block of its own, zone 3 none."""


OPEN = [
    ("a zone in a group is closed", BLOCKS, When.NOW, 1, [0b0100, 0b1000]),
    ("a group serves itself", BLOCKS, When.NOW, 2, [0b0011]),
    ("a group and others", BLOCKS, When.NOW, 3, []),
    ("the empty node has no groups", BLOCKS, When.EMPTY, 1, None),
    ("there are no blocks", NO_BLOCKS, When.NOW, 2, None),
    ("single zones stay open", OWN, When.NOW, 1, None),
    ("zones with their own block", OWN, When.NOW, 2, [0b1010]),
]  # fmt: skip


@pytest.mark.parametrize(("one", "when", "width", "sets"), table(OPEN))
def test_groups_of_memory_leave_sets_open(
    one: Node, when: FreeOrEmpty, width: int, sets: list[int] | None
) -> None:
    closed = state(NOTHING, NO_BLOCKS, one, when=when).closed(width)

    every = np.array([mask for mask in range(16) if mask.bit_count() == width])
    assert (closed is None) == (sets is None)
    if closed is not None:
        assert (every[~closed[:, 0]].tolist(), every[~closed[:, 1]].tolist()) == (every.tolist(), sets)
    assert state(NOTHING, NO_BLOCKS, BLOCKS).memory_used().tolist() == [False, True]
