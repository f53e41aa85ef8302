"""
A queue in which namespaces take turns.

One namespace with thousands of entries neither delays nor displaces those of another.
"""

from collections import OrderedDict
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class NamespaceQueue(Generic[Key, Value]):
    """At most `most` entries. Beyond it, the namespace with the most entries loses its last one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._entries: OrderedDict[str, OrderedDict[Key, Value]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of entries."""
        return self._count

    def put(self, namespace: str, key: Key, value: Value) -> bool:
        """Queue an entry, in place of one with the same key; return whether no entry had to be dropped."""
        own = self._entries.setdefault(namespace, OrderedDict())
        self._count += key not in own
        own[key] = value
        own.move_to_end(key)
        if self._count <= self._most:
            return True
        fullest = max(reversed(self._entries), key=lambda name: len(self._entries[name]))
        self._pop(fullest, last=True)
        return False

    def take(self) -> tuple[Key, Value]:
        """Remove and return the first entry of the namespace whose turn it is; there must be one."""
        namespace = next(iter(self._entries))
        self._entries.move_to_end(namespace)
        return self._pop(namespace, last=False)

    def _pop(self, namespace: str, *, last: bool) -> tuple[Key, Value]:
        own = self._entries[namespace]
        entry = own.popitem(last=last)
        self._count -= 1
        if not own:
            del self._entries[namespace]
        return entry
