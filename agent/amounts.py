"""
What the zones of a node have, and what each pod holds of them: observed CPUs, blocks and devices as amounts.

Amounts stand under sets of zones, as a pod's placement has them. A zone's own amounts are those that other
exporters publish: of a resource that the kubelet gives out by zone the capacity, what may be given out, and
what is free; a device between zones counts in each of them, and of memory that lies in several zones the
lowest give first, as the memory manager takes it (updateMachineState of memorymanager/policy_static.go).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from agent.identities import KeptPod
from agent.observation import Hardware, MemoryBlock, Observation
from numalign.model.bitset import union
from numalign.model.machine import CpuSet, DevicePlace
from numalign.model.placement import Held
from numalign.model.resources import CPU, MEMORY, MILLI, Resources, ZoneId

DeviceKey = tuple[str, str]
"""The resource and the id of a device."""

Place = tuple[str, frozenset[ZoneId]]
"""A resource, and zones that devices of it sit on."""

MOST_SEEN = 2**16
"""Devices that are remembered; beyond it those that are away are forgotten."""

AmountRow = tuple[int, int, int]
"""Capacity, allocatable, available."""


@dataclass(frozen=True, slots=True)
class SeenDevices:
    """The devices that an agent sees, and the most that it has seen at once since it started.

    `zones` are those of each device that is listed or held; who is ill is not listed any more. `most` are the
    ids of each place when most were there. Ids of different times are never added up: a plugin may give its
    devices new ones whenever it starts.
    """

    zones: Mapping[DeviceKey, frozenset[ZoneId]] = field(default_factory=dict)
    most: Mapping[Place, frozenset[str]] = field(default_factory=dict)

    def plus(self, observation: Observation, pods: Iterable[KeptPod]) -> "SeenDevices":
        """What is listed or held now, and the most until now."""
        told = {(device.resource, device.id): device.zones for device in observation.allocatable.devices}
        held = [devices for pod in pods for devices in pod.devices]
        told |= {(devices.resource, each): devices.zones for devices in held for each in devices.ids}
        known = {bank.zone for bank in observation.hardware.banks}
        zones = {key: there & known for key, there in told.items()}
        return SeenDevices(MappingProxyType(zones), MappingProxyType(self._most_with(zones)))

    def _most_with(self, zones: Mapping[DeviceKey, frozenset[ZoneId]]) -> Mapping[Place, frozenset[str]]:
        here = _by_place(zones)
        most = {
            # Of equally many the newer: those are the ones that may be told to sit elsewhere.
            place: max(here.get(place, frozenset()), _stayed(place, ids, zones), key=len)
            for place, ids in self.most.items()
        }
        most = {**here, **{place: ids for place, ids in most.items() if ids}}
        return most if sum(map(len, most.values())) <= MOST_SEEN else here


def _by_place(zones: Mapping[DeviceKey, frozenset[ZoneId]]) -> dict[Place, frozenset[str]]:
    ids: dict[Place, set[str]] = defaultdict(set)
    for (resource, each), there in zones.items():
        ids[resource, there].add(each)
    return {place: frozenset(found) for place, found in ids.items()}


def _stayed(
    place: Place, ids: frozenset[str], zones: Mapping[DeviceKey, frozenset[ZoneId]]
) -> frozenset[str]:
    """Of devices that were in a place those that are not told to be in another one now."""
    resource, before = place
    return frozenset(each for each in ids if zones.get((resource, each), before) == before)


def zone_name(zone: ZoneId) -> str:
    """As exporters call a zone."""
    return f"node-{zone}"


def held_by(pod: KeptPod, cpus: Mapping[ZoneId, CpuSet], seen: SeenDevices) -> Held:
    """What a pod holds; `cpus` are those of each zone."""
    amounts: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for zone, there in cpus.items():
        if count := (pod.cpus & there).bit_count():
            amounts[zone_name(zone),][CPU] = count * MILLI
    for block in pod.memory:
        amounts[_names(block.zones)][block.resource] += block.size
    for held in pod.devices:
        for each in held.ids:
            amounts[_names(seen.zones[held.resource, each])][held.resource] += 1
    return {zones: Resources(amounts[zones]) for zones in sorted(amounts)}


def _names(zones: Iterable[ZoneId]) -> tuple[str, ...]:
    return tuple(sorted(map(zone_name, zones)))


def zone_cpus(hardware: Hardware) -> Mapping[ZoneId, CpuSet]:
    """The CPUs of every zone, ascending by id; a zone may have none."""
    return {
        bank.zone: union(core.threads for core in hardware.cores if core.zone == bank.zone)
        for bank in hardware.banks
    }


def places(seen: SeenDevices) -> dict[str, tuple[DevicePlace, ...]]:
    """By resource where its devices sit; healthy is what is listed or held."""
    healthy = Counter((resource, zones) for (resource, _), zones in seen.zones.items())
    found: dict[str, list[DevicePlace]] = defaultdict(list)
    for place in sorted(seen.most, key=lambda place: (place[0], sorted(place[1]))):
        resource, zones = place
        found[resource].append(DevicePlace(tuple(sorted(zones)), len(seen.most[place]), healthy[place]))
    return {resource: tuple(listed) for resource, listed in found.items()}


def _held(pods: Iterable[KeptPod]) -> set[DeviceKey]:
    return {(held.resource, each) for pod in pods for held in pod.devices for each in held.ids}


def zone_amounts(
    observation: Observation, pods: tuple[KeptPod, ...], seen: SeenDevices
) -> dict[ZoneId, dict[str, AmountRow]]:
    """By zone the amounts of each resource that the kubelet gives out by zone, names in order."""
    zones: dict[ZoneId, dict[str, AmountRow]] = {bank.zone: {} for bank in observation.hardware.banks}
    for told in (
        _cpu_amounts(observation, pods),
        _memory_amounts(observation, pods),
        _device_amounts(pods, seen),
    ):
        for zone, resource, amounts in told:
            zones[zone][resource] = amounts
    return {zone: dict(sorted(amounts.items())) for zone, amounts in zones.items()}


Told = Iterator[tuple[ZoneId, str, AmountRow]]


def _cpu_amounts(observation: Observation, pods: tuple[KeptPod, ...]) -> Told:
    """CPUs, where a manager gives them out."""
    allocatable = observation.allocatable.cpus
    free = allocatable & ~union(pod.cpus for pod in pods)
    for zone, there in zone_cpus(observation.hardware).items() if allocatable else ():
        counts = [(there & cpus).bit_count() * MILLI for cpus in (there, allocatable, free)]
        yield zone, CPU, (counts[0], counts[1], counts[2])


def _memory_amounts(observation: Observation, pods: tuple[KeptPod, ...]) -> Told:
    """Memory and hugepages, where a manager gives them out."""
    allocatable: Counter[tuple[ZoneId, str]] = Counter()
    for block in observation.allocatable.memory:
        # Each is of one zone (memorymanager/policy_static.go, GetAllocatableMemory).
        for zone in block.zones[:1]:
            allocatable[zone, block.resource] += block.size
    free = _free_memory(allocatable, [block for pod in pods for block in pod.memory])
    for bank in observation.hardware.banks:
        built = Resources({MEMORY: bank.memory}).plus(bank.huge)
        for resource in sorted({name for zone, name in allocatable if zone == bank.zone}):
            there = allocatable[bank.zone, resource]
            yield bank.zone, resource, (max(built.get(resource, 0), there), there, free[bank.zone, resource])


def _free_memory(
    allocatable: Counter[tuple[ZoneId, str]], held: Iterable[MemoryBlock]
) -> Mapping[tuple[ZoneId, str], int]:
    """What blocks leave of it: those of one zone take theirs first."""
    free = dict(allocatable)
    for block in sorted(held, key=lambda block: (len(block.zones), block.zones)):
        wanted = block.size
        for zone in block.zones:
            taken = min(wanted, free.get((zone, block.resource), 0))
            wanted -= taken
            if taken:
                free[zone, block.resource] -= taken
    return free


def _device_amounts(pods: tuple[KeptPod, ...], seen: SeenDevices) -> Told:
    """Devices of which the plugin told where they sit."""
    held = _held(pods)
    counts: dict[tuple[ZoneId, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for (resource, zones), ids in seen.most.items():
        for zone in zones:
            counts[zone, resource][0] += len(ids)
    for key, zones in seen.zones.items():
        for zone in zones:
            counts[zone, key[0]][1] += 1
            counts[zone, key[0]][2] += key not in held
    for (zone, resource), (total, healthy, left) in counts.items():
        yield zone, resource, (total, healthy, left)
