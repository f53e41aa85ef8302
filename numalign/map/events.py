"""
What changed, told to whoever looks at the map at the moment.

Of each node it is told that something about it changed, never what: the page asks for that, and sees what it
may. Whoever does not keep up is told less and not later: names are gathered until they are taken, and many
names become one word, `all`. So nothing grows behind a reader who sleeps.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import orjson
from prometheus_client import CollectorRegistry, Gauge

from numalign.runtime.clock import Sleep
from numalign.runtime.logs import Log, QuietLog
from numalign.runtime.metrics import PREFIX

MOST_STREAMS = 256
MOST_STREAMS_EACH = 16
"""Of one viewer: a tab of a browser has one."""

MOST_NAMES = 200
"""In one event; a page asks for its nodes anew when there are more."""

LOOK_SECONDS = 0.25
"""How often it is looked what changed."""

LOGIN = b"event: login\ndata:\n\n"
"""Told to a page whose viewer has to sign in again."""

HEARTBEAT = b": \n\n"

Changes = Callable[[int], frozenset[str] | None]
"""The names of nodes that changed since a revision; None if there are too many, or nobody knows any more."""


class TooManyStreams(Exception):
    """Raised where a viewer, or all together, have as many streams open as there may be."""


@dataclass(eq=False, slots=True)
class Stream:
    """What one page has not been told yet."""

    key: bytes
    names: set[str] = field(default_factory=set)
    is_all: bool = False
    ended: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, names: Iterable[str] | None) -> None:
        """These nodes changed; None means any."""
        self.is_all = self.is_all or names is None
        self.names.update(names or ())
        if self.is_all or len(self.names) > MOST_NAMES:
            self.is_all = True
            self.names.clear()
        self._news.set()

    def end(self) -> None:
        """Nothing more is to be told."""
        self.ended = True
        self._news.set()

    async def wait(self, seconds: float) -> None:
        """Returns as soon as there is something to tell, or after so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    def take(self, revision: int) -> bytes:
        """Return what is to be told, as an event; empty if nothing is."""
        self._news.clear()
        if not (self.is_all or self.names):
            return b""
        kind, names = ("all", []) if self.is_all else ("nodes", sorted(self.names))
        self.is_all = False
        self.names.clear()
        return f"id: {revision}\nevent: {kind}\ndata: ".encode() + orjson.dumps(names) + b"\n\n"


class Streams:
    """All pages that are told of changes; `revision` is how far they were told, 0 before anybody looked."""

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
        """One more stream, of whoever this key stands for; raises `TooManyStreams`."""
        if len(self._open) >= MOST_STREAMS or self._held[key] >= MOST_STREAMS_EACH:
            raise TooManyStreams
        stream = Stream(key, ended=self._closed)
        self._open.add(stream)
        self._held[key] += 1
        try:
            yield stream
        finally:
            self._open.discard(stream)
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]

    def tell(self, names: Iterable[str] | None, revision: int) -> None:
        """These nodes changed, and by that it is this revision; None means any."""
        self.revision = revision
        for stream in self._open:
            stream.add(names)

    def end(self, key: bytes | None = None) -> None:
        """End the streams of one viewer, or all, and those to come too."""
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
        """Tell what changes, until it is cancelled; then all streams end.

        `look` gives the revision by now. What it raises is logged, and ends nothing: who shows the cluster
        must not stop who looks after it.
        """
        quiet_log = QuietLog(log)
        try:
            while True:
                try:
                    now = await look()
                    if self.revision not in (0, now):
                        self.tell(changes(self.revision), now)
                    self.revision = now
                except Exception as error:  # noqa: BLE001  as said above
                    quiet_log.failed("map.failed", error)
                await sleep(LOOK_SECONDS)
        finally:
            self.end()
