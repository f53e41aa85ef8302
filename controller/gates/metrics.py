"""Metrics of gates."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller.gates.exclusion import KeepReason
from numalign.runtime.metrics import PREFIX

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60, 120, 300, 600)


class Lift(StrEnum):
    """How a gate was lifted, as a label: for one node, for those that fitted, or for any."""

    PINNED = "pinned"
    KEPT = "kept"
    UNPINNED = "unpinned"


class GateFailure(StrEnum):
    """Why a gated pod could not be read or written, as a label."""

    CONFLICT = "conflict"
    GONE = "gone"
    FORBIDDEN = "forbidden"
    INVALID = "invalid"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class GateMetrics:
    """Metrics of gates; `seconds` are from when a pod was seen; `unplaced` are pins not bound in time."""

    lifts: Counter
    kept: Counter
    seconds: Histogram
    failures: Counter
    unplaced: Counter

    @classmethod
    def of(cls, registry: CollectorRegistry, waiting: Callable[[], int]) -> "GateMetrics":
        """Return metrics in this registry; `waiting` returns how many pods wait."""
        Gauge(
            f"{PREFIX}gated_pods", "Pods behind the scheduling gate numalign.io/placement.", registry=registry
        ).set_function(waiting)
        lifts = Counter(f"{PREFIX}gates_lifted", "Gates lifted, by outcome.", ["how"], registry=registry)
        for how in Lift:
            lifts.labels(how.value)
        kept = Counter(
            f"{PREFIX}gates_kept",
            "Overdue gated pods that keep their gate, by reason.",
            ["reason"],
            registry=registry,
        )
        for keep in KeepReason:
            kept.labels(keep.value)
        seconds = Histogram(
            f"{PREFIX}gate_seconds",
            "Seconds from when a gated pod was first seen until its gate was lifted.",
            buckets=_BUCKETS,
            registry=registry,
        )
        failures = Counter(
            f"{PREFIX}gate_failures",
            "Failed reads and writes of gated pods, by reason.",
            ["reason"],
            registry=registry,
        )
        for reason in GateFailure:
            failures.labels(reason.value)
        unplaced = Counter(
            f"{PREFIX}pins_not_placed",
            "Pinned pods that no scheduler bound in time.",
            registry=registry,
        )
        return cls(lifts, kept, seconds, failures, unplaced)
