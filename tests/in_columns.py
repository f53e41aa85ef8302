"""Nodes of one layout in columns, and what a pod asks of them there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from numalign.fleet import Question
from numalign.fleet.arrays import Ints
from numalign.fleet.columns import Columns, Moment, When
from numalign.fleet.layout import Layout, layout_of
from numalign.fleet.plan import Asked, Plan, plan_of
from numalign.fleet.state import State
from numalign.rules.demand import Demand
from numalign.rules.evaluate import NO_INTENT
from numalign.rules.intent import Intent
from numalign.rules.topology import Node
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


def state(*nodes: Node, when: Moment = When.NOW) -> State:
    """What these nodes have."""
    return State(columns(*nodes), when)


def plan(node: Node, demand: Demand, intent: Intent = NO_INTENT) -> Plan:
    """What a pod comes to on the layout of a node."""
    return plan_of(layout(node), Question(demand, intent), node)


def asked(node: Node, demand: Demand) -> Asked:
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
