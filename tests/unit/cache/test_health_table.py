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


def gpus_by_row(healths: HealthTable, count: int) -> list[object]:
    """By row how many GPUs each zone has in health, None for a node that is not ill."""
    rows = healths.rows(None, count)
    return [None if row == NOWHERE else gpus(healths.nodes.node(int(row))) for row in rows]


def gpus(health: Node) -> int:
    return health.zones[0].free[GPU]


def test_equal_healthy_nodes_are_one_row() -> None:
    healths = HealthTable()
    for row in range(5000):
        healths.put(row, replace(FOUR, name=f"n{row}", label="a", attributes=Attributes(ready=row % 2 == 0)))

    assert len(healths.nodes) == 1
    assert set(gpus_by_row(healths, 5000)) == {4}


@pytest.mark.parametrize(("after", "count"), [(None, 1), (EIGHT, 1), (FOUR, 2), (replace(FOUR, name="n"), 2)])
def test_health_of_no_node_is_dropped(after: Node | None, count: int) -> None:
    healths = HealthTable()
    healths.put(0, FOUR)
    healths.put(1, EIGHT)
    healths.put(0, after)

    assert gpus_by_row(healths, 2) == [after and gpus(after), 8]
    assert len(healths.nodes) == count


def test_health_of_other_nodes_stays() -> None:
    healths = HealthTable()
    healths.put(0, FOUR)
    healths.put(1, FOUR)
    healths.put(0, None)
    assert gpus_by_row(healths, 2) == [None, 4]

    healths.put(1, None)
    healths.put(0, EIGHT)
    assert gpus_by_row(healths, 2) == [8, None]
    assert len(healths.nodes) == healths.nodes.height == 1
