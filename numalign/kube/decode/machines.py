"""
A described machine: its cores, caches, memory and devices, zone by zone.

Nothing in a cluster publishes all of it, so users and recordings write it down, and an error in a description
makes it another machine. So unknown fields are mistakes here, and contradictions are refused with every
mistake. The amounts of zones depend on the kubelet's policies, so they are computed elsewhere, where the
machine is joined with the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from numalign.kube.decode.parts import Part, named
from numalign.model import quantity, resources
from numalign.model.bitset import union
from numalign.model.errors import BadQuantity, BadTopology
from numalign.model.machine import (
    LARGEST_ZONE,
    MOST_CPUS,
    UNKNOWN_ZONE,
    Core,
    CpuSet,
    DevicePlace,
    all_places,
    device_places,
    existing,
    render_list,
)
from numalign.model.resources import MEMORY, Kind, Resources, ZoneId, kind

_FIELDS = ("zones", "reservedSystemCPUs", "reservedCPUs", "devices")
_ZONE_FIELDS = (
    "id", "socket", "cores", "uncoreCaches", "uncoreCacheIDs", "memory", "reservedMemory", "hugepages",
    "distances",
)  # fmt: skip
_DEVICE_FIELDS = ("id", "zones", "healthy")

PlacesReader = Callable[[Part, Sequence[ZoneId]], Iterable[DevicePlace]]
"""Reads the places of one resource's devices, on a machine with these zones."""


@dataclass(frozen=True, slots=True)
class ZoneMemory:
    """The memory of one zone in bytes, and its distances to all, ascending by id; empty if not set."""

    zone: ZoneId
    memory: int
    reserved: int | None
    huge: Resources
    distances: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DescribedMachine:
    """A machine as described, `banks` ascending by zone.

    The CPUs reserved for the system (`reserved`), or else their number (`kept`), are None if not set.
    `devices` has the places of each resource, as `machine.all_places` returns them.
    """

    banks: tuple[ZoneMemory, ...]
    cores: tuple[Core, ...]
    reserved: CpuSet | None = None
    kept: int | None = None
    devices: tuple[tuple[str, tuple[DevicePlace, ...]], ...] = ()

    @property
    def zones(self) -> tuple[ZoneId, ...]:
        """All zone ids, ascending."""
        return tuple(bank.zone for bank in self.banks)

    @property
    def cpus(self) -> CpuSet:
        """All CPUs."""
        return union(core.threads for core in self.cores)


def machine(raw: Mapping[str, object]) -> DescribedMachine:
    """Return the machine in a description; raise `BadTopology` with every mistake."""
    part = Part(raw)
    read = described(part)
    part.raise_mistakes(BadTopology)
    return read


def one_by_one(listed: Part, zones: Sequence[ZoneId]) -> Iterable[DevicePlace]:
    """Return the places of devices that are listed with id, zones (none: unknown) and health."""
    devices = []
    by_id: dict[str, Part] = {}
    for part in listed.objects():
        part.only(_DEVICE_FIELDS)
        place = part["id"]
        if (name := place.required_text()) and by_id.setdefault(name, part) is not part:
            place.wrong(f"{named(name)} is also the ID of {by_id[name].where}")
        at = existing(known_zone(entry, zones) for entry in part["zones"].elements())
        devices.append((at, part["healthy"].boolean() is not False))
    return device_places(zones, devices)


def described(part: Part, places: PlacesReader = one_by_one) -> DescribedMachine:
    """Return the machine with devices listed as `places` reads them; mistakes are left in the part."""
    part.only(_FIELDS)
    listed = part["zones"].required()
    zones = [*_numbered(listed)]
    if listed.value == []:
        listed.wrong("is empty: a machine has at least one zone")
    cores = tuple(_cores(zones))
    if not cores and not part.mistakes:
        listed.wrong("contain no CPU: a machine has at least one core")
    # CPUs are reserved for the system by id or by number.
    by_name, by_number = part["reservedSystemCPUs"], part["reservedCPUs"]
    cpus = union(core.threads for core in cores)
    reserved, kept = by_name.cpu_list(), by_number.integer()
    if reserved and reserved & ~cpus:
        by_name.wrong(f"CPU {render_list(reserved & ~cpus)} is not on this machine")
    if reserved is not None and by_number.value is not None:
        by_number.wrong("cannot be combined with reservedSystemCPUs: remove one of them")
    elif kept is not None and kept > cpus.bit_count():
        by_number.wrong(f"{kept} is more than the {cpus.bit_count()} CPUs of this machine")
    banks = sorted((_bank(zone, part, len(zones)) for zone, part in zones), key=lambda bank: bank.zone)
    ids = tuple(bank.zone for bank in banks)
    devices = []
    for name, named_devices in sorted(part["devices"].members(), key=itemgetter(0)):
        if kind(name) is not Kind.DEVICE:
            named_devices.wrong("is not a device: CPUs and memory belong to their zones")
        devices.append((name, all_places(ids, places(named_devices, ids))))
    return DescribedMachine(tuple(banks), cores, reserved, kept, tuple(devices))


def _numbered(listed: Part) -> Iterator[tuple[ZoneId, Part]]:
    by_id: dict[int, Part] = {}
    for part in listed.objects():
        part.only(_ZONE_FIELDS)
        place = part["id"].required()
        number = place.integer() or 0
        if number > LARGEST_ZONE:
            place.wrong(f"{number} is above {LARGEST_ZONE}, the highest NUMA node ID of Linux")
        elif place.value is not None and by_id.setdefault(number, place) is not place:
            place.wrong(f"{number} is also the ID of {by_id[number].where.removesuffix('.id')}")
        yield ZoneId(number), part


def _cores(zones: Sequence[tuple[ZoneId, Part]]) -> Iterator[Core]:
    """Yield the cores of all zones; caches without ids are numbered from zone to zone."""
    by_cpu: dict[int, Part] = {}
    with_ids = any(part["uncoreCacheIDs"].value is not None for _, part in zones)
    first = 0
    for zone, part in zones:
        held = [(core, _cpus(core.required(), by_cpu)) for core in part["cores"].elements()]
        caches = _caches(part["uncoreCaches"], union(threads for _, threads in held))
        if not with_ids:
            numbers = [first + _cache_of(core, threads, caches) for core, threads in held]
        else:
            # The id of a cache is unique on the machine.
            grouped, listed = part["uncoreCaches"], part["uncoreCacheIDs"]
            if grouped.value is not None:
                grouped.wrong("cannot be combined with uncoreCacheIDs: remove one of them")
            numbers = _by_core(listed.required() if held else listed, len(held))
        sockets = _by_core(part["socket"].required() if held else part["socket"], len(held))
        for (_, threads), socket, cache in zip(held, sockets, numbers, strict=True):
            yield Core(zone, socket, cache, threads)
        first += len(caches)


def _by_core(listed: Part, count: int) -> list[int]:
    """Return a number for each core of a zone: one for all of them, or a list."""
    if not isinstance(listed.value, list):
        return [listed.integer() or 0] * count
    numbers = [part.required().integer() or 0 for part in listed.elements()]
    if len(numbers) == count:
        return numbers
    listed.wrong(f"has {len(numbers)} entries: expected {count}, one for each core")
    return [0] * count


def _cpus(listed: Part, by_cpu: dict[int, Part]) -> CpuSet:
    """Return the CPUs in a list, none of which may have been listed before."""
    cpus = 0
    for part in listed.elements():
        number = part.required().integer() or 0
        if number >= MOST_CPUS:
            part.wrong(f"{number} is above {MOST_CPUS - 1}, the highest CPU ID of Linux")
        elif part.value is not None and by_cpu.setdefault(number, part) is not part:
            part.wrong(f"CPU {number} is also listed at {by_cpu[number].where}")
        elif part.value is not None:
            cpus |= 1 << number
    if listed.value == []:
        listed.wrong("is empty: remove it")
    return cpus


def _caches(listed: Part, cpus: CpuSet) -> list[CpuSet]:
    by_cpu: dict[int, Part] = {}
    caches = []
    for part in listed.elements():
        cache = _cpus(part, by_cpu)
        if strange := cache & ~cpus:
            part.wrong(f"CPU {render_list(strange)} is in no core of this zone")
        caches.append(cache)
    return caches or [cpus]


def _cache_of(core: Part, threads: CpuSet, caches: list[CpuSet]) -> int:
    for at, cache in enumerate(caches):
        if threads & ~cache == 0:
            return at
    core.wrong(f"CPU {render_list(threads)} is not in one of the uncoreCaches of its zone")
    return 0


def _bank(zone: ZoneId, part: Part, count: int) -> ZoneMemory:
    memory, listed = part["memory"].required(), part["distances"]
    total, reserved = memory.amount(MEMORY), part["reservedMemory"].amount(MEMORY)
    huge: dict[str, int] = {}
    for size, pages in part["hugepages"].members():
        try:
            page_bytes = quantity.units(size)
        except BadQuantity as error:
            pages.mistakes.extend(mistake.under(pages.where) for mistake in error.mistakes)
            continue
        name = f"hugepages-{quantity.render_units(page_bytes)}"
        if not page_bytes or name in huge:
            pages.wrong("is not a page size" if not page_bytes else f"is listed twice: {name}")
        huge[name] = page_bytes * (pages.integer() or 0)
    used = (reserved or 0) + sum(huge.values())
    if total is not None and used > total:
        shown = [resources.render(MEMORY, amount) for amount in (total, used)]
        memory.wrong(f"{shown[0]} is less than the {shown[1]} that are reserved and in hugepages")
    distances = tuple(distance.required().integer() or 0 for distance in listed.elements())
    if listed.value is not None and len(distances) != count:
        listed.wrong(f"has {len(distances)} entries: expected {count}, one for each zone, ascending by ID")
    return ZoneMemory(zone, total or 0, reserved, Resources(huge), distances)


def known_zone(part: Part, zones: Sequence[ZoneId]) -> ZoneId:
    """Return the zone of a device, or `UNKNOWN_ZONE`; note a mistake and return 0 for any other."""
    number = part.required().integer(least=UNKNOWN_ZONE)
    if part.value is not None and number not in (*zones, UNKNOWN_ZONE):
        part.wrong(f"there is no zone {number} on this machine")
    return ZoneId(number or 0)
