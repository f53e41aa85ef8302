"""
The state of the scorer: nodes, the pods on them, and the default requests of pods.

Pods, nodes and namespaces arrive change by change, at once when the API server reports them. All end in one
ledger, from which all answers are computed. The content of a request counts only for its own pod: no caller
can claim room.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from functools import cache

from numalign.cache import Question, dra
from numalign.cache.pod_question import Invalid, PodQuestion
from numalign.cache.scheduler_cache import SchedulerCache
from numalign.decision.evaluate import NO_INTENT
from numalign.kube.cluster import Change, Cluster, NamespaceChanged, NodeChanged, NodeState, Settled
from numalign.kube.decode.parts import Part
from numalign.kube.decode.pod_reader import PodReader, PodReading
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.files.policy import ClusterPolicy
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.pod_informer import PodInfo
from numalign.ledger import claims
from numalign.ledger.model import AssignedPod, PlacementRecord, Prediction, Source, Stage
from numalign.ledger.reservations import Reservations
from numalign.lru import LRU, Caches, is_large
from numalign.model.constraints import ANYWHERE, Constraints
from numalign.model.demand import WHOLE_POD, Demand, Step
from numalign.model.errors import BadInput, Mistake
from numalign.model.intent import Gate, Intent, Match
from numalign.model.pod import Qos, Role
from numalign.model.resources import EMPTY
from numalign.runtime.clock import Sleep, least_age
from numalign.runtime.cooperative import patiently
from numalign.scheduling.cpu_quota import UNCOUNTED, CpuQuota
from numalign.scheduling.fingerprint_reader import PodFingerprintReader
from numalign.scheduling.pinned_pods import PinnedReservations

REMEMBERED = 1024
"""The limit of pods that were asked about and are not bound yet."""

AT_ONCE = 2
"""Nodes computed ahead before other tasks run: each takes a fraction of a millisecond."""

INTENTS_AT_ONCE = 256
"""Pods whose intent is updated before other tasks run."""

SEEN_SECONDS = 1.0
"""How long a call waits for its pod to be seen: schedulers and this program watch pods independently."""

MOST_WAITING = 16
"""Most calls that wait for pods at once: callers may invent pods, and each call holds its body meanwhile."""

TRY_SECONDS = 5.0
"""How long zones are reserved at a later try: a scheduler binds within that time, or not at all."""

LOOK_SECONDS = 0.05
"""How long changes are gathered before they are processed ahead."""


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod that a scheduler asks about.

    `question` has the intent, policy none if there is none, and what DRA serves. `created` is in whole
    seconds since 1970. `pod_question` is None for an exempt pod.
    """

    uid: str
    namespace: str
    name: str
    created: int
    question: Question
    pod_question: PodQuestion | None = None

    @property
    def opted_out(self) -> bool:
        """Whether the pod itself sets `none`."""
        return self.pod_question is not None and self.pod_question.opted_out

    @property
    def constraints(self) -> Constraints:
        """Where it may go; anywhere, if it was only seen waiting, because then a scheduler has checked it."""
        return self.pod_question.constraints if self.pod_question else ANYWHERE

    @property
    def demand(self) -> Demand:
        """The demand of its containers, without the distinction of what DRA serves."""
        demand = self.question.demand
        return replace(demand, by_dra=frozenset()) if demand.by_dra else demand

    @property
    def large(self) -> bool:
        """Whether it is too large to be cached by the thousand."""
        return (self.pod_question or self.question).large or is_large(self.namespace, self.name)

    def assigned_pod(self, *, now: float) -> AssignedPod:
        """Return the pod as the ledger stores it."""
        name, demand = (self.namespace, self.name), None if self.demand == _UNREAD else self.demand
        intent = self.question.intent
        return AssignedPod(self.uid, name, demand, Stage.RESERVED, now, self.created, intent=intent)


_UNREAD = Demand(Qos.BEST_EFFORT, (), Step(WHOLE_POD, Role.APP), EMPTY)
"""The demand of an unreadable pod that does not request alignment: every node fits."""

_LastRead = tuple[Mapping[str, object], ClusterPolicy, int, PendingPod]
"""The pod that was read last, and under which policy and version of the cluster's rules."""


class UnknownNamespace(BadInput):
    """Raised for a pod of a namespace that the watch has not reported yet."""


Watcher = Callable[[PodInfo, PodInfo | None], None]
"""Called with a pod as it is now, and as it was."""


@dataclass(eq=False)
class SchedulerState:
    """The state of the cluster. Times are seconds of `clock`; `wall` is seconds since 1970.

    `watchers` are called with every change of a pod, before the ledger has it. `complete` is whether all
    pods are known. With `follows`, the cluster comes from watches, which may be late: what is requested for
    the pods of an unknown namespace is not known.
    """

    reservations: Reservations
    _: KW_ONLY
    cluster: Cluster
    policy: PolicyKeeper
    match: InitVar[Match]
    clock: Callable[[], float]
    wall: Callable[[], float]
    watchers: tuple[Watcher, ...] = ()
    complete: Callable[[Settled], bool] = lambda _settled: True
    follows: bool = False
    pods: dict[str, PodInfo] = field(init=False, default_factory=dict)
    cache: SchedulerCache = field(init=False)
    reader: PodReader = field(init=False)
    _last: _LastRead | None = field(init=False, default=None)
    _asked: LRU[str, PendingPod] = field(init=False)
    _pinned: PinnedReservations = field(init=False)
    _awaited: dict[str, asyncio.Event] = field(init=False, default_factory=dict)
    _waiting: int = field(init=False, default=0)
    _expired: dict[str, float] = field(init=False, default_factory=dict)
    _tries: dict[str, float] = field(init=False, default_factory=dict)
    _unread: set[str] = field(init=False, default_factory=set)
    _pins_wait: bool = field(init=False, default=False)

    def __post_init__(self, match: Match) -> None:
        self._pinned = PinnedReservations(
            reservations=self.reservations,
            gated=self.is_gated,
            assigned=self._pinned_pod,
            clock=self.clock,
            wall=self.wall,
        )
        self.cache = SchedulerCache(self.reservations)
        self.reader = PodReader(match)
        self._asked = LRU(REMEMBERED, large=lambda _uid, pod: pod.large)
        self.cluster.listen(self._take)
        self.policy.on_change(lambda: self._unread.update(pod.namespace for pod in self.pods.values()))

    @property
    def labels(self) -> Mapping[str, Mapping[str, str]]:
        """All labels of each Node."""
        return self.cluster.node_labels

    def caches(self) -> Caches:
        """Return the caches of pods that were asked about."""
        return {"asked": self._asked, **self.reader.caches(), **self.cache.caches()}

    # What the cluster is.

    def _take(self, change: Change) -> None:
        match change:
            case NodeChanged():
                self._take_node(change.name, change.before, change.now)
            case NamespaceChanged(name):
                self._unread.add(name)
            case Settled():
                self.reservations.set_complete(self.complete(change))
            case _:
                return
        self._pins_wait = True

    def _take_node(self, name: str, before: NodeState, now: NodeState) -> None:
        if now.node:
            if (now.node, now.fingerprint) != (before.node, before.fingerprint):
                reader = PodFingerprintReader(now.fingerprint) if now.fingerprint else None
                self.reservations.update_node(now.node, reader)
            if now.placements != before.placements or before.node is None:
                records = (
                    (uid, PlacementRecord(placement.held, Source.KUBELET, cpus=placement.cpus))
                    for uid, placement in (now.placements or {}).items()
                )
                reported = None if now.placements is None else dict(records)
                self.reservations.update_observed(name, reported, now=self.clock())
        elif before.node:
            self.reservations.remove_node(name)
        if now.bare != before.bare:
            self.cache.update_unknown(name, now.bare)

    async def work_ahead(self, *, sleep: Sleep = asyncio.sleep) -> None:
        """Process changes before requests need them, with pauses for requests; never returns."""
        while True:
            await self.catch_up()
            for _ in self.cache.work_ahead(AT_ONCE, self.clock):
                await sleep(0)
            await sleep(LOOK_SECONDS)

    async def catch_up(self) -> None:
        """Process the effects of changes on many pods: pins, and the intents of namespaces' pods.

        The settings of a namespace apply to all of its pods, whenever they were created.
        """
        if self._pins_wait:
            self._pins_wait = False
            self._pinned.look()
        if self._unread and self.cluster.listed:
            namespaces, self._unread = self._unread, set()
            await patiently(self._update_intents(namespaces))

    def _update_intents(self, namespaces: AbstractSet[str]) -> Iterator[None]:
        """Update some pods in each step; any may have gone meanwhile, and the settings have changed again."""
        uids = [uid for uid, pod in self.pods.items() if pod.namespace in namespaces]
        for at, uid in enumerate(uids, start=1):
            pod = self.pods.get(uid)
            if pod and not pod.ended:
                self.reservations.update_intent(uid, self._intent_of(pod))
            if not at % INTENTS_AT_ONCE:
                yield

    def update_pod(self, pod: PodInfo) -> None:
        """Add or update a pod."""
        before = self.pods.get(pod.uid)
        self.pods[pod.uid] = pod
        if awaited := self._awaited.pop(pod.uid, None):
            awaited.set()
        # Watchers may need the pod's reservation, which its end removes.
        for watch in self.watchers:
            watch(pod, before)
        if not (pod.ended or pod.node):
            self._pinned.update_pod(pod, before)
            return
        self._pinned.settle(pod.uid)
        if pod.ended:
            self.reservations.remove_pod(pod.uid, now=self.clock())
        else:
            if pod.leaving and not (before and before.leaving):
                self.reservations.mark_terminating(pod.uid, now=self.clock())
            self.reservations.update_pod(pod.node, self._assigned_pod(pod, before))

    def remove_pod(self, uid: str) -> None:
        """Remove a pod."""
        self.pods.pop(uid, None)
        self._asked.drop(uid)
        self._expired.pop(uid, None)
        self._tries.pop(uid, None)
        self._pinned.settle(uid)
        self.reservations.remove_pod(uid, now=self.clock())

    def expire(self) -> tuple[AssignedPod, ...]:
        """Remove the reservations of pods that were not seen bound in time, and return these pods."""
        self._pinned.expire()
        now = self.clock()
        expired = self.reservations.expire(now)
        kept = {uid: at for uid, at in self._expired.items() if now < at + self.reservations.kept}
        self._expired = kept | {pod.uid: now for pod in expired if pod.uid in self.pods}
        self._tries = {uid: at for uid, at in self._tries.items() if now < at + 2 * TRY_SECONDS}
        return expired

    def _assigned_pod(self, pod: PodInfo, before: PodInfo | None) -> AssignedPod:
        # Only of a pod that was admitted before it was first seen, it is unknown for how long.
        met = before is None and pod.acknowledged and pod.started
        age = least_age(self.wall(), pod.latest) if met else 0.0
        return AssignedPod(
            pod.uid,
            (pod.namespace, pod.name),
            pod.demand or pod.request.most,
            Stage.ADMITTED if pod.acknowledged else Stage.BOUND,
            since=self.clock() - age,
            created=pod.created,
            started=pod.started,
            record=pod.record,
            terminating=pod.leaving,
            intent=self._intent_of(pod),
        )

    def is_gated(self, namespace: str) -> bool:
        """Return whether pods of a namespace wait behind the scheduling gate."""
        return self._effective_policy().rules_for(namespace).gate is Gate.ENABLED

    def _pinned_pod(self, pod: PodInfo, age: float) -> AssignedPod | None:
        """Return a pod with the prediction for its pin; None if the node does not admit it."""
        demand = pod.demand or pod.request.most
        if demand is None:
            return None
        prediction = self.reservations.predict(
            pod.pinned, demand, created=pod.created, now=self.clock(), without=(pod.uid,)
        )
        if prediction is None or not prediction.verdict.admitted:
            return None
        assigned_pod = replace(self._assigned_pod(pod, pod), stage=Stage.RESERVED, since=self.clock() - age)
        return assigned_pod if assigned_pod.record else replace(assigned_pod, guess=prediction.held)

    def _intent_of(self, pod: PodInfo) -> Intent:
        return self.reader.intent(pod.request, pod.namespace, self._effective_policy())

    # What is asked.

    def pending_pod(self, pod: Mapping[str, object]) -> PendingPod:
        """Return the v1 Pod in a request; raise `BadInput` with all mistakes, or `UnknownNamespace`."""
        # A scheduler that filters prioritizes next, with the object that `Calls` has kept: it is read once,
        # as long as its effective policy does not change.
        policy, version = self.policy.now, self.cluster.rules_version
        if self._last and self._last[0] is pod and self._last[1] is policy and self._last[2] == version:
            pending = self._last[3]
        else:
            whole = Part(pod)
            metadata = whole["metadata"]
            uid = metadata["uid"].uid()
            whole.raise_mistakes(BadInput)
            namespace = metadata["namespace"].text() or "default"
            name = metadata["name"].text() or metadata["generateName"].text()
            if not self.knows(namespace):
                why = f"namespace {namespace} is not known yet: try again"
                raise UnknownNamespace([Mistake("metadata.namespace", why)])
            reading = self.reader.read(pod, namespace, self._effective_policy())
            if isinstance(reading, Invalid) and self._refused(reading):
                raise BadInput(reading.mistakes)
            created = metadata["creationTimestamp"].time()
            pending = self._pending((uid, namespace, name, created), reading)
            self._last = pod, policy, version, pending
        if pending.uid and self._asked.find(pending.uid) is not pending:
            self._asked.put(pending.uid, pending)
        return pending

    @property
    def listed(self) -> bool:
        """Whether the whole cluster was known at some time."""
        return self.cluster.listed

    def group_of(self, pod: PendingPod) -> tuple[str, str] | None:
        """Return namespace and name of the group that the API server has for a pod; None for none."""
        seen = self.pods.get(pod.uid)
        return (seen.namespace, seen.group) if seen and seen.group else None

    def knows(self, namespace: str) -> bool:
        """Return whether the settings of a namespace are known."""
        return not self.follows or not self.cluster.listed or namespace in self.cluster.namespaces

    def was_asked(self, uid: str) -> bool:
        """Return whether a scheduler asked about a pod, as far as that is cached."""
        return uid in self._asked

    async def seen(self, uid: str, *, sleep: Sleep = asyncio.sleep) -> bool:
        """Return whether the API server has a pod; one that was just created is waited for."""
        if uid not in self.pods and self._waiting < MOST_WAITING:
            appeared = self._awaited.setdefault(uid, asyncio.Event())
            self._waiting += 1
            tasks = [asyncio.ensure_future(wait) for wait in (appeared.wait(), sleep(SEEN_SECONDS))]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._waiting -= 1
                self._awaited.pop(uid, None)
                for task in tasks:
                    task.cancel()
        return uid in self.pods

    def reservable(self, pod: PendingPod) -> PendingPod | None:
        """Return the pod in a call as the API server has it, if zones may be reserved for it now.

        It must wait for its scheduler alone. If the result of binding or pinning it is unknown, its zones
        stay as they are.
        """
        seen, assigned_pod = self.pods.get(pod.uid), self.reservations.assigned_pod(pod.uid)
        if seen is None or (seen.namespace, seen.name) != (pod.namespace, pod.name):
            return None
        if seen.node or seen.ended or seen.leaving or seen.gates:
            return None
        if assigned_pod and (assigned_pod.unconfirmed or not assigned_pod.reserved):
            return None
        return self.waiting(pod.uid)

    def reserved_since(self, uid: str) -> float | None:
        """Return since when a reservation that is made now counts, which decides when it ends; None for none.

        A pod that was not bound by its first reservation gets at each later try as long as a bind takes, and
        at most half of the time: its owner may have a scheduler that never binds it.
        """
        now, before = self.clock(), self.reservations.assigned_pod(uid)
        if before is None and uid not in self._expired:
            return now
        since, a_try = before.since if before else None, now + TRY_SECONDS - self.reservations.kept
        if (since is not None and since >= a_try) or now < self._tries.get(uid, -math.inf) + 2 * TRY_SECONDS:
            return since
        self._tries[uid] = now
        return min(now, a_try)

    def waiting(self, uid: str) -> PendingPod | None:
        """Return a pod as the API server has it; how a caller described it counts only if it is too large.

        Return None if it has none, if what its namespace requests is not known yet, or if it is invalid: such
        a pod got its error when it was evaluated, and is never bound.
        """
        pod = self.pods.get(uid)
        if pod is None or not self.knows(pod.namespace):
            return None
        asked, most = self._asked.peek(uid), pod.request.most
        identity = uid, pod.namespace, pod.name, pod.created
        same = asked and (uid, asked.namespace, asked.name, asked.created) == identity
        if asked and most and same and asked.demand.total.positive() == most.total:
            # It is too large to keep. What DRA serves may have changed since it was asked about.
            return replace(asked, question=self._by_node(asked.question))
        reading = self.reader.read(pod.request, pod.namespace, self._effective_policy())
        return None if self._refused(reading) else self._pending(identity, reading)

    def _refused(self, reading: PodReading) -> bool:
        """Return whether admission has refused such a pod."""
        return isinstance(reading, Invalid) and not self._effective_policy().exempts_users

    def _pending(self, identity: tuple[str, str, str, int], reading: PodReading) -> PendingPod:
        """Return a pod with this uid, namespace, name and creation time."""
        if isinstance(reading, PodQuestion):
            reading = self._effective_policy().placed(reading)
            return PendingPod(*identity, self._by_node(reading.question), reading)
        return PendingPod(*identity, self._by_node(Question(reading.demand or _UNREAD, NO_INTENT)))

    def _by_node(self, question: Question) -> Question:
        return self.reader.shared(dra.by_node(question, self.cluster.served))

    def _effective_policy(self) -> EffectivePolicy:
        return EffectivePolicy.of(self.cluster, self.policy.now)

    def predict(self, name: str, pod: PendingPod, *, without: Iterable[str]) -> Prediction | None:
        """Return the prediction for a pod after those in `without` are gone; None for an unknown node."""
        question, now = pod.question, self.clock()
        return self.reservations.predict(
            name, question.demand, question.intent, created=pod.created, now=now, without=without
        )

    def quota(self, namespace: str, *, without: Iterable[str] = ()) -> CpuQuota | None:
        """Return the limit of exclusive CPUs of a namespace, and its use once some pods are gone; or None."""
        limit = self._effective_policy().exclusive_cpus(namespace)
        if limit is None:
            return None
        return CpuQuota(namespace, self.reservations.exclusive_cpus(namespace, without=without), limit)

    def is_placed(self, uid: str) -> bool:
        """Return whether a pod is on a node."""
        pod = self.pods.get(uid)
        return pod is not None and bool(pod.node)

    def over_quota(self, pod: PendingPod, node: str = "", *, without: Iterable[str] = ()) -> str:
        """Return why a pod has to wait for the quota of its namespace, if not on another node; or nothing.

        Without a node, return why it would have to wait on one that may pin CPUs.
        """
        return self.nodes_over_quota(pod, (node,), without=without).get(node, "")

    def nodes_over_quota(
        self, pod: PendingPod, nodes: Iterable[str], *, without: Iterable[str] = ()
    ) -> Mapping[str, str]:
        """Return on which nodes a pod would hold more exclusive CPUs than its namespace has left, and why.

        What it requests is what the API server has, if that is known.
        """
        quota, seen = self.quota(pod.namespace, without=(pod.uid, *without)), self.pods.get(pod.uid)
        demand = (seen and (seen.demand or seen.request.most)) or pod.demand
        if quota is not None and not demand.steps:
            # A pod could be made too large to be read, and pin any number of CPUs.
            known = ((name, self.reservations.node(name)) for name in nodes)
            return {name: UNCOUNTED for name, node in known if node is None or claims.may_pin_cpus(node)}
        # No node pins more than that.
        if quota is None or (demand.pod_level is None and quota.admits(demand.exclusive_cpus)):
            return {}
        why_not = cache(quota.why_not)
        whys = (
            (name, why_not(claims.exclusive_cpus(self.reservations.node(name), demand))) for name in nodes
        )
        return {name: why for name, why in whys if why}

    def next_created(self) -> int:
        """Return a creation time for a pod that does not exist yet: after all others, by the same clock."""
        return 1 + max((pod.created for pod in self.pods.values()), default=0)

    def node_names(self) -> Iterator[str]:
        """Yield all nodes, including those without a topology."""
        yield from self.reservations.node_names()
        yield from self.cluster.unknown
