"""
The machine that the rules assume behind a node of which only amounts are known.

There is one way through the rules, and it needs CPUs with ids. What nobody told is as it is by default: cores
of as many threads as a label says, else of one, or of two where the kubelet gives out whole cores, an option
that changes nothing for cores of one thread; one cache per zone; reserved CPUs in whole cores at the start
of their zone, and free ones at its end. Sockets are read off the distances, where those are published: Linux
calls a zone remote from a distance of 20 on (REMOTE_DISTANCE of include/linux/topology.h).
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from numalign.model.bitset import union
from numalign.model.machine import Core, CpuSet, CpuTopology, cpu_topology
from numalign.model.node import Node
from numalign.model.options import CpuOption
from numalign.model.resources import CPU, MILLI, Resources, ZoneId

REMOTE = 20

_THREADS = {False: 1, True: 2}
"""Threads of a core that nobody told of, by whether the kubelet gives out whole cores only."""

Costs = tuple[tuple[ZoneId, int], ...]


class Assumed(NamedTuple):
    """The CPUs that a node of counts would have, and those of them that a zone never gives out."""

    topology: CpuTopology
    reserved: CpuSet


def assume(node: Node) -> Assumed:
    """What is assumed of a node's CPUs, whatever is given out."""
    facts = tuple(
        [(zone.id, zone.capacity.get(CPU), _whole(zone.allocatable), zone.costs) for zone in node.zones]
    )
    return _assumed(facts, node.threads or _THREADS[CpuOption.FULL_PCPUS_ONLY in node.options.cpu])


def free_cpus(node: Node, laid: CpuTopology) -> CpuSet:
    """The CPUs that a zone has not given out: its last ones."""
    left = 0
    for cpus, zone in zip(laid.zones, node.zones, strict=True):
        left |= _last(cpus, _whole(zone.free))
    return left


Fact = tuple[ZoneId, int | None, int, Costs]
"""A zone, its CPUs in millicores if it lists them, those that it may give out, and its distances."""


def _whole(amounts: Resources) -> int:
    return amounts.get(CPU, 0) // MILLI


@lru_cache(maxsize=4096)
def _assumed(facts: tuple[Fact, ...], threads: int) -> Assumed:
    sizes, sockets = _sizes(facts), _sockets(facts)
    zones = [zone for zone, *_ in facts]
    laid = cpu_topology(_cores(zones, sizes, sockets, threads), zones)
    kept = (_first(cpus, size - fact[2]) for cpus, size, fact in zip(laid.zones, sizes, facts, strict=True))
    return Assumed(laid, union(kept))


def _sizes(facts: tuple[Fact, ...]) -> list[int]:
    """The CPUs of each zone, those of a zone that is reserved as a whole included.

    Such a zone lists no CPU. But some CPU is always reserved (the static policy does not start without), and
    if none is in the zones that list any, it is in the first one of the others.
    """
    sizes = [(listed or 0) // MILLI for _, listed, *_ in facts]
    silent = [at for at, (_, listed, *_) in enumerate(facts) if listed is None]
    if silent and any(sizes) and sizes == [given for _, _, given, _ in facts]:
        sizes[silent[0]] = min(filter(None, sizes))
    return sizes


def _cores(
    zones: Iterable[ZoneId], sizes: Iterable[int], sockets: Mapping[ZoneId, int], threads: int
) -> Iterator[Core]:
    start = 0
    for zone, size in zip(zones, sizes, strict=True):
        for first in range(start, start + size, threads):
            held = _run(first, min(threads, start + size - first))
            yield Core(zone, sockets[zone], zone, held)
        start += size


def _sockets(facts: tuple[Fact, ...]) -> Mapping[ZoneId, int]:
    """Zone -> the lowest zone on its socket: near zones share one."""
    found: dict[ZoneId, int] = {}
    for zone, _, _, costs in facts:
        near = [found[there] for there, cost in costs if cost < REMOTE and there in found]
        found[zone] = min(near, default=zone)
    return found


def _run(first: int, count: int) -> CpuSet:
    return ((1 << count) - 1) << first


def _first(cpus: CpuSet, count: int) -> CpuSet:
    return _run((cpus & -cpus).bit_length() - 1, count) if count > 0 and cpus else 0


def _last(cpus: CpuSet, count: int) -> CpuSet:
    return _run(max(0, cpus.bit_length() - count), count) & cpus if count > 0 else 0
