"""
The sets of `width` zones, in the order of their numbers, and as arrays to combine columns.

Bit i of a set is the zone at position i. Everything is computed once for each number of zones.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.kubelet import bitmask
from numalign.kubelet.topology_manager import NumaInfo

HALF = 4
"""Half of the maximum number of zones."""

_KEPT = 128


@lru_cache(maxsize=_KEPT)
def of_width(zones: int, width: int) -> Ints:
    """Return the sets of `width` zones, ascending."""
    sets = np.array([mask for mask in bitmask.ascending(zones) if mask.bit_count() == width], dtype=np.int64)
    sets.setflags(write=False)
    return sets


@lru_cache(maxsize=_KEPT)
def members(zones: int, width: int) -> NDArray[np.float64]:
    """Return which zones are in each set of `width` zones, 0 or 1: (sets, zones).

    The values are floats, for which there are fast products; totals of bytes are far below 2^53
    (`layout.MOST_BYTES`).
    """
    return (of_width(zones, width)[:, None] >> np.arange(zones) & 1).astype(np.float64)


@lru_cache(maxsize=_KEPT)
def halves(zones: int, width: int) -> tuple[Rows, Rows]:
    """Return the sets of `width` zones by their halves: the bits of the first zones, and of the others.

    The seventy sets of four zones in eight have sixteen halves each.
    """
    sets = of_width(zones, width).astype(np.intp)
    return sets & (1 << HALF) - 1, sets >> HALF


def first(zones: int, width: int, fits: Bools, numa: NumaInfo) -> Ints:
    """Return by row the set that a kubelet prefers among those that fit; 0 if none does.

    `fits` is (sets, rows), in the order of `of_width`; `numa` has the distances of the zones of all rows.
    """
    order, sets = preference(zones, width, numa), of_width(zones, width)
    found: Ints = sets[order[fits[order].argmax(axis=0)]] * fits.any(axis=0)
    return found


@lru_cache(maxsize=_KEPT)
def preference(zones: int, width: int, numa: NumaInfo) -> Rows:
    """Return the positions of the sets in `of_width`, the kubelet's preferred one first.

    The order is that of `NumaInfo.rank`.
    """
    sets: Sequence[int] = of_width(zones, width).tolist()
    return np.array(sorted(range(len(sets)), key=lambda at: numa.rank(sets[at])), dtype=np.intp)


def widths(masks: Ints) -> Ints:
    """Return how many zones each set has."""
    return np.bitwise_count(masks)
