"""
Equal values, stored once.

A cluster has thousands of nodes of a few models, and their equal parts are read thousands of times. Values
never change, so it makes no difference whether two nodes hold the same object or two equal ones, except for
the memory.
"""

from collections.abc import Hashable
from functools import lru_cache
from typing import TypeVar, cast

REMEMBERED = 4096
"""The size of the cache: the values of a few hundred models, with room for others."""

Value = TypeVar("Value", bound=Hashable)


def shared(value: Value) -> Value:
    """Return one object for all equal values: the first one, as long as it is among the `REMEMBERED`."""
    return cast("Value", _first(value))


@lru_cache(maxsize=REMEMBERED, typed=True)
def _first(value: Hashable) -> Hashable:
    return value
