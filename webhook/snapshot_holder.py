"""
What the webhook knows of the cluster at the moment.

A review never waits for a file or an API server: it is answered from the last snapshot there was. The next
one is put into the cache in slices, with reviews answered in between.
"""

from collections.abc import Callable, Iterator
from functools import partial

from prometheus_client import CollectorRegistry, Gauge

from numalign.cache import ClusterCache
from numalign.kube.cluster_state import Problem, Snapshot
from numalign.kube.feed import Feed, count_age
from numalign.lru import Caches
from numalign.runtime.cooperative import patiently
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX

_PROBLEMS_LOGGED = 20


class SnapshotHolder:
    """The last `snapshot` that a feed gave, and the `cache` of its nodes, which are put in place.

    `settled` is called once, when there is a first one: most of what will ever be in memory is there then.
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
        self.cache = ClusterCache()
        self._settled = settled
        self.feed = feed
        self._log = log
        self._told: dict[str, int] = {}
        self._problems: frozenset[Problem] = frozenset()
        gauge = partial(Gauge, registry=registry)
        self._nodes = gauge(f"{PREFIX}nodes", "Nodes by whether their topology is known.", ["topology"])
        self._classes = gauge(f"{PREFIX}classes", "Node classes known.")
        self._broken = gauge(f"{PREFIX}snapshot_problems", "Objects that could not be used.")
        count_age(feed, registry)

    def waiting_for(self) -> str | None:
        """What readiness lacks: a first snapshot."""
        return None if self.snapshot else self.feed.waiting_for() or "the first snapshot to be put together"

    def caches(self) -> Caches:
        """What is remembered of the nodes."""
        return self.cache.caches()

    async def follow(self) -> None:
        """Keep up with the feed; never returns."""
        await self.feed.follow(self.take)

    async def take(self, found: Snapshot) -> None:
        """Answer from a snapshot from now on, without holding up reviews meanwhile."""
        await patiently(self.cache.update(found.nodes, found.shapes, found.bare))
        first, self.snapshot = self.snapshot is None, found
        if first:
            self._settled()
        self._count(found)
        self._tell(found)

    def _count(self, found: Snapshot) -> None:
        self._nodes.labels("known").set(len(found.nodes))
        self._nodes.labels("unknown").set(len(found.unknown))
        self._classes.set(len(self.cache.classes))
        self._broken.set(len(found.problems))

    def _tell(self, found: Snapshot) -> None:
        """A line for what is new: a cluster that is followed changes all the time."""
        for problem in self._new_problems(found):
            self._log.warning("snapshot.problem", problem=problem)
        told = {
            "nodes": len(found.nodes),
            "unknown": len(found.unknown),
            "namespaces": len(found.namespaces),
            "problems": len(found.problems),
        }
        say = self._log.debug if told == self._told else self._log.info
        say("snapshot.loaded", **told, ignored=dict(found.ignored))
        self._told = told

    def _new_problems(self, found: Snapshot) -> Iterator[Problem]:
        new = [problem for problem in found.problems if problem not in self._problems]
        self._problems = frozenset(found.problems)
        yield from new[:_PROBLEMS_LOGGED]
