"""
Long work among short work.

One thread answers everybody, so whoever has much to find out does it in steps and lets others have a turn.
"""

import asyncio
import time
from collections.abc import Generator, Iterator
from typing import TypeVar

Result = TypeVar("Result")

SECONDS = 0.001
"""How long one caller may keep the others waiting, if no single step takes longer."""


class TimeSlice:
    """How long one caller goes on before others pass."""

    def __init__(self) -> None:
        self._until = time.perf_counter() + SECONDS

    async def share(self) -> None:
        """Let others pass if it is over, and begin the next one."""
        if time.perf_counter() > self._until:
            await asyncio.sleep(0)
            self._until = time.perf_counter() + SECONDS


async def patiently(work: Iterator[None]) -> None:
    """Do the work step by step, and let others pass in between."""
    time_slice = TimeSlice()
    for _ in work:
        await time_slice.share()


async def result_of(work: Generator[None, None, Result]) -> Result:
    """Yield what work comes to that is done `patiently`."""
    results: list[Result] = []

    def steps() -> Iterator[None]:
        results.append((yield from work))

    await patiently(steps())
    return results[0]
