"""Never two lead at once, whatever happens to clocks, processes and answers; and somebody does in the end."""

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from numalign.kube.errors import Conflict, NotFound, Unreachable
from numalign.kube.lease import (
    LEASE_DURATION_SECONDS,
    NO_HANDOVER,
    RENEW_DEADLINE_SECONDS,
    RETRY_PERIOD_SECONDS,
    Handover,
    LeaderElectionRecord,
    LeaderElector,
    Leases,
)
from tests.worlds.clock import Clock
from tests.worlds.log import RecordedLog
from tests.worlds.notation import table
from tools.clusters.fake_api import FakeApi

Json = dict[str, Any]

LEASES = "/apis/coordination.k8s.io/v1/namespaces/numalign-system/leases"
LEASE = f"{LEASES}/numalign-webhook"


@dataclass
class Naps:
    """Sleep that lasts until the test lets it end."""

    seconds: list[float] = field(default_factory=list)
    asleep: asyncio.Event = field(default_factory=asyncio.Event)
    awake: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, seconds: float) -> None:
        """Sleep."""
        self.seconds.append(seconds)
        self.asleep.set()
        await self.awake.wait()
        self.awake.clear()


@dataclass
class Candidate:
    """An election that runs, turn by turn."""

    clock: Clock
    told: RecordedLog = field(default_factory=RecordedLog)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    naps: Naps = field(default_factory=Naps)
    chance: float = 0.5

    def join(
        self,
        api: Leases,
        *,
        identity: str = "a",
        within: float = 5,
        handover: Handover = NO_HANDOVER,
        sleep: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        """Begin."""
        self.election = LeaderElector(
            api,
            namespace="numalign-system",
            name="numalign-webhook",
            identity=identity,
            log=self.told.log,
            registry=self.registry,
            clock=self.clock,
            now=self.clock.wall,
            sleep=sleep or self.naps,
            chance=lambda: self.chance,
            within=within,
            handover=handover,
        )
        self.task = asyncio.create_task(self.election.run())

    @property
    def leading(self) -> bool:
        """What the election says."""
        return self.election.leading

    async def turn(self, *, after: float = 2) -> bool:
        """Let so many seconds pass, wait for the next turn to end, and say whether it leads."""
        if self.naps.asleep.is_set():
            self.clock.seconds += after
            self.naps.asleep.clear()
            self.naps.awake.set()
        await asyncio.wait_for(self.naps.asleep.wait(), 10)
        return self.leading

    async def leave(self) -> None:
        """End as a process does that is told to."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task

    def said(self) -> list[str]:
        """The events of the log."""
        return [line["event"] for line in self.told.lines()]

    def gauge(self) -> float | None:
        """What the metric says."""
        return self.registry.get_sample_value("numalign_leader")


Join = Callable[..., Awaitable[Candidate]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as server:
        yield server


@pytest.fixture
async def join(api: FakeApi, clock: Clock) -> AsyncIterator[Join]:
    """Makes candidates at one API server (or `at` another) and one clock, each with its first turn over.

    Of one behind a wire the first turn is the test's own matter.
    """
    made: list[Candidate] = []
    async with api.client() as client:

        async def join(
            identity: str = "a",
            *,
            at: Leases | None = None,
            chance: float = 0.5,
            **options: Any,  # noqa: ANN401  those of `Candidate.join`
        ) -> Candidate:
            made.append(Candidate(clock, chance=chance))
            made[-1].join(at or client, identity=identity, **options)
            if not isinstance(at, Wire):
                await made[-1].turn(after=0)
            return made[-1]

        yield join
        for candidate in made:
            await candidate.leave()


def spec(api: FakeApi) -> Json:
    found = api.get(LEASE)
    assert found
    held: Json = found["spec"]
    return held


def write(api: FakeApi, **fields: object) -> None:
    """A Lease that somebody else wrote."""
    made = {"name": "numalign-webhook", "namespace": "numalign-system"}
    api.put({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": made, "spec": fields})


LONG_AGO = "2020-01-01T00:00:00.000000Z"
HELD = {
    "holderIdentity": "b",
    "leaseDurationSeconds": 15,
    "acquireTime": LONG_AGO,
    "renewTime": LONG_AGO,
    "leaseTransitions": 3,
}
GIVEN_UP = {"holderIdentity": "", "leaseDurationSeconds": 1}


async def test_in_a_new_cluster_the_first_one_leads_at_once(api: FakeApi, join: Join) -> None:
    first = await join("a")

    assert first.leading

    assert spec(api) == {
        "holderIdentity": first.election.identity,
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-05-01T12:00:00.000000Z",
        "renewTime": "2026-05-01T12:00:00.000000Z",
        "leaseTransitions": 0,
    }
    assert (first.said(), first.gauge()) == (["lease.acquired"], 1)


async def test_a_leader_renews_and_a_second_candidate_waits(api: FakeApi, join: Join) -> None:
    first, second = await join("a"), await join("b")

    for _ in range(20):
        assert await first.turn()
        assert not await second.turn(after=0)

    assert spec(api)["acquireTime"] == "2026-05-01T12:00:00.000000Z"
    assert spec(api)["renewTime"] == "2026-05-01T12:00:40.000000Z"
    assert (second.said(), second.gauge()) == ([], 0)


async def test_a_leader_comes_back_in_time_and_the_others_not_all_at_once(
    join: Join,
) -> None:
    first, second = await join("a"), await join("b")
    second.chance = 0.25
    await second.turn(after=0)

    assert first.naps.seconds == [RETRY_PERIOD_SECONDS]
    assert second.naps.seconds == [RETRY_PERIOD_SECONDS * 1.6, RETRY_PERIOD_SECONDS * 1.3]


async def test_who_is_not_renewed_is_succeeded(api: FakeApi, join: Join) -> None:
    first, second = await join("a"), await join("b")

    assert not await second.turn(after=LEASE_DURATION_SECONDS - 0.1)
    assert not first.leading
    assert await second.turn(after=0.1)

    assert (spec(api)["holderIdentity"], spec(api)["leaseTransitions"]) == (second.election.identity, 1)
    assert not await first.turn(after=0)
    assert first.said() == ["lease.acquired", "lease.lost"]
    assert first.told.of("lease.lost")[0]["holder"] == second.election.identity


async def test_a_leader_that_was_frozen_is_none_before_it_has_asked_anybody(clock: Clock, join: Join) -> None:
    first = await join("a")

    clock.seconds += RENEW_DEADLINE_SECONDS - 0.1
    assert first.leading
    clock.seconds += 0.1
    assert not first.leading
    assert first.gauge() == 0
    assert await first.turn()


async def test_the_proof_counts_from_when_the_renewal_began(clock: Clock, join: Join) -> None:
    wire = Wire(Store())
    first = await join(at=wire)
    for _ in range(3):
        await wire.step()
    clock.seconds += 4
    wire.open()
    await first.turn()

    clock.seconds += RENEW_DEADLINE_SECONDS - 4.1
    assert first.leading
    clock.seconds += 0.1
    assert not first.leading


async def test_who_is_told_to_end_lets_another_lead_at_once(api: FakeApi, join: Join) -> None:
    first, second = await join("a"), await join("b")

    await first.leave()

    assert (spec(api)["holderIdentity"], spec(api)["leaseDurationSeconds"]) == ("", 1)
    assert not first.leading
    assert first.told.of("lease.lost")[0]["reason"] == "the process ends"
    assert await second.turn()


async def test_who_never_led_gives_nothing_up(api: FakeApi, join: Join) -> None:
    first, second = await join("a"), await join("b")
    asked = len(api.requests)

    await second.leave()

    assert first.leading
    assert len(api.requests) == asked


async def test_who_was_succeeded_leaves_the_lease_alone(api: FakeApi, join: Join) -> None:
    first, second = await join("a"), await join("b")
    await second.turn(after=LEASE_DURATION_SECONDS)

    await first.leave()

    assert spec(api)["holderIdentity"] == second.election.identity


ENDS: list[tuple[str, Callable[[FakeApi], object]]] = [
    ("the API server is gone", FakeApi.stop),
    ("the right was taken away", lambda api: api.failures.update({("PUT", LEASE): HTTPStatus.FORBIDDEN})),
    ("the lease was deleted", lambda api: api.delete(LEASE)),
]


@pytest.mark.parametrize("ends", table(ENDS))
async def test_to_end_is_not_held_up_when(
    api: FakeApi, join: Join, ends: Callable[[FakeApi], object]
) -> None:
    first = await join("a")

    if (ending := ends(api)) is not None:
        await ending  # type: ignore[misc]
    await asyncio.wait_for(first.leave(), 5)

    assert first.task.cancelled()
    assert not first.leading


async def test_only_what_the_role_allows_is_asked(api: FakeApi, join: Join) -> None:
    first = await join("a")
    await first.turn()
    await first.leave()

    assert {(asked.method, asked.path) for asked in api.requests} == {
        ("GET", LEASE),
        ("POST", LEASES),
        ("PUT", LEASE),
    }


FOREIGN = [
    ("it was given up", GIVEN_UP, 0),
    ("its holder was erased", {"holderIdentity": ""}, 15),
    ("its holder is null", {"holderIdentity": None}, 15),
    ("its holder is a number", {"holderIdentity": 7}, 15),
    ("it holds for longer than ours", {"leaseDurationSeconds": 40}, 40),
    ("it holds for less than ours", {"leaseDurationSeconds": 1}, 15),
    ("it holds for ever", {"leaseDurationSeconds": 2**31 - 1}, 300),
    ("it holds for no time", {"leaseDurationSeconds": 0}, 15),
    ("it holds for less than no time", {"leaseDurationSeconds": -3}, 15),
    ("it holds for a word", {"leaseDurationSeconds": "long"}, 15),
    ("its times are words", {"renewTime": "soon", "acquireTime": {}}, 15),
    ("its times are missing", {"renewTime": None, "acquireTime": None}, 15),
    ("it is of long ago", {}, 15),
    ("nothing stands in it", dict.fromkeys(HELD), 15),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "waits"), table(FOREIGN))
async def test_a_foreign_lease_is_waited_for_so_long_if(
    api: FakeApi, join: Join, changes: Json, waits: float
) -> None:
    write(api, **HELD | changes)
    first = await join("a")

    assert first.leading is (waits == 0)
    if waits:
        assert not await first.turn(after=waits - 0.5)
        assert await first.turn(after=0.5)
    assert spec(api)["holderIdentity"] == first.election.identity


@pytest.mark.parametrize(
    ("transitions", "written"), [("many", 1), (-4, 1), (None, 1), (2**31 - 1, 2**31 - 1), (7, 8)]
)
async def test_transitions_that_make_no_sense_are_counted_anew(
    api: FakeApi, join: Join, transitions: object, written: int
) -> None:
    write(api, **GIVEN_UP, leaseTransitions=transitions)

    assert (await join("a")).leading

    assert spec(api)["leaseTransitions"] == written


async def test_what_else_stands_in_the_lease_stays(api: FakeApi, join: Join) -> None:
    write(api, **HELD, strategy="OldestEmulationVersion")
    found = api.get(LEASE)
    assert found
    found["metadata"]["labels"] = {"team": "platform"}
    api.put(found)
    first = await join("a")

    assert await first.turn(after=LEASE_DURATION_SECONDS)

    stored = api.get(LEASE)
    assert stored
    assert stored["metadata"]["labels"] == {"team": "platform"}
    assert stored["spec"]["strategy"] == "OldestEmulationVersion"


async def test_a_lease_that_was_deleted_is_made_again_by_its_holder(api: FakeApi, join: Join) -> None:
    first, second = await join("a"), await join("b")

    api.delete(LEASE)

    assert not await second.turn(after=0)
    assert await first.turn()
    assert not await second.turn(after=0)
    assert first.said() == ["lease.acquired"]


async def test_a_lease_that_was_deleted_may_be_believed_in_by_a_holder_that_does_not_answer(
    api: FakeApi, join: Join
) -> None:
    first, second = await join("a"), await join("b")
    await first.turn()

    api.delete(LEASE)

    assert not await second.turn(after=0)
    assert not await second.turn(after=LEASE_DURATION_SECONDS - 1)
    assert await second.turn(after=1)


async def test_who_led_long_ago_does_not_know_who_led_since(api: FakeApi, join: Join) -> None:
    first = await join("a")

    api.delete(LEASE)

    assert not await first.turn(after=3600)
    assert await first.turn(after=LEASE_DURATION_SECONDS)


async def test_of_two_that_find_no_lease_one_makes_it(join: Join) -> None:
    store = Store()
    wire = Wire(store)
    slow = await join("slow", at=wire)
    await wire.step()
    await wire.step()
    quick = await join("quick", at=store)

    wire.open()
    await slow.turn()

    assert (slow.leading, quick.leading) == (False, True)
    assert slow.said() == []


async def test_a_lease_that_was_changed_meanwhile_is_read_again(join: Join) -> None:
    store = Store()
    wire = Wire(store)
    store.put(**GIVEN_UP)
    first = await join(at=wire)
    await wire.step()
    await wire.step()
    store.put(**HELD)
    wire.open()

    assert not await first.turn()
    assert first.said() == []
    assert store.spec["holderIdentity"] == "b"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_right_that_is_missing_is_said_once(api: FakeApi, join: Join, method: str) -> None:
    path = {"GET": LEASE, "POST": LEASES}[method]
    api.failures[method, path] = HTTPStatus.FORBIDDEN
    first = await join("a")
    for _ in range(5):
        assert not await first.turn()
    [line] = first.told.of("lease.failed")
    assert "lease numalign-system/numalign-webhook" in line["error"]

    api.failures.clear()
    assert await first.turn(after=LEASE_DURATION_SECONDS)


async def test_an_api_server_that_is_gone_ends_the_lead_and_its_return_begins_it_again(
    api: FakeApi, join: Join
) -> None:
    first = await join("a")

    await api.stop()
    led = [await first.turn(after=3) for _ in range(4)]
    await api.start()

    assert led == [True, True, True, False]
    assert await first.turn(after=30)
    assert first.said() == ["lease.acquired", "lease.failed", "lease.lost", "lease.acquired"]


async def test_the_namespace_that_is_not_there_is_a_failure(api: FakeApi, join: Join) -> None:
    api.failures["POST", LEASES] = HTTPStatus.NOT_FOUND
    first = await join("a")

    assert not first.leading

    assert len(first.told.of("lease.failed")) == 1


@pytest.mark.parametrize(
    "answer",
    table(
        [
            ("no JSON", b"<html>"),
            ("no object", b"[]"),
            ("no metadata", b"{}"),
            ("odd metadata", b'{"metadata": 7}'),
            ("no resource version", b'{"metadata": {"name": "x"}, "spec": {}}'),
        ]
    ),
)
async def test_an_answer_that_makes_no_sense_is_a_failure(api: FakeApi, join: Join, answer: bytes) -> None:
    api.oddities[LEASE] = answer
    first = await join("a")

    assert not first.leading

    assert "is invalid" in first.told.of("lease.failed")[0]["error"]


async def test_an_api_server_that_never_answers_is_given_up(join: Join) -> None:
    first = await join(at=Wire(Store()), within=0.02)

    await first.turn()

    assert first.told.of("lease.failed")[0]["error"] == "the API server did not answer within 0.02 s"


async def test_renewals_differ_though_the_wall_clock_stands_still_or_jumps_back(
    clock: Clock, join: Join
) -> None:
    store = Store()
    first, seen = await join(at=store), set()
    for jump in (0, -2, -3600, 0, 7200, -7200):
        clock.jump += jump
        await first.turn(after=2)
        seen.add(store.spec["renewTime"])
    assert len(seen) == 6


async def test_the_same_name_started_again_is_another_candidate(join: Join) -> None:
    before, again = [await join("pod", chance=chance) for chance in (0.25, 0.75)]

    assert (before.leading, again.leading) == (True, False)
    assert before.election.identity == "pod_40000000"
    assert again.election.identity == "pod_c0000000"


INHERITED = [
    # what it shows, the Lease that is there, and how long its new holder waits before it acts
    ("there never was one", None, 0.0),
    ("it was given up", GIVEN_UP, 2.0),
    ("its holder was silent", HELD, 6.0),
    ("its holder was erased", {"holderIdentity": ""}, 6.0),
]


@pytest.mark.parametrize(("lease", "waits"), table(INHERITED))
async def test_a_new_leader_waits_before_it_acts_if(
    api: FakeApi, clock: Clock, join: Join, lease: Json | None, waits: float
) -> None:
    if lease:
        write(api, **lease)
    first = await join(handover=Handover(released=2.0, lost=6.0))
    if not first.leading:
        await first.turn(after=LEASE_DURATION_SECONDS)

    began = clock.seconds
    acts = [(first.leading, clock.seconds - began, first.election.acts_for())]
    while clock.seconds < began + 8:
        await first.turn(after=0.5)
        acts.append((first.leading, clock.seconds - began, first.election.acts_for()))
    assert all(leads for leads, _, _ in acts)
    assert next(seconds for _, seconds, left in acts if left) == waits
    assert first.told.of("lease.acquired")[0]["acts_in_seconds"] == waits


async def test_nobody_waits_for_its_own_acts(api: FakeApi, clock: Clock, join: Join) -> None:
    first = await join(handover=Handover(released=2.0, lost=6.0))

    clock.seconds += RENEW_DEADLINE_SECONDS + 1
    assert first.election.acts_for() == 0
    await first.turn(after=0)
    assert first.election.acts_for() == RENEW_DEADLINE_SECONDS
    api.delete(LEASE)
    await first.turn(after=0)
    assert first.election.acts_for() == RENEW_DEADLINE_SECONDS


async def test_the_lease_is_given_up_when_all_that_was_begun_is_over(join: Join) -> None:
    store, over = Store(), asyncio.Event()

    async def until_over() -> None:
        await over.wait()

    first = await join(at=store, handover=Handover(over=until_over))
    leaving = asyncio.create_task(first.leave())
    for _ in range(10):
        await asyncio.sleep(0)
    assert (first.leading, store.spec["holderIdentity"]) == (False, first.election.identity)

    over.set()
    await leaving
    assert store.spec["holderIdentity"] == ""


def test_what_is_kept_of_a_lease_reads_as_absent_where_it_makes_no_sense() -> None:
    record = LeaderElectionRecord({}, {"holderIdentity": [], "acquireTime": 3})

    assert (record.holder, record.acquired, record.transitions, record.released) == ("", None, 0, False)


class Store:
    """Leases as an API server keeps the one that matters: a version for each change, none for none."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.version = 1

    @property
    def spec(self) -> Json:
        """What stands in the Lease."""
        assert self.lease
        held: Json = self.lease["spec"]
        return held

    def put(self, **fields: object) -> None:
        """Write it, whoever holds it."""
        self._keep({"metadata": {"name": "numalign-webhook"}, "spec": fields})

    async def get(self, path: str, *, what: str) -> object:
        """As an API does."""
        assert path == LEASE
        if self.lease is None:
            raise NotFound(what)
        return copy.deepcopy(self.lease)

    async def create(self, path: str, body: object, *, what: str) -> object:
        """As an API does."""
        assert path == LEASES
        if self.lease is not None:
            raise Conflict(what)
        return self._keep(body)

    async def replace(self, path: str, body: Any, *, what: str) -> object:  # noqa: ANN401  JSON
        """As an API does."""
        assert path == LEASE
        if self.lease is None:
            raise NotFound(what)
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict(what)
        return self._keep(body)

    def _keep(self, body: Any) -> object:  # noqa: ANN401  JSON
        made = copy.deepcopy(body)
        if self.lease is None or made["spec"] != self.lease["spec"]:
            self.version += 1
            self.lease = made
            made["metadata"]["resourceVersion"] = str(self.version)
        return copy.deepcopy(self.lease)


class Wire:
    """Requests to a store that go out, and answers that come back, only when the test lets them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._opened = False
        self._held: asyncio.Future[bool] | None = None

    async def get(self, path: str, *, what: str) -> object:
        """As an API does."""
        return await self._carried(partial(self.store.get, path, what=what))

    async def create(self, path: str, body: object, *, what: str) -> object:
        """As an API does."""
        return await self._carried(partial(self.store.create, path, body, what=what))

    async def replace(self, path: str, body: object, *, what: str) -> object:
        """As an API does."""
        return await self._carried(partial(self.store.replace, path, body, what=what))

    async def sleep(self, _seconds: float) -> None:
        """Sleep as long as the test wants."""
        await self._let_through()

    async def step(self, *, arrives: bool = True) -> None:
        """Let what is under way arrive or get lost, and wait until the next thing is under way."""
        await _until(self._holding)
        if self._held and self._holding():
            self._held.set_result(arrives)
            await _until(self._holding)

    def open(self) -> None:
        """Let everything through from now on."""
        self._opened = True
        if self._held and self._holding():
            self._held.set_result(True)

    def _holding(self) -> bool:
        return self._held is not None and not self._held.done()

    async def _carried(self, ask: Callable[[], Awaitable[object]]) -> object:
        if not await self._let_through():
            raise Unreachable("the request was lost")
        try:
            return await ask()
        finally:
            if not await self._let_through():
                raise Unreachable("the answer was lost")

    async def _let_through(self) -> bool:
        if self._opened:
            return True
        self._held = asyncio.get_running_loop().create_future()
        return await self._held


async def _until(happened: Callable[[], object]) -> None:
    """Let others run until something has happened, or nothing more will."""
    for _ in range(20):
        if happened():
            return
        await asyncio.sleep(0)


# The law: whatever happens, in whatever order, there are never two; and when all is well again, there is one.

Event = tuple[Any, ...]

WHO = st.integers(0, 2)
TURN = 5
"""Steps: the end of sleep, the way of a request and of its answer, and those of the second request."""

EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.tuples(st.just("steps"), WHO, st.sampled_from([TURN, TURN, 2 * TURN, 1, 2, 3, 4])),
    st.tuples(st.just("lost"), WHO, st.integers(1, TURN)),
    st.tuples(st.just("pass"), st.sampled_from([1, 4, 7, 9, 16])),
    st.tuples(st.sampled_from(["delete", "erase"])),
    st.one_of(
        st.tuples(st.just("wall"), st.sampled_from([-3600, -9, 86400])),
        st.tuples(st.just("leave"), WHO),
    ),
)


class World:
    """Three candidates, each behind a wire of its own."""

    def __init__(self) -> None:
        self.clock, self.store = Clock(), Store()
        self.wires = [Wire(self.store) for _ in range(3)]
        self.candidates = [Candidate(self.clock) for _ in self.wires]
        for at, (candidate, wire) in enumerate(zip(self.candidates, self.wires, strict=True)):
            candidate.join(wire, identity=f"candidate-{at}", sleep=wire.sleep)

    @property
    def leaders(self) -> list[int]:
        """Those who lead by their own account."""
        return [at for at, candidate in enumerate(self.candidates) if candidate.leading]

    @property
    def present(self) -> list[int]:
        """Those who were not told to end."""
        tasks = [candidate.task for candidate in self.candidates]
        return [at for at, task in enumerate(tasks) if not task.done() and not task.cancelling()]

    async def steps(self, who: int, count: int, *, arrives: bool = True) -> None:
        """One candidate gets so far; the last step is lost, if it does not arrive."""
        for at in range(count):
            await self.wires[who].step(arrives=arrives or at < count - 1)
            assert len(self.leaders) <= 1

    async def quiet(self, seconds: float) -> None:
        """Nothing goes wrong for a while."""
        for _ in range(int(seconds / 2)):
            self.clock.seconds += 2
            for who in self.present:
                await self.steps(who, TURN)

    async def happens(self, event: Event) -> None:
        """One event of a schedule."""
        what, *told = event
        if (under_way := HAPPENINGS[what](self, *told)) is not None:
            await under_way
        assert len(self.leaders) <= 1

    async def end(self) -> None:
        """Stop everything."""
        for candidate, wire in zip(self.candidates, self.wires, strict=True):
            wire.open()
            candidate.task.cancel()
        await asyncio.gather(*(candidate.leave() for candidate in self.candidates))


def _holder_is_erased(world: World) -> None:
    if world.store.lease:
        world.store.put(**world.store.spec | {"holderIdentity": ""})


HAPPENINGS: dict[str, Callable[..., Awaitable[None] | None]] = {
    "steps": World.steps,
    "lost": partial(World.steps, arrives=False),
    "pass": lambda world, seconds: world.clock.advance(seconds),
    "wall": lambda world, seconds: setattr(world.clock, "jump", world.clock.jump + seconds),
    "delete": lambda world: setattr(world.store, "lease", None),
    "erase": _holder_is_erased,
    "leave": lambda world, who: (world.candidates[who].task.cancel(), None)[1],
}


async def _live(schedule: Sequence[Event]) -> None:
    world = World()
    try:
        # Whoever may find the Lease deleted has seen it before.
        await world.quiet(4)
        assert world.leaders == [0]
        for event in schedule:
            await world.happens(event)
        await world.quiet(60)
        assert len(world.leaders) == min(1, len(world.present))
        led = world.leaders
        await world.quiet(20)
        assert world.leaders == led
    finally:
        await world.end()


@settings(max_examples=2 * settings().max_examples)
@given(st.lists(EVENTS, min_size=10, max_size=40))
def test_never_two_lead_and_after_a_quiet_minute_one_does(schedule: list[Event]) -> None:
    asyncio.run(_live(schedule))
