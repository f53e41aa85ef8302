"""
The score of a placement: 0 to 100, by one of four strategies.

The formulas are those of scheduler-plugins' NodeResourceTopologyMatch (least_numa.go, least_allocated.go,
most_allocated.go, balanced_allocation.go), with the same whole units and the same rounding. They are applied
to the zones that the kubelet would really choose, where that plugin, which does not know them, assumes the
worst zone.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache, partial
from itertools import combinations
from math import comb, prod
from types import MappingProxyType
from typing import NamedTuple

from numalign.decision.doubts import uncertain
from numalign.decision.evaluate import NO_INTENT, keeps
from numalign.kubelet.admit import effective_demand
from numalign.model.demand import Demand
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.node import Node
from numalign.model.placement import Placement
from numalign.model.resources import CPU, MILLI, ZoneId

HIGHEST = 100
UNKNOWN_COST = 255
"""The distance between zones if the topology lists none."""

MOST_SETS = 20_000
"""The limit of sets of zones that are compared to find the closest: all sets of sixteen zones."""

Weights = Mapping[str, int]
"""By resource name; a resource without a weight, or with one below 1, counts once."""

EVEN: Weights = MappingProxyType({})
"""Every resource counts once."""


class Strategy(StrEnum):
    """What makes one node better than another."""

    LEAST_NUMA_NODES = "LeastNUMANodes"
    MOST_ALLOCATED = "MostAllocated"
    LEAST_ALLOCATED = "LeastAllocated"
    BALANCED_ALLOCATION = "BalancedAllocation"


Amount = tuple[str, int, int]
"""A resource, the requested and the free amount, in the units of `whole`."""


def score(
    strategy: Strategy, node: Node, demand: Demand, placement: Placement, weights: Weights = EVEN
) -> int:
    """Return the score of an admitted pod's placement, 0 to 100; 100 if the node aligns nothing of it."""
    (value,) = scores((strategy,), node, demand, placement, weights)
    return value


def scores(
    strategies: Sequence[Strategy], node: Node, demand: Demand, placement: Placement, weights: Weights = EVEN
) -> tuple[int, ...]:
    """Return the scores by each of these strategies, as `score` does."""
    units = scored_units(node, demand, placement)
    return tuple(_of_units(strategy, node, units, weights) if units else HIGHEST for strategy in strategies)


def aligned(node: Node, demand: Demand, placement: Placement, intent: Intent = NO_INTENT) -> bool:
    """Return whether the kubelet of this node really aligns a pod that it admits, best effort or more.

    That is not so where it is uncertain which zones have what it requests. A pod with a `best-effort` intent
    is aligned if the same intent would be satisfied as `restricted`; one with a binding intent is aligned;
    one without an intent is by the policy of the node.
    """
    if uncertain(node, effective_demand(node, demand)):
        return False
    if intent.policy is Policy.NONE:
        # A random placement is not alignment, unless there is only one zone.
        if node.policy is Policy.NONE:
            return node.single or not placement.zones
        best_effort = node.policy is Policy.BEST_EFFORT
        return not best_effort or all(grant.preferred for grant in placement.grants)
    return intent.binding or keeps(node, demand, replace(intent, policy=Policy.RESTRICTED), placement)


class ScoredUnit(NamedTuple):
    """What is placed as a unit: its requests of resources that zones list, and all its zones."""

    requests: Mapping[str, int]
    zones: frozenset[ZoneId]


def scored_units(node: Node, demand: Demand, placement: Placement) -> list[ScoredUnit]:
    """Return the units of an admitted pod that have zones; none if the node aligns nothing of it."""
    demand = effective_demand(node, demand)
    listed = frozenset(name for zone in node.zones for name in zone.allocatable)
    served = zip(demand.steps, placement.grants, strict=True)
    units = []
    for step, grant in [(demand.whole, placement.whole)] if placement.whole else served:
        requests = {name: request for name, request in step.requests.items() if name in listed}
        units.append(ScoredUnit(requests, grant.zones_of(requests)))
    if not placement.whole and node.scope is Scope.POD:
        requests = {name: request for name, request in demand.whole.requests.items() if name in listed}
        units = [ScoredUnit(requests, frozenset[ZoneId]().union(*(unit.zones for unit in units)))]
    return [unit for unit in units if unit.zones]


def _of_units(strategy: Strategy, node: Node, units: list[ScoredUnit], weights: Weights) -> int:
    if strategy is Strategy.LEAST_NUMA_NODES:
        # Higher for fewer zones, and for zones that are closest to each other.
        step, most = HIGHEST // node.max_zones, max(len(unit.zones) for unit in units)
        return max(0, HIGHEST - most * step + (step // 2 if closest(node, units) else 0))
    # A pod may have zones by one of its containers, and as a whole request nothing that zones allocate.
    scored = [listed for unit in units if (listed := amounts(node, unit))]
    total = sum(OF_AMOUNTS[strategy](listed, weights) for listed in scored)
    return total // len(scored) if scored else HIGHEST


def closest(node: Node, units: Iterable[ScoredUnit]) -> bool:
    """Return whether no unit could have equally many zones that are closer to each other."""
    costs = tuple((zone.id, zone.costs) for zone in node.zones)
    return all(nearest(costs, zones) for zones in {unit.zones for unit in units})


CostTable = tuple[tuple[ZoneId, tuple[tuple[ZoneId, int], ...]], ...]
"""For each zone of a node its id, and (zone id, distance) pairs as its topology lists them."""


def nearest(costs: CostTable, zones: Collection[ZoneId]) -> bool:
    """Return whether no equally wide set has a smaller sum of distances; above `MOST_SETS` at times False."""
    return _distance(_table(costs), zones) == _least_distance(costs, len(zones))


_Table = Mapping[ZoneId, Mapping[ZoneId, int]]


@lru_cache(maxsize=256)
def _table(costs: CostTable) -> _Table:
    listed = {zone: dict(mine) for zone, mine in costs}
    return {one: {other: listed[one].get(other, UNKNOWN_COST) for other in listed} for one in listed}


def _distance(table: _Table, zones: Iterable[ZoneId]) -> int:
    """Return the sum of all distances between zones; among sets of one size it orders as the mean does."""
    chosen = tuple(zones)
    return sum(table[one][other] for one in chosen for other in chosen)


# There are as many tables as kinds of machines, and thousands of sets of eight zones of sixteen.
@lru_cache(maxsize=1024)
def _least_distance(costs: CostTable, count: int) -> int:
    """Return a lower bound of the distance of `count` zones; exact unless there are too many sets."""
    table = _table(costs)
    if comb(len(table), count) > MOST_SETS:
        nearest = sorted(sum(sorted(row.values())[:count]) for row in table.values())
        return sum(nearest[:count])
    return min(_distance(table, zones) for zones in combinations(table, count))


def amounts(node: Node, unit: ScoredUnit) -> list[Amount]:
    """Return the request of a unit for each resource, and what its zones have free of it together."""
    chosen = [zone.free for zone in node.zones if zone.id in unit.zones]
    return [
        (name, whole(name, request), sum(whole(name, free.get(name, 0)) for free in chosen))
        for name, request in unit.requests.items()
    ]


def whole(name: str, amount: int) -> int:
    """Return an amount in whole units: millicores as CPUs, rounded up, anything else unchanged."""
    return -(-amount // MILLI) if name == CPU else amount


def _weighted(amounts: list[Amount], weights: Weights, *, most: bool) -> int:
    """Return a higher score for more, or for less of the free amounts requested."""
    weight = {name: max(1, weights.get(name, 1)) for name, _, _ in amounts}
    total = sum(
        weight[name] * ((request if most else free - request) * HIGHEST // free)
        for name, request, free in amounts
        if free and request <= free
    )
    return total // sum(weight.values())


def _balanced(amounts: list[Amount], _weights: Weights) -> int:
    """Return 100 minus the sample variance of the shares, in hundredths; a single resource is balanced."""
    shares = [(request, free) if free else (1, 1) for _, request, free in amounts]
    count, common = len(shares), prod(free for _, free in shares)
    if any(request > free for request, free in shares):
        return 0
    if count == 1:
        return HIGHEST
    parts = [request * (common // free) for request, free in shares]
    spread = count * sum(part * part for part in parts) - sum(parts) ** 2
    most = count * (count - 1) * common * common
    return (most - spread) * HIGHEST // most


OF_AMOUNTS: Mapping[Strategy, Callable[[list[Amount], Weights], int]] = MappingProxyType(
    {
        Strategy.MOST_ALLOCATED: partial(_weighted, most=True),
        Strategy.LEAST_ALLOCATED: partial(_weighted, most=False),
        Strategy.BALANCED_ALLOCATION: _balanced,
    }
)
"""The score of one unit's amounts, 0 to 100, by the strategies that use only amounts."""


# In words: the figures of a score, each as often as it counts. They add up to it, so a reader can see why one
# node is better than another.

_MOST_NAMED = 4
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


def why(strategy: Strategy, node: Node, demand: Demand, placement: Placement) -> str:
    """Return why an admitted pod has its score on a node, in a few words without a full stop."""
    units = scored_units(node, demand, placement)
    if not units and uncertain(node, demand):
        return "it is uncertain which NUMA zones have what it requests, so any other node comes first"
    if not units:
        return "it requests nothing that the NUMA zones of this node allocate"
    if strategy is Strategy.LEAST_NUMA_NODES:
        step, most = HIGHEST // node.max_zones, max(len(unit.zones) for unit in units)
        where = f"{_number(most)} {'zone' if most == 1 else 'zones'} of {_number(len(node.zones))}"
        off = f"{where} ({step} deducted for each)"
        if len(node.zones) == most:
            return f"{off}, all of them ({step // 2} added)"
        if closest(node, units):
            return f"{off}, no closer ones exist ({step // 2} added)"
        return f"{off}, closer ones exist"
    # The used share of the zones' free amounts, by unit and resource.
    parts = [
        "; ".join(
            f"{name} {request * 100 // free}%" if free else f"{name} of nothing"
            for name, request, free in amounts(node, unit)[:_MOST_NAMED]
        )
        for unit in units
    ]
    shown = " | ".join(filter(None, parts[:_MOST_NAMED]))
    more = " | ..." if len(parts) > _MOST_NAMED else ""
    return f"{_BETTER[strategy]}: {shown}{more}" if shown else _BETTER[strategy]


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


_BETTER: Mapping[Strategy, str] = MappingProxyType(
    {
        Strategy.MOST_ALLOCATED: "more of the free amounts of its NUMA zones used is better",
        Strategy.LEAST_ALLOCATED: "less of the free amounts of its NUMA zones used is better",
        Strategy.BALANCED_ALLOCATION: "similar shares of the free amounts of its NUMA zones used are better",
    }
)
