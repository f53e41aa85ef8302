"""
A node as nested boxes, in the order in which lstopo nests them: socket, zone, cache, core, CPU.

CPUs are known only for nodes whose machine is described. Other nodes have zones with amounts only, below a
socket without an id.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from numalign.ledger.model import FreeCapacity
from numalign.map.pods_on_node import holders
from numalign.map.tiles import zone_uses
from numalign.map.views import (
    CacheBox,
    CoreBox,
    CpuBox,
    CpuUse,
    DeviceBox,
    PodOnNode,
    SocketBox,
    ZoneBox,
    ZoneUse,
)
from numalign.model.bitset import members
from numalign.model.machine import Core, CpuSet, DevicePlace, Machine
from numalign.model.node import Node
from numalign.model.resources import Kind, kind


@dataclass(frozen=True, slots=True)
class NodeBoxes:
    """The sockets of a node, and the devices that are not in exactly one zone."""

    sockets: tuple[SocketBox, ...]
    shared_devices: tuple[DeviceBox, ...]


def boxes(published: Node, free: FreeCapacity, pods: Sequence[PodOnNode]) -> NodeBoxes:
    """Return the boxes of a node as it was `published`, with what is free on it and the pods there.

    What is free may be known in amounts only, even if the machine is known.
    """
    machine, devices = published.machine, _devices(published, free.node)
    cpus = _Cpus.of(machine, free.node, pods) if machine else None
    by_zone = {zone: [box for box in devices if box.zones == (zone,)] for zone in published.ids}

    def zone_box(use: ZoneUse, cores: Iterable[Core]) -> ZoneBox:
        caches = _caches(cores, cpus) if cpus else ()
        holding = (at for at, pod in enumerate(pods) if any(use.name in part.zones for part in pod.held))
        return ZoneBox(use, caches, tuple(by_zone[use.id]), tuple(holding))

    uses = zone_uses(free)
    cores = machine.cores if machine else ()
    shared = tuple(box for box in devices if len(box.zones) != 1)
    return NodeBoxes(tuple(_sockets(uses, cores, zone_box)), shared)


def _sockets(
    uses: Sequence[ZoneUse], cores: Iterable[Core], zone_box: Callable[[ZoneUse, Iterable[Core]], ZoneBox]
) -> list[SocketBox]:
    """Return the sockets by id, then zones without CPUs, which are all zones if no CPUs are known."""
    placed = _grouped(cores, attrgetter("socket"))
    sockets = []
    for socket, in_socket in placed.items():
        by_zone = _grouped(in_socket, attrgetter("zone"))
        zones = tuple(zone_box(use, by_zone[use.id]) for use in uses if use.id in by_zone)
        sockets.append(SocketBox(socket, zones))
    with_cpus = {core.zone for in_socket in placed.values() for core in in_socket}
    elsewhere = tuple(zone_box(use, ()) for use in uses if use.id not in with_cpus)
    return [*sockets, *([SocketBox(None, elsewhere)] if elsewhere else [])]


def _caches(cores: Iterable[Core], cpus: "_Cpus") -> tuple[CacheBox, ...]:
    by_cache = _grouped(cores, attrgetter("cache"))
    return tuple(CacheBox(cache, tuple(map(cpus.core, below))) for cache, below in by_cache.items())


def _grouped(cores: Iterable[Core], key: Callable[[Core], int]) -> Mapping[int, list[Core]]:
    """Return the cores grouped and sorted by a key, each group sorted by the cores' smallest CPU."""
    grouped = defaultdict[int, list[Core]](list)
    for core in sorted(cores, key=lambda core: core.threads & -core.threads):
        grouped[key(core)].append(core)
    return dict(sorted(grouped.items()))


@dataclass(frozen=True, slots=True)
class _Cpus:
    """The use of each CPU; `free` is None if that is known in amounts only."""

    reserved: CpuSet
    free: CpuSet | None
    holders: Mapping[int, int]

    @classmethod
    def of(cls, machine: Machine, node: Node, pods: Sequence[PodOnNode]) -> "_Cpus":
        held_by = {cpu: at for at, pod in holders(pods) for cpu in members(pod.cpus or 0)}
        return cls(machine.reserved, node.stock.cpus if node.stock else None, held_by)

    def core(self, core: Core) -> CoreBox:
        """Return a core with its CPUs."""
        threads = tuple(map(self._cpu, members(core.threads)))
        return CoreBox(threads[0].id, threads)

    def _cpu(self, cpu: int) -> CpuBox:
        holder = self.holders.get(cpu)
        if holder is not None:
            return CpuBox(cpu, CpuUse.HELD, holder)
        if self.reserved >> cpu & 1:
            return CpuBox(cpu, CpuUse.RESERVED)
        if self.free is None:
            return CpuBox(cpu, CpuUse.UNKNOWN)
        return CpuBox(cpu, CpuUse.FREE if self.free >> cpu & 1 else CpuUse.TAKEN)


def _devices(published: Node, node: Node) -> tuple[DeviceBox, ...]:
    """Return the devices of a node, by resource and by zones."""
    if published.machine is None:
        return tuple(
            DeviceBox(name, (zone.id,), zone.capacity.get(name, 0), amount, zone.free.get(name, 0))
            for zone in node.zones
            for name, amount in zone.allocatable.items()
            if kind(name) is Kind.DEVICE
        )
    free = dict(node.stock.devices) if node.stock else {}
    return tuple(
        DeviceBox(name, place.known, place.total, place.healthy, left)
        for name, places in published.machine.devices
        for place, left in zip(places, _left(places, free.get(name)), strict=True)
        if place.total
    )


def _left(places: Sequence[DevicePlace], free: Sequence[int] | None) -> Sequence[int | None]:
    """Return what is left of each place; None if not known."""
    return [None] * len(places) if free is None else free
