"""Time as an argument: the time of day, and waiting; a test turns both itself."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""The time of day, aware of its zone."""

Sleep = Callable[[float], Awaitable[None]]
"""Waits for so many seconds."""


def utc_now() -> datetime:
    """Return the time of day, aware of its zone: the clock for programs."""
    return datetime.now(UTC)
