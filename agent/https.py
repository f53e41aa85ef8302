"""
Send HTTP/1.1 requests to the API server, and to the kubelet of this node.

An agent runs on every node, so its memory matters, and the HTTP client of the standard library takes least of
all: the client of the other programs takes more than this whole program. It blocks, so each request has a
thread while it lasts; one at a time, because there is one connection, which is kept open. Other programs
renew certificates and tokens as files: certificates are read for each connection, a token whenever its file
has changed.

Requests and responses are plain values, and every error is one of `numalign.kube.errors`.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection, IncompleteRead
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlencode, urlsplit

import orjson

from numalign.kube.access import Access
from numalign.kube.errors import Unauthorized, Unconfigured, Unreachable
from numalign.kube.refusals import refusal
from numalign.runtime.files import Stamp, stamps
from numalign.runtime.nesting import why_not_json

REQUEST_SECONDS = 10.0
LONGEST_ANSWER = 2**24
"""Default for the most bytes of a response; the pods of a node have some megabytes."""
LONGEST_TOKEN = 2**16
"""Bytes; the token of a service account has about 1,000."""
MANAGER = "numalign-agent"
"""The field manager of everything that is written here."""

NOTHING: Mapping[str, str] = MappingProxyType({})

_JSON = "application/json"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class _Ended(Exception):
    """Raised when the server closed a connection before it sent any response."""


class HttpsClient:
    """
    Sends requests to one server, one after another.

    Each takes at most `within` seconds, counted from when its turn comes. Let `access.verify` be False only
    where no other server can answer.
    """

    def __init__(self, access: Access, *, within: float = REQUEST_SECONDS) -> None:
        address = urlsplit(access.host)
        self._access, self._within = access, within
        self._secure, self._host = address.scheme == "https", address.hostname or ""
        self._port = address.port or (443 if self._secure else 80)
        self._address = f"{f'[{self._host}]' if ':' in self._host else self._host}:{self._port}"
        self._token, self._token_stamps = access.token or "", tuple[Stamp, ...]()
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
        most: int = LONGEST_ANSWER,
    ) -> tuple[int, bytes]:
        """
        Return the status and the body of the response, which has at most `most` bytes.

        If a kept connection has ended meanwhile, open a new one and send the request again: so send only
        requests that may arrive twice. Raise `Unauthorized` for a token that cannot be read, `Unconfigured`
        for certificates that cannot, and `Unreachable` for every other failure; never for a status.
        """

        def send(connection: HTTPConnection) -> tuple[int, bytes]:
            try:
                connection.request(method, path, body or None, sent)
                answer = connection.getresponse()
            except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError) as error:
                # RemoteDisconnected is a ConnectionResetError.
                raise _Ended from error
            # A response that ends its connection holds the socket, and nothing else closes it.
            with answer:
                received = answer.read(most + 1)
            if len(received) > most:
                raise ValueError(f"the answer is longer than {most} bytes")
            if answer.length:
                # read() with a limit does not report that fewer bytes came than announced.
                raise IncompleteRead(received, answer.length)
            return answer.status, received

        async with self._turn:
            self._read_token()
            authorization = {"Authorization": f"Bearer {self._token}"} if self._token else {}
            sent = {"User-Agent": "numalign-agent", "Accept": _JSON, **authorization, **headers}
            what = f"{method} {path} at {self._address} failed"
            if self._connection is not None:
                with contextlib.suppress(_Ended):
                    return await self._exchange(self._connection, send, what)
            self._connection = self._connect()
            try:
                return await self._exchange(self._connection, send, what)
            except _Ended as error:
                raise Unreachable(
                    f"{self._address} closed the connection before it answered {method} {path}"
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

    def _read_token(self) -> None:
        """Read the token again if its file has changed."""
        if not self._access.token_file:
            return
        path = Path(self._access.token_file)
        now = stamps((path,))
        if now == self._token_stamps:
            return
        try:
            with path.open("rb") as file:
                token = file.read(LONGEST_TOKEN + 1).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unauthorized(f"the token in {path} cannot be read: {error}") from error
        if not token or len(token) > LONGEST_TOKEN or not token.isprintable():
            raise Unauthorized(f"{path} does not contain a valid token")
        self._token, self._token_stamps = token, now

    def _connect(self) -> HTTPConnection:
        """Return a connection, with the certificates as they are now; its first request opens it."""
        if not self._secure:
            return HTTPConnection(self._host, self._port, timeout=self._within)
        access = self._access
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if not access.verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            elif access.authority:
                context.load_verify_locations(access.authority)
            else:
                # This takes megabytes, and is mostly not needed.
                context.load_default_certs()
            if access.certificate:
                context.load_cert_chain(access.certificate, access.key or None)
        except (OSError, ValueError) as error:
            raise Unconfigured(f"the certificates for {self._address} cannot be read: {error}") from error
        return HTTPSConnection(self._host, self._port, timeout=self._within, context=context)

    async def _exchange(
        self, connection: HTTPConnection, send: Callable[[HTTPConnection], tuple[int, bytes]], what: str
    ) -> tuple[int, bytes]:
        """Return the response. Raise `_Ended` or `Unreachable`; then the connection is closed."""
        under_way = self._threads.submit(send, connection)
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
                # Close it as soon as its thread has finished with it, which may already be the case.
                self._connection = None
                under_way.cancel()
                _shut_down(connection)
                under_way.add_done_callback(lambda _: connection.close())
        return answer


def _shut_down(connection: HTTPConnection) -> None:
    """End the wait of a reading thread. Shut down only the socket below an SSLSocket: the rest is in use."""
    if isinstance(connection.sock, socket.socket):
        with contextlib.suppress(OSError):
            socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)


class ApiServer:
    """One API server; every method raises `ClusterError`. `what` names the object in errors."""

    def __init__(self, access: Access, *, within: float = REQUEST_SECONDS) -> None:
        self._client = HttpsClient(access, within=within)
        self._prefix = urlsplit(access.host).path.rstrip("/")

    async def get(
        self, path: str, query: Sequence[tuple[str, str]] = (), *, what: str, most: int = LONGEST_ANSWER
    ) -> object:
        """Return the object at `path`, of at most `most` bytes."""
        return _parsed(await self.read(path, query, what=what, most=most), what)

    async def read(
        self, path: str, query: Sequence[tuple[str, str]] = (), *, what: str, most: int = LONGEST_ANSWER
    ) -> bytes:
        """Return the same as the bytes received."""
        _, body = await self._request("GET", path, query, what=what, accept=_JSON, most=most)
        return body

    async def metadata(self, path: str, *, what: str) -> object:
        """Return the object at `path` with its metadata alone."""
        _, body = await self._request("GET", path, (), what=what, accept=_METADATA)
        return _parsed(body, what)

    async def apply(self, path: str, fields: object, *, force: bool, what: str) -> HTTPStatus:
        """Apply all fields that our manager owns, by `force` also those of others; 201 if it is created."""
        query = (("fieldManager", MANAGER), ("force", "true" if force else "false"))
        headers = {"Content-Type": "application/apply-patch+yaml"}
        status, _ = await self._request("PATCH", path, query, fields, headers, what=what, accept=_METADATA)
        return status

    async def merge(self, path: str, fields: object, *, what: str) -> None:
        """Patch these fields of an existing object; a `metadata.uid` among them must be its own."""
        query = (("fieldManager", MANAGER),)
        headers = {"Content-Type": "application/merge-patch+json"}
        await self._request("PATCH", path, query, fields, headers, what=what, accept=_METADATA)

    def close(self) -> None:
        """Close the connection and end the request that is in progress."""
        self._client.close()

    async def _request(  # noqa: PLR0913  the parts of a request
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        fields: object = None,
        headers: Mapping[str, str] = NOTHING,
        *,
        what: str,
        accept: str,
        most: int = LONGEST_ANSWER,
    ) -> tuple[HTTPStatus, bytes]:
        body = b"" if fields is None else orjson.dumps(fields)
        target = f"{self._prefix}{path}?{urlencode(query)}" if query else f"{self._prefix}{path}"
        headers = {"Accept": accept, **headers}
        status, answer = await self._client.request(method, target, body, headers, most=most)
        if status not in (HTTPStatus.OK, HTTPStatus.CREATED):
            doing = "read" if method == "GET" else "patch"
            raise refusal(status, answer, doing=doing, what=what)
        return HTTPStatus(status), answer


def _parsed(body: bytes, what: str) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        why = why_not_json(body, error)
        raise Unreachable(f"the API server's answer is invalid: {what} {why}") from error
