"""
What became of predictions.

A kubelet that refuses a pod which was ranked or bound here was predicted wrongly, and nobody would notice:
the pod fails, its controller makes another, and that one may well land on the same node. So it is counted,
the next pod that is sent there is counted too, and the owner reads on the pod what was predicted and what
happened.
"""

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter

from numalign.kube.events import LONGEST_MESSAGE, Event, Type
from numalign.kube.pod_informer import Phase, PodInfo
from numalign.kubelet.admission_errors import RejectionReason
from numalign.ledger.model import AssignedPod, Source
from numalign.lru import LRU, Caches
from numalign.model.errors import cut
from numalign.model.placement import Held
from numalign.model.resources import render
from numalign.runtime.logs import MANY_LINES, Log, QuietLog
from numalign.runtime.metrics import PREFIX
from scorer.scheduler_state import SchedulerState

EVENT = "NUMAPredictionWrong"
"""The reason of the event on the pod."""

REMEMBERED_SECONDS = 300.0
"""How long a node counts as one that just refused pods like this."""

REMEMBERED = 1024

_REASONS = frozenset(str(each) for each in RejectionReason)


Tell = Callable[[Event], None]
"""Writes an event some time soon; never waits, and never fails."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """When a node refused a pod, and what the pod had asked."""

    number: int
    at: float


class Outcomes:
    """Compares what kubelets do with what was predicted; `heard` is to hear of every change of a pod."""

    def __init__(
        self,
        register: SchedulerState,
        *,
        tell: Tell,
        log: Log,
        registry: CollectorRegistry,
        clock: Callable[[], float],
    ) -> None:
        self._register = register
        self._tell = tell
        self._log = QuietLog(log, lines=MANY_LINES)
        self._clock = clock
        self._refused: LRU[str, _Refusal] = LRU(REMEMBERED)
        self._refusals = Counter(
            f"{PREFIX}kubelet_refusals",
            "Pods that a kubelet refused after they were promised zones there, or only ranked.",
            ["reason", "known"],
            registry=registry,
        )
        for reason in sorted(_REASONS):
            for known in ("promised", "ranked"):
                self._refusals.labels(reason, known)
        self._again = Counter(
            f"{PREFIX}refused_node_chosen_again",
            "Pods sent to a node that had just refused one that asked for the same.",
            registry=registry,
        )

    def caches(self) -> Caches:
        """What is remembered of refusals."""
        return {"refused": self._refused}

    def heard(self, pod: PodInfo, before: PodInfo | None) -> None:
        """A pod is like this now; it was like that before, or was not seen."""
        assigned_pod = self._register.reservations.assigned_pod(pod.uid)
        promised = assigned_pod is not None and _ours(assigned_pod)
        # Where others chose the node nothing was predicted, nor was what had happened before this process.
        if not promised and not self._register.asked(pod.uid):
            return
        if _refused(pod) and not (before and before.ended):
            self._count(pod, assigned_pod if promised else None)
        elif pod.node and not pod.ended and not (before and before.node):
            self._chosen(pod)

    def _number(self, pod: PodInfo) -> int:
        """What the pod asked; 0 if that cannot be read."""
        subject = self._register.waiting(pod.uid)
        return subject.number if subject else 0

    def _count(self, pod: PodInfo, promised: AssignedPod | None) -> None:
        """A kubelet said no."""
        known = "promised" if promised else "ranked"
        self._refused.put(pod.node, _Refusal(self._number(pod), self._clock()))
        self._refusals.labels(pod.reason, known).inc()
        # What a pod was promised may be as long as the record that its owner wrote.
        message = cut(_story(pod, promised), LONGEST_MESSAGE)
        self._log.warning("prediction.wrong", pod=f"{pod.namespace}/{pod.name}", node=pod.node, story=message)
        self._tell(_event(pod, message))

    def _chosen(self, pod: PodInfo) -> None:
        """A pod came to a node."""
        last = self._refused.peek(pod.node)
        if last is None or self._clock() - last.at > REMEMBERED_SECONDS:
            return
        if not last.number or last.number != self._number(pod):
            return
        self._again.inc()
        message = f"node {pod.node} has just refused a pod that asked for the same, and was chosen again"
        self._log.warning("prediction.repeated", pod=f"{pod.namespace}/{pod.name}", node=pod.node)
        self._tell(_event(pod, message))


def _event(pod: PodInfo, message: str) -> Event:
    return Event(pod.namespace, pod.name, pod.uid, Type.WARNING, EVENT, message)


def _ours(assigned_pod: AssignedPod) -> bool:
    """Whether it was promised its zones, here or by whoever bound it and wrote them down."""
    record = assigned_pod.record
    return bool(assigned_pod.turn) or (record is not None and record.source is Source.RECORDED)


def _refused(pod: PodInfo) -> bool:
    return pod.phase is Phase.FAILED and pod.reason in _REASONS


def _story(pod: PodInfo, assigned_pod: AssignedPod | None) -> str:
    """What was predicted, and what happened."""
    happened = f"the kubelet of {pod.node} refused the pod: {pod.reason}: {pod.message}"
    held = assigned_pod.expected if assigned_pod else None
    if held is None:
        return f"it was predicted that the pod fits on {pod.node}; {happened}"
    return f"it was predicted that the pod gets {shown(held)} on {pod.node}; {happened}"


def shown(held: Held) -> str:
    """What is held, in words."""
    parts = [
        f"{' and '.join(f'{render(name, amount)} {name}' for name, amount in amounts.items())}"
        f" from {' and '.join(zones) or 'no zone'}"
        for zones, amounts in held.items()
    ]
    return ", ".join(parts) or "nothing of its own"
