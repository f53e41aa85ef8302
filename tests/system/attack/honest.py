"""Callers who ask for nothing out of the ordinary, at a steady rate, whatever happens beside them.

Waiting for a connection, or for the answer to an earlier call, counts as latency; a call that has no good
answer after the time that Kubernetes waits is lost.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.system.attack import objects
from tools.clusters.http_calls import Connection, Door, Hangup

PATIENCE_SECONDS = 3.0
"""As the chart has it: an API server waits no longer for a review, nor a scheduler for a small answer."""

CALLS, LOOKS = 20.0, 4.0
"""A second."""

EVERY_NEW = 10
"""Of so many calls, one comes over a connection that is made for it."""

Call = tuple[str, str, bytes]
"""Method, path and body."""


@asynccontextmanager
async def meanwhile(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do all of this until the end of the block."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(slots=True)
class Caller:
    """Makes calls to one door, so many a second, over connections that it keeps.

    `seconds` are those of the calls that were answered, `lost` is why others were not.
    """

    door: Door
    calls: Iterator[Call]
    rate: float
    seconds: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    _idle: list[Connection] = field(default_factory=list)

    def __str__(self) -> str:
        ordered = sorted(self.seconds) or [0.0]
        late = ordered[int(len(ordered) * 0.99)]
        count = len(self.seconds) + len(self.lost)
        output = f"{count} calls, p99 {late * 1000:.0f} ms, max {ordered[-1] * 1000:.0f} ms"
        return f"{output}, {len(self.lost)} lost" + (f" ({self.lost[0]})" if self.lost else "")

    async def go_on(self) -> None:
        """Call until cancelled; calls that are under way then are waited for."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            with suppress(asyncio.CancelledError):
                for number in itertools.count():
                    due = began + number / self.rate
                    await asyncio.sleep(max(0.0, due - time.monotonic()))
                    group.create_task(self._one(next(self.calls), number, due))
        for each in self._idle:
            each.close()

    async def _one(self, call: Call, number: int, due: float) -> None:
        method, path, _ = call
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                wrong = await self._result(number, *call)
        except TimeoutError:
            wrong = f"no answer within {PATIENCE_SECONDS:g} s"
        except OSError as error:
            wrong = repr(error)
        if wrong:
            self.lost.append(f"{method} {path}: {wrong}")
        else:
            self.seconds.append(time.monotonic() - due)

    async def _result(self, number: int, method: str, path: str, body: bytes) -> str:
        """What was wrong with the answer; empty for a good one.

        As net/http: a GET that a kept connection lost is repeated over a new one.
        """
        kept = self._kept() if number % EVERY_NEW else None
        try:
            return await self._over(kept or await Connection.open(self.door), method, path, body)
        except Hangup:
            if kept is None or method != "GET":
                raise
            return await self._over(await Connection.open(self.door), method, path, body)

    def _kept(self) -> Connection | None:
        """The last connection that is still open, if there is one."""
        while self._idle:
            if not (kept := self._idle.pop()).reader.at_eof():
                return kept
            kept.close()
        return None

    async def _over(self, used: Connection, method: str, path: str, body: bytes) -> str:
        try:
            answer = await used.call(method, path, body)
        except BaseException:
            used.close()
            raise
        if answer.closes:
            used.close()
        else:
            self._idle.append(used)
        return "" if answer.well else f"{answer.status} {answer.body[:120]!r}"


def reviews() -> Iterator[Call]:
    for body in map(objects.review, objects.honest_pods()):
        yield from (("POST", path, body) for path in ("/mutate", "/validate"))


def schedules(places: Sequence[str]) -> Iterator[Call]:
    for made in objects.honest_pods():
        body = objects.filtering(made, places)
        yield from (("POST", path, body) for path in ("/filter", "/prioritize"))


def looks() -> Iterator[Call]:
    return itertools.cycle([("GET", path, b"") for path in ("/healthz", "/metrics", "/healthz", "/healthz")])
