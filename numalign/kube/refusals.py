"""
The errors for the statuses with which an API server refuses, from `numalign.kube.errors`.

Clients differ in their cost, and share these sentences.
"""

from collections.abc import Mapping
from http import HTTPStatus
from textwrap import shorten
from types import MappingProxyType

import orjson

from numalign.kube.decode.parts import Part
from numalign.kube.errors import (
    ClusterError,
    Conflict,
    Failing,
    Forbidden,
    Gone,
    InvalidObject,
    NotFound,
    Throttled,
    Unauthorized,
    Unreachable,
)

_SHOWN = 200
"""The limit of characters of the API server's message."""


def refusal(status: int, body: bytes, *, doing: str, what: str) -> ClusterError:
    """Return the error for a status in place of an answer; `body` is what came with it.

    `doing` is a verb, and `what` names the object of the request, like `pod default/web`.
    """
    error, sentence = _FAILURES.get(status, (Unreachable, _NO_ANSWER))
    return error(sentence.format(status=status, message=_message(body), doing=doing, what=what))


def _message(body: bytes) -> str:
    """Return the API server's message about a failure, in a line."""
    try:
        message = Part(orjson.loads(body))["message"].text()
    except orjson.JSONDecodeError:
        message = body.decode(errors="replace")
    return shorten(message, _SHOWN, placeholder="...") or "no reason given"


_NO_ANSWER = "the API server answered {status} for {what} ({message}): try again later"
_FAILURES: Mapping[int, tuple[type[ClusterError], str]] = MappingProxyType(
    {
        HTTPStatus.UNAUTHORIZED: (
            Unauthorized,
            "the API server does not accept your credentials ({message}): log in again, as for kubectl",
        ),
        HTTPStatus.FORBIDDEN: (
            Forbidden,
            ("not allowed to {doing} {what} ({message}): a role must allow it"),
        ),
        HTTPStatus.NOT_FOUND: (NotFound, "{what} does not exist ({message})"),
        HTTPStatus.CONFLICT: (Conflict, "{what} was created or changed by another client ({message})"),
        HTTPStatus.GONE: (Gone, "{what} is no longer available ({message})"),
        HTTPStatus.UNPROCESSABLE_ENTITY: (InvalidObject, "{what} is not valid ({message})"),
        HTTPStatus.TOO_MANY_REQUESTS: (Throttled, _NO_ANSWER),
        HTTPStatus.INTERNAL_SERVER_ERROR: (Failing, _NO_ANSWER),
    }
)
