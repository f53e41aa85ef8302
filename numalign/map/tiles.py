"""
The tile of one node: its zones, what is free of them by the ledger, and its conditions.

Tiles use the same state as the scorer, so that the map never shows room that no pod would get.
"""

from collections.abc import Iterator

from numalign.kube import exporters
from numalign.ledger.model import FreeCapacity
from numalign.map.views import Condition, NodeTile, ZoneUse
from numalign.model.node import Node, node_class
from numalign.scheduling.pod_alignments import pod_alignments
from numalign.scheduling.scheduler_state import SchedulerState
from numalign.shapes.health import missing_devices


def tile(state: SchedulerState, name: str) -> NodeTile | None:
    """Return the current tile of a node; None if its topology is not known."""
    free = state.reservations.free_capacity(name, now=state.clock())
    if free is None or not state.cluster.listed:
        return None
    node = free.node
    exporter = exporters.of_node(state.cluster, name, now=state.wall())
    misaligned = sum(each.alignment.misaligned for each in pod_alignments(state, name))
    conditions = {*_conditions(node), *([Condition.MISALIGNED] if misaligned else [])}
    if exporter.stale:
        conditions.add(Condition.STALE)
    return NodeTile(
        name,
        node_class(node),
        node.policy,
        node.scope,
        zone_uses(free),
        frozenset(conditions),
        exporter.source,
        state.cluster.observed_at.get(name),
        free.basis,
        len(state.reservations.assigned_to(name)),
        misaligned,
        missing_devices(node),
    )


def zone_uses(free: FreeCapacity) -> tuple[ZoneUse, ...]:
    """Return the zones of a node, with what is free in each."""
    return tuple(ZoneUse(zone.id, zone.name, zone.allocatable, zone.free) for zone in free.node.zones)


def _conditions(node: Node) -> Iterator[Condition]:
    """Yield the conditions of a node itself, regardless of its pods and of its exporter."""
    if node.attributes.cordoned:
        yield Condition.CORDONED
    if not node.attributes.ready:
        yield Condition.NOT_READY
    if missing_devices(node):
        yield Condition.LACKING
