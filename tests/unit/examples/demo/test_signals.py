"""A signal ends the work once, and in order."""

import asyncio
import os
import signal

import pytest

from examples.demo.signals import Stopped, stoppable


async def value() -> int:
    await asyncio.sleep(0)
    return 7


async def test_work_that_ends_gives_its_result() -> None:
    assert await stoppable(value()) == 7


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
async def test_a_signal_ends_the_work_and_a_second_does_not_end_the_cleaning(
    number: signal.Signals, code: int
) -> None:
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


async def test_an_error_of_the_work_stays_itself() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise KeyError

    with pytest.raises(KeyError):
        await stoppable(work())


async def test_to_be_cancelled_is_no_signal() -> None:
    task = asyncio.create_task(stoppable(asyncio.sleep(10)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
