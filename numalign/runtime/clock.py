"""Time as an argument: the time of day, and waiting; tests control both."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Returns the time of day with its time zone."""

Sleep = Callable[[float], Awaitable[None]]
"""Waits for a number of seconds."""


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
