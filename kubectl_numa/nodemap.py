"""
The NUMA map: what each zone of each node has, and how much of it is allocated.

There is a row for each zone and a column for each resource, so that an imbalance is visible without reading
numbers. Columns share the width of the line; resources that do not fit beside each other follow below.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from rich.text import Text

from kubectl_numa.explanation import provenance
from kubectl_numa.lines import TextWriter, amounts, counted
from numalign.decision import wording
from numalign.kube.exporters import NOBODY, ExporterHealth, TopologySource
from numalign.model.bitset import bits
from numalign.model.machine import render_list
from numalign.model.node import Node, Zone, node_class
from numalign.model.resources import quantities, readable_zone, render_short
from numalign.shapes import KnownShape
from numalign.shapes.health import missing_devices

NOTHING = "nothing"
"""The level of knowledge about a node that publishes no topology."""

BLOCKS, ASCII = ("█", "░"), ("#", ".")
"""The characters of bars: used, free."""

_LEAST_BAR, _MOST_BAR = 4, 16
_GAP = 2
_FULL, _HIGH = 1.0, 0.7
_INDENT = 2


@dataclass(frozen=True, slots=True)
class ListedNodes:
    """Nodes to show, the names of those without topology, and shapes."""

    nodes: Sequence[Node] = ()
    unknown: Sequence[str] = ()
    shapes: Sequence[KnownShape] = ()


def to_json(listed: ListedNodes, exporter: Callable[[Node], ExporterHealth]) -> list[dict[str, Any]]:
    """Return all nodes for programs, then those without topology, then the shapes without nodes."""
    nodes = (
        _EMPTY
        | {
            "name": node.name,
            "class": node_class(node),
            "label": node.label,
            "policy": node.policy,
            "scope": node.scope,
            "known": node.known,
            **exporter(node).to_json(),
            "lacks": quantities(missing_devices(node)),
            "cordoned": node.attributes.cordoned,
            "ready": node.attributes.ready,
            "taints": [*map(str, node.attributes.taints)],
            "zones": [*map(_zone, node.every_zone)],
        }
        for node in listed.nodes
    )
    hidden = (_EMPTY | {"name": name, **NOBODY.to_json()} for name in listed.unknown)
    return [*nodes, *hidden, *(shape_to_json(shape) for shape in listed.shapes if not shape.nodes)]


def shape_to_json(known_shape: KnownShape) -> dict[str, Any]:
    """Return a shape for programs, with the fields of a node; None is any value of a label."""
    shape = known_shape.shape
    return {
        **_EMPTY,
        "name": shape.name,
        "class": shape.node_class,
        "policy": shape.node.policy,
        "scope": shape.node.scope,
        **provenance(known_shape),
        "nodes": known_shape.nodes,
        "labels": {
            key: None if values.known is None else sorted(values.known)
            for key, values in sorted(shape.labels.items())
        },
        "taints": [*map(str, shape.taints)],
        "zones": [*map(_zone, shape.node.every_zone)],
    }


def _zone(zone: Zone) -> dict[str, Any]:
    return {
        "id": zone.id,
        "name": zone.name,
        "capacity": quantities(zone.capacity),
        "allocatable": quantities(zone.allocatable),
        "free": quantities(zone.free),
    }


def draw(node: Node, writer: TextWriter, health: ExporterHealth) -> None:
    """Draw one node: its policy, what reported it, its label if not its class, problems, then its zones."""
    name = node_class(node)
    like = f"{node.policy}, scope {node.scope}"
    writer.entry(f"{node.name}  ", like, indent=len(node.name) + 2, label_style="bold")
    reported = _REPORTED[health.source]
    if health.age is not None:
        ago = wording.ago(health.age)
        reported = f"{reported}, silent for {ago}" if health.stale else f"{reported} {ago} ago"
    writer.entry("", f"known: {node.known}, {reported}", indent=_INDENT, style="red" if health.stale else "")
    writer.entry("", name, indent=_INDENT, style="dim")
    if node.label != name:
        writer.write(Text(f"  labelled {node.label}" if node.label else "  not labelled", "yellow"))
    if missing := missing_devices(node):
        lacking = f"lacks {amounts(quantities(missing))} that it had"
        writer.entry("", lacking, indent=_INDENT, style="red")
    if node.attributes.cordoned:
        writer.write(Text("  is cordoned", "red"))
    if not node.attributes.ready:
        writer.write(Text("  is not ready", "red"))
    draw_zones(node, writer)


def draw_zones(node: Node, writer: TextWriter) -> None:
    """Draw a row for each zone, a column for each resource: how much of what is allocatable is used."""
    zones = node.zones
    names = sorted(set(chain.from_iterable(zone.allocatable for zone in zones)))
    label = max((len(readable_zone(zone.name)) for zone in zones), default=0) + 2
    room = writer.width - label
    columns = [_Column(name, max(len(_figures(zone, name)) for zone in zones)) for name in names]
    for block in _blocks(columns, room=room):
        lengths = (ink for ink in range(_MOST_BAR, _LEAST_BAR, -1) if _fits(block, ink, room=room))
        ink = next(lengths, _LEAST_BAR)
        widths = [column.width(ink) for column in block]
        writer.write(_line(" " * label, [(column.name, "dim") for column in block], widths))
        for zone in zones:
            cells = [_cell(zone, column.name, width=ink, plain=writer.plain) for column in block]
            writer.write(_line(f"  {readable_zone(zone.name)}".ljust(label), cells, widths))
    if node.others:
        ids = render_list(bits(zone.id for zone in node.others))
        words = f"and {counted(len(node.others), 'zone')} without CPUs and devices: {ids}"
        writer.entry("", words, indent=_INDENT, style="dim")


_REPORTED = {
    TopologySource.AGENT: "reported by its agent",
    TopologySource.EXPORTER: "reported by an exporter",
    TopologySource.NONE: "not reported",
}


def draw_shape(known_shape: KnownShape, writer: TextWriter, *, now: float) -> None:
    """Draw a shape without nodes, at `now` in seconds since 1970: its labels and taints, then its zones."""
    shape, node = known_shape.shape, known_shape.shape.node
    title = f"{node.policy}, scope {node.scope}  {how_known(known_shape, now=now)}"
    writer.line("", title, indent=0, style="bold")
    writer.entry("", shape.node_class, indent=_INDENT, style="dim")
    labels = (f"{key}={'|'.join(sorted(v.known))}" for key, v in sorted(shape.labels.items()) if v.known)
    for what, words in (("labels", labels), ("taints", map(str, shape.taints))):
        if line := ", ".join(words):
            writer.entry(f"  {what} ", line, indent=9, label_style="dim", style="dim")
    draw_zones(node, writer)


def how_known(known_shape: KnownShape, *, now: float) -> str:
    """Return how a shape is known, in words; `now` is in seconds since 1970."""
    if known_shape.nodes:
        return f"{counted(known_shape.nodes)} present"
    if known_shape.seen is None:
        return "declared"
    return f"remembered, last seen {wording.ago(now - known_shape.seen)} ago"


@dataclass(frozen=True, slots=True)
class _Column:
    """A resource, and the width of its longest figures."""

    name: str
    figures: int

    def width(self, ink: int) -> int:
        """Return its width with bars of this length."""
        return max(ink + 1 + self.figures, len(self.name))


def _blocks(columns: Iterable[_Column], *, room: int) -> list[list[_Column]]:
    """Return groups of columns that fit beside each other with the shortest bars."""
    blocks: list[list[_Column]] = []
    for column in columns:
        if blocks and _fits([*blocks[-1], column], _LEAST_BAR, room=room):
            blocks[-1].append(column)
        else:
            blocks.append([column])
    return blocks


def _fits(block: Iterable[_Column], ink: int, *, room: int) -> bool:
    return sum(column.width(ink) + _GAP for column in block) <= room


def _line(label: str, cells: Iterable[tuple[str, str]], widths: Iterable[int]) -> Text:
    line = Text(label)
    for (cell, style), width in zip(cells, widths, strict=True):
        line.append(" " * _GAP)
        line.append(cell.ljust(width), style)
    line.rstrip()
    return line


def _cell(zone: Zone, name: str, *, width: int, plain: bool) -> tuple[str, str]:
    if name not in zone.allocatable:
        return "-", "dim"
    used, total = _used(zone, name), zone.allocatable[name]
    share = used / total if total else 0
    style = "red" if share >= _FULL else "yellow" if share >= _HIGH else "green"
    return f"{bar(used, total, width=width, ink=ASCII if plain else BLOCKS)} {_figures(zone, name)}", style


def _figures(zone: Zone, name: str) -> str:
    if name not in zone.allocatable:
        return "-"
    return f"{render_short(name, _used(zone, name))}/{render_short(name, zone.allocatable[name])}"


def _used(zone: Zone, name: str) -> int:
    return zone.allocatable[name] - zone.free.get(name, 0)


def bar(used: int, total: int, *, width: int, ink: tuple[str, str]) -> str:
    """Return `used` of `total` as `width` characters.

    A bar is read before any number, so it must be right at its ends: only what is empty looks empty, and only
    what is full looks full.
    """
    cells = used * width // total if total else 0
    cells = min(max(cells, 1 if used > 0 else 0), width if used >= total else width - 1)
    return ink[0] * cells + ink[1] * (width - cells)


_EMPTY: dict[str, Any] = {
    "name": "",
    "class": None,
    "label": None,
    "policy": None,
    "scope": None,
    "known": NOTHING,
    "source": None,
    "age": None,
    "lastSeen": None,
    "lacks": {},
    "cordoned": False,
    "ready": True,
    "taints": [],
    "zones": [],
}
