"""
HTTP/1.1 requests that are written by hand.

Attackers write requests that no library would write, and a library would take too much processor time from
the measured program at a thousand calls a second. All calls go to this machine: other addresses are refused.
"""

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self

import orjson

Json = dict[str, Any]

JSON = "application/json"
LOOPBACK = "127.0.0.1"
LONGEST_HEAD = 2**16


@dataclass(frozen=True, slots=True)
class Door:
    """The address of a program, and the TLS context for it; None means plain HTTP."""

    port: int
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    host: str = LOOPBACK

    def __post_init__(self) -> None:
        if not ipaddress.ip_address(self.host).is_loopback:
            raise ValueError(f"{self.host} is not this machine")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: the status, whether the connection ends with it, and the body."""

    status: int
    closes: bool
    body: bytes

    @property
    def well(self) -> bool:
        """Whether the call succeeded."""
        return self.status in (HTTPStatus.OK, HTTPStatus.CREATED)


class Hangup(ConnectionError):
    """Raised if the other end closes the connection instead of answering."""


@dataclass(slots=True)
class Connection:
    """A connection for one call at a time; `called` is the number of answered calls."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    called: int = 0

    @classmethod
    async def open(cls, door: Door, *, source: str | None = None) -> Self:
        """Connect, from the address `source` of this machine, if given. Raise `OSError` if that fails."""
        local = (source, 0) if source else None
        reader, writer = await asyncio.open_connection(
            door.host, door.port, ssl=door.tls, local_addr=local, limit=LONGEST_HEAD
        )
        return cls(reader, writer)

    async def call(self, method: str, path: str, body: bytes = b"", content_type: str = JSON) -> Answer:
        """Send a request, and return the complete answer. Raise `OSError` if that fails."""
        self.send(request(method, path, body, {"Content-Type": content_type} if body else {}))
        return await self.answer()

    def send(self, written: bytes) -> None:
        """Write any bytes."""
        self.writer.write(written)

    async def answer(self) -> Answer:
        """Read an answer. Raise `Hangup` if the connection ends before, and `OSError` for other failures."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            status, headers = _read(head)
            body = await self.reader.readexactly(int(headers.get(b"content-length", b"0")))
        except asyncio.IncompleteReadError as error:
            raise Hangup(f"closed after {len(error.partial)} bytes of an answer") from error
        self.called += 1
        return Answer(status, headers.get(b"connection", b"").lower() == b"close", body)

    def close(self) -> None:
        """Abort the connection at once."""
        self.writer.transport.abort()


@asynccontextmanager
async def connection(door: Door, *, source: str | None = None) -> AsyncIterator[Connection]:
    made = await Connection.open(door, source=source)
    try:
        yield made
    finally:
        made.close()


async def once(door: Door, method: str, path: str, body: bytes = b"", content_type: str = JSON) -> Answer:
    async with connection(door) as made:
        return await made.call(method, path, body, content_type)


def request(method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    """Return a complete request, with its length if it has a body or is a POST."""
    lengths = {"Content-Length": str(len(body))} if body or method == "POST" else {}
    return head(method, path, {**lengths, **(headers or {})}) + body


def head(method: str, path: str, headers: Mapping[str, str]) -> bytes:
    head = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
    return f"{method} {path} HTTP/1.1\r\nHost: numalign\r\n{head}\r\n".encode()


def _read(written: bytes) -> tuple[int, dict[bytes, bytes]]:
    """Return status and headers of an answer; the names of headers are in lower case."""
    first, *lines = written.split(b"\r\n")
    pairs = (line.partition(b":") for line in lines if line)
    return int(first.split(b" ", 2)[1]), {name.lower(): value.strip() for name, _, value in pairs}


def review(
    pod: Json,
    of: tuple[str, str, str] = ("", "Pod", "pods"),
    *,
    uid: str,
    namespace: str = "",
    dry: bool = False,
) -> bytes:
    """Return the AdmissionReview of an object that is created; `of` are its group, kind and resource."""
    group, kind, plural = of
    request = {
        "uid": uid,
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": plural},
        "namespace": namespace or pod["metadata"].get("namespace", "team-0"),
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": pod,
        "dryRun": dry,
    }
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def samples(page: str) -> dict[str, float]:
    """Return the values on a page of metrics, by name and labels."""
    lines = (line.rpartition(" ") for line in page.splitlines() if line and not line.startswith("#"))
    return {series: float(value) for series, _, value in lines}
