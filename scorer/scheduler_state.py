"""
What the scorer knows: nodes, the pods on them, and what is asked of pods where they say nothing.

Pods are told one by one, the moment the API server tells; nodes and namespaces come as snapshots. Both end in
one ledger, which is all that answers are made from. Whatever a request says of its pod counts for that pod
only: nobody can claim room by calling.
"""

import asyncio
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from numalign.cache import Question, dra
from numalign.cache.pod_question import Invalid, PodQuestion
from numalign.cache.scheduler_cache import SchedulerCache
from numalign.decision.evaluate import NO_INTENT
from numalign.kube.cluster_state import Snapshot
from numalign.kube.decode import fingerprints
from numalign.kube.decode.fingerprints import Fingerprint, Method
from numalign.kube.decode.parts import Part
from numalign.kube.decode.pod_reader import PodReader, PodReading
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.files.policy import PolicyKeeper
from numalign.kube.pod_informer import PodInfo
from numalign.ledger.claims import exclusive
from numalign.ledger.model import AssignedPod, FingerprintReader, PodName, Prediction, Stage
from numalign.ledger.reservations import Reservations
from numalign.lru import LRU, Caches
from numalign.memory_size import weight
from numalign.model.constraints import ANYWHERE, Constraints
from numalign.model.demand import WHOLE_POD, Demand, Step
from numalign.model.errors import BadInput
from numalign.model.intent import Match
from numalign.model.node import Node
from numalign.model.pod import Qos, Role
from numalign.model.resources import EMPTY
from numalign.runtime.clock import Sleep

REMEMBERED = 1024
"""Pods that were asked about and are not bound yet, and questions that have a number."""

_Numbered = tuple[Question, int]

AT_ONCE = 2
"""Nodes that are worked out ahead before somebody else has a turn: each takes a fraction of a millisecond."""

LOOK_SECONDS = 0.05
"""How long what changed is gathered before it is worked out ahead."""


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod that somebody asks about.

    `question` carries the intent, policy none where nobody stated one; equal questions have the same
    `number`. `created` is in whole seconds since 1970. `asked` is None of a pod that is left alone.
    """

    uid: str
    namespace: str
    name: str
    created: int
    question: Question
    number: int
    asked: PodQuestion | None = None

    @property
    def opted_out(self) -> bool:
        """Whether it says `none` by itself."""
        return self.asked is not None and self.asked.opted_out

    @property
    def constraints(self) -> Constraints:
        """Where it may go. Of a pod that was only seen waiting it is not kept: a scheduler has asked it."""
        return self.asked.constraints if self.asked else ANYWHERE

    @property
    def demand(self) -> Demand:
        """What its containers ask for, whoever serves it."""
        asked = self.question.demand
        return replace(asked, by_dra=frozenset()) if asked.by_dra else asked

    @property
    def weight(self) -> int:
        """The bytes that it takes in memory, about."""
        asked = self.asked or self.question
        return asked.weight + weight(self.uid, self.namespace, self.name)

    def assigned_pod(self, *, now: float) -> AssignedPod:
        """The pod as the ledger keeps it."""
        name, asked = (self.namespace, self.name), self.demand
        demand = None if asked == _UNREAD else asked
        return AssignedPod(self.uid, name, demand, Stage.RESERVED, since=now, created=self.created)


@dataclass(frozen=True, slots=True)
class _Name:
    """Which pod it is, and when it was made."""

    uid: str
    namespace: str
    name: str
    created: int


_UNREAD = Demand(Qos.BEST_EFFORT, (), Step(WHOLE_POD, Role.APP), EMPTY)
"""Of a pod that cannot be read and of which nobody asks anything: every node takes it."""

Watcher = Callable[[PodInfo, PodInfo | None], None]
"""Hears of a pod as it is now, and as it was."""


class SchedulerState:
    """Everything that is known. Times are seconds of `clock`; `wall` is seconds since 1970.

    `watch` hears of every change of a pod, before the ledger does. `complete` says whether a snapshot comes
    with all pods.
    """

    def __init__(  # noqa: PLR0913  a ledger, what is asked of pods, and two clocks
        self,
        reservations: Reservations,
        *,
        policy: PolicyKeeper,
        match: Match,
        clock: Callable[[], float],
        wall: Callable[[], float],
        watch: Watcher = lambda _now, _before: None,
        complete: Callable[[Snapshot], bool] = lambda _found: True,
    ) -> None:
        self.reservations = reservations
        self.cache = SchedulerCache(reservations)
        self.pods: dict[str, PodInfo] = {}
        self.labels: Mapping[str, Mapping[str, str]] = {}
        self.snapshot: Snapshot | None = None
        self.watch = watch
        self._policy = policy
        self._clock = clock
        self._wall = wall
        self._complete = complete
        self.reader = PodReader(match)
        self._last: tuple[tuple[object, ...], PendingPod] | None = None
        self._asked: LRU[str, PendingPod] = LRU(REMEMBERED, weigh=_weight_of_subject)
        self._numbers: LRU[Question, _Numbered] = LRU(REMEMBERED, weigh=_weight_of_question)
        self._count = itertools.count(1)
        self._told: dict[str, tuple[Fingerprint, FingerprintReader]] = {}

    def caches(self) -> Caches:
        """What is remembered of those who asked."""
        return {
            "asked": self._asked,
            "numbers": self._numbers,
            **self.reader.caches(),
            **self.cache.caches(),
        }

    # What the cluster tells.

    async def update_snapshot(self, found: Snapshot) -> None:
        """The nodes and namespaces are these now."""
        known = {node.name for node in found.nodes}
        self.reservations.set_complete(self._complete(found))
        self.reservations.remove_nodes(set(self.reservations.node_names()) - known)
        for node in found.nodes:
            self.reservations.update_node(node, self._told_by(node.name, found.fingerprints.get(node.name)))
        self._told = {name: told for name, told in self._told.items() if name in known}
        self.labels = found.node_labels
        self.snapshot = found

    async def work_ahead(self, *, sleep: Sleep = asyncio.sleep) -> None:
        """Work out what changed before anybody asks, who is answered in between; never returns."""
        while True:
            for _ in self.cache.catching_up(AT_ONCE, self._clock):
                await sleep(0)
            await sleep(LOOK_SECONDS)

    def _told_by(self, name: str, fingerprint: Fingerprint | None) -> FingerprintReader | None:
        """Reads a node's fingerprint; the same reader as long as it is the same fingerprint."""
        if fingerprint is None:
            self._told.pop(name, None)
            return None
        before = self._told.get(name)
        if before is None or before[0] != fingerprint:
            before = self._told[name] = (fingerprint, partial(_accounted, fingerprint))
        return before[1]

    def update_pod(self, pod: PodInfo) -> None:
        """A pod is there like this."""
        before = self.pods.get(pod.uid)
        self.pods[pod.uid] = pod
        # Whoever listens may want to know what the pod was promised, which its end takes away.
        self.watch(pod, before)
        if pod.ended:
            self.reservations.remove_pod(pod.uid, now=self._clock())
        elif pod.node:
            if pod.leaving and not (before and before.leaving):
                self.reservations.mark_terminating(pod.uid, now=self._clock())
            self.reservations.update_pod(pod.node, self._assigned_pod(pod))

    def remove_pod(self, uid: str) -> None:
        """A pod is there no more."""
        self.pods.pop(uid, None)
        self._asked.drop(uid)
        self.reservations.remove_pod(uid, now=self._clock())

    def _assigned_pod(self, pod: PodInfo) -> AssignedPod:
        stage = Stage.ADMITTED if pod.acknowledged else Stage.BOUND
        age = max(0.0, self._wall() - pod.started) if pod.acknowledged and pod.started else 0.0
        return AssignedPod(
            pod.uid,
            (pod.namespace, pod.name),
            pod.demand,
            stage,
            since=self._clock() - age,
            created=pod.created,
            record=pod.record,
            terminating=pod.leaving,
        )

    # What is asked.

    def subject(self, raw: Mapping[str, object]) -> PendingPod:
        """The pod in a request; raises `BadInput` with every mistake of what it asks for.

        The same object says the same.
        """
        # Who filters prioritizes next. What is asked where the pod says nothing may have changed meanwhile.
        asked = (raw, self.snapshot, self._policy.now)
        if self._last is None or any(map(operator.is_not, self._last[0], asked)):
            self._last = asked, self._read(raw)
        found = self._last[1]
        if found.uid:
            self._asked.put(found.uid, found)
        return found

    def _read(self, raw: Mapping[str, object]) -> PendingPod:
        name = _name(raw)
        return self._made(name, self.reader.read(raw, name.namespace, self._policies()))

    def asked(self, uid: str) -> bool:
        """Whether somebody asked about a pod, and that is remembered."""
        return uid in self._asked

    def waiting(self, uid: str) -> PendingPod | None:
        """A pod that was asked about or is seen waiting; None if nobody has heard of it.

        What is seen counts: whoever asks could say anything.
        """
        before, pod = self._asked.peek(uid), self.pods.get(uid)
        asked = self._anew(before) if before else None
        if pod is None:
            return asked
        if asked and asked.demand == pod.demand and asked.created == pod.created:
            return asked
        name = _Name(uid, pod.namespace, pod.name, pod.created)
        meaning = self.reader.read(pod.request, pod.namespace, self._policies())
        # What makes no sense was told to whoever asked, and nobody binds it.
        return asked if self._refused(meaning) else self._made(name, meaning)

    def _anew(self, subject: PendingPod) -> PendingPod:
        """A pod that was asked about: what DRA serves may have changed since."""
        question = self._by_node(subject.question)
        if question is subject.question:
            return subject
        made, number = self._once(question)
        return replace(subject, question=made, number=number)

    def _refused(self, meaning: PodReading) -> bool:
        """Whether admission has refused such a pod.

        Nobody knows who made a pod. If an exempt user did, it was admitted however it was written.
        """
        return isinstance(meaning, Invalid) and not self._policy.now.exemptions.users

    def _made(self, name: _Name, meaning: PodReading) -> PendingPod:
        if isinstance(meaning, Invalid) and self._refused(meaning):
            raise BadInput(meaning.mistakes)
        if isinstance(meaning, PodQuestion):
            return self._numbered(name, meaning.question, meaning)
        return self._numbered(name, Question(meaning.demand or _UNREAD, NO_INTENT))

    def _numbered(self, name: _Name, made: Question, asked: PodQuestion | None = None) -> PendingPod:
        question, number = self._once(self._by_node(made))
        return PendingPod(name.uid, name.namespace, name.name, name.created, question, number, asked)

    def _by_node(self, made: Question) -> Question:
        """The question as each node is asked."""
        return dra.by_node(made, self.snapshot.served if self.snapshot else frozenset())

    def _once(self, made: Question) -> _Numbered:
        # What is known of a question, its weight too, is known if equal questions are the same one.
        return self._numbers.get(made, lambda: (made, next(self._count)))

    def _policies(self) -> EffectivePolicy:
        """What is asked of pods as of now, which may change while a pod is asked about."""
        return EffectivePolicy.of(self.snapshot or Snapshot(), self._policy.now)

    def offer(self, name: str, subject: PendingPod, *, beside: Iterable[str]) -> Prediction | None:
        """What a node says to a pod now, once those `beside` it have left; None if the node is not known."""
        return self.reservations.predict(
            name,
            subject.question.demand,
            subject.question.intent,
            created=subject.created,
            now=self._clock(),
            without=beside,
        )

    def names(self) -> Iterator[str]:
        """All nodes, those without a topology too."""
        yield from self.reservations.node_names()
        yield from self.snapshot.unknown if self.snapshot else ()


def _name(raw: Mapping[str, object]) -> _Name:
    metadata = Part(raw)["metadata"]
    return _Name(
        _uid(raw),
        metadata["namespace"].text() or "default",
        metadata["name"].text() or metadata["generateName"].text(),
        metadata["creationTimestamp"].time(),
    )


def _uid(raw: Mapping[str, object]) -> str:
    """Raises `BadInput` for what is no uid, for such a pod could not be told from others."""
    whole = Part(raw)
    uid = whole["metadata"]["uid"].uid()
    whole.raise_mistakes(BadInput)
    return uid


def _weight_of_subject(_uid: str, subject: PendingPod) -> int:
    return subject.weight


def _weight_of_question(question: Question, _numbered: _Numbered) -> int:
    return question.weight


def _accounted(
    fingerprint: Fingerprint, node: Node, certain: Sequence[AssignedPod], perhaps: Sequence[AssignedPod]
) -> frozenset[PodName] | None:
    """The pods that a fingerprint stands for; some leave out those without resources of their own."""
    counts = _COUNTED[fingerprint.method]
    sure, others = ([each.name for each in some if counts(node, each)] for some in (certain, perhaps))
    found = fingerprints.accounted(fingerprint, sure, others)
    return None if found is None else found.union(sure)


def _exclusive(node: Node, assigned_pod: AssignedPod) -> bool:
    return assigned_pod.demand is None or exclusive(node, assigned_pod.demand)


_COUNTED: Mapping[Method, Callable[[Node, AssignedPod], bool]] = MappingProxyType(
    {Method.ALL: lambda _node, _assigned_pod: True, Method.WITH_EXCLUSIVE_RESOURCES: _exclusive}
)
