"""
What the webhook knows of the cluster.

A review never waits for a file or an API server: it is answered from the last snapshot. The next one is
loaded into the cache in slices, with reviews answered in between. Only a denial waits for the end of an
update: a mix of two snapshots may lack a node that both have.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial

from prometheus_client import CollectorRegistry, Gauge

from numalign.cache import ClusterCache
from numalign.kube.cluster_state import Snapshot
from numalign.kube.exporter_metrics import ExporterMetrics
from numalign.kube.feed import Feed, count_age
from numalign.kube.stores import Problem
from numalign.ledger.claims import may_pin_cpus
from numalign.lru import Caches
from numalign.runtime.cooperative import patiently
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX

_PROBLEMS_LOGGED = 20


class SnapshotHolder:
    """
    The last `snapshot` of a feed, and the `cache` of its nodes, which is updated in place.

    `unpinned` are the names of its nodes whose kubelets pin no CPUs.
    `settled` is called once, after the first snapshot: most long-lived objects exist then.
    """

    def __init__(
        self,
        feed: Feed,
        *,
        log: Log,
        registry: CollectorRegistry,
        settled: Callable[[], object] = lambda: None,
    ) -> None:
        self.snapshot: Snapshot | None = None
        self.unpinned: frozenset[str] = frozenset()
        self.cache = ClusterCache()
        self.lock = asyncio.Lock()
        """While it is held, the cache is that of one snapshot."""
        self.updating = False
        self._settled = settled
        self.feed = feed
        self._log = log
        self._counts: dict[str, int] = {}
        self._problems: frozenset[Problem] = frozenset()
        gauge = partial(Gauge, registry=registry)
        self._nodes = gauge(f"{PREFIX}nodes", "Nodes, by whether their topology is known.", ["topology"])
        self._classes = gauge(f"{PREFIX}classes", "Known node classes.")
        self._broken = gauge(
            f"{PREFIX}snapshot_problems", "Objects that are invalid and ignored, at least in part."
        )
        count_age(feed, registry)
        registry.register(ExporterMetrics(lambda: self.snapshot, time.time))

    def waiting_for(self) -> str | None:
        """Return what readiness is waiting for: a first snapshot."""
        return (
            None if self.snapshot else self.feed.waiting_for() or ("the first complete state of the cluster")
        )

    def caches(self) -> Caches:
        """Return the caches of the nodes and of the feed."""
        return {**self.cache.caches(), **self.feed.caches()}

    @property
    def served(self) -> frozenset[str]:
        """Return the extended resources that DRA serves, of the nodes in the cache."""
        return self.snapshot.served if self.snapshot else frozenset()

    async def follow(self) -> None:
        """Follow the feed; never returns."""
        await self.feed.follow(self.take)

    async def take(self, snapshot: Snapshot) -> None:
        """Answer from a snapshot from now on, without delaying reviews meanwhile."""
        async with self.lock:
            self.updating = True
            try:
                await patiently(
                    self.cache.update(
                        snapshot.nodes, snapshot.shapes, snapshot.bare, snapshot.left_out, snapshot.pools
                    )
                )
            finally:
                self.updating = False
            if self.snapshot is None:
                self._settled()
            self.snapshot = snapshot
            self.unpinned = frozenset(node.name for node in snapshot.nodes if not may_pin_cpus(node))
        self._count(snapshot)
        self._log_changes(snapshot)

    def _count(self, snapshot: Snapshot) -> None:
        self._nodes.labels("known").set(len(snapshot.nodes))
        self._nodes.labels("unknown").set(len(snapshot.unknown))
        self._classes.set(len(self.cache.classes))
        self._broken.set(len(snapshot.problems))

    def _log_changes(self, snapshot: Snapshot) -> None:
        """Log what is new; a repeated summary at level debug, because a live cluster changes all the time."""
        for problem in self._new_problems(snapshot):
            self._log.warning("snapshot.problem", error=problem)
        counts = {
            "nodes": len(snapshot.nodes),
            "unknown": len(snapshot.unknown),
            "namespaces": len(snapshot.namespaces),
            "problems": len(snapshot.problems),
        }
        line = self._log.debug if counts == self._counts else self._log.info
        line("snapshot.loaded", **counts, ignored=dict(snapshot.ignored))
        self._counts = counts

    def _new_problems(self, snapshot: Snapshot) -> Iterator[Problem]:
        new = [problem for problem in snapshot.problems if problem not in self._problems]
        self._problems = frozenset(snapshot.problems)
        yield from new[:_PROBLEMS_LOGGED]
