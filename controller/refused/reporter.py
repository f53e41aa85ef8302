"""
Report a pod that its kubelet rejected: on the pod, in the log, and in a metric.

Where all pods are watched, the owner reads what was predicted, and what the node had free at that moment: a
minute later all of that has changed. Every replica prepares reports, and the leader publishes them; a new
leader reports the last minutes, because nobody may have. Repeated events are identical.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry

from numalign.decision import wording
from numalign.kube.events import LONGEST_MESSAGE, Event, Type
from numalign.kube.pod_informer import PodInfo
from numalign.kube.writes import counter
from numalign.model.demand import Demand
from numalign.model.errors import cut
from numalign.model.node import Node
from numalign.model.resources import readable_zone, render
from numalign.namespace_queue import NamespaceQueue
from numalign.runtime.clock import Sleep, least_age
from numalign.runtime.logs import MANY_LINES, Log, QuietLog
from numalign.runtime.metrics import PREFIX
from numalign.runtime.token_bucket import TokenBucket
from numalign.scheduling import rejected_pods
from numalign.scheduling.outcomes import has_reserved, shown
from numalign.scheduling.recent_refusals import AVOID_SECONDS, REFUSALS
from numalign.scheduling.rejected_pods import RejectedPod
from numalign.scheduling.scheduler_state import SchedulerState

EVENT = "NUMARefused"
"""The reason of the event on the pod."""

TURN_SECONDS = 1.0

MOST_WAITING = 1000
"""Most refusals that wait to be reported; then the namespace with the most loses its last one."""

PREDICTIONS_PER_SECOND, PREDICTIONS_AT_ONCE = 20.0, 100
"""Limits how often a node's free resources are computed: thousands of refusals in a minute say the same."""

_LONGEST_REASON = 300
_LONGEST_NAME = 64
_MOST_ZONES = 16
_MOST_RESOURCES = 8


_PendingNotice = tuple[RejectedPod, Event, float]
"""A rejected pod that is to be reported, and until when."""


class RefusalReporter:
    """Reports rejected pods while `leading` returns True, except those that are `exempt`."""

    def __init__(  # noqa: PLR0913  its dependencies
        self,
        *,
        exempt: Callable[[RejectedPod], bool],
        leading: Callable[[], bool],
        publish: Callable[[Event], None],
        log: Log,
        registry: CollectorRegistry,
        clock: Callable[[], float],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._exempt, self._leading, self._publish = exempt, leading, publish
        self._log, self._error_log = QuietLog(log, lines=MANY_LINES), log
        self._clock, self._sleep = clock, sleep
        self._pending = NamespaceQueue[str, _PendingNotice](MOST_WAITING)
        self._refused = counter(
            f"{PREFIX}refused_pods",
            "Pods that a kubelet rejected for a reason about NUMA zones, whichever scheduler placed them.",
            ["reason"],
            sorted(REFUSALS),
            registry,
        )

    def add(self, rejected: RejectedPod, details: Callable[[], Iterable[str]] = tuple, *, age: float) -> None:
        """Report a pod that was rejected `age` seconds ago, with these details, unless that is long."""
        if age >= AVOID_SECONDS:
            return
        over = self._clock() + AVOID_SECONDS - age
        beginning = f"the kubelet of {rejected.node} rejected the pod: "
        said = f": {rejected.message}" if rejected.message else ""
        text = beginning + cut(f"{rejected.reason}{said}", _LONGEST_REASON)
        try:
            text = cut("; ".join((text, *details())), LONGEST_MESSAGE)
        except Exception as error:  # noqa: BLE001  the watchers that follow must be called
            pod = f"{rejected.namespace}/{rejected.name}"
            self._error_log.failed("refused.internal_error", error, pod=pod)
            text = beginning + rejected.reason
        about = rejected.namespace, rejected.name, rejected.uid
        event = Event(*about, Type.WARNING, EVENT, text, key=rejected.reason)
        self._pending.put(rejected.namespace, rejected.uid, (rejected, event, over))

    async def run(self) -> None:
        """Report what happens; never returns."""
        while True:
            self.report_due()
            await self._sleep(TURN_SECONDS)

    def report_due(self) -> None:
        """Report what happened since the last call, if this replica leads."""
        now = self._clock()
        while self._pending and self._leading():
            _, (rejected, event, over) = self._pending.take()
            if over <= now or self._exempt(rejected):
                continue
            self._refused.labels(rejected.reason).inc()
            self._log.warning(
                "pod.refused",
                pod=f"{rejected.namespace}/{rejected.name}",
                node=rejected.node,
                reason=rejected.reason,
                message=event.message,
            )
            self._publish(event)


class WatchedRefusals:
    """Passes watched pods to a reporter, with what was reserved for them, and what is free."""

    def __init__(
        self, state: SchedulerState, reporter: RefusalReporter, *, clock: Callable[[], float]
    ) -> None:
        self._state, self._reporter, self._clock = state, reporter, clock
        self._predictions = TokenBucket(PREDICTIONS_PER_SECOND, PREDICTIONS_AT_ONCE, clock=clock)

    def update_pod(self, pod: PodInfo, before: PodInfo | None) -> None:
        """Handle a pod that was added or changed."""
        rejected = rejected_pods.of_pod(pod)
        if rejected and rejected.about_zones and not (before and before.ended):
            age = 0.0 if before else least_age(self._state.wall(), rejected.at)
            self._reporter.add(rejected, lambda: self._details(pod), age=age)

    def _details(self, pod: PodInfo) -> Iterator[str]:
        assigned_pod = self._state.reservations.assigned_pod(pod.uid)
        held = assigned_pod.expected if assigned_pod and has_reserved(assigned_pod) else None
        reserved = "" if held is None else shown(held)
        yield f"{reserved or 'no zones'} had been reserved for it"
        if pod.demand is None or not self._predictions.take():
            return
        prediction = self._state.reservations.predict(
            pod.node, pod.demand, created=pod.created, now=self._clock(), without=[pod.uid]
        )
        if prediction is None:
            yield "the node publishes no NUMA topology"
            return
        verdict = prediction.verdict
        if verdict.admitted:
            yield "evaluated again, it would fit now"
        else:
            yield f"evaluated again, it does not fit: {wording.sentence(verdict)}"
        yield f"free there now: {free_by_zone(prediction.node, pod.demand)}"


def free_by_zone(node: Node, demand: Demand) -> str:
    """Return what each zone has free of the requests: `zone 0 4 cpu and 1Gi memory, zone 1 nothing`."""
    names = sorted(demand.total)
    zones: list[str] = []
    for zone in node.zones[:_MOST_ZONES]:
        free = [name for name in names if zone.free.get(name)][:_MOST_RESOURCES]
        amounts = " and ".join(f"{render(name, zone.free[name])} {cut(name, _LONGEST_NAME)}" for name in free)
        zones.append(f"{cut(readable_zone(zone.name), _LONGEST_NAME)} {amounts or 'nothing'}")
    return ", ".join(zones) + (", ..." if len(node.zones) > _MOST_ZONES else "")
