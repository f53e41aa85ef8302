"""
Keeping the shapes of this cluster's nodes where every replica reads them.

What a device plugin takes along when it goes, and what a pool was before it was scaled to zero, no object of
the cluster tells afterwards. So the shapes are kept in a ConfigMap, and with them since when nodes are
degraded: by one replica at a time, which reads before it writes, adds to what others wrote, and writes only
what changes something. The others read it too, for each of them may lead next.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Counter, Gauge

from numalign.kube.decode import shapes
from numalign.kube.decode.parts import Part
from numalign.kube.errors import ClusterError, Conflict, Forbidden, NotFound, Unauthorized
from numalign.model.errors import Mistake
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX
from numalign.shapes import KnownShape, ShapeHistory
from numalign.shapes.history import RememberedShapes

TURN_SECONDS = 1.0

LOOK_SECONDS = 60.0
"""Between two looks at the ConfigMap if nothing happens, and between two writes at least."""

SOON_SECONDS = 2.0
"""Between two looks at least, and from one to the next for as long as none has succeeded."""

PATIENCE_SECONDS = 30.0
"""How long the labels of nodes wait until the ConfigMap was read for the first time."""

ANSWER_SECONDS = 5
"""How long the API server may take: less than others wait before they lead in our place."""

REFRESH_SECONDS = 4 * 3600.0
"""How old it may be that a shape is said to have been here, while it is."""

EXACT_SECONDS = 60.0
"""The same for a shape that is here no more."""

MOST_BYTES = 2**21
"""More than an API server stores of one object."""

MOST_MISTAKES = 10
"""In one line of the log."""

_WRITTEN_SECONDS = 2.0
"""By how much a time may differ from itself once it was written."""


class Objects(Protocol):
    """What of an `Api` is used; the real one raises `ClusterError`."""

    async def get(self, path: str, *, what: str, most: int | None = None) -> object:
        """What stands at a path."""

    async def create(self, path: str, body: object, *, what: str) -> object:
        """Make an object in the collection at a path."""

    async def replace(self, path: str, body: object, *, what: str) -> object:
        """Put an object in place of one of the same `resourceVersion`."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What the ConfigMap says: its metadata, None if there is none, and what of the rest can be read."""

    metadata: Mapping[str, Any] | None = None
    memory: RememberedShapes = field(default_factory=RememberedShapes)
    mistakes: tuple[Mistake, ...] = ()


def differs(ours: RememberedShapes, theirs: RememberedShapes, *, now: float) -> bool:
    """Whether what others read has to be written anew; `now` is in seconds since 1970."""
    mine, stored = ({shape.shape.name: shape for shape in memory.shapes} for memory in (ours, theirs))
    return (
        mine.keys() != stored.keys()
        or any(_outdated(stored[name], by=shape, now=now) for name, shape in mine.items())
        or ours.losses.keys() != theirs.losses.keys()
        or any(abs(since - theirs.losses[name]) > _WRITTEN_SECONDS for name, since in ours.losses.items())
    )


def _outdated(stored: KnownShape, *, by: KnownShape, now: float) -> bool:
    last, before = by.seen or 0.0, stored.seen or 0.0
    most = REFRESH_SECONDS if now - last <= _WRITTEN_SECONDS else EXACT_SECONDS
    return stored.shape != by.shape or last - before > most


class ShapeWriter:
    """Keeps the `book` and the ConfigMap alike; the ConfigMap is written only while `leading` says yes.

    `read` is whether the ConfigMap was ever read; that there is none is an answer too. Nothing is written
    before `sees` says that the nodes are known: what is remembered of those that are ill would be lost.
    `wall` is in seconds since 1970.
    """

    def __init__(  # noqa: PLR0913  what is kept where, and what every part of a process is given
        self,
        api: Objects,
        *,
        namespace: str,
        book: ShapeHistory,
        leading: Callable[[], bool],
        sees: Callable[[], bool],
        log: Log,
        registry: CollectorRegistry,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.read = False
        self._api, self._book, self._leading, self._sees, self._log = api, book, leading, sees, log
        self._wall, self._clock, self._sleep = wall, clock, sleep
        self._collection = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps"
        self._path = f"{self._collection}/{shapes.NAME}"
        self._what = f"configmap {namespace}/{shapes.NAME}"
        self._began = self._soonest = self._next = clock()
        self._led = False
        self._version = book.version
        self._answered = asyncio.Event()
        self._refused: tuple[Mistake, ...] = ()
        self._forbidden = False
        self._writes = Counter(
            f"{PREFIX}shape_writes",
            "Writes of the ConfigMap numalign-shapes and failed reads before them, by result.",
            ["result"],
            registry=registry,
        )
        for result in ("written", "conflict", "forbidden", "failed"):
            self._writes.labels(result)
        self._bytes = Gauge(
            f"{PREFIX}shape_bytes",
            "Size of the ConfigMap numalign-shapes as last written, in bytes.",
            registry=registry,
        )

    async def answered(self) -> None:
        """Wait until the ConfigMap was read or denied, or until there is no use in waiting longer."""
        await self._answered.wait()

    async def run(self) -> None:
        """Keep both alike; never returns, and no failure of the cluster ends it."""
        while True:
            if self._is_due():
                await self._reconcile()
            if self.read or self._clock() - self._began >= PATIENCE_SECONDS:
                self._answered.set()
            await self._sleep(TURN_SECONDS)

    def _is_due(self) -> bool:
        now, leading = self._clock(), self._leading()
        news = leading and (not self._led or self._book.version != self._version)
        return now >= self._soonest and (news or now >= self._next)

    async def _reconcile(self) -> None:
        """Read, and write if that is due; settle when to look again."""
        self._led = self._leading()
        waits: tuple[float, float] | None = None
        try:
            wrote = await self._exchange()
        except Conflict as error:
            self._writes.labels("conflict").inc()
            self._log.info("shapes.conflict", error=str(error))
            waits = SOON_SECONDS, SOON_SECONDS
        except (ClusterError, TimeoutError) as error:
            self._failed(error)
        except Exception as error:  # noqa: BLE001  no object in a cluster may end the program again and again
            self._log.failed("shapes.internal_error", error)
        else:
            self._forbidden = False
            waits = LOOK_SECONDS if wrote else SOON_SECONDS, LOOK_SECONDS
        # After a failure, more slowly once there is something to go on with.
        pause = LOOK_SECONDS if self.read else SOON_SECONDS
        soonest, latest = waits or (pause, pause)
        now = self._clock()
        self._soonest, self._next = now + soonest, now + latest

    async def _exchange(self) -> bool:
        """Take in what others wrote, and write what they do not know; whether anything was written."""
        stored = await self._stored()
        self._book.load(stored.memory)
        self.read = True
        self._version = self._book.version
        if stored.mistakes and stored.mistakes != self._refused:
            mistakes = [str(mistake) for mistake in stored.mistakes[:MOST_MISTAKES]]
            self._log.warning("shapes.unreadable", configmap=self._what, errors=mistakes)
        self._refused = stored.mistakes
        return await self._write(stored) if self._leading() and self._sees() else False

    async def _stored(self) -> Stored:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                configmap = Part(await self._api.get(self._path, what=self._what, most=MOST_BYTES))
        except NotFound:
            return Stored()
        metadata = configmap["metadata"].value
        memory, mistakes = await asyncio.to_thread(shapes.decode, configmap.value)
        return Stored(metadata if isinstance(metadata, dict) else {}, memory, mistakes)

    async def _write(self, stored: Stored) -> bool:
        now, memory = self._wall(), self._book.to_remember()
        data, ours = await asyncio.to_thread(_encoded, memory)
        differ = stored.mistakes or differs(ours, stored.memory, now=now)
        # Much can happen while something is worked out.
        if not differ or not self._leading():
            return False
        async with asyncio.timeout(ANSWER_SECONDS):
            await self._put(stored.metadata, data)
        size = sum(len(key.encode()) + len(text.encode()) for key, text in data.items())
        self._bytes.set(size)
        self._writes.labels("written").inc()
        left_out = len(memory.shapes) - len(ours.shapes)
        self._log.info(
            "shapes.written",
            shapes=len(ours.shapes),
            degraded=len(ours.losses),
            bytes=size,
            left_out=left_out,
        )
        return True

    async def _put(self, metadata: Mapping[str, Any] | None, data: Mapping[str, str]) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "data": data}
        if metadata is None:
            await self._api.create(self._collection, {**body, "metadata": _NEW}, what=self._what)
            return
        await self._api.replace(self._path, {**body, "metadata": metadata}, what=self._what)

    def _failed(self, error: Exception) -> None:
        forbidden = isinstance(error, Forbidden)
        reason = str(error) or f"the API server did not answer within {ANSWER_SECONDS} s"
        if isinstance(error, Forbidden | Unauthorized):
            # Waiting does not help.
            self._answered.set()
        self._writes.labels("forbidden" if forbidden else "failed").inc()
        if not forbidden:
            self._log.warning("shapes.failed", error=reason)
        elif not self._forbidden:
            self._log.error("shapes.forbidden", error=reason)
        self._forbidden |= forbidden


def _encoded(memory: RememberedShapes) -> tuple[Mapping[str, str], RememberedShapes]:
    """What is written, and what whoever reads that will know."""
    data = shapes.encode(memory)
    return data, shapes.decode({"data": data})[0]


_NEW = {"name": shapes.NAME, "labels": {"app.kubernetes.io/name": "numalign"}}
