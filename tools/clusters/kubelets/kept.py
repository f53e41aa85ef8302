"""What a kubelet really allocated to its pods, read from its checkpoints, which identify pods by UID.

The files are `cpu_manager_state`, `memory_manager_state` and `device-plugins/kubelet_internal_checkpoint` of
the kubelet's folder; for the formats see pkg/kubelet/cm/{cpumanager,memorymanager}/state and
cm/devicemanager/checkpoint of Kubernetes. They can contain deleted pods, whose resources the kubelet releases
before it admits the next pod.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numalign.model.bitset import members
from numalign.model.machine import read_list, render_list

Json = dict[str, Any]
Amounts = Mapping[tuple[int, ...], Mapping[str, int]]
"""Amounts by sorted zones: CPUs in thousandths, memory in bytes, devices by number. Devices without known
zones have an empty tuple of zones."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The resources of a pod's containers by name, including ended init containers; `cpus` in list format."""

    cpus: Mapping[str, str]
    memory: Mapping[str, Amounts]
    devices: Mapping[str, Amounts]

    def total(self, machine: Mapping[str, Any]) -> Amounts:
        """Return the resources of the whole pod, by the description of its machine."""
        zone_of = {cpu: zone["id"] for zone in machine["zones"] for core in zone["cores"] for cpu in core}
        cpus = {cpu for listed in self.cpus.values() for cpu in members(read_list(listed))}
        others = (
            (zones, name, amount)
            for amounts in (*self.memory.values(), *self.devices.values())
            for zones, bag in amounts.items()
            for name, amount in bag.items()
        )
        return _amounts([*(((zone_of[cpu],), "cpu", 1000) for cpu in cpus), *others])


def kept(state: Path, uid: str, devices: Mapping[str, Any]) -> Kept:
    """Return what the kubelet with this folder allocated to a pod; `devices` are those of its machine."""
    cpus, memory = (_entries(state / f"{name}_manager_state").get(uid, {}) for name in ("cpu", "memory"))
    held: dict[str, list[tuple[tuple[int, ...], str, int]]] = {}
    for owner, container, resource, ids in given(state):
        if owner == uid:
            zones = _zones_of(devices[resource])
            held.setdefault(container, []).extend((zones[each], resource, 1) for each in ids)
    return Kept(
        cpus={name: render_list(read_list(listed)) for name, listed in cpus.items() if listed},
        memory={name: blocks for name, listed in memory.items() if (blocks := _blocks(listed))},
        devices={name: _amounts(amounts) for name, amounts in held.items()},
    )


def taken(
    state: Path, resource: str, uids: AbstractSet[str], devices: Mapping[str, Any]
) -> Mapping[int, int]:
    """Return how many devices of a resource these pods have, by zone; each device must be on one zone."""
    zone_of = _zones_of(devices.get(resource, ()))
    held = (ids for uid, _, of, ids in given(state) if of == resource and uid in uids)
    return Counter(zone for ids in held for each in ids for zone in zone_of[each])


def given(state: Path) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield the pod's UID, the container, the resource, and the IDs of the devices of each allocation."""
    file = state / "device-plugins" / "kubelet_internal_checkpoint"
    if not file.exists():
        return
    for entry in json.loads(file.read_text())["Data"]["PodDeviceEntries"] or ():
        # A device on several zones is listed under each of them.
        ids = sorted({each for listed in entry["DeviceIDs"].values() for each in listed})
        yield entry["PodUID"], entry["ContainerName"], entry["ResourceName"], ids


def _entries(file: Path) -> Json:
    """Return the entries by UID and container; a manager with the policy none writes no entries."""
    found: Json = json.loads(file.read_text() if file.exists() else "{}")
    return found.get("entries") or {}


def _blocks(listed: list[Json]) -> Amounts:
    return _amounts((tuple(sorted(each["numaAffinity"])), each["type"], each["size"]) for each in listed)


def _amounts(parts: Iterable[tuple[tuple[int, ...], str, int]]) -> Amounts:
    """Return the sums of amounts by zones and resource, without those of nothing."""
    found: dict[tuple[int, ...], Counter[str]] = {}
    for zones, name, amount in parts:
        if amount:
            found.setdefault(zones, Counter())[name] += amount
    return {zones: dict(bag) for zones, bag in sorted(found.items())}


def _zones_of(devices: Any) -> Mapping[str, tuple[int, ...]]:  # noqa: ANN401  as a machine describes them
    return {one["id"]: tuple(sorted(one["zones"])) for one in devices}
