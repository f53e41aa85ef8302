"""
What pods were predicted to get, compared with what their kubelets gave them.

On a node with an agent, every prediction is verified shortly after the bind. So each pod that was asked about
here counts once, by the outcome of its prediction; and if a kubelet decided otherwise, the owner sees on the
pod what was predicted and what the pod has. Nothing depends on it: the ledger uses the agent's reports,
whatever was predicted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter

from numalign.kube.events import LONGEST_MESSAGE, Event, Type
from numalign.kube.pod_informer import Phase, PodInfo
from numalign.ledger.arithmetic import same
from numalign.ledger.model import AssignedPod
from numalign.lru import LRU, Caches
from numalign.model.errors import cut
from numalign.model.placement import Held
from numalign.runtime.logs import MANY_LINES, Log, QuietLog
from numalign.runtime.metrics import PREFIX
from numalign.scheduling.outcomes import EVENT, PublishEvent, shown
from numalign.scheduling.recent_refusals import REFUSALS
from numalign.scheduling.scheduler_state import SchedulerState

PATIENCE_SECONDS = 60.0
"""How long an agent may take to report a pod before it counts as not observed."""

REMEMBERED = 4096
"""The limit of pods that are waited for; a thousand may be bound in a second."""


class PredictionResult(StrEnum):
    """The outcome of a prediction, as a label."""

    AGREED = "agreed"
    DIFFERED = "differed"
    REFUSED = "refused"
    UNPREDICTED = "unpredicted"
    UNOBSERVED = "unobserved"


@dataclass(frozen=True, slots=True)
class _BoundPod:
    """A bound pod, when it was bound, and what it was predicted to hold; None if that was not certain."""

    namespace: str
    name: str
    uid: str
    node: str
    predicted: Held | None
    at: float


class Predictions:
    """Compares what agents report of pods with the predictions."""

    def __init__(
        self,
        state: SchedulerState,
        *,
        publish: PublishEvent,
        log: Log,
        registry: CollectorRegistry,
        clock: Callable[[], float],
    ) -> None:
        self._state = state
        self._reservations = state.reservations
        self._publish = publish
        self._log = QuietLog(log, lines=MANY_LINES)
        self._clock = clock
        self._bound: LRU[str, _BoundPod] = LRU(REMEMBERED)
        self._results = Counter(
            f"{PREFIX}predictions",
            "Evaluated pods on nodes with an agent, by result of their prediction.",
            ["result"],
            registry=registry,
        )
        for result in PredictionResult:
            self._results.labels(result)

    def caches(self) -> Caches:
        """Return the pods that no agent has reported yet."""
        return {"unobserved": self._bound}

    def update_pod(self, pod: PodInfo, before: PodInfo | None) -> None:
        """Take a pod as it is now, before the ledger does, and as it was; None if not seen before."""
        if pod.node and not (before and before.node):
            self._assigned(pod)
        if pod.phase is Phase.FAILED:
            self._failed(pod)

    def _assigned(self, pod: PodInfo) -> None:
        """Note that a pod came to a node."""
        there = self._reservations.node_of(pod.uid) == pod.node
        reserved = self._reservations.assigned_pod(pod.uid) if there else None
        if reserved or self._state.was_asked(pod.uid):
            now, predicted = self._clock(), _predicted(reserved)
            bound = _BoundPod(pod.namespace, pod.name, pod.uid, pod.node, predicted, now)
            self._bound.put(pod.uid, bound)

    def look(self) -> None:
        """Compare what was reported since the last call, and give up on late reports."""
        now = self._clock()
        for bound in self._bound.values():
            seen = self._reservations.observed(bound.uid)
            if seen is None and self._may_be_reported(bound, now):
                continue
            self._bound.drop(bound.uid)
            if seen:
                self._compare(bound, seen.held)
            elif self._reservations.is_observed(bound.node):
                self._results.labels(PredictionResult.UNOBSERVED).inc()

    def _may_be_reported(self, bound: _BoundPod, now: float) -> bool:
        """Return whether the agent may still report a pod."""
        there = self._reservations.node_of(bound.uid) == bound.node
        return there and now - bound.at < PATIENCE_SECONDS

    def _failed(self, pod: PodInfo) -> None:
        """Count a pod that a kubelet refused, which is reported elsewhere; failed containers do not count."""
        if pod.reason in REFUSALS and pod.uid in self._bound:
            self._bound.drop(pod.uid)
            self._results.labels(PredictionResult.REFUSED).inc()

    def _compare(self, bound: _BoundPod, held: Held) -> None:
        if bound.predicted is None:
            # A pod that gets nothing has no prediction.
            if held:
                self._results.labels(PredictionResult.UNPREDICTED).inc()
        elif not same(bound.predicted, held):
            self._results.labels(PredictionResult.DIFFERED).inc()
            self._differed(bound, bound.predicted, held)
        elif held:
            self._results.labels(PredictionResult.AGREED).inc()

    def _differed(self, bound: _BoundPod, predicted: Held, held: Held) -> None:
        message = (
            f"numalign predicted that the pod gets {shown(predicted)} on {bound.node};"
            f" the kubelet of {bound.node} allocated {shown(held)}"
        )
        message = cut(message, LONGEST_MESSAGE)
        self._log.warning(
            "prediction.wrong", pod=f"{bound.namespace}/{bound.name}", node=bound.node, message=message
        )
        self._publish(Event(bound.namespace, bound.name, bound.uid, Type.WARNING, EVENT, message))


def _predicted(reserved: AssignedPod | None) -> Held | None:
    """Return what a reservation was certain of."""
    record = reserved.record if reserved and reserved.reserved else None
    return record.held if record and not record.unknown else None
