"""
Pinned pods that no scheduler binds.

A pin is final: the affinity of a pod without a gate cannot be changed. So nothing is undone and no pod is
deleted; after a time an event on the pod reports it with the scheduler's message, and its reservation is
released. That time is shorter while pods of other namespaces find no room, unless pods of the same namespace
that were pinned before it are still being bound: then its scheduler has only much to do.
"""

import asyncio
import math
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from controller.gates.metrics import GateMetrics
from controller.gates.pods import GatedPods
from controller.gates.turns import NamespaceTurns
from numalign.kube.decode.parts import Part
from numalign.kube.errors import ClusterError
from numalign.kube.events import Event, Type
from numalign.kube.kinds import Object
from numalign.kube.pod_informer import PodInfo
from numalign.model.errors import cut
from numalign.model.intent import PLACEMENT_GATE
from numalign.runtime.clock import Sleep, least_age
from numalign.runtime.logs import Log
from numalign.scheduling.scheduler_state import SchedulerState

TURN_SECONDS = 1.0

MISSED_SECONDS = 60.0
"""Seconds during which a late pod that was not reported is remembered: the next leader may report it."""

_SHOWN = 600
"""Most characters of a scheduler's message."""


@dataclass(eq=False, kw_only=True, slots=True)
class PinnedPods:
    """
    Follows pins for `patience` seconds each; reports late ones while `leading` returns True.

    `lacking` returns the namespaces whose pods find no room; a pin that stalls for `contested` seconds while
    there are others is late too.
    """

    state: SchedulerState
    pods: GatedPods
    metrics: GateMetrics
    leading: Callable[[], bool]
    publish: Callable[[Event], None]
    turns: NamespaceTurns
    lacking: Callable[[], AbstractSet[str]]
    patience: float
    contested: float
    log: Log
    clock: Callable[[], float]
    wall: Callable[[], float]
    sleep: Sleep = asyncio.sleep
    # The nodes to which pods should be bound, and by which time of the clock.
    _expected: dict[str, tuple[str, float]] = field(init=False, default_factory=dict)

    def expect(self, pod: PodInfo, node: str) -> None:
        """Expect a pod to be bound that was just pinned to this node, where its zones are reserved."""
        now = self.state.pods.get(pod.uid)
        # The watch event of its end may come before the response.
        if now and not (now.node or now.ended or now.leaving):
            self._expected[pod.uid] = node, self.clock() + self.patience

    def update_pod(self, pod: PodInfo, before: PodInfo | None) -> None:
        """Handle a pod that was added or changed; another replica may have pinned it."""
        if pod.node or pod.ended or pod.leaving:
            self._expected.pop(pod.uid, None)
            (self.turns.bound if pod.node else self.turns.left)(pod.uid)
        elif pod.pinned and pod.uid not in self._expected and PLACEMENT_GATE not in pod.gates:
            # If nobody saw when it was pinned, it is assumed to be as recent as it may be.
            age = least_age(self.wall(), pod.pinned_at)
            if before:
                age = 0.0 if PLACEMENT_GATE in before.gates else math.inf
            remaining = self.patience - age
            if remaining > 0:
                self._expected[pod.uid] = pod.pinned, self.clock() + remaining
                self.turns.hold(pod.uid, pod.namespace, age=self.patience - remaining)

    async def run(self) -> None:
        """Report pods that are late; never returns."""
        while True:
            await self.sleep(TURN_SECONDS)
            now, lacking = self.clock(), self.lacking()
            for uid in self.turns:
                if uid not in self.state.pods:
                    self.turns.left(uid)
            for uid, (node, until) in [*self._expected.items()]:
                pod = self.state.pods.get(uid)
                if pod is None or now >= until + MISSED_SECONDS:
                    self._expected.pop(uid, None)
                    self.turns.lapsed(uid)
                    continue
                stalled = lacking - {pod.namespace} and self.turns.stalled(uid) >= self.contested
                if (now >= until or stalled) and self.leading():
                    await self._report(pod, node, within=self.patience if now >= until else self.contested)
            self.turns.forget()

    async def _report(self, pod: PodInfo, node: str, *, within: float) -> None:
        """Release the reservation of a pod that was to be bound within so many seconds, and report it."""
        self._expected.pop(pod.uid, None)
        self.state.reservations.unreserve(pod.uid)
        self.turns.lapsed(pod.uid)
        try:
            why = scheduler_message(await self.pods.read(pod))
        except ClusterError as error:
            why = f"the pod could not be read: {error}"
        if pod.uid not in self.state.pods:
            return
        self.metrics.unplaced.inc()
        self.log.warning("pin.not_placed", pod=f"{pod.namespace}/{pod.name}", node=node, reason=why)
        others = " and other namespaces wait for room" if within < self.patience else ""
        text = (
            f"numalign: not bound within {within:g} s of being pinned to node {node}: {why}; its NUMA zones"
            f" are no longer reserved{others}"
        )
        about = pod.namespace, pod.name, pod.uid
        self.publish(Event(*about, Type.WARNING, "NUMAPinnedNotPlaced", text))


def scheduler_message(pod: Object) -> str:
    """Return the scheduler's message about placing a v1 Pod, cut; or that there is none."""
    conditions = Part(pod)["status"]["conditions"].objects()
    messages = [one["message"].text() for one in conditions if one["type"].text() == "PodScheduled"]
    message = messages[-1] if messages else ""
    return cut(message, _SHOWN) if message else "its scheduler reported no reason"
