"""
What the webhook knows of the cluster.

A review never waits for a file or an API server: it is answered from what is known. Each change is applied at
once and as a whole, between reviews and the steps of longer ones. What came in one burst is applied in
slices: between them a node may lack what another has got already, so what is final waits for the rest.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Gauge

from numalign.cache import ClusterCache
from numalign.kube.admission_caches import apply
from numalign.kube.cluster import Change, Cluster, NodeChanged, ProblemsChanged, Settled
from numalign.kube.exporter_metrics import ExporterMetrics
from numalign.kube.feed import Feed, count_age
from numalign.ledger.claims import may_pin_cpus
from numalign.lru import Caches
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX

_MOST_PROBLEMS_LOGGED = 20  # Of new problems, together.


class KnownCluster:
    """The `cluster` of a feed, and the `cache` of its nodes. Both are changed in place.

    `unpinned` are the names of its nodes whose kubelets pin no CPUs.
    `settled` is called once, when the whole cluster is known: most long-lived objects exist then.
    """

    def __init__(
        self,
        cluster: Cluster,
        feed: Feed,
        *,
        log: Log,
        registry: CollectorRegistry,
        settled: Callable[[], object] = lambda: None,
    ) -> None:
        self.cluster, self.feed = cluster, feed
        self.unpinned, self.cache = set[str](), ClusterCache()
        self._settled, self._log = settled, log
        self._counts: dict[str, int] = {}
        self._problems_logged = 0
        self._next_settled = asyncio.Event()
        gauge = partial(Gauge, registry=registry)
        nodes = gauge(f"{PREFIX}nodes", "Nodes, by whether their topology is known.", ["topology"])
        nodes.labels("known").set_function(lambda: len(self.cache.nodes))
        nodes.labels("unknown").set_function(lambda: self.cache.unknown)
        gauge(f"{PREFIX}classes", "Known node classes.").set_function(lambda: len(self.cache.classes))
        gauge(
            f"{PREFIX}snapshot_problems", "Objects that are invalid and ignored, at least in part."
        ).set_function(lambda: len(cluster.problems))
        count_age(feed, registry)
        registry.register(ExporterMetrics(cluster, time.time))
        cluster.listen(self._take)

    def waiting_for(self) -> str | None:
        """Return what readiness is waiting for: the whole cluster."""
        return self.cluster.waiting_for() and (self.feed.waiting_for() or self.cluster.waiting_for())

    async def all_applied(self) -> None:
        """Wait until all changes of a burst are applied."""
        while not self.cluster.settled:
            await self._next_settled.wait()

    def caches(self) -> Caches:
        """Return the caches of the nodes and of the feed."""
        return {**self.cache.caches(), **self.feed.caches()}

    def _take(self, change: Change) -> None:
        apply(self.cache, change)
        match change:
            case NodeChanged(name, _, now):
                unpinned = now.node is not None and not may_pin_cpus(now.node)
                (self.unpinned.add if unpinned else self.unpinned.discard)(name)
            case ProblemsChanged(_, before, now):
                for problem in now:
                    if problem not in before and self._problems_logged < _MOST_PROBLEMS_LOGGED:
                        self._problems_logged += 1
                        self._log.warning("snapshot.problem", error=problem)
            case Settled(ignored=ignored):
                self._next_settled.set()
                self._next_settled.clear()
                self._problems_logged = 0
                counts = {
                    "nodes": len(self.cache.nodes),
                    "unknown": self.cache.unknown,
                    "namespaces": len(self.cluster.namespaces),
                    "problems": len(self.cluster.problems),
                }
                last, self._counts = self._counts, counts
                # A live cluster changes all the time.
                line = self._log.debug if counts == last else self._log.info
                line("snapshot.loaded", **counts, ignored=dict(ignored))
                if not last:
                    self._settled()
