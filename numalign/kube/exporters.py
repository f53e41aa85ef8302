"""
Who tells the topology of each node, and how fresh that is.

The agent beside a kubelet says when it last looked, and writes every few minutes even if nothing has changed;
other exporters write only what changed, so how old their word is cannot be told.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from numalign.kube.cluster_state import Snapshot

STALE_SECONDS = 600.0
"""Age beyond which an agent has missed a write for sure: it writes at least each 300 s."""


class TopologySource(StrEnum):
    """Who tells the topology of a node: the agent beside its kubelet, another exporter, or nobody."""

    AGENT = "agent"
    EXPORTER = "exporter"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ExporterHealth:
    """Who tells the topology of one node, and how many seconds ago its agent looked; None without one."""

    source: TopologySource
    age: float | None = None

    @property
    def stale(self) -> bool:
        """Whether its agent has stopped to write."""
        return self.age is not None and self.age > STALE_SECONDS

    def to_json(self) -> dict[str, Any]:
        """Return the same for programs, the age in whole seconds."""
        return {"source": self.source, "age": None if self.age is None else int(self.age)}


def of_node(snapshot: Snapshot, name: str, *, now: float) -> ExporterHealth:
    """Of a node whose topology is known; `now` is in seconds since 1970."""
    seen = snapshot.observed_at.get(name)
    if seen is None:
        return ExporterHealth(TopologySource.EXPORTER)
    # The clock of a node may be ahead of ours.
    return ExporterHealth(TopologySource.AGENT, max(now - seen, 0.0))


def newest(snapshot: Snapshot, *, now: float) -> float:
    """When an agent looked last, at most `now`; `now` where there is no agent. In seconds since 1970.

    A file does not say when it was written; its agents wrote until then.
    """
    return min(max((seen for seen in snapshot.observed_at.values() if seen is not None), default=now), now)


NOBODY = ExporterHealth(TopologySource.NONE)
"""Of a node that publishes no topology."""
