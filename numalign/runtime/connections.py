"""
Connections that are open, and which of them goes when there are too many.

A connection over TLS takes some 50 KB, so there is a bound; and a caller that is kept out for lack of room
is a review that fails. So a newcomer always comes in, and what goes is the connection on which nothing has
happened for longest, of the peer that holds most. Callers with a proven certificate keep theirs, and so
does every call that is being handled.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from numalign.runtime.in_flight import Peer


class OpenConnection(Protocol):
    """One open connection."""

    @property
    def peer(self) -> Peer:
        """Whose it is."""

    def cut(self) -> None:
        """End it, now."""


@dataclass(slots=True)
class ConnectionTable:
    """All open connections; a size of 0 sets no bound. `displaced` is told of each that had to go."""

    size: int
    displaced: Callable[[], None] = lambda: None
    held: Counter[Peer] = field(default_factory=Counter)
    _peers: dict[OpenConnection, Peer] = field(default_factory=dict)
    # Those that may go, by peer; the one on which nothing has happened for longest comes first.
    _quiet: dict[Peer, dict[OpenConnection, None]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._peers)

    def enter(self, connection: OpenConnection) -> None:
        """Count one more; where there is no room, another one is cut."""
        if self.size and len(self) >= self.size:
            self._make_room()
        self._add(connection)
        self.rest(connection)

    def leave(self, connection: OpenConnection) -> None:
        """Count one less; one that has left already is left alone."""
        peer = self._peers.pop(connection, None)
        if peer is None:
            return
        self._forget(connection, peer)
        self.held[peer] -= 1
        if not self.held[peer]:
            del self.held[peer]

    def prove(self, connection: OpenConnection) -> None:
        """A connection has become another peer's: its certificate was shown."""
        if connection in self._peers:
            self.leave(connection)
            self._add(connection)

    def _add(self, connection: OpenConnection) -> None:
        self._peers[connection] = connection.peer
        self.held[connection.peer] += 1

    def work(self, connection: OpenConnection) -> None:
        """A call of this connection is being handled: it stays."""
        if connection in self._peers:
            self._forget(connection, self._peers[connection])

    def rest(self, connection: OpenConnection) -> None:
        """A connection has come, or its call is answered: it may go, after those that rest for longer."""
        peer = self._peers.get(connection)
        if peer is not None and not peer.proven:
            self._forget(connection, peer)
            self._quiet.setdefault(peer, {})[connection] = None

    def _forget(self, connection: OpenConnection, peer: Peer) -> None:
        quiet = self._quiet.get(peer)
        if quiet is not None:
            quiet.pop(connection, None)
            if not quiet:
                del self._quiet[peer]

    def _make_room(self) -> None:
        """Of the peer that holds most, the one that rests for longest; nobody goes where nobody rests."""
        if self._quiet:
            most = max(self._quiet, key=self.held.__getitem__)
            connection = next(iter(self._quiet[most]))
            self.leave(connection)
            self.displaced()
            connection.cut()
