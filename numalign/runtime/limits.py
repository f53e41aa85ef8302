"""How much a server takes on, and how long each step of a connection may take: for every peer alike."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Limits:
    """What one server takes on: calls and bytes of bodies at once, bytes of one body, open connections.

    0 sets no bound. `reserve` keeps a part of all of it for callers that are proven.
    """

    calls: int = 0
    bytes: int = 0
    body: int = 4 * 1024**2
    connections: int = 0
    reserve: bool = False


class Slow(StrEnum):
    """What did not come in time."""

    HANDSHAKE = "handshake"
    HEADERS = "headers"
    BODY = "body"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds that each step may take.

    An API server and a scheduler send a request in one go and read its answer at once, so each part of a
    call is there within moments, unless the network or the caller is in trouble; five seconds are more than
    any of them waits for the whole. `idle` is between two calls and before the first: an API server keeps
    idle connections for 90 seconds and does not repeat a POST whose connection broke, so they are kept
    longer than that. It also opens some that it uses later or never (net/http dials ahead): one over which
    nothing has come yet is idle and not slow. `lingering` is for a peer that was told why not, and still
    sends.
    """

    handshake: float = 10
    headers: float = 5
    body: float = 5
    answer: float = 10
    idle: float = 240
    lingering: float = 2
