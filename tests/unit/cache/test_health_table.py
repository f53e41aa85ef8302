"""Ill nodes that are alike in health are asked by one node that stands for them."""

from dataclasses import replace

import pytest

from numalign.cache.health_table import HealthTable
from numalign.cache.node_table import NOWHERE
from numalign.model.attributes import Attributes
from numalign.model.node import Node
from tests.worlds.notation import GPU, node

FOUR = node("cpu=8 gpu=4", "cpu=8 gpu=4", policy="restricted")
EIGHT = node("cpu=8 gpu=8", "cpu=8 gpu=8", policy="restricted")


def known(healths: HealthTable, count: int) -> list[object]:
    """By row how many GPUs each zone has in health, None for a node that is not ill."""
    rows = healths.rows(None, count)
    return [None if row == NOWHERE else gpus(healths.nodes.node(int(row))) for row in rows]


def gpus(health: Node) -> int:
    return health.zones[0].free[GPU]


def test_nodes_that_are_not_ill_have_no_health() -> None:
    healths = HealthTable()
    healths.put(3, None)

    assert known(healths, 5) == [None] * 5
    assert len(healths.nodes) == 0


def test_of_every_ill_node_its_health_is_known() -> None:
    healths = HealthTable()
    healths.put(1, FOUR)
    healths.put(40, EIGHT)

    assert known(healths, 41) == [None, 4, *[None] * 38, 8]


def test_thousands_of_one_kind_are_asked_once() -> None:
    healths = HealthTable()
    for row in range(5000):
        healths.put(row, replace(FOUR, name=f"n{row}", label="a", attributes=Attributes(ready=row % 2 == 0)))

    assert len(healths.nodes) == 1
    assert set(known(healths, 5000)) == {4}


def test_some_rows_are_told_in_their_order() -> None:
    healths = HealthTable()
    for row, health in enumerate([FOUR, None, EIGHT, FOUR]):
        healths.put(row, health)

    four, eight = (int(healths.rows(None, 4)[row]) for row in (0, 2))
    wanted = healths.rows(None, 4)[[3, 1, 2]].tolist()
    assert wanted == [four, NOWHERE, eight]


@pytest.mark.parametrize(("after", "left"), [(None, 1), (EIGHT, 1), (FOUR, 2), (replace(FOUR, name="n"), 2)])
def test_what_no_node_has_any_more_is_forgotten(after: Node | None, left: int) -> None:
    healths = HealthTable()
    healths.put(0, FOUR)
    healths.put(1, EIGHT)
    healths.put(0, after)

    assert known(healths, 2) == [after and gpus(after), 8]
    assert len(healths.nodes) == left


def test_what_others_have_as_well_stays() -> None:
    healths = HealthTable()
    healths.put(0, FOUR)
    healths.put(1, FOUR)
    healths.put(0, None)
    assert known(healths, 2) == [None, 4]

    healths.put(1, None)
    healths.put(0, EIGHT)
    assert known(healths, 2) == [8, None]
    assert len(healths.nodes) == healths.nodes.height == 1
