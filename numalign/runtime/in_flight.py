"""
How much one server takes on at once, and how much of it one peer.

Whoever reaches the port can send as much as it likes, and as slowly. So what counts is what has arrived:
the bytes of a body as they come, a call once its body is whole. What is too much is turned away; who
announces and stays silent holds nothing.

One peer has a share. It may hold `SHARE` times as much as is left, so a peer that is alone gets most of
all there is, k peers leave room for another one, and nobody needs to know how many they are (Choudhury and
Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998). A part can be kept for
callers that showed a certificate. And calls begin in turn, one peer after the other, so that a peer that
sends a thousand does not make another one wait for them all.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self

from numalign.runtime.limits import Limits

SHARE = 3
# Of what there is room for, this part is kept for those who are proven.
RESERVED = 4
# Parsed, JSON takes up to 60 times as much memory (lists in lists). Bodies that are longer than this are
# handled one at a time, and of the shorter ones only so many bytes at once.
LARGE = 128 * 1024
TOGETHER = 2 * 1024**2
# To parse a body that is longer than this stops all else for a tenth of a second, so the next one waits for
# as long: a short call takes some rounds of the event loop, and would meet another one in each.
HUGE = 1024**2
LONGEST_REST = 0.5
# As many calls begin in one round of the event loop as have so much in their bodies together, each counted as
# `LEAST` at least; they take some milliseconds. A round for each would be a look at all sockets for each.
ROUND = 64 * 1024
LEAST = ROUND // 8


class ShedReason(StrEnum):
    """What there is too much of."""

    CALLS = "calls"
    BYTES = "bytes"


class Overloaded(Exception):
    """Raised where a call, or the next bytes of its body, cannot be taken on."""

    def __init__(self, reason: ShedReason) -> None:
        super().__init__(f"too many {reason} in flight")
        self.reason = reason


class Peer(NamedTuple):
    """Who calls: an address, and whether a certificate proved that it may go first."""

    address: str
    proven: bool = False


@dataclass(slots=True)
class Budget:
    """What there is only so much of, and who holds how much; a size of 0 sets no bound.

    `reserved` of it is for the proven alone.
    """

    size: int
    reserved: int = 0
    total: int = 0
    proven: int = 0
    held: dict[Peer, int] = field(default_factory=dict)

    @classmethod
    def of(cls, size: int, *, reserve: bool) -> "Budget":
        """Return a pool of so much, a part of it kept for the proven if there can be any."""
        return cls(size, size // RESERVED if reserve else 0)

    def has_room(self, peer: Peer, amount: int) -> bool:
        """Return whether a peer may take so much more."""
        if not self.size:
            return True
        free = self.free(peer)
        shared = peer.proven or self.held.get(peer, 0) + amount <= SHARE * free
        return amount <= free and shared

    def free(self, peer: Peer) -> int:
        """Return how much is left for peers like this one, whatever its own share."""
        free = self.size - self.total
        return free if peer.proven else min(free, self.size - self.reserved - (self.total - self.proven))

    def take(self, peer: Peer, amount: int) -> None:
        """Count what a peer holds more, or less if it is negative."""
        self.total += amount
        self.proven += amount * peer.proven
        held = self.held.get(peer, 0) + amount
        if held:
            self.held[peer] = held
        else:
            self.held.pop(peer, None)


@dataclass(slots=True)
class Usage:
    """One call from its headers to its answer: what of it has arrived, and whether it is being handled.

    It counts inside the `with`; what it came to hold is given back at the end.
    """

    peer: Peer
    load: "Load"
    bytes: int = 0
    calls: int = 0

    def __enter__(self) -> Self:
        self.load.come()
        return self

    def __exit__(self, *_: object) -> None:
        self.load.calls.take(self.peer, -self.calls)
        self.load.bytes.take(self.peer, -self.bytes)
        self.load.go()

    def arrived(self, size: int) -> None:
        """Take on so many more bytes of the body; raises `Overloaded`."""
        held = self.load.bytes
        # One body that is longer than all may be together is taken on while no other is there.
        alone = held.total == self.bytes
        if not alone and not held.has_room(self.peer, size):
            raise Overloaded(ShedReason.BYTES)
        held.take(self.peer, size)
        self.bytes += size

    def begin(self) -> None:
        """Take on the call, whose body is whole; raises `Overloaded`."""
        if not self.load.calls.has_room(self.peer, 1):
            raise Overloaded(ShedReason.CALLS)
        self.load.calls.take(self.peer, 1)
        self.calls = 1


@dataclass(slots=True)
class Load:
    """The calls being handled, the bytes of bodies that have arrived, and all that is open or on its way."""

    calls: Budget
    bytes: Budget
    open: int = 0
    _idle: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @classmethod
    def of(cls, limits: Limits) -> "Load":
        """Nothing yet, within limits."""
        return cls(
            Budget.of(limits.calls, reserve=limits.reserve), Budget.of(limits.bytes, reserve=limits.reserve)
        )

    def usage(self, peer: Peer) -> Usage:
        """Return one call of a peer."""
        return Usage(peer, self)

    def come(self) -> None:
        """One more is on its way."""
        self.open += 1
        self._idle.clear()

    def go(self) -> None:
        """One less is."""
        self.open -= 1
        if not self.open:
            self._idle.set()

    async def none(self) -> None:
        """Wait until no call is being handled or on its way."""
        if self.open:
            await self._idle.wait()


@dataclass(slots=True)
class FairQueue:
    """Who waits and with how much, by peer: the proven first, and then one peer after the other."""

    waiting: dict[Peer, deque[tuple[asyncio.Future[None], int]]] = field(default_factory=dict)

    def join(self, peer: Peer, amount: int) -> asyncio.Future[None]:
        """Wait behind those of the same peer; the future is done when it is one's turn."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(peer, deque()).append((place, amount))
        return place

    def heads(self) -> Iterator[tuple[Peer, int]]:
        """Yield the first of each peer and how much it has, in turn; whoever gave up waiting is forgotten."""
        for proven in (True, False):
            for peer in [peer for peer in self.waiting if peer.proven is proven]:
                places = self.waiting[peer]
                while places and places[0][0].done():
                    places.popleft()
                if places:
                    yield peer, places[0][1]
                else:
                    del self.waiting[peer]

    def let_go(self, peer: Peer) -> None:
        """Let the first of a peer go; the peer's others come after everybody else."""
        places = self.waiting.pop(peer)
        places.popleft()[0].set_result(None)
        if places:
            self.waiting[peer] = places


@dataclass(slots=True)
class Turns:
    """Lets so much begin in each round of the event loop, so that others are heard between.

    What alone is more begins alone.
    """

    size: int = 1
    _queue: FairQueue = field(default_factory=FairQueue)
    _taken: int = 0

    async def wait(self, peer: Peer, amount: int = 1) -> None:
        """Returns when it is this peer's turn: at once where there is room in this round and nobody waits."""
        if self._queue.waiting or self._taken >= self.size:
            await self._queue.join(peer, amount)
            return
        if not self._taken:
            asyncio.get_running_loop().call_soon(self._next_round)
        self._taken += amount

    def _next_round(self) -> None:
        self._taken = 0
        while self._taken < self.size and (head := next(self._queue.heads(), None)):
            peer, amount = head
            self._queue.let_go(peer)
            self._taken += amount
        if self._taken:
            asyncio.get_running_loop().call_soon(self._next_round)


@dataclass(slots=True)
class BudgetQueue:
    """Lets through what a budget has room for, as it is shared; the others wait in turn."""

    budget: Budget
    _queue: FairQueue = field(default_factory=FairQueue)

    def passing(self, peer: Peer, amount: int) -> "Pass":
        """Take so much of the budget inside the `async with`, when it is this peer's turn."""
        return Pass(self, peer, amount)

    async def enter(self, peer: Peer, amount: int) -> None:
        """Take so much, when it is this peer's turn."""
        if not self._queue.waiting and self._fits(peer, amount):
            self.budget.take(peer, amount)
            return
        place = self._queue.join(peer, amount)
        self._let_go()
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                # Others may have waited behind it.
                self._let_go()
            else:
                self.leave(peer, amount)
            raise

    def leave(self, peer: Peer, amount: int) -> None:
        """Give so much back."""
        self.budget.take(peer, -amount)
        self._let_go()

    def _let_go(self) -> None:
        while head := self._next():
            self.budget.take(*head)
            self._queue.let_go(head[0])

    def _next(self) -> tuple[Peer, int] | None:
        """Return the first in turn for whom there is room, the proven before all.

        Whoever has its share is passed over. Whoever has not, and is too large for what is free, has the next
        room that there is: else it would wait for as long as small ones come.
        """
        for peer, amount in self._queue.heads():
            if self._fits(peer, amount):
                return peer, amount
            if amount > self.budget.free(peer):
                return None
        return None

    def _fits(self, peer: Peer, amount: int) -> bool:
        return not self.budget.total or self.budget.has_room(peer, amount)


@dataclass(slots=True)
class Pass:
    """What one holds of a budget inside the `async with`; after it, nobody else has it for `rest` seconds."""

    queue: BudgetQueue
    peer: Peer
    amount: int
    rest: float = 0

    async def __aenter__(self) -> Self:
        await self.queue.enter(self.peer, self.amount)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.rest:
            asyncio.get_running_loop().call_later(self.rest, self.queue.leave, self.peer, self.amount)
        else:
            self.queue.leave(self.peer, self.amount)
