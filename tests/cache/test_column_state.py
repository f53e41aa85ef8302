"""What nodes have left while a pod is admitted, container by container."""

import numpy as np
import pytest

from numalign.cache.column_state import ColumnState
from numalign.cache.columns import FreeOrEmpty, When
from numalign.model.node import Node
from numalign.model.resources import CPU, MEMORY
from tests.in_columns import asked, left, state
from tests.notation import GPU, NIC, Ids, asks, node, options, table

GIB = 2**30

EMPTY = node(*["cpu=8 mem=8Gi gpu=2"] * 2)
USED = left(EMPTY, "cpu=6500m mem=1Gi gpu=0", "")
ONE = asked(EMPTY, asks("cpu=2 mem=3Gi gpu=1"))
"""A container that asks for some of everything."""


def shut(found: ColumnState, width: int) -> list[list[bool]] | None:
    """By set, which rows it is closed on."""
    sets = found.closed(width)
    return None if sets is None else sets.tolist()


# What is free, and how it is taken.


def test_it_begins_with_what_is_free_or_with_all_there_is() -> None:
    assert state(EMPTY, USED).amounts(GPU).T.tolist() == [[2, 2], [0, 2]]
    assert state(EMPTY, USED, when=When.EMPTY).amounts(GPU).T.tolist() == [[2, 2], [2, 2]]


def test_of_what_no_node_has_there_is_none() -> None:
    assert state(EMPTY, USED).amounts(NIC).tolist() == [[0, 0], [0, 0]]
    assert state(EMPTY, USED).sums(NIC, 2).tolist() == [[0, 0]]


def test_raw_cpus_are_millicores_and_all_else_is_what_it_is() -> None:
    assert state(USED).amounts(CPU).T.tolist() == [[6, 8]]
    assert state(USED).raw(CPU).T.tolist() == [[6500, 8000]]
    assert state(USED).raw(MEMORY).T.tolist() == [[GIB, 8 * GIB]]


def test_a_container_takes_from_the_zone_that_it_got() -> None:
    after = state(EMPTY, USED, EMPTY).charged(ONE, np.array([0b01, 0b10, 0]))

    assert after.amounts(GPU).T.tolist() == [[1, 2], [0, 1], [2, 2]]
    assert after.amounts(CPU).T.tolist() == [[6, 8], [6, 6], [8, 8]]
    assert after.raw(CPU).T.tolist() == [[6000, 8000], [6500, 6000], [8000, 8000]]
    assert after.raw(MEMORY).T.tolist() == [[5 * GIB, 8 * GIB], [GIB, 5 * GIB], [8 * GIB, 8 * GIB]]


def test_sets_of_zones_give_what_their_zones_give() -> None:
    three = state(node("gpu=1", "gpu=2", "gpu=4"))

    assert three.sums(GPU, 1).T.tolist() == [[1, 2, 4]]
    assert three.sums(GPU, 2).T.tolist() == [[3, 5, 6]]
    assert three.sums(GPU, 3).T.tolist() == [[7]]


def test_single_zones_are_told_in_the_kubelets_order() -> None:
    costs: dict[Ids, int] = {(0, 0): 20, (1, 1): 10}
    odd = node(
        "gpu=1", "gpu=2", policy="restricted", costs=costs, options=options("prefer-closest-numa-nodes")
    )

    assert state(odd).sums(GPU, 1).T.tolist() == [[2, 1]]


def test_rows_can_be_looked_at_alone() -> None:
    after = state(EMPTY, USED, EMPTY).charged(ONE, np.array([0b01, 0b10, 0b10]))
    some = after.at(np.array([2, 0]))
    again = some.at(np.array([1]))

    assert (after.count, some.count, again.count) == (3, 2, 1)
    assert some.amounts(GPU).T.tolist() == [[2, 1], [1, 2]]
    assert some.sums(GPU, 2).tolist() == [[3, 3]]
    assert again.amounts(GPU).T.tolist() == [[1, 2]]
    assert shut(again, 2) == [[True]]


# Memory.


BLOCKS = node(*["mem=8Gi"] * 4, blocks=[(0, 1), (2,)])
"""Zones 0 and 1 serve each other, zone 2 has a block of its own, zone 3 none."""

BARE = node(*["mem=8Gi"] * 4)
SETS_OF_TWO = [0b0011, 0b0101, 0b0110, 0b1001, 0b1010, 0b1100]


def open_sets(found: ColumnState, width: int, row: int = 0) -> list[int]:
    """The sets that groups leave open on a row."""
    order = found.columns.layout.of_width(width)
    closed = shut(found, width) or [[False] * found.count] * len(order)
    return [mask for mask, told in zip(order, closed, strict=True) if not told[row]]


def test_without_blocks_every_set_is_open() -> None:
    assert shut(state(BARE), 1) is None
    assert shut(state(BARE), 2) is None


def test_a_group_serves_itself_and_a_zone_with_a_block_no_other() -> None:
    assert open_sets(state(BLOCKS), 1) == [0b0100, 0b1000]
    assert open_sets(state(BLOCKS), 2) == [0b0011]
    assert open_sets(state(BLOCKS), 3) == []


def test_the_empty_node_has_no_groups() -> None:
    empty = state(BLOCKS, when=When.EMPTY)

    assert open_sets(empty, 1) == [0b0001, 0b0010, 0b0100, 0b1000]
    assert open_sets(empty, 2) == SETS_OF_TWO
    assert not empty.memory_used().any()


def test_groups_of_one_node_do_not_close_sets_of_another() -> None:
    both = state(BARE, BLOCKS)

    assert open_sets(both, 1, row=0) == [0b0001, 0b0010, 0b0100, 0b1000]
    assert open_sets(both, 2, row=0) == SETS_OF_TWO
    assert open_sets(both, 2, row=1) == [0b0011]
    assert both.memory_used().tolist() == [False, True]


def test_single_zones_stay_open_where_nobody_has_a_group() -> None:
    own = node(*["mem=8Gi"] * 4, blocks=[(0,), (2,)])

    assert shut(state(own), 1) is None
    assert open_sets(state(own), 2) == [0b1010]


GIB_OF_MEMORY = asked(BARE, asks("cpu=1 mem=1Gi"))


def test_a_container_of_the_pod_binds_its_zone() -> None:
    after = state(BARE, BARE).charged(GIB_OF_MEMORY, np.array([0b0001, 0]))

    assert open_sets(after, 1) == [0b0001, 0b0010, 0b0100, 0b1000]
    assert open_sets(after, 2) == [0b0110, 0b1010, 0b1100]
    assert open_sets(after, 2, row=1) == SETS_OF_TWO
    assert after.memory_used().tolist() == [True, False]


@pytest.mark.parametrize(
    ("one", "when", "masks", "left_open"),
    table(
        [
            ("one of an empty node too", BLOCKS, When.EMPTY, (0b0001,), [0b0110, 0b1010, 0b1100]),
            ("several those of all", BARE, When.NOW, (0b0001, 0b0100), [0b1010]),
            ("one beside a group leaves it whole", BLOCKS, When.NOW, (0b1000,), [0b0011]),
        ]
    ),
)
def test_containers_bind_their_zones(
    one: Node, when: FreeOrEmpty, masks: tuple[int, ...], left_open: list[int]
) -> None:
    after = state(one, when=when)
    for mask in masks:
        after = after.charged(GIB_OF_MEMORY, np.array([mask]))

    assert open_sets(after, 1) == [1 << at for at in range(4) if left_open != [0b0011] or at > 1]
    assert open_sets(after, 2) == left_open


def test_what_asks_for_no_memory_binds_nothing() -> None:
    devices = asked(EMPTY, asks("gpu=1"))

    assert not state(EMPTY).charged(devices, np.array([0b01])).memory_used().any()


def test_bound_zones_and_blocks_close_sets_together() -> None:
    some = node(*["mem=8Gi"] * 4, blocks=[(0, 1)])
    after = state(some).charged(GIB_OF_MEMORY, np.array([0b0100]))

    assert open_sets(after, 1) == [0b0100, 0b1000]
    assert open_sets(after, 2) == [0b0011]
    assert after.memory_group(0).tolist() == [0b0011]
    assert after.memory_group(2).tolist() == [0b0100]
