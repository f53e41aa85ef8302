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
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType

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

_TEXT, _JSON = "text/plain; charset=utf-8", "application/json"


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a response."""

    body: bytes
    content_type: str = _TEXT
    status: HTTPStatus = HTTPStatus.OK

    def written(self) -> bytes:
        """Return the response as it is sent; the connection ends with it."""
        head = (
            f"HTTP/1.1 {self.status} {self.status.phrase}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(self.body)}",
            "Connection: close",
        )
        return "\r\n".join((*head, "", "")).encode() + self.body


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

    async def _healthz(self, _accept: str) -> Page:
        return Page(b"ok\n")

    async def _readyz(self, _accept: str) -> Page:
        waiting = self.waiting_for()
        state = orjson.dumps({"ready": waiting is None, "waiting_for": [waiting] if waiting else []})
        return Page(state, _JSON, HTTPStatus.SERVICE_UNAVAILABLE if waiting else HTTPStatus.OK)

    async def _metrics(self, accept: str) -> Page:
        return Page(*await self.metrics.written(accept))

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        address = writer.get_extra_info("peername")
        caller = Caller(Peer(address[0] if address else ""), reader, writer)
        self._callers.enter(caller)
        try:
            async with asyncio.timeout(CALLER_SECONDS):
                await self._answered(caller)
        except (TimeoutError, OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            # No valid request in time: no response.
            pass
        finally:
            self._callers.leave(caller)
            writer.close()

    async def _answered(self, caller: Caller) -> None:
        head = (await caller.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if method != "GET":
            page = Page(b"only GET is answered\n", status=HTTPStatus.METHOD_NOT_ALLOWED)
        elif show := _PAGES.get(target.partition("?")[0]):
            page = await show(self, headers.get("accept", ""))
        else:
            page = Page(b"not found\n", status=HTTPStatus.NOT_FOUND)
        caller.writer.write(page.written())
        await caller.writer.drain()
        self._callers.serve(caller)


_PAGES: Mapping[str, Callable[[Health, str], Awaitable[Page]]] = MappingProxyType(
    {
        "/healthz": Health._healthz,  # noqa: SLF001  a table of this module
        "/readyz": Health._readyz,  # noqa: SLF001  as above
        "/metrics": Health._metrics,  # noqa: SLF001  as above
    }
)


def _socket(bind: str | None, port: int) -> socket.socket:
    """Open one socket for both IP versions, so that both get the same port if any free one is chosen."""
    both = bind is None and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in (bind or "") else socket.AF_INET
    return socket.create_server((bind or "", port), family=family, dualstack_ipv6=both)


@asynccontextmanager
async def listening(health: Health, bind: str | None, port: int) -> AsyncIterator[int]:
    """
    Serve inside the `async with`, on all addresses if `bind` is None; yield the port.

    Raise `OSError`.
    """
    opened = _socket(bind, port)
    server = await asyncio.start_server(
        health.answer, sock=opened, limit=LONGEST_HEAD, backlog=ACCEPTED_AT_ONCE
    )
    # asyncio accepts as many at once as it lets the kernel keep, which should keep more.
    opened.listen(BACKLOG)
    async with server:
        yield server.sockets[0].getsockname()[1]
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(server.wait_closed(), CALLER_SECONDS)
