"""Programs that run in the process of their tests, against an API server in it, and what they log."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, Self

import aiohttp
import orjson
import pytest

from numalign.runtime.server import Stop
from tests.worlds.log import RecordedLog
from tools.clusters.fake_api import FakeApi

LOCAL = ("--bind", "127.0.0.1", "--port", "0", "--metrics-port", "0", "--drain-seconds", "0")
"""Flags of a program that serves on free ports of this machine alone."""

PLAIN = ("--insecure-http",)


class Program(Protocol):
    """What serves until it is told to stop."""

    async def serve(self, stop: Stop) -> int:
        """The exit code."""


@dataclass
class Served:
    """A program that runs, and its log."""

    journal: RecordedLog
    task: asyncio.Task[int]

    @classmethod
    @asynccontextmanager
    async def running(cls, program: Program, journal: RecordedLog) -> AsyncIterator[Self]:
        """It listens by now; ended in order, with exit code 0."""
        stop = Stop()
        task = asyncio.create_task(program.serve(stop))
        served = cls(journal, task)
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
                pytest.fail(f"it ended with {self.task.result()}: {self.journal.stream.getvalue()}")
            if await happened():
                return
            await asyncio.sleep(0.02)
        pytest.fail(f"it never happened: {self.journal.stream.getvalue()}")

    async def logged(self, event: str) -> None:
        async def logged() -> bool:
            return bool(self.journal.of(event))

        await self.until(logged)

    async def ready(self) -> bool:
        return (await self.text("/readyz"))[0] == HTTPStatus.OK

    async def text(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(self.url(path, "metrics_port")) as answer:
            return answer.status, await answer.text()

    async def get(self, path: str) -> tuple[int, Any]:
        status, text = await self.text(path)
        return status, orjson.loads(text)

    async def ask(self, path: str, call: object) -> Any:  # noqa: ANN401  JSON
        status, document = await self.post(path, call)
        assert status == HTTPStatus.OK, document
        return document

    async def post(self, path: str, call: object) -> tuple[int, Any]:
        body, headers = orjson.dumps(call), {"Content-Type": "application/json"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(self.url(path), data=body) as answer,
        ):
            return answer.status, await answer.json()

    def url(self, path: str, port: str = "port") -> str:
        [listening] = self.journal.of("server.listening")
        return f"http://127.0.0.1:{listening[port]}{path}"


@dataclass
class Launcher:
    """A folder for files, an API server, and the log of the programs that run there."""

    folder: Path
    api: FakeApi
    journal: RecordedLog = field(default_factory=RecordedLog)

    def kubeconfig(self) -> tuple[str, str]:
        path = self.api.kubeconfig(self.folder / "kubeconfig", namespace="numalign-system")
        return "--kubeconfig", str(path)

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)
