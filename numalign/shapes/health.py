"""
Whether a node is ill: it lacks devices that it had, and is the same machine all the same.

A device plugin that is restarted takes all its devices along, first out of what may be given out and after
minutes out of sight; a device that breaks is not counted any more. Nothing else about the machine changes. So
a node is ill if, given back the devices of the class that it was of, it is of that class again. One that
differs in anything else, or has more of any device, is another machine or another configuration.
"""

from collections.abc import Mapping
from dataclasses import replace

from numalign.rules.resources import Kind, Resources, kind
from numalign.rules.topology import Node, Zone, node_class


def restored(node: Node, healthy: Node) -> Node | None:
    """The node in health and with nothing on it, if it is an ill one of the kind of a healthy node.

    None if it is in health, or of another kind.
    """
    bare = replace(node, health=None).emptied()
    if node.machine or [zone.id for zone in node.zones] != [zone.id for zone in healthy.zones]:
        return None
    pairs = list(zip(bare.zones, healthy.zones, strict=True))
    if not all(_within(mine.capacity, full.capacity) for mine, full in pairs):
        return None
    zones = tuple(_restored(mine, full) for mine, full in pairs)
    found = replace(bare, zones=zones, totals=_totals(bare.totals, healthy.totals))
    return found if found != bare and node_class(found) == node_class(healthy) else None


def lacking(node: Node) -> Resources:
    """The devices of which a node that is ill has less than in health."""
    had, has = _sums(node.in_health()), _sums(node)
    return Resources({name: amount - has.get(name, 0) for name, amount in had.items()}).positive()


def _sums(node: Node) -> dict[str, int]:
    """Of all zones together; or if that is less, as the node as a whole may give out."""
    zones = Resources()
    for zone in node.zones:
        zones = zones.plus(zone.allocatable)
    # An exporter and a kubelet tell of a loss at different times.
    most = zones if node.totals is None else node.totals
    return {name: min(amount, most.get(name, 0)) for name, amount in _devices(zones).items()}


def _within(amounts: Resources, most: Resources) -> bool:
    """Whether there are no more devices than these."""
    return all(amount <= most.get(name, 0) for name, amount in _devices(amounts).items())


def _restored(zone: Zone, full: Zone) -> Zone:
    allocatable = Resources({**zone.allocatable, **_devices(full.allocatable)})
    capacity = Resources({**zone.capacity, **_devices(full.capacity)})
    return replace(zone, capacity=capacity, allocatable=allocatable, free=allocatable)


def _totals(totals: Resources | None, full: Resources | None) -> Resources | None:
    if totals is None or full is None:
        return totals
    return Resources({**totals, **_devices(full.most(totals))})


def _devices(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if kind(name) is Kind.DEVICE}
