"""
Reports of a node's agent about its pods, as far as they are possible on that node.

Only the agent of a node can write these reports, so the amounts are not compared with the pods' requests: the
kubelet may have resized a pod, or have served it in a way that is not restated here. But an agent can be
wrong, or have another version, or its node may be known with another machine. So a pod's report is not
trusted if it has zones or CPUs that do not exist, and no report is trusted if together they exceed what
exists: which of them is wrong is unknown.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from numalign.ledger import claims
from numalign.ledger.model import PlacementRecord, Source
from numalign.model.bitset import union
from numalign.model.machine import CpuSet, Machine
from numalign.model.node import CpuManager, Node
from numalign.model.placement import Held
from numalign.model.resources import CPU, MILLI, Kind, Resources, kind

ObservedPods = Mapping[str, PlacementRecord]
"""What pods hold, by uid."""

RELEASED = PlacementRecord({}, Source.KUBELET, cpus=0)
"""What a pod holds after its kubelet released it."""


def possible_reports(node: Node, observed: ObservedPods) -> ObservedPods:
    """Return the reports that are possible on the node, without resources that no manager allocates."""
    names, most = {zone.name for zone in node.zones}, _most(node)
    idle, possible = dict[str, PlacementRecord](), dict[str, PlacementRecord]()
    for uid, reported in observed.items():
        # Most pods hold nothing, so there is nothing to check.
        if not (reported.held or reported.cpus):
            idle[uid] = reported
            continue
        # Memory of a manager that is off is ignored.
        bags = (
            (zones, Resources({name: bag[name] for name in bag if claims.given_out(node, name)}))
            for zones, bag in reported.held.items()
        )
        held = MappingProxyType({zones: bag for zones, bag in bags if bag})
        if not all(map(names.issuperset, held)) or not _within(held, most):
            continue
        if node.machine is None:
            possible[uid] = replace(reported, held=held, cpus=None)
        elif node.cpu_manager is not CpuManager.STATIC or _are_there(node, node.machine, held, reported.cpus):
            possible[uid] = replace(reported, held=held)
    return idle | possible if _within(_together(node, possible.values()), most) else {}


def given_away(node: Node, seen: ObservedPods, others: Collection[PlacementRecord]) -> frozenset[str]:
    """Return the uids of pods whose resources others hold by now, or are gone.

    The others together hold no more than exists.
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
"""The most of a resource that pods can hold on exactly these zones, given by their names."""


def _together(node: Node, records: Iterable[PlacementRecord]) -> Mapping[tuple[str, ...], Mapping[str, int]]:
    """Return what all of these hold; records with missing zones count as nothing."""
    names = {zone.name for zone in node.zones}
    total: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for record in records:
        if all(names.issuperset(zones) for zones in record.held):
            for zones, bag in record.held.items():
                total[tuple(sorted(zones))].update(bag)
    return total


def _within(
    held: Mapping[tuple[str, ...], Mapping[str, int]],
    most: _Most,
    beside: Mapping[tuple[str, ...], Mapping[str, int]] = MappingProxyType({}),
) -> bool:
    """Return whether there is enough, in addition to what is held already."""
    return all(
        amount + beside.get(zones, {}).get(name, 0) <= most(zones, name)
        for zones, bag in held.items()
        for name, amount in bag.items()
    )


def _are_there(node: Node, machine: Machine, held: Held, cpus: CpuSet | None) -> bool:
    """Return whether a pod's CPUs exist, are not reserved, and match its amounts in each zone."""
    if cpus is None:
        return True
    zones = dict(zip((zone.name for zone in node.zones), machine.topology.zones, strict=True))
    counted = {(name,): (cpus & own).bit_count() * MILLI for name, own in zones.items() if cpus & own}
    reported = {zones: bag[CPU] for zones, bag in held.items() if CPU in bag}
    return not cpus & ~(machine.topology.everything & ~machine.reserved) and counted == reported


def _most(node: Node) -> _Most:
    """Return a lookup of what a node has, built once: a report may name a thousand pods and places."""
    ids = {zone.name: zone.id for zone in node.zones}
    places = {
        (name, frozenset(place.known)): place.total
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
