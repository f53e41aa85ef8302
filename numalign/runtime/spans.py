"""Durations in settings and on command lines."""

import re
from types import MappingProxyType

_SPAN = re.compile(r"([0-9]{1,9})([smhd])|0")
_SECONDS = MappingProxyType({"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0})


def seconds(text: str) -> float:
    """Return a duration in seconds from `30d`, `12h`, `90m`, `45s` or `0`; raise `ValueError`."""
    match = _SPAN.fullmatch(text)
    if not match:
        raise ValueError("a duration is a whole number of s, m, h or d, such as 12h or 30d, or 0")
    return float(match[1]) * _SECONDS[match[2]] if match[1] else 0.0
