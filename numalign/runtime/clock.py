"""Time as an argument: the time of day, and waiting; tests control both. Durations as text."""

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from types import MappingProxyType

Clock = Callable[[], datetime]  # Returns the time of day with its time zone.
Sleep = Callable[[float], Awaitable[None]]  # Waits for a number of seconds.


SKEW_SECONDS = 300.0
"""By how much the clocks of two machines may differ where a time that another one wrote has to be read."""


def least_age(now: float, *stamps: float) -> float:
    """Return for how many seconds at least all `stamps` have been over, whichever machines wrote them.

    All are in seconds since 1970, by clocks that differ by at most `SKEW_SECONDS`.
    """
    return max(0.0, now - max(stamps) - SKEW_SECONDS)


def utc_now() -> datetime:
    """Return the time of day with its time zone: the clock for programs."""
    return datetime.now(UTC)


_SPAN = re.compile(r"([0-9]{1,9})([smhd])|0")
_SECONDS = MappingProxyType({"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0})


def seconds(text: str) -> float:
    """Return a duration in seconds from `30d`, `12h`, `90m`, `45s` or `0`; raise `ValueError`."""
    match = _SPAN.fullmatch(text)
    if not match:
        raise ValueError("a duration is a whole number of s, m, h or d, such as 12h or 30d, or 0")
    return float(match[1]) * _SECONDS[match[2]] if match[1] else 0.0
