"""
Values by name, changed one by one and copied as a whole.

Of thousands of nodes a handful changes at a time. So the code that builds snapshots updates their values name
by name, and copies them as a whole, which takes hardly any time; unchanged values are not even copied.
"""

from bisect import bisect_left
from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

Value = TypeVar("Value")


class NamedValues(Generic[Value]):
    """Values by name; copies never change."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._copy: Mapping[str, Value] | None = None

    def put(self, name: str, value: Value) -> None:
        """Add a value, or replace the one of this name."""
        if name not in self._values or self._values[name] is not value:
            self._values[name] = value
            self._copy = None

    def set(self, name: str, value: Value | None) -> None:
        """Set the value of a name, or remove it."""
        if value is None:
            self.drop(name)
        else:
            self.put(name, value)

    def drop(self, name: str) -> None:
        """Remove a value, if it exists."""
        if name in self._values:
            del self._values[name]
            self._copy = None

    def copy(self) -> Mapping[str, Value]:
        """Return all current values; the same object until one changes."""
        if self._copy is None:
            self._copy = MappingProxyType(self._values.copy())
        return self._copy


class SortedValues(Generic[Value]):
    """Values in the order of their names; copies never change."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._values: list[Value] = []

    def set(self, name: str, value: Value | None) -> None:
        """Set the value of a name, or remove it."""
        at = bisect_left(self._names, name)
        there = at < len(self._names) and self._names[at] == name
        after = [] if value is None else [value]
        self._values[at : at + there] = after
        self._names[at : at + there] = [name] * len(after)

    def copy(self) -> tuple[Value, ...]:
        """Return all current values."""
        return tuple(self._values)
