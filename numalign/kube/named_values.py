"""
Values by name, changed one by one and handed out whole.

Of thousands of nodes a handful changes in a moment. So whoever puts snapshots together keeps what they hold
up to date name by name, and copies it as a whole, which takes no time to speak of; what did not change is not
even copied.
"""

from bisect import bisect_left
from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

Value = TypeVar("Value")


class NamedValues(Generic[Value]):
    """Values by name; what is handed out stays as it is."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._copy: Mapping[str, Value] | None = None

    def put(self, name: str, value: Value) -> None:
        """Add a value, or replace the one of this name."""
        if name not in self._values or self._values[name] is not value:
            self._values[name] = value
            self._copy = None

    def set(self, name: str, value: Value | None) -> None:
        """Hold this value under a name, or none."""
        if value is None:
            self.drop(name)
        else:
            self.put(name, value)

    def drop(self, name: str) -> None:
        """Take a value out, if it is there."""
        if name in self._values:
            del self._values[name]
            self._copy = None

    def copy(self) -> Mapping[str, Value]:
        """Return all values as they are now; the same object until one changes."""
        if self._copy is None:
            self._copy = MappingProxyType(self._values.copy())
        return self._copy


class SortedValues(Generic[Value]):
    """Values in the order of their names; what is handed out stays as it is."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._values: list[Value] = []

    def set(self, name: str, value: Value | None) -> None:
        """Hold this value under a name, or none."""
        at = bisect_left(self._names, name)
        there = at < len(self._names) and self._names[at] == name
        after = [] if value is None else [value]
        self._values[at : at + there] = after
        self._names[at : at + there] = [name] * len(after)

    def copy(self) -> tuple[Value, ...]:
        """Return all values as they are now."""
        return tuple(self._values)
