"""
What the webhook knows of the cluster at the moment.

A review never waits for a file or an API server: it is answered from the last snapshot there was. The next
moment is made beside the present one and then takes its place whole, with every answer that still holds.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import CollectorRegistry, Gauge

from numalign.cache import Fleet
from numalign.kube.cluster_state import Problem, Snapshot
from numalign.kube.feed import Feed, count_age
from numalign.lru import Caches
from numalign.model.intent import NamespaceRules
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX

_PROBLEMS_LOGGED = 20


@dataclass(frozen=True, slots=True)
class Moment:
    """The cluster as one snapshot shows it; `served` are the extended resources that DRA serves."""

    fleet: Fleet
    namespaces: Mapping[str, NamespaceRules] = field(default_factory=dict)
    namespace_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    served: frozenset[str] = frozenset()

    @classmethod
    def of(cls, found: Snapshot, *, before: "Moment | None" = None) -> "Moment":
        """The moment of a snapshot, with the answers of the one before that still hold."""
        make = before.fleet.following if before else Fleet
        fleet = make(found.nodes, found.shapes, found.bare)
        return cls(fleet, found.namespaces, found.namespace_labels, found.served)


class SnapshotHolder:
    """The moment of the last snapshot that a feed gave; `now` is replaced whole, never changed.

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
        self.now: Moment | None = None
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
        return None if self.now else self.feed.waiting_for() or "the first snapshot to be put together"

    def caches(self) -> Caches:
        """What is remembered of the nodes."""
        return self.now.fleet.caches() if self.now else {}

    async def follow(self) -> None:
        """Keep up with the feed; never returns."""
        await self.feed.follow(self.take)

    async def take(self, found: Snapshot) -> None:
        """Make a snapshot the present, without holding up reviews meanwhile."""
        before = self.now
        self.now = await asyncio.to_thread(Moment.of, found, before=before)
        if before is None:
            self._settled()
        self._count(found)
        self._tell(found)

    def _count(self, found: Snapshot) -> None:
        self._nodes.labels("known").set(len(found.nodes))
        self._nodes.labels("unknown").set(len(found.unknown))
        self._classes.set(len(self.now.fleet.classes) if self.now else 0)
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
