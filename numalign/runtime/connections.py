"""
Open connections, and which of them is closed if there are too many.

A connection over TLS takes some 50 KB, so there is a limit; and a caller that is rejected for lack of room is
a failed review. So a new connection is always accepted, and an idle one is closed: of the group that holds
most in relation to how often its address was served. A group is the connections of one address that have been
served, or the others: behind one address, those that only wait do not push out those that work. Callers with
a proven certificate keep theirs, and so does every call that is being handled (docs/decisions/0020).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Generic, NamedTuple, Protocol, TypeVar

from numalign.runtime.in_flight import Peer

# What addresses have been served is halved after so many calls: it is recent, and takes little memory.
REMEMBERED = 10_000
MOST_PASSED = 8
# The part of a group that is ranked at once: of one that holds most of all, many go before the next ranking.
PART = 8
# One of so many turns is for addresses that were not served yet, as those of an API server that just started.
NEW_TURNS = 4


class OpenConnection(Protocol):
    """One open connection."""

    @property
    def peer(self) -> Peer:
        """The peer of the connection."""

    def waits(self) -> bool:
        """Return whether bytes have come over it that nobody has read yet."""

    def cut(self) -> None:
        """Close it at once."""


class ConnectionGroup(NamedTuple):
    """Connections that compete for room: those of a peer that have been served, or the others."""

    peer: Peer
    served: bool = False


@dataclass(slots=True)
class ConnectionTable:
    """All open connections; a size of 0 sets no limit. `displaced` is called for each that was closed."""

    size: int
    displaced: Callable[[], None] = lambda: None
    held: Counter[ConnectionGroup] = field(default_factory=Counter)
    _groups: dict[OpenConnection, ConnectionGroup] = field(default_factory=dict)
    # Connections that may be closed, by group, with how many had come when it became idle; the one idle for
    # longest comes first.
    _quiet: dict[ConnectionGroup, dict[OpenConnection, int]] = field(default_factory=dict)
    _came: int = 0
    _calls: Counter[Peer] = field(default_factory=Counter)
    _counted: int = 0
    # Which to close next; ranking them takes longer than closing one.
    _dispensable: list[tuple[float, int, ConnectionGroup, OpenConnection]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._groups)

    def enter(self, connection: OpenConnection) -> None:
        """Add a connection; if there is no room, another one is closed, unless none is idle."""
        if self.size and len(self) >= self.size:
            # One over which a call is coming is passed over, a few times at most.
            dispensable = self._most_dispensable()
            for _ in range(MOST_PASSED):
                if not dispensable or not dispensable.waits():
                    break
                self.rest(dispensable)
                dispensable = self._most_dispensable()
            if dispensable:
                self.leave(dispensable)
                self.displaced()
                dispensable.cut()
        self._came += 1
        self._add(connection, ConnectionGroup(connection.peer))
        self.rest(connection)

    def leave(self, connection: OpenConnection) -> None:
        """Remove a connection, if it is still there."""
        group = self._groups.pop(connection, None)
        if group is None:
            return
        self._forget(connection, group)
        self.held[group] -= 1
        if not self.held[group]:
            del self.held[group]

    def prove(self, connection: OpenConnection) -> None:
        """Note that a connection has shown a certificate, and so has another peer."""
        if connection in self._groups:
            self.leave(connection)
            self._add(connection, ConnectionGroup(connection.peer))

    def _add(self, connection: OpenConnection, group: ConnectionGroup) -> None:
        self._groups[connection] = group
        self.held[group] += 1

    def work(self, connection: OpenConnection) -> None:
        """Note that a call of this connection is being handled: it stays open."""
        if connection in self._groups:
            self._forget(connection, self._groups[connection])

    def rest(self, connection: OpenConnection) -> None:
        """Note that a connection is idle: it may be closed, after those idle for longer."""
        group = self._groups.get(connection)
        if group is not None and not group.peer.proven:
            self._forget(connection, group)
            self._quiet.setdefault(group, {})[connection] = self._came

    def serve(self, connection: OpenConnection) -> None:
        """Note that a call of this connection has been answered well, and that it is idle."""
        group = self._groups.get(connection)
        if group is None:
            return
        self.leave(connection)
        self._add(connection, group._replace(served=True))
        self.rest(connection)
        self._calls[group.peer] += 1
        self._counted += 1
        if self._counted > REMEMBERED:
            self._calls = Counter({peer: calls // 2 for peer, calls in self._calls.items() if calls > 1})
            self._counted = self._calls.total()

    def _forget(self, connection: OpenConnection, group: ConnectionGroup) -> None:
        quiet = self._quiet.get(group)
        if quiet is not None:
            quiet.pop(connection, None)
            if not quiet:
                del self._quiet[group]

    def knows(self, peer: Peer) -> bool:
        """Return whether a peer has been served."""
        return peer in self._calls

    def _most_dispensable(self) -> OpenConnection | None:
        """Return the connection idle for longest of one group; None if none is idle."""
        while self._dispensable or self._quiet:
            self._dispensable = self._dispensable or self._ranked()
            _, came, group, connection = self._dispensable.pop()
            if self._quiet.get(group, {}).get(connection) == -came:
                return connection
        return None

    def _ranked(self) -> list[tuple[float, int, ConnectionGroup, OpenConnection]]:
        """Return some connections of each of the heaviest groups, down to half the weight; the heaviest last.

        A new one has time for its first call: half the size of others come before it may be closed, unless no
        idle one is older.
        """
        oldest = min(next(iter(quiet.values())) for quiet in self._quiet.values())
        settled = max(oldest, self._came - self.size // 2)
        ranked = sorted(
            ((self.held[group] - before) / (1 + self._calls[group.peer]), -came, group, connection)
            for group, quiet in self._quiet.items()
            for before, (connection, came) in enumerate(islice(quiet.items(), 1 + self.held[group] // PART))
            if came <= settled
        )
        return [each for each in ranked if each[0] >= ranked[-1][0] / 2]


Connection = TypeVar("Connection", bound=OpenConnection)


@dataclass(slots=True)
class AcceptedQueue(Generic[Connection]):
    """Accepted connections that are not set up yet, by address; most turns go to those served before."""

    table: ConnectionTable
    _known: dict[Peer, dict[Connection, None]] = field(default_factory=dict)
    _others: dict[Peer, dict[Connection, None]] = field(default_factory=dict)
    _turns: "count[int]" = field(default_factory=count)

    def __len__(self) -> int:
        return sum(map(len, (*self._known.values(), *self._others.values())))

    def join(self, connection: Connection) -> None:
        """Add a connection."""
        waiting = self._known if self.table.knows(connection.peer) else self._others
        waiting.setdefault(connection.peer, {})[connection] = None

    def withdraw(self, connection: Connection) -> None:
        """Remove a connection that was closed, if it is still there."""
        peer = connection.peer
        for waiting in (self._known, self._others):
            of_peer = waiting.get(peer, {})
            of_peer.pop(connection, None)
            if not of_peer:
                waiting.pop(peer, None)

    def next(self) -> Connection | None:
        """Return the connection whose turn it is, which is removed; None if there is none."""
        first, second = self._known, self._others
        if not next(self._turns) % NEW_TURNS:
            first, second = second, first
        waiting = first or second
        if not waiting:
            return None
        peer = next(iter(waiting))
        of_peer = waiting.pop(peer)
        connection = next(iter(of_peer))
        del of_peer[connection]
        if of_peer:
            waiting[peer] = of_peer
        return connection
