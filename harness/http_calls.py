"""
HTTP/1.1 as callers write it, by hand.

An attacker writes what no library would, and who makes a thousand calls a second beside the program that is
looked at has no processor to spend on a library. Everything goes to this machine: an address that leads away
from it is refused.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Self

JSON = "application/json"
LOOPBACK = "127.0.0.1"
LONGEST_HEAD = 2**16


@dataclass(frozen=True, slots=True)
class Door:
    """Where a program listens, and whom to trust there; None is plain HTTP."""

    port: int
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    host: str = LOOPBACK

    def __post_init__(self) -> None:
        if not ipaddress.ip_address(self.host).is_loopback:
            raise ValueError(f"{self.host} is not this machine")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the status, whether the connection ends with it, and the body."""

    status: int
    closes: bool
    body: bytes

    @property
    def well(self) -> bool:
        """Whether the call was taken."""
        return self.status in (HTTPStatus.OK, HTTPStatus.CREATED)


class Hangup(ConnectionError):
    """Raised when the other end closed the connection in place of an answer."""


@dataclass(slots=True)
class Connection:
    """One connection, for one call at a time; `called` is how many were answered over it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    called: int = 0

    @classmethod
    async def open(cls, door: Door, *, source: str | None = None) -> Self:
        """Connect, from another address of this machine where one is given; raises `OSError`."""
        local = (source, 0) if source else None
        reader, writer = await asyncio.open_connection(
            door.host, door.port, ssl=door.tls, local_addr=local, limit=LONGEST_HEAD
        )
        peer = writer.get_extra_info("socket")
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(reader, writer)

    async def call(self, method: str, path: str, body: bytes = b"", content_type: str = JSON) -> Answer:
        """Ask, and wait for the whole answer; raises `OSError`."""
        self.send(request(method, path, body, {"Content-Type": content_type} if body else {}))
        return await self.answer()

    def send(self, written: bytes) -> None:
        """Write some bytes, whatever they are."""
        self.writer.write(written)

    async def answer(self) -> Answer:
        """Read one answer; raises `Hangup` if there is none, `OSError` for what else may happen to it."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            status, headers = _read(head)
            body = await self.reader.readexactly(int(headers.get(b"content-length", b"0")))
        except asyncio.IncompleteReadError as error:
            raise Hangup(f"closed after {len(error.partial)} bytes of an answer") from error
        self.called += 1
        return Answer(status, headers.get(b"connection", b"").lower() == b"close", body)

    def close(self) -> None:
        """Close it at once, without a farewell."""
        self.writer.transport.abort()


@asynccontextmanager
async def connection(door: Door, *, source: str | None = None) -> AsyncIterator[Connection]:
    """A connection that is closed at the end of the block."""
    made = await Connection.open(door, source=source)
    try:
        yield made
    finally:
        made.close()


async def once(door: Door, method: str, path: str, body: bytes = b"", content_type: str = JSON) -> Answer:
    """One call over a connection of its own."""
    async with connection(door) as made:
        return await made.call(method, path, body, content_type)


def request(method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    """A whole request; its length is announced if it has a body."""
    lengths = {"Content-Length": str(len(body))} if body or method == "POST" else {}
    return head(method, path, {**lengths, **(headers or {})}) + body


def head(method: str, path: str, headers: Mapping[str, str]) -> bytes:
    """A request without what comes after its headers."""
    told = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
    return f"{method} {path} HTTP/1.1\r\nHost: numalign\r\n{told}\r\n".encode()


def _read(written: bytes) -> tuple[int, dict[bytes, bytes]]:
    """Status and headers of an answer; the names of headers in small letters."""
    first, *lines = written.split(b"\r\n")
    pairs = (line.partition(b":") for line in lines if line)
    return int(first.split(b" ", 2)[1]), {name.lower(): value.strip() for name, _, value in pairs}
