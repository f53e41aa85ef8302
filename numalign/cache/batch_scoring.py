"""
Scores of placements on thousands of nodes at once, by the strategies of `decision.scoring`.

Restates its formulas for columns with one entry per node, in integers of 64 bits. Only the balance of
resources is computed in floating point; where rounding errors could change the integer, the rules compute the
value of the node instead, so that all values equal theirs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from numalign.cache.arrays import Bools, Ints
from numalign.cache.distinct_rows import kinds
from numalign.decision import scoring
from numalign.decision.scoring import HIGHEST, CostTable, Strategy, Weights, whole

_MOST_ASKED = 2**53
"""The limit of a request: a larger one is treated as this much, which no node has either.

Eight zones of `layout.MOST_BYTES`, 2^49, have 2^52 free. So a hundred times what is requested or left is
below 2^60: percentages are integer divisions that do not overflow 64 bits.
"""

_NEAR = 2.0**-30
"""A balance this close to an integer in floating point may really be on the other side of it.

Let u = 2^-53, and n the number of resources. A share, at most 1, is off by up to 3u: request, free amount and
quotient are rounded. The mean of shares is off by (n + 3)u, and the difference of a share from it by
(n + 7)u. That is at most 1, so its square is off by (2n + 15)u, and the sum of all squares by n(3n + 15)u.
Times 100 / (n - 1), where n / (n - 1) <= 2, that is 200(3n + 15)u, and three more roundings of at most 100
make it (600n + 3300)u: below 2^-30 for less than ten thousand resources.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """What is placed as one unit on every node: a container, or a pod as a whole.

    `amounts` are, for each resource that some zone lists, the request (millicores, bytes, pieces) and per
    node the sum of what the unit's zones have free, each zone converted by `scoring.whole`. `zones` is the
    number of these zones per node; a unit without zones on a node does not count there. `nearest` is per node
    whether no other set of equally many zones is closer (`nearest_sets`), True without zones. Numbers have 64
    bits.
    """

    amounts: tuple[tuple[str, int, Ints], ...]
    zones: Ints
    nearest: Bools


def values(strategy: Strategy, units: Sequence[Unit], weights: Weights, *, max_zones: int) -> Ints:
    """Return the score of a placement of these units per node, 0 to 100; free amounts are those before it.

    There is at least one unit. `max_zones` is the largest number of zones that the kubelets support.
    """
    return STRATEGIES[strategy](units, weights, max_zones)


@lru_cache(maxsize=256)
def nearest_sets(costs: CostTable) -> Bools:
    """Return per set of zones whether no other set of the same size is closer; bit i is the i-th zone.

    There are 2^zones sets, so this is not for nodes with more than about ten zones.
    """
    order = [zone for zone, _ in costs]
    sets = ([zone for at, zone in enumerate(order) if mask >> at & 1] for mask in range(2 ** len(order)))
    nearest = np.array([scoring.nearest(costs, zones) for zones in sets], dtype=np.bool_)
    nearest.setflags(write=False)
    return nearest


def _least_numa_nodes(units: Sequence[Unit], _weights: Weights, max_zones: int) -> Ints:
    step = HIGHEST // max_zones
    widest = np.maximum.reduce([unit.zones for unit in units])
    closest = np.logical_and.reduce([unit.nearest for unit in units])
    value: Ints = np.maximum(HIGHEST - widest * step + closest * (step // 2), 0)
    return _or_highest(widest, value)


_OfUnit = Callable[[Unit, Weights], Ints]
"""Returns the value of a unit where it has zones, 0 to 100."""


def _mean(of_unit: _OfUnit, units: Sequence[Unit], weights: Weights, _max_zones: int) -> Ints:
    """Return per node the mean over the units with zones there, rounded down."""
    total, count = np.zeros((2, len(units[0].zones)), dtype=np.int64)
    for unit in units:
        if unit.amounts:
            placed = unit.zones > 0
            # Multiplication is several times as fast as `numpy.where`.
            total += of_unit(unit, weights) * placed
            count += placed
    return _or_highest(count, total if len(units) == 1 else total // np.maximum(count, 1))


def _or_highest(count: Ints, value: Ints) -> Ints:
    """Return the value where anything counts, and the highest score elsewhere."""
    return value if count.all() else np.where(count, value, HIGHEST)


def _weighted(used: Callable[[int, Ints], Ints | int], unit: Unit, weights: Weights) -> Ints:
    """Return the weighted mean of the `used` percentage of each resource, each of them rounded down."""
    weight = {name: max(1, weights.get(name, 1)) for name, _, _ in unit.amounts}
    total = np.zeros(len(unit.zones), dtype=np.int64)
    for name, amount, free in unit.amounts:
        request = min(whole(name, amount), _MOST_ASKED)
        # Where nothing is free, nothing is used.
        room = free >= max(request, 1)
        total += used(request, free) * HIGHEST // np.maximum(free, 1) * room * weight[name]
    return total // sum(weight.values())


def _balanced(unit: Unit, weights: Weights) -> Ints:
    """Return 100 less the sample variance of the used shares, in percent; one resource is balanced."""
    amounts = [(name, whole(name, amount), free) for name, amount, free in unit.amounts]
    room = np.logical_and.reduce([(free >= request) | (free == 0) for _, request, free in amounts])
    if len(amounts) == 1:
        return np.where(room, HIGHEST, 0)
    shares = np.stack([_share(request, free) for _, request, free in amounts])
    shares -= shares.mean(axis=0)
    value = HIGHEST - (shares * shares).sum(axis=0) * (HIGHEST / (len(shares) - 1))
    near = np.abs(value - np.rint(value)) < _NEAR
    balance: Ints = (value * room).astype(np.int64)
    rows = np.flatnonzero(near & room & (unit.zones > 0))
    if len(rows):
        numbers, firsts = kinds([free[rows] for _, _, free in amounts])
        frees = zip(*(free[rows[firsts]].tolist() for _, _, free in amounts), strict=True)
        by_rules = scoring.OF_AMOUNTS[Strategy.BALANCED_ALLOCATION]
        named = [(name, request) for name, request, _ in amounts]
        exact = [
            by_rules([(*item, free) for item, free in zip(named, row, strict=True)], weights) for row in frees
        ]
        balance[rows] = np.array(exact, dtype=np.int64)[numbers]
    return balance


def _share(request: int, free: Ints) -> NDArray[np.float64]:
    """Return the requested share of what is free; 1 where nothing is free."""
    none = free == 0
    share: NDArray[np.float64] = request / np.maximum(free, 1.0)
    return np.where(none, 1.0, share) if none.any() else share


STRATEGIES: Mapping[Strategy, Callable[[Sequence[Unit], Weights, int], Ints]] = MappingProxyType(
    {
        Strategy.LEAST_NUMA_NODES: _least_numa_nodes,
        Strategy.MOST_ALLOCATED: partial(_mean, partial(_weighted, lambda request, _: request)),
        Strategy.LEAST_ALLOCATED: partial(_mean, partial(_weighted, lambda request, free: free - request)),
        Strategy.BALANCED_ALLOCATION: partial(_mean, _balanced),
    }
)
