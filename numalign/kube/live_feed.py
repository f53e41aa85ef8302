"""
Following the API server.

Each kind of objects is watched by its own informer, and all of them fill one cluster state. Changes come in
bursts (an exporter writes every node each minute), so they are gathered for a moment before they are
published, a few nodes at a time with other tasks in between: several writes to one node within that moment
are one change, and no change is later than that moment and the work before it.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from prometheus_client import CollectorRegistry

from numalign.kube import installed_versions, kinds
from numalign.kube.client import Api
from numalign.kube.cluster import Cluster, Settled
from numalign.kube.cluster_state import ClusterState
from numalign.kube.decode import device_classes, numatopologies, server_version, shapes
from numalign.kube.decode.nrt import KIND
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.errors import ClusterError
from numalign.kube.informer import Informer, Sink, WatchFailure, WatchMetrics
from numalign.kube.kinds import Collection, Key, Object
from numalign.kube.pod_counts import PodCounts
from numalign.kube.stores import Store
from numalign.lru import Caches
from numalign.runtime.clock import Sleep
from numalign.runtime.cooperative import patiently
from numalign.runtime.logs import Log
from numalign.shapes import Declared, ShapeHistory

GATHERING_SECONDS, LONGEST_GATHERING_SECONDS = 0.1, 1.0
"""How long changes are gathered before they count: longer if it takes longer to process them."""

VERSION_SECONDS = 60.0
"""The time between two questions for the version of the API server, which may be upgraded."""

PATIENCE_SECONDS = 10.0
"""How long to wait for an answer about an optional kind, after the answers about all others."""

SHARE = 4
"""The pause as a multiple of the work: at most a fifth of the time goes into it."""


class See(Protocol):
    """Called with a v1 Pod, and whether it was counted before, because it had not ended."""

    def __call__(self, pod: Object, /, *, counted: bool) -> object:
        """Handle a pod that was added or changed."""


_NOTHING = frozenset[WatchFailure]()
_ABSENCE = frozenset({WatchFailure.NOT_SERVED})
"""Expected for a kind that many clusters do not have."""


@dataclass(frozen=True, slots=True)
class _StoreSink:
    """Puts the objects of one kind into the cluster state."""

    store: Store[Any]

    def put(self, raw: Object) -> None:
        self.store.put(raw["metadata"]["name"], raw)

    def drop(self, key: Key) -> None:
        self.store.drop(key[1])

    def keep(self, keys: AbstractSet[Key]) -> None:
        self.store.keep({name for _, name in keys})


@dataclass(frozen=True, slots=True)
class _CountSink:
    """Counts pods, and passes each to a listener, with whether it was counted before."""

    pod_counts: PodCounts
    see: See | None

    def put(self, raw: Object) -> None:
        metadata = raw["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        counted = key in self.pod_counts
        self.pod_counts.put(key, raw)
        if self.see:
            self.see(raw, counted=counted)

    def drop(self, key: Key) -> None:
        self.pod_counts.drop(key)

    def keep(self, keys: AbstractSet[Key]) -> None:
        self.pod_counts.keep(keys)


class LiveFeed:
    """The API server behind a `cluster`, which is changed in place.

    If pods are watched, they go to `pods`, and then results depend on them; without `pods` they are counted,
    as `reader` reads them, and each new or changed pod is passed to `see`. All of the `watched` kinds must be
    listed first, for `optional` ones any answer is enough. The `shape_history` knows what was there before,
    and what is `declared`. `state` is the known cluster: other sources (the kubelets'
    configurations) may add to it.
    """

    def __init__(  # noqa: PLR0913  a server, what to watch, and what every part of a process is given
        self,
        api: Api,
        cluster: Cluster,
        *,
        watched: Sequence[Sequence[Collection]],
        optional: Sequence[Sequence[Collection]] = (),
        log: Log,
        registry: CollectorRegistry,
        pods: Sink | None = None,
        reader: PodReader | None = None,
        see: See | None = None,
        shape_history: ShapeHistory | None = None,
        declared: Callable[[], Declared] = Declared,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.state = ClusterState(complete=True, shape_history=shape_history, reader=reader, cluster=cluster)
        self._api = api
        self._declared = declared
        self._pods = pods
        self._see = see
        self._log = log
        self._clock = clock
        self._sleep = sleep
        metrics = WatchMetrics.of(registry)
        informers = {
            versions[0].kind: Informer(
                api,
                versions,
                self._sink(versions[0]),
                log=log,
                metrics=metrics,
                expected=expected,
                clock=clock,
                sleep=sleep,
            )
            for several, expected in ((watched, _NOTHING), (optional, _ABSENCE))
            for versions in several
        }
        # Results do not depend on counted pods.
        self._counted = (
            [informers.pop(kinds.PODS.kind)] if pods is None and kinds.PODS.kind in informers else []
        )
        self._optional = [informers.pop(versions[0].kind) for versions in optional]
        self._needed = [*informers.values()]
        self._published: int | None = None

    def waiting_for(self) -> str | None:
        """Return the kinds without a first list, or answer if optional; counted pods are ignored."""
        lacking = [informer for informer in self._needed if not informer.synced]
        if not lacking:
            since = max((informer.synced_at or 0.0 for informer in self._needed), default=0.0)
            lacking = [informer for informer in self._optional if self._may_answer(informer, since)]
        reasons = sorted(
            f"{informer.kind}: {informer.trouble or 'no first list yet'}" for informer in lacking
        )
        return "; ".join(reasons) or None

    def _may_answer(self, optional: Informer, since: float) -> bool:
        """Return whether the API server, present since then, may still answer about an optional kind."""
        silent = not optional.synced and optional.failed_at < since
        return silent and self._clock() - since < PATIENCE_SECONDS

    def age(self) -> float:
        """Return seconds since the last answer about the kind that has been silent for longest.

        As for readiness, counted pods are ignored.
        """
        return max(informer.age() for informer in self._needed)

    def pod_counts(self) -> PodCounts:
        """Return the pods that are counted."""
        return self.state.pod_counts

    def caches(self) -> Caches:
        """Return the caches of objects, which may include deleted ones."""
        return self.state.caches()

    async def follow(self) -> None:
        """Watch, and apply what has changed; never returns."""
        async with asyncio.TaskGroup() as group:
            for informer in (*self._needed, *self._optional):
                group.create_task(informer.run())
            for informer in self._counted:
                group.create_task(self._count(informer))
            group.create_task(self._follow_version())
            await self._publish()

    async def _follow_version(self) -> None:
        """Read the version of the API server now and again; the last one counts while it does not answer."""
        while True:
            with suppress(ClusterError):
                answer = await installed_versions.server(self._api)
                self.state.server_version.put(server_version.NAME, answer)
            await self._sleep(VERSION_SECONDS)

    async def _count(self, pods: Informer) -> None:
        """Read the many pods once requests can be answered."""
        while self.waiting_for() is not None:
            await self._sleep(GATHERING_SECONDS)
        await pods.run()

    async def _publish(self) -> None:
        while True:
            self.state.shape_history.declare(self._declared())
            self.state.shape_history.expire()
            began = self._clock()
            pause = GATHERING_SECONDS
            if self.state.version != self._published and self.waiting_for() is None:
                try:
                    await patiently(self.state.publish())
                    self._published = self.state.version
                    self.state.cluster.apply(Settled())
                    pause = max(pause, SHARE * (self._clock() - began))
                except Exception as error:  # noqa: BLE001  no object in a cluster may end the program
                    self._log.failed("snapshot.failed", error)
                    pause = LONGEST_GATHERING_SECONDS
            await self._sleep(min(pause, LONGEST_GATHERING_SECONDS))

    def _sink(self, collection: Collection) -> Sink:
        state = self.state
        stores: Mapping[str, Store[Any]] = {
            kinds.NODES.kind: state.nodes,
            kinds.NAMESPACES.kind: state.namespaces,
            KIND: state.topologies,
            numatopologies.KIND: state.numatopologies,
            shapes.KIND: state.remembered_shapes,
            device_classes.KIND: state.device_classes,
        }
        if store := stores.get(collection.kind):
            return _StoreSink(store)
        return _CountSink(state.pod_counts, self._see) if self._pods is None else self._pods


OF_SOME: Sequence[Sequence[Collection]] = (device_classes.COLLECTIONS, numatopologies.COLLECTIONS)
"""The kinds that only some clusters have."""

STATIC: Sequence[Sequence[Collection]] = (
    (kinds.NODES,),
    kinds.TOPOLOGIES,
    (kinds.NAMESPACES,),
)
"""The kinds on which results depend."""

WITH_PODS: Sequence[Sequence[Collection]] = (*STATIC, (kinds.PODS,))
