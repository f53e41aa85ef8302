"""
The device manager: the hints for devices, and the places of the devices that a container gets.

Restates topology_hints.go and devicesToAllocate of pkg/kubelet/cm/devicemanager. Devices with the same zones
are equal, so only amounts by place count: every zone is a place, and so is every set of zones between which a
device is, or no zone. The kubelet chooses freely among equal devices; the lowest place is as good as any and
deterministic, and `Allocation.chosen` is set if another would do.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from numalign.kubelet import bitmask, hint_sets
from numalign.kubelet.bitmask import Mask, ZoneAmounts, add, draw, subtract
from numalign.kubelet.hint_sets import HintSet
from numalign.kubelet.topology_manager import ResourceHints, hints_preferring, impossible
from numalign.model.bitset import bits, union
from numalign.model.demand import Step
from numalign.model.node import Node
from numalign.model.options import KubeletChange
from numalign.model.pod import Role
from numalign.model.resources import Resources

NOWHERE: Mask = 0
"""The place of devices without NUMA information."""

ELSEWHERE: Mask = 1 << 64
"""The place of devices whose plugin reports a zone that does not exist: no mask has more than 64 zones."""

UNPLACED = frozenset({NOWHERE, ELSEWHERE})


@dataclass(frozen=True, slots=True)
class Devices:
    """All devices of one resource by place, whatever their state; the first `zones` places are the zones.

    `healthy` counts those that can be allocated. `hosts` are the zones that have a device, `aligned` is
    whether the kubelet generates hints (deviceHasTopologyAlignment): a device of a zone that does not exist
    is enough. `near` means that hints include only `hosts`, as from Kubernetes 1.36 on.
    """

    places: tuple[Mask, ...]
    total: ZoneAmounts
    zones: int
    healthy: ZoneAmounts
    near: bool
    hosts: Mask = field(init=False)
    aligned: bool = field(init=False)

    def __post_init__(self) -> None:
        placed = union(place for place, count in zip(self.places, self.total, strict=True) if count)
        object.__setattr__(self, "aligned", bool(placed))
        object.__setattr__(self, "hosts", placed & ~ELSEWHERE)

    def reaching(self, amounts: ZoneAmounts, request: int) -> HintSet:
        """Return the masks that are touched by at least `request` of these devices."""
        return hint_sets.reaching(amounts[: self.zones], request, tuple(self._between_zones(amounts)))

    def in_zones(self, amounts: ZoneAmounts) -> ZoneAmounts:
        """Return how many of these devices each zone has; a device between zones counts for each of them."""
        if len(amounts) == self.zones:
            return amounts
        wide = list(self._between_zones(amounts))
        return tuple(
            [
                own + sum([count for place, count in wide if place >> at & 1])
                for at, own in enumerate(amounts[: self.zones])
            ]
        )

    def _between_zones(self, amounts: ZoneAmounts) -> Iterator[tuple[Mask, int]]:
        beyond = zip(self.places[self.zones :], amounts[self.zones :], strict=True)
        return ((place, count) for place, count in beyond if count)


class DeviceState(NamedTuple):
    """The devices of one resource by place: free ones, and those given to init containers of this pod."""

    devices: Devices
    free: ZoneAmounts
    reusable: ZoneAmounts

    def charged(self, taken: ZoneAmounts, role: Role) -> "DeviceState":
        """Return the state after a container; reusable devices are used before new ones."""
        if role is not Role.INIT and not any(self.reusable):
            return DeviceState(self.devices, subtract(self.free, taken), self.reusable)
        # devicesToAllocate takes reusable devices first, so all reusable ones of a place are reused.
        again = tuple(map(min, taken, self.reusable))
        new = subtract(taken, again)
        # An init container adds to the reusable devices, a sidecar or an app removes them for good.
        kept = add(self.reusable, new) if role is Role.INIT else subtract(self.reusable, again)
        return DeviceState(self.devices, subtract(self.free, new), kept)


DeviceStates = Mapping[str, DeviceState]
"""By resource name."""


class Allocation(NamedTuple):
    """The devices that a container gets of one resource, by place; `chosen` if others would do too."""

    amounts: ZoneAmounts
    chosen: bool


def states(node: Node, names: Iterable[str]) -> DeviceStates:
    """Return the state of those of these resources that a plugin has registered on this node."""
    near, registered = KubeletChange.HINTS_WHERE_DEVICES_ARE in node.options.changes, dict[str, DeviceState]()
    # A described machine has devices between zones and unhealthy ones; a topology shows neither.
    if node.machine and node.stock:
        stock, described = dict(node.stock.devices), dict(node.machine.devices)
        position = {zone: at for at, zone in enumerate(node.ids)}
        for name in sorted(described.keys() & set(names)):
            places = described[name]
            devices = Devices(
                places=tuple(
                    ELSEWHERE if place.zones != place.known else bits(position[zone] for zone in place.zones)
                    for place in places
                ),
                # generateDeviceTopologyHints counts allDevices, unhealthy ones included, for the least width.
                total=tuple(place.total for place in places),
                zones=len(position),
                healthy=tuple(place.healthy for place in places),
                near=near,
            )
            registered[name] = DeviceState(devices, stock[name], (0,) * len(places))
        return registered
    capacity = tuple([zone.capacity for zone in node.zones])
    allocatable = tuple([zone.allocatable for zone in node.zones])
    for name in sorted(node.devices & set(names)):
        devices = _devices(capacity, allocatable, name, near=near)
        free = tuple([zone.free.get(name, 0) for zone in node.zones])
        registered[name] = DeviceState(devices, free, (0,) * len(free))
    return registered


def topology_hints(states: DeviceStates, step: Step) -> list[ResourceHints]:
    """Return the hints for each device of a step (GetTopologyHints); none without NUMA information."""
    # GetTopologyHints checks no QoS class: devices of Burstable and BestEffort pods are aligned too.
    return [
        _hints(name, state, step.devices[name])
        for name, state in states.items()
        if name in step.devices and state.devices.aligned
    ]


def min_affinity_size(devices: Devices, request: int) -> int:
    """Return the fewest zones whose devices, busy and unhealthy ones included, reach a request; else all."""
    zones = devices.zones
    # Up to 1.35 the walk began with all zones of the machine, so zones without a device widen it.
    largest = devices.hosts.bit_count() if devices.near and devices.hosts else zones
    if not any(devices.total[zones:]):
        return bitmask.fewest(devices.total[:zones], request) or largest
    return min(largest, hint_sets.narrowest_width(devices.reaching(devices.total, request), largest))


def allocate(
    states: DeviceStates, step: Step, mask: Mask | None
) -> tuple[DeviceStates, dict[str, Allocation]] | str:
    """Return what a container gets of each resource, or the name of the first resource with too few."""
    after, taken = dict(states), {}
    # The kubelet iterates over a Go map here, so the first by name is as good as any.
    for name in sorted(states.keys() & step.devices.keys()):
        state, request = states[name], step.devices[name]
        # A plugin without a healthy device counts as gone, even for a request of zero.
        if not any(state.devices.healthy) or sum(state.free) + sum(state.reusable) < request:
            return name
        taken[name] = _allocation(state, request, mask)
        after[name] = state.charged(taken[name].amounts, step.role)
    return after, taken


@lru_cache(maxsize=4096)
def _devices(
    capacity: tuple[Resources, ...], allocatable: tuple[Resources, ...], name: str, *, near: bool
) -> Devices:
    total = tuple(amounts.get(name, 0) for amounts in capacity)
    healthy = tuple(amounts.get(name, 0) for amounts in allocatable)
    return Devices(tuple(1 << at for at in range(len(total))), total, len(total), healthy, near)


def _hints(name: str, state: DeviceState, request: int) -> ResourceHints:
    """Restate generateDeviceTopologyHints: masks touched by enough healthy devices, free or reusable."""
    devices, available = state.devices, state.free
    # Reusable devices count as free ones, whichever init container left them.
    if any(state.reusable):
        available = add(available, state.reusable)
    # Devices without NUMA information count here, though they touch no mask.
    if sum(available) < request:
        return impossible(name)
    # A device between zones touches each of them, and counts in full for each mask that it touches.
    hinted = devices.hosts if devices.near and devices.hosts else bitmask.full(devices.zones)
    enough = hint_sets.inside(hinted) & devices.reaching(available, request)
    if any(state.reusable):
        # Each reusable device restricts the hints to masks that touch its zones, if it has any.
        for place, count in zip(devices.places, state.reusable, strict=True):
            if count and place != NOWHERE:
                enough &= hint_sets.touching(place, devices.zones)
    return hints_preferring(name, enough, min_affinity_size(devices, request))


def _allocation(state: DeviceState, request: int, mask: Mask | None) -> Allocation:
    """Restate devicesToAllocate: reusable devices, then those touching the affinity, then the others."""
    taken, chosen, missing = (0,) * len(state.free), False, request
    if any(state.reusable):
        taken, chosen = _drawn(state.reusable, range(len(state.free)), request)
        missing -= sum(taken)
    # Aligned, unaligned, and without NUMA information: the next group is used when one is exhausted.
    for group in _by_affinity(state.devices, mask) if missing else ():
        more, either = _drawn(state.free, group, missing)
        taken, chosen, missing = add(taken, more), chosen or either, missing - sum(more)
        if not missing:
            break
    return Allocation(taken, chosen)


def _drawn(amounts: ZoneAmounts, group: Sequence[int], request: int) -> Allocation:
    """Take `request` devices from places that are equally good."""
    # Where several places of a group have more than is needed, the kubelet picks in Go map order. A plugin
    # with GetPreferredAllocation chooses by itself, which cannot be known from outside.
    open_to = [amounts[at] for at in group if amounts[at]]
    return Allocation(draw(amounts, group, request), len(open_to) > 1 and 0 < request < sum(open_to))


def _by_affinity(devices: Devices, mask: Mask | None) -> Iterator[Sequence[int]]:
    """Yield the places that are equally good, the best first (filterByAffinity)."""
    places = list(enumerate(devices.places))
    # All are equal for a container without affinity, and for a resource without any NUMA information.
    if mask is None or not devices.aligned:
        yield range(len(places))
        return
    yield [at for at, place in places if place & mask]
    yield [at for at, place in places if place not in UNPLACED and not place & mask]
    yield [at for at, place in places if place in UNPLACED]
