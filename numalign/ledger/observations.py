"""
What the agent beside a kubelet says of its pods, as far as it can be so on that node.

Only the agent of a node can write what stands there, so how much a pod holds is not held against what the pod
asks for: the kubelet may have resized it, or have served it in a way that nobody has restated. But an agent
can be confused, or be of another version, and its node be known by another machine. So of a pod nothing is
believed that lies on zones or CPUs that are not there, and of all pods nothing if together they hold more
than there is: nobody could tell which of them is wrong.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from numalign.ledger import arithmetic, claims
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
    """What of this can be so on the node, without what none of its managers gives out."""
    # Most pods hold nothing, and of these there is nothing to doubt.
    holding = {uid: told for uid, told in observed.items() if told.held or told.cpus}
    possible = {
        uid: record if node.machine else replace(record, cpus=None)
        for uid, told in holding.items()
        if _possible(node, record := replace(told, held=_given_out(node, told.held)))
    }
    if not fits(node, possible.values()):
        return {}
    idle = {uid: told for uid, told in observed.items() if uid not in holding}
    return idle | possible


def fits(node: Node, records: Iterable[PlacementRecord]) -> bool:
    """Whether a node has what all of these hold together."""
    held = (arithmetic.by_id(record.held, node) for record in records)
    total = arithmetic.merged(amounts for amounts in held if amounts is not None)
    names = {zone.id: zone.name for zone in node.zones}
    return all(
        amount <= _most(node, tuple(names[zone] for zone in zones), name)
        for zones, name, amount in arithmetic.entries(total)
    )


def since_given_away(node: Node, record: PlacementRecord, others: Collection[PlacementRecord]) -> bool:
    """Whether others have by now what a pod was seen to have."""
    taken = union(other.cpus or 0 for other in others)
    return bool((record.cpus or 0) & taken) or not fits(node, [record, *others])


def _given_out(node: Node, held: Held) -> Held:
    """What lies on zones of things that a manager gives out; memory of a manager that is off is nobody's."""
    bags = (
        (zones, Resources({name: amount for name, amount in bag.items() if claims.given_out(node, name)}))
        for zones, bag in held.items()
    )
    return MappingProxyType({zones: bag for zones, bag in bags if bag})


def _possible(node: Node, record: PlacementRecord) -> bool:
    names = {zone.name for zone in node.zones}
    if not all(names.issuperset(zones) for zones in record.held):
        return False
    entries = ((zones, name, amount) for zones, bag in record.held.items() for name, amount in bag.items())
    if any(amount > _most(node, zones, name) for zones, name, amount in entries):
        return False
    static = node.cpu_manager is CpuManager.STATIC
    return not static or node.machine is None or _are_there(node, node.machine, record)


def _are_there(node: Node, machine: Machine, record: PlacementRecord) -> bool:
    """Whether a pod's CPUs are there, not kept for the system, and as many of each zone as it has."""
    cpus = record.cpus
    if cpus is None:
        return True
    zones = dict(zip((zone.name for zone in node.zones), machine.topology.zones, strict=True))
    counted = {(name,): (cpus & own).bit_count() * MILLI for name, own in zones.items() if cpus & own}
    told = {zones: bag[CPU] for zones, bag in record.held.items() if CPU in bag}
    return not cpus & ~(machine.topology.everything & ~machine.reserved) and counted == told


def _most(node: Node, zones: tuple[str, ...], name: str) -> int:
    """How much of a resource pods can hold at the most that lies on exactly these zones."""
    if kind(name) is Kind.CPU:
        return sum(zone.allocatable.get(name, 0) for zone in node.zones if zone.name in zones)
    if node.machine and kind(name) is Kind.DEVICE:
        ids = {zone.id for zone in node.zones if zone.name in zones}
        places = dict(node.machine.devices).get(name, ())
        return sum(place.total for place in places if ids == {*place.zones})
    return claims.capacity(node, zones, name)
