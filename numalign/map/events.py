"""
Streams of changes to the open pages of the map.

An event names the nodes that changed, never what changed: the page requests that, and gets what its viewer
may see. A slow reader gets fewer events, not late ones: names are collected until they are taken, and too
many names become the one event `all`. So the memory of a stream is bounded.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import orjson
from prometheus_client import CollectorRegistry, Gauge

from numalign.map.access import Unavailable
from numalign.map.turnstile import counted
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import Log, QuietLog
from numalign.runtime.metrics import PREFIX

MOST_STREAMS = 256
MOST_STREAMS_EACH = 16
"""Most streams of one viewer: each browser tab has one."""

MOST_NAMES = 200
"""Most names in one event; if there are more, a page reloads all its nodes."""

LOOK_SECONDS = 0.25
"""Interval in seconds at which to check for changes."""

LOGIN = b"event: login\ndata:\n\n"
"""The event for a page whose viewer has to sign in again."""

HEARTBEAT = b": \n\n"

Changes = Callable[[int], frozenset[str] | None]
"""Returns the names of nodes that changed since a revision; None if they are not known any more."""


@dataclass(eq=False, slots=True)
class Stream:
    """The changes that were not sent to one page yet."""

    key: bytes
    names: set[str] = field(default_factory=set)
    is_all: bool = False
    ended: bool = False
    _ready: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, names: Iterable[str] | None) -> None:
        """Add nodes that changed; None means any."""
        self.is_all = self.is_all or names is None
        self.names.update(names or ())
        if self.is_all or len(self.names) > MOST_NAMES:
            self.is_all = True
            self.names.clear()
        self._ready.set()

    def end(self) -> None:
        """End the stream."""
        self.ended = True
        self._ready.set()

    async def wait(self, seconds: float) -> None:
        """Return as soon as there is something to send, or after these seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._ready.wait()
        except TimeoutError:
            return

    def take(self, revision: int) -> bytes:
        """Return the event to send; empty if there is none."""
        self._ready.clear()
        if not (self.is_all or self.names):
            return b""
        kind, names = ("all", []) if self.is_all else ("nodes", sorted(self.names))
        self.is_all = False
        self.names.clear()
        return f"id: {revision}\nevent: {kind}\ndata: ".encode() + orjson.dumps(names) + b"\n\n"


class Streams:
    """The streams of all open pages; `revision` is the last one sent, 0 before the first check."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.revision = 0
        self._open: set[Stream] = set()
        self._held: Counter[bytes] = Counter()
        self._closed = False
        Gauge(
            f"{PREFIX}map_streams", "Open pages of the map that receive changes.", registry=registry
        ).set_function(lambda: len(self._open))

    @contextmanager
    def opened(self, key: bytes) -> Iterator[Stream]:
        """Open a stream of the viewer with this key; raise `Unavailable` if a limit is exceeded."""
        if len(self._open) >= MOST_STREAMS or self._held[key] >= MOST_STREAMS_EACH:
            raise Unavailable("Too many pages are open: close some of them.")
        stream = Stream(key, ended=self._closed)
        self._open.add(stream)
        with counted(self._held, key):
            try:
                yield stream
            finally:
                self._open.discard(stream)

    def notify(self, names: Iterable[str] | None, revision: int) -> None:
        """Add the nodes that changed up to this revision to all streams; None means any."""
        self.revision = revision
        for stream in self._open:
            stream.add(names)

    def end(self, key: bytes | None = None) -> None:
        """End the streams of one viewer; without a key, end all, and those opened later too."""
        self._closed = self._closed or key is None
        for stream in self._open:
            if key in (None, stream.key):
                stream.end()

    async def follow(
        self,
        look: Callable[[], Awaitable[int]],
        changes: Changes,
        *,
        log: Log,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Send changes until cancelled; then all streams end.

        `look` returns the current revision. Its exceptions are logged and end nothing: an error of the map
        must not stop the process.
        """
        quiet_log = QuietLog(log)
        try:
            while True:
                try:
                    now = await look()
                    if self.revision not in (0, now):
                        self.notify(changes(self.revision), now)
                    self.revision = now
                except Exception as error:  # noqa: BLE001  see the docstring
                    quiet_log.failed("map.failed", error)
                await sleep(LOOK_SECONDS)
        finally:
            self.end()
