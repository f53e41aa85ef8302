"""
The source of a program's snapshots, and their age.

There are two sources, and no program should depend on which: a snapshot file that is replaced now and then,
and the API server. Both provide whole snapshots, one after another, and their age.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from prometheus_client import CollectorRegistry, Gauge

from numalign.kube.cluster_state import Snapshot
from numalign.kube.pod_counts import PodCounts
from numalign.lru import Caches
from numalign.runtime.metrics import PREFIX

Take = Callable[[Snapshot], Awaitable[None]]
"""The user of the snapshots; the next one comes only after it returns."""


class Feed(Protocol):
    """A source of snapshots."""

    def waiting_for(self) -> str | None:
        """Return what the first snapshot is waiting for; None once there is one."""

    def age(self) -> float:
        """Return seconds since the source last confirmed the state; infinite before the first."""

    def pod_counts(self) -> PodCounts:
        """Return the pods of the cluster, as far as the source has them."""

    def caches(self) -> Caches:
        """Return the caches of objects, which may include deleted ones."""

    async def follow(self, take: Take) -> None:
        """Pass every new snapshot to `take`; never returns.

        Errors of `take` are logged and end nothing: the next snapshot may be valid.
        """


def count_age(feed: Feed, registry: CollectorRegistry) -> None:
    """Register the gauge of the age of the current snapshot, in seconds."""
    Gauge(
        f"{PREFIX}snapshot_age_seconds",
        "Seconds since the snapshot file or the API server last confirmed the state.",
        registry=registry,
    ).set_function(feed.age)
