"""
Long work among short work, and whose turn is next.

One thread answers all requests, so long computations run in steps and let other tasks run. A tenant can ask
what takes a thousand times as long as a usual question, so calls wait here for their turn whenever others do.
Callers with a certificate come first. Then most turns go to a call that has taken little time so far, whoever
sent it: a usual question is answered soon, however many long ones wait, and from however many addresses. The
other turns go to the namespace that has taken the least (start-time fair queueing): the questions about one
tenant's pods do not keep those about another's waiting, though all of them arrive through the same API
server.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from numalign.lru import LRU

if TYPE_CHECKING:
    from numalign.cache.pace import Pace

Result = TypeVar("Result")

SECONDS = 0.001  # How long one task may delay the others, if no single step takes longer.
CALL_SECONDS = 0.005  # The same for a call: most questions need only a few turns.
SHORT_SECONDS = 0.05  # What a usual question takes; calls that have taken less are alike.
SHARED_TURNS = 4  # One of so many turns goes by namespace.
MOST_TENANTS = 4096  # The limit of namespaces whose time is known; a caller can invent more.


class Tenant(NamedTuple):
    """Whose call it is: whether a certificate gives it precedence, and the namespace of its pods."""

    proven: bool
    namespace: str = ""


class _AwaitedTurn(NamedTuple):
    length: int
    number: int
    begins: asyncio.Future[None]


@dataclass(slots=True)
class WorkQueue:
    """The calls that wait for their next turn; one begins in each round of the event loop."""

    _waiting: dict[Tenant, list[_AwaitedTurn]] = field(default_factory=dict)
    _spent: LRU[Tenant, float] = field(default_factory=lambda: LRU(MOST_TENANTS))
    _served: float = 0.0
    _numbers: "count[int]" = field(default_factory=count)
    _rounds: "count[int]" = field(default_factory=count)

    async def wait(self, tenant: Tenant, spent: float) -> None:
        """Wait for the next turn of a call that has taken so many seconds."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._next_round)
        if tenant not in self._waiting:
            # A tenant that was idle has saved nothing.
            self._spent.put(tenant, max(self._time_of(tenant), self._served))
            self._waiting[tenant] = []
        place = _AwaitedTurn(int(spent / SHORT_SECONDS), next(self._numbers), loop.create_future())
        heappush(self._waiting[tenant], place)
        await place.begins

    def took(self, tenant: Tenant, seconds: float) -> None:
        """Count the time of a turn."""
        self._spent.put(tenant, self._time_of(tenant) + seconds)

    def _next_round(self) -> None:
        while self._waiting:
            tenants = [tenant for tenant in self._waiting if tenant.proven] or [*self._waiting]
            if next(self._rounds) % SHARED_TURNS:
                tenant = min(tenants, key=lambda one: (self._waiting[one][0].length, self._time_of(one)))
            else:
                tenant = min(tenants, key=self._time_of)
                self._served = max(self._served, self._time_of(tenant))
            place = heappop(self._waiting[tenant])
            if not self._waiting[tenant]:
                del self._waiting[tenant]
            # The task of a call may have been cancelled.
            if not place.begins.done():
                place.begins.set_result(None)
                break
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next_round)

    def _time_of(self, tenant: Tenant) -> float:
        return self._spent.peek(tenant) or 0.0


@dataclass(slots=True)
class CallWork:
    """The work on one call; `began` is when its turn did, in seconds of `time.perf_counter`."""

    queue: WorkQueue
    tenant: Tenant
    spent: float = 0.0
    began: float = field(default_factory=time.perf_counter)

    async def turn(self) -> None:
        """Let others work, until it is this call's turn again."""
        self.pause()
        await self.queue.wait(self.tenant, self.spent)
        self.began = time.perf_counter()

    def pause(self) -> None:
        """Count the time since this turn began, which is over."""
        seconds = time.perf_counter() - self.began
        self.spent += seconds
        self.queue.took(self.tenant, seconds)


CALL: ContextVar[CallWork | None] = ContextVar("call", default=None)
"""The call that is being answered; None in a background task."""


async def aside(waiting: Awaitable[object]) -> None:
    """Wait for something that is no work; the time does not count as taken by the current call."""
    call = CALL.get()
    if call:
        call.pause()
    await waiting
    if call:
        call.began = time.perf_counter()


def answered_for(namespace: str) -> None:
    """Note the namespace of the pods that the current call is about."""
    if call := CALL.get():
        call.tenant = call.tenant._replace(namespace=namespace)


class TimeSlice:
    """The time for which one task runs before others may."""

    def __init__(self) -> None:
        call = CALL.get()
        # What a call has done since its turn began counts.
        self._until = call.began + CALL_SECONDS if call else time.perf_counter() + SECONDS

    def is_over(self) -> bool:
        """Return whether other tasks should run."""
        return time.perf_counter() > self._until

    async def share(self) -> None:
        """Let other tasks run if the time is over, and begin the next slice."""
        if self.is_over():
            if call := CALL.get():
                await call.turn()
                self._until = call.began + CALL_SECONDS
            else:
                await asyncio.sleep(0)
                self._until = time.perf_counter() + SECONDS


async def patiently(work: Iterator[None]) -> None:
    """Do the work step by step, and let other tasks run in between."""
    time_slice = TimeSlice()
    await time_slice.share()
    for _ in work:
        await time_slice.share()


async def result_of(work: Generator[None, None, Result], time_slice: TimeSlice | None = None) -> Result:
    """Return the result of work that is done `patiently`."""
    time_slice = time_slice or TimeSlice()
    await time_slice.share()
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: Result = done.value
            return result
        await time_slice.share()


async def computed(pace: "Pace", answer: Callable[[], Result]) -> Result:
    """Compute an answer, while other tasks run in between."""
    time_slice = TimeSlice()
    return await result_of(pace.in_steps(answer, time_slice.is_over), time_slice)
