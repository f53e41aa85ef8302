"""
The machine that the rules assume for a node of which only amounts are known.

All rules need CPUs with ids. What is not reported has its default: cores have as many threads as a label
says, else one, or two if the kubelet allocates whole cores only (an option that changes nothing for cores of
one thread). Each zone has one cache; reserved CPUs are whole cores at the start of their zone, free ones are
at its end. Sockets are derived from distances, where they are published: for Linux a zone is remote from a
distance of 20 on (REMOTE_DISTANCE of include/linux/topology.h).

This restates no function of the kubelet, which reads its machine from cadvisor.
"""

from functools import lru_cache
from typing import NamedTuple

from numalign.model.bitset import union
from numalign.model.machine import Core, CpuSet, CpuTopology, cpu_topology
from numalign.model.node import Node, ZoneCosts
from numalign.model.options import CpuOption
from numalign.model.resources import CPU, MILLI, ZoneId

REMOTE = 20

LARGE = 1024
"""The CPUs from which a machine is large, so that few are cached: what a node has is up to its exporter."""


class Assumed(NamedTuple):
    """The assumed CPUs of a node, and the reserved ones, which a zone never allocates."""

    topology: CpuTopology
    reserved: CpuSet


def assume(node: Node) -> Assumed:
    """Return what is assumed of a node's CPUs, whatever is allocated."""
    zones = tuple(
        [
            _Zone(zone.id, zone.capacity.get(CPU), zone.allocatable.get(CPU, 0) // MILLI, zone.costs)
            for zone in node.zones
        ]
    )
    threads = node.threads or (2 if CpuOption.FULL_PCPUS_ONLY in node.options.cpu else 1)
    large = sum(zone.capacity or 0 for zone in zones) > LARGE * MILLI
    return (_large if large else _usual)(zones, threads)


def free_cpus(node: Node, topology: CpuTopology) -> CpuSet:
    """Return the CPUs that are not allocated: the last ones of each zone."""
    free = 0
    for cpus, zone in zip(topology.zones, node.zones, strict=True):
        if (count := zone.free.get(CPU, 0) // MILLI) > 0:
            free |= _range(max(0, cpus.bit_length() - count), count) & cpus
    return free


class _Zone(NamedTuple):
    """A zone, its CPUs in millicores if it lists them, its allocatable CPUs, and its distances."""

    id: ZoneId
    capacity: int | None
    allocatable: int
    costs: ZoneCosts


def _assumed(zones: tuple[_Zone, ...], threads: int) -> Assumed:
    sizes = [(zone.capacity or 0) // MILLI for zone in zones]
    # A fully reserved zone lists no CPU. But some CPU is always reserved (the static policy does not start
    # without one), and if none is in the zones that list CPUs, it is in the first of the others.
    silent = [at for at, zone in enumerate(zones) if zone.capacity is None]
    if silent and any(sizes) and sizes == [zone.allocatable for zone in zones]:
        sizes[silent[0]] = min(filter(None, sizes))
    # Near zones share a socket, which has the id of its lowest zone.
    sockets: dict[ZoneId, int] = {}
    cores, start = list[Core](), 0
    for zone, size in zip(zones, sizes, strict=True):
        near = (sockets[other] for other, cost in zone.costs if cost < REMOTE and other in sockets)
        sockets[zone.id] = min(near, default=zone.id)
        for first in range(start, start + size, threads):
            cpus = _range(first, min(threads, start + size - first))
            cores.append(Core(zone.id, sockets[zone.id], zone.id, cpus))
        start += size
    topology = cpu_topology(cores, [zone.id for zone in zones])
    reserved = (
        _range((cpus & -cpus).bit_length() - 1, size - zone.allocatable)
        for cpus, size, zone in zip(topology.zones, sizes, zones, strict=True)
        if cpus and size > zone.allocatable
    )
    return Assumed(topology, union(reserved))


_usual, _large = lru_cache(1024)(_assumed), lru_cache(8)(_assumed)


def _range(first: int, count: int) -> CpuSet:
    return ((1 << count) - 1) << first
