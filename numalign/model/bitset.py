"""
Sets of small numbers as bits of an integer: CPUs by id, zones by position.

All CPUs of a machine fit into one integer, so intersection, union and count are single operations.
"""

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_


def bits(members: Iterable[int]) -> int:
    """Return the set of these numbers as an integer."""
    return reduce(or_, (1 << member for member in members), 0)


def members(held: int) -> Iterator[int]:
    """Yield the numbers in a set, ascending."""
    while held:
        smallest = held & -held
        yield smallest.bit_length() - 1
        held ^= smallest


def union(sets: Iterable[int]) -> int:
    """Return the union of these sets."""
    return reduce(or_, sets, 0)


def lowest(held: int, count: int) -> int:
    """Return the `count` smallest numbers of a set, or all of them if there are fewer."""
    beyond = held
    for _ in range(count):
        beyond &= beyond - 1
    return held ^ beyond
