"""
Whether a node is degraded: it lacks devices that it had, and is otherwise the same machine.

A device plugin that restarts takes all its devices along, first from the allocatable ones and after minutes
from the capacity; a device that breaks is not counted any more. Nothing else about the machine changes. So a
node is degraded if, given the devices of its earlier class, it has that class again. A node that differs in
anything else, or has more of any device, is another machine or configuration. For a described machine it is
also known which of its devices exist but are not healthy.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import lru_cache

from numalign.kubelet import hinted_zones
from numalign.model.machine import DevicePlace, Machine
from numalign.model.node import Node, Zone, node_class
from numalign.model.resources import EMPTY, Kind, Resources, kind
from numalign.model.sharing import shared


def with_devices_of(node: Node, healthy: Node) -> Node | None:
    """Return the healthy, empty node if it is a degraded one of the kind of a healthy node, else None."""
    node, healthy = hinted_zones.together(node), hinted_zones.together(healthy)
    # What an exporter lost has not gone.
    if node.ids != healthy.ids or node.uncertain != healthy.uncertain or not _lacks(node, healthy):
        return None
    zones = _restored_zones(tuple(zone.emptied() for zone in node.zones), healthy.zones)
    if zones is None:
        return None
    machine = node.machine and _restored_machine(node.machine, healthy.machine, zones)
    totals = None
    if node.totals is not None and healthy.totals is not None:
        listed = {name: healthy.totals[name] for name in healthy.devices if name in healthy.totals}
        totals = shared(node.totals.most({**node.totals, **listed}))
    restored = replace(node, zones=zones, totals=totals, machine=machine, stock=None, health=None)
    return hinted_zones.apart(restored) if node_class(restored) == node_class(healthy) else None


def with_whole_machine(node: Node) -> Node | None:
    """Return the empty node with every device of its machine healthy; None if it lacks none."""
    machine = node.machine
    if machine is None:
        return None
    if all(place.healthy == place.total for _, places in machine.devices for place in places):
        return None
    devices = (
        (name, tuple(replace(place, healthy=place.total) for place in places))
        for name, places in machine.devices
    )
    zones = tuple(_with_all(zone.emptied(), frozenset()) for zone in node.zones)
    listed = {name: amount for name, amount in _listed(node).items() if name in (node.totals or {})}
    totals = node.totals and shared(node.totals.most(listed))
    whole = replace(machine, devices=tuple(devices))
    return replace(node, zones=zones, totals=totals, machine=whole, stock=None, health=None)


def with_all_devices(node: Node, most: Resources | None) -> Node | None:
    """Return the empty node with all devices that its own objects list; None if it lacks none.

    A kubelet, an exporter and a device plugin report the same devices at different times, and a node may be
    seen for the first time in between. `most` is what the Node object lists, None if there is none. The zones
    of devices that no zone lists are not known, so they count for the node as a whole.
    """
    if node.totals is None or most is None:
        return None
    listed = _listed(node)
    total = {name: max(most.get(name, 0), listed.get(name, 0)) for name in {*_devices(most), *listed}}
    unplaced = {name for name, amount in listed.items() if 0 < amount < total[name]}
    given = all(_within(zone.capacity, zone.allocatable) for zone in node.zones)
    if given and not unplaced and _within(Resources(total), node.totals):
        return None
    zones = tuple(_with_all(zone.emptied(), unplaced) for zone in node.zones)
    machine = node.machine
    # Laying out its CPUs again takes time.
    if machine and unplaced:
        placed = tuple(pair for pair in machine.devices if pair[0] not in unplaced)
        machine = replace(machine, devices=placed)
    totals = shared(node.totals.most(total))
    return replace(node, zones=zones, totals=totals, machine=machine, stock=None, health=None)


def _with_all(zone: Zone, unplaced: AbstractSet[str]) -> Zone:
    """Return a zone that may allocate all of its devices, without those of unknown place."""
    given = {**zone.allocatable, **_devices(zone.capacity)}
    capacity, allocatable = (
        shared(Resources({name: amount for name, amount in bag.items() if name not in unplaced}))
        for bag in (zone.capacity, given)
    )
    return replace(zone, capacity=capacity, allocatable=allocatable, free=allocatable)


def _listed(node: Node) -> dict[str, int]:
    """Return how many devices of each resource a node lists, without zeros."""
    if node.machine is None:
        return _summed(zone.capacity for zone in node.zones)
    # A device between zones counts for each of them there.
    totals = ((name, sum(place.total for place in places)) for name, places in node.machine.devices)
    return {name: total for name, total in totals if total}


def _restored_machine(machine: Machine, healthy: Machine | None, zones: tuple[Zone, ...]) -> Machine:
    """Return the machine with the devices of the healthy one; others are as the zones list them."""
    devices = dict(healthy.devices) if healthy else {}
    mine = dict(machine.devices)
    names = {name for zone in zones for name in _devices(zone.capacity)}
    for name in {*mine, *names}:
        if devices.get(name):
            continue
        # As many on each zone as it lists of its own; those between zones, or on none, as healthy.
        wide = [replace(place, healthy=place.total) for place in mine.get(name, ()) if len(place.known) != 1]
        places = []
        for zone in zones:
            between = sum(place.total for place in wide if zone.id in place.zones)
            counts = (max(0, bag.get(name, 0) - between) for bag in (zone.capacity, zone.allocatable))
            places.append(DevicePlace((zone.id,), *counts))
        devices[name] = (*places, *wide)
    kept = ((name, places) for name, places in devices.items() if name in mine or name in names)
    return replace(machine, devices=tuple(sorted(kept)))


def _lacks(node: Node, healthy: Node) -> bool:
    for mine, full in zip(node.zones, healthy.zones, strict=True):
        for has, had in ((mine.capacity, full.capacity), (mine.allocatable, full.allocatable)):
            # Nearly always both are the same, and there are thousands.
            if has is not had and has != had and not _within(had, has):
                return True
    if node.totals is None or healthy.totals is None:
        return False
    # What no zone lists is no matter of alignment, and nodes of one kind differ in it.
    return any(node.totals.get(name, 0) < healthy.totals.get(name, 0) for name in healthy.devices)


def missing_devices(node: Node) -> Resources:
    """Return the devices of which a degraded node has less than when healthy."""
    health = node.health
    if health is None:
        return EMPTY
    had, has = {**_unplaced(health, health), **_sums(health)}, {**_sums(node), **_unplaced(node, health)}
    return Resources({name: amount - has.get(name, 0) for name, amount in had.items()}).positive()


def _unplaced(node: Node, health: Node) -> dict[str, int]:
    totals = _devices(node.totals or Resources())
    return {name: amount for name, amount in totals.items() if name not in health.devices}


def _sums(node: Node) -> dict[str, int]:
    """Return the sums over all zones; or, if less, what the node as a whole may allocate."""
    sums = _summed(zone.allocatable for zone in node.zones)
    # An exporter and a kubelet report a loss at different times.
    most = sums if node.totals is None else node.totals
    return {name: min(amount, most.get(name, 0)) for name, amount in sums.items()}


def _summed(bags: Iterable[Resources]) -> dict[str, int]:
    sums = dict[str, int]()
    for bag in bags:
        for name, amount in bag.items():
            if amount and kind(name) is Kind.DEVICE:
                sums[name] = sums.get(name, 0) + amount
    return sums


# Nodes become degraded by the thousand.
@lru_cache(maxsize=1024)
def _restored_zones(zones: tuple[Zone, ...], full: tuple[Zone, ...]) -> tuple[Zone, ...] | None:
    """Return zones with all devices of others; None if they have more of any."""
    pairs = list(zip(zones, full, strict=True))
    if not all(_within(mine.capacity, its.capacity) for mine, its in pairs):
        return None
    if not all(_within(mine.allocatable, its.allocatable) for mine, its in pairs):
        return None
    restored = []
    for mine, its in pairs:
        capacity = shared(Resources({**mine.capacity, **_devices(its.capacity)}))
        allocatable = shared(Resources({**mine.allocatable, **_devices(its.allocatable)}))
        restored.append(replace(mine, capacity=capacity, allocatable=allocatable, free=allocatable))
    return tuple(restored)


def _within(amounts: Resources, most: Resources) -> bool:
    """Return whether there are no more devices than these."""
    return amounts is most or all(
        amount <= most.get(name, 0) for name, amount in amounts.items() if kind(name) is Kind.DEVICE
    )


def _devices(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if kind(name) is Kind.DEVICE}
