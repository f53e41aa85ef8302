"""Nodes of one layout in columns, and what a pod asks of them there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from numalign.cache import Question
from numalign.cache.arrays import Ints
from numalign.cache.column_state import ColumnState
from numalign.cache.columns import Columns, FreeOrEmpty, When
from numalign.cache.layout import Layout, layout_of
from numalign.cache.plan import LayoutPlan, StepRequest, plan_of
from numalign.decision.evaluate import NO_INTENT
from numalign.model.demand import Demand
from numalign.model.intent import Intent
from numalign.model.node import Node
from tests.notation import bag


def layout(node: Node) -> Layout:
    """The layout of a node that has one."""
    found = layout_of(node)
    assert found is not None
    return found


def columns(*nodes: Node) -> Columns:
    """Nodes of one layout, one per row."""
    (one,) = {layout(node) for node in nodes}
    made = Columns(one)
    for row, node in enumerate(nodes):
        made.put(row, node)
    return made


def state(*nodes: Node, when: FreeOrEmpty = When.NOW) -> ColumnState:
    """What these nodes have."""
    return ColumnState(columns(*nodes), when)


def plan(node: Node, demand: Demand, intent: Intent = NO_INTENT) -> LayoutPlan:
    """What a pod comes to on the layout of a node."""
    return plan_of(layout(node), Question(demand, intent), node)


def asked(node: Node, demand: Demand) -> StepRequest:
    """What the only container of a pod asks."""
    (one,) = plan(node, demand).steps
    return one


def left(node: Node, *free: str) -> Node:
    """The node with so much free in its zones; what is left out stays as it is."""
    amounts = [bag(text) for text in free]
    zones = (
        replace(zone, free=type(zone.free)({**zone.free, **own}))
        for zone, own in zip(node.zones, amounts, strict=True)
    )
    return replace(node, zones=tuple(zones))


def named(nodes: Iterable[Node]) -> list[Node]:
    """Nodes under names of their own: n0, n1, ..."""
    return [replace(node, name=f"n{at}") for at, node in enumerate(nodes)]


def array(*rows: Sequence[int]) -> Ints:
    """Numbers as columns hold them."""
    return np.array(rows, dtype=np.int64)


def lists(amounts: Mapping[str, Ints]) -> dict[str, list[int]]:
    """Arrays as lists, which can be compared."""
    return {name: found.tolist() for name, found in amounts.items()}
