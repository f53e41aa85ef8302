"""
A cache of the most recently used values.

Pod requests are up to the users who create pods, so nothing that is stored per question may grow without
bound: neither in number, nor in bytes.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import update_wrapper
from threading import Lock
from typing import Generic, Protocol, TypeVar, TypeVarTuple

from numalign.memory_size import weight

Key = TypeVar("Key")
Value = TypeVar("Value")
Arguments = TypeVarTuple("Arguments")

MOST_BYTES = 2**24
"""The default limit of a cache: 4,096 pods of the usual size."""

ENTRY_BYTES = 200
"""The bytes of an entry itself: its places in two tables."""


class Cache(Protocol):
    """A cache, by its size."""

    @property
    def bytes(self) -> int:
        """The bytes of all entries together, as far as known."""

    def __len__(self) -> int:
        """Return the number of entries."""


Caches = Mapping[str, Cache]
"""Caches by their names in metrics."""


def digest(written: bytes) -> bytes:
    """Return a key of fixed length for a text of any length, without practical collisions."""
    return hashlib.blake2b(written, digest_size=32).digest()


class LRU(Generic[Key, Value]):
    """At most `limit` values by key, of `most_bytes` together; the least recently used is dropped first.

    A single larger value is kept until there is another. `weigh` returns the bytes of key and value.
    """

    def __init__(
        self,
        limit: int,
        *,
        most_bytes: int = MOST_BYTES,
        weigh: Callable[[Key, Value], int] = weight,
    ) -> None:
        self._limit = limit
        self._most_bytes = most_bytes
        self._weigh = weigh
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._weights: dict[Key, int] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the cached value of the key, else the result of `make`, cached from now on."""
        if key in self._values:
            self._values.move_to_end(key)
        else:
            self._add(key, make())
        return self._values[key]

    def values(self) -> tuple[Value, ...]:
        """Return all cached values without using them; the least recently used first."""
        return tuple(self._values.values())

    def put(self, key: Key, value: Value) -> None:
        """Store a value in place of an earlier one."""
        self.drop(key)
        self._add(key, value)

    def drop(self, key: Key) -> None:
        """Remove a value, if it is cached."""
        if key in self._values:
            del self._values[key]
            self.bytes -= self._weights.pop(key)

    def weigh_again(self, key: Key) -> None:
        """Update the size of a value that has grown since it was stored, if it is cached."""
        if key in self._values:
            self.bytes -= self._weights[key]
            self._note(key, self._values[key])

    def find(self, key: Key) -> Value | None:
        """Return the cached value, as used now; None if there is none."""
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def peek(self, key: Key) -> Value | None:
        """Return the cached value, without using it."""
        return self._values.get(key)

    def _add(self, key: Key, value: Value) -> None:
        self._values[key] = value
        self._note(key, value)

    def _note(self, key: Key, value: Value) -> None:
        """Note the size of a value, and make room for it."""
        self._weights[key] = ENTRY_BYTES + self._weigh(key, value)
        self.bytes += self._weights[key]
        while len(self) > self._limit or (self.bytes > self._most_bytes and len(self) > 1):
            self.drop(next(iter(self._values)))


class Remembering(Generic[*Arguments, Value]):
    """A function with a cache of its results within a number of bytes; see `LRU`.

    It is used where `functools.lru_cache` counts too little: where others decide the size of a value. Several
    threads may call at once.
    """

    def __init__(self, function: Callable[[*Arguments], Value], limit: int, most_bytes: int) -> None:
        self.cache = LRU[tuple[*Arguments], Value](limit, most_bytes=most_bytes)
        self._function = function
        self._lock = Lock()
        update_wrapper(self, function)

    def __call__(self, *arguments: *Arguments) -> Value:
        """Return the result of the function, from the cache if it is there."""
        with self._lock:
            if (known := self.cache.find(arguments)) is not None:
                return known
        value = self._function(*arguments)
        with self._lock:
            self.cache.put(arguments, value)
        return value


def remembering(
    limit: int, *, most_bytes: int = MOST_BYTES
) -> Callable[[Callable[[*Arguments], Value]], Remembering[*Arguments, Value]]:
    """Return a decorator that caches results within limits; results that are None are not cached."""
    return lambda function: Remembering(function, limit, most_bytes)
