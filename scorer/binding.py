"""
Compare and bind: a pod is bound only with its zones kept for it.

Whatever a scheduler's caches said when it chose the node, the node is asked once more, what it offers is kept
in the same step, and one call to the API server binds the pod and writes down its placement. Where the offer
is gone the bind is refused and the scheduler tries again, which costs milliseconds; a pod that bounces off a
kubelet costs its owner a new pod.

Pods of one node are bound in the order in which they were promised their zones, for in that order the kubelet
takes them. A pod that would find other zones if the kubelet took it first waits until those before it are in.

A call that nobody answered may have bound its pod, or may do so in a moment. So the pod keeps its zones, and
when the scheduler comes again the very same is written again: only that tells what became of it.

A thousand pods may be bound at once. Whoever waits for its node is woken by what happens there and looks at
nothing meanwhile, and between any two that are worked on everybody else has a turn.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Histogram

from numalign.kube.bindings import BIND_SECONDS
from numalign.kube.client import ClusterError, Conflict, Forbidden, NotFound, Unauthorized
from numalign.kube.decode import placement_records
from numalign.ledger.model import AssignedPod, NodeInfo, Prediction
from numalign.ledger.reservations import NEWS_SECONDS
from numalign.model import intent
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import MANY_LINES, Log, QuietLog
from numalign.runtime.metrics import PREFIX
from scorer import reasons
from scorer.extender_protocol import BindingCall
from scorer.scheduler_state import PendingPod, SchedulerState

LOOK_SECONDS = 0.02
"""How long a pod that waits lets news gather, once it has looked whether it still has to."""

FEW = 64
"""So many pods of which it is known what was written are not looked through."""

_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

Write = Callable[..., Awaitable[None]]
"""`bindings.bind` with its API server: namespace, name, uid, node and annotations by keyword."""


class BindOutcome(StrEnum):
    """What became of a call to bind, as a label."""

    BOUND = "bound"
    NOT_LEADING = "not_leading"
    UNKNOWN_POD = "unknown_pod"
    BOUND_ALREADY = "bound_already"
    BEING_BOUND = "being_bound"
    LOST = "lost"
    WAITED = "waited"
    REFUSED = "refused"
    UNCERTAIN = "uncertain"


class _Refused(Exception):
    """Raised when a pod cannot be bound, with the sentence that the scheduler prints."""

    def __init__(self, outcome: BindOutcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class _Sent:
    """What was written of a pod that is not seen on its node yet; `done` if the API server said so."""

    annotations: Mapping[str, str]
    done: bool = False


@dataclass(slots=True)
class _Queue:
    """The pods that are to be bound to one node: one at a time, in turn. `news` tells of anything there."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    pods: int = 0


@dataclass(frozen=True, slots=True)
class _First:
    """What a node offered when the pod was promised it, and what was known of it then."""

    account: NodeInfo | None
    offer: Prediction | None


@dataclass(frozen=True, slots=True)
class BindMetrics:
    """What is counted of binds."""

    binds: Counter
    seconds: Histogram

    @classmethod
    def of(cls, registry: CollectorRegistry) -> "BindMetrics":
        """BindMetrics that this registry shows."""
        binds = Counter(f"{PREFIX}binds", "Calls to bind a pod, by outcome.", ["outcome"], registry=registry)
        for outcome in BindOutcome:
            binds.labels(outcome.value)
        seconds = Histogram(
            f"{PREFIX}bind_seconds",
            "From a call to bind to its answer, with the time that the pod waited for others.",
            buckets=_BUCKETS,
            registry=registry,
        )
        return cls(binds, seconds)


class Binder:
    """Binds pods through `write`, as long as it `acts_for` longer than that takes; without one it refuses.

    A pod waits at most `patience` seconds for others on its node. One that must be aligned is bound to a node
    without topology only if such nodes `may-fit`.
    """

    def __init__(  # noqa: PLR0913  what it works with, and its time
        self,
        register: SchedulerState,
        *,
        write: Write | None,
        acts_for: Callable[[], float],
        patience: float,
        unknown: Literal["cannot-fit", "may-fit"],
        log: Log,
        meters: BindMetrics,
        clock: Callable[[], float],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._register = register
        self._write = write
        self._acts_for = acts_for
        self._patience = patience
        self._unknown = unknown
        self._log = log
        self._quiet_log = QuietLog(log, lines=MANY_LINES)
        self._meters = meters
        self._clock = clock
        self._sleep = sleep
        self._queues: dict[str, _Queue] = {}
        self._work = asyncio.Lock()
        self._busy: set[str] = set()
        self._sent: dict[str, _Sent] = {}
        self._many = FEW
        register.reservations.on_change(self._heard)

    @property
    def remembered(self) -> tuple[int, int]:
        """To how many nodes pods are being bound, and of how many pods it is known what was written."""
        return len(self._queues), len(self._sent)

    async def bind(self, call: BindingCall) -> str:
        """Bind a pod; the reason why not, or an empty text."""
        began = self._clock()
        try:
            await self._bound(call)
            outcome, why = BindOutcome.BOUND, ""
        except _Refused as no:
            outcome, why = no.outcome, f"numalign: {no}"
        self._meters.binds.labels(outcome.value).inc()
        self._meters.seconds.observe(self._clock() - began)
        pod = f"{call.namespace}/{call.name}"
        if why:
            told = {"pod": pod, "node": call.node, "outcome": outcome.value, "reason": why}
            self._quiet_log.warning("bind.refused", **told)
        else:
            self._log.info("bind.done", pod=pod, node=call.node)
        return why

    async def _bound(self, call: BindingCall) -> None:
        until = self._clock() + self._patience
        if self._write is None or not self._leads():
            raise _Refused(BindOutcome.NOT_LEADING, "this replica does not hold the lease, and binds nothing")
        if call.uid in self._busy:
            raise _Refused(BindOutcome.BEING_BOUND, "the pod is being bound by another call at this moment")
        self._busy.add(call.uid)
        try:
            await self._others()
            self._forget(call.uid)
            subject, sent = self._known(call), self._sent.get(call.uid)
            if sent:
                await self._again(call, sent, self._write)
            else:
                await self._promised(call, subject, self._write, until=until)
        finally:
            self._busy.discard(call.uid)

    def _leads(self) -> bool:
        """Whether a bind that is begun now is over before anybody else may bind."""
        return self._acts_for() > BIND_SECONDS

    async def _others(self) -> None:
        """Let everybody else have a turn: between any two of these one pod is worked on."""
        async with self._work:
            await asyncio.sleep(0)

    def _forget(self, uid: str) -> None:
        """Of pods that were seen since, or whose promise has expired, it is no matter what was written."""
        reservations = self._register.reservations
        if not reservations.is_reserved(uid):
            self._sent.pop(uid, None)
        if len(self._sent) >= self._many:
            self._sent = {each: sent for each, sent in self._sent.items() if reservations.is_reserved(each)}
            self._many = max(FEW, 2 * len(self._sent))

    def _heard(self, node: str) -> None:
        """Something has happened on a node."""
        if queue := self._queues.get(node):
            queue.news.set()

    @contextlib.asynccontextmanager
    async def _in_turn(self, node: str) -> AsyncIterator[_Queue]:
        """Wait until the pods before have been bound to the node, or have not."""
        queue = self._queues.setdefault(node, _Queue())
        queue.pods += 1
        try:
            async with queue.turn:
                yield queue
        finally:
            queue.pods -= 1
            if not queue.pods:
                del self._queues[node]

    def _known(self, call: BindingCall) -> PendingPod:
        """The pod; raises `_Refused` for one that is gone, on a node already, or was never heard of."""
        assigned_pod = self._register.reservations.assigned_pod(call.uid)
        place = self._register.reservations.node_of(call.uid)
        if assigned_pod and not assigned_pod.reserved:
            raise _Refused(BindOutcome.BOUND_ALREADY, f"the pod is on node {place} already")
        sent = self._sent.get(call.uid)
        if sent and sent.done:
            raise _Refused(BindOutcome.BOUND_ALREADY, f"the pod was bound to node {place} a moment ago")
        if sent and place != call.node:
            raise _Refused(BindOutcome.UNCERTAIN, f"nobody knows yet whether the pod is on node {place}")
        subject = self._register.waiting(call.uid)
        if subject is None:
            raise _Refused(BindOutcome.UNKNOWN_POD, "no pod with this uid waits for a node: it may be gone")
        if (subject.namespace, subject.name) != (call.namespace, call.name):
            raise _Refused(
                BindOutcome.UNKNOWN_POD, f"the pod with this uid is {subject.namespace}/{subject.name}"
            )
        return subject

    async def _promised(self, call: BindingCall, subject: PendingPod, write: Write, *, until: float) -> None:
        """Keep zones for the pod, bind it in its turn, and let go of them if that fails."""
        offer = self._promise(call.node, subject)
        first = _First(self._register.reservations.node_info(call.node), offer)
        try:
            async with self._in_turn(call.node) as queue:
                offer = await self._settled(call.node, subject, first, queue, until=until)
                await self._written(call, self._placement(call.node, offer), write)
        except (_Refused, asyncio.CancelledError):
            # What may have been written is kept, until the pod is seen or the promise expires.
            if call.uid in self._sent:
                self._register.reservations.mark_unconfirmed(call.uid)
            else:
                self._register.reservations.unreserve(call.uid)
            raise

    async def _again(self, call: BindingCall, sent: _Sent, write: Write) -> None:
        """Bind a pod that may be bound already: its zones were kept meanwhile, and others waited for it."""
        async with self._in_turn(call.node):
            await self._written(call, sent.annotations, write)

    def _promise(self, node: str, subject: PendingPod) -> Prediction | None:
        """Ask the node once more, and keep what it offers.

        What it offers, unless that may be another thing by now: a pod that is promised anew comes after those
        that it was before. None as well for a node that nobody knows.
        """
        new = self._register.reservations.node_of(subject.uid) is None
        offer = self._offer(node, subject)
        why = _unsaid(offer)
        if why and self._unknown == "cannot-fit" and subject.question.intent.binding:
            raise _Refused(BindOutcome.LOST, f"{node}: {why}")
        if offer and offer.verdict.refused:
            raise _lost(offer)
        self._keep(node, subject, offer)
        return offer if new else None

    def _keep(self, node: str, subject: PendingPod, offer: Prediction | None) -> None:
        self._register.reservations.reserve(node, subject.assigned_pod(now=self._clock()), offer)

    def _offer(self, node: str, subject: PendingPod) -> Prediction | None:
        """What the node says, all that was promised before this pod counted and nothing after it."""
        return self._register.predict(
            node, subject, without=self._register.reservations.reserved_since(subject.uid)
        )

    async def _settled(
        self, node: str, subject: PendingPod, first: _First, queue: _Queue, *, until: float
    ) -> Prediction | None:
        """Wait until the pod may be bound; what the node offers then is kept in place of the first offer."""
        # Whoever had nobody before it has not waited, and its offer is a moment old.
        if self._register.reservations.node_info(node) is not first.account:
            await self._others()
        while True:
            queue.news.clear()
            # While others were bound, anything may have happened on the node.
            same = first.offer and self._register.reservations.node_info(node) is first.account
            offer = first.offer if same else self._offer(node, subject)
            if offer is None or not offer.verdict.answered:
                return None
            if not offer.verdict.admitted:
                raise _lost(offer)
            late = self._clock() >= until
            risks = self._risks(node, subject) if offer.reservable else ()
            # Whoever leaves may take long; then nobody can say where the pod will sit, and that is all.
            if not risks and (offer.reservable or (late and not offer.waits_for)):
                self._register.reservations.update_reservation(subject.uid, offer)
                return offer
            if late:
                raise _Refused(BindOutcome.WAITED, f"{node}: {reasons.WAITING}")
            await self._woken(queue, min(until, self._until(node, risks)) - self._clock())
            await self._others()

    async def _woken(self, queue: _Queue, seconds: float) -> None:
        """Wait for news of the node, and a little longer for more of them, but no longer than so."""
        wait = [asyncio.ensure_future(each) for each in (queue.news.wait(), self._sleep(max(seconds, 0)))]
        try:
            await asyncio.wait(wait, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in wait:
                each.cancel()
        if queue.news.is_set():
            await self._sleep(LOOK_SECONDS)

    def _until(self, node: str, risks: tuple[AssignedPod, ...]) -> float:
        """When time alone may change what a node says to a pod that has to wait."""
        reservations = self._register.reservations
        reservations.free_capacity(node, now=self._clock())
        over = [each.since + NEWS_SECONDS + _A_MOMENT for each in risks if each.admitted]
        return min([reservations.valid_until(node), *over])

    def _risks(self, node: str, subject: PendingPod) -> tuple[AssignedPod, ...]:
        """Pods that were taken in a moment ago, for which this one could be refused."""
        reservations = self._register.reservations
        beside = reservations.reserved_since(subject.uid)
        demand = subject.question.demand
        return reservations.at_risk(node, demand, now=self._clock(), without=beside)

    async def _written(self, call: BindingCall, annotations: Mapping[str, str], write: Write) -> None:
        """One call binds and records; raises `_Refused` for what the API server makes of it."""
        # Whoever waited may have lost the lead meanwhile.
        if not self._leads():
            raise _Refused(
                BindOutcome.NOT_LEADING, "this replica has lost the lease, and binds nothing any more"
            )
        again = call.uid in self._sent
        self._sent[call.uid] = _Sent(annotations)
        try:
            await write(
                namespace=call.namespace,
                name=call.name,
                uid=call.uid,
                node=call.node,
                annotations=annotations,
            )
        except (Conflict, Forbidden, NotFound, Unauthorized) as error:
            if not again:
                del self._sent[call.uid]
            raise _Refused(_OUTCOMES.get(type(error), BindOutcome.REFUSED), str(error)) from error
        except ClusterError as error:
            raise _Refused(BindOutcome.UNCERTAIN, str(error)) from error
        self._sent[call.uid] = _Sent(annotations, done=True)

    def _placement(self, node: str, offer: Prediction | None) -> Mapping[str, str]:
        """What is written on the pod: nothing, where nobody can be certain."""
        account = self._register.reservations.node_info(node)
        if offer is None or offer.record is None or account is None:
            return {}
        return {intent.PLACEMENT: placement_records.write(offer.verdict.placement.kept, account.node)}


_A_MOMENT = 0.001


def _unsaid(offer: Prediction | None) -> str:
    """Why a node does not say where the pod would come to; empty if it does, or refuses the pod."""
    if offer is None:
        return reasons.UNKNOWN
    return "" if offer.verdict.answered else reasons.reason(offer.verdict)


def _lost(offer: Prediction) -> _Refused:
    why = reasons.reason(offer.verdict)
    return _Refused(BindOutcome.LOST, f"the zones went to another pod meanwhile: {why}")


_OUTCOMES: Mapping[type[ClusterError], BindOutcome] = MappingProxyType(
    {Conflict: BindOutcome.BOUND_ALREADY, NotFound: BindOutcome.UNKNOWN_POD}
)
