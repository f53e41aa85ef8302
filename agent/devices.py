"""Devices that are told one by one, put together by the zones they sit on."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from agent.observation import HeldDevices
from numalign.model.resources import ZoneId

LARGEST_ZONE = 1023
"""The largest CONFIG_NODES_SHIFT of Linux is 10."""

Sites = Mapping[tuple[str, str], frozenset[ZoneId]]
"""The zones of each device, by its resource and its id."""


def sites(told: Iterable[tuple[str, Iterable[str], Iterable[int]]]) -> Sites:
    """
    Where each device sits, of what is told: a resource, ids of devices, and zones that all of these sit on.

    One device may be told of several times, with a zone each. What is no id of a zone is passed over: plugins
    say -1 for a device that sits nowhere in particular, and the kubelet takes it from them.
    Raises `ValueError` for a device that is of no resource.
    """
    found = defaultdict[tuple[str, str], set[ZoneId]](set)
    for resource, ids, zones in told:
        if not resource:
            raise ValueError("a device is of no resource")
        there = {ZoneId(zone) for zone in zones if 0 <= zone <= LARGEST_ZONE}
        for name in ids:
            found[resource, name].update(there)
    return {device: frozenset(zones) for device, zones in found.items()}


def held(where: Sites) -> tuple[HeldDevices, ...]:
    """Devices that one container holds, by resource and zones, each in order."""
    ids = defaultdict[tuple[str, frozenset[ZoneId]], list[str]](list)
    for (resource, name), zones in sorted(where.items(), key=lambda site: site[0]):
        ids[resource, zones].append(name)
    return tuple(
        HeldDevices(resource, tuple(ids[resource, zones]), zones)
        for resource, zones in sorted(ids, key=lambda place: (place[0], sorted(place[1])))
    )
