"""
Where a program learns what the cluster is, and how old that is.

There are two ways to know a cluster, and no program should care which: a snapshot file that somebody replaces
now and then, and the API server. Both give whole snapshots, one after another, and know how old they are.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from prometheus_client import CollectorRegistry, Gauge

from numalign.kube.cluster_state import Snapshot
from numalign.kube.pod_counts import PodCount
from numalign.lru import Caches
from numalign.runtime.metrics import PREFIX

Take = Callable[[Snapshot], Awaitable[None]]
"""Whoever uses the snapshots; the next one comes only when this returns."""


class Feed(Protocol):
    """A source of snapshots."""

    def waiting_for(self) -> str | None:
        """Return what has to happen before there is a first snapshot; None once there is one."""

    def age(self) -> float:
        """Seconds since the source last confirmed what is known; infinite before there is anything."""

    def pod_counts(self) -> Iterable[PodCount]:
        """Return the pods of the cluster, as far as the source tells."""

    def caches(self) -> Caches:
        """Return what is remembered of objects that may be there no more."""

    async def follow(self, take: Take) -> None:
        """Give a snapshot to `take` whenever there is a new one; never returns.

        What `take` raises is logged, and ends nothing: the next snapshot may be one that can be taken.
        """


def count_age(feed: Feed, registry: CollectorRegistry) -> None:
    """Register the gauge of the age of the snapshot that is answered from, in seconds."""
    Gauge(
        f"{PREFIX}snapshot_age_seconds",
        "Seconds since the snapshot file or the API server last confirmed the state.",
        registry=registry,
    ).set_function(feed.age)
