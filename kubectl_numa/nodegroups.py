"""
The nodes of a cluster by class: how many there are, how many are idle or full, and problems.

Nodes of one class are built alike, so hundreds of them are shown as one: their zones are drawn with what all
of them have together. `nodemap` draws single nodes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from itertools import chain

from kubectl_numa.lines import TextWriter, counted, some
from kubectl_numa.listings import ListedRow
from kubectl_numa.nodemap import draw_zones
from numalign.decision import wording
from numalign.kube.exporters import ExporterHealth
from numalign.model.node import Node, Zone, node_class
from numalign.model.resources import CPU, EMPTY, MEMORY, Kind, Resources, kind, render_short
from numalign.shapes.health import missing_devices

COLUMNS = ("name", "status", "zones", "cpu", "memory", "devices")
WIDE_COLUMNS = ("policy", "scope", "known", "source", "age", "class")

_NAMED = 5
_INDENT = 2


class NodeStatus(StrEnum):
    """The statuses of a node."""

    IDLE = "idle"
    PARTLY_USED = "partly-used"
    FULL = "full"
    MISALIGNED = "misaligned"
    STALE = "stale"
    CORDONED = "cordoned"
    NOT_READY = "not-ready"
    LACKING = "lacking-devices"
    MISLABELLED = "mislabelled"


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A node and its exporter; `misaligned` counts such pods on it, None if pods were not read."""

    node: Node
    health: ExporterHealth
    misaligned: int | None = None

    @property
    def statuses(self) -> tuple[NodeStatus, ...]:
        """Return all its statuses, in the order of reporting."""
        node = self.node
        given = {name for zone in node.zones for name, amount in zone.allocatable.items() if amount}
        idle = all(zone.free == zone.allocatable for zone in node.zones)
        # A node is full if its zones have nothing left of some resource.
        full = any(not any(zone.free.get(name) for zone in node.zones) for name in given)
        holds = {
            NodeStatus.IDLE: idle,
            NodeStatus.PARTLY_USED: not (idle or full),
            NodeStatus.FULL: full and not idle,
            NodeStatus.MISALIGNED: bool(self.misaligned),
            NodeStatus.STALE: self.health.stale,
            NodeStatus.CORDONED: node.attributes.cordoned,
            NodeStatus.NOT_READY: not node.attributes.ready,
            NodeStatus.LACKING: bool(missing_devices(node)),
            NodeStatus.MISLABELLED: node.label not in {None, node_class(node)},
        }
        return tuple(status for status in NodeStatus if holds[status])


_USES = frozenset({NodeStatus.IDLE, NodeStatus.PARTLY_USED, NodeStatus.FULL})


@dataclass(frozen=True, slots=True)
class ClassOfNodes:
    """The nodes of one class."""

    name: str
    nodes: tuple[SeenNode, ...]

    @property
    def statuses(self) -> Counter[NodeStatus]:
        """Return how many nodes have each status."""
        return Counter(status for seen in self.nodes for status in seen.statuses)


def _together(zones: Sequence[Zone]) -> Zone:
    return replace(
        zones[0],
        allocatable=reduce(Resources.plus, (zone.allocatable for zone in zones), EMPTY),
        free=reduce(Resources.plus, (zone.free for zone in zones), EMPTY),
    )


def by_class(nodes: Iterable[SeenNode]) -> list[ClassOfNodes]:
    """Return the classes, those with the most nodes first."""
    grouped = defaultdict[str, list[SeenNode]](list)
    for seen in nodes:
        grouped[node_class(seen.node)].append(seen)
    classes = (ClassOfNodes(name, tuple(of_class)) for name, of_class in grouped.items())
    return sorted(classes, key=lambda each: (-len(each.nodes), each.name))


def draw_class(each: ClassOfNodes, writer: TextWriter) -> None:
    """Draw one class: the number of nodes and zones, the statuses, the zones, and some names."""
    node, statuses = each.nodes[0].node, each.statuses
    writer.entry("", each.name, indent=0, style="bold")
    zones = counted(len(node.every_zone), "zone")
    like = f"{counted(len(each.nodes))} of {zones}, {node.policy}, scope {node.scope}"
    writer.entry("", like, indent=_INDENT)
    style = "red" if statuses.keys() - _USES else ""
    writer.entry("", _in_words(statuses, each.nodes), indent=_INDENT, style=style)
    by_name = defaultdict[str, list[Zone]](list)
    for zone in chain.from_iterable(seen.node.zones for seen in each.nodes):
        by_name[zone.name].append(zone)
    # What the zones of all nodes have together, zone by zone.
    draw_zones(replace(node, zones=tuple(map(_together, by_name.values())), stock=None), writer)
    writer.entry("", some((seen.node.name for seen in each.nodes), most=_NAMED), indent=_INDENT, style="dim")


def _in_words(statuses: Mapping[NodeStatus, int], nodes: Sequence[SeenNode]) -> str:
    """Return how many nodes have each status: `3 idle, 1 partly used, 2 full, 1 stale`."""
    always = {*_USES}
    if any(seen.misaligned is not None for seen in nodes):
        always.add(NodeStatus.MISALIGNED)
    counts = ((statuses.get(status, 0), status) for status in NodeStatus)
    parts = (f"{count:,} {status.replace('-', ' ')}" for count, status in counts if count or status in always)
    return ", ".join(parts)


def summary(nodes: Sequence[SeenNode], classes: Sequence[ClassOfNodes]) -> str:
    """Return a summary of all nodes in a line."""
    statuses = Counter(status for seen in nodes for status in seen.statuses)
    of = "1 class" if len(classes) == 1 else f"{len(classes):,} classes"
    return f"{counted(len(nodes))} of {of}: {_in_words(statuses, nodes)}"


def row(seen: SeenNode) -> ListedRow:
    """Return one node as a row; amounts are allocated/allocatable in all its zones."""
    node, amounts = seen.node, _together(seen.node.zones)
    devices = [name for name in amounts.allocatable if kind(name) is Kind.DEVICE]
    return ListedRow(
        f"node/{node.name}",
        (
            node.name,
            ",".join(seen.statuses),
            len(node.every_zone),
            _taken(amounts, CPU),
            _taken(amounts, MEMORY),
            ",".join(f"{name}={_taken(amounts, name)}" for name in devices),
            node.policy,
            node.scope,
            node.known,
            seen.health.source,
            None if seen.health.age is None else wording.ago(seen.health.age),
            node_class(node),
        ),
    )


def hidden_row(name: str) -> ListedRow:
    """Return the row of a node that publishes no topology."""
    return ListedRow(f"node/{name}", (name, "no-topology", *(None,) * (len(COLUMNS) + len(WIDE_COLUMNS) - 2)))


def _taken(zone: Zone, name: str) -> str | None:
    if name not in zone.allocatable:
        return None
    total = zone.allocatable[name]
    return f"{render_short(name, total - zone.free.get(name, 0))}/{render_short(name, total)}"
