"""
The sets of so many zones, in the order of their numbers, and as arrays that columns are combined by.

Bit i of a set stands for the zone at position i. All is worked out once for each number of zones.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.kubelet import bitmask
from numalign.kubelet.topology_manager import NumaInfo

HALF = 4
"""So many zones are half of the most that there are."""

_KEPT = 128


@lru_cache(maxsize=_KEPT)
def of_width(zones: int, width: int) -> Ints:
    """Return the sets of so many of the zones, ascending."""
    sets = np.array([mask for mask in bitmask.ascending(zones) if mask.bit_count() == width], dtype=np.int64)
    sets.setflags(write=False)
    return sets


@lru_cache(maxsize=_KEPT)
def members(zones: int, width: int) -> NDArray[np.float64]:
    """Return which zones are in each set of so many, 0 or 1: (sets, zones).

    As floats, for of these there are fast products; totals of bytes are far below 2^53 (`layout.MOST_BYTES`).
    """
    return (of_width(zones, width)[:, None] >> np.arange(zones) & 1).astype(np.float64)


@lru_cache(maxsize=_KEPT)
def halves(zones: int, width: int) -> tuple[Rows, Rows]:
    """Return the sets of so many zones by their halves: the bits of the first zones, and those of the others.

    Of seventy sets of four zones in eight, each half is one of sixteen.
    """
    sets = of_width(zones, width).astype(np.intp)
    return sets & (1 << HALF) - 1, sets >> HALF


def first(zones: int, width: int, fits: Bools, numa: NumaInfo) -> Ints:
    """By row the set that a kubelet prefers of those of so many zones that fit; 0 where none does.

    `fits` is (sets, rows), in the order of `of_width`; `numa` says how far apart the zones of all rows are.
    """
    order, sets = preference(zones, width, numa), of_width(zones, width)
    found: Ints = sets[order[fits[order].argmax(axis=0)]] * fits.any(axis=0)
    return found


@lru_cache(maxsize=_KEPT)
def preference(zones: int, width: int, numa: NumaInfo) -> Rows:
    """The positions of the sets in `of_width`, the one that the kubelet prefers first (`NumaInfo.rank`)."""
    sets: Sequence[int] = of_width(zones, width).tolist()
    return np.array(sorted(range(len(sets)), key=lambda at: numa.rank(sets[at])), dtype=np.intp)


def widths(masks: Ints) -> Ints:
    """Return how many zones each set has."""
    return np.bitwise_count(masks)
