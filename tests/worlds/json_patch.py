"""A JSON patch that adds and replaces (RFC 6902), applied as strictly as an API server does."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from webhook.patch import Operation

Raw = dict[str, Any]


def applied(pod: Raw, operations: Iterable[Operation | Mapping[str, Any]]) -> Raw:
    document: Raw = orjson.loads(orjson.dumps(pod))
    for operation in orjson.loads(orjson.dumps(tuple(operations))):
        steps = operation["path"].split("/")[1:]
        # RFC 6901 writes ~1 for a slash in a key, and ~0 for a tilde.
        *parents, last = (step.replace("~1", "/").replace("~0", "~") for step in steps)
        target: Any = document
        for step in parents:
            target = target[int(step)] if isinstance(target, list) else target[step]
        _put(target, last, op=operation["op"], value=operation["value"])
    return document


def _put(target: Any, last: str, *, op: str, value: object) -> None:  # noqa: ANN401 - any JSON
    if isinstance(target, list):
        at = len(target) if last == "-" else int(last)
        if not 0 <= at < len(target) + (op == "add"):
            raise IndexError(last)
        target[at : at + (op == "replace")] = [value]
    elif isinstance(target, dict) and (op == "add" or last in target):
        target[last] = value
    else:
        raise KeyError(last)
