"""
A small client of the API server for the agent: reads, applies and patches single objects.

Requests and responses are plain values, and every error is one of `numalign.kube.errors`, as for the client
of the other programs. That client takes more memory than this whole program.
"""

from collections.abc import Sequence
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import orjson

from agent.https import (
    REQUEST_SECONDS,
    HttpsClient,
    HttpsEndpoint,
    Tls,
    Token,
    TokenFile,
    Unverified,
    Verified,
    no_token,
    plain,
)
from numalign.kube.access import Access
from numalign.kube.errors import Unreachable
from numalign.kube.refusals import refusal
from numalign.runtime.nesting import why_not_json

MANAGER = "numalign-agent"
"""The field manager of everything that is written here."""

LONGEST_ANSWER = 2**24
"""Bytes; the pods of a node have some megabytes."""

_APPLY, _MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
_WHOLE = "application/json"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

_GOOD = (HTTPStatus.OK, HTTPStatus.CREATED)


class Conflicts(StrEnum):
    """How to treat fields that another manager owns, as the value of `force`."""

    GIVE_WAY = "false"
    TAKE_OVER = "true"


class ApiServer:
    """One API server; every method raises `ClusterError`. `what` names the object in errors."""

    def __init__(self, access: Access, *, within: float = REQUEST_SECONDS) -> None:
        address = urlsplit(access.host)
        self._client = HttpsClient(_endpoint(access), within=within)
        self._prefix = address.path.rstrip("/")

    async def get(
        self, path: str, query: Sequence[tuple[str, str]] = (), *, what: str, most: int = LONGEST_ANSWER
    ) -> object:
        """Return the object at `path`, of at most `most` bytes."""
        return _read(await self.read(path, query, what=what, most=most), what)

    async def read(
        self, path: str, query: Sequence[tuple[str, str]] = (), *, what: str, most: int = LONGEST_ANSWER
    ) -> bytes:
        """Return the same as the bytes received."""
        _, body = await self._request("GET", path, query, what=what, accept=_WHOLE, most=most)
        return body

    async def metadata(self, path: str, *, what: str) -> object:
        """Return the object at `path` with its metadata alone."""
        _, body = await self._request("GET", path, what=what, accept=_METADATA)
        return _read(body, what)

    async def apply(self, path: str, fields: object, *, conflicts: Conflicts, what: str) -> HTTPStatus:
        """Apply these fields as all that our manager owns; create the object if it is missing (201)."""
        query = (("fieldManager", MANAGER), ("force", str(conflicts)))
        status, _ = await self._request("PATCH", path, query, fields, what=what, how=_APPLY, accept=_METADATA)
        return status

    async def merge(self, path: str, fields: object, *, what: str) -> None:
        """Patch these fields of an existing object; a `metadata.uid` among them must be its own."""
        query = (("fieldManager", MANAGER),)
        await self._request("PATCH", path, query, fields, what=what, how=_MERGE, accept=_METADATA)

    def close(self) -> None:
        """Close the connection and end the request that is in progress."""
        self._client.close()

    async def _request(  # noqa: PLR0913  the parts of a request
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        fields: object = None,
        *,
        what: str,
        accept: str,
        how: str = _WHOLE,
        most: int = LONGEST_ANSWER,
    ) -> tuple[HTTPStatus, bytes]:
        body = b"" if fields is None else orjson.dumps(fields)
        headers = {"Accept": accept, **({"Content-Type": how} if body else {})}
        target = f"{self._prefix}{path}?{urlencode(query)}" if query else f"{self._prefix}{path}"
        status, answer = await self._client.request(method, target, body, headers, most=most)
        if status not in _GOOD:
            raise refusal(status, answer, doing=_VERBS[method], what=what)
        return HTTPStatus(status), answer


_VERBS = {"GET": "read", "PATCH": "patch"}


def _read(body: bytes, what: str) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        why = why_not_json(body, error)
        raise Unreachable(f"the API server's answer is invalid: {what} {why}") from error


def _endpoint(access: Access) -> HttpsEndpoint:
    address = urlsplit(access.host)
    secure = address.scheme == "https"
    port = address.port or (443 if secure else 80)
    return HttpsEndpoint(address.hostname or "", port, _tls(access) if secure else plain, token_of(access))


def _tls(access: Access) -> Tls:
    certificate, key = (Path(path) if path else None for path in (access.certificate, access.key))
    if not access.verify:
        return Unverified(certificate, key)
    return Verified(Path(access.authority) if access.authority else None, certificate, key)


def token_of(access: Access) -> Token:
    """Return the source of the bearer token: a file, or the configured value."""
    if access.token_file:
        return TokenFile(Path(access.token_file))
    return (lambda: access.token or "") if access.token else no_token
