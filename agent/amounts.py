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

MOST_SEEN = 2**16
"""Devices that are remembered; beyond it those that are away are forgotten."""

AmountRow = tuple[int, int, int]
"""Capacity, allocatable, available."""


@dataclass(frozen=True, slots=True)
class SeenDevices:
    """Where each device sits that an agent has seen since it started; who is ill is not listed any more."""

    zones: Mapping[DeviceKey, frozenset[ZoneId]] = field(default_factory=dict)

    def plus(self, observation: Observation, pods: Iterable[KeptPod]) -> "SeenDevices":
        """These, and those that are listed or held now."""
        now = {(device.resource, device.id): device.zones for device in observation.allocatable.devices}
        held = [devices for pod in pods for devices in pod.devices]
        now |= {(devices.resource, each): devices.zones for devices in held for each in devices.ids}
        known = {bank.zone for bank in observation.hardware.banks}
        seen = {**self.zones, **{key: zones & known for key, zones in now.items()}}
        if len(seen) > MOST_SEEN:
            seen = {key: seen[key] for key in now}
        return SeenDevices(MappingProxyType(seen))


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


def places(
    observation: Observation, pods: Iterable[KeptPod], seen: SeenDevices
) -> dict[str, tuple[DevicePlace, ...]]:
    """By resource where its devices sit; healthy is what is listed or held."""
    usable = _usable(observation, pods)
    total = Counter((resource, zones) for (resource, _), zones in seen.zones.items())
    healthy = Counter((key[0], seen.zones[key]) for key in usable)
    found: dict[str, list[DevicePlace]] = defaultdict(list)
    for resource, zones in sorted(total, key=lambda place: (place[0], sorted(place[1]))):
        place = resource, zones
        found[resource].append(DevicePlace(tuple(sorted(zones)), total[place], healthy[place]))
    return {resource: tuple(listed) for resource, listed in found.items()}


def _usable(observation: Observation, pods: Iterable[KeptPod]) -> set[DeviceKey]:
    """The devices that are healthy, and those that a pod holds, which may have fallen ill since."""
    listed = {(device.resource, device.id) for device in observation.allocatable.devices}
    return listed | _held(pods)


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
        _device_amounts(observation, pods, seen),
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


def _device_amounts(observation: Observation, pods: tuple[KeptPod, ...], seen: SeenDevices) -> Told:
    """Devices of which the plugin told where they sit."""
    usable = _usable(observation, pods)
    free = usable - _held(pods)
    counts: dict[tuple[ZoneId, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for key, zones in seen.zones.items():
        for zone in zones:
            count = counts[zone, key[0]]
            for at, there in enumerate((True, key in usable, key in free)):
                count[at] += there
    for (zone, resource), (total, healthy, left) in counts.items():
        yield zone, resource, (total, healthy, left)
