"""
The source of each node's topology, and its age.

The agent reports when it last looked, and writes every few minutes even if nothing has changed; other
exporters write only changes, so the age of their reports is not known.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from numalign.kube.cluster import Cluster

STALE_SECONDS = 600.0
"""The age beyond which an agent has certainly missed a write: it writes at least every 300 s."""


class TopologySource(StrEnum):
    """The source of a node's topology: its agent, another exporter, or none."""

    AGENT = "agent"
    EXPORTER = "exporter"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ExporterHealth:
    """The source of one node's topology, and the age of its agent's report in seconds; None without one."""

    source: TopologySource
    age: float | None = None

    @property
    def stale(self) -> bool:
        """Whether its agent has stopped writing."""
        return self.age is not None and self.age > STALE_SECONDS

    def to_json(self) -> dict[str, Any]:
        """Return the same as JSON, the age in whole seconds."""
        return {"source": self.source, "age": None if self.age is None else int(self.age)}


def of_node(cluster: Cluster, name: str, *, now: float) -> ExporterHealth:
    """Return the source of a node with a known topology; `now` is in seconds since 1970."""
    seen = cluster.observed_at.get(name)
    if seen is None:
        return ExporterHealth(TopologySource.EXPORTER)
    # The clock of a node may be ahead.
    return ExporterHealth(TopologySource.AGENT, max(now - seen, 0.0))


def newest(cluster: Cluster, *, now: float) -> float:
    """Return when an agent looked last, at most `now`; `now` without agents. In seconds since 1970.

    A file does not contain the time when it was written; its agents wrote until then.
    """
    return min(max((seen for seen in cluster.observed_at.values() if seen is not None), default=now), now)


NOBODY = ExporterHealth(TopologySource.NONE)
"""The source of a node that publishes no topology."""
