"""Nodes in columns, one per row, and what a pod asks of them there."""

from collections.abc import Iterable
from dataclasses import replace

from numalign.cache import Question
from numalign.cache.arrays import Ints
from numalign.cache.column_state import ColumnState
from numalign.cache.columns import Columns, FreeOrEmpty, When
from numalign.cache.layout import Layout, layout_of
from numalign.cache.node_table import ZoneTable
from numalign.cache.plan import Plans, StepRequest, TablePlan
from numalign.decision.evaluate import NO_INTENT
from numalign.model.demand import Demand
from numalign.model.intent import Intent
from numalign.model.node import Node
from tests.worlds.notation import bag


def layout(node: Node) -> Layout:
    """The layout of a node that has one."""
    found = layout_of(node)
    assert isinstance(found, Layout)
    return found


def zone_table(*nodes: Node) -> ZoneTable:
    """Nodes with equally many zones, one per row."""
    (zones,) = {len(node.zones) for node in nodes}
    made = ZoneTable(zones)
    for row, node in enumerate(nodes):
        made.add(row, layout(node), node)
    return made


def columns(*nodes: Node) -> Columns:
    """The columns of these nodes."""
    return zone_table(*nodes).columns


def plans(demand: Demand, *nodes: Node, intent: Intent = NO_INTENT) -> tuple[TablePlan, ...]:
    """What a pod comes to on these nodes, in as many parts as it takes."""
    return Plans(Question(demand, intent)).of(zone_table(*nodes))


def plan(demand: Demand, *nodes: Node, intent: Intent = NO_INTENT) -> TablePlan:
    """What a pod comes to on nodes that decide about it alike."""
    (one,) = plans(demand, *nodes, intent=intent)
    return one


def state(
    demand: Demand, *nodes: Node, intent: Intent = NO_INTENT, when: FreeOrEmpty = When.NOW
) -> ColumnState:
    """What these nodes may give to a pod."""
    return ColumnState(plan(demand, *nodes, intent=intent), when)


def asked(state: ColumnState) -> StepRequest:
    """What the only container of the pod asks of these nodes."""
    (one,) = state.plan.steps
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


def by_name(request: StepRequest, amounts: Ints) -> dict[str, list[int]]:
    """What there is of each resource of a request on each row, (names, rows), by name."""
    return dict(zip(request.names, amounts.tolist(), strict=True))
