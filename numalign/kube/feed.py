"""
The source of a program's cluster, and its age.

There are two sources, and no program should depend on which: a snapshot file that is replaced now and then,
and the API server. Both apply changes to one `Cluster`.
"""

from typing import Protocol

from prometheus_client import CollectorRegistry, Gauge

from numalign.kube.pod_counts import PodCounts
from numalign.lru import Caches
from numalign.runtime.metrics import PREFIX


class Feed(Protocol):
    """A source of changes."""

    def waiting_for(self) -> str | None:
        """Return what the first complete state is waiting for; None once there is one."""

    def age(self) -> float:
        """Return seconds since the source last confirmed the state; infinite before the first."""

    def pod_counts(self) -> PodCounts:
        """Return the pods of the cluster, as far as the source has them."""

    def caches(self) -> Caches:
        """Return the caches of objects, which may include deleted ones."""

    async def follow(self) -> None:
        """Apply to the cluster whatever changes; never returns.

        Errors are logged and end nothing: the next change may be valid.
        """


def count_age(feed: Feed, registry: CollectorRegistry) -> None:
    """Register the gauge of the age of the current state, in seconds."""
    Gauge(
        f"{PREFIX}snapshot_age_seconds",
        "Seconds since the snapshot file or the API server last confirmed the state.",
        registry=registry,
    ).set_function(feed.age)
