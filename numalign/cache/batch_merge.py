"""
The topology manager's merge on many nodes at once: the hints of many resources in, one set of zones out.

Restates what `kubelet.topology_manager` has for a strict policy and for a best effort (HintMerger.compare of
policy.go). The hints of a resource are a lattice (`batch_hint_sets`), all rows of a call have as many zones,
and the same distances, or none.
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

    `lists` has, for one resource at least, the sets that it prefers: (2^zones, rows). A resource without an
    opinion on a row has to be True throughout there; an impossible one is False throughout. Where no resource
    has an opinion the kubelet takes all zones, which is for the caller to know.
    """
    return batch_hint_sets.best(reduce(and_, lists), batch_hint_sets.by_preference(numa))


def best_not_preferred(lists: Sequence[Bools], numa: NumaInfo) -> Ints:
    """Return what a best effort chooses among what is not preferred, by row, as HintMerger.compare does.

    `lists` has, for one resource at least, the sets that could serve it: (2^zones, rows). Where it is False
    throughout the resource is impossible or has no opinion, and does not count. There always is a set: where
    all intersections are empty, or no resource counts, it is all zones.
    """
    limit = np.maximum.reduce([batch_hint_sets.narrowest_width(possible, 0) for possible in lists])
    first: Ints = (1 << limit) - 1
    # A resource that does not count takes no zone from the others.
    lists = [_or_all_zones(possible) for possible in lists]
    if numa.distances:
        return _closest_to(limit, lists, numa)
    rest = np.flatnonzero(~_first_is_reached(lists, first))
    # Rows stay side by side, as they do not where an index picks them.
    if len(rest):
        first[rest] = _closest_to(limit[rest], [possible.take(rest, axis=1) for possible in lists], numa)
    return first


def _or_all_zones(possible: Bools) -> Bools:
    """Return the sets, or that of all zones where there is none."""
    none = ~possible.any(axis=0)
    if not none.any():
        return possible
    filled = possible.copy()
    filled[-1] |= none
    return filled


def _first_is_reached(lists: Sequence[Bools], first: Ints) -> Bools:
    """Return whether some resource has this set, and all have all zones: then nothing need be merged."""
    rows = np.arange(len(first))
    unlimited = np.logical_and.reduce([possible[-1] for possible in lists])
    reached: Bools = unlimited & np.logical_or.reduce([possible[first, rows] for possible in lists])
    return reached


def _closest_to(limit: Ints, lists: Sequence[Bools], numa: NumaInfo) -> Ints:
    """Of all intersections the best of a width that is as close to the limit as there is one."""
    reachable = reduce(batch_hint_sets.intersections, lists)
    ranks, masks = _by_limit(numa)
    lowest = batch_hint_sets.lowest(reachable, ranks.take(limit, axis=1))
    chosen: Ints = masks[limit, lowest]
    return chosen


@lru_cache(maxsize=64)
def _by_limit(numa: NumaInfo) -> tuple[NDArray[np.uint8], NDArray[np.int16]]:
    """By limit the ranks of all sets, (2^zones, limits), and the sets by rank, (limits, 256)."""
    orders = [
        batch_hint_sets.in_order(_closest_first(limit, numa), bitmask.full(numa.count))
        for limit in range(numa.count + 1)
    ]
    return np.stack([each.ranks for each in orders], axis=1), np.stack([each.masks for each in orders])


def _closest_first(limit: int, numa: NumaInfo) -> list[Mask]:
    """All sets: those as wide as the limit first, then narrower ones from there, and only then wider ones."""

    def rank(mask: Mask) -> tuple[bool, int, tuple[int, int, Mask]]:
        width = mask.bit_count()
        return width > limit, abs(width - limit), numa.rank(mask)

    return sorted(bitmask.ascending(numa.count), key=rank)
