"""
The map without a server: one HTML file that loads nothing, and a drawing of the fleet.

Neither changes after it is written. The file allows only its own style and script, by their hashes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from numalign.map.assets import PALETTE_AND_DRAWING, SCRIPT, STATIC, STYLE
from numalign.map.links import FileLinks
from numalign.map.pages import DrawnTiles, Viewer, density, environment, joined
from numalign.map.views import ClassGroup, Fleet, FleetQuery, NodeTile, NodeView

MOST_NODES = 250
"""Most nodes with a drawing in one file: some 40 KB each."""

FILE_POLICY = (
    f"default-src 'none'; style-src {STATIC[STYLE].integrity}; script-src {STATIC[SCRIPT].integrity}; "
    "img-src data:; form-action 'none'; base-uri 'none'"
)
"""The content security policy of the file; a file cannot restrict who may frame it."""


def export(fleet: Fleet, query: FleetQuery, nodes: Sequence[NodeView]) -> Iterator[str]:
    """Return the fleet and these nodes as one file, in chunks; other nodes are not links."""
    link = FileLinks(frozenset(view.name for view in nodes))
    templates = environment(link)
    return joined(
        templates.get_template("export.html").generate(
            fleet=fleet,
            query=query,
            nodes=nodes,
            density=density(fleet),
            tile=DrawnTiles(templates, link),
            viewer=Viewer(live=False),
            here="fleet",
            watch="",
            policy=FILE_POLICY,
            style=_own(STYLE),
            script=_own(SCRIPT),
        )
    )


def fleet_svg(fleet: Fleet, query: FleetQuery) -> Iterator[str]:
    """Return the fleet as one SVG drawing, in chunks."""
    templates = environment(FileLinks(frozenset()))
    style = Markup(PALETTE_AND_DRAWING)  # noqa: S704  a file of this package
    sheet = _sheet(fleet, named=density(fleet) != "dense")
    return joined(
        templates.get_template("fleet.svg").generate(fleet=fleet, query=query, sheet=sheet, style=style)
    )


def _own(name: str) -> Markup:
    return Markup(STATIC[name].body.decode())  # noqa: S704  a file of this package


WIDTH, MARGIN = 1200, 24
"""The width of a drawing and its margin in pixels."""

HEAD, GROUP_HEAD, GROUP_GAP = 76, 44, 20
"""Pixels above all classes, above the tiles of each class, and below them."""

_NAMED, _NAMELESS = (112, 52), (40, 30)


@dataclass(frozen=True, slots=True)
class PlacedTile:
    """A node with its position in pixels; `node` is None if it publishes no topology."""

    name: str
    node: NodeTile | None
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class SheetGroup:
    """A class, None for nodes without topology, with its vertical position in pixels and its tiles."""

    group: ClassGroup | None
    y: int
    tiles: tuple[PlacedTile, ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A drawing of a fleet: its height and the size of a tile in pixels, and whether tiles have names."""

    height: int
    tile: tuple[int, int]
    named: bool
    groups: tuple[SheetGroup, ...]


def _sheet(fleet: Fleet, *, named: bool) -> Sheet:
    size = _NAMED if named else _NAMELESS
    groups, y = list[SheetGroup](), HEAD
    for group, nodes in _groups(fleet):
        placed = tuple(_placed(nodes, y + GROUP_HEAD, size))
        groups.append(SheetGroup(group, y, placed))
        y = (placed[-1].y + size[1] if placed else y) + GROUP_GAP
    return Sheet(y + MARGIN, size, named, tuple(groups))


def _groups(fleet: Fleet) -> Iterator[tuple[ClassGroup | None, list[tuple[str, NodeTile | None]]]]:
    for group in fleet.groups:
        yield group, [(tile.name, tile) for tile in group.tiles]
    if fleet.unknown:
        yield None, [(name, None) for name in fleet.unknown]


def _placed(
    nodes: Sequence[tuple[str, NodeTile | None]], y: int, size: tuple[int, int]
) -> Iterator[PlacedTile]:
    width, height = size
    across = (WIDTH - 2 * MARGIN) // width
    for at, (name, node) in enumerate(nodes):
        yield PlacedTile(name, node, MARGIN + at % across * width, y + at // across * height)
