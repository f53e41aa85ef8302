"""
The outcomes of predictions.

If a kubelet refuses a pod that was ranked or bound here, the prediction was wrong, and that could go
unnoticed: the pod fails, its controller creates another, and that one may well get the same node. So it is
counted, the next pod that is sent there is counted too, and the owner sees on the pod what was predicted and
what happened.
"""

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter

from numalign.cache import Question
from numalign.kube.events import LONGEST_MESSAGE, Event, Type
from numalign.kube.pod_informer import PodInfo
from numalign.ledger.model import AssignedPod, Source
from numalign.lru import LRU, Caches
from numalign.model.errors import cut
from numalign.model.placement import Held
from numalign.model.resources import readable_zone, render
from numalign.runtime.logs import MANY_LINES, Log, QuietLog
from numalign.runtime.metrics import PREFIX
from numalign.scheduling.recent_refusals import REFUSALS, refused
from numalign.scheduling.scheduler_state import SchedulerState

EVENT = "NUMAPredictionWrong"
"""The reason of the event on the pod."""

REMEMBERED_SECONDS = 300.0
"""How long a node counts as having just refused such pods."""

REMEMBERED = 1024

PublishEvent = Callable[[Event], None]
"""Queues an event; never waits, and never fails."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """When a node refused a pod, and the pod's question; None if that could not be read."""

    question: Question | None
    at: float


class Outcomes:
    """Compares what kubelets do with what was predicted."""

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
        self._publish = publish
        self._log = QuietLog(log, lines=MANY_LINES)
        self._clock = clock
        self._last: LRU[str, _Refusal] = LRU(REMEMBERED)
        self._refusals = Counter(
            f"{PREFIX}kubelet_refusals",
            ("Pods that a kubelet rejected although zones were reserved for them or the node was ranked."),
            ["reason", "known"],
            registry=registry,
        )
        for reason in sorted(REFUSALS):
            self._refusals.labels(reason, "reserved")
            self._refusals.labels(reason, "ranked")
        self._repeated = Counter(
            f"{PREFIX}refused_node_chosen_again",
            "Pods sent to a node that had just rejected a pod with the same requests.",
            registry=registry,
        )

    def caches(self) -> Caches:
        """Return the last refusal of each node."""
        return {"refused": self._last}

    def update_pod(self, pod: PodInfo, before: PodInfo | None) -> None:
        """Take a pod as it is now, and as it was; None if it was not seen before."""
        assigned_pod = self._state.reservations.assigned_pod(pod.uid)
        reserved = assigned_pod if assigned_pod and has_reserved(assigned_pod) else None
        # If others chose the node nothing was predicted, nor was what happened before this process started.
        if not reserved and not self._state.was_asked(pod.uid):
            return
        if refused(pod) and not (before and before.ended):
            self._refused(pod, reserved)
        elif pod.node and not pod.ended and not (before and before.node):
            self._assigned(pod)

    def _question(self, pod: PodInfo) -> Question | None:
        pending = self._state.waiting(pod.uid)
        return pending.question if pending else None

    def _refused(self, pod: PodInfo, reserved: AssignedPod | None) -> None:
        """Count and report that a kubelet refused a pod, with or without a reservation."""
        self._last.put(pod.node, _Refusal(self._question(pod), self._clock()))
        self._refusals.labels(pod.reason, "reserved" if reserved else "ranked").inc()
        held = reserved.expected if reserved else None
        predicted = "fits" if held is None else f"gets {shown(held)}"
        happened = f"the kubelet of {pod.node} rejected the pod: {pod.reason}: {pod.message}"
        message = f"numalign predicted that the pod {predicted} on {pod.node}; {happened}"
        # The reservation of a pod may be as long as the record that its owner wrote.
        message = cut(message, LONGEST_MESSAGE)
        self._log.warning(
            "prediction.wrong", pod=f"{pod.namespace}/{pod.name}", node=pod.node, message=message
        )
        self._publish_warning(pod, message)

    def _assigned(self, pod: PodInfo) -> None:
        """Note that a pod came to a node."""
        last = self._last.peek(pod.node)
        if last is None or last.question is None or self._clock() - last.at > REMEMBERED_SECONDS:
            return
        if last.question != self._question(pod):
            return
        self._repeated.inc()
        self._log.warning("prediction.repeated", pod=f"{pod.namespace}/{pod.name}", node=pod.node)
        self._publish_warning(
            pod, f"node {pod.node} has just rejected a pod with the same requests, and was chosen again"
        )

    def _publish_warning(self, pod: PodInfo, message: str) -> None:
        self._publish(Event(pod.namespace, pod.name, pod.uid, Type.WARNING, EVENT, message))


def has_reserved(assigned_pod: AssignedPod) -> bool:
    """Return whether zones were reserved for it, here or by the program that bound it."""
    record = assigned_pod.record
    return bool(assigned_pod.turn) or (record is not None and record.source is Source.RECORDED)


def shown(held: Held) -> str:
    """Return what is held, in words: `2 cpu and 1Gi memory from zone 0`."""
    parts = [
        f"{' and '.join(f'{render(name, amount)} {name}' for name, amount in amounts.items())}"
        f" from {' and '.join(map(readable_zone, zones)) or 'no NUMA zone'}"
        for zones, amounts in held.items()
    ]
    return ", ".join(parts) or "no exclusive resources"
