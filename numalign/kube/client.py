"""
One API server, called as one user.

The client library finds a cluster and the credentials; its models are not used, because they are slow and
lack new fields. Requests and answers here are bytes and plain values. Every failure of a cluster becomes one
of `numalign.kube.errors` with a sentence that says what to do; `refusals` handles the refusals.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode
from urllib.request import getproxies

import aiohttp
import orjson
import yaml

from numalign.kube.access import ACCOUNT, Access, in_a_pod
from numalign.kube.connection import FROM_KUBECONFIG, Connection
from numalign.kube.decode.parts import Part
from numalign.kube.errors import Unauthorized, Unconfigured, Unreachable
from numalign.kube.refusals import refusal
from numalign.runtime.cooperative import TimeSlice
from numalign.runtime.nesting import TOO_DEEP, why_not_json
from numalign.runtime.tracing import CallSpan, Tracer

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient, Configuration
    from kubernetes_asyncio.client.rest import RESTClientObject

TIMEOUT = aiohttp.ClientTimeout(sock_connect=10, sock_read=60)
"""Seconds to connect, and between two pieces of an answer."""

LEAST_SECONDS, LEAST_RATE = 60.0, 2**16
"""Seconds that any answer may take, and the bytes that a longer one must have in each further second."""

LONGEST_LINE = 2**24
"""The limit of bytes in one event of a watch; etcd stores objects of at most a tenth of it."""

_JSON = "application/json"
_READ_AHEAD = 2**21
"""The bytes of an answer that may wait to be read; events of a watch come in bursts."""

_RESOURCE = re.compile(r"/apis?/(?:[^/]+/)?v\w+/(?:namespaces/[^/]+/)?([^/]+)(?:/[^/]+(?:/([^/]+))?)?$")
_LEASES = "/leases"
NO_TRACE: Mapping[str, str] = MappingProxyType({})

Query = Sequence[tuple[str, str]]


class Patch(StrEnum):
    """The types of patches, as content types."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class ObjectWriter(Protocol):
    """The part of an `Api` that creates objects; the real one raises `ClusterError`."""

    async def create(self, path: str, body: object, query: Query = (), *, what: str) -> object:
        """Create an object in the collection at a path, and return it as stored."""


class Api:
    """An API server; created by `connected` from a `connection`.

    `host` is its address and `namespace` the default one of the user. `what` names the object in errors, like
    `pod default/web`. Every method raises `ClusterError`.
    """

    def __init__(
        self,
        client: "ApiClient",
        *,
        namespace: str,
        connection: Connection = FROM_KUBECONFIG,
        tracer: Tracer | None = None,
    ) -> None:
        self._client = client
        self._tracer = tracer
        self._impersonation = connection.impersonation
        self._timeout = _timeout(connection)
        # The client's own calls convert to its models, which takes longer than the call.
        self._session: aiohttp.ClientSession = client.rest_client.pool_manager
        self._way = _way(client.rest_client)
        self.namespace = namespace

    @property
    def host(self) -> str:
        """The address of the API server, as it was configured."""
        return str(self._client.configuration.host)

    async def get(self, path: str, query: Query = (), *, what: str, most: int | None = None) -> object:
        """Return the object at a path; `most` is the limit of its bytes."""
        return await self._asked("GET", path, query, what=what, most=most)

    async def create(self, path: str, body: object, query: Query = (), *, what: str) -> object:
        """Create an object in the collection at a path, and return it as stored."""
        return await self._asked("POST", path, query, body=body, what=what)

    async def replace(self, path: str, body: object, *, what: str) -> object:
        """Replace the object at a path, if it still has the body's `resourceVersion`."""
        return await self._asked("PUT", path, body=body, what=what)

    async def patch(self, path: str, body: object, query: Query = (), *, how: Patch, what: str) -> object:
        """Patch the object at a path."""
        return await self._asked("PATCH", path, query, body=body, content_type=how, what=what)

    async def delete(self, path: str, options: object, *, what: str) -> object:
        """Delete the object at a path with `options`, like a v1 DeleteOptions; return what is left of it.

        Raise `Conflict` if their preconditions do not hold.
        """
        return await self._asked("DELETE", path, body=options, what=what)

    async def lines(
        self, path: str, query: Query, *, what: str, silence: float
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events of a watch, line by line, until it ends; first an empty line, once it is accepted.

        A truncated last line is dropped. Raise `Unreachable` after `silence` seconds without an event,
        whatever else comes, and for a line of more than `LONGEST_LINE` bytes.
        """
        within = aiohttp.ClientTimeout(sock_connect=TIMEOUT.sock_connect, sock_read=silence)
        answer = await self._answered("GET", path, query, within=within)
        try:
            if answer.status != HTTPStatus.OK:
                raise refusal(answer.status, await _read(answer, None, what=what), doing="read", what=what)
            yield b""
            pieces = [b""]
            clock = asyncio.get_running_loop().time
            heard = clock()
            async for piece in answer.content.iter_any():
                *lines, incomplete = piece.split(b"\n")
                # A burst is there at once, and nothing else would run until it is read.
                time_slice = TimeSlice()
                for line in lines:
                    event = b"".join((*pieces, line))
                    yield event
                    heard = clock() if event else heard
                    pieces = []
                    await time_slice.share()
                if clock() - heard > silence:
                    raise aiohttp.SocketTimeoutError(f"{what}: no whole event came within {silence:g} s")
                pieces.append(incomplete)
                if sum(map(len, pieces)) > LONGEST_LINE:
                    raise Unreachable(f"{what}: an event is longer than {LONGEST_LINE} bytes")
        except _BROKEN_CONNECTION as error:
            raise self._unreachable(error) from error
        finally:
            answer.close()

    async def _asked(  # noqa: PLR0913  what a call is made of
        self,
        method: str,
        path: str,
        query: Query = (),
        *,
        what: str,
        body: object = None,
        content_type: str = _JSON,
        most: int | None = None,
    ) -> object:
        try:
            with self._writing(method, path, what) as (span, trace):
                answer = await self._answered(
                    method,
                    path,
                    query,
                    body=body,
                    content_type=content_type,
                    within=self._timeout,
                    trace=trace,
                )
                if span:
                    span.end_with(answer.status)
            body_bytes = await _read(answer, most, what=what)
        except _BROKEN_CONNECTION as error:
            raise self._unreachable(error) from error
        if answer.status not in _GOOD:
            raise refusal(answer.status, body_bytes, doing=_VERBS[method], what=what)
        try:
            return orjson.loads(body_bytes)
        except orjson.JSONDecodeError as error:
            why = why_not_json(body_bytes, error)
            raise Unreachable(f"the API server's answer is invalid: {what} {why}") from error

    @contextmanager
    def _writing(
        self, method: str, path: str, what: str
    ) -> Iterator[tuple[CallSpan | None, Mapping[str, str]]]:
        """Provide the span of a write and the headers that propagate it; none for reads and leases."""
        if self._tracer is None or method == "GET" or _LEASES in path:
            yield None, NO_TRACE
            return
        headers: dict[str, str] = {}
        attributes = {"http.request.method": method, "numalign.object": what}
        with self._tracer.writing(f"{method} {_collection(path)}", attributes, headers) as span:
            yield span, headers

    async def _answered(  # noqa: PLR0913  as above
        self,
        method: str,
        path: str,
        query: Query = (),
        *,
        within: aiohttp.ClientTimeout,
        body: object = None,
        content_type: str = _JSON,
        trace: Mapping[str, str] = NO_TRACE,
    ) -> aiohttp.ClientResponse:
        try:
            return await self._session.request(
                method,
                f"{self.host}{path}?{urlencode(query)}" if query else f"{self.host}{path}",
                headers=[*await self._headers(content_type), *trace.items()],
                data=None if body is None else orjson.dumps(body),
                timeout=within,
                **self._way,
            )
        except _BROKEN_CONNECTION as error:
            raise self._unreachable(error) from error

    async def _headers(self, content_type: str) -> Sequence[tuple[str, str]]:
        """Return the headers with the token, which may have been renewed, the impersonation and the type."""
        # Code that has a client has imported this already.
        import kubernetes_asyncio as kubernetes  # noqa: PLC0415  as said above

        headers = {**self._client.default_headers, "Accept": _JSON, "Content-Type": content_type}
        try:
            await self._client.update_params_for_auth(headers, [], ["BearerToken"])
        except kubernetes.config.ConfigException as error:
            raise Unauthorized(f"the credentials for {self.host} cannot be read again: {error}") from error
        return [*headers.items(), *self._impersonation]

    def _unreachable(self, error: Exception) -> Unreachable:
        limit = self._timeout.total
        silent = (
            "it does not answer" if limit is None else f"it does not answer within {limit * 1000:,.0f} ms"
        )
        return Unreachable(f"{self.host} cannot be reached: {str(error) or silent}")


@asynccontextmanager
async def connected(
    connection: Connection = FROM_KUBECONFIG, *, account: Path = ACCOUNT, tracer: Tracer | None = None
) -> AsyncIterator[Api]:
    """Provide the API server of a connection, by default the one that kubectl would use.

    Without a kubeconfig that is `KUBECONFIG`, or else `~/.kube/config`, or else the pod's own service
    account, which is mounted at `account`. Writes are traced by `tracer`. Raise `Unconfigured`.
    """
    # Its import takes a second, and a command that reads a file does not need it.
    import kubernetes_asyncio as kubernetes  # noqa: PLC0415  as said above

    configuration = kubernetes.client.Configuration()
    if connection.named or os.environ.get("KUBECONFIG") or not in_a_pod():
        namespace = await _from_kubeconfig(configuration, connection)
    else:
        namespace = _from_account(configuration, account)
    client = kubernetes.client.ApiClient(configuration)
    client.user_agent = "numalign"
    if not getproxies():
        _ask_directly(client)
    async with client:
        yield Api(client, namespace=namespace, connection=connection, tracer=tracer)


async def access(connection: Connection = FROM_KUBECONFIG) -> Access:
    """Return the access in a kubeconfig, for other clients; raise `Unconfigured` if there is none.

    Without a kubeconfig, that is `KUBECONFIG`, or else `~/.kube/config`. The token is the current one, and
    certificates inside the kubeconfig are written to files that stay.
    """
    import kubernetes_asyncio as kubernetes  # noqa: PLC0415  as above

    configuration = kubernetes.client.Configuration()
    await _from_kubeconfig(configuration, connection)
    token = (configuration.api_key or {}).get("BearerToken")
    return Access(
        str(configuration.host).rstrip("/"),
        authority=configuration.ssl_ca_cert,
        token=token.removeprefix("Bearer ") if token else None,
        certificate=configuration.cert_file,
        key=configuration.key_file,
        verify=configuration.verify_ssl,
    )


def _collection(path: str) -> str:
    """Return the resource of a path, and its subresource: `nodes`, `pods/binding`.

    It contains no name.
    """
    match = _RESOURCE.match(path)
    return "/".join(filter(None, match.groups())) if match else "objects"


def _timeout(connection: Connection) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=connection.request_timeout, sock_connect=TIMEOUT.sock_connect, sock_read=TIMEOUT.sock_read
    )


def _way(rest_client: "RESTClientObject") -> dict[str, Any]:
    """Return how a kubeconfig reaches its API server, as arguments of a request."""
    way = {
        "proxy": rest_client.proxy,
        "proxy_headers": rest_client.proxy_headers,
        "server_hostname": rest_client.server_hostname,
    }
    return {name: value for name, value in way.items() if value}


def _ask_directly(client: "ApiClient") -> None:
    """Keep a session from looking up proxies, and passwords in netrc, in a thread before each call.

    A password in netrc would even be sent in place of the token, and be rejected.
    """
    rest_client = client.rest_client
    looking = rest_client.pool_manager
    rest_client.pool_manager = aiohttp.ClientSession(connector=looking.connector, read_bufsize=_READ_AHEAD)
    looking.detach()


async def _from_kubeconfig(configuration: "Configuration", connection: Connection) -> str:
    """Set the server and the credentials, and return the namespace of the context."""
    import kubernetes_asyncio as kubernetes  # noqa: PLC0415  as above

    path = connection.kubeconfig or os.environ.get("KUBECONFIG") or _HOME
    if connection.server and not (connection.kubeconfig or connection.context or _exists(path)):
        _override(configuration, connection)
        return "default"
    if not _exists(path):
        raise Unconfigured(f"there is no kubeconfig at {path}: {_ELSEWHERE}")
    try:
        # Renewed tokens are not written back: the file belongs to the user.
        loader = await kubernetes.config.load_kube_config(
            path, context=connection.context, client_configuration=configuration, persist_config=False
        )
        _override(configuration, connection)
        # A certificate that cannot be read is reported at its first use.
        await kubernetes.client.ApiClient(configuration).close()
    except RecursionError as error:
        raise Unconfigured(f"the kubeconfig {path} {TOO_DEEP}; {_ELSEWHERE}") from error
    except (kubernetes.config.ConfigException, *_BROKEN_FILE) as error:
        reason = " ".join(str(error).split()) or "a part of it is missing"
        raise Unconfigured(f"the kubeconfig {path} cannot be used: {reason}; {_ELSEWHERE}") from error
    return Part(loader.current_context)["context"]["namespace"].text() or "default"


def _override(configuration: "Configuration", connection: Connection) -> None:
    """Replace what the kubeconfig says by explicit flags; raise `Unconfigured` if they are invalid."""
    if connection.server:
        # The name in a certificate is that of the kubeconfig's own server.
        configuration.host, configuration.tls_server_name = connection.server.rstrip("/"), None
    if connection.token:
        # A server checks a certificate first, so with both the token would be ignored.
        configuration.cert_file = configuration.key_file = configuration.refresh_api_key_hook = None
        configuration.api_key = {"BearerToken": f"Bearer {connection.token}"}
    if connection.insecure:
        configuration.verify_ssl, configuration.ssl_ca_cert = False, None
    if authority := connection.certificate_authority:
        if not Path(authority).is_file():
            raise Unconfigured(f"--certificate-authority: there is no file {authority}")
        configuration.verify_ssl, configuration.ssl_ca_cert = True, authority


def _from_account(configuration: "Configuration", account: Path) -> str:
    """Set the server and the credentials of this pod's service account, and return its namespace."""
    import kubernetes_asyncio as kubernetes  # noqa: PLC0415  as above

    try:
        load: Callable[..., None] = kubernetes.config.load_incluster_config
        load(
            configuration,
            token_filename=str(account / "token"),
            cert_filename=str(account / "ca.crt"),
        )
        return (account / "namespace").read_text().strip() or "default"
    except (kubernetes.config.ConfigException, OSError) as error:
        raise Unconfigured(
            f"the service account of this pod cannot be used: {error}; mount its token"
            " (automountServiceAccountToken), or name a kubeconfig"
        ) from error


def _exists(path: str) -> bool:
    """Return whether at least one of the kubeconfigs exists."""
    return any(Path(candidate).expanduser().is_file() for candidate in path.split(os.pathsep) if candidate)


async def _read(answer: aiohttp.ClientResponse, most: int | None, *, what: str) -> bytes:
    """Return the whole answer; raise `Unreachable` if it exceeds the limit, `OSError` if it only trickles."""
    clock = asyncio.get_running_loop().time
    began, size, pieces = clock(), 0, []
    try:
        async for piece in answer.content.iter_any():
            pieces.append(piece)
            size += len(piece)
            if most is not None and size > most:
                raise Unreachable(f"{what}: the answer is longer than {most} bytes")
            if (seconds := clock() - began) > LEAST_SECONDS + size / LEAST_RATE:
                raise aiohttp.SocketTimeoutError(f"{what}: only {size} bytes came in {seconds:.0f} s")
    finally:
        # A connection whose answer was read to its end is kept for other calls.
        answer.close()
    return b"".join(pieces)


_GOOD = (HTTPStatus.OK, HTTPStatus.CREATED)
_VERBS: Mapping[str, str] = MappingProxyType(
    {"GET": "read", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
)

_BROKEN_CONNECTION = (aiohttp.ClientError, TimeoutError, OSError, ValueError)

# What the client raises for a file that is not a kubeconfig, or one that names missing entries.
_BROKEN_FILE = (
    aiohttp.ClientError,
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    TypeError,
    ValueError,
    yaml.YAMLError,
)

_HOME = "~/.kube/config"
_ELSEWHERE = "name another file or context"
