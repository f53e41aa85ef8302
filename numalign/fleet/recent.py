"""
Remember the answers that were asked for most recently.

What pods ask is up to whoever creates them, so nothing that is kept per question may grow without bound.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """At most `limit` values by key; the one that was not asked for longest goes first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """What is remembered under the key, else what `make` gives, remembered from now on."""
        if key in self._values:
            self._values.move_to_end(key)
        else:
            self._values[key] = make()
            if len(self._values) > self._limit:
                self._values.popitem(last=False)
        return self._values[key]

    def put(self, key: Key, value: Value) -> None:
        """Remember a value in place of the one that was there."""
        self._values.pop(key, None)
        self.get(key, lambda: value)

    def values(self) -> list[Value]:
        """All that is remembered."""
        return list(self._values.values())

    def peek(self, key: Key) -> Value | None:
        """What is remembered, without asking for it."""
        return self._values.get(key)
