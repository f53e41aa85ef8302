"""
Manifests at a URL, as kubectl's -f accepts them.

A server may be slow, endless, or redirect: what is read is bounded in bytes and in time, and only redirects
to https are followed.
"""

import time
from collections.abc import Mapping
from http.client import HTTPException, HTTPMessage, HTTPResponse
from types import MappingProxyType
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from numalign.model.errors import BadInput, Mistake

MOST_BYTES = 2**24
"""The limit of bytes of one URL: manifests, not clusters."""

SECONDS = 30.0
"""The limit of seconds for all of it."""

_SILENCE = 10.0
_PIECE = 2**16
_SCHEMES = frozenset({"http", "https"})
_HEADERS: Mapping[str, str] = MappingProxyType({"User-Agent": "kubectl-numa", "Accept": "*/*"})


class BadUrl(BadInput):
    """Raised for a URL that cannot be read."""


def is_url(name: str) -> bool:
    """Return whether a file name is a URL."""
    scheme, colon, _ = name.partition("://")
    return bool(colon) and scheme.lower() in _SCHEMES


def shown(url: str) -> str:
    """Return the URL without a password."""
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path}"


def read(url: str) -> bytes:
    """Return the content of a URL; raise `BadUrl` if it cannot be read."""
    until = time.monotonic() + SECONDS
    try:
        opener = build_opener(_OnlyToHttps)
        with opener.open(Request(url, headers=dict(_HEADERS)), timeout=_SILENCE) as answer:  # noqa: S310  `is_url`
            return _all(answer, until)
    except HTTPError as error:
        error.close()
        raise _bad(url, f"the server answered {error.code} {error.reason}") from error
    except URLError as error:
        reason = error.reason.strerror if isinstance(error.reason, OSError) else error.reason
        raise _bad(url, f"cannot be read: {reason or error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise _bad(url, f"cannot be read: {error}") from error


def _all(answer: HTTPResponse, until: float) -> bytes:
    pieces = bytearray()
    while piece := answer.read1(_PIECE):
        pieces += piece
        if len(pieces) > MOST_BYTES:
            raise OSError(f"it has more than {MOST_BYTES:,} bytes")
        if time.monotonic() > until:
            raise TimeoutError(f"it takes more than {SECONDS:g} s")
    return bytes(pieces)


class _OnlyToHttps(HTTPRedirectHandler):
    """Follows a few redirects, only to https: what is read decides what is deployed."""

    max_redirections = 5

    def redirect_request(  # noqa: PLR0913, PLR0917  the base class's signature
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if urlsplit(newurl).scheme != "https":
            fp.close()
            raise URLError(f"it redirects to {shown(newurl)}, and only redirects to https are followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _bad(url: str, message: str) -> BadUrl:
    return BadUrl([Mistake(shown(url), message)])
