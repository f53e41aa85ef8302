"""
Send HTTP/1.1 requests to one server: the API server, or the kubelet of this node.

An agent runs on every node, so its memory matters, and the HTTP client of the standard library takes least of
all. It blocks, so each request has a thread while it lasts; one at a time, because there is one connection,
which is kept open. Other programs renew certificates and tokens as files: certificates are read for each
connection, a token whenever its file has changed.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection, IncompleteRead
from pathlib import Path
from types import MappingProxyType

from numalign.kube.errors import Unauthorized, Unconfigured, Unreachable
from numalign.runtime.files import Stamp, stamps

REQUEST_SECONDS = 10.0
MOST = 2**24
"""Default for the most bytes of a response."""
LONGEST_TOKEN = 2**16
"""Bytes; the token of a service account has about 1,000."""

NOTHING: Mapping[str, str] = MappingProxyType({})

Tls = Callable[[], ssl.SSLContext | None]
"""Creates the TLS context of a connection; None for one without TLS. May raise `OSError`."""
Token = Callable[[], str]
"""Returns the current bearer token; "" if there is none. May raise `Unauthorized`."""


@dataclass(frozen=True, slots=True)
class Verified:
    """Trusts the CAs in a file, or else the system's; presents a certificate, if there is one."""

    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def __call__(self) -> ssl.SSLContext:
        """Return a new context with the current files."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # Loading the system's CAs takes megabytes, and is mostly not needed.
        if self.authorities:
            context.load_verify_locations(self.authorities)
        else:
            context.load_default_certs()
        return _showing(context, self.certificate, self.key)


@dataclass(frozen=True, slots=True)
class Unverified:
    """Trusts any server; use it only where no other server can answer."""

    certificate: Path | None = None
    key: Path | None = None

    def __call__(self) -> ssl.SSLContext:
        """Return a new context with the current files."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return _showing(context, self.certificate, self.key)


def plain() -> None:
    """Return no context: requests do not use TLS."""


def no_token() -> str:
    """Return "": requests are anonymous."""
    return ""


class TokenFile:
    """The token in a file, read again whenever the file has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamps: tuple[Stamp, ...] = ()
        self._token = ""

    def __call__(self) -> str:
        """Return the current token; raise `Unauthorized` if there is none."""
        now = stamps((self._path,))
        if now != self._stamps:
            self._token = self._read()
            self._stamps = now
        return self._token

    def _read(self) -> str:
        try:
            with self._path.open("rb") as file:
                token = file.read(LONGEST_TOKEN + 1).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unauthorized(f"the token in {self._path} cannot be read: {error}") from error
        if not token or len(token) > LONGEST_TOKEN or not token.isprintable():
            raise Unauthorized(f"{self._path} does not contain a valid token")
        return token


@dataclass(frozen=True, slots=True)
class HttpsEndpoint:
    """One server, how to verify it, and the credentials for it."""

    host: str
    port: int
    tls: Tls
    token: Token = no_token

    def __str__(self) -> str:
        """Return the address in its usual form."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class HttpsClient:
    """
    Sends requests to one server, one after another.

    Each takes at most `within` seconds, counted from when its turn comes.
    """

    def __init__(self, endpoint: HttpsEndpoint, *, within: float = REQUEST_SECONDS) -> None:
        self._endpoint = endpoint
        self._within = within
        self._connection: HTTPConnection | None = None
        self._turn = asyncio.Lock()
        self._threads = ThreadPoolExecutor(thread_name_prefix="https")

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] = NOTHING,
        *,
        most: int = MOST,
    ) -> tuple[int, bytes]:
        """
        Return the status and the body of the response, which has at most `most` bytes.

        If a kept connection has ended meanwhile, open a new one and send the request again: so send only
        requests that may arrive twice. Raise `Unauthorized` for a token that cannot be read, `Unconfigured`
        for certificates that cannot, and `Unreachable` for every other failure; never for a status.
        """
        async with self._turn:
            request = _Request(method, path, body, self._headers(headers), most)
            if self._connection is not None:
                with contextlib.suppress(_Ended):
                    return await self._exchange(self._connection, request)
            self._connection = self._connect()
            try:
                return await self._exchange(self._connection, request)
            except _Ended as error:
                raise Unreachable(
                    f"{self._endpoint} closed the connection before it answered {method} {path}"
                ) from error

    def close(self) -> None:
        """Close the connection, if there is one, and end the request that is in progress."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._turn.locked():
            _shut_down(connection)
        else:
            connection.close()

    async def _exchange(self, connection: HTTPConnection, request: "_Request") -> tuple[int, bytes]:
        """Return the response. Raise `_Ended` or `Unreachable`; then the connection is closed."""
        what = f"{request.method} {request.path} at {self._endpoint} failed"
        under_way = self._threads.submit(_answer, connection, request)
        answered = False
        try:
            async with asyncio.timeout(self._within):
                answer = await asyncio.wrap_future(under_way)
            answered = True
        except TimeoutError as error:
            raise Unreachable(f"{what}: no answer within {self._within:g} s") from error
        except (OSError, HTTPException, ValueError) as error:
            raise Unreachable(f"{what}: {str(error) or type(error).__name__}") from error
        finally:
            if not answered or self._connection is not connection:
                self._give_up(connection, under_way)
        return answer

    def _give_up(self, connection: HTTPConnection, under_way: "Future[tuple[int, bytes]]") -> None:
        """Close a connection as soon as its thread has finished with it, which may already be the case."""
        self._connection = None
        under_way.cancel()
        _shut_down(connection)
        under_way.add_done_callback(lambda _: connection.close())

    def _connect(self) -> HTTPConnection:
        """Return a connection; its first request opens it."""
        host, port = self._endpoint.host, self._endpoint.port
        try:
            context = self._endpoint.tls()
        except (OSError, ValueError) as error:
            raise Unconfigured(f"the certificates for {self._endpoint} cannot be read: {error}") from error
        if context is None:
            return HTTPConnection(host, port, timeout=self._within)
        return HTTPSConnection(host, port, timeout=self._within, context=context)

    def _headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        token = self._endpoint.token()
        authorization = {"Authorization": f"Bearer {token}"} if token else {}
        return {"User-Agent": "numalign-agent", "Accept": "application/json", **authorization, **headers}


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    body: bytes
    headers: Mapping[str, str]
    most: int


class _Ended(Exception):
    """Raised when the server closed a connection before it sent any response."""


def _answer(connection: HTTPConnection, request: _Request) -> tuple[int, bytes]:
    """Send a request and return the response; raise `_Ended`, and what http.client raises."""
    try:
        connection.request(request.method, request.path, request.body or None, dict(request.headers))
        answer = connection.getresponse()
    except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError) as error:
        # RemoteDisconnected is a ConnectionResetError.
        raise _Ended from error
    # A response that ends its connection holds the socket, and nothing else closes it.
    with answer:
        body = answer.read(request.most + 1)
    if len(body) > request.most:
        raise ValueError(f"the answer is longer than {request.most} bytes")
    if answer.length:
        # read() with a limit does not report that fewer bytes came than announced.
        raise IncompleteRead(body, answer.length)
    return answer.status, body


def _shut_down(connection: HTTPConnection) -> None:
    """End the wait of a reading thread. Shut down only the socket below an SSLSocket: the rest is in use."""
    if isinstance(connection.sock, socket.socket):
        with contextlib.suppress(OSError):
            socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)


def _showing(context: ssl.SSLContext, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    if certificate:
        context.load_cert_chain(certificate, key)
    return context
