"""
Signals while the webhook's process runs.

The first signal cancels the work and ends everything that was started, in order. Further signals are ignored:
a second Ctrl-C would leave the webhook running.
"""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(Exception):
    """Raised when a signal ended the work; everything that was started has ended before."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"stopped by {signal.Signals(number).name}")

    @property
    def exit_code(self) -> int:
        """The exit code that a shell reports for a program that a signal ended."""
        return 128 + self.number


async def stoppable(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of the work; raises `Stopped` once a signal has ended it."""
    task, received = asyncio.create_task(work), list[int]()

    def stop(number: int) -> None:
        if not received:
            received.append(number)
            task.cancel()

    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise Stopped(received[0]) from None
        raise
    finally:
        for number in ENDING:
            loop.remove_signal_handler(number)
