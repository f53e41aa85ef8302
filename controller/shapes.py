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
from typing import Any
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Gauge

from numalign.kube.client import Api
from numalign.kube.decode import shapes
from numalign.kube.decode.parts import Part
from numalign.kube.errors import ClusterError, Conflict, Forbidden, NotFound, Unauthorized
from numalign.kube.writes import FailureLog, answer, counter
from numalign.model.errors import Mistake
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX
from numalign.shapes import ShapeHistory
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


def differs(ours: RememberedShapes, theirs: RememberedShapes, *, now: float) -> bool:
    """Return whether the stored shapes must be updated; `now` is in seconds since 1970."""
    mine, stored = ({shape.shape.name: shape for shape in memory.shapes} for memory in (ours, theirs))
    if mine.keys() != stored.keys() or ours.losses.keys() != theirs.losses.keys():
        return True
    for name, shape in mine.items():
        there = stored[name]
        if (there.shape, there.only_node) != (shape.shape, shape.only_node):
            return True
        if _seen_later(there.seen or 0.0, shape.seen or 0.0, now=now):
            return True
    if any(abs(since - theirs.losses[name]) > _WRITTEN_SECONDS for name, since in ours.losses.items()):
        return True
    before, last = theirs.left_out, ours.left_out
    if before is None or last is None:
        return before is not last
    return before.devices != last.devices or _seen_later(before.seen, last.seen, now=now)


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
        api: Api,
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
        self._nodes_known, self._errors = nodes_known, FailureLog(log)
        self._wall, self._clock, self._sleep = wall, clock, sleep
        self._collection = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps"
        self._path = f"{self._collection}/{shapes.NAME}"
        self._what = f"configmap {namespace}/{shapes.NAME}"
        self._began = self._soonest = self._next = clock()
        self._led = False
        self._version = book.version
        self._answered = asyncio.Event()
        self._refused: tuple[Mistake, ...] = ()
        self._writes = counter(
            f"{PREFIX}shape_writes",
            "Writes of the ConfigMap numalign-shapes and failed reads before them, by result.",
            ["result"],
            ("written", "conflict", "forbidden", "failed"),
            registry,
        )
        text = "Size of the ConfigMap numalign-shapes as last written, in bytes."
        self._bytes = Gauge(f"{PREFIX}shape_bytes", text, registry=registry)

    async def answered(self) -> None:
        """Wait until the ConfigMap was read or denied, or until waiting longer is of no use."""
        await self._answered.wait()

    async def run(self) -> None:
        """Keep both equal; never returns, and no failure of the cluster ends it."""
        while True:
            now, leading = self._clock(), self._leading()
            changed = leading and (not self._led or self._book.version != self._version)
            if now >= self._soonest and (changed or now >= self._next):
                await self._reconcile()
            if self.read or self._clock() - self._began >= PATIENCE_SECONDS:
                self._answered.set()
            await self._sleep(TURN_SECONDS)

    async def _reconcile(self) -> None:
        """Read, and write if necessary; determine when to do it again."""
        self._led = self._leading()
        failure, waits = "", None
        try:
            wrote = await self._exchange()
        except Conflict as error:
            failure = "conflict"
            self._log.info("shapes.conflict", error=str(error))
            waits = SOON_SECONDS, SOON_SECONDS
        except Forbidden as error:
            failure = self._errors.forbidden("shapes.forbidden", error)
            # Waiting does not help.
            self._answered.set()
        except ClusterError as error:
            failure = self._errors.failed("shapes.failed", error)
            if isinstance(error, Unauthorized):
                self._answered.set()
        except Exception as error:  # noqa: BLE001  no object in a cluster may end the program again and again
            self._log.failed("shapes.internal_error", error)
        else:
            self._errors.succeeded()
            waits = REREAD_SECONDS if wrote else SOON_SECONDS, REREAD_SECONDS
        if failure:
            self._writes.labels(failure).inc()
        # After a failure, wait longer once the ConfigMap has been read.
        pause = REREAD_SECONDS if self.read else SOON_SECONDS
        soonest, latest = waits or (pause, pause)
        now = self._clock()
        self._soonest, self._next = now + soonest, now + latest

    async def _exchange(self) -> bool:
        """Load what others wrote, and write what is missing there; return whether anything was written."""
        # What is stored: its metadata, None if there is no ConfigMap, and what can be read of it.
        metadata: Mapping[str, Any] | None = None
        theirs, mistakes = RememberedShapes(), tuple[Mistake, ...]()
        read = self._api.get(self._path, what=self._what, most=MOST_BYTES)
        try:
            configmap = Part(await answer(read, within=ANSWER_SECONDS))
        except NotFound:
            pass
        else:
            value = configmap["metadata"].value
            metadata = value if isinstance(value, dict) else {}
            theirs, mistakes = await asyncio.to_thread(shapes.decode, configmap.value)
        self._book.load(theirs)
        self.read = True
        self._version = self._book.version
        if mistakes and mistakes != self._refused:
            shown = [str(mistake) for mistake in mistakes[:MOST_MISTAKES]]
            self._log.warning("shapes.unreadable", configmap=self._what, errors=shown)
        self._refused = mistakes
        if not self._leading() or not self._nodes_known():
            return False
        now, memory = self._wall(), self._book.to_remember()
        data = await asyncio.to_thread(shapes.encode, memory)
        # What a reader will know from it.
        ours, _ = await asyncio.to_thread(shapes.decode, {"data": data})
        # The leader may have changed during the computation.
        if not (mistakes or differs(ours, theirs, now=now)) or not self._leading():
            return False
        body = {"apiVersion": "v1", "kind": "ConfigMap", "data": data}
        if metadata is None:
            new = {"name": shapes.NAME, "labels": {"app.kubernetes.io/name": "numalign"}}
            write = self._api.create(self._collection, {**body, "metadata": new}, what=self._what)
        else:
            write = self._api.replace(self._path, {**body, "metadata": metadata}, what=self._what)
        await answer(write, within=ANSWER_SECONDS)
        size = sum(len(key.encode()) + len(text.encode()) for key, text in data.items())
        self._bytes.set(size)
        self._writes.labels("written").inc()
        left_out = len(memory.shapes) - len(ours.shapes)
        counts = {"shapes": len(ours.shapes), "degraded": len(ours.losses)}
        self._log.info("shapes.written", **counts, bytes=size, left_out=left_out)
        return True
