"""
Report a pod that its kubelet rejected: on the pod, in the log, and in a metric.

The owner reads what was predicted, and what the node had free at that moment: a minute later all of that has
changed. Every replica prepares reports, and the leader publishes them; a new leader reports the last minutes,
because nobody may have. Repeated events are identical.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter

from numalign.decision import wording
from numalign.kube.events import LONGEST_MESSAGE, Event, Type
from numalign.kube.pod_informer import PodInfo
from numalign.ledger.model import AssignedPod, Prediction
from numalign.model.demand import Demand
from numalign.model.errors import cut
from numalign.model.node import Node
from numalign.model.resources import readable_zone, render
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import MANY_LINES, Log, QuietLog
from numalign.runtime.metrics import PREFIX
from numalign.runtime.token_bucket import TokenBucket
from numalign.scheduling.outcomes import has_reserved, shown
from numalign.scheduling.recent_refusals import AVOID_SECONDS, REFUSALS, failed_at, refused
from numalign.scheduling.scheduler_state import SchedulerState

EVENT = "NUMARefused"
"""The reason of the event on the pod."""

TURN_SECONDS = 1.0

MOST_WAITING = 1000
"""Most refusals that wait to be reported; the oldest are dropped."""

PREDICTIONS_PER_SECOND, PREDICTIONS_AT_ONCE = 20.0, 100
"""Limits how often a node's free resources are computed: thousands of refusals in a minute say the same."""

_LONGEST_REASON = 300
_LONGEST_NAME = 64
_MOST_ZONES = 16
_MOST_RESOURCES = 8


@dataclass(frozen=True, slots=True)
class _PendingNotice:
    """A refusal that is to be reported on a pod, until the time `over`."""

    pod: PodInfo
    event: Event
    over: float


class RefusalReporter:
    """Reports rejected pods while `leading` returns True, except those that are `exempt`."""

    def __init__(  # noqa: PLR0913  its dependencies
        self,
        state: SchedulerState,
        *,
        exempt: Callable[[PodInfo], bool],
        leading: Callable[[], bool],
        publish: Callable[[Event], None],
        log: Log,
        registry: CollectorRegistry,
        clock: Callable[[], float],
        wall: Callable[[], float],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._state, self._exempt, self._leading, self._publish = state, exempt, leading, publish
        self._log, self._error_log = QuietLog(log, lines=MANY_LINES), log
        self._clock, self._wall, self._sleep = clock, wall, sleep
        self._predictions = TokenBucket(PREDICTIONS_PER_SECOND, PREDICTIONS_AT_ONCE, clock=clock)
        self._pending: deque[_PendingNotice] = deque(maxlen=MOST_WAITING)
        self._refused = Counter(
            f"{PREFIX}refused_pods",
            "Pods that a kubelet rejected, whichever scheduler placed them.",
            ["reason"],
            registry=registry,
        )
        for reason in sorted(REFUSALS):
            self._refused.labels(reason)

    def update_pod(self, pod: PodInfo, before: PodInfo | None) -> None:
        """Handle a pod that was added or changed."""
        age = max(0.0, self._wall() - failed_at(pod))
        if not refused(pod) or (before and before.ended) or age >= AVOID_SECONDS:
            return
        over = self._clock() + AVOID_SECONDS - age
        event = Event(pod.namespace, pod.name, pod.uid, Type.WARNING, EVENT, self._text(pod), key=pod.reason)
        self._pending.append(_PendingNotice(pod, event, over))

    def _text(self, pod: PodInfo) -> str:
        """Return the report; never fail, because the watchers that follow must be called."""
        try:
            return self._message(pod)
        except Exception as error:  # noqa: BLE001  reported without details
            self._error_log.failed("refused.internal_error", error, pod=f"{pod.namespace}/{pod.name}")
            return f"the kubelet of {pod.node} rejected the pod: {pod.reason}"

    async def run(self) -> None:
        """Report what happens; never returns."""
        while True:
            self.report_due()
            await self._sleep(TURN_SECONDS)

    def report_due(self) -> None:
        """Report what happened since the last call, if this replica leads."""
        if self._state.snapshot is None:
            # The namespaces are not known yet.
            return
        now = self._clock()
        while self._pending and self._leading():
            refusal = self._pending.popleft()
            pod, event = refusal.pod, refusal.event
            if refusal.over <= now or self._exempt(pod):
                continue
            self._refused.labels(pod.reason).inc()
            self._log.warning(
                "pod.refused",
                pod=f"{pod.namespace}/{pod.name}",
                node=pod.node,
                reason=pod.reason,
                message=event.message,
            )
            self._publish(event)

    def _message(self, pod: PodInfo) -> str:
        refusal = cut(f"{pod.reason}: {pod.message}" if pod.message else pod.reason, _LONGEST_REASON)
        parts = (
            f"the kubelet of {pod.node} rejected the pod: {refusal}",
            self._predicted(pod),
            *self._on_node(pod),
        )
        return cut("; ".join(parts), LONGEST_MESSAGE)

    def _predicted(self, pod: PodInfo) -> str:
        assigned_pod = self._state.reservations.assigned_pod(pod.uid)
        held = _reserved(assigned_pod)
        return f"{held} had been reserved for it" if held else "no zones had been reserved for it"

    def _on_node(self, pod: PodInfo) -> Iterator[str]:
        """Yield what is known of the node without the pod."""
        if pod.demand is None or not self._predictions.take():
            return
        prediction = self._state.reservations.predict(
            pod.node, pod.demand, created=pod.created, now=self._clock(), without=[pod.uid]
        )
        if prediction is None:
            yield "the node publishes no NUMA topology"
            return
        yield _by_now(prediction)
        yield f"free there now: {free_by_zone(prediction.node, pod.demand)}"


def _reserved(assigned_pod: AssignedPod | None) -> str:
    """Return the reservation as text; "" if there was none."""
    held = assigned_pod.expected if assigned_pod and has_reserved(assigned_pod) else None
    return "" if held is None else shown(held)


def _by_now(prediction: Prediction) -> str:
    """Return what would be predicted now."""
    verdict = prediction.verdict
    if verdict.admitted:
        return "evaluated again, it would fit now"
    return f"evaluated again, it does not fit: {wording.sentence(verdict)}"


def free_by_zone(node: Node, demand: Demand) -> str:
    """Return what each zone has free of the requests: `zone 0 4 cpu and 1Gi memory, zone 1 nothing`."""
    names = sorted(demand.total)
    zones = [
        f"{cut(readable_zone(zone.name), _LONGEST_NAME)} "
        + (
            " and ".join(
                f"{render(name, zone.free[name])} {cut(name, _LONGEST_NAME)}"
                for name in [name for name in names if zone.free.get(name)][:_MOST_RESOURCES]
            )
            or "nothing"
        )
        for zone in node.zones[:_MOST_ZONES]
    ]
    return ", ".join(zones) + (", ..." if len(node.zones) > _MOST_ZONES else "")
