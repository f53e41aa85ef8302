"""
Sets of zones on many nodes at once: `kubelet.hint_sets` in columns.

A lattice says of every set of zones whether it is among those that are meant: (2^zones, rows), where bit i of
the number of a set stands for the i-th zone. The empty set never is. There are eight zones at the most, so
that the sets of a node can be ranked by one byte.
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
"""Whoever asks for more is taken to ask for so much, which no node has either."""

_LAST = 2**8 - 1
"""What comes after every rank: eight zones have 255 sets, from 0 to 254."""


@dataclass(frozen=True, slots=True, eq=False)
class SetOrder:
    """All sets of zones in some order.

    `ranks` is the rank of each set by its number, `masks` the set of each rank; behind the last set stands
    what is chosen where there is none.
    """

    ranks: NDArray[np.uint8]
    masks: NDArray[np.int16]


def in_order(order: Iterable[Mask], otherwise: Mask = 0) -> SetOrder:
    """Return all sets of some zones in this order, and what is chosen where there is none."""
    masks = np.full(_LAST + 1, otherwise, dtype=np.int16)
    listed = np.fromiter(order, dtype=np.int16)
    masks[: len(listed)] = listed
    ranks = np.full(len(listed) + 1, _LAST, dtype=np.uint8)
    ranks[listed] = np.arange(len(listed))
    return SetOrder(ranks, masks)


@lru_cache(maxsize=64)
def by_preference(numa: NumaInfo) -> SetOrder:
    """The order in which the kubelet chooses: fewest zones, then the closest, then the smaller number."""
    return in_order(sorted(bitmask.ascending(numa.count), key=numa.rank))


def best(lattice: Bools, order: SetOrder) -> Ints:
    """Return the set that comes first, by row; where there is none, what the order has for that."""
    chosen: Ints = order.masks[lowest(lattice, order.ranks[:, None])]
    return chosen


def lowest(lattice: Bools, numbers: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the lowest number of a set that is there, by row; 255 where there is none.

    `numbers` are by set, and by row or alike for all of them: (2^zones, rows or 1).
    """
    # Of a set that is not there all bits are set; no choice has to be made, so it runs in long vectors.
    absent = lattice.view(np.uint8) - np.uint8(1)
    found: NDArray[np.uint8] = np.bitwise_or(absent, numbers, out=absent).min(axis=0)
    return found


def narrowest_width(lattice: Bools, default: int) -> Ints:
    """Return the fewest zones of a set that is there, by row."""
    least = lowest(lattice, widths(len(lattice))[:, None])
    narrowest: Ints = np.where(least == _LAST, default, least).astype(np.int16)
    return narrowest


def of_width(lattice: Bools, width: Ints | int) -> Bools:
    """Return those sets that have so many zones, by row or alike for all rows."""
    alike: Bools = lattice & (widths(len(lattice))[:, None] == width)
    return alike


@lru_cache(maxsize=16)
def widths(sets: int) -> NDArray[np.uint8]:
    """Return how many zones each of so many sets has."""
    return np.bitwise_count(np.arange(sets, dtype=np.uint8))


def reaching(amounts: Ints, request: int) -> Bools:
    """The sets whose zones have as much as asked together; amounts are (zones, rows), and below 2^59 each."""
    half = len(amounts) // 2
    own, others = _totals(amounts[:half]), _totals(amounts[half:])
    # What the other zones leave to be had is worked out once for all sets of the first ones.
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
    """Return which of so many zones are in the set of each row: (zones, rows)."""
    inside: Bools = held & _bits(zones) != 0
    return inside


def masks(inside: Bools) -> Ints:
    """Return the set of each row, of which zones are in it: (zones, rows)."""
    held: Ints = (inside << np.arange(len(inside))[:, None]).sum(axis=0)
    return held


def around(least: Ints, zones: int) -> Bools:
    """The sets of so many zones that hold all of the set of each row; not only sets that have a zone."""
    bits = least.astype(np.uint8)
    holds: Bools = np.arange(1 << zones, dtype=np.uint8)[:, None] & bits == bits
    return holds


def apart(some: Ints, zones: int) -> Bools:
    """Return the sets of so many zones that hold none of the set of each row; the empty one as well."""
    clear: Bools = np.arange(1 << zones, dtype=np.uint8)[:, None] & some.astype(np.uint8) == 0
    return clear


@lru_cache(maxsize=16)
def _bits(zones: int) -> Ints:
    return 1 << np.arange(zones, dtype=np.int16)[:, None]


def intersections(one: Bools, other: Bools) -> Bools:
    """Return every set but the empty one that is the intersection of one of each, by row.

    How often a set is such an intersection is counted by an AND-convolution (`hint_sets.intersections`).
    There are at most 255 times 255 ways, which is less than 2^16; so what the sums between run over, 16 bits
    lose and find again.
    """
    ways = _folded(one.astype(np.uint16), np.add)
    ways *= _folded(other.astype(np.uint16), np.add)
    reached: Bools = _folded(ways, np.subtract) != 0
    # The kubelet throws away a permutation whose merged mask is empty (policy.go).
    reached[0] = False
    return reached


def _folded(counts: NDArray[np.uint16], fold: np.ufunc) -> NDArray[np.uint16]:
    """Add to each set all sets around it, or take them away again; in place."""
    sets, rows = counts.shape
    for zone in range(sets.bit_length() - 1):
        pairs = counts.reshape(sets >> zone + 1, 2, 1 << zone, rows)
        fold(pairs[:, 0], pairs[:, 1], out=pairs[:, 0])
    return counts
