"""A program that runs in the process of its tests, and what it writes into its log."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol, Self

import aiohttp
import orjson
import pytest

from numalign.runtime.server import Stop
from tests.worlds.log import RecordedLog


class Program(Protocol):
    """What serves until it is told to stop."""

    async def serve(self, stop: Stop) -> int:
        """The exit code."""


@dataclass
class Served:
    """A program that runs, and its log."""

    told: RecordedLog
    task: asyncio.Task[int]

    @classmethod
    @asynccontextmanager
    async def running(cls, program: Program, told: RecordedLog) -> AsyncIterator[Self]:
        """It listens by now; ended in order, with exit code 0."""
        stop = Stop()
        task = asyncio.create_task(program.serve(stop))
        served = cls(told, task)
        try:
            await served.logged("server.listening")
            yield served
            stop.ask()
            assert await task == 0
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def until(self, happened: Callable[[], Awaitable[object]]) -> None:
        """Wait for something that can only be looked at; fails after half a minute."""
        for _ in range(1_500):
            if self.task.done():
                pytest.fail(f"it ended with {self.task.result()}: {self.told.stream.getvalue()}")
            if await happened():
                return
            await asyncio.sleep(0.02)
        pytest.fail(f"it never happened: {self.told.stream.getvalue()}")

    async def logged(self, event: str) -> None:
        """Wait for a line in the log."""

        async def logged() -> bool:
            return bool(self.told.of(event))

        await self.until(logged)

    async def ready(self) -> bool:
        """Whether it says that it is ready."""
        return (await self.text("/readyz"))[0] == HTTPStatus.OK

    async def text(self, path: str) -> tuple[int, str]:
        """Status and content of a page that tells of the program."""
        async with aiohttp.ClientSession() as session, session.get(self.url(path, "metrics_port")) as answer:
            return answer.status, await answer.text()

    async def get(self, path: str) -> tuple[int, Any]:
        """The same of a page in JSON."""
        status, text = await self.text(path)
        return status, orjson.loads(text)

    async def ask(self, path: str, call: object) -> Any:  # noqa: ANN401  JSON
        """What is answered to a call that makes sense."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.url(path), data=orjson.dumps(call)) as answer,
        ):
            assert answer.status == HTTPStatus.OK, await answer.text()
            return await answer.json()

    def url(self, path: str, port: str = "port") -> str:
        """Where a path of one of its ports is."""
        [listening] = self.told.of("server.listening")
        return f"http://127.0.0.1:{listening[port]}{path}"
