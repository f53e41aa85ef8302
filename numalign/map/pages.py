"""
The pages of the map: renders views as HTML.

Texts of tenants are inserted only by templates, which escape all of them; this module concatenates no markup.
A page has no inline style or script, so its content security policy allows neither.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from http import HTTPStatus

from jinja2 import Environment, PackageLoader, StrictUndefined

from numalign.cache.pod_question import StatedBy
from numalign.decision import wording
from numalign.kube.exporters import TopologySource
from numalign.map import drawing
from numalign.map.links import Links, node_anchor
from numalign.map.views import (
    ClassGroup,
    CpuUse,
    Fleet,
    FleetQuery,
    NodeTile,
    NodeView,
    PodView,
    WhatIfAnswer,
    WhatIfNode,
    WhatIfResult,
    ZoneBox,
)
from numalign.model.bitset import bits
from numalign.model.machine import CpuSet, render_list
from numalign.model.resources import readable_zone, render_short

CHUNK = 2**14
"""Characters to render before they are sent: some milliseconds of work."""

MOST_DRAWN = 20_000
"""Most rendered tiles to cache: some 300 bytes each, for 5,000 nodes by a few resources."""

ROOMY, DENSE = 60, 400
"""Up to the first number of nodes, tiles have figures; above the second, names appear on hover or focus."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """A viewer: the `name` of the user in the cluster, empty without sign-in.

    `live` is whether pages follow changes, `can_sign_out` whether this browser signed in.
    """

    name: str = ""
    live: bool = True
    can_sign_out: bool = False


@dataclass(frozen=True, slots=True)
class WhatIfForm:
    """The input of the what-if form, unchanged, and its mistakes."""

    manifest: str = ""
    replicas: str = "1"
    mistakes: tuple[str, ...] = ()


class Renderer:
    """Renders the pages of a server."""

    def __init__(self) -> None:
        link = Links()
        self._environment = environment(link)
        self._tiles = DrawnTiles(self._environment, link)

    def fleet(self, fleet: Fleet, query: FleetQuery, viewer: Viewer) -> Iterator[str]:
        """Return the fleet in chunks, its head first: other tasks should run between any two."""
        shown = {"fleet": fleet, "query": query, "density": density(fleet), "tile": self._tiles}
        return joined(self._parts("fleet", viewer, "*", fleet.revision, **shown))

    def tiles(self, fleet: Fleet, query: FleetQuery, names: Iterable[str]) -> str:
        """Return the tiles of these nodes, as far as the query shows them, and their class summaries."""
        shown = {"fleet": fleet, "query": query, "density": density(fleet), "tile": self._tiles}
        return self._environment.get_template("fleet_tiles.html").render(shown, names=frozenset(names))

    def node(self, view: NodeView, viewer: Viewer) -> str:
        """Return a node as nested boxes, with the holders of its resources."""
        return "".join(self._parts("node", viewer, view.name, view.revision, view=view))

    def pod(self, view: PodView, viewer: Viewer) -> str:
        """Return a pod: its node, its requests, and what it holds."""
        return "".join(self._parts("pod", viewer, view.node or view.pod.pinned, view.revision, view=view))

    def what_if(
        self,
        form: WhatIfForm,
        result: WhatIfResult | None,
        tiles: Mapping[str, NodeTile],
        viewer: Viewer,
    ) -> Iterator[str]:
        """Return the question and, if there is a result, the answer of each node, in chunks.

        `tiles` are those of the nodes that answer, by name: their zones are drawn.
        """
        return joined(self._parts("what-if", viewer, form=form, result=result, tiles=tiles))

    def login(self, message: str = "", *, next_path: str = "/") -> str:
        """Return the form for a token; `message` explains why the last one was not accepted."""
        return "".join(self._parts("login", Viewer(live=False), message=message, next_path=next_path))

    def error(self, status: HTTPStatus, mistakes: Sequence[str], viewer: Viewer) -> str:
        """Return an error page with all mistakes."""
        return "".join(self._parts("error", viewer, status=status, mistakes=mistakes))

    def _parts(
        self, page: str, viewer: Viewer, watch: str = "", revision: int = 0, **values: object
    ) -> Iterator[str]:
        """Return a page in its frame; `watch` is the node whose changes matter, as in the template."""
        template = self._environment.get_template(f"{page.replace('-', '_')}.html")
        return template.generate(viewer=viewer, here=page, watch=watch, revision=revision, **values)


class DrawnTiles:
    """Renders the tile of a node unless it is cached: between two requests for a fleet few nodes change.

    Safe for several threads.
    """

    def __init__(self, templates: Environment, link: Links) -> None:
        self._macro: Callable[[NodeTile, str, Links, str], str]
        self._macro = vars(templates.get_template("tiles.html").module)["any_tile"]
        self._link = link
        self._drawn: dict[tuple[str, str, str], tuple[object, str]] = {}

    def __call__(self, node: NodeTile, resource: str, room: str) -> str:
        """Return the markup of a tile by a resource; `room` is as in `density`."""
        key, shown = (node.name, resource, room), (node.zones, node.conditions)
        drawn = self._drawn.get(key)
        if drawn and drawn[0] == shown:
            return drawn[1]
        if len(self._drawn) >= MOST_DRAWN:
            self._drawn.clear()
        text = self._macro(node, resource, self._link, room)
        self._drawn[key] = shown, text
        return text


def joined(parts: Iterable[str]) -> Iterator[str]:
    """Yield a text in chunks of about `CHUNK` characters; the first one is shorter, for an early head."""
    chunk, size, enough = list[str](), 0, CHUNK // 8
    for part in parts:
        chunk.append(part)
        size += len(part)
        if size >= enough:
            yield "".join(chunk)
            chunk, size, enough = [], 0, CHUNK
    yield "".join(chunk)


@lru_cache(maxsize=4)
def environment(link: Links) -> Environment:
    """Return the templates with these links, which are compiled once for the same ones.

    All values are escaped, and undefined ones are errors.
    """
    made = Environment(
        loader=PackageLoader("numalign.map"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(_VALUES, link=link, **{each.__name__: each for each in _FUNCTIONS})
    made.filters.update({each.__name__: each for each in _FILTERS})
    return made


def density(fleet: Fleet) -> str:
    """Return the density of the tiles: `roomy`, `dense`, or empty in between."""
    if fleet.count_shown <= ROOMY:
        return "roomy"
    return "dense" if fleet.count_shown > DENSE else ""


# What templates call, by its name.


def amount(name: str, number: int) -> str:
    """Return an amount for people, as in `1,024`, `1500m` or `12.5Ti`."""
    text = render_short(name, number)
    return f"{int(text):,}" if text.isdecimal() else text


def amounts(bag: Mapping[str, int]) -> str:
    """Return amounts with their names, as in `8 cpu, 16Gi memory`."""
    return ", ".join(f"{amount(name, number)} {name}" for name, number in bag.items()) or "nothing"


def printable(text: str) -> str:
    """Return a text for XML, which does not allow control characters."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def iso(seconds: float) -> str:
    """Return a time in the format of ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def clock(seconds: float) -> str:
    """Return a time for people."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def count(number: int, word: str) -> str:
    """Return a number of things, as in `1 node` or `2 nodes`."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def conditions_in(group: ClassGroup) -> list[tuple[str, int]]:
    """Return conditions in words, and how many nodes of a group are in each."""
    counts = Counter(condition for tile in group.tiles for condition in tile.conditions)
    marks = drawing.MARKS.items()
    return [(text, counts[condition]) for condition, (_, text) in marks if counts[condition]]


def total(fleet: Fleet, resource: str) -> tuple[int, int]:
    """Return the allocatable and the free amount of a resource on the shown nodes."""
    return (
        sum(group.allocatable.get(resource, 0) for group in fleet.groups),
        sum(group.free.get(resource, 0) for group in fleet.groups),
    )


def resources_of(view: NodeView) -> list[str]:
    """Return the allocatable resources of all zones of a node, by name."""
    zones = (zone.use for socket in view.sockets for zone in socket.zones)
    return sorted({name for zone in zones for name in zone.allocatable})


def cpus_in(zone: ZoneBox, state: str) -> CpuSet:
    """Return the CPUs of a zone that are in a state."""
    cpus = (cpu for cache in zone.caches for core in cache.cores for cpu in core.cpus)
    return sum(1 << cpu.id for cpu in cpus if cpu.state == state)


def source_text(tile: NodeTile, now: float) -> str:
    """Return what publishes the topology of a node, and when it did so last."""
    texts = {
        TopologySource.AGENT: "published by its agent",
        TopologySource.EXPORTER: "published by an exporter",
        TopologySource.NONE: "not published",
    }
    age = tile.age(now)
    return texts[tile.source] + ("" if age is None else f" {wording.ago(age)} ago")


def by_class(nodes: Iterable[WhatIfNode]) -> list[tuple[str, list[WhatIfNode]]]:
    """Return nodes by class, in order of first appearance; the order within a class stays."""
    groups = defaultdict[str, list[WhatIfNode]](list)
    for node in nodes:
        groups[node.node_class].append(node)
    return [*groups.items()]


def answers_in(nodes: Iterable[WhatIfNode]) -> str:
    """Return the number of nodes by answer, as in `fits: 3, not now: 1`."""
    counts = Counter(node.answer for node in nodes)
    texts = ((text, counts[answer]) for answer, (text, _) in _ANSWERS.items())
    return ", ".join(f"{text}: {number:,}" for text, number in texts if number)


def doubts_in(nodes: Iterable[WhatIfNode]) -> list[tuple[str, int]]:
    """Return the doubts about answers with the number of nodes, the most frequent first."""
    return Counter(doubt for node in nodes for doubt in node.doubts).most_common()


_ANSWERS: Mapping[WhatIfAnswer, tuple[str, str]] = {
    WhatIfAnswer.FITS: ("fits", "good"),
    WhatIfAnswer.NOT_NOW: ("not now", "warn"),
    WhatIfAnswer.NOT_ANSWERED: ("no answer", ""),
    WhatIfAnswer.NEVER: ("never", "bad"),
}
"""Each answer in words, and the CSS class of its colour."""

_FREE_OR_TAKEN = {CpuUse.FREE: "free", CpuUse.TAKEN: "taken, holder unknown"}
_VALUES: Mapping[str, object] = {
    "levels": drawing.LEVELS,
    "marks": drawing.MARKS,
    "answers": _ANSWERS,
    "cpu_words": {
        **_FREE_OR_TAKEN,
        CpuUse.RESERVED: "reserved for the system",
        CpuUse.UNKNOWN: "unknown",
    },
    "piece_words": {**_FREE_OR_TAKEN, CpuUse.HELD: "held", CpuUse.UNKNOWN: "unhealthy"},
    "said_by": {StatedBy.POD: "the pod", StatedBy.NAMESPACE: "its namespace"},
}
_FUNCTIONS: Sequence[Callable[..., object]] = (
    *(drawing.level, drawing.length, drawing.cores, drawing.resource_bars, drawing.device_boxes),
    *(drawing.pieces, drawing.colour, drawing.pattern, source_text),
)
_FILTERS: Sequence[Callable[..., object]] = (
    *(drawing.bars, drawing.tracks, drawing.letters, drawing.words, drawing.zone_rows, drawing.zone_words),
    *(printable, amount, amounts, iso, clock, count, wording.ago, node_anchor, readable_zone),
    *(bits, render_list, resources_of, cpus_in, conditions_in, total, by_class, answers_in, doubts_in),
)
