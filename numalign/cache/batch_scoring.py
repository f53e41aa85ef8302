"""
How good placements are on thousands of nodes at once, by the strategies of `decision.scoring`.

The formulas stand there; here they are applied to columns, one entry per node, in floating point. Where that
cannot decide which whole number is meant, the rules are asked for the node in question, so that every value
is the one that they would have given.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from numalign.cache.arrays import Bools, Ints
from numalign.cache.distinct_rows import kinds
from numalign.decision import scoring
from numalign.decision.scoring import HIGHEST, CostTable, Strategy, Weights, whole

_Floats = NDArray[np.float64]
_T = TypeVar("_T", np.float64, np.int64)

EXACT = 2**46
"""Below it a share in percent, rounded down, comes out of floating point as it should.

Take x <= free < 2^46, both whole. Then 100 * x is below 2^53, so that both are exact as floats. If their
quotient is no whole number, it lies below the next one, n <= 100, by at least 1 / free > 2^-46. As no two
floats up to 128 that are neighbours are further apart than 2^-46, there is one from the quotient to n, n
excluded, and rounding does not pass it.
"""

_NEAR = 2.0**-30
"""Balance that comes so close to a whole number in floating point may really be on its other side.

Let u = 2^-53, and n the number of resources. A share, at most 1, is off by up to 3u: asked, free and their
quotient are rounded. The mean of shares is off by (n + 3)u, and what a share differs from it by (n + 7)u.
That is at most 1, so its square is off by (2n + 15)u, and the sum of all squares by n(3n + 15)u. Times
100 / (n - 1), where n / (n - 1) <= 2, that is 200(3n + 15)u, and three more roundings of at most 100 make it
(600n + 3300)u: below 2^-30 for less than ten thousand resources.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """What is placed as one on every node: a container, or a pod as a whole.

    `amounts` are, by resource that some zone lists, what is asked (millicores, bytes, pieces) and per node
    what its zones of this unit have free together, in the units of `scoring.whole`, each zone by itself.
    `zones` is per node how many they are; a unit that has none on a node does not count there. `nearest` is
    per node whether no other set of so many zones is closer (`nearest_sets`), and no other is than none.
    """

    amounts: tuple[tuple[str, int, Ints], ...]
    zones: Ints
    nearest: Bools


def values(strategy: Strategy, units: Sequence[Unit], weights: Weights, *, max_zones: Ints) -> Ints:
    """Per node how good a placement in these units is, 0 to 100; the free amounts are those before it.

    `max_zones` is per node how many zones its kubelet can cope with.
    """
    return STRATEGIES[strategy](units, weights, max_zones)


@lru_cache(maxsize=256)
def nearest_sets(costs: CostTable) -> Bools:
    """Per set of zones whether no other set of as many is closer; bit i of a set is the i-th zone.

    There are 2^zones sets, so it is nothing for nodes with more than some ten zones.
    """
    order = [zone for zone, _ in costs]
    sets = ([zone for at, zone in enumerate(order) if mask >> at & 1] for mask in range(2 ** len(order)))
    found = np.array([scoring.nearest(costs, zones) for zones in sets], dtype=np.bool_)
    found.setflags(write=False)
    return found


def _least_numa_nodes(units: Sequence[Unit], _weights: Weights, max_zones: Ints) -> Ints:
    step = _floored(HIGHEST / max_zones)
    most, closest = np.zeros_like(step), np.ones(len(step), dtype=np.bool_)
    for unit in units:
        most = np.maximum(most, unit.zones)
        closest &= unit.nearest
    found = HIGHEST - most * step + _only(closest, step >> 1)
    return _or_highest(most, np.maximum(found, 0))


_Amounts = Sequence[tuple[str, int, Ints]]

_Rough = Callable[[_Amounts, Weights], tuple[Ints, Bools]]
"""The values of a unit, and of which nodes the rules are to say it."""


def _mean(rough: _Rough, strategy: Strategy, units: Sequence[Unit], weights: Weights, most: Ints) -> Ints:
    """Per node the mean over the units that have zones there, rounded down."""
    total, counted = np.zeros((2, len(most)), dtype=np.int64)
    for unit in units:
        if unit.amounts:
            counts = unit.zones > 0
            total += _only(counts, _settled(rough, strategy, unit.amounts, weights, counts))
            counted += counts
    mean = total if len(units) == 1 else _floored(total / np.maximum(counted, 1))
    return _or_highest(counted, mean)


def _or_highest(counted: Ints, found: Ints) -> Ints:
    """What was found where anything counts, and elsewhere the best."""
    return found if counted.all() else np.where(counted, found, HIGHEST)


def _settled(rough: _Rough, strategy: Strategy, amounts: _Amounts, weights: Weights, counts: Bools) -> Ints:
    found, doubtful = rough(amounts, weights)
    rows = np.flatnonzero(doubtful & counts)
    if len(rows):
        numbers, firsts = kinds([free[rows] for _, _, free in amounts])
        by_rules = scoring.OF_AMOUNTS[strategy]
        exact = [by_rules(each, weights) for each in _amounts_of(amounts, rows[firsts])]
        found[rows] = np.array(exact, dtype=np.int64)[numbers]
    return found


def _amounts_of(amounts: _Amounts, rows: Ints) -> Iterator[list[scoring.Amount]]:
    named = [(name, whole(name, asked)) for name, asked, _ in amounts]
    for frees in zip(*(free[rows].tolist() for _, _, free in amounts), strict=True):
        yield [(name, asked, free) for (name, asked), free in zip(named, frees, strict=True)]


_Taken = Callable[[int, _Floats], _Floats | int]
"""How much of what is free counts, if so much is asked."""


def _weighted(taken: _Taken, amounts: _Amounts, weights: Weights) -> tuple[Ints, Bools]:
    """The weighted mean of what is `taken` of each resource, in percent and rounded down one by one."""
    weight = {name: max(1, weights.get(name, 1)) for name, _, _ in amounts}
    total, doubtful = np.zeros(len(amounts[0][2])), np.zeros(len(amounts[0][2]), dtype=np.bool_)
    for name, asked, free in amounts:
        total += weight[name] * _percent(taken, whole(name, asked), free)
        doubtful |= free >= EXACT
    return _floored(total / sum(weight.values())), doubtful


def _percent(taken: _Taken, asked: int, free: Ints) -> _Floats:
    frees = _divisors(free)
    found = np.floor(taken(asked, frees) * HIGHEST / frees)
    # Of nothing nothing is taken.
    return _only(free >= max(asked, 1), found)


def _balanced(amounts: _Amounts, _weights: Weights) -> tuple[Ints, Bools]:
    """100 less the sample variance of the used shares, in percent; one resource alone is in balance."""
    asking = [(whole(name, asked), free) for name, asked, free in amounts]
    room = np.logical_and.reduce([(free >= asked) | (free == 0) for asked, free in asking])
    if len(asking) == 1:
        return _only(room, np.full(len(room), HIGHEST)), np.zeros_like(room)
    shares = np.stack([_share(asked, free) for asked, free in asking])
    shares -= shares.mean(axis=0)
    exact = HIGHEST - (shares * shares).sum(axis=0) * (HIGHEST / (len(shares) - 1))
    near = np.abs(exact - np.rint(exact)) < _NEAR
    return _floored(_only(room, exact)), near & room


def _share(asked: int, free: Ints) -> _Floats:
    """How much of what is free is asked; of nothing, all."""
    none = free == 0
    share = asked / _divisors(free)
    return np.where(none, 1.0, share) if none.any() else share


def _divisors(free: Ints) -> _Floats:
    """The same as floats, but that by these can be divided."""
    frees = free.astype(np.float64)
    return np.maximum(frees, 1.0, out=frees)


def _floored(shares: _Floats) -> Ints:
    return shares.astype(np.int64)


def _only(where: Bools, found: NDArray[_T]) -> NDArray[_T]:
    """What was found there, and nothing elsewhere."""
    # Several times as fast as `numpy.where`.
    return found * where


_ROUGHLY: Mapping[Strategy, _Rough] = MappingProxyType(
    {
        Strategy.MOST_ALLOCATED: partial(_weighted, lambda asked, _: asked),
        Strategy.LEAST_ALLOCATED: partial(_weighted, lambda asked, free: free - asked),
        Strategy.BALANCED_ALLOCATION: _balanced,
    }
)

STRATEGIES: Mapping[Strategy, Callable[[Sequence[Unit], Weights, Ints], Ints]] = MappingProxyType(
    {
        Strategy.LEAST_NUMA_NODES: _least_numa_nodes,
        **{strategy: partial(_mean, rough, strategy) for strategy, rough in _ROUGHLY.items()},
    }
)
