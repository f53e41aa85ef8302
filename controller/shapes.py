"""
Keep the shapes of this cluster's nodes where every replica can read them.

No object of the cluster shows what a device plugin removes when it stops, or what a node group was before it
was scaled to zero. So the shapes are kept in a ConfigMap, together with the time since when nodes are
degraded. One replica at a time writes it: it reads first, adds to what others wrote, and writes only changes.
The others read it too, because each of them may lead next.
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
from numalign.shapes import KnownShape, LeftOut, ShapeHistory
from numalign.shapes.history import RememberedShapes

TURN_SECONDS = 1.0

REREAD_SECONDS = 60.0
"""Interval in seconds between reads of the ConfigMap without changes, and the shortest between two writes."""

SOON_SECONDS = 2.0
"""The shortest interval in seconds between two reads, and the interval until one has succeeded."""

PATIENCE_SECONDS = 30.0
"""Seconds that class labels wait for the first read of the ConfigMap."""

ANSWER_SECONDS = 5
"""Timeout of API requests in seconds: shorter than the time after which another replica leads."""

REFRESH_SECONDS = 4 * 3600.0
"""Most seconds by which the stored last-seen time of a present shape may be outdated."""

EXACT_SECONDS = 60.0
"""The same for a shape that is no longer present."""

MOST_BYTES = 2**21
"""More than an API server stores for one object."""

MOST_MISTAKES = 10
"""Most mistakes in one line of the log."""

_WRITTEN_SECONDS = 2.0
"""Most seconds by which a time may change when it is written."""


class Objects(Protocol):
    """The methods of `Api` that are used; the real one raises `ClusterError`."""

    async def get(self, path: str, *, what: str, most: int | None = None) -> object:
        """Return the object at `path`."""

    async def create(self, path: str, body: object, *, what: str) -> object:
        """Create an object in the collection at `path`."""

    async def replace(self, path: str, body: object, *, what: str) -> object:
        """Replace an object that has the same `resourceVersion`."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of the ConfigMap: its metadata, None if there is none, and what else can be read."""

    metadata: Mapping[str, Any] | None = None
    memory: RememberedShapes = field(default_factory=RememberedShapes)
    mistakes: tuple[Mistake, ...] = ()


def differs(ours: RememberedShapes, theirs: RememberedShapes, *, now: float) -> bool:
    """Return whether the stored shapes must be updated; `now` is in seconds since 1970."""
    mine, stored = ({shape.shape.name: shape for shape in memory.shapes} for memory in (ours, theirs))
    return (
        mine.keys() != stored.keys()
        or any(_outdated(stored[name], by=shape, now=now) for name, shape in mine.items())
        or ours.losses.keys() != theirs.losses.keys()
        or any(abs(since - theirs.losses[name]) > _WRITTEN_SECONDS for name, since in ours.losses.items())
        or _other_left_out(theirs.left_out, by=ours.left_out, now=now)
    )


def _outdated(stored: KnownShape, *, by: KnownShape, now: float) -> bool:
    return (stored.shape, stored.only_node) != (by.shape, by.only_node) or _seen_later(
        stored.seen or 0.0, by.seen or 0.0, now=now
    )


def _other_left_out(stored: LeftOut | None, *, by: LeftOut | None, now: float) -> bool:
    if stored is None or by is None:
        return stored is not by
    return stored.devices != by.devices or _seen_later(stored.seen, by.seen, now=now)


def _seen_later(before: float, last: float, *, now: float) -> bool:
    most = REFRESH_SECONDS if now - last <= _WRITTEN_SECONDS else EXACT_SECONDS
    return last - before > most


class ShapeWriter:
    """
    Keeps the `book` and the ConfigMap equal; writes the ConfigMap only while `leading` returns True.

    `read` is whether the ConfigMap was ever read, even if it did not exist. Nothing is written before
    `nodes_known` returns True: otherwise what is remembered of degraded nodes would be lost. `wall` is in
    seconds since 1970.
    """

    def __init__(  # noqa: PLR0913  its dependencies
        self,
        api: Objects,
        *,
        namespace: str,
        book: ShapeHistory,
        leading: Callable[[], bool],
        nodes_known: Callable[[], bool],
        log: Log,
        registry: CollectorRegistry,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.read = False
        self._api, self._book, self._leading, self._log = api, book, leading, log
        self._nodes_known = nodes_known
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
        """Wait until the ConfigMap was read or denied, or until waiting longer is of no use."""
        await self._answered.wait()

    async def run(self) -> None:
        """Keep both equal; never returns, and no failure of the cluster ends it."""
        while True:
            if self._is_due():
                await self._reconcile()
            if self.read or self._clock() - self._began >= PATIENCE_SECONDS:
                self._answered.set()
            await self._sleep(TURN_SECONDS)

    def _is_due(self) -> bool:
        now, leading = self._clock(), self._leading()
        changed = leading and (not self._led or self._book.version != self._version)
        return now >= self._soonest and (changed or now >= self._next)

    async def _reconcile(self) -> None:
        """Read, and write if necessary; determine when to do it again."""
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
            waits = REREAD_SECONDS if wrote else SOON_SECONDS, REREAD_SECONDS
        # After a failure, wait longer once the ConfigMap has been read.
        pause = REREAD_SECONDS if self.read else SOON_SECONDS
        soonest, latest = waits or (pause, pause)
        now = self._clock()
        self._soonest, self._next = now + soonest, now + latest

    async def _exchange(self) -> bool:
        """Load what others wrote, and write what is missing there; return whether anything was written."""
        stored = await self._stored()
        self._book.load(stored.memory)
        self.read = True
        self._version = self._book.version
        if stored.mistakes and stored.mistakes != self._refused:
            mistakes = [str(mistake) for mistake in stored.mistakes[:MOST_MISTAKES]]
            self._log.warning("shapes.unreadable", configmap=self._what, errors=mistakes)
        self._refused = stored.mistakes
        return await self._write(stored) if self._leading() and self._nodes_known() else False

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
        # The leader may have changed during the computation.
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
    """Return what is written, and what a reader will know from it."""
    data = shapes.encode(memory)
    return data, shapes.decode({"data": data})[0]


_NEW = {"name": shapes.NAME, "labels": {"app.kubernetes.io/name": "numalign"}}
