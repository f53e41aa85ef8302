"""
The topology manager's merge on many nodes at once: the hints of many resources in, one set of zones out.

Restates the merges of `kubelet.topology_manager` for a strict policy and for best effort (HintMerger.compare
of policy.go). The hints of a resource are a lattice (`batch_hint_sets`). All rows of a call have the same
number of zones and the same distances, or none.
"""

from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import and_

import numpy as np
from numpy.typing import NDArray

from numalign.cache import batch_hint_sets
from numalign.cache.arrays import Bools, Ints
from numalign.kubelet import bitmask
from numalign.kubelet.bitmask import Mask
from numalign.kubelet.topology_manager import NumaInfo


def preferred(lists: Sequence[Bools], numa: NumaInfo) -> Ints:
    """Return the best set that every resource prefers, by row; 0 where there is none.

    `lists` has the preferred sets of at least one resource: (2^zones, rows). On a row without a preference of
    the resource all sets have to be True; if the resource is impossible, all are False. Where no resource has
    a preference, the kubelet takes all zones; the caller has to handle that.
    """
    return batch_hint_sets.best(reduce(and_, lists), batch_hint_sets.by_preference(numa))


def best_not_preferred(lists: Sequence[Bools], numa: NumaInfo) -> Ints:
    """Return the best-effort choice among sets that are not preferred, by row, as HintMerger.compare does.

    `lists` has the possible sets of at least one resource: (2^zones, rows). Where all of them are False, the
    resource is impossible or has no preference, and does not count. Every row has a choice: all zones, where
    all intersections are empty or no resource counts.
    """
    limit = np.maximum.reduce([batch_hint_sets.narrowest_width(possible, 0) for possible in lists])
    first: Ints = (1 << limit) - 1
    # A resource that does not count must not restrict the others.
    lists = [_or_all_zones(possible) for possible in lists]
    if numa.distances:
        return _closest_to(limit, lists, numa)
    rest = np.flatnonzero(~_first_is_reached(lists, first))
    # `take` keeps the values of a set contiguous, which an index array does not.
    if len(rest):
        first[rest] = _closest_to(limit[rest], [possible.take(rest, axis=1) for possible in lists], numa)
    return first


def _or_all_zones(possible: Bools) -> Bools:
    """Return the sets, or only the set of all zones on rows without any."""
    none = ~possible.any(axis=0)
    if not none.any():
        return possible
    filled = possible.copy()
    filled[-1] |= none
    return filled


def _first_is_reached(lists: Sequence[Bools], first: Ints) -> Bools:
    """Return whether some resource has this set, and all have all zones: then no merge is necessary."""
    rows = np.arange(len(first))
    unlimited = np.logical_and.reduce([possible[-1] for possible in lists])
    reached: Bools = unlimited & np.logical_or.reduce([possible[first, rows] for possible in lists])
    return reached


def _closest_to(limit: Ints, lists: Sequence[Bools], numa: NumaInfo) -> Ints:
    """Return the intersection that comes first in the order of `_closest_first`, by row."""
    reachable = reduce(batch_hint_sets.intersections, lists)
    ranks, masks = _by_limit(numa)
    lowest = batch_hint_sets.lowest(reachable, ranks.take(limit, axis=1))
    chosen: Ints = masks[limit, lowest]
    return chosen


@lru_cache(maxsize=64)
def _by_limit(numa: NumaInfo) -> tuple[NDArray[np.uint8], NDArray[np.int16]]:
    """Return by limit the ranks of all sets, (2^zones, limits), and the sets by rank, (limits, 256)."""
    orders = [
        batch_hint_sets.in_order(_closest_first(limit, numa), bitmask.full(numa.count))
        for limit in range(numa.count + 1)
    ]
    return np.stack([each.ranks for each in orders], axis=1), np.stack([each.masks for each in orders])


def _closest_first(limit: int, numa: NumaInfo) -> list[Mask]:
    """Return all sets: first those as wide as the limit, then narrower ones, the widest first, then wider."""

    def rank(mask: Mask) -> tuple[bool, int, tuple[int, int, Mask]]:
        width = mask.bit_count()
        return width > limit, abs(width - limit), numa.rank(mask)

    return sorted(bitmask.ascending(numa.count), key=rank)
