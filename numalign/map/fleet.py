"""
The fleet: the tiles that a query shows, by class.

Thousands of tiles are filtered in steps, so that other tasks run in between.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from numalign.map.views import ClassGroup, Condition, Fleet, FleetQuery, NodeTile
from numalign.model.attributes import NO_LABELS
from numalign.model.intent import Policy
from numalign.model.resources import Resources
from numalign.model.steps import Steps

_TILES_A_STEP = 64


@dataclass(frozen=True, slots=True)
class ShownNodes:
    """All nodes of a cluster: the tiles of those whose topology is known, and the names of the others.

    `labels` are those of all of them, by name; a node that is not in the mapping has none.
    """

    tiles: Sequence[NodeTile]
    unknown: Collection[str]
    labels: Mapping[str, Mapping[str, str]]


@dataclass(slots=True)
class _Totals:
    """The totals of the zones of nodes."""

    allocatable: Counter[str] = field(default_factory=Counter)
    free: Counter[str] = field(default_factory=Counter)

    def add(self, tile: NodeTile) -> None:
        """Add the zones of one more node."""
        for zone in tile.zones:
            for name, amount in zone.allocatable.items():
                self.allocatable[name] += amount
                self.free[name] += zone.free.get(name, 0)


@dataclass(slots=True)
class _Choices:
    """The values to choose from in filters, of all nodes, shown or not."""

    resources: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    policies: set[Policy] = field(default_factory=set)
    counts: Counter[Condition] = field(default_factory=Counter)

    def add(self, tile: NodeTile) -> None:
        """Add the values of one more node."""
        for zone in tile.zones:
            self.resources.update(zone.allocatable)
        self.classes.add(tile.node_class)
        self.policies.add(tile.policy)
        self.counts.update(tile.conditions)


def fleet(nodes: ShownNodes, query: FleetQuery, *, revision: int, now: float) -> Steps[Fleet]:
    """Return the nodes that a query shows, in steps."""
    shown, totals = defaultdict[str, list[NodeTile]](list), defaultdict[str, _Totals](_Totals)
    choices, labels = _Choices(), nodes.labels
    for at, tile in enumerate(nodes.tiles, start=1):
        choices.add(tile)
        if shows(query, tile, labels.get(tile.name, NO_LABELS)):
            shown[tile.node_class].append(tile)
            totals[tile.node_class].add(tile)
        if not at % _TILES_A_STEP:
            yield
    choices.counts[Condition.UNKNOWN] = len(nodes.unknown)
    unknown = tuple(name for name in nodes.unknown if shows_unknown(query, labels.get(name, NO_LABELS)))
    groups = [_group(members, totals[name]) for name, members in shown.items()]
    return Fleet(
        tuple(sorted(groups, key=lambda group: (-len(group.tiles), group.node_class))),
        tuple(sorted(unknown)),
        tuple(sorted(choices.resources)),
        tuple(sorted(choices.classes)),
        tuple(policy for policy in Policy if policy in choices.policies),
        {condition: choices.counts[condition] for condition in Condition},
        sum(map(len, shown.values())) + len(unknown),
        len(nodes.tiles) + len(nodes.unknown),
        revision,
        now,
    )


def shows(query: FleetQuery, tile: NodeTile, labels: Mapping[str, str]) -> bool:
    """Return whether a query shows a node with these labels."""
    return (
        query.node_class in ("", tile.node_class)
        and query.policy in (None, tile.policy)
        and (not query.only or bool(query.only & tile.conditions))
        and (not query.resource_required or _lists(tile, query.resource))
        and query.selector.matches(labels)
    )


def shows_unknown(query: FleetQuery, labels: Mapping[str, str]) -> bool:
    """Return whether a query shows a node without topology, whose class, policy and zones are not known."""
    asks_for_more = query.node_class or query.policy or query.resource_required
    return (
        not asks_for_more
        and (not query.only or Condition.UNKNOWN in query.only)
        and query.selector.matches(labels)
    )


def _lists(tile: NodeTile, resource: str) -> bool:
    return any(resource in zone.allocatable for zone in tile.zones)


def _group(tiles: Iterable[NodeTile], totals: _Totals) -> ClassGroup:
    members = tuple(sorted(tiles, key=lambda tile: tile.name))
    first = members[0]
    return ClassGroup(
        first.node_class,
        first.policy,
        first.scope,
        members,
        Resources(totals.allocatable),
        Resources(totals.free),
    )
