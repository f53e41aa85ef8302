"""
The device manager: the hints for devices, and where those come from that a container gets.

Restates topology_hints.go and devicesToAllocate of pkg/kubelet/cm/devicemanager. Devices that sit alike are
equal, so amounts by place are all that counts: every zone is a place, and so is every set of zones between
which a device sits, or none. Which of equal devices the kubelet takes is its free choice; the lowest place is
as good as any and the same every time, and `Taken.chosen` says where another would have been.
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
"""The place of devices of which nobody knows where they sit."""


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
        hosts = union([place for place, count in zip(self.places, self.total, strict=True) if count])
        object.__setattr__(self, "hosts", hosts)

    @property
    def hinted(self) -> HintSet:
        """Every mask that could be a hint."""
        return hint_sets.inside(self.hosts if self.near else bitmask.full(self.zones))

    def reaching(self, amounts: ZoneAmounts, asked: int) -> HintSet:
        """The masks on whose zones as many of these devices sit as are asked for."""
        return hint_sets.reaching(amounts[: self.zones], asked, tuple(self._wide(amounts)))

    def in_zones(self, amounts: ZoneAmounts) -> ZoneAmounts:
        """How many of these devices sit on each zone; one between zones counts for each of them."""
        if len(amounts) == self.zones:
            return amounts
        wide = list(self._wide(amounts))
        return tuple(
            [
                own + sum([count for place, count in wide if place >> at & 1])
                for at, own in enumerate(amounts[: self.zones])
            ]
        )

    def _wide(self, amounts: ZoneAmounts) -> Iterator[tuple[Mask, int]]:
        beyond = zip(self.places[self.zones :], amounts[self.zones :], strict=True)
        return ((place, count) for place, count in beyond if count)


class DeviceState(NamedTuple):
    """The devices of one resource while one pod is admitted: not given out, and to be used again by it."""

    devices: Devices
    free: ZoneAmounts
    reusable: ZoneAmounts

    @property
    def places(self) -> tuple[Mask, ...]:
        """The zones of every place."""
        return self.devices.places

    def charged(self, taken: ZoneAmounts, role: Role) -> "DeviceState":
        """The pool after a container; what can be used again is used before anything new."""
        if role is not Role.INIT and not any(self.reusable):
            return DeviceState(self.devices, subtract(self.free, taken), self.reusable)
        again = tuple(map(min, taken, self.reusable))
        new = subtract(taken, again)
        kept = add(self.reusable, new) if role is Role.INIT else subtract(self.reusable, again)
        return DeviceState(self.devices, subtract(self.free, new), kept)


DeviceStates = Mapping[str, DeviceState]
"""By resource name."""


class Allocation(NamedTuple):
    """What a container gets of one resource, by place; `chosen` if equal devices elsewhere would do too."""

    amounts: ZoneAmounts
    chosen: bool


def states(node: Node, names: Iterable[str]) -> DeviceStates:
    """The devices of those among these names that are registered on this node."""
    if node.machine and node.stock:
        stock = dict(node.stock.devices)
        places = dict(node.machine.devices)
        return {name: _described(node, places[name], stock[name]) for name in sorted(names) if name in places}
    return {name: _counted(node, name) for name in sorted(names) if name in node.devices}


def topology_hints(pools: DeviceStates, step: Step) -> list[ResourceHints]:
    """The hints for each device resource that a step names; none for one without any topology."""
    return [
        _offer(name, pool, step.devices[name])
        for name, pool in pools.items()
        if name in step.devices and pool.devices.hosts
    ]


def min_affinity_size(devices: Devices, asked: int) -> int:
    """The fewest zones whose devices, busy and unhealthy ones included, reach what is asked."""
    zones = devices.zones
    all_of_them = devices.hosts.bit_count() if devices.near else zones
    if not any(devices.total[zones:]):
        return bitmask.fewest(devices.total[:zones], asked) or all_of_them
    return min(all_of_them, hint_sets.narrowest_width(devices.reaching(devices.total, asked), all_of_them))


def allocate(
    pools: DeviceStates, step: Step, mask: Mask | None
) -> tuple[DeviceStates, dict[str, Allocation]] | str:
    """What a container gets of each resource; or the name of the first one of which there are too few."""
    after, taken = dict(pools), {}
    for name in sorted(pools.keys() & step.devices.keys()):
        pool, asked = pools[name], step.devices[name]
        if not pool.devices.healthy or sum(pool.free) + sum(pool.reusable) < asked:
            return name
        taken[name] = _take(pool, asked, mask)
        after[name] = pool.charged(taken[name].amounts, step.role)
    return after, taken


def _described(node: Node, places: tuple[DevicePlace, ...], stock: tuple[int, ...]) -> DeviceState:
    position = {zone: at for at, zone in enumerate(node.ids)}
    devices = Devices(
        places=tuple(bits(position[zone] for zone in place.zones) for place in places),
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
    capacity: tuple[Resources, ...],
    allocatable: tuple[Resources, ...],
    name: str,
    *,
    near: bool,
) -> Devices:
    """Devices of which a topology counts those of each zone."""
    total = tuple(bag.get(name, 0) for bag in capacity)
    healthy = any(bag.get(name, 0) for bag in allocatable)
    return Devices(tuple(1 << at for at in range(len(total))), total, len(total), healthy, near)


def _offer(name: str, pool: DeviceState, asked: int) -> ResourceHints:
    devices, available = pool.devices, pool.free
    if any(pool.reusable):
        available = add(available, pool.reusable)
    if sum(available) < asked:
        return impossible(name)
    enough = devices.hinted & devices.reaching(available, asked)
    for place in _again(pool):
        enough &= hint_sets.touching(place, devices.zones)
    return hints_preferring(name, enough, min_affinity_size(devices, asked))


def _again(pool: DeviceState) -> list[Mask]:
    """The places of devices that can be used again: each anchors what follows, unless nobody knows where."""
    if not any(pool.reusable):
        return []
    known = zip(pool.places, pool.reusable, strict=True)
    return [place for place, count in known if count and place != NOWHERE]


def _take(pool: DeviceState, asked: int, mask: Mask | None) -> Allocation:
    """What can be used again first, then what touches the affinity, then what sits elsewhere or nowhere."""
    taken, chosen, left = (0,) * len(pool.free), False, asked
    if any(pool.reusable):
        taken, chosen = _drawn(pool.reusable, range(len(pool.free)), asked)
        left -= sum(taken)
    for group in _groups(pool, mask) if left else ():
        more, either = _drawn(pool.free, group, left)
        taken, chosen, left = add(taken, more), chosen or either, left - sum(more)
        if not left:
            break
    return Allocation(taken, chosen)


def _drawn(amounts: ZoneAmounts, group: Sequence[int], asked: int) -> Allocation:
    """So many from places that are as good as each other."""
    open_to = [amounts[at] for at in group if amounts[at]]
    return Allocation(draw(amounts, group, asked), len(open_to) > 1 and 0 < asked < sum(open_to))


def _groups(pool: DeviceState, mask: Mask | None) -> Iterator[Sequence[int]]:
    """The places that are as good as each other, the best first (filterByAffinity)."""
    places = pool.devices.places
    every = range(len(places))
    if mask is None or not pool.devices.hosts:
        yield every
        return
    yield [at for at in every if places[at] & mask]
    yield [at for at in every if places[at] and not places[at] & mask]
    yield [at for at in every if places[at] == NOWHERE]
