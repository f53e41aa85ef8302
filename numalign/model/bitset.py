"""
Sets of small numbers as the bits of one: CPUs by their ids, zones by their positions.

All CPUs of a machine are one integer, so that to intersect, to join and to count are single operations.
"""

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_


def bits(members: Iterable[int]) -> int:
    """Return the set of these numbers."""
    return reduce(or_, (1 << member for member in members), 0)


def members(held: int) -> Iterator[int]:
    """Yield the numbers in a set, ascending."""
    while held:
        smallest = held & -held
        yield smallest.bit_length() - 1
        held ^= smallest


def union(sets: Iterable[int]) -> int:
    """Return all that is in any of these sets."""
    return reduce(or_, sets, 0)


def lowest(held: int, count: int) -> int:
    """Return the so many smallest numbers of a set; all of them, if it has no more."""
    beyond = held
    for _ in range(count):
        beyond &= beyond - 1
    return held ^ beyond
