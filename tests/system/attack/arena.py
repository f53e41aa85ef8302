"""A place for the programs, those who attack them, and those who ask for nothing out of the ordinary beside.

After `async with arena.honest(webhook, most=64)` no honest call was lost or late, and the webhook never held
64 MiB more than before.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.system.attack import honest, objects
from tests.system.attack.honest import Caller
from tests.system.attack.objects import Json
from tools.clusters.programs import CONTROLLER, MIB, SCORER, WEBHOOK, ApiServer, Running, Site

ALONE_SECONDS = 0.2
"""Honest callers are alone for so long, before and after."""

LIMITS: Mapping[str, int] = {WEBHOOK: 512, SCORER: 1024, CONTROLLER: 512}
"""MiB that the chart gives a program."""


WORK_SECONDS = 0.025
"""What the work takes on the machine that the bounds were found on, with nothing beside it."""

SLOW = 2.0
"""A machine is slow on which it takes so many times as long."""

BOUND, SLOW_BOUND = 1.0, 2.0
"""Seconds within which every honest call is answered, and on a slow machine."""


def bound() -> float:
    """Seconds within which honest calls are answered on the machine as it is now; other work on it counts."""
    took = max(_work() for _ in range(10))
    found = SLOW_BOUND if took > SLOW * WORK_SECONDS else BOUND
    measured = f"{took * 1000:.0f} ms of work, {WORK_SECONDS * 1000:.0f} ms on a machine that is free"
    sys.stdout.write(f"\n  honest calls have at least {found:g} s: {measured}")
    return found


def _work() -> float:
    began = time.perf_counter()
    sum(number * number for number in range(500_000))
    return time.perf_counter() - began


@dataclass(frozen=True)
class Arena:
    """Starts programs on some objects; an honest call is answered within `bound` seconds."""

    here: Site
    bound: float
    objects: list[Json]

    @property
    def names(self) -> list[str]:
        return objects.names(self.objects)

    def put(self, *made: Json) -> None:
        """More that the cluster has, before a program is started."""
        self.objects.extend(made)

    async def api_server(self) -> ApiServer:
        return await self.here.api_server(self.objects)

    async def webhook(self, *flags: str, api: ApiServer | None = None) -> Running:
        """The webhook, on a file unless it follows an API server."""
        return await self.here.webhook(*self._source(api), *flags)

    async def controller(self, api: ApiServer, *flags: str) -> Running:
        return await self.here.controller(*self._source(api), *flags)

    async def served_map(self, api: ApiServer) -> Running:
        return await self.here.served_map(*self._source(api))

    async def scorer(self, *flags: str, api: ApiServer | None = None) -> Running:
        """The scorer, on a file unless it follows an API server."""
        return await self.here.scorer(*self._source(api), *flags)

    def _source(self, api: ApiServer | None) -> tuple[str, str]:
        if api:
            return "--kubeconfig", str(api.kubeconfig)
        listed = {"apiVersion": "v1", "kind": "List", "items": self.objects}
        return "--snapshot", str(self.here.file("cluster.json", listed))

    @asynccontextmanager
    async def honest(self, *programs: Running, most: int) -> AsyncIterator[None]:
        """Call programs as ever while the block attacks them, and judge what was seen.

        No program may at any time hold so many MiB more than it held before.
        """
        callers = [[*self._callers(each)] for each in programs]
        async with honest.meanwhile(*(each.go_on() for some in callers for each in some)):
            await asyncio.sleep(ALONE_SECONDS)
            before = []
            for each in programs:
                # The most that it holds counts from now on.
                each.forget_peak()
                before.append(each.memory().now)
            yield
            await asyncio.sleep(ALONE_SECONDS)
        # Other work may have begun since the first reading; what the attack has left to do counts too.
        slowest = max(self.bound, bound())
        for program, some, held in zip(programs, callers, before, strict=True):
            after = program.memory()
            calls = "; ".join(map(str, some))
            figures = f"{held / MIB:.0f} to {after.now / MIB:.0f} MiB, at most {after.most / MIB:.0f} MiB"
            sys.stdout.write(f"\n  {program.name}: {calls}; {figures}\n")
            assert [why for each in some for why in each.lost] == []
            assert max((seconds for each in some for seconds in each.seconds), default=0) <= slowest
            assert after.most - held <= most * MIB
            assert after.most <= LIMITS[program.name] * MIB

    def _callers(self, program: Running) -> Iterator[Caller]:
        """Those who call a program, and those who look after it."""
        yield Caller(program.about, honest.looks(), honest.LOOKS)
        if program.name == WEBHOOK:
            yield Caller(program.door, honest.reviews(), honest.CALLS)
        if program.name == SCORER:
            yield Caller(program.door, honest.schedules(self.names), honest.CALLS)
