"""
A cache of the most recently used values.

Pod requests are up to the users who create pods, so nothing that is stored per question may grow without
bound. A cache is bounded by the number of its entries, and each entry by its size when it comes in: of those
that are too large to be stored by the thousand, only the last few stay.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sized
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

LARGE = 2**13
"""The characters of `repr` from which values are large: a pod of twenty containers has fewer."""

MOST_LARGE = 8
"""The limit of large entries of a cache."""

Caches = Mapping[str, Sized]
"""Caches by their names in metrics."""


def is_large(*values: object) -> bool:
    """Return whether values together are large; the time is linear in their size."""
    return sum(len(repr(value)) for value in values) > LARGE


def digest(written: bytes) -> bytes:
    """Return a key of fixed length for a text of any length, without practical collisions."""
    return hashlib.blake2b(written, digest_size=32).digest()


def _never(_key: object, _value: object) -> bool:
    return False


class LRU(Generic[Key, Value]):
    """At most `limit` values by key, `MOST_LARGE` of them large; the least recently used is dropped first.

    The default is for values that are all small.
    """

    def __init__(self, limit: int, large: Callable[[Key, Value], bool] = _never) -> None:
        self.limit = limit
        self._is_large = large
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._large: OrderedDict[Key, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the cached value of the key, else the result of `make`, cached from now on."""
        if key not in self._values:
            self.put(key, make())
        self._use(key)
        return self._values[key]

    def values(self) -> tuple[Value, ...]:
        """Return all cached values without using them; the least recently used first."""
        return tuple(self._values.values())

    def put(self, key: Key, value: Value) -> None:
        """Store a value in place of an earlier one."""
        self.drop(key)
        self._values[key] = value
        if self._is_large(key, value):
            self._large[key] = None
        while len(self._large) > MOST_LARGE:
            self.drop(next(iter(self._large)))
        while len(self._values) > self.limit:
            self.drop(next(iter(self._values)))

    def drop(self, key: Key) -> None:
        """Remove a value, if it is cached."""
        self._values.pop(key, None)
        self._large.pop(key, None)

    def find(self, key: Key) -> Value | None:
        """Return the cached value, as used now; None if there is none."""
        if key in self._values:
            self._use(key)
        return self._values.get(key)

    def peek(self, key: Key) -> Value | None:
        """Return the cached value, without using it."""
        return self._values.get(key)

    def _use(self, key: Key) -> None:
        self._values.move_to_end(key)
        if key in self._large:
            self._large.move_to_end(key)
