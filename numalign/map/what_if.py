"""
What would become of a pod, or of the pods of a workload, if somebody made it now.

The answers are those that everybody gives: the webhook's decision, what the scorer says of each node, its
ranking, and the words of `kubectl numa explain`. Nothing is reserved, and nothing of the question is kept.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from numalign.cache import ClusterCache, admission, dra
from numalign.cache.admission import AdmissionDecision, Refusals
from numalign.cache.batch import Batch
from numalign.cache.pod_question import Exempt, Invalid, PodQuestion
from numalign.cache.question import Question
from numalign.cache.scheduler_cache import NotEligible
from numalign.decision import wording
from numalign.decision.doubts import SENTENCES
from numalign.decision.evaluate import NO_INTENT
from numalign.decision.scoring import EVEN, Strategy
from numalign.kube import exporters
from numalign.kube.cluster_state import Snapshot
from numalign.kube.decode.pod_reader import PodReading
from numalign.kube.decode.scheduling import scheduling
from numalign.kube.decode.templates import PodTemplate
from numalign.kube.effective_policy import EffectivePolicy
from numalign.ledger.model import FreeCapacity
from numalign.ledger.rearrangement import Rearrangement
from numalign.map import pasted
from numalign.map.pasted import Pasted
from numalign.map.pod_view import containers, intent_of
from numalign.map.replicas import Replicas
from numalign.map.state import MapState
from numalign.map.views import (
    HeldInZones,
    Placed,
    Visible,
    WebhookAnswer,
    WhatIfAnswer,
    WhatIfNode,
    WhatIfResult,
    WhatIfTemplate,
)
from numalign.model.constraints import Constraints
from numalign.model.errors import BadInput, BadPod, Mistake
from numalign.runtime.cooperative import TimeSlice, patiently
from numalign.scheduling.node_explanation import (
    PLACES,
    Chance,
    NodeExplanation,
    NodeResult,
    Rules,
    counted_by_reason,
)
from numalign.scheduling.ranking import Ranker, RankingRules
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState

MOST_REPLICAS = 1000
"""That are placed for one question, those of all templates together."""

ANSWERS: Mapping[Chance, WhatIfAnswer] = {
    Chance.FITS: WhatIfAnswer.FITS,
    Chance.LATER: WhatIfAnswer.NOT_NOW,
    Chance.UNANSWERED: WhatIfAnswer.NOT_ANSWERED,
    Chance.NEVER: WhatIfAnswer.NEVER,
}


@dataclass(frozen=True, slots=True)
class _Subject:
    """A pod that is asked about: how it was read, and as the scorer asks it."""

    template: PodTemplate
    reading: PodReading
    pending: PendingPod
    constraints: Constraints


@dataclass(frozen=True, slots=True)
class _Answered:
    """What all nodes say at one moment, the best first, and which nodes without topology it may go to."""

    explanations: Sequence[NodeExplanation]
    unknown: Sequence[str]


@dataclass(eq=False)
class WhatIf:
    """Answers questions about one cluster, one at a time; `ranker` is that of the scorer."""

    map_state: MapState
    ranker: Ranker = field(default_factory=lambda: Ranker(RankingRules()))
    unknown_may_fit: bool = True
    _shapes: ClusterCache = field(init=False, default_factory=ClusterCache)
    _turn: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    @property
    def _state(self) -> SchedulerState:
        return self.map_state.state

    async def ask(
        self, text: bytes, *, visible: Visible, replicas: int | None = None, user: str = ""
    ) -> WhatIfResult:
        """What would become of the one object in a text that makes pods.

        `replicas` are asked for of each template, by default as many as the object itself says; `user` is who
        makes it. What a namespace asks counts where its pods are `visible`, and is not told otherwise. Raises
        `BadInput` with every mistake.
        """
        if replicas is not None and replicas < 1:
            raise BadInput([Mistake("replicas", f"must be at least 1, not {replicas}")])
        extra = self._state.policy.now.templates
        asked = await asyncio.to_thread(pasted.read, text, extra=extra)
        async with self._turn:
            return await self._answer(asked, visible, replicas or asked.replicas, user)

    async def _answer(self, asked: Pasted, visible: Visible, wanted: int, user: str) -> WhatIfResult:
        subjects, notes = self._subjects(asked, visible, user), list(asked.notes)
        if not visible(asked.namespace):
            notes.append("what its namespace asks is left out: you may not list the pods there")
        answered = [await self._of_template(subject, tuple(notes)) for subject in subjects]
        each = min(wanted, max(1, MOST_REPLICAS // len(subjects)))
        placing = Replicas(self._state, self.ranker)
        for at, (subject, template) in enumerate(zip(subjects, answered, strict=True)):
            names = [node.name for node in template.nodes if node.answer is WhatIfAnswer.FITS]
            await patiently(placing.place(at, subject.pending, names, each))
        return WhatIfResult(
            asked.kind,
            asked.namespace,
            asked.name,
            tuple(answered),
            wanted,
            len(placing.placed),
            tuple(placing.placed),
            each < wanted,
            self.map_state.revision,
            self._state.wall(),
            _highlighted(placing.placed),
        )

    # Reading.

    def _subjects(self, asked: Pasted, visible: Visible, user: str) -> list[_Subject]:
        """Its pods, as they are read in their namespace; raises `BadPod` with the mistakes of all of them."""
        policy = self._policy() if visible(asked.namespace) else EffectivePolicy()
        subjects, mistakes = list[_Subject](), list[Mistake]()
        for template in asked.templates:
            reading = self._state.reader.read(template.place.raw, asked.namespace, policy, user)
            try:
                subjects.append(self._subject(asked, template, reading))
            except BadPod as error:
                mistakes += map(template.place.in_object, error.mistakes)
        if mistakes:
            raise BadPod(dict.fromkeys(mistakes))
        return subjects

    def _subject(self, asked: Pasted, template: PodTemplate, reading: PodReading) -> _Subject:
        match reading:
            case PodQuestion():
                question, constraints = reading.question, reading.constraints
            case Exempt(_, demand) if demand is not None:
                question, constraints = (
                    Question(demand, NO_INTENT),
                    scheduling(template.place.raw).constraints,
                )
            case Exempt() | Invalid():
                raise BadPod(reading.mistakes)
        by_node = self._state.reader.shared(dra.by_node(question, self._snapshot.served))
        pod_question = reading if isinstance(reading, PodQuestion) else None
        created = int(self._state.wall())
        pending = PendingPod("", asked.namespace, asked.name, created, by_node, pod_question)
        return _Subject(template, reading, pending, constraints)

    @property
    def _snapshot(self) -> Snapshot:
        return self._state.snapshot or Snapshot()

    def _policy(self) -> EffectivePolicy:
        return EffectivePolicy.of(self._snapshot, self._state.policy.now)

    # Answering.

    async def _of_template(self, subject: _Subject, notes: tuple[str, ...]) -> WhatIfTemplate:
        webhook = await self._webhook(subject.reading)
        told = await self._told(subject)
        nodes, time_slice = list[WhatIfNode](), TimeSlice()
        room = Rearrangement(self._state.reservations, self._state.clock())
        for explanation in told.explanations:
            await patiently(explanation.rules.work(explanation.node))
            nodes.append(
                _node(explanation, has_room=room.fits(explanation.node.name, subject.pending.demand))
            )
            await time_slice.share()
        counts = Counter(node.answer for node in nodes)
        counted = counted_by_reason(told.explanations)
        return WhatIfTemplate(
            subject.template.where,
            intent_of(subject.reading),
            containers(subject.pending.demand),
            subject.pending.demand.total,
            webhook,
            tuple(nodes),
            tuple(told.unknown),
            {answer: counts[answer] for answer in WhatIfAnswer},
            tuple((count, ANSWERS[chance], reason) for count, chance, reason in counted),
            notes,
        )

    async def _webhook(self, reading: PodReading) -> WebhookAnswer:
        """What the webhook would say, which knows of nodes what they publish, and their shapes."""
        if not isinstance(reading, PodQuestion):
            return WebhookAnswer(None, (), reading.reason if isinstance(reading, Exempt) else None)
        snapshot, policy = self._snapshot, self._state.policy.now
        await patiently(self._shapes.update(snapshot.nodes, snapshot.shapes, snapshot.bare))
        await patiently(admission.steps(reading, self._shapes, served=snapshot.served))
        refusals = Refusals(policy.never, policy.unknown_resources, self.unknown_may_fit, policy.taints)
        decision: AdmissionDecision = admission.decide(
            reading, self._shapes, refusals, now=self._state.wall(), served=snapshot.served
        )
        return WebhookAnswer(decision.refusal, decision.all_warnings, None)

    async def _told(self, subject: _Subject) -> _Answered:
        """What all nodes say at one moment, with the ledger as it is."""
        state, question = self._state, subject.pending.question
        names = tuple(state.reservations.node_names())
        await patiently(state.cache.work(names, question, now=state.clock()))
        now, snapshot, rules = state.clock(), self._snapshot, Rules(question)
        kept_away = state.cache.not_eligible(tuple(state.node_names()), subject.constraints, now=now)
        batch = state.cache.ask_with(names, question, (), now=now)
        ranks = self.ranker.ranks(batch, state.labels, opted_out=subject.pending.opted_out)
        results = _results([state.reservations.free_capacity(name, now=now) for name in names], batch)
        explained = [
            _explained(results[at], rules, kept_away.get(names[at]), snapshot, now=state.wall())
            for at in ranks.order(names)
        ]
        explained.sort(key=lambda each: PLACES[each.chance])
        return _Answered(explained, [name for name in snapshot.unknown if name not in kept_away])


def _results(free: Sequence[FreeCapacity | None], batch: Batch) -> list[NodeResult]:
    """What each node of a batch answers, with what is free on it."""
    refusals = {code: (refusal, wording.reason(refusal)) for code, refusal in batch.refusals.items()}
    scores, codes = batch.scores(Strategy.LEAST_NUMA_NODES, EVEN).tolist(), batch.codes.tolist()
    return [
        NodeResult(one.node, None, *refusals[code]) if code in refusals else NodeResult(one.node, score)
        for one, score, code in zip(free, scores, codes, strict=True)
        if one
    ]


def _explained(
    result: NodeResult, rules: Rules, away: NotEligible | None, snapshot: Snapshot, *, now: float
) -> NodeExplanation:
    exporter = exporters.of_node(snapshot, result.node.name, now=now)
    unmet, lasting = (away.unmet, away.lasting) if away else (None, False)
    return NodeExplanation(result, rules, exporter, unmet, lasting)


def _node(explanation: NodeExplanation, *, has_room: bool) -> WhatIfNode:
    """What one node says, as it is shown."""
    placement = explanation.verdict.placement.kept if explanation.chance is Chance.FITS else {}
    names = {zone.id: zone.name for zone in explanation.node.zones}
    return WhatIfNode(
        explanation.node.name,
        explanation.node_class,
        ANSWERS[explanation.chance],
        explanation.reason or "",
        explanation.score,
        tuple(
            HeldInZones(tuple(names[zone] for zone in zones), placement[zones]) for zones in sorted(placement)
        ),
        tuple(sorted({zone for zones in placement for zone in zones})),
        tuple(SENTENCES[doubt] for doubt in explanation.doubts),
        has_room,
    )


def _highlighted(placed: Iterable[Placed]) -> Mapping[str, frozenset[str]]:
    """By node the zones of all replicas."""
    zones = defaultdict[str, set[str]](set)
    for replica in placed:
        zones[replica.node].update(replica.zones)
    return {name: frozenset(held) for name, held in zones.items()}
