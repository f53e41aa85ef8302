"""Amounts of one resource by position, and how they are drawn from one position after another."""

from collections.abc import Iterable

ZoneAmounts = tuple[int, ...]
"""One amount per position: a zone, or another place."""


def draw(amounts: ZoneAmounts, positions: Iterable[int], request: int) -> ZoneAmounts:
    """Take what is asked from these positions in turn, as far as it goes."""
    taken = [0] * len(amounts)
    for at in positions:
        taken[at] = min(amounts[at], request)
        request -= taken[at]
    return tuple(taken)


def add(one: ZoneAmounts, other: ZoneAmounts) -> ZoneAmounts:
    """Position by position."""
    return tuple(map(int.__add__, one, other))


def subtract(one: ZoneAmounts, other: ZoneAmounts) -> ZoneAmounts:
    """Position by position."""
    return tuple(map(int.__sub__, one, other))
