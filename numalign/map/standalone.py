"""
The map without a server: one HTML file that loads nothing, and a drawing of the fleet.

Neither changes after it is written. The file allows only its own style and script, by their hashes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from numalign.map.links import PALETTE_AND_DRAWING, SCRIPT, STATIC, STYLE, Links
from numalign.map.pages import DrawnTiles, density, environment, joined
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
    link = Links(in_file=frozenset(view.name for view in nodes))
    templates = environment(link)
    # Both are files of this package.
    style, script = (Markup(STATIC[name].body.decode()) for name in (STYLE, SCRIPT))  # noqa: S704
    tile, own = DrawnTiles(templates, link), {"policy": FILE_POLICY, "style": style, "script": script}
    shown = {"fleet": fleet, "query": query, "nodes": nodes, "density": density(fleet), "tile": tile}
    return joined(templates.get_template("export.html").generate(shown, **own))


WIDTH, MARGIN = 1200, 24
"""The width of a drawing and its margin in pixels."""

HEAD, GROUP_HEAD, GROUP_GAP = 76, 44, 20
"""Pixels above all classes, above the tiles of each class, and below them."""


@dataclass(frozen=True, slots=True)
class PlacedTile:
    """A node with its position in pixels; `node` is None if it publishes no topology."""

    name: str
    node: NodeTile | None
    x: int
    y: int


def fleet_svg(fleet: Fleet, query: FleetQuery) -> Iterator[str]:
    """Return the fleet as one SVG drawing, in chunks."""
    templates, named = environment(Links(in_file=frozenset())), density(fleet) != "dense"
    size = width, height = (112, 52) if named else (40, 30)
    across = (WIDTH - 2 * MARGIN) // width
    classes: list[tuple[ClassGroup | None, list[tuple[str, NodeTile | None]]]]
    classes = [(group, [(tile.name, tile) for tile in group.tiles]) for group in fleet.groups]
    if fleet.unknown:
        classes.append((None, [(name, None) for name in fleet.unknown]))
    groups, y = list[tuple[ClassGroup | None, int, tuple[PlacedTile, ...]]](), HEAD
    for group, nodes in classes:
        top = y + GROUP_HEAD
        placed = tuple(
            PlacedTile(name, node, MARGIN + at % across * width, top + at // across * height)
            for at, (name, node) in enumerate(nodes)
        )
        groups.append((group, y, placed))
        y = (placed[-1].y + height if placed else y) + GROUP_GAP
    style = Markup(PALETTE_AND_DRAWING)  # noqa: S704  a file of this package
    drawing = {"height": y + MARGIN, "size": size, "named": named, "groups": groups, "style": style}
    return joined(templates.get_template("fleet.svg").generate(drawing, fleet=fleet, query=query))
