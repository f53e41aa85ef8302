"""
How much one server handles at once, and how much of it one peer.

Any client that reaches the port can send as much and as slowly as it likes. So only what has arrived counts:
the bytes of a body as they arrive, a call once its body is complete. Excess is rejected; a client that
announces a body and sends nothing holds nothing.

Each peer has a share. It may hold `SHARE` times as much as is left, so a single peer gets most of the budget,
k peers leave room for another one, and their number need not be known (Choudhury and Hahne, "Dynamic queue
length thresholds for shared-memory packet switches", 1998). A part can be reserved for callers with a
certificate. And calls begin in turn, one peer after the other, so that a peer with a thousand calls does not
delay the others by all of them.

All tenants of a cluster call through the same API servers. So a namespace has a share of its peer's share,
and the calls of one peer begin in turn by namespace.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self

SHARE = 3
# The fraction of the budget that is reserved for proven peers.
RESERVED = 4
# Parsed, JSON takes up to 60 times as much memory (lists in lists). Longer bodies than this are handled one
# at a time, and shorter ones up to a total of bytes at once.
LARGE = 128 * 1024
TOGETHER = 2 * 1024**2
# Parsing a longer body than this blocks everything for a tenth of a second, so the next one waits for as
# long: a short call takes some rounds of the event loop, and would meet another one in each.
HUGE = 1024**2
LONGEST_REST = 0.5
# The total of bodies whose calls begin in one round of the event loop, each counted as `LEAST` at least; they
# take some milliseconds. One round per call would check all sockets for each.
ROUND = 64 * 1024
LEAST = ROUND // 8
LONG = 4 * 1024**2
"""A body up to this size can consist of anything; parsed, it takes up to 60 times as much memory."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server: calls and bytes of bodies at once, bytes of one body, open connections.

    0 sets no limit. `values` is that of commas and brackets in a body of more than `LONG` bytes; `reserve`
    reserves a part of calls and bytes for proven callers.
    """

    calls: int = 0
    bytes: int = 0
    body: int = LONG
    values: int = 0
    connections: int = 0
    reserve: bool = False


class Slow(StrEnum):
    """The step that was too slow."""

    HANDSHAKE = "handshake"
    HEADERS = "headers"
    BODY = "body"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The limits of each step, in seconds.

    An API server and a scheduler send a request at once and read its answer at once, so each part of a call
    arrives within moments, unless the network or the caller has a problem; five seconds are more than any of
    them waits for the whole. `idle` is between two calls and before the first: an API server keeps idle
    connections for 90 seconds and does not repeat a POST whose connection broke, so they are kept longer than
    that. It also opens connections that it uses later or never (net/http dials ahead): one without any data
    yet is idle and not slow. `lingering` is for a peer that has got its error and still sends.
    """

    handshake: float = 10
    headers: float = 5
    body: float = 5
    answer: float = 10
    idle: float = 240
    lingering: float = 2


class ShedReason(StrEnum):
    """What exceeds its limit."""

    CALLS = "calls"
    BYTES = "bytes"


class Overloaded(Exception):
    """Raised if a call, or the next bytes of its body, exceed a limit."""

    def __init__(self, reason: ShedReason) -> None:
        super().__init__(f"too many {reason} in flight")
        self.reason = reason


class Peer(NamedTuple):
    """A caller, or its calls about pods in a namespace; a certificate gives precedence to a `proven` one."""

    address: str
    proven: bool = False
    namespace: str = ""

    @property
    def caller(self) -> "Peer":
        """The whole caller."""
        return self._replace(namespace="")


@dataclass(slots=True)
class Budget:
    """A limited amount, held by peers; a size of 0 sets no limit, `reserved` of it is for proven peers."""

    size: int
    reserved: int = 0
    total: int = 0
    proven: int = 0
    held: dict[Peer, int] = field(default_factory=dict)

    def has_room(self, peer: Peer, amount: int) -> bool:
        """Return whether a peer may take this much more."""
        if not self.size:
            return True
        free = self.free(peer)
        own = free if peer.proven else min(free, SHARE * free - self.held.get(peer.caller, 0))
        in_share = not peer.namespace or self.held.get(peer, 0) + amount <= SHARE * own
        return amount <= own and in_share

    def free(self, peer: Peer) -> int:
        """Return how much is left for peers like this one, whatever its own share."""
        free = self.size - self.total
        return free if peer.proven else min(free, self.size - self.reserved - (self.total - self.proven))

    def take(self, peer: Peer, amount: int) -> None:
        """Add to what a peer holds; a negative amount is given back."""
        self.total += amount
        self.proven += amount * peer.proven
        for holder in {peer, peer.caller}:
            held = self.held.get(holder, 0) + amount
            if held:
                self.held[holder] = held
            else:
                self.held.pop(holder, None)


@dataclass(slots=True)
class Usage:
    """One call from its headers to its answer; at the end of the `with` it gives back what it holds."""

    peer: Peer
    load: "Load"
    bytes: int = 0
    calls: int = 0
    namespace: str = ""
    """Of the pods that it is about, as far as known."""

    @property
    def tenant(self) -> Peer:
        """The part of the caller's calls that this one belongs to."""
        return self.peer._replace(namespace=self.namespace)

    def __enter__(self) -> Self:
        self.load.open += 1
        self.load.idle.clear()
        return self

    def __exit__(self, *_: object) -> None:
        self.load.calls.take(self.tenant, -self.calls)
        self.load.bytes.take(self.peer, -self.bytes)
        self.load.open -= 1
        if not self.load.open:
            self.load.idle.set()

    def arrived(self, size: int) -> None:
        """Count more bytes of the body; raise `Overloaded` beyond the limit."""
        held = self.load.bytes
        # A single body may exceed the total limit while there is no other.
        alone = held.total == self.bytes
        if not alone and not held.has_room(self.peer, size):
            raise Overloaded(ShedReason.BYTES)
        held.take(self.peer, size)
        self.bytes += size

    def begin(self) -> None:
        """Count the call, whose body is complete; raise `Overloaded` beyond the limit."""
        if not self.load.calls.has_room(self.tenant, 1):
            raise Overloaded(ShedReason.CALLS)
        self.load.calls.take(self.tenant, 1)
        self.calls = 1


@dataclass(slots=True)
class Load:
    """The calls being handled, the bytes of bodies that have arrived, and all open calls."""

    calls: Budget
    bytes: Budget
    open: int = 0
    idle: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @classmethod
    def of(cls, limits: Limits) -> "Load":
        """Return an empty load with these limits."""

        def budget(size: int) -> Budget:
            return Budget(size, size // RESERVED if limits.reserve else 0)

        return cls(budget(limits.calls), budget(limits.bytes))

    def usage(self, peer: Peer) -> Usage:
        """Return the usage of one call of a peer."""
        return Usage(peer, self)

    async def none(self) -> None:
        """Wait until no call is open."""
        if self.open:
            await self.idle.wait()


@dataclass(slots=True)
class FairQueue:
    """Waiting calls with their amounts: proven peers first, then one caller and namespace after the other."""

    waiting: dict[Peer, dict[Peer, deque[tuple[asyncio.Future[None], int]]]] = field(default_factory=dict)

    def join(self, peer: Peer, amount: int) -> asyncio.Future[None]:
        """Wait behind others of the same peer; the future is done when the turn comes."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(peer.caller, {}).setdefault(peer, deque()).append((place, amount))
        return place

    def heads(self) -> Iterator[tuple[Peer, int]]:
        """Yield the first of each peer and its amount, in turn; cancelled ones are removed."""
        for proven in (True, False):
            for caller in [caller for caller in self.waiting if caller.proven is proven]:
                for peer, places in [*self.waiting[caller].items()]:
                    while places and places[0][0].done():
                        places.popleft()
                    if places:
                        yield peer, places[0][1]
                    else:
                        del self.waiting[caller][peer]
                if not self.waiting[caller]:
                    del self.waiting[caller]

    def release(self, peer: Peer) -> None:
        """Release the first of a peer; the others of its namespace and of its caller come last."""
        own = self.waiting.pop(peer.caller)
        places = own.pop(peer)
        places.popleft()[0].set_result(None)
        if places:
            own[peer] = places
        if own:
            self.waiting[peer.caller] = own


@dataclass(slots=True)
class Turns:
    """Starts a limited amount in each round of the event loop; a single larger amount starts alone."""

    size: int = 1
    _queue: FairQueue = field(default_factory=FairQueue)
    _taken: int = 0

    async def wait(self, peer: Peer, amount: int = 1) -> None:
        """Wait for this peer's turn: none if there is room in this round and no other waits."""
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
            self._queue.release(peer)
            self._taken += amount
        if self._taken:
            asyncio.get_running_loop().call_soon(self._next_round)


@dataclass(slots=True)
class BudgetQueue:
    """Admits what a budget has room for, in shares; the others wait in turn."""

    budget: Budget
    _queue: FairQueue = field(default_factory=FairQueue)

    @asynccontextmanager
    async def passing(self, peer: Peer, amount: int) -> AsyncIterator["Pass"]:
        """Hold an amount of the budget, when it is this peer's turn."""
        if not self._queue.waiting and self._fits(peer, amount):
            self.budget.take(peer, amount)
        else:
            await self._enter(peer, amount)
        taken = Pass()
        try:
            yield taken
        finally:
            if taken.rest:
                asyncio.get_running_loop().call_later(taken.rest, self._leave, peer, amount)
            else:
                self._leave(peer, amount)

    async def _enter(self, peer: Peer, amount: int) -> None:
        place = self._queue.join(peer, amount)
        self._release_next()
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                # Others may have waited behind it.
                self._release_next()
            else:
                self._leave(peer, amount)
            raise

    def _leave(self, peer: Peer, amount: int) -> None:
        self.budget.take(peer, -amount)
        self._release_next()

    def _release_next(self) -> None:
        while head := self._next():
            self.budget.take(*head)
            self._queue.release(head[0])

    def _next(self) -> tuple[Peer, int] | None:
        """Return the first in turn for which there is room, proven peers first.

        A peer that has its share is skipped. One that has not, but is too large for what is free, gets the
        next room: otherwise it would wait as long as small ones come.
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
    """An amount of a budget is held, for `rest` seconds longer than the `async with`."""

    rest: float = 0
