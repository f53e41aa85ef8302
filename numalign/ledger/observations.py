"""
What the agent beside a kubelet says of its pods, as far as it can be so on that node.

Only the agent of a node can write what stands there, so how much a pod holds is not held against what the pod
asks for: the kubelet may have resized it, or have served it in a way that nobody has restated. But an agent
can be confused, or be of another version, and its node be known by another machine. So of a pod nothing is
believed that lies on zones or CPUs that are not there, and of all pods nothing if together they hold more
than there is: nobody could tell which of them is wrong.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from numalign.ledger import claims
from numalign.ledger.model import PlacementRecord, Source
from numalign.model.bitset import union
from numalign.model.machine import Machine
from numalign.model.node import CpuManager, Node
from numalign.model.placement import Held
from numalign.model.resources import CPU, MILLI, Kind, Resources, kind

ObservedPods = Mapping[str, PlacementRecord]
"""What pods hold, by uid."""

RELEASED = PlacementRecord({}, Source.KUBELET, cpus=0)
"""What a pod holds of which its kubelet has let go."""


def believed(node: Node, observed: ObservedPods) -> ObservedPods:
    """Return what of this can be so on the node, without what none of its managers gives out."""
    # Most pods hold nothing, and of these there is nothing to doubt.
    holding = {uid: told for uid, told in observed.items() if told.held or told.cpus}
    most = _most(node)
    possible = {
        uid: record if node.machine else replace(record, cpus=None)
        for uid, told in holding.items()
        if _possible(node, record := replace(told, held=_given_out(node, told.held)), most)
    }
    if not _within(_together(node, possible.values()), most):
        return {}
    idle = {uid: told for uid, told in observed.items() if uid not in holding}
    return idle | possible


def given_away(node: Node, seen: ObservedPods, others: Collection[PlacementRecord]) -> frozenset[str]:
    """Return the uids of pods that were seen to have what others have by now, or what is gone.

    The others together hold no more than there is.
    """
    if not seen:
        return frozenset()
    most, taken = _most(node), union(other.cpus or 0 for other in others)
    held = _together(node, others)
    return frozenset(
        uid
        for uid, record in seen.items()
        if (record.cpus or 0) & taken or not _within(_together(node, [record]), most, beside=held)
    )


_Most = Callable[[tuple[str, ...], str], int]
"""How much of a resource pods can hold at the most that lies on exactly these zones, by their names."""


def _together(node: Node, records: Iterable[PlacementRecord]) -> Mapping[tuple[str, ...], Mapping[str, int]]:
    """Return what all of these hold; those on zones that are not there hold nothing."""
    names = {zone.name for zone in node.zones}
    total: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for record in records:
        if all(names.issuperset(zones) for zones in record.held):
            for zones, bag in record.held.items():
                held = total[tuple(sorted(zones))]
                for name, amount in bag.items():
                    held[name] += amount
    return total


def _within(
    held: Mapping[tuple[str, ...], Mapping[str, int]],
    most: _Most,
    beside: Mapping[tuple[str, ...], Mapping[str, int]] = MappingProxyType({}),
) -> bool:
    """Return whether there is so much, beside what is held already."""
    return all(
        amount + beside.get(zones, {}).get(name, 0) <= most(zones, name)
        for zones, bag in held.items()
        for name, amount in bag.items()
    )


def _given_out(node: Node, held: Held) -> Held:
    """What lies on zones of things that a manager gives out; memory of a manager that is off is nobody's."""
    bags = (
        (zones, Resources({name: amount for name, amount in bag.items() if claims.given_out(node, name)}))
        for zones, bag in held.items()
    )
    return MappingProxyType({zones: bag for zones, bag in bags if bag})


def _possible(node: Node, record: PlacementRecord, most: _Most) -> bool:
    names = {zone.name for zone in node.zones}
    if not all(names.issuperset(zones) for zones in record.held):
        return False
    if not _within(record.held, most):
        return False
    static = node.cpu_manager is CpuManager.STATIC
    return not static or node.machine is None or _are_there(node, node.machine, record)


def _are_there(node: Node, machine: Machine, record: PlacementRecord) -> bool:
    """Return whether a pod's CPUs are there, not kept for the system, and as many of each zone as it has."""
    cpus = record.cpus
    if cpus is None:
        return True
    zones = dict(zip((zone.name for zone in node.zones), machine.topology.zones, strict=True))
    counted = {(name,): (cpus & own).bit_count() * MILLI for name, own in zones.items() if cpus & own}
    told = {zones: bag[CPU] for zones, bag in record.held.items() if CPU in bag}
    return not cpus & ~(machine.topology.everything & ~machine.reserved) and counted == told


def _most(node: Node) -> _Most:
    """Return what a node has, looked up once: a report may name a thousand pods and a thousand places."""
    ids = {zone.name: zone.id for zone in node.zones}
    places = {
        (name, frozenset(place.zones)): place.total
        for name, listed in (node.machine.devices if node.machine else ())
        for place in listed
    }

    @cache
    def most(zones: tuple[str, ...], name: str) -> int:
        if kind(name) is Kind.CPU:
            return sum(zone.allocatable.get(name, 0) for zone in node.zones if zone.name in zones)
        if node.machine and kind(name) is Kind.DEVICE:
            return places.get((name, frozenset(ids[zone] for zone in zones)), 0)
        return claims.capacity(node, zones, name)

    return most
