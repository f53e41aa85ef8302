"""
Following a snapshot file that is replaced now and then.

The last readable file counts. One that cannot be read, or that would remove all nodes, changes nothing but a
metric and a log line.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter

from numalign.kube.cluster import Change, Cluster, differences
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.files import documents, snapshot
from numalign.kube.informer import Sink
from numalign.kube.kinds import Key, Object
from numalign.kube.pod_counts import PodCounts
from numalign.lru import Caches
from numalign.model.errors import BadInput, Mistake
from numalign.runtime import files
from numalign.runtime.clock import Sleep
from numalign.runtime.cooperative import patiently
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX
from numalign.shapes import Declared, ShapeHistory

CROWD = 200
"""The number of pods passed on at once, before other requests are served."""


class FileFeed:
    """The file behind a `cluster`, checked every so many seconds; 0 reads it once.

    Each time it is compared with the cluster once, and the differences are applied. The `shape_history` knows
    what earlier files contained, and what is `declared`. The pods in the file go to `pods`, after its nodes
    are known; without `pods` they are counted.
    """

    def __init__(  # noqa: PLR0913  a file, how often, and what every part of a process is given
        self,
        path: Path,
        cluster: Cluster,
        *,
        every: float,
        log: Log,
        registry: CollectorRegistry,
        pods: Sink | None = None,
        shape_history: ShapeHistory | None = None,
        declared: Callable[[], Declared] = Declared,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._path = path
        self._cluster = cluster
        self._every = every
        self._log = log
        self._pods = pods
        self._shape_history = shape_history or ShapeHistory(wall=time.time)
        self._declared = declared
        self._clock = clock
        self._sleep = sleep
        self._read_at: float | None = None
        self._taken: tuple[object, ...] | None = None
        self._pod_counts = PodCounts(PodReader())
        self._failures = Counter(
            f"{PREFIX}snapshot_failures", "Failures to read the snapshot file.", registry=registry
        )

    def waiting_for(self) -> str | None:
        """Return what the first snapshot is waiting for: a valid file; None once one was read."""
        return f"a valid snapshot at {self._path}" if self._read_at is None else None

    def age(self) -> float:
        """Return seconds since the file was last read successfully."""
        return float("inf") if self._read_at is None else self._clock() - self._read_at

    def pod_counts(self) -> PodCounts:
        """Return the pods in the file, unless they are passed on."""
        return self._pod_counts

    def caches(self) -> Caches:
        """Return nothing: a file's caches are dropped after it was read."""
        return {}

    async def follow(self) -> None:
        """Read the file whenever it changes, without delaying other requests; never returns."""
        if self._taken is None:
            await self.load()
        if not self._every:
            await asyncio.Event().wait()
        while True:
            await self._sleep(self._every)
            if self._there() != self._taken:
                await self.load()

    def _there(self) -> tuple[object, ...]:
        """Return the state of the sources; taken before reading, so that no change is missed."""
        return *files.stamps([self._path]), self._declared()

    async def load(self) -> None:
        """Read the file now; if that fails, log it and keep the last state. `follow` begins with it."""
        self._taken = self._there()
        try:
            after, changes, pod_counts, pods = await asyncio.to_thread(self._read)
            self._cluster.observed_at = after.observed_at
            await patiently(self._apply(changes))
        except (BadInput, OSError) as error:
            self._failures.inc()
            self._log.error("snapshot.failed", path=self._path, error=error)
            return
        except Exception as error:  # noqa: BLE001  whatever a file holds, the last good snapshot serves on
            self._failures.inc()
            self._log.failed("snapshot.failed", error, path=self._path)
            return
        if self._pods is not None:
            keys: set[Key] = set()
            for number, pod in enumerate(pods, start=1):
                key = pod["metadata"]["namespace"], pod["metadata"]["name"]
                keys.add(key)
                try:
                    self._pods.put(pod)
                except Exception as error:  # noqa: BLE001  one pod must not stop all others
                    self._log.failed("snapshot.object_failed", error, object="/".join(key))
                if not number % CROWD:
                    await self._sleep(0)
            self._pods.keep(keys)
        self._pod_counts = pod_counts
        self._read_at = self._clock()

    def _apply(self, changes: Sequence[Change]) -> Iterator[None]:
        """Apply changes one by one; what is new comes first, so that nothing is missing in between."""
        for change in changes:
            try:
                self._cluster.apply(change)
            except Exception as error:  # noqa: BLE001  one change must not stop all others
                self._failures.inc()
                self._log.failed("snapshot.failed", error, path=self._path)
            yield

    def _read(self) -> tuple[Cluster, Sequence[Change], PodCounts, Sequence[Object]]:
        """Return the cluster of the file, what it changes, and its pods.

        Raise `BadInput` if it would remove all nodes.
        """
        if self._path.exists() and not self._path.is_file():
            raise BadInput([Mistake(str(self._path), "is not a regular file")])
        pods: list[Object] = []
        builder = snapshot.build(
            documents.stream(self._path),
            pods=None if self._pods is None else pods.append,
            shape_history=self._shape_history,
        )
        # Before the history is updated: a rejected file changes nothing.
        if reason := builder.why_no_snapshot():
            raise BadInput([Mistake(str(self._path), reason)])
        if self._cluster.has_topologies and not builder.state.has_nodes():
            raise BadInput([Mistake(str(self._path), "contains no valid topology, but did before")])
        self._shape_history.declare(self._declared())
        self._shape_history.expire()
        after = builder.cluster()
        return after, [*differences(self._cluster, after)], builder.state.pod_counts, pods
