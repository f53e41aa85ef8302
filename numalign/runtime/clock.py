"""Time as an argument: the time of day, and waiting; tests control both."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Returns the time of day with its time zone."""

Sleep = Callable[[float], Awaitable[None]]
"""Waits for a number of seconds."""


def utc_now() -> datetime:
    """Return the time of day with its time zone: the clock for programs."""
    return datetime.now(UTC)
