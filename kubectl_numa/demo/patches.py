"""
JSON patches (RFC 6902), applied as strictly as by an API server.

Only `add` and `replace` are supported, since numalign writes nothing else; a patch that does not fit the
object exactly would make an API server reject the pod, so here it is an error too.

    ValueError
    └── BadPatch    a patch that an API server could not apply
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson


class BadPatch(ValueError):
    """Raised if an operation is not one that numalign writes, or does not fit the object."""


def apply(document: Mapping[str, Any], operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a copy of the document with all operations applied in order; raises `BadPatch`."""
    patched: dict[str, Any] = copied(document)
    for operation in operations:
        op, path = operation.get("op"), operation.get("path")
        is_ours = op in {"add", "replace"} and isinstance(path, str) and path.startswith("/")
        if not is_ours or "value" not in operation:
            raise BadPatch(f"{operation} is not an operation that numalign writes")
        try:
            _write(patched, str(path), copied(operation["value"]), insert=op == "add")
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise BadPatch(f"{op} {path} does not fit the object") from error
    return patched


def copied(value: Any) -> Any:  # noqa: ANN401 any JSON document
    """Return a deep copy of a document; many times faster than `copy.deepcopy`."""
    return orjson.loads(orjson.dumps(value))


def _write(document: dict[str, Any], path: str, value: object, *, insert: bool) -> None:
    """Write a value at a path; raises a lookup, type or value error if the document has no such place."""
    *parents, last = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]
    place: Any = document
    for step in parents:
        place = place[_key(place, step)]
    key: Any = _key(place, last)
    if not insert:
        place[key]
        place[key] = value
    elif not isinstance(place, list):
        place[key] = value
    elif key > len(place):
        raise IndexError(key)
    else:
        place.insert(key, value)


def _key(place: object, step: str) -> str | int:
    """Return a member's name, or the position in a list; `-` is the one after the last."""
    if not isinstance(place, list):
        return step
    if step == "-":
        return len(place)
    if not step.isdecimal() or str(int(step)) != step:
        raise ValueError(step)
    return int(step)
