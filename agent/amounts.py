"""
Compute what the zones of a node have, and what each pod holds of them, as amounts.

Amounts are keyed by sets of zones, as in a pod's placement. A zone's own amounts are those that other
exporters publish: for each resource that the kubelet allocates by zone its capacity, what is allocatable, and
what is available. A device on several zones counts in each of them. Memory on several zones is taken from the
lowest zones first, as the memory manager does (updateMachineState of memorymanager/policy_static.go).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from agent.identities import KeptPod, ids
from agent.observation import Hardware, Observation, Sites
from numalign.model.bitset import union
from numalign.model.machine import UNKNOWN_ZONE, CpuSet, DevicePlace, existing
from numalign.model.placement import Held
from numalign.model.resources import CPU, MEMORY, MILLI, Resources, ZoneId

Place = tuple[str, frozenset[ZoneId]]
"""A resource, and the zones that some of its devices are on."""

MOST_SEEN = 2**16
"""Most devices that are remembered; above it, those that are gone are forgotten."""

AmountRow = tuple[int, int, int]
"""Capacity, allocatable, available."""


@dataclass(frozen=True, slots=True)
class SeenDevices:
    """
    The devices that an agent sees, and the most that it has seen at once since it started.

    `zones` has the zones of each device that is listed or held; unhealthy devices are no longer listed.
    `most` has the IDs of each place when there were most. IDs from different times are never added up: a
    plugin may rename its devices whenever it starts.
    """

    zones: Sites = field(default_factory=dict)
    most: Mapping[Place, frozenset[str]] = field(default_factory=dict)

    def plus(self, observation: Observation, pods: Iterable[KeptPod]) -> "SeenDevices":
        """Return the devices that are listed or held now, and the most until now."""
        held = (devices for pod in pods for devices in pod.devices)
        listed = {(devices.resource, each): devices.zones for devices in held for each in devices.ids}
        # A checkpoint does not tell an unknown zone from none.
        listed |= {(device.resource, device.id): device.zones for device in observation.allocatable.devices}
        # A zone that the machine does not have is an unknown one: the kubelet finds no hint for either.
        known = {bank.zone for bank in observation.hardware.banks}
        zones = {
            key: existing(zone if zone in known else UNKNOWN_ZONE for zone in placed)
            for key, placed in listed.items()
        }
        by_place = defaultdict[Place, set[str]](set)
        for (resource, device), placed in zones.items():
            by_place[resource, placed].add(device)
        now = {place: frozenset(devices) for place, devices in by_place.items()}
        most = dict(now)
        for (resource, before), devices in self.most.items():
            # Those that are not reported in another place now. Of equally many the newer ones: older ones may
            # now be reported on other zones.
            stayed = frozenset(each for each in devices if zones.get((resource, each), before) == before)
            if len(stayed) > len(now.get((resource, before), ())):
                most[resource, before] = stayed
        if sum(map(len, most.values())) > MOST_SEEN:
            most = now
        return SeenDevices(MappingProxyType(zones), MappingProxyType(most))


def zone_name(zone: ZoneId) -> str:
    """Return the name that exporters use for a zone."""
    return f"node-{zone}"


def held_by(pod: KeptPod, cpus: Mapping[ZoneId, CpuSet], seen: SeenDevices) -> Held:
    """Return what a pod holds; `cpus` has the CPUs of each zone."""
    amounts: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for zone, there in cpus.items():
        if count := (pod.cpus & there).bit_count():
            amounts[zone_name(zone),][CPU] = count * MILLI
    for block in pod.memory:
        amounts[_names(block.zones)][block.resource] += block.size
    for held in pod.devices:
        for each in held.ids:
            amounts[_names(seen.zones[held.resource, each] - {UNKNOWN_ZONE})][held.resource] += 1
    return {zones: Resources(amounts[zones]) for zones in sorted(amounts)}


def _names(zones: Iterable[ZoneId]) -> tuple[str, ...]:
    return tuple(sorted(map(zone_name, zones)))


def zone_cpus(hardware: Hardware) -> Mapping[ZoneId, CpuSet]:
    """Return the CPUs of every zone, ascending by ID; a zone may have none."""
    return {
        bank.zone: union(core.threads for core in hardware.cores if core.zone == bank.zone)
        for bank in hardware.banks
    }


def places(seen: SeenDevices) -> dict[str, tuple[DevicePlace, ...]]:
    """Return by resource where its devices are; those that are listed or held are healthy."""
    healthy = Counter((resource, zones) for (resource, _), zones in seen.zones.items())
    by_resource: dict[str, list[DevicePlace]] = defaultdict(list)
    for place in sorted(seen.most, key=lambda place: (place[0], sorted(place[1]))):
        resource, zones = place
        by_resource[resource].append(DevicePlace(tuple(sorted(zones)), len(seen.most[place]), healthy[place]))
    return {resource: tuple(listed) for resource, listed in by_resource.items()}


def zone_amounts(
    observation: Observation, pods: tuple[KeptPod, ...], seen: SeenDevices
) -> dict[ZoneId, dict[str, AmountRow]]:
    """Return by zone the amounts of each resource that the kubelet allocates by zone, sorted by name."""
    zones: dict[ZoneId, dict[str, AmountRow]] = {bank.zone: {} for bank in observation.hardware.banks}
    allocatable = observation.allocatable.cpus
    free = allocatable & ~union(pod.cpus for pod in pods)
    for zone, cpus in zone_cpus(observation.hardware).items() if allocatable else ():
        total, usable, left = ((cpus & some).bit_count() * MILLI for some in (cpus, allocatable, free))
        zones[zone][CPU] = (total, usable, left)
    for zone, resource, amounts in (*_memory_amounts(observation, pods), *_device_amounts(pods, seen)):
        zones[zone][resource] = amounts
    return {zone: dict(sorted(amounts.items())) for zone, amounts in zones.items()}


_Rows = Iterator[tuple[ZoneId, str, AmountRow]]


def _memory_amounts(observation: Observation, pods: tuple[KeptPod, ...]) -> _Rows:
    """Yield memory and hugepages, if a manager allocates them."""
    allocatable: Counter[tuple[ZoneId, str]] = Counter()
    for block in observation.allocatable.memory:
        # Each block is on one zone (memorymanager/policy_static.go, GetAllocatableMemory).
        for zone in block.zones[:1]:
            allocatable[zone, block.resource] += block.size
    free = dict(allocatable)
    held = [block for pod in pods for block in pod.memory]
    # Blocks on one zone are subtracted first.
    for block in sorted(held, key=lambda block: (len(block.zones), block.zones)):
        wanted = block.size
        for zone in block.zones:
            taken = min(wanted, free.get((zone, block.resource), 0))
            wanted -= taken
            if taken:
                free[zone, block.resource] -= taken
    for bank in observation.hardware.banks:
        built = Resources({MEMORY: bank.memory}).plus(bank.huge)
        for resource in sorted({name for zone, name in allocatable if zone == bank.zone}):
            usable = allocatable[bank.zone, resource]
            total = max(built.get(resource, 0), usable)
            yield bank.zone, resource, (total, usable, free[bank.zone, resource])


def _device_amounts(pods: tuple[KeptPod, ...], seen: SeenDevices) -> _Rows:
    """Yield the devices whose plugins report zones."""
    held = {device for pod in pods for device in ids(pod.devices)}
    counts: dict[tuple[ZoneId, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for (resource, zones), names in seen.most.items():
        for zone in zones - {UNKNOWN_ZONE}:
            counts[zone, resource][0] += len(names)
    for key, zones in seen.zones.items():
        for zone in zones - {UNKNOWN_ZONE}:
            counts[zone, key[0]][1] += 1
            counts[zone, key[0]][2] += key not in held
    for (zone, resource), (total, healthy, left) in counts.items():
        yield zone, resource, (total, healthy, left)
