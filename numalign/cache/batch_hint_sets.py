"""
Sets of zones on many nodes at once: `kubelet.hint_sets` in columns.

A lattice is an array of whether each set of zones is included, (2^zones, rows), where bit i of the number of
a set is the i-th zone. The empty set is not included. There are at most eight zones, so that one byte can
rank the sets of a node.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from numalign.cache.arrays import Bools, Ints
from numalign.kubelet import bitmask
from numalign.kubelet.bitmask import Mask
from numalign.kubelet.topology_manager import NumaInfo

MOST_ASKED = 2**62
"""The limit of a request: a larger one is treated as this much, which no node has either."""

_LAST = 2**8 - 1
"""The rank after all others: eight zones have 255 sets, with ranks from 0 to 254."""


@dataclass(frozen=True, slots=True, eq=False)
class SetOrder:
    """All sets of zones in some order.

    `ranks` is the rank of each set by its number, `masks` the set of each rank; after the last set it has the
    choice for rows without a set.
    """

    ranks: NDArray[np.uint8]
    masks: NDArray[np.int16]


def in_order(order: Iterable[Mask], otherwise: Mask = 0) -> SetOrder:
    """Return this order of all sets of some zones; `otherwise` is the choice where there is no set."""
    masks = np.full(_LAST + 1, otherwise, dtype=np.int16)
    listed = np.fromiter(order, dtype=np.int16)
    masks[: len(listed)] = listed
    ranks = np.full(len(listed) + 1, _LAST, dtype=np.uint8)
    ranks[listed] = np.arange(len(listed))
    return SetOrder(ranks, masks)


@lru_cache(maxsize=64)
def by_preference(numa: NumaInfo) -> SetOrder:
    """Return the kubelet's order of choice: fewest zones, then the closest, then the smaller number."""
    return in_order(sorted(bitmask.ascending(numa.count), key=numa.rank))


def best(lattice: Bools, order: SetOrder) -> Ints:
    """Return the first set of a lattice, by row; where it has none, the choice of the order for that."""
    chosen: Ints = order.masks[lowest(lattice, order.ranks[:, None])]
    return chosen


def lowest(lattice: Bools, numbers: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the lowest number of a set in the lattice, by row; 255 where it has none.

    `numbers` are by set, and by row or the same for all rows: (2^zones, rows or 1).
    """
    # A missing set has the number 255, with all bits set; without branches this is vectorized.
    absent = lattice.view(np.uint8) - np.uint8(1)
    found: NDArray[np.uint8] = np.bitwise_or(absent, numbers, out=absent).min(axis=0)
    return found


def narrowest_width(lattice: Bools, default: int) -> Ints:
    """Return the fewest zones of a set in the lattice, by row; `default` where it has none."""
    least = lowest(lattice, widths(len(lattice))[:, None])
    narrowest: Ints = np.where(least == _LAST, default, least).astype(np.int16)
    return narrowest


def of_width(lattice: Bools, width: Ints | int) -> Bools:
    """Return the sets of a lattice with `width` zones, by row or the same for all rows."""
    alike: Bools = lattice & (widths(len(lattice))[:, None] == width)
    return alike


@lru_cache(maxsize=16)
def widths(sets: int) -> NDArray[np.uint8]:
    """Return the number of zones of each of the first `sets` sets."""
    return np.bitwise_count(np.arange(sets, dtype=np.uint8))


def reaching(amounts: Ints, request: int) -> Bools:
    """Return the sets whose zones together have enough; amounts are (zones, rows), each below 2^59."""
    half = len(amounts) // 2
    own, others = _totals(amounts[:half]), _totals(amounts[half:])
    # What the first zones have to provide is computed once for each set of the other zones.
    missing = min(request, MOST_ASKED) - others
    enough: Bools = (own >= missing[:, None]).reshape(1 << len(amounts), amounts.shape[1])
    enough[0] = False
    return enough


def _totals(amounts: Ints) -> Ints:
    """Return the totals of all sets of these zones, by number."""
    totals = np.zeros((1 << len(amounts), amounts.shape[1]), dtype=np.int64)
    for at, zone in enumerate(amounts):
        np.add(totals[: 1 << at], zone, out=totals[1 << at : 2 << at])
    return totals


def members(held: Ints, zones: int) -> Bools:
    """Return which zones are in the set of each row: (zones, rows)."""
    inside: Bools = held & _bits(zones) != 0
    return inside


def masks(inside: Bools) -> Ints:
    """Return the set of each row as bits; `inside` is which zones are in it: (zones, rows)."""
    held: Ints = (inside << np.arange(len(inside))[:, None]).sum(axis=0)
    return held


def around(least: Ints, zones: int) -> Bools:
    """Return the sets that contain the set of each row; the empty one too, if that is empty."""
    bits = least.astype(np.uint8)
    holds: Bools = np.arange(1 << zones, dtype=np.uint8)[:, None] & bits == bits
    return holds


def apart(some: Ints, zones: int) -> Bools:
    """Return the sets without any zone of the set of each row, the empty one included."""
    clear: Bools = np.arange(1 << zones, dtype=np.uint8)[:, None] & some.astype(np.uint8) == 0
    return clear


@lru_cache(maxsize=16)
def _bits(zones: int) -> Ints:
    return 1 << np.arange(zones, dtype=np.int16)[:, None]


def intersections(one: Bools, other: Bools) -> Bools:
    """Return every non-empty set that is the intersection of one set of each lattice, by row.

    An AND-convolution counts in how many ways a set is such an intersection (`hint_sets.intersections`).
    There are at most 255 times 255 ways, which is less than 2^16, so the counts are exact even if sums on the
    way to them overflow 16 bits.
    """
    ways = _folded(one.astype(np.uint16), np.add)
    ways *= _folded(other.astype(np.uint16), np.add)
    reached: Bools = _folded(ways, np.subtract) != 0
    # The kubelet ignores a permutation whose merged mask is empty (policy.go).
    reached[0] = False
    return reached


def _folded(counts: NDArray[np.uint16], fold: np.ufunc) -> NDArray[np.uint16]:
    """Add to the count of each set those of its supersets, or subtract them again; in place."""
    sets, rows = counts.shape
    for zone in range(sets.bit_length() - 1):
        pairs = counts.reshape(sets >> zone + 1, 2, 1 << zone, rows)
        fold(pairs[:, 0], pairs[:, 1], out=pairs[:, 0])
    return counts
