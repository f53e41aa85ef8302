"""Group devices that are listed one by one by the zones they are on."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from agent.observation import HeldDevices
from numalign.model.machine import UNKNOWN_ZONE, existing
from numalign.model.resources import ZoneId

LARGEST_ZONE = 1023
"""The largest CONFIG_NODES_SHIFT of Linux is 10."""

Sites = Mapping[tuple[str, str], frozenset[ZoneId]]
"""The zones of each device, by its resource and its ID."""


def sites(listed: Iterable[tuple[str, Iterable[str], Iterable[int]]]) -> Sites:
    """
    Return the zones of each device, from rows of a resource, device IDs, and zones that all of these are on.

    A device may be in several rows, with one zone each. IDs that are not zone IDs, such as -1, become
    `UNKNOWN_ZONE`: the kubelet accepts them, and then finds no hint for the device. Raise `ValueError` for a
    device without a resource.
    """
    found = defaultdict[tuple[str, str], set[ZoneId]](set)
    for resource, ids, zones in listed:
        if not resource:
            raise ValueError("a device is of no resource")
        there = {ZoneId(zone) if 0 <= zone <= LARGEST_ZONE else UNKNOWN_ZONE for zone in zones}
        for name in ids:
            found[resource, name].update(there)
    return {device: existing(zones) for device, zones in found.items()}


def held(where: Sites) -> tuple[HeldDevices, ...]:
    """Return devices that one container holds, grouped by resource and zones, both in order."""
    ids = defaultdict[tuple[str, frozenset[ZoneId]], list[str]](list)
    for (resource, name), zones in sorted(where.items(), key=lambda site: site[0]):
        ids[resource, zones].append(name)
    return tuple(
        HeldDevices(resource, tuple(ids[resource, zones]), zones)
        for resource, zones in sorted(ids, key=lambda place: (place[0], sorted(place[1])))
    )
