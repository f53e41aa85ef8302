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
    """The value that was met first of all that equal this one, or this one itself."""
    return cast("Value", _first(value))


@lru_cache(maxsize=REMEMBERED, typed=True)
def _first(value: Hashable) -> Hashable:
    return value
