"""How programs that tests run in this process wait: as they do otherwise, but for a shorter time."""

import asyncio
import time

FASTER = 20


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds / FASTER)


def clock() -> float:
    """Seconds that go by twenty times as fast."""
    return time.monotonic() * FASTER
