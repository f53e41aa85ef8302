"""
Health, readiness and metrics of an agent, with just enough HTTP for probes and scrapers.

An HTTP server takes as much memory as all the rest, and three pages do not need one. Anyone who can connect
to the node can send requests: so connections are limited, callers have a few seconds, and only the head of a
request is read.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType

import orjson
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

MOST_CONNECTIONS = 16
CALLER_SECONDS = 5.0
LONGEST_HEAD = 2**14

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


@dataclass(slots=True)
class Health:
    """What an agent reports of itself; `waiting_for` returns what it needs to be ready, None once it is."""

    registry: CollectorRegistry
    waiting_for: Callable[[], str | None]
    _open: int = 0

    def page(self, path: str, accept: str = "") -> Page:
        """Return the page at `path`, in an accepted format."""
        show = _PAGES.get(path)
        return show(self, accept) if show else Page(b"not found\n", status=HTTPStatus.NOT_FOUND)

    def _healthz(self, _accept: str) -> Page:
        return Page(b"ok\n")

    def _readyz(self, _accept: str) -> Page:
        waiting = self.waiting_for()
        state = orjson.dumps({"ready": waiting is None, "waiting_for": [waiting] if waiting else []})
        return Page(state, _JSON, HTTPStatus.SERVICE_UNAVAILABLE if waiting else HTTPStatus.OK)

    def _metrics(self, accept: str) -> Page:
        encode, content_type = choose_encoder(accept)
        return Page(encode(self.registry), content_type)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, unless there are too many."""
        self._open += 1
        try:
            if self._open <= MOST_CONNECTIONS:
                async with asyncio.timeout(CALLER_SECONDS):
                    await self._answered(reader, writer)
        except (TimeoutError, OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            # No valid request in time: no response.
            pass
        finally:
            self._open -= 1
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if method != "GET":
            page = Page(b"only GET is answered\n", status=HTTPStatus.METHOD_NOT_ALLOWED)
        else:
            page = self.page(target.partition("?")[0], headers.get("accept", ""))
        writer.write(page.written())
        await writer.drain()


_PAGES: Mapping[str, Callable[[Health, str], Page]] = MappingProxyType(
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
    server = await asyncio.start_server(health.answer, sock=_socket(bind, port), limit=LONGEST_HEAD)
    async with server:
        yield server.sockets[0].getsockname()[1]
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(server.wait_closed(), CALLER_SECONDS)
