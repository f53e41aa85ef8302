"""
The fleet: the tiles that a query shows, by class.

The tile of a node has its zones, what is free of them by the ledger, and its conditions. Tiles use the same
state as the scorer, so that the map never shows room that no pod would get. Thousands of tiles are filtered
in steps, so that other tasks run in between.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from numalign.kube import exporters
from numalign.ledger.model import FreeCapacity
from numalign.map.views import ClassGroup, Condition, Fleet, FleetQuery, NodeTile, ZoneUse
from numalign.model.attributes import NO_LABELS
from numalign.model.intent import Policy
from numalign.model.node import node_class
from numalign.model.resources import Resources
from numalign.model.steps import Steps
from numalign.scheduling.pod_alignments import pod_alignments
from numalign.scheduling.scheduler_state import SchedulerState
from numalign.shapes.health import missing_devices

_TILES_A_STEP = 64


def tile_of(state: SchedulerState, name: str) -> NodeTile | None:
    """Return the current tile of a node; None if its topology is not known."""
    free = state.reservations.free_capacity(name, now=state.clock())
    if free is None or not state.cluster.listed:
        return None
    node, exporter = free.node, exporters.of_node(state.cluster, name, now=state.wall())
    misaligned = sum(each.alignment.misaligned for each in pod_alignments(state, name))
    missing = missing_devices(node)
    conditions = {
        Condition.CORDONED: node.attributes.cordoned,
        Condition.NOT_READY: not node.attributes.ready,
        Condition.LACKING: missing,
        Condition.MISALIGNED: misaligned,
        Condition.STALE: exporter.stale,
    }
    return NodeTile(
        name,
        node_class(node),
        node.policy,
        node.scope,
        zone_uses(free),
        frozenset(condition for condition, applies in conditions.items() if applies),
        exporter.source,
        state.cluster.observed_at.get(name),
        free.basis,
        len(state.reservations.assigned_to(name)),
        misaligned,
        missing,
    )


def zone_uses(free: FreeCapacity) -> tuple[ZoneUse, ...]:
    """Return the zones of a node, with what is free in each."""
    return tuple(ZoneUse(zone.id, zone.name, zone.allocatable, zone.free) for zone in free.node.zones)


@dataclass(slots=True)
class _Group:
    """The shown nodes of a class, and the totals of their zones."""

    tiles: list[NodeTile] = field(default_factory=list)
    allocatable: Counter[str] = field(default_factory=Counter)
    free: Counter[str] = field(default_factory=Counter)

    def add(self, tile: NodeTile) -> None:
        self.tiles.append(tile)
        for zone in tile.zones:
            for name, amount in zone.allocatable.items():
                self.allocatable[name] += amount
                self.free[name] += zone.free.get(name, 0)

    def by_name(self) -> ClassGroup:
        tiles = tuple(sorted(self.tiles, key=attrgetter("name")))
        totals = Resources(self.allocatable), Resources(self.free)
        return ClassGroup(tiles[0].node_class, tiles[0].policy, tiles[0].scope, tiles, *totals)


def fleet(  # noqa: PLR0913  the nodes, and what is shown of them
    tiles: Sequence[NodeTile],
    bare: Collection[str],
    labels: Mapping[str, Mapping[str, str]],
    query: FleetQuery,
    *,
    revision: int,
    now: float,
) -> Steps[Fleet]:
    """Return the nodes that a query shows, in steps: of these tiles, and of the nodes without topology.

    `labels` are those of all of them, by name; a node that is not in the mapping has none.
    """
    groups = defaultdict[str, _Group](_Group)
    # The values to choose from in filters are those of all nodes, shown or not.
    resources, classes, policies, counts = set[str](), set[str](), set[Policy](), Counter[Condition]()
    for at, tile in enumerate(tiles, start=1):
        resources.update(*(zone.allocatable for zone in tile.zones))
        classes.add(tile.node_class)
        policies.add(tile.policy)
        counts.update(tile.conditions)
        if _shows(query, tile, labels.get(tile.name, NO_LABELS)):
            groups[tile.node_class].add(tile)
        if not at % _TILES_A_STEP:
            yield
    counts[Condition.UNKNOWN] = len(bare)
    # The class, the policy and the zones of a node without topology are not known.
    shows_bare = not (query.node_class or query.policy or query.resource_required) and (
        not query.only or Condition.UNKNOWN in query.only
    )
    unknown = [name for name in bare if shows_bare and query.selector.matches(labels.get(name, NO_LABELS))]
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1].tiles), item[0]))
    return Fleet(
        tuple(group.by_name() for _, group in ordered),
        tuple(sorted(unknown)),
        tuple(sorted(resources)),
        tuple(sorted(classes)),
        tuple(policy for policy in Policy if policy in policies),
        {condition: counts[condition] for condition in Condition},
        sum(len(group.tiles) for group in groups.values()) + len(unknown),
        len(tiles) + len(bare),
        revision,
        now,
    )


def _shows(query: FleetQuery, tile: NodeTile, labels: Mapping[str, str]) -> bool:
    return (
        query.node_class in ("", tile.node_class)
        and query.policy in (None, tile.policy)
        and (not query.only or bool(query.only & tile.conditions))
        and (not query.resource_required or any(query.resource in zone.allocatable for zone in tile.zones))
        and query.selector.matches(labels)
    )
