"""What nodes of a table may give to a pod, row by row."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from numalign.cache.column_state import ColumnState
from numalign.cache.columns import When
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
