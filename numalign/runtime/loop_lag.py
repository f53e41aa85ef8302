"""
The delay of the event loop.

One thread answers all requests, so each uninterrupted piece of work delays all others. The duration of calls
does not show it, because a call is noticed only after the loop gets to it. So a timer fires all the time, and
is as late as a call would be that arrived when the timer was due.
"""

import asyncio
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Histogram

from numalign.runtime.clock import Sleep
from numalign.runtime.metrics import PREFIX

TICK_SECONDS = 0.05
"""Between two ticks: they take a thousandth of a CPU, and detect a stall of a millisecond each second."""

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class LoopLag:
    """Measures the delay of every tick of a clock; `clock` and `sleep` are its time and waiting."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._seconds = Histogram(
            f"{PREFIX}event_loop_lag_seconds",
            "Delay of the event loop in seconds.",
            buckets=_BUCKETS,
            registry=registry,
        )

    async def watch(self) -> None:
        """Measure; never returns."""
        due = self._clock() + TICK_SECONDS
        while True:
            await self._sleep(due - self._clock())
            now = self._clock()
            # Calls arrived while the loop was blocked, so each tick of that time counts.
            while due <= now:
                self._seconds.observe(now - due)
                due += TICK_SECONDS
