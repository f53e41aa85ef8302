"""
Binding in the steps of kube-scheduler's binding cycle: reserve, permit, bind, and unreserve on failure.

Whatever a scheduler's caches contained when it chose the node, the node is evaluated once more, its offer is
reserved in the same step, and one call to the API server binds the pod and records its placement. If the
zones are gone the bind is refused and the scheduler tries again, which costs milliseconds; a pod that a
kubelet refuses costs its owner a new pod.

Pods of one node are bound in the order of their reservations, because the kubelet admits them in that order.
A pod that would get other zones if the kubelet admitted it first waits until those before it are admitted.

A call without an answer may have bound its pod, or may do so soon. So the pod keeps its zones, and when the
scheduler retries exactly the same is written again: only that shows the result.

A thousand pods may be bound at once. A pod that waits for its node is woken by changes there and does no work
meanwhile, and between any two pods all other tasks may run.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram

from numalign.kube.bindings import BIND_SECONDS
from numalign.kube.decode import placements
from numalign.kube.errors import ClusterError, Conflict, Forbidden, InvalidObject, NotFound, Unauthorized
from numalign.ledger.model import AssignedPod, NodeInfo, Prediction
from numalign.ledger.reservations import NOTIFICATION_SECONDS
from numalign.model import intent
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import MANY_LINES, Log, QuietLog
from numalign.runtime.metrics import PREFIX
from numalign.scheduling import node_answers
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState

LOOK_SECONDS = 0.02
"""How long a waiting pod lets changes of its node gather, before it checks them."""

FEW = 64
"""Up to this many written pods are not searched for those seen since."""

_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

Write = Callable[..., Awaitable[None]]
"""`bindings.bind` with its API server: namespace, name, uid, node and annotations by keyword."""


@dataclass(frozen=True, slots=True)
class BindingCall:
    """The pod to bind and its node; all four fields are set."""

    name: str
    namespace: str
    uid: str
    node: str


class BindOutcome(StrEnum):
    """The outcome of a call to bind, as a label."""

    BOUND = "bound"
    NOT_LEADING = "not_leading"
    UNKNOWN_POD = "unknown_pod"
    BOUND_ALREADY = "bound_already"
    BEING_BOUND = "being_bound"
    LOST = "lost"
    WAITED = "waited"
    OVER_QUOTA = "over_quota"
    REFUSED = "refused"
    UNCERTAIN = "uncertain"


class _Refused(Exception):
    """Raised when a pod cannot be bound, with the sentence that the scheduler prints."""

    def __init__(self, outcome: BindOutcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


class _Written(NamedTuple):
    """What was written for a pod not seen on its node yet; `done` if the API server confirmed it."""

    annotations: Mapping[str, str]
    done: bool = False


@dataclass(slots=True)
class _Queue:
    """The pods to be bound to one node, one at a time. `changed` is set by any change there."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    pods: int = 0


class _Reservation(NamedTuple):
    """The prediction of a reservation, if still valid, and what was known of the node then."""

    prediction: Prediction | None
    info: NodeInfo | None


@dataclass(frozen=True, slots=True)
class BindMetrics:
    """The metrics of binds."""

    binds: Counter
    seconds: Histogram

    @classmethod
    def of(cls, registry: CollectorRegistry) -> "BindMetrics":
        """Return metrics in this registry."""
        binds = Counter(f"{PREFIX}binds", "Bind calls, by outcome.", ["outcome"], registry=registry)
        for outcome in BindOutcome:
            binds.labels(outcome.value)
        seconds = Histogram(
            f"{PREFIX}bind_seconds",
            "Time from a bind call to its answer, including the time that the pod waited for others.",
            buckets=_BUCKETS,
            registry=registry,
        )
        return cls(binds, seconds)


@dataclass(eq=False, kw_only=True, slots=True)
class Binder:
    """Binds pods through `write`, while it `acts_for` longer than that takes; without `write` it refuses.

    A pod waits at most `patience` seconds for others on its node. One that must be aligned is bound to a node
    without topology only if such nodes `may-fit`.
    """

    state: SchedulerState
    write: Write | None
    acts_for: Callable[[], float]
    patience: float
    unknown: Literal["cannot-fit", "may-fit"]
    log: Log
    metrics: BindMetrics
    clock: Callable[[], float]
    sleep: Sleep = asyncio.sleep
    _quiet_log: QuietLog = field(init=False)
    _queues: dict[str, _Queue] = field(init=False, default_factory=dict)
    _working: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    _binding: set[str] = field(init=False, default_factory=set)
    _written: dict[str, _Written] = field(init=False, default_factory=dict)
    _many: int = field(init=False, default=FEW)

    def __post_init__(self) -> None:
        self._quiet_log = QuietLog(self.log, lines=MANY_LINES)
        self.state.reservations.on_change(self._node_changed)

    @property
    def remembered(self) -> tuple[int, int]:
        """The number of nodes to which pods are being bound, and of pods with known writes."""
        return len(self._queues), len(self._written)

    async def bind(self, call: BindingCall) -> str:
        """Bind a pod; return the reason if it fails, else an empty text."""
        began, pod = self.clock(), f"{call.namespace}/{call.name}"
        outcome, why = BindOutcome.BOUND, ""
        try:
            await self._binding_cycle(call)
        except _Refused as error:
            outcome, why = error.outcome, f"numalign: {error}"
        self.metrics.binds.labels(outcome.value).inc()
        self.metrics.seconds.observe(self.clock() - began)
        if why:
            fields = {"pod": pod, "node": call.node, "outcome": outcome.value, "reason": why}
            self._quiet_log.warning("bind.refused", **fields)
        else:
            self.log.info("bind.done", pod=pod, node=call.node)
        return why

    async def _binding_cycle(self, call: BindingCall) -> None:
        """Reserve, permit and bind in turn; raise `_Refused` without leaving anything of a failure."""
        deadline = self.clock() + self.patience
        if self.write is None or not self._leads():
            raise _Refused(
                BindOutcome.NOT_LEADING, "this replica does not hold the lease, so it binds no pods"
            )
        if call.uid in self._binding:
            raise _Refused(BindOutcome.BEING_BOUND, "another call is binding this pod at the moment")
        self._binding.add(call.uid)
        try:
            await self._yield()
            await self.state.seen(call.uid, sleep=self.sleep)
            self._forget(call.uid)
            pod, written = self._pod(call), self._written.get(call.uid)
            if written:
                # It may be bound already. Its zones were kept meanwhile, and others waited for it.
                async with self._in_turn(call.node, deadline):
                    await self._bind(call, written.annotations, self.write)
                return
            reservation = self._reserve(call.node, pod)
            try:
                async with self._in_turn(call.node, deadline) as queue:
                    prediction = await self._permit(call.node, pod, reservation, queue, deadline)
                    await self._bind(call, self._annotations(call.node, prediction), self.write)
            except (_Refused, asyncio.CancelledError):
                self._unreserve(call.uid)
                raise
        finally:
            self._binding.discard(call.uid)

    def _leads(self) -> bool:
        """Return whether a bind started now ends before another replica may bind."""
        return self.acts_for() > BIND_SECONDS

    async def _yield(self) -> None:
        """Let all other tasks run: one pod is processed between any two of these."""
        async with self._working:
            await asyncio.sleep(0)

    def _forget(self, uid: str) -> None:
        """Forget what was written for pods that were seen since, or whose reservation has expired."""
        if not self.state.reservations.is_reserved(uid):
            self._written.pop(uid, None)
        if len(self._written) >= self._many:
            reserved = filter(self.state.reservations.is_reserved, self._written)
            self._written = {uid: self._written[uid] for uid in reserved}
            self._many = max(FEW, 2 * len(self._written))

    def _pod(self, call: BindingCall) -> PendingPod:
        """Return the pod; raise `_Refused` if it is gone, on a node already, or unknown."""
        assigned_pod, written = self.state.reservations.assigned_pod(call.uid), self._written.get(call.uid)
        node = self.state.reservations.node_of(call.uid)
        if assigned_pod and not assigned_pod.reserved:
            raise _Refused(BindOutcome.BOUND_ALREADY, f"the pod is already on node {node}")
        if written and written.done:
            raise _Refused(BindOutcome.BOUND_ALREADY, f"the pod was bound to node {node} a moment ago")
        if written and node != call.node:
            raise _Refused(
                BindOutcome.UNCERTAIN, f"it is not yet known whether the pod was bound to node {node}"
            )
        pod = self.state.waiting(call.uid)
        if pod is None and call.uid in self.state.pods:
            raise _Refused(
                BindOutcome.UNKNOWN_POD,
                "its requests are invalid or too large, or its namespace is not known yet",
            )
        if pod is None:
            raise _Refused(BindOutcome.UNKNOWN_POD, "no pending pod has this UID; it may have been deleted")
        if (pod.namespace, pod.name) != (call.namespace, call.name):
            raise _Refused(BindOutcome.UNKNOWN_POD, f"the pod with this uid is {pod.namespace}/{pod.name}")
        return pod

    # Reserve.

    def _predict(self, node: str, pod: PendingPod) -> Prediction | None:
        """Return the node's prediction, with all earlier reservations and no later ones."""
        return self.state.predict(node, pod, without=self.state.reservations.reserved_since(pod.uid))

    def _reserve(self, node: str, pod: PendingPod) -> _Reservation:
        """Evaluate the node once more, and reserve what it offers; raise `_Refused`."""
        # In the same step as the reservation, which counts at once for all other pods of the namespace.
        if why := self.state.over_quota(pod, node=node):
            raise _Refused(BindOutcome.OVER_QUOTA, why)
        new = self.state.reservations.node_of(pod.uid) is None
        prediction = self._predict(node, pod)
        if prediction is None or not prediction.verdict.answered:
            if self.unknown == "cannot-fit" and pod.question.intent.binding:
                why = node_answers.reason(prediction.verdict) if prediction else node_answers.NO_TOPOLOGY
                raise _Refused(BindOutcome.LOST, f"{node}: {why}")
        elif prediction.verdict.refused:
            raise _lost(prediction)
        self.state.reservations.reserve(node, pod.assigned_pod(now=self.clock()), prediction)
        # A renewed reservation comes after those that it preceded, which may change its zones.
        return _Reservation(prediction if new else None, self.state.reservations.node_info(node))

    def _unreserve(self, uid: str) -> None:
        """Release the zones; if the pod may be bound, keep them until it is seen or that expires."""
        if uid in self._written:
            self.state.reservations.mark_unconfirmed(uid)
        else:
            self.state.reservations.unreserve(uid)

    # Permit.

    @contextlib.asynccontextmanager
    async def _in_turn(self, node: str, deadline: float) -> AsyncIterator[_Queue]:
        """Wait until the pods before have been bound to the node, or have failed.

        Raise `_Refused` after the deadline: with a slow API server each of them may take seconds.
        """
        queue = self._queues.setdefault(node, _Queue())
        queue.pods += 1
        try:
            await self._turn_of(queue, node, deadline)
            try:
                yield queue
            finally:
                queue.turn.release()
        finally:
            queue.pods -= 1
            if not queue.pods:
                del self._queues[node]

    async def _turn_of(self, queue: _Queue, node: str, deadline: float) -> None:
        """Acquire the turn; raise `_Refused` after the deadline."""
        if queue.pods == 1:
            await queue.turn.acquire()
            return
        acquiring = asyncio.ensure_future(queue.turn.acquire())
        timer = asyncio.ensure_future(self.sleep(max(deadline - self.clock(), 0)))
        try:
            await asyncio.wait((acquiring, timer), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # A turn that was acquired already is given back; if all is cancelled at once, no task has it.
            if not acquiring.cancel() and not acquiring.cancelled():
                queue.turn.release()
            raise
        finally:
            timer.cancel()
        if acquiring.cancel():
            raise _Refused(BindOutcome.WAITED, f"{node}: {node_answers.WAITING}")

    async def _permit(
        self, node: str, pod: PendingPod, reservation: _Reservation, queue: _Queue, deadline: float
    ) -> Prediction | None:
        """Wait for the pods that the kubelet has to admit first; raise `_Refused` after the deadline.

        The prediction is then reserved in place of the earlier one, and returned; None without a prediction.
        """
        # A pod that did not have to wait has a prediction that is a moment old.
        if self.state.reservations.node_info(node) is not reservation.info:
            await self._yield()
        while True:
            queue.changed.clear()
            prediction = reservation.prediction
            # While others were bound, anything may have happened on the node.
            if prediction is None or self.state.reservations.node_info(node) is not reservation.info:
                prediction = self._predict(node, pod)
            if prediction is None or not prediction.verdict.answered:
                return None
            if not prediction.verdict.admitted:
                raise _lost(prediction)
            now = self.clock()
            late, risks = now >= deadline, self._risks(node, pod, now) if prediction.reservable else ()
            # Deleted pods may take long to leave; then the zones of the pod are not certain, and that is all.
            if not risks and (prediction.reservable or (late and not prediction.waits_for)):
                self.state.reservations.update_reservation(pod.uid, prediction)
                return prediction
            if late:
                raise _Refused(BindOutcome.WAITED, f"{node}: {node_answers.WAITING}")
            # Time alone may change the prediction, too.
            self.state.reservations.free_capacity(node, now=now)
            settled = [risk.since + NOTIFICATION_SECONDS + _A_MOMENT for risk in risks if risk.admitted]
            until = min([deadline, self.state.reservations.valid_until(node), *settled])
            await self._change_of(queue, max(until - now, 0))
            await self._yield()

    def _risks(self, node: str, pod: PendingPod, now: float) -> tuple[AssignedPod, ...]:
        since = self.state.reservations.reserved_since(pod.uid)
        question = pod.question
        return self.state.reservations.at_risk(node, question.demand, question.intent, now=now, without=since)

    def _node_changed(self, node: str) -> None:
        if queue := self._queues.get(node):
            queue.changed.set()

    async def _change_of(self, queue: _Queue, seconds: float) -> None:
        """Wait for a change of the node, at most this long, and a little longer for more of them."""
        tasks = [asyncio.ensure_future(wait) for wait in (queue.changed.wait(), self.sleep(seconds))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        if queue.changed.is_set():
            await self.sleep(LOOK_SECONDS)

    # Bind.

    def _annotations(self, node: str, prediction: Prediction | None) -> Mapping[str, str]:
        """Return the annotations for the pod: its placement, or nothing if that is not certain."""
        info = self.state.reservations.node_info(node)
        if prediction is None or prediction.record is None or info is None:
            return {}
        return {intent.PLACEMENT: placements.write(prediction.verdict.placement.kept, info.node)}

    async def _bind(self, call: BindingCall, annotations: Mapping[str, str], write: Write) -> None:
        """Bind and record in one call; raise `_Refused` if the API server refuses."""
        # The lead may have been lost while waiting.
        if not self._leads():
            why = "this replica lost the lease, so it binds no pods"
            raise _Refused(BindOutcome.NOT_LEADING, why)
        again = call.uid in self._written
        self._written[call.uid] = _Written(annotations)
        try:
            await write(
                namespace=call.namespace,
                name=call.name,
                uid=call.uid,
                node=call.node,
                annotations=annotations,
            )
        except (Conflict, Forbidden, InvalidObject, NotFound, Unauthorized) as error:
            if not again:
                del self._written[call.uid]
            raise _Refused(_OUTCOMES.get(type(error), BindOutcome.REFUSED), str(error)) from error
        except ClusterError as error:
            raise _Refused(BindOutcome.UNCERTAIN, str(error)) from error
        self._written[call.uid] = _Written(annotations, done=True)


_A_MOMENT = 0.001


def _lost(prediction: Prediction) -> _Refused:
    why = node_answers.reason(prediction.verdict)
    return _Refused(BindOutcome.LOST, f"the NUMA zones were taken by another pod in the meantime: {why}")


_OUTCOMES: Mapping[type[ClusterError], BindOutcome] = MappingProxyType(
    {Conflict: BindOutcome.BOUND_ALREADY, NotFound: BindOutcome.UNKNOWN_POD}
)
