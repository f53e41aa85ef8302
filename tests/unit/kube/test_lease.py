"""At most one candidate leads, despite faults of clocks and requests, and one does in the end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from unittest.mock import AsyncMock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from numalign.kube.lease import LEASE_DURATION_SECONDS as LEASED
from numalign.kube.lease import RENEW_DEADLINE_SECONDS as RENEWED
from numalign.kube.lease import Handover, LeaderElector, Leases
from tests.worlds.clock import Clock
from tests.worlds.leases import TURN, Store, Wire
from tests.worlds.log import RecordedLog
from tests.worlds.notation import table
from tests.worlds.objects import Json


class Candidate:
    """A candidate that runs turn by turn: its sleep lasts until a test lets it end."""

    def __init__(self, clock: Clock, api: Leases, **options: Any) -> None:  # noqa: ANN401  those of an elector
        self.clock, self.log, self.registry = clock, RecordedLog(), CollectorRegistry()
        self.asleep, self.awake = asyncio.Event(), asyncio.Event()
        usual: Json = {"namespace": "numalign-system", "name": "numalign-webhook", "chance": lambda: 0.5,
            "log": self.log.log, "registry": self.registry, "sleep": self.sleep}  # fmt: skip
        self.election = LeaderElector(api, clock=clock, now=clock.wall, **usual | options)
        self.task = asyncio.create_task(self.election.run())

    async def sleep(self, _seconds: float) -> None:
        self.asleep.set()
        await self.awake.wait()
        self.awake.clear()

    @property
    def leading(self) -> bool:
        return self.election.leading

    async def turn(self, *, after: float = 2) -> bool:
        """Let so many seconds pass, wait for the next turn to end, and say whether it leads."""
        if self.asleep.is_set():
            self.clock.seconds += after
            self.asleep.clear()
            self.awake.set()
        await asyncio.wait_for(self.asleep.wait(), 10)
        return self.leading

    async def leave(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task

    def events(self) -> list[str]:
        return [line["event"] for line in self.log.lines()]


Join = Callable[..., Awaitable[Candidate]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def join(store: Store, clock: Clock) -> AsyncIterator[Join]:
    """Make candidates of one Lease and one clock, after their first turn unless they are behind a wire."""
    made: list[Candidate] = []

    async def join(identity: str = "a", *, at: Leases | None = None, **options: Any) -> Candidate:  # noqa: ANN401
        made.append(Candidate(clock, at or store, identity=identity, **options))
        if not isinstance(at, Wire):
            await made[-1].turn(after=0)
        return made[-1]

    yield join
    for candidate in made:
        await candidate.leave()


LONG_AGO = "2020-01-01T00:00:00.000000Z"
FOREIGN = {"holderIdentity": "b", "leaseDurationSeconds": 15, "acquireTime": LONG_AGO, "renewTime": LONG_AGO,
    "leaseTransitions": 3}  # fmt: skip
GIVEN_UP = {"holderIdentity": "", "leaseDurationSeconds": 1}


async def test_the_first_candidate_leads_at_once(store: Store, join: Join) -> None:
    first = await join("a")
    assert first.leading
    assert store.spec == {"holderIdentity": first.election.identity, "leaseDurationSeconds": 15,
        "acquireTime": "2026-05-01T12:00:00.000000Z", "renewTime": "2026-05-01T12:00:00.000000Z",
        "leaseTransitions": 0}  # fmt: skip
    assert first.events() == ["lease.acquired"]
    assert first.registry.get_sample_value("numalign_leader") == 1


async def test_a_leader_renews_and_a_second_candidate_waits(store: Store, join: Join) -> None:
    first, second = await join("a"), await join("b")
    for _ in range(20):
        assert await first.turn()
        assert not await second.turn(after=0)
    assert store.spec["acquireTime"] == "2026-05-01T12:00:00.000000Z"
    assert store.spec["renewTime"] == "2026-05-01T12:00:40.000000Z"
    assert second.events() == []


async def test_an_expired_lease_has_a_new_holder(store: Store, join: Join) -> None:
    first, second = await join("a"), await join("b")
    assert not await second.turn(after=LEASED - 0.1)
    assert not first.leading
    assert await second.turn(after=0.1)
    assert (store.spec["holderIdentity"], store.spec["leaseTransitions"]) == (second.election.identity, 1)
    assert not await first.turn(after=0)
    assert first.events() == ["lease.acquired", "lease.lost"]
    assert first.log.of("lease.lost")[0]["holder"] == second.election.identity


async def test_leading_counts_from_the_start_of_a_renewal(clock: Clock, join: Join) -> None:
    wire = Wire(Store())
    first = await join(at=wire)
    for _ in range(3):
        await wire.step()
    clock.seconds += 4
    wire.open()
    await first.turn()
    clock.seconds += RENEWED - 4.1
    assert first.leading
    clock.seconds += 0.1
    assert not first.leading
    assert first.registry.get_sample_value("numalign_leader") == 0
    assert await first.turn()


async def test_a_leader_that_ends_releases_the_lease(store: Store, join: Join) -> None:
    first, second = await join("a"), await join("b")
    await first.leave()
    assert (store.spec["holderIdentity"], store.spec["leaseDurationSeconds"]) == ("", 1)
    assert not first.leading
    assert first.log.of("lease.lost")[0]["reason"] == "the process ends"
    assert await second.turn()


@pytest.mark.parametrize(("changes", "waits"), table([
    ("it was given up", GIVEN_UP, 0),
    ("its holder was erased", {"holderIdentity": ""}, 15),
    ("it holds for longer than ours", {"leaseDurationSeconds": 40}, 40),
    ("it holds for less than ours", {"leaseDurationSeconds": 1}, 15),
    ("it holds for ever", {"leaseDurationSeconds": 2**31 - 1}, 300),
    ("its fields are none", {"holderIdentity": 7, "renewTime": "soon", "acquireTime": {}}, 15),
]))  # fmt: skip
async def test_seconds_until_a_lease_expires(store: Store, join: Join, changes: Json, waits: float) -> None:
    store.put(**FOREIGN | changes)
    first = await join("a")
    assert first.leading is (waits == 0)
    if waits:
        assert not await first.turn(after=waits - 0.5)
        assert await first.turn(after=0.5)
    assert store.spec["holderIdentity"] == first.election.identity


@pytest.mark.parametrize(("before", "written"), [("many", 1), (-4, 1), (2**31 - 1, 2**31 - 1), (7, 8)])
async def test_transitions_are_counted_anew(store: Store, join: Join, before: object, written: int) -> None:
    store.put(**GIVEN_UP, leaseTransitions=before)
    assert (await join("a")).leading
    assert store.spec["leaseTransitions"] == written


async def test_other_fields_of_the_lease_stay(store: Store, join: Join) -> None:
    store.put(**FOREIGN, strategy="OldestEmulationVersion")
    assert store.lease
    store.lease["metadata"]["labels"] = {"team": "platform"}
    assert await (await join("a")).turn(after=LEASED)
    assert store.lease["metadata"]["labels"] == {"team": "platform"}
    assert store.spec["strategy"] == "OldestEmulationVersion"


async def test_a_deleted_lease_is_created_by_its_holder(store: Store, join: Join) -> None:
    first, second = await join("a"), await join("b")
    store.lease = None
    assert not await second.turn(after=0)
    assert await first.turn()
    assert not await second.turn(after=0)
    assert first.events() == ["lease.acquired"]


async def test_a_silent_api_server_is_given_up(join: Join) -> None:
    first = await join(at=Wire(Store()), within=0.02)
    await first.turn()
    assert first.log.of("lease.failed")[0]["error"] == "the API server did not answer within 0.02 s"


@pytest.mark.parametrize("answer", [[], {"metadata": 7}, {"metadata": {"name": "x"}, "spec": {}}], ids=repr)
async def test_an_answer_without_a_version_is_a_failure(
    store: Store, join: Join, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    monkeypatch.setattr(store, "get", AsyncMock(return_value=answer))
    first = await join()
    assert not first.leading
    assert "is invalid" in first.log.of("lease.failed")[0]["error"]


async def test_of_two_that_create_the_lease_one_leads(store: Store, join: Join) -> None:
    wire = Wire(store)
    slow = await join("slow", at=wire)
    await wire.step()
    await wire.step()
    quick = await join("quick")
    wire.open()
    await slow.turn()
    assert (slow.leading, quick.leading, slow.events()) == (False, True, [])


async def test_renewals_differ_if_the_wall_clock_jumps(store: Store, clock: Clock, join: Join) -> None:
    first, stamps = await join(), set()
    for jump in (0, -2, -3600, 0, 7200, -7200):
        clock.jump += jump
        await first.turn(after=2)
        stamps.add(store.spec["renewTime"])
    assert len(stamps) == 6


async def test_a_restarted_process_is_another_candidate(join: Join) -> None:
    before, again = [await join("pod", chance=lambda luck=luck: luck) for luck in (0.25, 0.75)]
    assert (before.leading, again.leading) == (True, False)
    assert before.election.identity == "pod_40000000"
    assert again.election.identity == "pod_c0000000"


@pytest.mark.parametrize(("lease", "waits"), table([
    # what it shows, the Lease that is there, and how long its new holder waits before it acts
    ("there never was one", None, 0.0),
    ("it was given up", GIVEN_UP, 2.0),
    ("its holder was silent", FOREIGN, 6.0),
    ("its holder was erased", {"holderIdentity": ""}, 6.0),
]))  # fmt: skip
async def test_seconds_before_a_new_leader_acts(
    store: Store, clock: Clock, join: Join, lease: Json | None, waits: float
) -> None:
    if lease:
        store.put(**lease)
    first = await join(handover=Handover(released=2.0, lost=6.0))
    if not first.leading:
        await first.turn(after=LEASED)
    began = clock.seconds
    while not first.election.acts_for() and clock.seconds < began + 8:
        assert await first.turn(after=0.5)
    assert clock.seconds - began == waits
    assert first.log.of("lease.acquired")[0]["acts_in_seconds"] == waits


async def test_a_leader_does_not_wait_for_its_own_actions(store: Store, clock: Clock, join: Join) -> None:
    first = await join(handover=Handover(released=2.0, lost=6.0))
    clock.seconds += RENEWED + 1
    assert first.election.acts_for() == 0
    await first.turn(after=0)
    assert first.election.acts_for() == RENEWED
    store.lease = None
    await first.turn(after=0)
    assert first.election.acts_for() == RENEWED


async def test_the_lease_is_released_after_all_actions(store: Store, join: Join) -> None:
    over = asyncio.get_running_loop().create_future()
    first = await join(handover=Handover(over=lambda: over))
    leaving = asyncio.create_task(first.leave())
    for _ in range(10):
        await asyncio.sleep(0)
    assert (first.leading, store.spec["holderIdentity"]) == (False, first.election.identity)
    over.set_result(None)
    await leaving
    assert store.spec["holderIdentity"] == ""


# The law: there are never two leaders; and after a quiet minute there is one.

Event = tuple[Any, ...]

WHO = st.integers(0, 2)

EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.tuples(st.just("steps"), WHO, st.sampled_from([TURN, TURN, 2 * TURN, 1, 2, 3, 4])),
    st.tuples(st.just("lost"), WHO, st.integers(1, TURN)),
    st.tuples(st.just("pass"), st.sampled_from([1, 4, 7, 9, 16])),
    st.tuples(st.sampled_from(["delete", "erase"])),
    st.tuples(st.just("wall"), st.sampled_from([-3600, -9, 86400])) | st.tuples(st.just("leave"), WHO),
)


class Replicas:
    """Three candidates, each behind a wire of its own."""

    def __init__(self) -> None:
        self.clock, self.store = Clock(), Store()
        self.wires = [Wire(self.store) for _ in range(3)]
        self.candidates = [
            Candidate(self.clock, wire, identity=f"candidate-{at}", sleep=wire.sleep)
            for at, wire in enumerate(self.wires)
        ]

    @property
    def leaders(self) -> list[int]:
        return [at for at, candidate in enumerate(self.candidates) if candidate.leading]

    @property
    def present(self) -> list[int]:
        tasks = [candidate.task for candidate in self.candidates]
        return [at for at, task in enumerate(tasks) if not task.done() and not task.cancelling()]

    async def steps(self, who: int, count: int, *, arrives: bool = True) -> None:
        """One candidate gets so far; the last step is lost, if it does not arrive."""
        for at in range(count):
            await self.wires[who].step(arrives=arrives or at < count - 1)
            assert len(self.leaders) <= 1

    async def quiet(self, seconds: float) -> None:
        for _ in range(int(seconds / 2)):
            self.clock.seconds += 2
            for who in self.present:
                await self.steps(who, TURN)

    async def apply(self, event: Event) -> None:
        what, *arguments = event
        if (under_way := HAPPENINGS[what](self, *arguments)) is not None:
            await under_way
        assert len(self.leaders) <= 1

    async def end(self) -> None:
        for candidate, wire in zip(self.candidates, self.wires, strict=True):
            wire.open()
            candidate.task.cancel()
        await asyncio.gather(*(candidate.leave() for candidate in self.candidates))


HAPPENINGS: dict[str, Callable[..., Awaitable[None] | None]] = {
    "steps": Replicas.steps,
    "lost": partial(Replicas.steps, arrives=False),
    "pass": lambda replicas, seconds: replicas.clock.advance(seconds),
    "wall": lambda replicas, seconds: setattr(replicas.clock, "jump", replicas.clock.jump + seconds),
    "delete": lambda replicas: setattr(replicas.store, "lease", None),
    "erase": lambda replicas: (
        replicas.store.lease and replicas.store.put(**replicas.store.spec | {"holderIdentity": ""})
    ),
    "leave": lambda replicas, who: (replicas.candidates[who].task.cancel(), None)[1],
}


async def _run(schedule: Sequence[Event]) -> None:
    replicas = Replicas()
    try:
        # Each candidate has seen the Lease before it may be deleted.
        await replicas.quiet(4)
        assert replicas.leaders == [0]
        for event in schedule:
            await replicas.apply(event)
        await replicas.quiet(60)
        assert len(replicas.leaders) == min(1, len(replicas.present))
        led = replicas.leaders
        await replicas.quiet(20)
        assert replicas.leaders == led
    finally:
        await replicas.end()


@settings(max_examples=2 * settings().max_examples)
@given(st.lists(EVENTS, min_size=10, max_size=40))
def test_at_most_one_leads_and_one_after_a_quiet_minute(schedule: list[Event]) -> None:
    asyncio.run(_run(schedule))
