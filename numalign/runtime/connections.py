"""
Open connections, and which of them is closed if there are too many.

A connection over TLS takes some 50 KB, so there is a limit; and a caller that is rejected for lack of room is
a failed review. So a new connection is always accepted, and the one that has been idle for longest is closed,
of the peer that holds most. Callers with a proven certificate keep theirs, and so does every call that is
being handled.
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
        """The peer of the connection."""

    def cut(self) -> None:
        """Close it at once."""


@dataclass(slots=True)
class ConnectionTable:
    """All open connections; a size of 0 sets no limit. `displaced` is called for each that was closed."""

    size: int
    displaced: Callable[[], None] = lambda: None
    held: Counter[Peer] = field(default_factory=Counter)
    _peers: dict[OpenConnection, Peer] = field(default_factory=dict)
    # Connections that may be closed, by peer; the one idle for longest comes first.
    _quiet: dict[Peer, dict[OpenConnection, None]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._peers)

    def enter(self, connection: OpenConnection) -> None:
        """Add a connection; if there is no room, another one is closed."""
        if self.size and len(self) >= self.size:
            self._make_room()
        self._add(connection)
        self.rest(connection)

    def leave(self, connection: OpenConnection) -> None:
        """Remove a connection, if it is still there."""
        peer = self._peers.pop(connection, None)
        if peer is None:
            return
        self._forget(connection, peer)
        self.held[peer] -= 1
        if not self.held[peer]:
            del self.held[peer]

    def prove(self, connection: OpenConnection) -> None:
        """Note that a connection has shown a certificate, and so has another peer."""
        if connection in self._peers:
            self.leave(connection)
            self._add(connection)

    def _add(self, connection: OpenConnection) -> None:
        self._peers[connection] = connection.peer
        self.held[connection.peer] += 1

    def work(self, connection: OpenConnection) -> None:
        """Note that a call of this connection is being handled: it stays open."""
        if connection in self._peers:
            self._forget(connection, self._peers[connection])

    def rest(self, connection: OpenConnection) -> None:
        """Note that a connection is idle: it may be closed, after those idle for longer."""
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
        """Close the connection idle for longest, of the peer that holds most; none if none is idle."""
        if self._quiet:
            most = max(self._quiet, key=self.held.__getitem__)
            connection = next(iter(self._quiet[most]))
            self.leave(connection)
            self.displaced()
            connection.cut()
