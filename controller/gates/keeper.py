"""
The gate keeper: decides which pod is placed next, and which must not wait any longer.

A pass goes through all waiting pods in order. A pod that fits gets a reservation at once, so that no later
pod takes the same zones, and is pinned concurrently with others. A pod with a request that failed earlier in
the pass is skipped. Reading and writing pods takes time on the API server, so it is done for several at once;
decisions are made in order.

Only pods whose namespace asks for gates are pinned. Others, whose owner wrote the gate, are let go.

The gate of a pod that waits longer than its patience is lifted without a pin. The same write keeps the pod
off nodes whose kubelets would reject it (`controller.gates.exclusion`), and where that is impossible, the
gate stays. Whatever happens to this program or its data, no other gate does: if a pod cannot be read, or
nothing is known of nodes, a write that does not depend on that lifts it.
"""

import asyncio
import math
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from heapq import nlargest
from operator import itemgetter

from controller.gates.choosing import Chooser, ChosenNode, NoNode
from controller.gates.exclusion import Excluded, Exclusion, KeepGate, KeepReason
from controller.gates.metrics import GateMetrics, Lift
from controller.gates.pin import PinTarget, gates_of, term_count
from controller.gates.pods import GatedPods, LiftGate, PinWriter, ReadPod, WantedPlacement, aspects
from controller.gates.queue import NEWS_LOST_SECONDS, GatedPod, GateQueue
from controller.gates.turns import NamespaceTurns
from numalign.cache import Question
from numalign.kube.bindings import BIND_SECONDS
from numalign.kube.errors import ClusterError, Forbidden, InvalidObject, NotFound
from numalign.kube.events import Event, Type
from numalign.kube.kinds import Object
from numalign.kube.pod_informer import PodInfo
from numalign.ledger.reservations import NOTIFICATION_SECONDS
from numalign.lru import LRU, Caches
from numalign.model.constraints import Constraints
from numalign.model.errors import BadInput, cut
from numalign.model.intent import GATE, PLACEMENT_GATE
from numalign.model.node import node_label
from numalign.runtime.clock import Sleep
from numalign.runtime.cooperative import TimeSlice
from numalign.runtime.logs import Log
from numalign.scheduling.binding import Binder, BindingCall
from numalign.scheduling.scheduler_state import SchedulerState, UnknownNamespace

TURN_SECONDS = 1.0
"""Interval in seconds between passes without changes."""

GATHER_SECONDS = 0.02
"""Seconds during which changes are gathered before a pass."""

HANDOVER_SECONDS = BIND_SECONDS + NOTIFICATION_SECONDS
"""Seconds of leading after which the pins of the last leader are complete, and have been seen in the
watch."""

GRACE_SECONDS = HANDOVER_SECONDS + 4.0
"""Seconds during which a new leader lifts no gate without a pin, because it has pins to catch up on."""

AT_ONCE = 128
"""Most pods that are being pinned at once; most of them wait for others on their node."""

LIFTS_AT_ONCE = 32
OVERDUE_AT_ONCE = 64
"""Most overdue pods of one namespace that are evaluated or wait for it; the others may still be pinned."""

AHEAD = 16
"""Pods that are read ahead of their turn."""

TURN_PATIENCES = 2.0
"""Multiple of its patience that a pod waits if some node may have room for it."""

REMEMBERED = 4096
"""Most waiting pods whose requests are remembered."""

REREAD_SECONDS = 10.0
"""Seconds until they are read again: a waiting pod may get more tolerations, and no event reports it."""

SETTLE_SECONDS = 5.0
"""Seconds after which the settings of a pod's namespace are known here as they were when it was created."""

MOST_MISSES = 16
"""Most different requests of one namespace without a node in one pass; further ones wait for the next."""

MOST_NEW_MISSES = 64
"""The same for pods that are tried for the first time."""

OVER_QUOTA = "NUMAOverQuota"
"""The reason of the event about a pod that waits for the quota of its namespace."""

_SHOWN = 400
"""Most characters of a reason."""

_Turn = tuple[int, int]
"""The sort key of a pod whose turn it is: its priority, and what its namespace holds and wants before it."""

_PlacementQuestion = tuple[Question, Constraints]


@dataclass(frozen=True, slots=True)
class _Remembered:
    """What a pod in the version of the informer requests, and when it was read."""

    pod: PodInfo
    wanted: WantedPlacement
    at: float


@dataclass(slots=True)
class _Misses:
    """
    Requests for which a pass found no node, with the reasons, and how many each namespace made.

    A request of a namespace with a quota counts for that namespace, any other one for "". `lacking` are the
    namespaces whose pods found no room before.
    """

    lacking: frozenset[str]
    reasons: dict[tuple[_PlacementQuestion, str], NoNode] = field(default_factory=dict)
    namespaces: Counter[str] = field(default_factory=Counter)


@dataclass(eq=False, kw_only=True)
class GateKeeper:
    """
    Pins pods and lifts gates while `leading` returns True.

    A pod waits `patience` seconds for zones, forever if that is 0. `clock` is in seconds.
    """

    state: SchedulerState
    chooser: Chooser
    exclusion: Exclusion
    binder: Binder
    pods: GatedPods
    pins: PinWriter
    queue: GateQueue
    turns: NamespaceTurns
    metrics: GateMetrics
    leading: Callable[[], bool]
    publish: Callable[[Event], None]
    pinned: Callable[[PodInfo, str], None]
    patience: float
    log: Log
    clock: Callable[[], float]
    sleep: Sleep = asyncio.sleep
    _changed: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _busy: dict[str, asyncio.Task[None]] = field(init=False, default_factory=dict)
    _remembered: LRU[str, _Remembered] = field(init=False)
    _pinning: asyncio.Semaphore = field(init=False)
    _lifting: asyncio.Semaphore = field(init=False)
    _overdue: dict[str, str] = field(init=False, default_factory=dict)
    _led_since: float = field(init=False, default=math.inf)

    def __post_init__(self) -> None:
        self._remembered = LRU(REMEMBERED, large=lambda _uid, remembered: remembered.wanted.pending.large)
        self._pinning, self._lifting = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(LIFTS_AT_ONCE)
        self.state.reservations.on_change(lambda _node: self._changed.set())

    def caches(self) -> Caches:
        """Return the caches of waiting pods."""
        return {"gated": self._remembered}

    def update_pod(self, pod: PodInfo, _before: PodInfo | None) -> None:
        """Handle a pod that was added or changed."""
        if PLACEMENT_GATE in pod.gates or self.queue.get(pod.uid):
            self.queue.update(pod, now=self.clock())
            self._changed.set()

    # Placing.

    async def place(self) -> None:
        """Pin every pod that fits, whenever anything has changed; never returns."""
        while True:
            waits = self._changed.wait(), self.sleep(TURN_SECONDS)
            tasks = [asyncio.ensure_future(wait) for wait in waits]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
            await self.sleep(GATHER_SECONDS)
            self._changed.clear()
            if self._may_pin():
                await self._pass()

    def _leads_for(self) -> float:
        """Return for how many seconds this replica leads; -inf if it does not."""
        now = self.clock()
        self._led_since = min(self._led_since, now) if self.leading() else math.inf
        return now - self._led_since

    def _may_pin(self) -> bool:
        """Return whether the nodes are known, and the writes of the last leader are complete."""
        return self._leads_for() >= HANDOVER_SECONDS and self.state.cluster.listed

    async def _pass(self) -> None:
        misses, due = _Misses(self.queue.lacking()), self._due()
        async for gated, read in self._read_ahead(due):
            if not self._may_pin():
                return
            if not self._is_taken(gated):
                try:
                    await self._place_one(gated, read, misses)
                except Exception as error:  # noqa: BLE001  an error with one pod must not delay others
                    self._failed(gated, error)

    def _due(self) -> list[GatedPod]:
        """
        Return the pods to place now, in order: by priority, then namespaces in turn, then older ones first.

        These are the pods whose time has come, and those before one of a lower priority or of another
        namespace: room that has just become free must not go to a pod only because it is new.
        """
        now, is_gated, ranks = self.clock(), cache(self.state.is_gated), Counter[tuple[int, str]]()
        unused = cache(self.turns.unused)
        due, waiting = list[GatedPod](), list[tuple[_Turn, GatedPod]]()
        last: dict[tuple[int, str], _Turn] = {}
        for gated in self._waiting():
            namespace, priority = gated.pod.namespace, gated.pod.priority
            if not (gated.alone and now >= gated.retry and is_gated(namespace)):
                continue
            turn = -priority, unused(namespace) + ranks[priority, namespace]
            ranks[priority, namespace] += 1
            waiting.append((turn, gated))
            if now >= gated.due:
                last[priority, namespace] = turn
        ends = nlargest(2, last.items(), key=itemgetter(1))
        for turn, gated in sorted(waiting, key=itemgetter(0)):
            of_others = (end for of, end in ends if of != (gated.pod.priority, gated.pod.namespace))
            if now >= gated.due or turn < next(of_others, turn):
                due.append(gated)
        return due

    def _waiting(self) -> list[GatedPod]:
        gated = self.queue.in_order()
        for gone in [one.pod.uid for one in gated if one.pod.uid not in self.state.pods]:
            self.queue.drop(gone)
        return [one for one in gated if one.pod.uid in self.state.pods and one.pod.uid not in self._busy]

    async def _read_ahead(
        self, due: Iterable[GatedPod]
    ) -> AsyncIterator[tuple[GatedPod, ReadPod | WantedPlacement | LiftGate]]:
        """Yield what each pod requests, in order; some pods are read while earlier ones are placed."""
        reads: deque[tuple[GatedPod, asyncio.Task[ReadPod | LiftGate | None] | WantedPlacement]] = deque()
        waiting, time_slice = deque(due), TimeSlice()
        try:
            while waiting or reads:
                while waiting and len(reads) < AHEAD:
                    await time_slice.share()
                    gated = waiting.popleft()
                    reads.append((gated, self._known(gated) or asyncio.ensure_future(self._read(gated))))
                gated, reading = reads.popleft()
                read = await reading if isinstance(reading, asyncio.Task) else reading
                if read is not None:
                    yield gated, read
        finally:
            for _, task in reads:
                if isinstance(task, asyncio.Task):
                    task.cancel()

    def _known(self, gated: GatedPod) -> WantedPlacement | None:
        """Return what a pod requests, if it was read a short time ago and has not changed since."""
        known = self._remembered.peek(gated.pod.uid)
        current = known and known.pod is gated.pod and self.clock() < known.at + REREAD_SECONDS
        return known.wanted if known and current else None

    async def _read(self, gated: GatedPod) -> ReadPod | LiftGate | None:
        """Return the pod as it is now; None if it cannot be read, or no longer waits."""
        self._remembered.drop(gated.pod.uid)
        try:
            raw = await self.pods.read(gated.pod)
        except NotFound:
            self.queue.drop(gated.pod.uid)
            return None
        except ClusterError as error:
            gated.why = f"the pod could not be read: {error}"
            gated.not_evaluated(now=self.clock())
            return None
        try:
            return self._parsed(gated, raw)
        except Exception as error:  # noqa: BLE001  an error with one pod must not delay others
            self._failed(gated, error)
            return None

    def _parsed(self, gated: GatedPod, raw: Object) -> ReadPod | LiftGate | None:
        """Return what the pod requests; None if other gates hold it, or ours no longer does."""
        if gates_of(raw) != (PLACEMENT_GATE,):
            # The watch will report it in a moment.
            gated.postponed("", now=self.clock())
            return None
        try:
            wanted = aspects(raw, self.state.pending_pod(raw))
        except UnknownNamespace as error:
            gated.why = str(error)
            gated.not_evaluated(now=self.clock())
            return None
        except BadInput as error:
            return LiftGate(f"its requests are invalid: {error}")
        if isinstance(wanted, LiftGate):
            return wanted
        self._remembered.put(gated.pod.uid, _Remembered(gated.pod, wanted, self.clock()))
        return ReadPod(raw, wanted)

    async def _place_one(
        self, gated: GatedPod, read: ReadPod | WantedPlacement | LiftGate, misses: _Misses
    ) -> None:
        """Choose a node for a pod, and start to pin it there."""
        if isinstance(read, LiftGate):
            self._begin(gated, self._lift(gated, read.why))
            return
        wanted = read.wanted if isinstance(read, ReadPod) else read
        pending, namespace = wanted.pending, gated.pod.namespace
        request = (pending.question, pending.constraints), namespace if self.state.quota(namespace) else ""
        # Pods of the same template may have found no node, but a place may have been held for this one.
        awaited = not wanted.unjudged and self.chooser.awaits(gated.pod, pending)
        if not awaited and (missed := misses.reasons.get(request)):
            self._missed(gated, missed, tried=False)
            return
        most = MOST_MISSES if gated.attempts else MOST_NEW_MISSES
        if not awaited and misses.namespaces[namespace] >= most:
            return
        contested = bool(misses.lacking - {namespace})
        if not awaited and (why := self.turns.why_not(namespace, contested=contested)):
            gated.postponed(why, now=self.clock())
            return
        await self._pinning.acquire()
        # A held place is reserved before any other pod has a turn.
        chosen: ChosenNode | NoNode | None = self.chooser.held(gated.pod, pending) if awaited else None
        if chosen is None:
            chosen = await self.chooser.choose(gated.pod, pending, spread=bool(wanted.unjudged))
        # Other tasks ran meanwhile.
        if self._is_taken(gated):
            self._pinning.release()
        elif isinstance(chosen, ChosenNode):
            target, reservations, uid = chosen.target, self.state.reservations, gated.pod.uid
            if reservations.is_reserved(uid) and (node := reservations.node_of(uid)):
                # An earlier write has an unknown result: the pod keeps that node.
                target = replace(target, node=node)
            else:
                reservations.reserve(target.node, pending.assigned_pod(now=self.clock()), chosen.prediction)
                self.turns.hold(uid, namespace)
            self._begin(gated, self._pin(gated, wanted, target, getattr(read, "raw", None)))
        else:
            self._pinning.release()
            misses.reasons[request] = chosen
            misses.namespaces[namespace] += 1
            self._missed(gated, chosen, tried=True)

    def _missed(self, gated: GatedPod, why: NoNode, *, tried: bool) -> None:
        """Let a pod wait for a node; `tried` if its own request was evaluated."""
        if why.over_quota:
            self._wait_for_quota(gated, why.over_quota)
        elif tried:
            gated.unschedulable(why.why, now=self.clock())
        else:
            gated.lacks_room(why.why)

    def _wait_for_quota(self, gated: GatedPod, why: str) -> None:
        """Let a pod wait for the quota of its namespace; report it when that begins."""
        pod = gated.pod
        if not gated.over_quota:
            text = f"numalign: {why}; its gate is lifted once the quota allows it"
            self.publish(Event(pod.namespace, pod.name, pod.uid, Type.WARNING, OVER_QUOTA, text))
        gated.waits_for_quota(why, now=self.clock())

    def _is_taken(self, gated: GatedPod) -> bool:
        """Return whether a pod is gone, or being worked on."""
        return self.queue.get(gated.pod.uid) is not gated or gated.pod.uid in self._busy

    def _begin(self, gated: GatedPod, work: Coroutine[object, object, None]) -> None:
        """Start work on a pod, so that nothing else is done about it meanwhile."""

        def ended(done: asyncio.Task[None]) -> None:
            self._busy.pop(gated.pod.uid, None)
            self._overdue.pop(gated.pod.uid, None)
            self._changed.set()
            if not done.cancelled() and isinstance(error := done.exception(), Exception):
                self._failed(gated, error)

        task = self._busy[gated.pod.uid] = asyncio.ensure_future(work)
        task.add_done_callback(ended)

    def _failed(self, gated: GatedPod, error: Exception) -> None:
        gated.not_evaluated(now=self.clock())
        self.log.failed("gate.internal_error", error)

    async def _pin(
        self, gated: GatedPod, wanted: WantedPlacement, target: PinTarget, raw: Object | None
    ) -> None:
        """Pin a pod that has a reservation; release the reservation unless the pod may have been pinned."""
        pod = gated.pod
        try:
            if raw is None:
                read = await self._read(gated)
                if not isinstance(read, ReadPod) or read.wanted.unjudged != wanted.unjudged:
                    return
                now, before = read.wanted.pending, wanted.pending
                if (now.question, now.constraints) != (before.question, before.constraints):
                    return
                raw = read.raw
            self.pins.prepare(pod.uid, raw, target)
            why = await self.binder.bind(BindingCall(pod.name, pod.namespace, pod.uid, target.node))
            if why:
                self._remembered.drop(pod.uid)
                gated.postponed(why, now=self.clock())
                return
            if target.hostnames:
                count = len(target.hostnames)
                nodes = "the one node that fits" if count == 1 else f"{count} nodes that fit"
                unjudged = " and ".join(wanted.unjudged)
                text = (
                    f"restricted to {nodes} now, because numalign does not evaluate its {unjudged}; its zones"
                    f" are reserved on node {target.node}"
                )
                self._lifted(gated, Lift.KEPT, text)
            else:
                text = f"pinned to node {target.node}, where its zones are reserved"
                self._lifted(gated, Lift.PINNED, text)
            self.pinned(pod, target.node)
        finally:
            self.pins.discard(pod.uid)
            self._pinning.release()
            assigned_pod = self.state.reservations.assigned_pod(pod.uid)
            if assigned_pod is None or (assigned_pod.reserved and not assigned_pod.unconfirmed):
                self.state.reservations.unreserve(pod.uid)
                self.turns.cancel(pod.uid)

    # Lifting.

    async def lift(self) -> None:
        """Lift the gates of pods that have waited too long; never returns."""
        while True:
            await self.sleep(TURN_SECONDS)
            time_slice, overdue = TimeSlice(), Counter(self._overdue.values())
            for gated in self._waiting():
                await time_slice.share()
                if self._leads_for() < GRACE_SECONDS or self._is_taken(gated):
                    continue
                namespace = gated.pod.namespace
                known = self.state.cluster.listed and self.state.knows(namespace)
                settled = known and gated.is_overdue(SETTLE_SECONDS, now=self.clock())
                if settled and not self.state.is_gated(namespace):
                    without = f"namespace {namespace} does not use gates (label {GATE})"
                    self._begin(gated, self._lift(gated, f"{without}, so nothing is reserved for it"))
                elif self._is_too_late(gated) and overdue[namespace] < OVERDUE_AT_ONCE:
                    overdue[namespace] += 1
                    self._overdue[gated.pod.uid] = namespace
                    self._begin(gated, self._lift_overdue(gated))

    def _is_too_late(self, gated: GatedPod) -> bool:
        """Return whether a pod has waited too long, for something else than the quota of its namespace."""
        # A pod that only waits for its turn gets more time: without a pin, a kubelet may reject it.
        patience = self.patience * (TURN_PATIENCES if gated.room and self.state.cluster.listed else 1.0)
        if not patience or not gated.is_overdue(patience, now=self.clock()):
            return False
        pending = None if gated.lacking else self.state.waiting(gated.pod.uid)
        # It may not have been tried since its quota was used up.
        why = self.state.over_quota(pending) if pending else ""
        if why:
            self._wait_for_quota(gated, why)
        return not why

    async def _lift(self, gated: GatedPod, why: str) -> None:
        async with self._lifting:
            await self._write_lift(gated, why, partial(self.pods.lift, gated.pod))

    async def _lift_overdue(self, gated: GatedPod) -> None:
        """Lift the gate of a pod, unless it would then go to a kubelet that rejects it."""
        why, lift = f"for {self.clock() - gated.since:.0f} s", partial(self.pods.lift, gated.pod)
        if gated.room:
            why = f"{why} it was queued behind other pods{f': {gated.why}' if gated.why else ''}"
        else:
            why = f"{why} no node had room: {gated.why or 'no reason is known'}"
        async with self._lifting:
            try:
                raw = await self.pods.read(gated.pod)
            except NotFound:
                self.queue.drop(gated.pod.uid)
                return
            except ClusterError:
                if gated.lacking:
                    # It was read before, and a kubelet may reject it.
                    gated.failed(now=self.clock())
                else:
                    await self._write_lift(gated, why, lift)
                return
            if gates_of(raw) != (PLACEMENT_GATE,):
                # The watch will report it in a moment.
                return
            found = await self._found(gated, raw)
            if isinstance(found, KeepGate):
                self._keep(gated, found)
            elif isinstance(found, LiftGate):
                await self._write_lift(gated, found.why, lift)
            elif found.nodes:
                exclude = partial(self.pods.exclude, raw, tuple(map(node_label, found.nodes)))
                error = await self._write_lift(gated, f"{why}; {found}", exclude)
                if isinstance(error, Forbidden | InvalidObject):
                    self._keep(gated, KeepGate(KeepReason.NOT_ALLOWED, f"nodes cannot be excluded: {error}"))
            else:
                await self._write_lift(gated, why, lift)

    async def _found(self, gated: GatedPod, raw: Object) -> Excluded | KeepGate | LiftGate:
        """Return which nodes to exclude, none if that cannot be found out, or why the gate stays or not."""
        try:
            read = self._parsed(gated, raw)
            if isinstance(read, ReadPod) and self.state.cluster.listed:
                return await self.exclusion.of(gated.pod, read.wanted.pending, terms=term_count(raw))
        except Exception as error:  # noqa: BLE001  no error of ours may keep a gate
            self._failed(gated, error)
            read = None
        return read if isinstance(read, LiftGate) else Excluded(())

    def _keep(self, gated: GatedPod, kept: KeepGate) -> None:
        """Look at a gate again later, and report why it stays."""
        if not gated.keeps(kept.reason, now=self.clock()):
            return
        pod = gated.pod
        self.metrics.kept.labels(kept.reason.value).inc()
        self.log.warning(
            "gate.kept", pod=f"{pod.namespace}/{pod.name}", why=kept.reason.value, reason=kept.why
        )
        text = f"numalign: the gate stays: {kept.why}"
        self.publish(Event(pod.namespace, pod.name, pod.uid, Type.WARNING, "NUMAGateKept", text))

    async def _write_lift(
        self, gated: GatedPod, why: str, write: Callable[[], Coroutine[object, object, None]]
    ) -> ClusterError | None:
        """Write, and return the error if that failed."""
        if not self.leading():
            return None
        # If the write or its watch event is lost, it is repeated.
        gated.failed(now=self.clock() + NOTIFICATION_SECONDS)
        try:
            await write()
        except NotFound:
            self.queue.drop(gated.pod.uid)
        except ClusterError as error:
            gated.why = str(error)
            return error
        else:
            self.turns.cancel(gated.pod.uid)
            self._lifted(gated, Lift.UNPINNED, why)
        return None

    def _lifted(self, gated: GatedPod, how: Lift, why: str) -> None:
        pod, seconds = gated.pod, max(0.0, self.clock() - gated.since)
        gated.retry = self.clock() + NEWS_LOST_SECONDS
        self.metrics.lifts.labels(how.value).inc()
        self.metrics.seconds.observe(seconds)
        text = cut(why, _SHOWN)
        name = f"{pod.namespace}/{pod.name}"
        self.log.info("gate.lifted", pod=name, how=how.value, seconds=round(seconds, 3), reason=text)
        kind, reason = Type.NORMAL, "NUMAPinned"
        if how is Lift.UNPINNED:
            kind, reason = Type.WARNING, "NUMAGateLifted"
        self.publish(Event(pod.namespace, pod.name, pod.uid, kind, reason, f"numalign: {text}"))
