"""Amounts of one resource by position, and how they are taken from one position after another."""

from collections.abc import Iterable

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
