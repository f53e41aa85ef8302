"""
Remember the answers that were asked for most recently.

What pods ask is up to whoever creates them, so nothing that is kept per question may grow without bound:
neither in number, nor in bytes.
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
"""Of what is remembered in one place, unless somebody says otherwise: 4,096 pods such as people write."""

ENTRY_BYTES = 200
"""What it takes to remember anything at all: its places in two tables."""


class Cache(Protocol):
    """Something that is remembered, by its size."""

    @property
    def bytes(self) -> int:
        """Of all entries together, as far as it is known."""

    def __len__(self) -> int:
        """How many entries there are."""


Caches = Mapping[str, Cache]
"""What somebody remembers, by its name in metrics."""


def digest(written: bytes) -> bytes:
    """What stands for a text as a key, however long that is; nobody can find two texts that have the same."""
    return hashlib.blake2b(written, digest_size=32).digest()


class LRU(Generic[Key, Value]):
    """At most `limit` values by key, of `most_bytes` together; the one not asked for longest goes first.

    What alone is more than that is kept until there is another. `weigh` gives the bytes of key and value.
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
        """Return what is remembered under the key, else what `make` gives, remembered from now on."""
        if key in self._values:
            self._values.move_to_end(key)
        else:
            self._add(key, make())
        return self._values[key]

    def values(self) -> tuple[Value, ...]:
        """Return all that is remembered, without asking for it; the least recently asked for first."""
        return tuple(self._values.values())

    def put(self, key: Key, value: Value) -> None:
        """Remember a value in place of the one that was there."""
        self.drop(key)
        self._add(key, value)

    def drop(self, key: Key) -> None:
        """Forget a value, if it is remembered."""
        if key in self._values:
            del self._values[key]
            self.bytes -= self._weights.pop(key)

    def weigh_again(self, key: Key) -> None:
        """Take note of what a value has come to take since it was remembered, if it is."""
        if key in self._values:
            self.bytes -= self._weights[key]
            self._note(key, self._values[key])

    def find(self, key: Key) -> Value | None:
        """Return what is remembered, asked for now; None if nothing is."""
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def peek(self, key: Key) -> Value | None:
        """Return what is remembered, without asking for it."""
        return self._values.get(key)

    def _add(self, key: Key, value: Value) -> None:
        self._values[key] = value
        self._note(key, value)

    def _note(self, key: Key, value: Value) -> None:
        """Note what a value takes, and make room for it."""
        self._weights[key] = ENTRY_BYTES + self._weigh(key, value)
        self.bytes += self._weights[key]
        while len(self) > self._limit or (self.bytes > self._most_bytes and len(self) > 1):
            self.drop(next(iter(self._values)))


class Remembering(Generic[*Arguments, Value]):
    """A function that remembers what it gave for what it was asked, within so many bytes; see `LRU`.

    It stands where `functools.lru_cache` counts too little: where others decide how large a value is. Several
    threads may ask at once.
    """

    def __init__(self, function: Callable[[*Arguments], Value], limit: int, most_bytes: int) -> None:
        self.cache = LRU[tuple[*Arguments], Value](limit, most_bytes=most_bytes)
        self._function = function
        self._lock = Lock()
        update_wrapper(self, function)

    def __call__(self, *arguments: *Arguments) -> Value:
        """What the function gives, or gave when it was asked the same."""
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
    """Have a function remember at most so much; what is None is worked out each time."""
    return lambda function: Remembering(function, limit, most_bytes)
