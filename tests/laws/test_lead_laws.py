"""
The law of a lead that changes hands: no two replicas ever bind pods to the same zone.

Three replicas hold elections at one API server, each behind a wire of its own, and are frozen for as long as
nobody lets them go on. Whoever may bind does, to a zone that is free as far as it knows: it knows what it
began itself and what has landed a while ago. What it begins is on its way for as long as a bind may take, and
on the API server for as long again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from numalign.kube.bindings import BIND_SECONDS, BindsInFlight
from numalign.kube.errors import Unreachable
from numalign.kube.lease import LEASE_DURATION_SECONDS, RENEW_DEADLINE_SECONDS, Handover, LeaderElector
from numalign.ledger.reservations import NOTIFICATION_SECONDS
from tests.worlds.clock import Clock
from tests.worlds.leases import TURN, Store, Wire
from tests.worlds.log import RecordedLog

REPLICAS = 3
Event = tuple[Any, ...]

WHO = st.integers(0, REPLICAS - 1)
SHARES = st.sampled_from([0.0, 0.25, 0.5, 0.99])
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.tuples(st.just("steps"), WHO, st.sampled_from([TURN, TURN, 2 * TURN, 1, 2, 3])),
    st.tuples(st.just("bind"), WHO, st.tuples(SHARES, SHARES)),
    st.tuples(st.just("bind"), WHO, st.tuples(SHARES, SHARES)),
    st.tuples(st.just("pass"), st.sampled_from([0.5, 2.0, 3.0, 7.0, float(LEASE_DURATION_SECONDS)])),
    st.tuples(st.just("leave"), WHO),
    st.tuples(st.just("all_replicas")),
)


@dataclass
class Flight:
    """A bind on its way: when it lands, when whoever began it goes away, and how that is told."""

    pod: str
    lands: float
    given_up: float
    answer: "asyncio.Future[None]"


@dataclass
class World:
    """One zone with room for one pod, and who may bind it there."""

    clock: Clock = field(default_factory=Clock)
    store: Store = field(default_factory=Store)
    flying: list[Flight] = field(default_factory=list)
    landed: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.wires = [Wire(self.store) for _ in range(REPLICAS)]
        self.begun: list[set[str]] = [set() for _ in range(REPLICAS)]
        self.flights = [BindsInFlight(self.write, clock=self.clock, sleep=_yield) for _ in range(REPLICAS)]
        self.elections = [self.election(at) for at in range(REPLICAS)]
        self.tasks = [asyncio.create_task(one.run()) for one in self.elections]
        self.calls: list[asyncio.Task[None]] = []

    def election(self, at: int) -> LeaderElector:
        """As the scorer's program makes it."""
        return LeaderElector(
            self.wires[at],
            namespace="numalign-system",
            name="numalign-webhook",
            identity=f"replica-{at}",
            log=RecordedLog().log,
            registry=CollectorRegistry(),
            clock=self.clock,
            now=self.clock.wall,
            sleep=self.wires[at].sleep,
            chance=lambda: 0.5,
            handover=Handover(
                NOTIFICATION_SECONDS, BIND_SECONDS + NOTIFICATION_SECONDS, self.flights[at].landed
            ),
        )

    async def write(self, *, pod: str, late: tuple[float, float]) -> None:
        """A bind that takes such shares of what it may take on its way, and on the API server."""
        answer = asyncio.get_running_loop().create_future()
        now, (way, server) = self.clock(), late
        lands = now + (way + server) * BIND_SECONDS
        self.flying.append(Flight(pod, lands, now + BIND_SECONDS, answer))
        await answer

    async def steps(self, who: int, count: int) -> None:
        """One replica goes on so far."""
        for _ in range(count):
            await self.wires[who].step()

    async def bind(self, who: int, late: tuple[float, float]) -> None:
        """One replica binds a new pod, if it may and the zone is free as far as it knows."""
        known_pods = {
            pod for pod, at in self.landed.items() if at <= self.clock() - NOTIFICATION_SECONDS * 0.99
        }
        if self.elections[who].acts_for() > BIND_SECONDS and not known_pods | self.begun[who]:
            pod = f"pod-{len(self.calls)}"
            self.begun[who].add(pod)
            self.calls.append(asyncio.create_task(self.flights[who](pod=pod, late=late)))
            await _yield()

    async def goes_by(self, seconds: float) -> None:
        """Time passes, and what is on its way lands."""
        self.clock.seconds += seconds
        for one in [one for one in self.flying if one.lands <= self.clock()]:
            self.landed[one.pod] = one.lands
            self.flying.remove(one)
            if not one.answer.done():
                one.answer.set_result(None)
        for one in self.flying:
            if one.given_up <= self.clock() and not one.answer.done():
                one.answer.set_exception(Unreachable("no answer"))
        for _ in range(20):
            await asyncio.sleep(0)

    async def leaves(self, who: int) -> None:
        """A replica is told to end."""
        self.tasks[who].cancel()
        await _yield()

    async def all_replicas(self) -> None:
        """Nobody is frozen for a moment."""
        for who in range(REPLICAS):
            await self.steps(who, TURN)

    async def end(self) -> None:
        """Stop everything."""
        for wire in self.wires:
            wire.open()
        for one in (*self.tasks, *self.calls):
            one.cancel()
        await asyncio.gather(*self.tasks, *self.calls, return_exceptions=True)


async def _yield(_seconds: float = 0) -> None:
    await asyncio.sleep(0)


HAPPENINGS: dict[str, Callable[..., Awaitable[None]]] = {
    "steps": World.steps,
    "bind": World.bind,
    "pass": World.goes_by,
    "leave": World.leaves,
    "all_replicas": World.all_replicas,
}


@asynccontextmanager
async def lived(schedule: Sequence[Event]) -> AsyncIterator[World]:
    """Where a schedule leads to; the first replica leads when it begins."""
    world = World()
    try:
        for who in range(REPLICAS):
            await world.steps(who, TURN)
        for what, *arguments in schedule:
            await HAPPENINGS[what](world, *arguments)
        yield world
    finally:
        await world.end()


async def zones_given(schedule: Sequence[Event]) -> int:
    """How often the zone was given out, once everything is over."""
    async with lived(schedule) as world:
        for _ in range(10):
            await world.goes_by(1.0)
        return len(world.landed)


def succession(one: int, other: int, before: float, late: float, after: float) -> list[Event]:
    """One binds at the end of its time and is frozen; another takes over as soon as it can, and binds."""
    return [
        ("steps", one, 2 * TURN),
        ("all_replicas",),
        ("pass", before),
        ("bind", one, (late, late)),
        ("pass", LEASE_DURATION_SECONDS - before),
        ("steps", other, 2 * TURN),
        ("pass", after),
        ("steps", other, TURN),
        ("bind", other, (late, late)),
    ]


SUCCESSIONS = st.builds(
    succession, WHO, WHO, st.sampled_from([0.0, 5.9, 9.9]), SHARES, st.sampled_from([0.0, 1.0, 6.0])
)


@settings(max_examples=4 * settings().max_examples)
@given(
    st.lists(SUCCESSIONS | st.lists(EVENTS, max_size=10), min_size=1, max_size=6).map(
        lambda some: [*chain.from_iterable(some)]
    )
)
def test_no_zone_is_bound_twice_whichever_replica_freezes(schedule: list[Event]) -> None:
    assert asyncio.run(zones_given(schedule)) <= 1


LATE = (0.99, 0.99)
FROZEN: list[Event] = [("pass", float(LEASE_DURATION_SECONDS)), ("steps", 1, 2 * TURN)]
BEGUN_LATE: list[Event] = [
    ("pass", 5.5),
    ("bind", 0, LATE),
    ("pass", LEASE_DURATION_SECONDS - 5.5),
    ("steps", 1, 2 * TURN),
]
NEXT: list[Event] = [("pass", BIND_SECONDS + NOTIFICATION_SECONDS), ("steps", 1, TURN), ("bind", 1, LATE)]


def landed(*schedule: Event) -> int:
    return asyncio.run(zones_given(schedule))


def test_a_successor_binds_once_the_others_binds_are_known() -> None:
    too_late: Event = ("pass", RENEW_DEADLINE_SECONDS - BIND_SECONDS)

    assert [landed(*FROZEN, ("bind", 1, LATE)), landed(*FROZEN, *NEXT)] == [0, 1]
    assert [landed(*BEGUN_LATE), landed(*BEGUN_LATE, ("bind", 1, LATE), *NEXT)] == [1, 1]
    assert landed(too_late, ("bind", 0, LATE)) == 0


def test_an_ending_leader_leaves_after_its_binds() -> None:
    leaves: list[Event] = [("bind", 0, LATE), ("leave", 0), ("pass", 3.0), ("steps", 0, TURN)]

    async def led(*more: Event) -> bool:
        """Whether another leads then."""
        async with lived([*leaves, *more, ("steps", 1, 2 * TURN)]) as world:
            return world.elections[1].leading

    assert not asyncio.run(led())
    assert asyncio.run(led(("pass", 5.0), ("steps", 0, TURN)))
