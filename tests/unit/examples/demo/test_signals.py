"""A signal stops work once, and lets it clean up."""

import asyncio
import os
import signal

import pytest

from examples.demo.signals import Stopped, stoppable


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
async def test_second_signal_does_not_interrupt_clean_up(number: signal.Signals, code: int) -> None:
    cleaned = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.sleep(10)
        finally:
            os.kill(os.getpid(), number)
            await asyncio.sleep(0.01)
            cleaned.append(True)

    with pytest.raises(Stopped) as stopped:
        await stoppable(work())
    assert (stopped.value.exit_code, cleaned) == (code, [True])


async def test_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise KeyError

    with pytest.raises(KeyError):
        await stoppable(work())


async def test_cancellation_is_no_signal() -> None:
    task = asyncio.create_task(stoppable(asyncio.sleep(10)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
