"""
Health, readiness and metrics of an agent, with just enough HTTP for probes and scrapers.

An HTTP server takes as much memory as all the rest, and three pages do not need one. Anyone who can connect
to the node can send requests: so connections are limited, callers have a few seconds, and only the head of a
request is read. A new caller always gets in, and has time to be answered: for it the one that has waited for
longest goes, of the address with most (docs/decisions/0020).
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

import orjson

from numalign.runtime.connections import ConnectionTable
from numalign.runtime.in_flight import Peer
from numalign.runtime.metrics import MetricsPage

MOST_CONNECTIONS = 128
# In one round of the event loop: a caller is answered within five of them, and closed for others only once
# half as many came as there may be.
ACCEPTED_AT_ONCE = 8
BACKLOG = 1024
CALLER_SECONDS = 5.0
LONGEST_HEAD = 2**13


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """One open connection."""

    peer: Peer
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def waits(self) -> bool:
        """Return False: what comes is read at once."""
        return False

    def cut(self) -> None:
        """Close it at once."""
        self.writer.transport.abort()


@dataclass(slots=True)
class Health:
    """What an agent reports of itself; `waiting_for` returns what it needs to be ready, None once it is."""

    metrics: MetricsPage
    waiting_for: Callable[[], str | None]
    _callers: ConnectionTable = field(default_factory=lambda: ConnectionTable(MOST_CONNECTIONS))

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        address = writer.get_extra_info("peername")
        caller = Caller(Peer(address[0] if address else ""), reader, writer)
        self._callers.enter(caller)
        try:
            async with asyncio.timeout(CALLER_SECONDS):
                await self._answer(caller)
        except (TimeoutError, OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            # No valid request in time: no response.
            pass
        finally:
            self._callers.leave(caller)
            writer.close()

    async def _answer(self, caller: Caller) -> None:
        head = (await caller.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        page = target.partition("?")[0]
        status, kind = HTTPStatus.OK, "text/plain; charset=utf-8"
        if method != "GET":
            status, body = HTTPStatus.METHOD_NOT_ALLOWED, b"only GET is answered\n"
        elif page == "/healthz":
            body = b"ok\n"
        elif page == "/readyz":
            waiting = self.waiting_for()
            status = HTTPStatus.SERVICE_UNAVAILABLE if waiting else HTTPStatus.OK
            kind = "application/json"
            body = orjson.dumps({"ready": waiting is None, "waiting_for": [waiting] if waiting else []})
        elif page == "/metrics":
            body, kind = await self.metrics.written(headers.get("accept", ""))
        else:
            status, body = HTTPStatus.NOT_FOUND, b"not found\n"
        answer = (
            f"HTTP/1.1 {status} {status.phrase}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        caller.writer.write("\r\n".join((*answer, "", "")).encode() + body)
        await caller.writer.drain()
        self._callers.serve(caller)


@asynccontextmanager
async def listening(health: Health, bind: str | None, port: int) -> AsyncIterator[int]:
    """Serve inside the `async with`, on all addresses if `bind` is None; yield the port; raise `OSError`."""
    # One socket for both IP versions, so that both get the same port if any free one is chosen.
    both = bind is None and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in (bind or "") else socket.AF_INET
    opened = socket.create_server((bind or "", port), family=family, dualstack_ipv6=both)
    server = await asyncio.start_server(
        health.answer, sock=opened, limit=LONGEST_HEAD, backlog=ACCEPTED_AT_ONCE
    )
    # asyncio accepts as many at once as it lets the kernel keep, which should keep more.
    opened.listen(BACKLOG)
    async with server:
        yield server.sockets[0].getsockname()[1]
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(server.wait_closed(), CALLER_SECONDS)
