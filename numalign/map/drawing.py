"""
The values of drawings: lengths, levels, letters and positions, computed here and rendered by templates.

This module creates no markup: names and texts of tenants reach a page only through templates, which escape
them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import sqrt
from operator import itemgetter
from types import MappingProxyType

from numalign.map.views import (
    CacheBox,
    Condition,
    CpuBox,
    CpuUse,
    DeviceBox,
    HeldInZones,
    NodeTile,
    PodOnNode,
    ZoneBox,
    ZoneUse,
)
from numalign.model.resources import Kind, kind, render_short

MARKS: Mapping[Condition, tuple[str, str]] = MappingProxyType(
    {
        Condition.MISALIGNED: ("M", "misaligned"),
        Condition.STALE: ("S", "stale"),
        Condition.UNKNOWN: ("?", "unknown"),
        Condition.CORDONED: ("C", "cordoned"),
        Condition.NOT_READY: ("N", "not ready"),
        Condition.LACKING: ("L", "lacking devices"),
    }
)
"""The letter and the words of each condition."""

LEVELS = tuple(enumerate(("all", "over 75%", "over 50%", "over 25%", "less", "nothing")))
"""The free share of a zone in words, by the number of its colour."""

BAR_WIDTH, BAR_HEIGHT = 96, 24
"""Width and height in pixels of all bars of a tile together."""

COLOURS, PATTERNS = 8, 5
"""The numbers of colours and patterns that distinguish pods; coprime, so that 40 pods get different pairs."""

_GAP, _THICKEST = 0.25, 9.0
"""The share of a row that is left between the bars of a tile, and the most pixels of a bar."""

_QUARTERS = 4


def level(allocatable: int, free: int) -> int:
    """Return the number of the colour for a free amount; see `LEVELS`."""
    if free >= allocatable:
        return 0
    return _QUARTERS - min(_QUARTERS * free // allocatable, _QUARTERS - 1) if free > 0 else _QUARTERS + 1


def length(part: int, whole: int, width: int) -> int:
    """Return the length of a part in `width`: only nothing looks empty, and only the whole looks full."""
    if part <= 0 or whole <= 0:
        return 0
    return width if part >= whole else min(max(part * width // whole, 1), width - 1)


@dataclass(frozen=True, slots=True)
class Bars:
    """The zones of a tile as strokes: a path for each level, and their thickness in pixels.

    `lacking` is the path of zones that do not have the resource.
    """

    paths: tuple[tuple[int, str], ...]
    lacking: str
    thickness: float


def bars(zones: Sequence[ZoneUse], resource: str) -> Bars:
    """Return a bar for each zone, from top to bottom: its length is the amount that is not free."""
    pitch = BAR_HEIGHT / max(len(zones), 1)
    strokes, lacking = list[tuple[int, str]](), []
    for at, zone in enumerate(zones):
        middle = f"{(at + 0.5) * pitch:.4g}"
        allocatable, free = zone.allocatable.get(resource, 0), zone.free.get(resource, 0)
        if not allocatable:
            lacking.append(f"M0 {middle}h{BAR_WIDTH}")
        elif long := length(allocatable - free, allocatable, BAR_WIDTH):
            strokes.append((level(allocatable, free), f"M0 {middle}h{long}"))
    by_level = groupby(sorted(strokes, key=itemgetter(0)), key=itemgetter(0))
    paths = tuple((number, "".join(d for _, d in same)) for number, same in by_level)
    return Bars(paths, "".join(lacking), min(pitch * (1 - _GAP), _THICKEST))


def tracks(zones: Sequence[ZoneUse]) -> str:
    """Return the path of the bars at full length."""
    pitch = BAR_HEIGHT / max(len(zones), 1)
    return "".join(f"M0 {(at + 0.5) * pitch:.4g}h{BAR_WIDTH}" for at in range(len(zones)))


ROOMY_WIDTH, ROOMY_ROW = 176, 18
"""Pixels of a tile with figures: its width, and the height of each zone."""

_ID_WIDTH, _FIGURE_WIDTH = 18, 54


@dataclass(frozen=True, slots=True)
class ZoneRow:
    """A zone of a tile with figures: its bar from `x`, in pixels, and what is free.

    `free` is empty where the zone does not have the resource.
    """

    id: int
    y: int
    x: int
    track: int
    length: int
    level: int
    free: str


def zone_rows(zones: Sequence[ZoneUse], resource: str) -> tuple[ZoneRow, ...]:
    """Return a row for each zone, from top to bottom."""
    track = ROOMY_WIDTH - _ID_WIDTH - _FIGURE_WIDTH
    rows = list[ZoneRow]()
    for at, zone in enumerate(zones):
        allocatable, free = zone.allocatable.get(resource, 0), max(zone.free.get(resource, 0), 0)
        long = length(allocatable - free, allocatable, track)
        text = render_short(resource, free) if allocatable else ""
        rows.append(ZoneRow(zone.id, at * ROOMY_ROW, _ID_WIDTH, track, long, level(allocatable, free), text))
    return tuple(rows)


def zone_words(zones: Iterable[ZoneUse], resource: str) -> str:
    """Return the free amount of a resource in each zone, as in `zone 0: 30 of 62, zone 1: 46 of 62`."""
    return ", ".join(
        f"zone {zone.id}: {render_short(resource, max(zone.free.get(resource, 0), 0))} of "
        f"{render_short(resource, zone.allocatable.get(resource, 0))}"
        for zone in zones
    )


def letters(tile: NodeTile) -> str:
    """Return the letters of a tile's conditions."""
    return "".join(letter for condition, (letter, _) in MARKS.items() if condition in tile.conditions)


def words(conditions: Iterable[Condition]) -> str:
    """Return conditions in words, as in `misaligned, stale`."""
    present = frozenset(conditions)
    return ", ".join(text for condition, (_, text) in MARKS.items() if condition in present)


def colour(pod: int) -> int:
    """Return the number of a pod's colour, from 1; `pod` is its position."""
    return pod % COLOURS + 1


def pattern(pod: int) -> int:
    """Return the number of a pod's pattern, from 1; `pod` is its position."""
    return pod % PATTERNS + 1


CPU_WIDTH, CPU_HEIGHT = 26, 28
CORE_PAD, CORE_GAP = 3, 4
CACHE_PAD, CACHE_LABEL = 6, 16
_TALLER = 2
"""How many times more rows of cores than columns to draw: caches are drawn side by side."""
_MOST_ACROSS = 8


@dataclass(frozen=True, slots=True)
class CpuCell:
    """A CPU with its position in pixels."""

    cpu: CpuBox
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class CoreFrame:
    """A core with its position and size in pixels, and its CPUs."""

    x: int
    y: int
    width: int
    height: int
    cpus: tuple[CpuCell, ...]


@dataclass(frozen=True, slots=True)
class CacheDrawing:
    """The cores that share a cache, and the size of the drawing in pixels."""

    id: int
    width: int
    height: int
    cores: tuple[CoreFrame, ...]


def cores(cache: CacheBox) -> CacheDrawing:
    """Return the cores of a cache, arranged in rows."""
    threads = max((len(core.cpus) for core in cache.cores), default=1)
    width, height = threads * CPU_WIDTH + 2 * CORE_PAD, CPU_HEIGHT + 2 * CORE_PAD
    across = min(max(round(sqrt(len(cache.cores) / _TALLER)), 1), _MOST_ACROSS)
    down = -(-len(cache.cores) // across)
    frames = list[CoreFrame]()
    for at, core in enumerate(cache.cores):
        x, y = CACHE_PAD + at % across * (width + CORE_GAP), CACHE_LABEL + at // across * (height + CORE_GAP)
        left = range(x + CORE_PAD, x + CORE_PAD + len(core.cpus) * CPU_WIDTH, CPU_WIDTH)
        cells = tuple(CpuCell(cpu, at_x, y + CORE_PAD) for cpu, at_x in zip(core.cpus, left, strict=True))
        frames.append(CoreFrame(x, y, len(core.cpus) * CPU_WIDTH + 2 * CORE_PAD, height, cells))
    return CacheDrawing(
        cache.id,
        across * (width + CORE_GAP) - CORE_GAP + 2 * CACHE_PAD,
        down * (height + CORE_GAP) - CORE_GAP + CACHE_LABEL + CACHE_PAD,
        tuple(frames),
    )


SHARE_WIDTH = 240
"""Pixels of the bar of one resource of a zone."""


@dataclass(frozen=True, slots=True)
class Share:
    """A holder's share of a zone's resource: `pod` is the pod's position, None if the holder is not known."""

    pod: int | None
    amount: int
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class ResourceBar:
    """One resource of a zone: its holders, and what was predicted; `allocatable` is the whole bar."""

    resource: str
    allocatable: int
    free: int
    held: tuple[Share, ...]
    predicted: tuple[Share, ...]

    @property
    def mine(self) -> int:
        """The amount that known pods hold; on the page of one pod, that pod."""
        return sum(share.amount for share in self.held if share.pod is not None)

    @property
    def others(self) -> int:
        """The amount that unknown holders have."""
        return sum(share.amount for share in self.held if share.pod is None)


def resource_bars(zone: ZoneUse, pods: Sequence[PodOnNode]) -> tuple[ResourceBar, ...]:
    """Return each allocatable resource of a zone, and which of the node's pods hold it."""
    held = [_alone_in(zone, pod.held) for pod in pods]
    predicted = [_alone_in(zone, pod.predicted or ()) for pod in pods]
    bars = list[ResourceBar]()
    for name, most in zone.allocatable.items():
        if most:
            free, held_now = zone.free.get(name, 0), [amounts.get(name, 0) for amounts in held]
            foreseen = [amounts.get(name, 0) for amounts in predicted]
            shares = _shares(held_now, most - free, most), _shares(foreseen, 0, most)
            bars.append(ResourceBar(name, most, free, *shares))
    return tuple(bars)


def _alone_in(zone: ZoneUse, held: Iterable[HeldInZones]) -> Mapping[str, int]:
    """Return what is held in this zone alone: how amounts in several zones are divided is not known."""
    return next((each.amounts for each in held if each.zones == (zone.name,)), {})


def _shares(amounts: Sequence[int], used: int, most: int) -> tuple[Share, ...]:
    """Return the shares from the start of the bar; the rest of what is used has no known holder."""
    parts = [(pod, amount) for pod, amount in enumerate(amounts) if amount > 0]
    unattributed = used - sum(amount for _, amount in parts)
    shares, before = list[Share](), 0
    for pod, amount in [*parts, *([(None, unattributed)] if unattributed > 0 else [])]:
        x, end = (min(length(at, most, SHARE_WIDTH), SHARE_WIDTH) for at in (before, before + amount))
        shares.append(Share(pod, amount, x, max(end - x, 1)))
        before += amount
    return tuple(shares)


MOST_PIECES = 32
"""Most devices to draw one by one; for more, a bar shows the number."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A device: held by the pod at a position, taken, free, or unhealthy."""

    state: CpuUse
    pod: int | None = None


def pieces(box: DeviceBox, zone: ZoneUse | None, pods: Sequence[PodOnNode]) -> tuple[Piece, ...]:
    """Return the devices of a box one by one, not by id: held, taken, free, then unhealthy."""
    names = (zone.name,) if zone else ()
    holders = [
        Piece(CpuUse.HELD, at)
        for at, pod in enumerate(pods)
        for each in pod.held
        if each.zones == names
        for _ in range(min(each.amounts.get(box.resource, 0), MOST_PIECES))
    ]
    free = box.free if box.free is not None else zone.free.get(box.resource, 0) if zone else 0
    taken = max(box.healthy - free - len(holders), 0)
    unhealthy = max(box.total - box.healthy, 0)
    return (
        *holders[: max(box.healthy, 0)],
        *(Piece(CpuUse.TAKEN),) * taken,
        *(Piece(CpuUse.FREE),) * max(min(free, box.healthy - len(holders)), 0),
        *(Piece(CpuUse.UNKNOWN),) * unhealthy,
    )


def device_boxes(zone: ZoneBox) -> tuple[DeviceBox, ...]:
    """Return the devices of a zone; if none are known, the allocatable amount of each device resource."""
    if zone.devices:
        return zone.devices
    use = zone.use
    return tuple(
        DeviceBox(name, (use.id,), most, most, use.free.get(name, 0))
        for name, most in use.allocatable.items()
        if most and kind(name) is Kind.DEVICE
    )
