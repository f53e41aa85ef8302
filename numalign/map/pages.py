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
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from numalign.cache.pod_question import StatedBy
from numalign.decision import wording
from numalign.kube.exporters import TopologySource
from numalign.map import drawing
from numalign.map.links import Links, ServedLinks, node_anchor
from numalign.map.views import (
    ClassGroup,
    Condition,
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
    ZoneUse,
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
        link = ServedLinks()
        self._environment = environment(link)
        self._tiles = DrawnTiles(self._environment, link)

    def fleet(self, fleet: Fleet, query: FleetQuery, viewer: Viewer) -> Iterator[str]:
        """Return the fleet in chunks, its head first: other tasks should run between any two."""
        return self._chunks(
            "fleet.html",
            fleet=fleet,
            query=query,
            density=density(fleet),
            tile=self._tiles,
            **_frame(viewer, page="fleet", watch="*", revision=fleet.revision),
        )

    def tiles(self, fleet: Fleet, query: FleetQuery, names: Iterable[str]) -> str:
        """Return the tiles of these nodes, as far as the query shows them, and their class summaries."""
        return self._page(
            "fleet_tiles.html",
            fleet=fleet,
            query=query,
            density=density(fleet),
            names=frozenset(names),
            tile=self._tiles,
        )

    def node(self, view: NodeView, viewer: Viewer) -> str:
        """Return a node as nested boxes, with the holders of its resources."""
        frame = _frame(viewer, page="node", watch=view.name, revision=view.revision)
        return self._page("node.html", view=view, **frame)

    def pod(self, view: PodView, viewer: Viewer) -> str:
        """Return a pod: its node, its requests, and what it holds."""
        frame = _frame(viewer, page="pod", watch=view.node or view.pinned, revision=view.revision)
        return self._page("pod.html", view=view, **frame)

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
        frame = _frame(viewer, page="what-if")
        return self._chunks("what_if.html", form=form, result=result, tiles=tiles, **frame)

    def login(self, message: str = "", *, next_path: str = "/") -> str:
        """Return the form for a token; `message` explains why the last one was not accepted."""
        frame = _frame(Viewer(live=False), page="login")
        return self._page("login.html", message=message, next_path=next_path, **frame)

    def error(self, status: HTTPStatus, mistakes: Sequence[str], viewer: Viewer) -> str:
        """Return an error page with all mistakes."""
        frame = _frame(viewer, page="error")
        return self._page("error.html", status=status, mistakes=mistakes, **frame)

    def _page(self, template: str, **values: Any) -> str:  # noqa: ANN401  what each template names
        return self._environment.get_template(template).render(values)

    def _chunks(self, template: str, **values: Any) -> Iterator[str]:  # noqa: ANN401  what each template names
        return joined(self._environment.get_template(template).generate(values))


_Drawn = tuple[tuple[ZoneUse, ...], frozenset[Condition], str]
"""The zones and conditions of a rendered tile, and its markup."""


class DrawnTiles:
    """Renders the tile of a node unless it is cached: between two requests for a fleet few nodes change.

    Safe for several threads.
    """

    def __init__(self, templates: Environment, link: Links) -> None:
        self._macro: Callable[[NodeTile, str, Links, str], str]
        self._macro = vars(templates.get_template("tiles.html").module)["any_tile"]
        self._link = link
        self._drawn: dict[tuple[str, str, str], _Drawn] = {}

    def __call__(self, node: NodeTile, resource: str, room: str) -> str:
        """Return the markup of a tile by a resource; `room` is as in `density`."""
        key = node.name, resource, room
        drawn = self._drawn.get(key)
        if drawn and drawn[0] == node.zones and drawn[1] == node.conditions:
            return drawn[2]
        if len(self._drawn) >= MOST_DRAWN:
            self._drawn.clear()
        text = self._macro(node, resource, self._link, room)
        self._drawn[key] = node.zones, node.conditions, text
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
    made.globals.update(link=link, **_GLOBALS)
    made.filters.update(_FILTERS)
    return made


def _frame(viewer: Viewer, *, page: str, watch: str = "", revision: int = 0) -> Mapping[str, Any]:
    return {"viewer": viewer, "here": page, "watch": watch, "revision": revision}


def density(fleet: Fleet) -> str:
    """Return the density of the tiles: `roomy`, `dense`, or empty in between."""
    if fleet.count_shown <= ROOMY:
        return "roomy"
    return "dense" if fleet.count_shown > DENSE else ""


def _amount(name: str, amount: int) -> str:
    """Return an amount for people, as in `1,024`, `1500m` or `12.5Ti`."""
    text = render_short(name, amount)
    return f"{int(text):,}" if text.isdecimal() else text


def _printable(text: str) -> str:
    """Return a text for XML, which does not allow control characters."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _iso(seconds: float) -> str:
    return _moment(seconds).isoformat(timespec="seconds")


def _clock(seconds: float) -> str:
    return f"{_moment(seconds):%Y-%m-%d %H:%M:%S} UTC"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def _conditions_in(group: ClassGroup) -> list[tuple[str, int]]:
    """Return conditions in words, and how many nodes of a group are in each."""
    counts = ((text, _having(group, condition)) for condition, (_, text) in drawing.MARKS.items())
    return [(text, number) for text, number in counts if number]


def _having(group: ClassGroup, condition: Condition) -> int:
    return sum(condition in tile.conditions for tile in group.tiles)


def _total(fleet: Fleet, resource: str) -> tuple[int, int]:
    """Return the allocatable and the free amount of a resource on the shown nodes."""
    return (
        sum(group.allocatable.get(resource, 0) for group in fleet.groups),
        sum(group.free.get(resource, 0) for group in fleet.groups),
    )


def _amounts(bag: Mapping[str, int]) -> str:
    """Return amounts with their names, as in `8 cpu, 16Gi memory`."""
    return ", ".join(f"{_amount(name, amount)} {name}" for name, amount in bag.items()) or "nothing"


def _resources_of(view: NodeView) -> list[str]:
    """Return the allocatable resources of all zones of a node, by name."""
    zones = (zone.use for socket in view.sockets for zone in socket.zones)
    return sorted({name for zone in zones for name in zone.allocatable})


def _cpus_in(zone: ZoneBox, state: str) -> CpuSet:
    """Return the CPUs of a zone that are in a state."""
    cpus = (cpu for cache in zone.caches for core in cache.cores for cpu in core.cpus)
    return sum(1 << cpu.id for cpu in cpus if cpu.state == state)


def _source_text(tile: NodeTile, now: float) -> str:
    age = tile.age(now)
    return _SOURCE_TEXTS[tile.source] + ("" if age is None else f" {wording.ago(age)} ago")


_SOURCE_TEXTS = {
    TopologySource.AGENT: "published by its agent",
    TopologySource.EXPORTER: "published by an exporter",
    TopologySource.NONE: "not published",
}


def _by_class(nodes: Iterable[WhatIfNode]) -> list[tuple[str, list[WhatIfNode]]]:
    """Return nodes by class, in order of first appearance; the order within a class stays."""
    groups = defaultdict[str, list[WhatIfNode]](list)
    for node in nodes:
        groups[node.node_class].append(node)
    return [*groups.items()]


def _answers_in(nodes: Iterable[WhatIfNode]) -> str:
    """Return the number of nodes by answer, as in `fits: 3, not now: 1`."""
    counts = Counter(node.answer for node in nodes)
    return ", ".join(
        f"{text}: {counts[answer]:,}" for answer, (text, _) in _ANSWERS.items() if counts[answer]
    )


def _doubts_in(nodes: Iterable[WhatIfNode]) -> list[tuple[str, int]]:
    """Return the doubts about answers with the number of nodes, the most frequent first."""
    return Counter(doubt for node in nodes for doubt in node.doubts).most_common()


_ANSWERS: Mapping[WhatIfAnswer, tuple[str, str]] = MappingProxyType(
    {
        WhatIfAnswer.FITS: ("fits", "good"),
        WhatIfAnswer.NOT_NOW: ("not now", "warn"),
        WhatIfAnswer.NOT_ANSWERED: ("no answer", ""),
        WhatIfAnswer.NEVER: ("never", "bad"),
    }
)
"""Each answer in words, and the CSS class of its colour."""

_GLOBALS: Mapping[str, Any] = MappingProxyType(
    {
        "levels": drawing.LEVELS,
        "marks": drawing.MARKS,
        "level": drawing.level,
        "length": drawing.length,
        "cores": drawing.cores,
        "resource_bars": drawing.resource_bars,
        "device_boxes": drawing.device_boxes,
        "pieces": drawing.pieces,
        "colour": drawing.colour,
        "pattern": drawing.pattern,
        "answers": _ANSWERS,
        "cpu_words": {
            CpuUse.FREE: "free",
            CpuUse.RESERVED: "reserved for the system",
            CpuUse.TAKEN: "taken, holder unknown",
            CpuUse.UNKNOWN: "unknown",
        },
        "piece_words": {
            CpuUse.FREE: "free",
            CpuUse.HELD: "held",
            CpuUse.TAKEN: "taken, holder unknown",
            CpuUse.UNKNOWN: "unhealthy",
        },
        "said_by": {StatedBy.POD: "the pod", StatedBy.NAMESPACE: "its namespace"},
        "source_text": _source_text,
    }
)

_FILTERS: Mapping[str, Any] = MappingProxyType(
    {
        "bars": drawing.bars,
        "tracks": drawing.tracks,
        "printable": _printable,
        "readable": readable_zone,
        "anchor": node_anchor,
        "letters": drawing.letters,
        "words": drawing.words,
        "amount": _amount,
        "zone_rows": drawing.zone_rows,
        "zone_words": drawing.zone_words,
        "amounts": _amounts,
        "resources_of": _resources_of,
        "cpus_in": _cpus_in,
        "by_class": _by_class,
        "answers_in": _answers_in,
        "doubts_in": _doubts_in,
        "cpu_list": render_list,
        "zone_list": lambda ids: render_list(bits(ids)),
        "ago": wording.ago,
        "iso": _iso,
        "clock": _clock,
        "count": _count,
        "conditions_in": _conditions_in,
        "total": _total,
    }
)
