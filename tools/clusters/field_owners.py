"""
The owners of an object's fields, for server-side apply in the fake API server.

Maps are owned by key, and lists as a whole, as in a custom resource that declares nothing else; so are owner
references, which a real server owns by UID. Sources: k8s.io/apimachinery (pkg/util/managedfields),
sigs.k8s.io/structured-merge-diff (merge/update.go).
"""

import copy
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Json = dict[str, Any]
FieldPath = tuple[str, ...]

_OF_METADATA = ("name", "namespace", "uid", "creationTimestamp", "resourceVersion")
OF_THE_SERVER = {("apiVersion",), ("kind",), *(("metadata", name) for name in _OF_METADATA)}
"""Fields without owners."""


class FieldOwners:
    """The owners of the fields of one object, by the names of managers."""

    def __init__(self) -> None:
        self._owned: dict[str, set[FieldPath]] = {}

    def wrote(self, manager: str, before: Json | None, after: Json) -> None:
        """Record that a manager changed `before` into `after`: it alone owns the changed fields."""
        earlier, later = fields(before or {}), fields(after)
        changed = {path for path in later if path not in earlier or earlier[path] != later[path]}
        for other, owned in self._owned.items():
            owned.intersection_update(later)
            if other != manager:
                owned.difference_update(changed)
        self._owned.setdefault(manager, set()).update(changed)

    def conflicts(self, manager: str, before: Json, wanted: Json) -> list[tuple[FieldPath, str]]:
        """Return the fields of others that a manager would change, with their owners."""
        earlier = fields(before)
        return [
            (path, other)
            for path, value in fields(wanted).items()
            for other, owned in self._owned.items()
            if other != manager and path in owned and earlier.get(path) != value
        ]

    def applied(self, manager: str, before: Json, wanted: Json) -> Json:
        """Return the object after a manager applied these fields; others that it alone owns are removed."""
        now, earlier, after = fields(wanted), fields(before), copy.deepcopy(before)
        others = [owned for other, owned in self._owned.items() if other != manager]
        for path in self._owned.get(manager, set()) - now.keys() - set[FieldPath]().union(*others):
            holder = after
            for key in path[:-1]:
                holder = holder.get(key, {})
            holder.pop(path[-1], None)
        for path, value in now.items():
            holder = after
            for key in path[:-1]:
                holder = holder.setdefault(key, {})
            holder[path[-1]] = copy.deepcopy(value)
        for owned in others:
            owned.difference_update(path for path in now if earlier.get(path) != now[path])
        self._owned[manager] = set(now)
        return after


def fields(found: Json) -> dict[FieldPath, Any]:
    return {path: value for path, value in _leaves(found, ()) if path not in OF_THE_SERVER}


def _leaves(found: Mapping[str, Any], above: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    for key, value in found.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key), value


def conflict_message(conflicts: Iterable[tuple[FieldPath, str]]) -> str:
    """Return the message about fields of others, as k8s.io/apimachinery does (getConflictMessage)."""
    owned = defaultdict[str, list[str]](list)
    for path, manager in conflicts:
        owned[manager].append(f".{'.'.join(path)}")
    total = sum(map(len, owned.values()))
    if total == 1:
        [(manager, [path_])] = owned.items()
        return f'Apply failed with 1 conflict: conflict with "{manager}": {path_}'
    lines = ("\n- ".join((f'conflicts with "{manager}":', *owned[manager])) for manager in sorted(owned))
    return f"Apply failed with {total} conflicts: " + "\n".join(lines)
