"""The syntax of labels in Kubernetes, so that errors are reported before the API server does."""

import re
from collections.abc import Iterable

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"

KEY = re.compile(rf"((?=.{{1,253}}/){_DOMAIN}/)?{_NAME}")
VALUE = re.compile(rf"({_NAME})?")


def impossible(key: str, values: Iterable[str]) -> str | None:
    """Return why no label can have this key and one of these values; None if each can."""
    wrong = [] if KEY.fullmatch(key) else [f"key {key!r}"]
    wrong += [f"value {value!r}" for value in values if not VALUE.fullmatch(value)]
    return f"no label can have the {', '.join(wrong)}" if wrong else None
