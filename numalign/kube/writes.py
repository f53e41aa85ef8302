"""
What loops that write to a cluster share: a deadline for each call, growing pauses, and a log of failures.

Such a loop goes on whatever the API server answers. A missing permission is logged once, until a call
succeeds: it is missing until an administrator grants it. Other failures may be over the next time.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter

from numalign.kube.errors import Unreachable
from numalign.runtime.logs import Log, QuietLog

T = TypeVar("T")


async def answer(call: Awaitable[T], *, within: float) -> T:
    """Return the response of the API server; raise `Unreachable` if it takes longer, in seconds."""
    try:
        async with asyncio.timeout(within):
            return await call
    except TimeoutError as error:
        raise Unreachable(f"the API server did not answer within {within:g} s") from error


def backoff(times: int, first: float, longest: float) -> float:
    """Return the pause in seconds before the next attempt; it doubles each time, up to `longest`."""
    return min(first * 2.0 ** min(times, 16), longest)


def counter(
    name: str, text: str, labels: Sequence[str], values: Iterable[str], registry: CollectorRegistry
) -> Counter:
    """Return a counter by one label, whose `values` are exported from the beginning."""
    made = Counter(name, text, labels, registry=registry)
    for value in values:
        made.labels(value)
    return made


class FailureLog:
    """
    Logs calls that failed; with `lines`, at most so many of each event in a minute.

    Both methods return the result as a label for a counter.
    """

    def __init__(self, log: Log, *, lines: int | None = None) -> None:
        self._log = log
        self._failures = log if lines is None else QuietLog(log, lines=lines)
        self._forbidden = False

    def forbidden(self, event: str, error: Exception | str, **fields: object) -> str:
        """Log a missing permission, unless it was logged since a call succeeded."""
        if not self._forbidden:
            self._log.error(event, **fields, error=str(error))
        self._forbidden = True
        return "forbidden"

    def failed(self, event: str, error: Exception | str, **fields: object) -> str:
        """Log any other failure."""
        self._failures.warning(event, **fields, error=str(error))
        return "failed"

    def succeeded(self) -> None:
        """Note that a call succeeded."""
        self._forbidden = False
