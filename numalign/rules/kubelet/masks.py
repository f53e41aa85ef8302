"""
Sets of zones as bits, so that all of them can be walked.

Bit i stands for the zone with the i-th smallest id. The kubelet orders masks by their number, and an
order-preserving renaming of zones does not change that order, so ids need not be dense. Outside this folder
there are only ids.
"""

from collections.abc import Iterable, Iterator, Sequence

from numalign.rules.placement import ZoneSet
from numalign.rules.resources import ZoneId

Mask = int


def full(count: int) -> Mask:
    """The mask of all zones."""
    return (1 << count) - 1


def ascending(count: int) -> range:
    """Every mask but the empty one, by number."""
    return range(1, 1 << count)


def reaching(totals: Sequence[int], asked: int) -> list[Mask]:
    """The masks whose total is at least what is asked (more than nothing), by number."""
    return [mask for mask, total in enumerate(totals) if total >= asked]


def of_width(candidates: Iterable[Mask], width: int) -> list[Mask]:
    """Those of so many zones."""
    return [mask for mask in candidates if mask.bit_count() == width]


def members(mask: Mask) -> Iterator[int]:
    """The positions in a mask, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def of(positions: Iterable[int]) -> Mask:
    """The mask of these positions."""
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask


def ids(mask: Mask, order: Sequence[ZoneId]) -> ZoneSet:
    """The ids that a mask stands for, where `order` lists all ids ascending."""
    return tuple(order[position] for position in members(mask))


def sums(amounts: Sequence[int]) -> list[int]:
    """The total of every mask, indexed by the mask."""
    totals = [0]
    for amount in amounts:
        totals += [total + amount for total in totals]
    return totals


def fewest(amounts: Iterable[int], asked: int) -> int | None:
    """How many of these amounts it takes to reach what is asked; None if all are too little."""
    reached = 0
    for count, amount in enumerate(sorted(amounts, reverse=True), start=1):
        reached += amount
        if reached >= asked:
            return count
    return None


def narrowest(masks: Iterable[Mask]) -> Mask:
    """The kubelet's choice among equals: fewest zones, then the smaller number."""
    return min(masks, key=lambda mask: (mask.bit_count(), mask))
