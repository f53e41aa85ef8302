"""What attackers send. They come from an address of their own, as pods do, and every loop ends by itself."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

from tools.clusters import http_calls
from tools.clusters.http_calls import JSON, Connection, Door

STRANGER = "127.0.0.2"
"""The address of a pod that has no business here."""

AT_ONCE = 50
"""Connections that are made at the same time."""

PATIENCE_SECONDS = 10.0
"""An attacker waits no longer for an answer, and sends nothing more `LONGEST_SECONDS` after the first."""

LONGEST_SECONDS = 20.0


async def send(
    door: Door, path: str, bodies: Iterable[bytes], *, at_once: int, source: str = STRANGER
) -> list[int]:
    """Post bodies, so many at the same time; the statuses, 0 where there was no answer."""
    until = time.monotonic() + LONGEST_SECONDS
    waiting = itertools.takewhile(lambda _: time.monotonic() < until, bodies)
    statuses: list[int] = []
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(_post(door, path, waiting, statuses, source))
    return statuses


async def _post(door: Door, path: str, waiting: Iterator[bytes], statuses: list[int], source: str) -> None:
    """Post what is left, over one connection as long as that lasts."""
    async with AsyncExitStack() as stack:
        used: Connection | None = None
        for body in waiting:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    if used is None:
                        used = await stack.enter_async_context(http_calls.connection(door, source=source))
                    answer = await used.call("POST", path, body)
                statuses.append(answer.status)
                broken = answer.closes
            except OSError:  # a TimeoutError is one
                statuses.append(0)
                broken = True
            if broken:
                await stack.aclose()
                used = None


@asynccontextmanager
async def held(
    door: Door, written: bytes, *, sockets: int, source: str = STRANGER
) -> AsyncIterator[list[Connection]]:
    """So many connections over which some bytes were written, and nothing after them."""
    async with AsyncExitStack() as stack:
        made: list[Connection] = []

        async def one() -> None:
            opened = await stack.enter_async_context(http_calls.connection(door, source=source))
            opened.send(written)
            made.append(opened)

        for first in range(0, sockets, AT_ONCE):
            await asyncio.gather(
                *(one() for _ in range(first, min(first + AT_ONCE, sockets))), return_exceptions=True
            )
        yield made


def announced(path: str, size: int, begun: bytes = b"") -> bytes:
    """The head of a call with a body of so many bytes, and how the body begins."""
    return http_calls.head("POST", path, {"Content-Type": JSON, "Content-Length": str(size)}) + begun
