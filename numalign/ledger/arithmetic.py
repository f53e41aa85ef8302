"""
Held amounts, subtracted from the free amounts of a node's zones and added back to them.

Records use the names of zones, nodes their ids. An amount that spans several zones is drawn from the first of
them that have it, after those on a single zone, which have no choice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from numalign.kubelet.observed_state import ObservedContainer, observe
from numalign.model.demand import WHOLE_POD, Demand, Step
from numalign.model.machine import CpuSet
from numalign.model.node import Node, Zone
from numalign.model.placement import Held, ZoneSet
from numalign.model.pod import Qos, Role
from numalign.model.resources import CPU, EMPTY, Resources

Amounts = Mapping[ZoneSet, Resources]
"""Amounts by sets of zones, given by their ids."""


def named(amounts: Amounts, node: Node) -> Held:
    """Return the same amounts, without empty ones, by the names of the node's zones."""
    names = {zone.id: zone.name for zone in node.zones}
    return MappingProxyType(
        {tuple(names[zone] for zone in zones): bag for zones, bag in amounts.items() if bag}
    )


def by_id(held: Held, node: Node) -> Amounts | None:
    """Return the same amounts by the ids of zones; None if one of them does not exist."""
    ids = {zone.name: zone.id for zone in node.zones}
    if any(name not in ids for names in held for name in names):
        return None
    return merged({tuple(sorted(ids[name] for name in names)): bag} for names, bag in held.items())


def same(one: Held, other: Held) -> bool:
    """Return whether the same amounts are held on the same zones, in any order."""
    mine, theirs = ({frozenset(zones): bag for zones, bag in held.items()} for held in (one, other))
    return mine == theirs


def merged(bags: Iterable[Amounts]) -> Amounts:
    """Return the sum of amounts, by sets of zones in order."""
    total: dict[ZoneSet, Resources] = {}
    for amounts in bags:
        for zones, bag in amounts.items():
            total[zones] = total.get(zones, EMPTY).plus(bag)
    return {zones: total[zones] for zones in sorted(total)}


def entries(amounts: Amounts) -> Iterator[tuple[ZoneSet, str, int]]:
    """Yield every amount with its zones and the name of its resource, those on the fewest zones first."""
    for zones, bag in sorted(amounts.items(), key=lambda entry: (len(entry[0]), entry[0])):
        for name, amount in bag.items():
            yield zones, name, amount


def moved(node: Node, amounts: Amounts, sign: int) -> Node:
    """Return the node with these amounts more free, or less if -1, within zero and what is allocatable."""
    free = {zone.id: dict(zone.free) for zone in node.zones}
    most = {zone.id: zone.allocatable for zone in node.zones}
    for zones, name, amount in entries(amounts):
        remaining = amount
        for zone in zones:
            current = free[zone].get(name, 0)
            room = current if sign < 0 else most[zone].get(name, 0) - current
            share = min(room, remaining)
            free[zone][name] = current + sign * share
            remaining -= share
    return with_free(node, lambda zone: Resources({name: free[zone.id][name] for name in zone.free}))


def less_everywhere(node: Node, bag: Resources) -> Node:
    """Return the node with these amounts less free on every zone, none below zero."""
    return with_free(
        node,
        lambda zone: Resources({name: max(0, free - bag.get(name, 0)) for name, free in zone.free.items()}),
    )


def allocated(node: Node, amounts: Amounts, cpus: CpuSet = 0) -> Node:
    """Return the empty node after its managers allocated all of this.

    `cpus` are allocated in addition to the amounts, by id. The CPUs of the amounts are any others of their
    zones.
    """
    observed = [ObservedContainer(WHOLE_POD, cpus, {})] if cpus else []
    if amounts:
        any_cpus = None if any(CPU in bag for bag in amounts.values()) else 0
        observed.append(ObservedContainer(WHOLE_POD, any_cpus, amounts))
    return observe(node, _NO_DEMAND, observed)[0] if observed else node


_NO_DEMAND = Demand(Qos.BEST_EFFORT, (), Step(WHOLE_POD, Role.APP), EMPTY)


def with_free(node: Node, free: Callable[[Zone], Resources]) -> Node:
    """Return the node with other free amounts on each zone."""
    return replace(node, zones=tuple(replace(zone, free=free(zone)) for zone in node.zones), stock=None)
