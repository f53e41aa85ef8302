"""Metrics of gates."""

from collections.abc import Callable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller.gates.exclusion import KeepReason
from numalign.kube.writes import counter
from numalign.runtime.metrics import PREFIX


class Lift(StrEnum):
    """How a gate was lifted, as a label: for one node, for those that fitted, or for any."""

    PINNED = "pinned"
    KEPT = "kept"
    UNPINNED = "unpinned"


class GateMetrics:
    """
    Metrics of gates; `waiting` returns how many pods wait.

    `seconds` are from when a pod was seen, and `unplaced` are pins not bound in time.
    """

    def __init__(self, registry: CollectorRegistry, waiting: Callable[[], int]) -> None:
        text = "Pods behind the scheduling gate numalign.io/placement."
        Gauge(f"{PREFIX}gated_pods", text, registry=registry).set_function(waiting)
        self.lifts = counter(f"{PREFIX}gates_lifted", "Gates lifted, by outcome.", ["how"], Lift, registry)
        text = "Overdue gated pods that keep their gate, by reason."
        self.kept = counter(f"{PREFIX}gates_kept", text, ["reason"], KeepReason, registry)
        self.seconds = Histogram(
            f"{PREFIX}gate_seconds",
            "Seconds from when a gated pod was first seen until its gate was lifted.",
            buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60, 120, 300, 600),
            registry=registry,
        )
        self.failures = counter(
            f"{PREFIX}gate_failures",
            "Failed reads and writes of gated pods, by reason.",
            ["reason"],
            ("conflict", "gone", "forbidden", "invalid", "failed"),
            registry,
        )
        text = "Pinned pods that no scheduler bound in time."
        self.unplaced = Counter(f"{PREFIX}pins_not_placed", text, registry=registry)
