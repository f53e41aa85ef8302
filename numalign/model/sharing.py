"""
Equal values, kept once.

A cluster has thousands of nodes of a few models, and what is equal about them is read thousands of times.
Values never change, so nobody can tell whether two nodes hold one bag of resources or two equal ones, except
by the memory that they take.
"""

from collections.abc import Hashable
from functools import lru_cache
from typing import TypeVar, cast

REMEMBERED = 4096
"""Values that others are compared with: those of a few hundred models, whatever else comes between."""

Value = TypeVar("Value", bound=Hashable)


def shared(value: Value) -> Value:
    """One object for all equal values: the first that came, as long as it is among the `REMEMBERED`."""
    return cast("Value", _first(value))


@lru_cache(maxsize=REMEMBERED, typed=True)
def _first(value: Hashable) -> Hashable:
    return value
