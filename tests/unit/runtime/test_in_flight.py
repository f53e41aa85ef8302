"""How much is taken on at once, and from whom: laws of counting."""

import asyncio
import contextlib
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.runtime.in_flight import (
    RESERVED,
    Budget,
    BudgetQueue,
    Limits,
    Load,
    Overloaded,
    Peer,
    ShedReason,
    Turns,
    Usage,
)
from tests.worlds.notation import table

A, B, C = (Peer(name) for name in "abc")
PROVEN = Peer("p", proven=True)
SNATTED = Peer("a", proven=True)
EVIL, TEAM = (Peer("a", namespace=name) for name in ("evil", "team"))
PROVEN_EVIL = PROVEN._replace(namespace="evil")
PEERS = st.sampled_from([A, B, C, PROVEN, SNATTED])


FULL = Budget(100, total=72, held={A: 72, EVIL: 72})
PROVEN_FULL = Budget(100, total=75, proven=75, held={PROVEN: 75, PROVEN_EVIL: 75})


@pytest.mark.parametrize(("pool", "peer", "amount", "room"), table([
    # who finds room                              the budget, the peer, how much, whether there is room
    ("anybody without a bound",                   Budget(0), A, 10**9, True),
    ("one for the only one there is",             Budget(1), A, 1, True),
    ("one alone, for three quarters",             Budget(100), A, 75, True),
    ("and for no more than that",                 Budget(100, total=75, held={A: 75}), A, 1, False),
    ("another peer for the rest",                 Budget(100, total=75, held={A: 75}), B, 25, True),
    ("of which there is no more than there is",   Budget(100, total=75, held={A: 75}), B, 26, False),
    ("256 calls of all API servers behind one address",
        Budget(512, 128, total=255, held={A: 255}), A, 1, True),
    ("nobody unproven for what is reserved",      Budget(100, 25, total=75, held={A: 75}), B, 1, False),
    ("the proven",                                Budget(100, 25, total=75, held={A: 75}), PROVEN, 25, True),
    ("nobody where the proven have it all",
        Budget(100, 25, total=100, proven=100, held={PROVEN: 100}), A, 1, False),
    ("a namespace for its share of its peer's",   FULL, EVIL, 1, False),
    ("another namespace",                         FULL, TEAM, 12, True),
    ("a namespace behind a proven peer",          PROVEN_FULL, PROVEN_EVIL, 1, False),
    ("a proven peer beside its namespaces",       PROVEN_FULL, PROVEN, 25, True),
]))  # fmt: skip
def test_room_for(pool: Budget, peer: Peer, amount: int, *, room: bool) -> None:
    assert pool.has_room(peer, amount) is room


@dataclass
class Crowd:
    """Calls that come, grow, begin and end in any order; what is refused ends."""

    load: Load
    visits: list[tuple[contextlib.ExitStack, Usage]] = field(default_factory=list)

    def come(self, peer: Peer) -> None:
        stack = contextlib.ExitStack()
        self.visits.append((stack, stack.enter_context(self.load.usage(peer))))

    def act(self, which: int, what: int) -> None:
        if not self.visits:
            return
        stack, usage = self.visits[which % len(self.visits)]
        try:
            if what > 0:
                usage.arrived(what)
            elif what == 0 and not usage.calls:
                usage.begin()
            elif what < 0:
                self._end(stack, usage)
        except Overloaded:
            self._end(stack, usage)

    def _end(self, stack: contextlib.ExitStack, usage: Usage) -> None:
        stack.close()
        self.visits = [each for each in self.visits if each[1] is not usage]

    def sums(self) -> tuple[int, int, int]:
        visits = [usage for _, usage in self.visits]
        return sum(each.calls for each in visits), sum(each.bytes for each in visits), len(visits)


STEPS = st.lists(st.tuples(PEERS, st.integers(0, 50), st.integers(-1, 60)), max_size=80)
LIMITS = st.builds(Limits, calls=st.integers(0, 12), bytes=st.integers(0, 300), reserve=st.booleans())


def after(limits: Limits, steps: list[tuple[Peer, int, int]]) -> Crowd:
    crowd = Crowd(Load.of(limits))
    for peer, which, what in steps:
        crowd.come(peer)
        crowd.act(which, what)
        crowd.act(which + 1, 0)
    return crowd


@given(LIMITS, STEPS)
def test_counted_bytes_have_arrived_and_are_returned(
    limits: Limits, steps: list[tuple[Peer, int, int]]
) -> None:
    crowd = after(limits, steps)
    load = crowd.load
    assert (load.calls.total, load.bytes.total, load.open) == crowd.sums()
    assert all(held > 0 for pool in (load.calls, load.bytes) for held in pool.held.values())
    while crowd.visits:
        crowd.act(0, -1)
    assert (load.calls, load.bytes, load.open) == (Load.of(limits).calls, Load.of(limits).bytes, 0)


@given(LIMITS, STEPS)
def test_no_more_is_taken_on_than_was_set(limits: Limits, steps: list[tuple[Peer, int, int]]) -> None:
    crowd = after(limits, steps)
    longest = max((usage.bytes for _, usage in crowd.visits), default=0)
    if limits.calls:
        assert crowd.load.calls.total <= limits.calls
    if limits.bytes:
        # One body may be longer than all may be together, while no other was there.
        assert crowd.load.bytes.total <= max(limits.bytes, limits.bytes + longest)
        assert crowd.load.bytes.total - longest <= limits.bytes


@given(st.integers(4, 40), STEPS)
def test_proven_caller_has_its_reserve(calls: int, steps: list[tuple[Peer, int, int]]) -> None:
    crowd = after(Limits(calls=calls, bytes=0, reserve=True), steps)
    proven = sum(usage.calls for _, usage in crowd.visits if usage.peer.proven)
    with crowd.load.usage(PROVEN) as usage:
        if proven < calls // RESERVED:
            usage.begin()


@given(st.integers(4, 400), st.integers(1, 3))
def test_greedy_peers_leave_room_for_another(calls: int, greedy: int) -> None:
    load = Load.of(Limits(calls=calls))
    peers = [Peer(str(number)) for number in range(greedy)]
    with contextlib.ExitStack() as stack:
        for _ in range(calls):
            for peer in peers:
                with contextlib.suppress(Overloaded):
                    stack.enter_context(load.usage(peer)).begin()
        if calls > 3 * greedy + 1:
            assert load.calls.total < calls
            stack.enter_context(load.usage(Peer("another"))).begin()


def test_body_beyond_the_limit_is_accepted_alone() -> None:
    load = Load.of(Limits(bytes=100))
    with load.usage(A) as first:
        first.arrived(1000)
        first.arrived(1000)
        with load.usage(B) as second, pytest.raises(Overloaded) as caught:
            second.arrived(1)
        assert caught.value.reason is ShedReason.BYTES
        assert load.bytes.total == 2000


async def test_the_last_call_is_waited_for() -> None:
    load = Load.of(Limits())
    await load.none()
    with load.usage(A):
        waiting = asyncio.create_task(load.none())
        with load.usage(A):
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
    async with asyncio.timeout(1):
        await waiting


# Turns.


async def rounds(*calls: tuple[Peer, int], size: int = 1) -> list[list[tuple[Peer, int]]]:
    """Which calls begin in which round of the event loop, if all come at once."""
    turns, began = Turns(size), list[tuple[Peer, int]]()

    async def call(peer: Peer, amount: int) -> None:
        await turns.wait(peer, amount)
        began.append((peer, amount))

    tasks = [asyncio.create_task(call(*each)) for each in calls]
    found = []
    while not all(task.done() for task in tasks):
        before = len(began)
        await asyncio.sleep(0)
        found.append(began[before:])
    return [each for each in found if each]


async def order(*peers: Peer) -> list[Peer]:
    found = await rounds(*((peer, 1) for peer in peers))
    assert max(map(len, found)) == 1
    return [peer for each in found for peer, _ in each]


async def test_small_ones_begin_together_and_large_ones_alone() -> None:
    found = await rounds(*((A, amount) for amount in (2, 3, 5, 1, 9, 9, 1, 1, 1, 4, 4)), size=5)
    # Whoever comes last in a round begins while there is any room left.
    expected = [[2, 3], [5], [1, 9], [9], [1, 1, 1, 4], [4]]
    assert [[amount for _, amount in each] for each in found] == expected


async def test_peers_and_namespaces_take_turns_after_the_proven() -> None:
    began = await order(*[A] * 1000, B, *[A] * 10, C)
    assert began.index(B) <= 3
    assert began.index(C) <= 3
    assert (await order(*[EVIL] * 100, TEAM, *[B] * 5)).index(TEAM) <= 4
    assert (await order(*[A] * 10, *[B] * 10, *[PROVEN] * 3))[1:4] == [PROVEN] * 3


async def test_single_caller_never_waits() -> None:
    turns = Turns()
    waiting = turns.wait(A)
    with pytest.raises(StopIteration):
        waiting.send(None)
    await asyncio.sleep(0)


async def test_cancelled_wait_delays_no_other_call() -> None:
    turns = Turns()
    tasks = [asyncio.create_task(turns.wait(peer)) for peer in (A, A, B, C)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    tasks[2].cancel()
    async with asyncio.timeout(1):
        await tasks[3]


# Gates.


@dataclass
class Road:
    gate: BudgetQueue = field(default_factory=lambda: BudgetQueue(Budget(1)))
    passed: list[Peer] = field(default_factory=list)
    on_it: int = 0

    async def drive(self, peer: Peer) -> None:
        async with self.gate.passing(peer, 1):
            self.on_it += 1
            assert self.on_it == 1
            self.passed.append(peer)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.on_it -= 1


async def test_one_passes_at_a_time_and_no_peer_holds_the_gate() -> None:
    road = Road()
    await asyncio.gather(*(road.drive(peer) for peer in [A, A, A, A, B, B, C]))
    assert road.passed == [A, A, B, C, A, B, A]


@given(st.lists(st.integers(0, 9), max_size=6))
def test_gate_reopens_after_cancellation(given_up: list[int]) -> None:
    async def scene() -> None:
        road = Road()
        tasks = [asyncio.create_task(road.drive(Peer(str(n % 3)))) for n in range(10)]
        for number in given_up:
            await asyncio.sleep(0)
            tasks[number].cancel()
        # One that was driving leaves the road as it was found.
        await asyncio.gather(*tasks, return_exceptions=True)
        road.on_it = 0
        async with asyncio.timeout(1):
            await road.drive(A)

    asyncio.run(scene())


async def test_gate_admits_its_room_and_another_peer() -> None:
    gate, held = BudgetQueue(Budget(100)), list[Peer]()

    async def hold(peer: Peer) -> None:
        async with gate.passing(peer, 10):
            held.append(peer)
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(hold(peer)) for peer in [A] * 20]
    await asyncio.sleep(0)
    assert held == [A] * 8
    tasks.append(asyncio.create_task(hold(B)))
    await asyncio.sleep(0)
    assert held == [*[A] * 8, B]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert gate.budget == Budget(100)


async def test_large_call_is_not_starved_by_small_ones() -> None:
    gate, passed = BudgetQueue(Budget(100)), list[int]()
    leave = {number: asyncio.Event() for number in range(18)}

    async def hold(number: int, amount: int = 10) -> None:
        async with gate.passing(Peer(f"10.0.0.{number}"), amount):
            passed.append(number)
            await leave.get(number, done).wait()

    (done := asyncio.Event()).set()
    tasks = [asyncio.create_task(hold(number)) for number in range(9)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(hold(99, 60)))
    for number in range(9):
        leave[number].set()
        tasks.append(asyncio.create_task(hold(number + 9)))
        for _ in range(3):
            await asyncio.sleep(0)
    for event in leave.values():
        event.set()
    await asyncio.gather(*tasks)
    # Once it waits, nobody who comes later goes first.
    assert (passed[:10], gate.budget) == ([*range(9), 99], Budget(100))


async def test_after_one_that_took_long_the_gate_rests() -> None:
    gate = BudgetQueue(Budget(1))
    async with gate.passing(A, 1) as taken:
        taken.rest = 0.02
    async with asyncio.timeout(1):
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with gate.passing(B, 1):
            assert loop.time() - began >= 0.015
