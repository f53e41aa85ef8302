"""
Long work among short work.

One thread answers all requests, so long computations run in steps and let other tasks run. Those of calls
take turns by tenant.
"""

import asyncio
import time
from collections.abc import Generator, Iterator
from typing import TypeVar

from numalign.runtime.work_queue import CALL

Result = TypeVar("Result")

SECONDS = 0.001
"""How long one task may delay the others, if no single step takes longer."""

CALL_SECONDS = 0.005
"""The same for a call: most questions need only a few turns."""


class TimeSlice:
    """The time for which one task runs before others may."""

    def __init__(self) -> None:
        call = CALL.get()
        # What a call has done since its turn began counts.
        self._until = call.began + CALL_SECONDS if call else time.perf_counter() + SECONDS

    async def share(self) -> None:
        """Let other tasks run if the time is over, and begin the next slice."""
        if time.perf_counter() > self._until:
            if call := CALL.get():
                await call.turn()
                self._until = call.began + CALL_SECONDS
            else:
                await asyncio.sleep(0)
                self._until = time.perf_counter() + SECONDS


async def patiently(work: Iterator[None]) -> None:
    """Do the work step by step, and let other tasks run in between."""
    time_slice = TimeSlice()
    await time_slice.share()
    for _ in work:
        await time_slice.share()


async def result_of(work: Generator[None, None, Result]) -> Result:
    """Return the result of work that is done `patiently`."""
    results: list[Result] = []

    def steps() -> Iterator[None]:
        results.append((yield from work))

    await patiently(steps())
    return results[0]
