"""
How good a placement is: 0 to 100, by one of four strategies.

The formulas are those of scheduler-plugins' NodeResourceTopologyMatch (least_numa.go, least_allocated.go,
most_allocated.go, balanced_allocation.go), with the same whole units and the same rounding. They are applied
to the zones that the kubelet would really pick, where that plugin, not knowing them, assumes the worst zone.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from fractions import Fraction
from itertools import combinations
from statistics import variance
from types import MappingProxyType

from numalign.rules.demand import Demand, Step
from numalign.rules.intent import Scope
from numalign.rules.placement import Grant, Placement
from numalign.rules.resources import CPU, MILLI, ZoneId
from numalign.rules.topology import Node

HIGHEST = 100
UNKNOWN_COST = 255
"""The distance between zones whose topology lists none."""

Weights = Mapping[str, int]
"""By resource name; a resource without a weight, or with one below 1, counts once."""


class Strategy(StrEnum):
    """What makes one node better than another."""

    LEAST_NUMA_NODES = "LeastNUMANodes"
    MOST_ALLOCATED = "MostAllocated"
    LEAST_ALLOCATED = "LeastAllocated"
    BALANCED_ALLOCATION = "BalancedAllocation"


Amount = tuple[str, int, int]
"""A resource, what is asked of it and what is free, in whole units."""


def score(
    strategy: Strategy,
    node: Node,
    demand: Demand,
    placement: Placement,
    weights: Weights = MappingProxyType({}),
) -> int:
    """How good the placement of an admitted pod is on this node as it is before the pod, 0 to 100.

    A pod for which the node aligns nothing is as good here as anywhere: 100.
    """
    units = [unit for unit in _units(node, demand, placement) if unit[1]]
    if not units:
        return HIGHEST
    return _STRATEGIES[strategy](node, units, weights)


Unit = tuple[Step, frozenset[ZoneId]]
"""What is placed as one, and all zones that it touches."""


def _units(node: Node, demand: Demand, placement: Placement) -> list[Unit]:
    placed = [
        (step, _touched(node, step, grant))
        for step, grant in zip(demand.steps, placement.grants, strict=True)
    ]
    if node.scope is Scope.CONTAINER:
        return placed
    return [(demand.whole, frozenset[ZoneId]().union(*(zones for _, zones in placed)))]


def _touched(node: Node, step: Step, grant: Grant) -> frozenset[ZoneId]:
    return grant.zones_of(name for name in step.asks if _pinned(node, name))


def _pinned(node: Node, name: str) -> bool:
    return any(name in zone.allocatable for zone in node.zones)


def _least_numa_nodes(node: Node, units: list[Unit], _weights: Weights) -> int:
    """Fewer zones first, and among as many the ones that are closest to each other."""
    step = HIGHEST // node.max_zones
    spans = [zones for _, zones in units]
    widest = max(map(len, spans))
    closest = all(_distance(node, zones) == _least_distance(node, len(zones)) for zones in spans)
    return max(0, HIGHEST - widest * step + (step // 2 if closest else 0))


def _distance(node: Node, zones: Iterable[ZoneId]) -> Fraction:
    """The mean cost between zones, each with itself included."""
    chosen = set(zones)
    costs = {zone.id: dict(zone.costs) for zone in node.zones}
    pairs = [costs[one].get(other, UNKNOWN_COST) for one in chosen for other in chosen]
    return Fraction(sum(pairs), len(pairs))


def _least_distance(node: Node, count: int) -> Fraction:
    return min(_distance(node, zones) for zones in combinations((zone.id for zone in node.zones), count))


def _mean_over_units(of_amounts: Callable[[list[Amount], Weights], int]) -> Callable[..., int]:
    """A score of a node from a score of amounts: each unit on its zones, and the mean of them, truncated."""

    def mean(node: Node, units: list[Unit], weights: Weights) -> int:
        return sum(of_amounts(_amounts(node, *unit), weights) for unit in units) // len(units)

    return mean


def _amounts(node: Node, step: Step, zones: frozenset[ZoneId]) -> list[Amount]:
    chosen = [zone for zone in node.zones if zone.id in zones]
    return [
        (name, _whole(name, asked), sum(_whole(name, zone.free.get(name, 0)) for zone in chosen))
        for name, asked in step.asks.items()
        if _pinned(node, name)
    ]


def _whole(name: str, amount: int) -> int:
    return -(-amount // MILLI) if name == CPU else amount


def _most_allocated(amounts: list[Amount], weights: Weights) -> int:
    return _weighted(amounts, weights, lambda asked, free: asked * HIGHEST // free)


def _least_allocated(amounts: list[Amount], weights: Weights) -> int:
    return _weighted(amounts, weights, lambda asked, free: (free - asked) * HIGHEST // free)


def _weighted(amounts: list[Amount], weights: Weights, value: Callable[[int, int], int]) -> int:
    weight = {name: max(1, weights.get(name, 1)) for name, _, _ in amounts}
    total = sum(weight[name] * value(asked, free) for name, asked, free in amounts if free and asked <= free)
    return total // sum(weight.values())


def _balanced(amounts: list[Amount], _weights: Weights) -> int:
    """The more alike the used shares of all resources, the better; one resource alone is in balance."""
    shares = [Fraction(asked, free) if free else Fraction(1) for _, asked, free in amounts]
    if any(share > 1 for share in shares):
        return 0
    return int((1 - variance(shares)) * HIGHEST) if len(shares) > 1 else HIGHEST


_STRATEGIES: Mapping[Strategy, Callable[[Node, list[Unit], Weights], int]] = MappingProxyType(
    {
        Strategy.LEAST_NUMA_NODES: _least_numa_nodes,
        Strategy.MOST_ALLOCATED: _mean_over_units(_most_allocated),
        Strategy.LEAST_ALLOCATED: _mean_over_units(_least_allocated),
        Strategy.BALANCED_ALLOCATION: _mean_over_units(_balanced),
    }
)
