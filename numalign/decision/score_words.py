"""
Explanations of scores: the figures that `scoring` uses, each as often as it counts.

The explanation adds up to the score, so a reader can see why one node is better than another.
"""

from collections.abc import Mapping
from types import MappingProxyType

from numalign.decision import scoring
from numalign.decision.doubts import uncertain
from numalign.decision.scoring import HIGHEST, Strategy
from numalign.model.demand import Demand
from numalign.model.node import Node
from numalign.model.placement import Placement

_MOST_NAMED = 4
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


def why(strategy: Strategy, node: Node, demand: Demand, placement: Placement) -> str:
    """Return why an admitted pod has its score on a node, in a few words without a full stop."""
    units = scoring.scored_units(node, demand, placement)
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
        if scoring.closest(node, units):
            return f"{off}, no closer ones exist ({step // 2} added)"
        return f"{off}, closer ones exist"
    # The used share of the zones' free amounts, by unit and resource.
    parts = [
        "; ".join(
            f"{name} {request * 100 // free}%" if free else f"{name} of nothing"
            for name, request, free in scoring.amounts(node, unit)[:_MOST_NAMED]
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
