"""
The amounts of many nodes with equally many zones, as columns of numbers.

A node is read once, when it changes, into the same managers' states as for the rules. A question then needs
only operations on whole columns: a zone's free CPUs on all nodes are adjacent. All other differences between
nodes, policy, options or resources, are in the number of their layout.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import numpy as np

from numalign.cache import zone_sets
from numalign.cache.arrays import Ints, Rows
from numalign.cache.change_log import ChangeLog, TrackedArray
from numalign.cache.layout import COUNTED_THREADS, Layout
from numalign.decision.evaluate import most_of
from numalign.kubelet import cpu_manager, memory_manager
from numalign.kubelet.cpu_manager import CpuState
from numalign.model.bitset import bits
from numalign.model.node import Node, Zone
from numalign.model.resources import CPU, NODE_LEVEL, Kind, Resources, kind

FreeOrEmpty: TypeAlias = Literal["now", "empty"]
"""Which amounts: at present, or with nothing on the node."""


# Plain texts, because they are looked up dozens of times for each question.
class When:
    """The names of the two states of amounts."""

    NOW: Final = "now"
    EMPTY: Final = "empty"


BOUNDLESS = 2**62
"""More than any node has; amounts that are not reported count as this much."""

MOST_RESOURCES = 64
"""The limit of resources with columns in a table; nodes with others are in another table."""

TOP: Final = "top"
"""The most that one, two, ... zones have together."""

HOSTS: Final = "hosts"
"""As bits: the zones that have any of it by hardware, whatever its state."""

TOTAL: Final = "total"
"""How much the node as a whole has."""

RAW: Final = "raw"
"""Millicores of each zone, where the columns of CPUs have whole ones."""

CORES: Final = "cores"
"""Whole free cores of each zone, if cores have two threads; no columns if no node has such cores."""

SPLIT: Final = "split"
"""Free CPUs of each zone whose core has a reserved thread; columns as for `CORES`."""

GROUPS: Final = "groups"
USED: Final = "used"
GROUPED: Final = "grouped"
"""As bits: the set that each zone's memory serves, the zones with allocated memory, and grouped zones."""

SIZES: Final = "sizes"
"""All CPUs of each zone, reserved ones included."""

EVER: Final = "ever"
"""For what a node has, whatever is allocated."""

_FIRST = 16

Dtype: TypeAlias = type[np.int32] | type[np.int64]

_IN_PIECES = (Kind.CPU, Kind.DEVICE)
"""What is counted in pieces fits in half the space."""

AMOUNTS: Final = "amounts"
"""The amount of a resource that each zone may allocate."""

_BlockKey = tuple[str, str]
"""The content of a block of columns: free, empty or constant; and which feature."""


class Columns:
    """Nodes with this many zones, by row; rows are dense. Changed in place.

    `layouts` are those of the nodes by number, None for an unused number. `era` grows whenever a number gets
    another meaning, `placed` whenever a row gets a node or loses one. `counts_cores` is whether there are
    columns of cores.
    """

    def __init__(self, zones: int) -> None:
        self.zones = zones
        self.count = 0
        self.era = 0
        self.layouts: list[Layout | None] = []
        self._numbers: dict[Layout, int] = {}
        self._uses: list[int] = []
        self._examples: list[Node] = []
        self._names: dict[str, int] = {}
        self._totals: dict[str, int] = {}
        self.placed = 0
        self.counts_cores = False
        self._blocks, height = _blocks(zones, names=0, totals=0, cores=0)
        self._table = np.zeros((height, _FIRST), dtype=np.int64)
        self._layout_of: Ints = np.zeros(_FIRST, dtype=np.int32)
        self._changes = ChangeLog()
        self._sums: dict[tuple[FreeOrEmpty, str, int], TrackedArray] = {}

    def has_room_for(self, layout: Layout) -> bool:
        """Return whether all resources of a layout have columns, or may get some."""
        return len({*self._totals, *layout.all_names}) <= MOST_RESOURCES

    def put(self, row: int, layout: Layout, node: Node) -> None:
        """Read a node into a row; the next free one is `count`."""
        self._know(layout)
        number = self._number(layout, node)
        # Before the row's old layout is released, because it may be the same.
        self._uses[number] += 1
        if row == self.count:
            self.count += 1
            self._grow()
        else:
            self._forget(int(self._layout_of[row]))
        self._layout_of[row] = number
        cpus = cpu_manager.state(node)
        self._table[:, row] = [*self._now(node, cpus), *self._ever(node, cpus)]
        self.placed += 1
        self._changes.note(row)

    def refresh(self, row: int, node: Node) -> bool:
        """Read again what is free on the node in a row; return False if it exceeds what is allocatable."""
        now = self._now(node, cpu_manager.state(node))
        free = self._table[: len(now), row]
        free[:] = now
        amounts = len(self._names) * self.zones
        most = self._table[len(now) : len(now) + amounts, row]
        self._changes.note(row)
        return bool((free[:amounts] <= most).all() and free.min() >= 0)

    def remove(self, row: int) -> int:
        """Remove a row; return the number of the row that replaces it, the last one."""
        self.count -= 1
        self._forget(int(self._layout_of[row]))
        self.placed += 1
        if row != self.count:
            self._table[:, row] = self._table[:, self.count]
            self._layout_of[row] = self._layout_of[self.count]
            self._changes.note(row)
        return self.count

    def layouts_with_examples(self) -> Iterator[tuple[Layout | None, Node]]:
        """Return each layout by number, None if unused, and a node that had it."""
        return zip(self.layouts, self._examples, strict=True)

    def _number(self, layout: Layout, example: Node) -> int:
        number = self._numbers.get(layout)
        if number is None:
            self.era += 1
            free = (at for at, known in enumerate(self.layouts) if known is None)
            number = self._numbers[layout] = next(free, len(self.layouts))
            self.layouts[number : number + 1] = [layout]
            self._uses[number : number + 1] = [0]
            self._examples[number : number + 1] = [example]
        return number

    def _forget(self, number: int) -> None:
        self._uses[number] -= 1
        layout = self.layouts[number]
        if not self._uses[number] and layout is not None:
            self.layouts[number] = None
            del self._numbers[layout]

    def _grow(self) -> None:
        room = len(self._layout_of)
        if self.count > room:
            more = room // 2 + 1
            wider = np.zeros((len(self._table), more), dtype=np.int64)
            self._table = np.concatenate([self._table, wider], axis=1)
            self._layout_of = np.concatenate([self._layout_of, np.zeros(more, dtype=np.int32)])

    def _know(self, layout: Layout) -> None:
        """Add columns for every resource of a layout; present nodes list none of the new ones."""
        names = [name for name in layout.names if name not in self._names]
        totals = [name for name in layout.all_names if name not in self._totals]
        if not names and not totals and _counts_cores(layout) <= self.counts_cores:
            return
        before, old = self._blocks, self._table
        self.counts_cores |= _counts_cores(layout)
        self._names |= {name: at for at, name in enumerate(names, start=len(self._names))}
        self._totals |= {name: at for at, name in enumerate(totals, start=len(self._totals))}
        cores = self.zones if self.counts_cores else 0
        self._blocks, height = _blocks(
            self.zones, names=len(self._names), totals=len(self._totals), cores=cores
        )
        self._table = np.zeros((height, old.shape[1]), dtype=np.int64)
        for key, place in before.items():
            self._table[self._blocks[key]][: place.stop - place.start] = old[place]
        totals_known = np.array(
            [known is not None and known.totals is not None for known in self.layouts] or [False]
        )
        for name in totals:
            nothing = totals_known[self._layout_of] & (name not in NODE_LEVEL)
            self._table[self._blocks[EVER, TOTAL]][self._totals[name]] = np.where(nothing, 0, BOUNDLESS)

    # What is read.

    def layout_of(self, rows: Rows | None = None) -> Ints:
        """Return the number of the layout of each of these rows, or of all."""
        return self._layout_of[: self.count] if rows is None else self._layout_of.take(rows, mode="clip")

    def has(self, name: str) -> bool:
        """Return whether some node has zones that list a resource."""
        return name in self._names

    def has_total(self, name: str) -> bool:
        """Return whether some node lists a resource, in a zone or as a whole."""
        return name in self._totals

    def of(self, when: str, feature: str, rows: Rows | None = None) -> Ints:
        """Return the columns of a feature beside resources: (zones or 1, rows)."""
        block = self._table[self._blocks[when, feature], : self.count]
        return block if rows is None else block.take(rows, axis=1, mode="clip")

    def free(self, when: FreeOrEmpty, names: Sequence[str], rows: Rows | None = None) -> Ints:
        """Return what each zone may allocate of resources that some zone lists: (names, zones, rows)."""
        return self._by_name((when, AMOUNTS), self.zones, _places(self._names, names), rows)

    def top(self, names: Sequence[str], rows: Rows | None = None) -> Ints:
        """Return the most that one, two, ... zones have together: (names, zones, rows)."""
        return self._by_name((EVER, TOP), self.zones, _places(self._names, names), rows)

    def hosts(self, names: Sequence[str], rows: Rows | None = None) -> Ints:
        """Return the zones that have any of a resource by hardware, as bits: (names, rows)."""
        return self._by_name((EVER, HOSTS), 1, _places(self._names, names), rows)[:, 0]

    def sums(self, when: FreeOrEmpty, name: str, width: int, rows: Rows | None = None) -> Ints:
        """Return what sets of `width` zones may allocate of a resource, (sets, rows), by their numbers."""
        key = when, name, width
        if key not in self._sums:
            empty = np.empty((len(zone_sets.of_width(self.zones, width)), 0), dtype=dtype(name))
            self._sums[key] = TrackedArray(self._changes, empty)

        def compute(some: Rows | None) -> Ints:
            return sums_of(self.free(when, (name,), some)[0], width, dtype(name))

        kept = self._sums[key]
        return kept.current(self.count, compute) if rows is None else kept.at(rows, self.count, compute)

    def totals(self, names: Sequence[str], rows: Rows | None = None) -> Ints:
        """Return how much nodes as a whole have of resources that some node lists: (names, rows)."""
        return self._by_name((EVER, TOTAL), 1, _places(self._totals, names), rows)[:, 0]

    def _by_name(self, key: _BlockKey, each: int, places: slice | list[int], rows: Rows | None) -> Ints:
        block = self._table[self._blocks[key]].reshape(-1, each, self._table.shape[1])[places]
        return block[..., : self.count] if rows is None else block.take(rows, axis=2, mode="clip")

    # What is read of a node.

    def _now(self, node: Node, cpus: CpuState | None) -> list[int]:
        """Return what is free on a node, in the order of `_blocks`."""
        frees = [zone.free for zone in node.zones]
        return [*self._amounts(frees, cpus), *self._cores(cpus), *_groups(node)]

    def _amounts(self, bags: Sequence[Resources], cpus: CpuState | None) -> list[int]:
        """Return what zones may allocate of each resource, and millicores; whole CPUs are the free ones."""
        amounts: list[int] = []
        for name in self._names:
            if name == CPU:
                amounts += cpu_manager.cpus_per_zone(cpus.topology, cpus.free) if cpus else [0] * self.zones
            else:
                amounts += [bag.get(name, 0) for bag in bags]
        return [*amounts, *(bag.get(CPU, 0) for bag in bags)]

    def _ever(self, node: Node, cpus: CpuState | None) -> list[int]:
        """Return what a node has, in the order of `_blocks`."""
        empty = cpus and cpus.emptied()
        bags = [zone.allocatable for zone in node.zones]
        hardware = [self._hardware(node, name, empty) for name in self._names]
        amounts = self._amounts(bags, empty)
        amounts += [*self._cores(empty), *(empty.topology.sizes if empty else [0] * self.zones)]
        for sizes in hardware:
            amounts += accumulate(sorted(sizes, reverse=True))
        amounts += [bits(at for at, size in enumerate(sizes) if size) for sizes in hardware]
        totals = (most_of(node, name) for name in self._totals)
        return amounts + [BOUNDLESS if total is None else min(total, BOUNDLESS) for total in totals]

    def _hardware(self, node: Node, name: str, cpus: CpuState | None) -> Sequence[int]:
        """Return the amounts of each zone from which managers compute the fewest zones of a request."""
        if name == CPU:
            return cpus.topology.sizes if cpus else (0,) * self.zones
        return [_HARDWARE[kind(name)](zone).get(name, 0) for zone in node.zones]

    def _cores(self, cpus: CpuState | None) -> list[int]:
        """Return for each zone whole free cores, if they have two threads, and free CPUs of split cores."""
        if not self.counts_cores:
            return []
        if cpus is None:
            return [0] * (2 * self.zones)
        first = cpus.topology.whole_pairs(cpus.free)
        split = cpus.free & ~cpu_manager.whole_cores(cpus)
        zones = cpus.topology.zones
        return [
            *((first & zone).bit_count() for zone in zones),
            *((split & zone).bit_count() for zone in zones),
        ]


def dtype(name: str) -> Dtype:
    """Return the integer type in which amounts of a resource are summed."""
    return np.int32 if kind(name) in _IN_PIECES else np.int64


def sums_of(amounts: Ints, width: int, kept_as: Dtype = np.int64) -> Ints:
    """Return the totals of all sets of `width` zones: (zones, rows) -> (sets, rows)."""
    own: Ints = amounts.astype(kept_as, copy=False)
    low, high = zone_sets.halves(len(amounts), width)
    sums: Ints = _of_every_set(own[: zone_sets.HALF]).take(low, axis=0)
    sums += _of_every_set(own[zone_sets.HALF :]).take(high, axis=0)
    return sums


def _of_every_set(amounts: Ints) -> Ints:
    """Return the totals of all sets of these zones, by their bits."""
    totals: Ints = np.zeros((1 << zone_sets.HALF, amounts.shape[1]), dtype=amounts.dtype)
    for at, zone in enumerate(amounts):
        np.add(totals[: 1 << at], zone, out=totals[1 << at : 2 << at])
    return totals


def _blocks(zones: int, *, names: int, totals: int, cores: int) -> tuple[Mapping[_BlockKey, slice], int]:
    """Return where each block of columns is, those of free amounts first, and the number of columns."""
    by_zone, one = zones, 1
    sizes: dict[_BlockKey, int] = {
        (When.NOW, AMOUNTS): names * by_zone,
        (When.NOW, RAW): by_zone,
        (When.NOW, CORES): cores,
        (When.NOW, SPLIT): cores,
        (When.NOW, GROUPS): by_zone,
        (When.NOW, USED): one,
        (When.NOW, GROUPED): one,
        (When.EMPTY, AMOUNTS): names * by_zone,
        (When.EMPTY, RAW): by_zone,
        (When.EMPTY, CORES): cores,
        (When.EMPTY, SPLIT): cores,
        (EVER, SIZES): by_zone,
        (EVER, TOP): names * by_zone,
        (EVER, HOSTS): names,
        (EVER, TOTAL): totals,
    }
    ends = accumulate(sizes.values())
    places = {key: slice(end - size, end) for (key, size), end in zip(sizes.items(), ends, strict=True)}
    return places, sum(sizes.values())


def _places(known: Mapping[str, int], names: Sequence[str]) -> slice | list[int]:
    """Return the positions of these resources; a slice if they are adjacent."""
    places = [known[name] for name in names]
    first = places[0] if places else 0
    run = places == [*range(first, first + len(places))]
    return slice(first, first + len(places)) if run else places


_HARDWARE: Mapping[Kind, Callable[[Zone], Resources]] = MappingProxyType(
    {
        Kind.MEMORY: lambda zone: zone.allocatable,
        Kind.DEVICE: lambda zone: zone.capacity,
        Kind.NODE: lambda zone: zone.capacity,
    }
)


def _counts_cores(layout: Layout) -> bool:
    return layout.config.whole_cores or layout.config.threads == COUNTED_THREADS


def _groups(node: Node) -> list[int]:
    """Return the memory manager's groups, in the order of `GROUPS`, `USED` and `GROUPED`."""
    memory = memory_manager.state(node) if any(zone.assignments for zone in node.zones) else None
    if memory is None:
        return [*(1 << at for at in range(len(node.zones))), 0, 0]
    used = bits(at for at, count in enumerate(memory.assignments) if count)
    grouped = bits(at for at, cells in enumerate(memory.cells) if cells.bit_count() > 1)
    return [*memory.cells, used, grouped]
