"""Servers on real sockets, and callers who speak to them by hand, for tests of the process."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from numalign.runtime import calls, server
from numalign.runtime.in_flight import Limits, Timeouts
from numalign.runtime.server_settings import ServerSettings
from numalign.runtime.server_state import Check, DebugState
from numalign.runtime.tls import PairFiles
from tests.worlds.log import RecordedLog

MIB = 2**20
Trust = Callable[..., ssl.SSLContext]
TELLING = (server.HEALTH, server.READINESS, server.METRICS, server.STATE)
Watched = tuple[aiohttp.ClientSession, aiohttp.ClientSession]


class Mint(Protocol):
    """What the fixture `mint` can do."""

    def pair(
        self, kind: str = "ec", *, since: datetime | None = None, until: datetime | None = None
    ) -> PairFiles:
        """Make a pair."""

    def renew(self, old: PairFiles, new: PairFiles) -> None:
        """Replace a pair."""


async def until(happened: Callable[[], object]) -> None:
    """Wait for something that can only be looked at; fails after ten seconds."""
    for _ in range(2000):
        if happened():
            return
        await asyncio.sleep(0.005)
    pytest.fail("it never happened")


@dataclass
class Door:
    """Handlers of a made-up program; `wait` is answered when the test opens it."""

    opened: asyncio.Event = field(default_factory=asyncio.Event)
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    inside: int = 0
    most: int = 0

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/echo", self.echo),
            web.get("/wait", self.wait),
            web.get("/fail", self.fail),
            web.get("/much", self.much),
            web.get("/things/{name}", self.thing),
        ]

    async def echo(self, request: web.Request) -> web.Response:
        return web.json_response({"length": len(calls.body(request))})

    async def wait(self, _request: web.Request) -> web.Response:
        self.entered.set()
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.opened.wait()
        self.inside -= 1
        return web.Response(text="done")

    async def fail(self, _request: web.Request) -> web.Response:
        raise RuntimeError("the secret of the site")

    async def much(self, _request: web.Request) -> web.Response:
        return web.Response(body=bytes(32 * MIB))

    async def thing(self, request: web.Request) -> web.Response:
        return web.Response(text=request.match_info["name"])


@dataclass
class HttpSite:
    """Builds servers from the same parts."""

    journal: RecordedLog
    registry: CollectorRegistry
    door: Door
    checks: dict[str, Check] = field(default_factory=dict)

    def app(
        self,
        *,
        state: DebugState | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008  frozen
        **limits: Any,  # noqa: ANN401 any limit
    ) -> web.Application:
        return server.application(
            self.door.routes(),
            log=self.journal.log,
            registry=self.registry,
            checks=self.checks,
            limits=Limits(**limits),
            timeouts=timeouts,
            state=state,
        )

    @contextlib.asynccontextmanager
    async def open(self, **limits: Any) -> AsyncIterator[aiohttp.ClientSession]:  # noqa: ANN401 any limit
        async with self.place(**limits) as place, client(place.port) as session:
            yield session

    @contextlib.asynccontextmanager
    async def watched(self, **limits: Any) -> AsyncIterator[Watched]:  # noqa: ANN401 any limit
        async with (
            self.place(**limits) as place,
            client(place.port) as session,
            client(place.metrics_port) as watching,
        ):
            yield session, watching

    @contextlib.asynccontextmanager
    async def place(self, **limits: Any) -> AsyncIterator[server.Listening]:  # noqa: ANN401 any limit
        async with server.listening(self.app(**limits), plain()) as place:
            yield place

    @contextlib.asynccontextmanager
    async def port(self, **limits: Any) -> AsyncIterator[int]:  # noqa: ANN401 any limit
        async with self.place(**limits) as place:
            yield place.port

    @contextlib.asynccontextmanager
    async def serving(
        self,
        settings: ServerSettings,
        *,
        stop: server.Stop,
        tasks: Mapping[str, server.BackgroundTask] = server.NONE,
        grace: float = 5,
    ) -> AsyncIterator[tuple[int, asyncio.Task[int]]]:
        """The port of a serving program, and the task that ends with its exit code."""
        serving = server.serve(self.app(), settings, stop=stop, tasks=tasks, grace=grace)
        running = asyncio.create_task(serving)
        await until(lambda: self.journal.of("server.listening"))
        try:
            yield self.journal.of("server.listening")[0]["port"], running
        finally:
            stop.ask()
            stop.ask()
            await running

    def metrics_port(self) -> int:
        return int(self.journal.of("server.listening")[0]["metrics_port"])

    def loaded(self, number: int) -> bool:
        return len(self.journal.of("tls.loaded")) == number

    def count(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


def plain(**changes: Any) -> ServerSettings:  # noqa: ANN401 any setting
    chosen = {"bind": "127.0.0.1", "port": 0, "metrics_port": 0, "insecure_http": True, "drain_seconds": 0}
    return ServerSettings.model_validate({**chosen, **changes})


def with_pair(pair: PairFiles, **changes: Any) -> ServerSettings:  # noqa: ANN401 any setting
    return plain(insecure_http=False, tls_cert=pair.cert, tls_key=pair.key, **changes)


def client(port: int, *, tls: ssl.SSLContext | None = None) -> aiohttp.ClientSession:
    base = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    return aiohttp.ClientSession(
        base, connector=aiohttp.TCPConnector(ssl=tls or True), timeout=aiohttp.ClientTimeout(10)
    )


@dataclass
class Caller:
    """Speaks HTTP by hand, as slowly as a test wants."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, *pieces: bytes) -> None:
        self.writer.write(b"".join(pieces))
        await self.writer.drain()

    async def begin(self, length: int) -> None:
        await self.send(f"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())

    async def received(self) -> tuple[int, dict[str, str], bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        body = await self.reader.readexactly(int(headers.get("Content-Length", 0)))
        return int(head[0].split()[1]), headers, body


@contextlib.asynccontextmanager
async def calling(
    port: int, *, come_from: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Caller]:
    """A connection of one's own, from an address of this machine."""
    opened = await asyncio.open_connection("127.0.0.1", port, local_addr=(come_from, 0), ssl=tls)
    caller = Caller(*opened)
    try:
        yield caller
    finally:
        caller.writer.close()
        with contextlib.suppress(OSError):
            await caller.writer.wait_closed()


def takes_connections(port: int) -> bool:
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False
