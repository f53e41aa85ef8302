"""
Explanations of scores: the figures that `scoring` uses, each as often as it counts.

The explanation adds up to the score, so a reader can see why one node is better than another.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from numalign.decision import scoring
from numalign.decision.doubts import uncertain
from numalign.decision.scoring import HIGHEST, ScoredUnit, Strategy
from numalign.model.demand import Demand
from numalign.model.node import Node
from numalign.model.placement import Placement

_MOST_NAMED = 4
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


def why(strategy: Strategy, node: Node, demand: Demand, placement: Placement) -> str:
    """Return why an admitted pod has its score on a node, by a strategy in which every resource counts once.

    The text is a few words without a full stop, to follow the score.
    """
    units = scoring.scored_units(node, demand, placement)
    if not units and uncertain(node, demand):
        return "it is uncertain which NUMA zones have what it requests, so any other node comes first"
    if not units:
        return "it requests nothing that the NUMA zones of this node allocate"
    return _WORDS[strategy](node, units)


def _zones_and_distance(node: Node, units: list[ScoredUnit]) -> str:
    step = HIGHEST // node.max_zones
    most = max(len(unit.zones) for unit in units)
    where = f"{_number(most)} {'zone' if most == 1 else 'zones'} of {_number(len(node.zones))}"
    off = f"{where} ({step} deducted for each)"
    if len(node.zones) == most:
        return f"{off}, all of them ({step // 2} added)"
    if scoring.closest(node, units):
        return f"{off}, no closer ones exist ({step // 2} added)"
    return f"{off}, closer ones exist"


def _shares(words: str) -> Callable[[Node, list[ScoredUnit]], str]:
    """Return a function that lists the used share of the zones' free amounts, by unit and resource."""

    def listed(node: Node, units: list[ScoredUnit]) -> str:
        parts = ["; ".join(_taken(node, unit)) for unit in units]
        shown = " | ".join(filter(None, parts[:_MOST_NAMED]))
        return f"{words}: {shown}{' | ...' if len(parts) > _MOST_NAMED else ''}" if shown else words

    return listed


def _taken(node: Node, unit: ScoredUnit) -> Iterator[str]:
    for name, request, free in scoring.amounts(node, unit)[:_MOST_NAMED]:
        yield f"{name} {request * 100 // free}%" if free else f"{name} of nothing"


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


_WORDS: Mapping[Strategy, Callable[[Node, list[ScoredUnit]], str]] = MappingProxyType(
    {
        Strategy.LEAST_NUMA_NODES: _zones_and_distance,
        Strategy.MOST_ALLOCATED: _shares("more of the free amounts of its NUMA zones used is better"),
        Strategy.LEAST_ALLOCATED: _shares("less of the free amounts of its NUMA zones used is better"),
        Strategy.BALANCED_ALLOCATION: _shares(
            "similar shares of the free amounts of its NUMA zones used are better"
        ),
    }
)
