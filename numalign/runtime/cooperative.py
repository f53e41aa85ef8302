"""
Long work among short work.

One thread answers all requests, so long computations run in steps and let other tasks run. Those of calls
take turns by tenant.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Iterator
from typing import Protocol, TypeVar

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

    def is_over(self) -> bool:
        """Return whether other tasks should run."""
        return time.perf_counter() > self._until

    async def share(self) -> None:
        """Let other tasks run if the time is over, and begin the next slice."""
        if self.is_over():
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


async def result_of(work: Generator[None, None, Result], time_slice: TimeSlice | None = None) -> Result:
    """Return the result of work that is done `patiently`."""
    time_slice = time_slice or TimeSlice()
    await time_slice.share()
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: Result = done.value
            return result
        await time_slice.share()


class Pace(Protocol):
    """How answers are computed, see `numalign.cache.pace`."""

    def in_steps(
        self, answer: Callable[[], Result], over: Callable[[], bool]
    ) -> Generator[None, None, Result]:
        """Compute an answer in steps, each until its time is over."""


async def computed(pace: Pace, answer: Callable[[], Result]) -> Result:
    """Compute an answer, while other tasks run in between."""
    time_slice = TimeSlice()
    return await result_of(pace.in_steps(answer, time_slice.is_over), time_slice)
