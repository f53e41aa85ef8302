"""
Sets of zones as bits, so that all of them can be enumerated.

Bit i is the zone with the i-th smallest id. The kubelet orders masks by their number, and an order-preserving
renaming of zones does not change that order, so ids need not be dense. Outside this package there are only
ids.

Eight zones have 255 sets, and each of them may be visited for each resource of each container. So the loops
here are left to the interpreter (`map`), and `hint_sets` stores many sets in one number.
"""

from collections.abc import Iterable
from functools import lru_cache

from numalign.model.bitset import members
from numalign.model.placement import ZoneSet
from numalign.model.resources import ZoneId

Mask = int

MOST_KEPT = 8


def full(count: int) -> Mask:
    """Return the mask of all zones."""
    return (1 << count) - 1


def ascending(count: int) -> range:
    """Return every mask but the empty one, by number."""
    return range(1, 1 << count)


@lru_cache(maxsize=4096)
def ids(mask: Mask, order: tuple[ZoneId, ...]) -> ZoneSet:
    """Return the ids in a mask, ascending, where `order` has the id of each position."""
    return tuple(sorted([order[position] for position in members(mask)]))


def sums(amounts: tuple[int, ...]) -> tuple[int, ...]:
    """Return the total of every mask, indexed by the mask.

    What a node has changes less often than what is requested of it, so totals are cached; but not for more
    zones than a kubelet aligns by default, because each zone doubles them.
    """
    return _kept_sums(amounts) if len(amounts) <= MOST_KEPT else _sums(amounts)


def joined(parts: tuple[int, ...]) -> list[int]:
    """Return the union of the parts of every mask, indexed by the mask."""
    together = [0]
    for part in parts:
        together += list(map(part.__or__, together))
    return together


def fewest(amounts: Iterable[int], request: int) -> int | None:
    """Return how many of these amounts are needed to satisfy a request; None if all are too little."""
    reached = 0
    for count, amount in enumerate(sorted(amounts, reverse=True), start=1):
        reached += amount
        if reached >= request:
            return count
    return None


def _sums(amounts: tuple[int, ...]) -> tuple[int, ...]:
    totals = [0]
    for amount in amounts:
        totals += list(map(amount.__add__, totals))
    return tuple(totals)


_kept_sums = lru_cache(maxsize=1024)(_sums)


# Amounts of one resource by position, and how they are taken from one position after another.

ZoneAmounts = tuple[int, ...]
"""One amount per position: a zone, or another place."""


def draw(amounts: ZoneAmounts, positions: Iterable[int], request: int) -> ZoneAmounts:
    """Return how much of a request each position gives, in turn; less in total if they have less."""
    taken = [0] * len(amounts)
    for at in positions:
        taken[at] = min(amounts[at], request)
        request -= taken[at]
    return tuple(taken)


def add(one: ZoneAmounts, other: ZoneAmounts) -> ZoneAmounts:
    """Return the sums, position by position."""
    return tuple(map(int.__add__, one, other))


def subtract(one: ZoneAmounts, other: ZoneAmounts) -> ZoneAmounts:
    """Return the differences, position by position."""
    return tuple(map(int.__sub__, one, other))
