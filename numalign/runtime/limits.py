"""The limits of a server, and the time limits of each step of a connection, for every peer alike."""

from dataclasses import dataclass
from enum import StrEnum

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
