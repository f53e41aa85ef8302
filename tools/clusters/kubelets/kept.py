"""What a kubelet really allocated to its pods, read from its checkpoints, which identify pods by UID.

The files are `cpu_manager_state`, `memory_manager_state` and `device-plugins/kubelet_internal_checkpoint` of
the kubelet's folder; for the formats see pkg/kubelet/cm/{cpumanager,memorymanager}/state and
cm/devicemanager/checkpoint of Kubernetes. They can contain deleted pods, whose resources the kubelet releases
before it admits the next pod.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
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
        bags: dict[tuple[int, ...], Counter[str]] = {}
        zone_of = {cpu: zone["id"] for zone in machine["zones"] for core in zone["cores"] for cpu in core}
        for cpu in {cpu for listed in self.cpus.values() for cpu in members(read_list(listed))}:
            bags.setdefault((zone_of[cpu],), Counter())["cpu"] += 1000
        for amounts in (*self.memory.values(), *self.devices.values()):
            for zones, bag in amounts.items():
                bags.setdefault(zones, Counter()).update(bag)
        return {zones: dict(bag) for zones, bag in sorted(bags.items())}


def kept(state: Path, uid: str, devices: Mapping[str, Any]) -> Kept:
    """Return what the kubelet with this folder allocated to a pod; `devices` are those of its machine."""
    cpus = _entries(state / "cpu_manager_state").get(uid, {})
    memory = _entries(state / "memory_manager_state").get(uid, {})
    return Kept(
        cpus={name: render_list(read_list(listed)) for name, listed in cpus.items() if listed},
        memory={name: blocks for name, listed in memory.items() if (blocks := _blocks(listed))},
        devices=_devices(state, uid, devices),
    )


def taken(
    state: Path, resource: str, uids: AbstractSet[str], devices: Mapping[str, Any]
) -> Mapping[int, int]:
    """Return how many devices of a resource these pods have, by zone; each device must be on one zone."""
    zone_of = _zones_of(devices.get(resource, ()))
    found = Counter[int]()
    for uid, _, of, ids in given(state):
        if of == resource and uid in uids:
            found.update(zone for each in ids for zone in zone_of[each])
    return found


def _entries(file: Path) -> Json:
    """Return the entries by UID and container; a manager with the policy none writes no entries."""
    found: Json = json.loads(file.read_text() if file.exists() else "{}")
    return found.get("entries") or {}


def _blocks(listed: list[Json]) -> Amounts:
    found: dict[tuple[int, ...], Counter[str]] = {}
    for block in listed:
        if block["size"]:
            zones = tuple(sorted(block["numaAffinity"]))
            found.setdefault(zones, Counter())[block["type"]] += block["size"]
    return {zones: dict(bag) for zones, bag in found.items()}


def _devices(state: Path, uid: str, devices: Mapping[str, Any]) -> Mapping[str, Amounts]:
    found: dict[str, dict[tuple[int, ...], Counter[str]]] = {}
    for owner, container, resource, ids in given(state):
        if owner == uid:
            zones, bags = _zones_of(devices[resource]), found.setdefault(container, {})
            for each in ids:
                bags.setdefault(zones[each], Counter())[resource] += 1
    return {name: {zones: dict(bag) for zones, bag in bags.items()} for name, bags in found.items()}


def _zones_of(devices: Any) -> Mapping[str, tuple[int, ...]]:  # noqa: ANN401  as a machine describes them
    return {one["id"]: tuple(sorted(one["zones"])) for one in devices}


def given(state: Path) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield the pod's UID, the container, the resource, and the IDs of the devices of each allocation."""
    file = state / "device-plugins" / "kubelet_internal_checkpoint"
    if not file.exists():
        return
    for entry in json.loads(file.read_text())["Data"]["PodDeviceEntries"] or ():
        # A device on several zones is listed under each of them.
        ids = sorted({each for listed in entry["DeviceIDs"].values() for each in listed})
        yield entry["PodUID"], entry["ContainerName"], entry["ResourceName"], ids
