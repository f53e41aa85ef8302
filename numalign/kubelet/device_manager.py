"""
The device manager: the hints for devices, and where those come from that a container gets.

Restates topology_hints.go and devicesToAllocate of pkg/kubelet/cm/devicemanager. Devices that sit alike are
equal, so amounts by place are all that counts: every zone is a place, and so is every set of zones between
which a device sits, or none. Which of equal devices the kubelet takes is its free choice; the lowest place is
as good as any and the same every time, and `Allocation.chosen` says where another would have been.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from numalign.kubelet import bitmask, hint_sets
from numalign.kubelet.bitmask import Mask
from numalign.kubelet.hint_sets import HintSet
from numalign.kubelet.topology_manager import ResourceHints, hints_preferring, impossible
from numalign.kubelet.zone_amounts import ZoneAmounts, add, draw, subtract
from numalign.model.bitset import bits, union
from numalign.model.demand import Step
from numalign.model.machine import DevicePlace
from numalign.model.node import Node
from numalign.model.pod import Role
from numalign.model.resources import Resources

NOWHERE: Mask = 0
"""The place of devices without NUMA information."""


@dataclass(frozen=True, slots=True)
class Devices:
    """All devices of one resource by place, whatever their state; the first so many places are the zones.

    `hosts` are the zones that have one. `near` says that hints hold only these zones, as they do from
    Kubernetes 1.36 on.
    """

    places: tuple[Mask, ...]
    total: ZoneAmounts
    zones: int
    healthy: bool
    near: bool
    hosts: Mask = field(init=False)

    def __post_init__(self) -> None:
        hosts = union(place for place, count in zip(self.places, self.total, strict=True) if count)
        object.__setattr__(self, "hosts", hosts)

    @property
    def hinted(self) -> HintSet:
        """Every mask that could be a hint."""
        return hint_sets.inside(self.hosts if self.near else bitmask.full(self.zones))

    def reaching(self, amounts: ZoneAmounts, request: int) -> HintSet:
        """Return the masks that so many of these devices touch."""
        return hint_sets.reaching(amounts[: self.zones], request, tuple(self._between_zones(amounts)))

    def in_zones(self, amounts: ZoneAmounts) -> ZoneAmounts:
        """Return how many of these devices sit on each zone; one between zones counts for each of them."""
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
    """The devices of one resource while one pod is admitted, by place: free ones, and `reusable` ones.

    The latter were given to init containers of this pod.
    """

    devices: Devices
    free: ZoneAmounts
    reusable: ZoneAmounts

    def charged(self, taken: ZoneAmounts, role: Role) -> "DeviceState":
        """Return the state after a container; what can be used again is used before anything new."""
        if role is not Role.INIT and not any(self.reusable):
            return DeviceState(self.devices, subtract(self.free, taken), self.reusable)
        # devicesToAllocate looks at reusable devices first, so whatever of a place is reusable is reused.
        again = tuple(map(min, taken, self.reusable))
        new = subtract(taken, again)
        # An init container adds to the set, a sidecar or an app takes out of it for good.
        kept = add(self.reusable, new) if role is Role.INIT else subtract(self.reusable, again)
        return DeviceState(self.devices, subtract(self.free, new), kept)


DeviceStates = Mapping[str, DeviceState]
"""By resource name."""


class Allocation(NamedTuple):
    """What a container gets of one resource, by place; `chosen` if equal devices elsewhere would do too."""

    amounts: ZoneAmounts
    chosen: bool


def states(node: Node, names: Iterable[str]) -> DeviceStates:
    """Return the devices of those among these resources that a plugin has registered on this node."""
    if node.machine and node.stock:
        # A described machine tells devices between zones and unhealthy ones; a topology shows neither.
        stock, places = dict(node.stock.devices), dict(node.machine.devices)
        return {name: _described(node, places[name], stock[name]) for name in sorted(names) if name in places}
    return {name: _counted(node, name) for name in sorted(names) if name in node.devices}


def topology_hints(states: DeviceStates, step: Step) -> list[ResourceHints]:
    """Return the hints for each device resource that a step names (GetTopologyHints).

    There are none for a resource of which no device has NUMA information: that is "don't care".
    """
    # GetTopologyHints looks at no QoS class: devices of Burstable and BestEffort pods are aligned too.
    return [
        _hints(name, state, step.devices[name])
        for name, state in states.items()
        if name in step.devices and state.devices.hosts
    ]


def min_affinity_size(devices: Devices, request: int) -> int:
    """Return the fewest zones whose devices, busy and unhealthy ones included, reach a request.

    Of more than there are it is all zones, and from Kubernetes 1.36 on all that have a device.
    """
    zones = devices.zones
    # Up to 1.35 the walk began with all zones of the machine, so zones without a device widen it.
    largest = devices.hosts.bit_count() if devices.near else zones
    if not any(devices.total[zones:]):
        return bitmask.fewest(devices.total[:zones], request) or largest
    return min(largest, hint_sets.narrowest_width(devices.reaching(devices.total, request), largest))


def allocate(
    states: DeviceStates, step: Step, mask: Mask | None
) -> tuple[DeviceStates, dict[str, Allocation]] | str:
    """Return what a container gets of each resource; or the name of the first one of which there are too few.

    The kubelet walks a Go map here, so the first by name is as good as any.
    """
    after, taken = dict(states), {}
    for name in sorted(states.keys() & step.devices.keys()):
        state, request = states[name], step.devices[name]
        # A plugin without a healthy device is as good as gone, even for a request of zero.
        if not state.devices.healthy or sum(state.free) + sum(state.reusable) < request:
            return name
        taken[name] = _allocation(state, request, mask)
        after[name] = state.charged(taken[name].amounts, step.role)
    return after, taken


def _described(node: Node, places: tuple[DevicePlace, ...], stock: tuple[int, ...]) -> DeviceState:
    position = {zone: at for at, zone in enumerate(node.ids)}
    devices = Devices(
        places=tuple(bits(position[zone] for zone in place.zones) for place in places),
        # allDevices, unhealthy ones included, is what generateDeviceTopologyHints counts for the least width.
        total=tuple(place.total for place in places),
        zones=len(position),
        healthy=any(place.healthy for place in places),
        near=node.options.behaviour.hints_where_devices_are,
    )
    return DeviceState(devices, stock, (0,) * len(stock))


def _counted(node: Node, name: str) -> DeviceState:
    capacity = tuple([zone.capacity for zone in node.zones])
    allocatable = tuple([zone.allocatable for zone in node.zones])
    devices = _devices(capacity, allocatable, name, near=node.options.behaviour.hints_where_devices_are)
    free = tuple([zone.free.get(name, 0) for zone in node.zones])
    return DeviceState(devices, free, (0,) * len(free))


@lru_cache(maxsize=4096)
def _devices(
    capacity: tuple[Resources, ...], allocatable: tuple[Resources, ...], name: str, *, near: bool
) -> Devices:
    """Devices of which a topology counts those of each zone."""
    total = tuple(amounts.get(name, 0) for amounts in capacity)
    healthy = any(amounts.get(name, 0) for amounts in allocatable)
    return Devices(tuple(1 << at for at in range(len(total))), total, len(total), healthy, near)


def _hints(name: str, state: DeviceState, request: int) -> ResourceHints:
    """As generateDeviceTopologyHints: masks that enough healthy devices touch, free or reusable."""
    devices, available = state.devices, state.free
    # Reusable devices count beside free ones, whichever init container left them.
    if any(state.reusable):
        available = add(available, state.reusable)
    # Devices without NUMA information count here, though they touch no mask.
    if sum(available) < request:
        return impossible(name)
    # A device between zones touches each of them, and counts in full for each mask that it touches.
    enough = devices.hinted & devices.reaching(available, request)
    if any(state.reusable):
        # Each reusable device anchors what follows to its zones, unless it has none.
        for place, count in zip(devices.places, state.reusable, strict=True):
            if count and place != NOWHERE:
                enough &= hint_sets.touching(place, devices.zones)
    return hints_preferring(name, enough, min_affinity_size(devices, request))


def _allocation(state: DeviceState, request: int, mask: Mask | None) -> Allocation:
    """As devicesToAllocate: reusable ones, what touches the affinity, then what sits elsewhere or nowhere."""
    taken, chosen, missing = (0,) * len(state.free), False, request
    if any(state.reusable):
        taken, chosen = _drawn(state.reusable, range(len(state.free)), request)
        missing -= sum(taken)
    # Aligned, unaligned, and without NUMA information: the next group is opened when one is used up.
    for group in _by_affinity(state.devices, mask) if missing else ():
        more, either = _drawn(state.free, group, missing)
        taken, chosen, missing = add(taken, more), chosen or either, missing - sum(more)
        if not missing:
            break
    return Allocation(taken, chosen)


def _drawn(amounts: ZoneAmounts, group: Sequence[int], request: int) -> Allocation:
    """So many from places that are as good as each other."""
    # Where a group has more than is needed in several places, the kubelet picks in Go map order.
    # A plugin with GetPreferredAllocation chooses by itself, which nobody outside of it can know.
    open_to = [amounts[at] for at in group if amounts[at]]
    return Allocation(draw(amounts, group, request), len(open_to) > 1 and 0 < request < sum(open_to))


def _by_affinity(devices: Devices, mask: Mask | None) -> Iterator[Sequence[int]]:
    """Yield the places that are as good as each other, the best first (filterByAffinity)."""
    places = list(enumerate(devices.places))
    # All are alike to a container without affinity, and of a resource without any NUMA information.
    if mask is None or not devices.hosts:
        yield range(len(places))
        return
    yield [at for at, place in places if place & mask]
    yield [at for at, place in places if place and not place & mask]
    yield [at for at, place in places if place == NOWHERE]
