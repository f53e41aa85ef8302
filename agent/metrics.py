"""The metrics of an agent: its observations, its writes, and the age of its data."""

import time
from collections.abc import Callable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge

from numalign.runtime.metrics import PREFIX


class WriteResult(StrEnum):
    """The result of writing a topology: all of it, its annotations alone, or nothing."""

    APPLIED = "applied"
    ANNOTATED = "annotated"
    CONFLICT = "conflict"
    ABSENT = "absent"
    FAILED = "failed"


class AgentMetrics:
    """The metrics of one agent."""

    def __init__(self, registry: CollectorRegistry, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._observed_at = clock()
        self._observations = Counter(
            f"{PREFIX}agent_looks", "Observations of the node, by result.", ["result"], registry=registry
        )
        self.writes = Counter(
            f"{PREFIX}agent_writes",
            "Writes of the node's topology, by result.",
            ["result"],
            registry=registry,
        )
        self.pod_writes = Counter(
            f"{PREFIX}agent_pod_writes", "Pods annotated with what they hold.", registry=registry
        )
        age = Gauge(
            f"{PREFIX}agent_look_age_seconds",
            "Seconds since the last complete observation, or since the start.",
            registry=registry,
        )
        age.set_function(lambda: self._clock() - self._observed_at)
        self.annotation_bytes = Gauge(
            f"{PREFIX}agent_annotation_bytes",
            "Size of the agent's annotations in bytes.",
            ["annotation"],
            registry=registry,
        )
        self._left_out = Gauge(
            f"{PREFIX}agent_pods_left_out",
            "Pods that are not reported because it is not certain what they hold.",
            registry=registry,
        )
        self.foreign = Gauge(
            f"{PREFIX}agent_zones_of_others",
            "1 while another exporter writes the zones of this node, else 0.",
            registry=registry,
        )
        for result in ("seen", "failed"):
            self._observations.labels(result)
        for write in WriteResult:
            self.writes.labels(write)

    def observed(self, *, left_out: int) -> None:
        """Count a complete observation, which leaves out this many pods."""
        self._observed_at = self._clock()
        self._observations.labels("seen").inc()
        self._left_out.set(left_out)

    def observation_failed(self) -> None:
        """Count a failed observation."""
        self._observations.labels("failed").inc()
