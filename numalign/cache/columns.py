"""
The amounts of many nodes of one layout, as columns of numbers.

A node is read once, when it changes, into the same managers' states as for the rules. What a question then
needs is an operation on whole columns: a zone's free CPUs on all nodes lie side by side. Totals of sets of
zones are kept from question to question, and worked out anew only for nodes that changed.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import numpy as np

from numalign.cache.arrays import Ints, Rows
from numalign.cache.change_log import ChangeLog, TrackedArray
from numalign.cache.layout import HALF, Layout
from numalign.cache.plan import BOUNDLESS
from numalign.decision.evaluate import most_of
from numalign.kubelet import cpu_manager, memory_manager
from numalign.model.bitset import bits
from numalign.model.node import Node, Zone
from numalign.model.resources import CPU, MEMORY, MILLI, Kind, Resources, kind

_FIRST = 16


FreeOrEmpty: TypeAlias = Literal["now", "empty"]
"""Which amounts are meant: as things stand, or with nothing on the node."""


# Plain texts, for they are looked up dozens of times for each question.
class When:
    """Names of what amounts are meant."""

    NOW: Final = "now"
    EMPTY: Final = "empty"


_HALF = (Kind.CPU, Kind.DEVICE)
"""What is counted in pieces fits in half the space."""

Feature = tuple[str, str]
"""A property of nodes, and of which resource."""

TOP = "top"
"""How much one, two, ... zones have together at the most."""

MOST_ZONES_NEEDED = "most zones needed"
"""How many zones a request takes that no number of them could serve."""

TOTAL = "total"
"""How much the node as a whole has."""

RAW = "raw "
"""Before a moment: millicores, where the columns of the moment have whole CPUs."""

GROUPS, USED, GROUPED = (MEMORY, "groups"), (MEMORY, "used"), (MEMORY, "grouped")
"""As bits: the set that each zone's memory serves, the zones with memory given out, those serving others."""

Dtype: TypeAlias = type[np.int32] | type[np.int64]


_FEW = 256
"""Of fewer rows than this totals are not kept."""


class Columns:
    """Nodes of one layout, by row; rows are dense. Changed in place.

    `changes` notes every row that changed, `facts` those of which more did than what is free.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.count = 0
        self.changes = ChangeLog()
        self.facts = ChangeLog()
        self._places, features = _places(layout)
        self._table = np.zeros((features, _FIRST), dtype=np.int64)
        self._sums: dict[tuple[FreeOrEmpty, str, int], TrackedArray] = {}

    def put(self, row: int, node: Node) -> None:
        """Read a node into a row; the next free one is `count`."""
        if row == self.count:
            self.count += 1
            self._grow()
        self._table[:, row] = [*_now(self.layout, node), *_ever(self.layout, node)]
        self._note(row)

    def refresh(self, row: int, node: Node) -> bool:
        """Read anew what is free on the node in a row; False if it reports more than it may give out."""
        now = _now(self.layout, node)
        amounts = len(self.layout.names) * self.layout.count
        free = self._table[: len(now), row]
        free[:] = now
        most = self._table[len(now) : len(now) + amounts, row]
        self.changes.note(row)
        return bool((free[:amounts] <= most).all() and free.min() >= 0)

    def remove(self, row: int) -> int:
        """Take a row out; gives the number of the row that now stands in its place, the last one."""
        self.count -= 1
        if row != self.count:
            self._table[:, row] = self._table[:, self.count]
            self._note(row)
        return self.count

    def _note(self, row: int) -> None:
        """All of a row may have changed."""
        self.facts.note(row)
        self.changes.note(row)

    def _grow(self) -> None:
        features, room = self._table.shape
        if self.count > room:
            wider = np.zeros((features, room + room // 2 + 1), dtype=np.int64)
            wider[:, :room] = self._table
            self._table = wider

    def of(self, feature: Feature, rows: Rows | None = None) -> Ints:
        """The columns of a feature, for these rows or for all: (zones or 1, rows)."""
        block = self._table[self._places[feature], : self.count]
        return block if rows is None else block.take(rows, axis=1, mode="clip")

    def block(self, feature: str, names: tuple[str, ...], rows: Rows | None = None) -> Ints:
        """The columns of one feature of several resources, one below the other."""
        span = _span(self.layout, feature, names)
        if rows is None:
            return self._table[span, : self.count]
        if isinstance(span, slice):
            return self._table[span].take(rows, axis=1, mode="clip")
        return self._table[span[:, None], rows]

    def has(self, feature: Feature) -> bool:
        """Whether there are columns for it."""
        return feature in self._places

    def sums(self, when: FreeOrEmpty, name: str, width: int) -> Ints:
        """What every set of so many zones may give of a resource, by set in the layout's order."""
        if self.count < _FEW:
            return sums_of(self.layout, self.of((when, name)), width, dtype(name))
        key = (when, name, width)
        if key not in self._sums:
            order = self.layout.of_width(width)
            self._sums[key] = TrackedArray(self.changes, np.empty((len(order), 0), dtype=dtype(name)))
        return self._sums[key].current(
            self.count, lambda rows: sums_of(self.layout, self.of((when, name), rows), width, dtype(name))
        )


def dtype(name: str) -> Dtype:
    """The width of whole numbers that amounts of a resource are summed in."""
    return np.int32 if kind(name) in _HALF else np.int64


def sums_of(layout: Layout, amounts: Ints, width: int, kept_as: Dtype = np.int64) -> Ints:
    """The totals of all sets of so many zones: (zones, rows) -> (sets, rows)."""
    own: Ints = amounts.astype(kept_as, copy=False)
    low, high = layout.halves(width)
    sums: Ints = _of_every_set(own[:HALF]).take(low, axis=0)
    sums += _of_every_set(own[HALF:]).take(high, axis=0)
    return sums


def _of_every_set(amounts: Ints) -> Ints:
    """The totals of all sets of these zones, by their bits."""
    totals: Ints = np.zeros((1 << HALF, amounts.shape[1]), dtype=amounts.dtype)
    for at, zone in enumerate(amounts):
        np.add(totals[: 1 << at], zone, out=totals[1 << at : 2 << at])
    return totals


# What is read of a node.


def _sizes(layout: Layout) -> dict[Feature, int]:
    """How many columns each feature has; those of what is free come first."""
    by_zone = layout.count
    sizes: dict[Feature, int] = {(When.NOW, name): by_zone for name in layout.names}
    sizes |= {(RAW + When.NOW, CPU): by_zone, GROUPS: by_zone, USED: 1, GROUPED: 1}
    sizes |= {(When.EMPTY, name): by_zone for name in layout.names}
    sizes |= {(RAW + When.EMPTY, CPU): by_zone}
    sizes |= {(TOP, name): by_zone for name in layout.names}
    sizes |= {(MOST_ZONES_NEEDED, name): 1 for name in layout.names}
    return sizes | {(TOTAL, name): 1 for name in layout.all_names}


@lru_cache(maxsize=1024)
def _places(layout: Layout) -> tuple[Mapping[Feature, slice], int]:
    """Where each feature's columns stand, and how many there are."""
    sizes = _sizes(layout)
    ends = list(accumulate(sizes.values()))
    return {key: slice(end - sizes[key], end) for key, end in zip(sizes, ends, strict=True)}, ends[-1]


@lru_cache(maxsize=4096)
def _span(layout: Layout, feature: str, names: tuple[str, ...]) -> slice | Rows:
    """Where the columns of a feature stand, for these resources: side by side, if that is how they stand."""
    places, _ = _places(layout)
    every = [at for name in names for at in range(places[feature, name].start, places[feature, name].stop)]
    if every == list(range(every[0], every[0] + len(every))):
        return slice(every[0], every[0] + len(every))
    return np.array(every, dtype=np.intp)


def _now(layout: Layout, node: Node) -> list[int]:
    """What is free on a node, in the order of `_sizes`."""
    frees, cpus = [zone.free for zone in node.zones], cpu_manager.state(node)
    amounts: list[int] = []
    for name in layout.names:
        if name == CPU:
            amounts += cpu_manager.cpus_per_zone(cpus.topology, cpus.free) if cpus else [0] * len(frees)
        else:
            amounts += [free.get(name, 0) for free in frees]
    amounts += [free.get(CPU, 0) for free in frees]
    return amounts + _groups(node)


def _ever(layout: Layout, node: Node) -> list[int]:
    """What a node has, in the order of `_sizes`."""
    bags, hardware = [zone.allocatable for zone in node.zones], _hardware(layout, node)
    cpus: Sequence[int] = hardware.get(CPU, ())
    amounts: list[int] = []
    for name in layout.names:
        if name == CPU:
            amounts += [min(bag.get(CPU, 0) // MILLI, size) for bag, size in zip(bags, cpus, strict=True)]
        else:
            amounts += [bag.get(name, 0) for bag in bags]
    amounts += [bag.get(CPU, 0) for bag in bags]
    for sizes in hardware.values():
        amounts += accumulate(sorted(sizes, reverse=True))
    amounts += [_most_zones_needed(layout, name, sizes) for name, sizes in hardware.items()]
    totals = (most_of(node, name) for name in layout.all_names)
    return amounts + [BOUNDLESS if total is None else min(total, BOUNDLESS) for total in totals]


def _hardware(layout: Layout, node: Node) -> dict[str, Sequence[int]]:
    """By name how much each zone has of what the managers work out the fewest zones of a request by."""
    cpus = cpu_manager.state(node)
    sizes = cpus.topology.sizes if cpus else (0,) * len(node.zones)
    return {
        name: sizes if name == CPU else [_HARDWARE[kind(name)](zone).get(name, 0) for zone in node.zones]
        for name in layout.names
    }


_HARDWARE: Mapping[Kind, Callable[[Zone], Resources]] = MappingProxyType(
    {
        Kind.MEMORY: lambda zone: zone.allocatable,
        Kind.DEVICE: lambda zone: zone.capacity,
        Kind.NODE: lambda zone: zone.capacity,
    }
)


def _most_zones_needed(layout: Layout, name: str, hardware: Sequence[int]) -> int:
    hosts = sum(map(bool, hardware))
    if name == CPU:
        return max(1, hosts)
    return hosts if layout.near and kind(name) is Kind.DEVICE else layout.count


def _groups(node: Node) -> list[int]:
    """The memory manager's groups, in the order of `GROUPS`, `USED` and `GROUPED`."""
    memory = memory_manager.state(node) if any(zone.assignments for zone in node.zones) else None
    if memory is None:
        return [0] * len(node.zones) + [0, 0]
    used = bits(at for at, count in enumerate(memory.assignments) if count)
    grouped = bits(at for at, cells in enumerate(memory.cells) if cells.bit_count() > 1)
    return [*memory.cells, used, grouped]
