"""
The parts of a machine beyond the amounts of its zones: threads, cores, caches and sockets.

Topology objects do not show them, so they are known only of a node with a machine description. Everything
derived here is the same for a described machine and for the plain one that the rules assume where only
amounts are known.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from numalign.model.bitset import members, union
from numalign.model.errors import cut
from numalign.model.resources import ZoneId

CpuSet = int
"""A set of CPUs: bit i is the CPU with id i."""

MOST_CPUS = 8192
"""The largest NR_CPUS of Linux; an id beyond it is a mistake."""

LARGEST_ZONE = 1023
"""The largest id of a zone: CONFIG_NODES_SHIFT of Linux is at most 10."""

LARGE = 2048
"""The id of a CPU from which a machine is too large to be cached by the hundred: a set has as many bits."""

LONGEST_LIST = 2**16
"""The limit of characters in a list of CPUs; a list of every other CPU has a third of that."""

UNKNOWN_ZONE = ZoneId(-1)
"""What a device plugin reports of a device whose zone it does not know, as the kernel does without NUMA.

The kubelet takes it for a zone, and no hint includes it.
"""

_SHOWN = 64
_PAIR = 2
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class Core:
    """One physical core: its hardware threads, and its zone, socket and cache."""

    zone: ZoneId
    socket: int
    cache: int
    threads: CpuSet


@dataclass(frozen=True, slots=True)
class DevicePlace:
    """Devices of one resource with the same zones: one, several, none, or `UNKNOWN_ZONE`.

    `total` counts all that the plugin lists, `healthy` those that can be allocated.
    """

    zones: tuple[ZoneId, ...]
    total: int
    healthy: int

    @property
    def known(self) -> tuple[ZoneId, ...]:
        """The zones that exist."""
        return () if self.zones == (UNKNOWN_ZONE,) else self.zones

    def of_unknown_zone(self) -> bool:
        """Return whether there are devices, of `UNKNOWN_ZONE`."""
        return self.total > 0 and self.zones == (UNKNOWN_ZONE,)


@dataclass(frozen=True, slots=True)
class CpuTopology:
    """The CPUs of a machine by what they share.

    `zones` are by position, those without CPUs included. `sockets` and `caches` are by ascending id, `cores`
    by their smallest thread, which is the kubelet's name for a core. `sizes` counts the CPUs of each zone.
    """

    zones: tuple[CpuSet, ...]
    sockets: tuple[CpuSet, ...]
    caches: tuple[CpuSet, ...]
    cores: tuple[CpuSet, ...]
    sizes: tuple[int, ...] = field(init=False)
    threads_per_core: int = field(init=False)
    """The average, rounded down (CPUTopology.CPUsPerCore)."""
    hosts: tuple[int, ...] = field(init=False)
    """The positions of zones that own a CPU."""
    even: bool = field(init=False)
    """Whether all zones with CPUs have the same size, and all sockets, and all cores."""
    pairs: tuple[tuple[int, CpuSet], ...] = field(init=False)
    """The first threads of cores with two threads, by the distance of their second threads."""

    def __post_init__(self) -> None:
        sizes = tuple(map(int.bit_count, self.zones))
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "threads_per_core", sum(sizes) // len(self.cores) if self.cores else 0)
        object.__setattr__(self, "hosts", tuple(at for at, size in enumerate(sizes) if size))
        units = (filter(None, self.zones), self.sockets, self.cores)
        object.__setattr__(self, "even", all(len({*map(int.bit_count, each)}) <= 1 for each in units))
        object.__setattr__(self, "pairs", tuple(_pairs(self.cores)))

    @property
    def zones_with_cpus(self) -> int:
        """The number of zones with CPUs: what the CPU manager calls the number of NUMA nodes."""
        return len(self.hosts)

    @property
    def everything(self) -> CpuSet:
        """The CPUs of all zones, reserved ones included."""
        return union(self.zones)

    def whole_pairs(self, cpus: CpuSet) -> CpuSet:
        """Return the first threads of two-thread cores both of whose threads are among these CPUs."""
        return union(cpus & cpus >> apart & first for apart, first in self.pairs)


@dataclass(frozen=True, slots=True)
class Machine:
    """One described machine: its cores, the CPUs reserved for the system, and the places of devices.

    `zones` are all zone ids, ascending. `devices` holds the places of every resource, by name, as
    `all_places` returns them.
    """

    zones: tuple[ZoneId, ...]
    cores: tuple[Core, ...]
    reserved: CpuSet = 0
    devices: tuple[tuple[str, tuple[DevicePlace, ...]], ...] = ()
    topology: CpuTopology = field(init=False, compare=False, repr=False)
    of_unknown_zones: frozenset[str] = field(init=False, compare=False, repr=False)
    """The resources with devices of `UNKNOWN_ZONE`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "topology", cpu_topology(self.cores, self.zones))
        unknown = DevicePlace.of_unknown_zone
        names = frozenset(name for name, places in self.devices if any(map(unknown, places)))
        object.__setattr__(self, "of_unknown_zones", names)

    @property
    def large(self) -> bool:
        """Whether it is too large to be cached by the hundred."""
        return self.topology.everything.bit_length() > LARGE


@dataclass(frozen=True, slots=True)
class Stock:
    """What is free on a machine: CPU ids, and healthy devices in the order of their places.

    On an assumed machine, the places of devices are its zones.
    """

    cpus: CpuSet = 0
    devices: tuple[tuple[str, tuple[int, ...]], ...] = ()


def full_stock(machine: Machine) -> Stock:
    """Return all CPUs but the reserved ones, and the healthy devices of each place by resource."""
    return Stock(
        machine.topology.everything & ~machine.reserved,
        tuple((name, tuple(place.healthy for place in places)) for name, places in machine.devices),
    )


def device_places(
    zones: Iterable[ZoneId], devices: Iterable[tuple[frozenset[ZoneId], bool]]
) -> tuple[DevicePlace, ...]:
    """Return the places of devices, given as zones and health: first every zone, then others."""
    counts = Counter(devices)
    return all_places(
        zones,
        (
            DevicePlace(tuple(sorted(at)), counts[at, True] + counts[at, False], counts[at, True])
            for at in {at for at, _ in counts}
        ),
    )


def all_places(zones: Iterable[ZoneId], places: Iterable[DevicePlace]) -> tuple[DevicePlace, ...]:
    """Return distinct places in the order of a machine: first every zone, then others.

    If some devices of a resource have an unknown zone, those without one are treated alike.
    """
    by_zones = {place.zones: place for place in places}
    if (unknown := by_zones.get((UNKNOWN_ZONE,))) and (bare := by_zones.pop((), None)):
        total, healthy = unknown.total + bare.total, unknown.healthy + bare.healthy
        by_zones[UNKNOWN_ZONE,] = DevicePlace((UNKNOWN_ZONE,), total, healthy)
    alone = [(zone,) for zone in zones]
    others = sorted(by_zones.keys() - {*alone})
    return tuple(by_zones.get(at) or DevicePlace(at, 0, 0) for at in (*alone, *others))


def cpu_topology(cores: Iterable[Core], zones: Iterable[ZoneId]) -> CpuTopology:
    """Return the layout of these cores over these zones, which are in ascending order."""
    every = tuple(cores)
    by_zone = _joined((core.zone, core.threads) for core in every)
    return CpuTopology(
        zones=tuple(by_zone.get(zone, 0) for zone in zones),
        sockets=_ascending(_joined((core.socket, core.threads) for core in every)),
        caches=_ascending(_joined((core.cache, core.threads) for core in every)),
        cores=tuple(sorted((core.threads for core in every), key=lambda threads: threads & -threads)),
    )


def existing(zones: Iterable[ZoneId]) -> frozenset[ZoneId]:
    """Return the zones of a device without unknown ones, if any is known."""
    every = frozenset(zones)
    return every - {UNKNOWN_ZONE} or every


def read_list(text: str) -> CpuSet:
    """Read the kernel's list format, as in `0-3,8`; raise `ValueError` if a part is invalid."""
    if len(text) > LONGEST_LIST:
        raise ValueError(f"a list of {len(text)} characters is too long: at most {LONGEST_LIST} are allowed")
    return union(_range(part.strip()) for part in text.split(",")) if text.strip() else 0


def render_list(held: CpuSet) -> str:
    """Return the set in the kernel's list format, as in `0-3,8`; an empty text for the empty set."""
    runs: list[tuple[int, int]] = []
    for one in members(held):
        first, last = runs[-1] if runs else (one, one - 2)
        runs[-1:] = [(first, one)] if one == last + 1 else [*runs[-1:], (one, one)]
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _range(part: str) -> CpuSet:
    match = _RANGE.fullmatch(part)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if first > last or last >= MOST_CPUS:
        raise ValueError(f'"{cut(part, _SHOWN)}" is not a CPU ID or range, as in 0-3,8')
    return (1 << last + 1) - (1 << first)


def _pairs(cores: Iterable[CpuSet]) -> Iterable[tuple[int, CpuSet]]:
    """Return the first threads of two-thread cores by distance; nearly always all have the same distance."""
    both = ((core & -core, core & core - 1) for core in cores if core.bit_count() == _PAIR)
    return _joined((second.bit_length() - first.bit_length(), first) for first, second in both).items()


def _joined(pairs: Iterable[tuple[int, CpuSet]]) -> Mapping[int, CpuSet]:
    joined: dict[int, CpuSet] = defaultdict(int)
    for key, threads in pairs:
        joined[key] |= threads
    return joined


def _ascending(sets: Mapping[int, CpuSet]) -> tuple[CpuSet, ...]:
    return tuple(sets[key] for key in sorted(sets))
