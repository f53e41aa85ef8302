"""
What-if questions: what would happen to a pod, or to the pods of a workload, if it were created now.

The answers are those of the other components: the decision of the webhook, the answers and the ranking of the
scorer, and the text of `kubectl numa explain`. Nothing is reserved, and no question is stored.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from types import MappingProxyType

from numalign.cache import admission, dra
from numalign.cache.pace import Pace
from numalign.cache.pod_question import Exempt, Invalid, PodQuestion
from numalign.cache.question import Question
from numalign.cache.ranking import Ranks
from numalign.decision.doubts import SENTENCES
from numalign.decision.evaluate import NO_INTENT
from numalign.kube.admission_caches import GatheredCache
from numalign.kube.decode.pod_reader import PodReading
from numalign.kube.decode.scheduling import scheduling
from numalign.kube.effective_policy import EffectivePolicy
from numalign.ledger.model import PlacementRecord, Prediction, Source
from numalign.ledger.rearrangement import Rearrangement
from numalign.map import pasted
from numalign.map.pasted import Pasted
from numalign.map.pods import intent_of
from numalign.map.state import MapState
from numalign.map.views import (
    HeldInZones,
    Placed,
    Visible,
    WhatIfAnswer,
    WhatIfNode,
    WhatIfResult,
    WhatIfTemplate,
)
from numalign.model.constraints import Constraints
from numalign.model.errors import BadInput, BadPod, Mistake
from numalign.runtime.cooperative import TimeSlice, computed, patiently
from numalign.scheduling.node_explanation import (
    Chance,
    CurrentAnswers,
    NodeExplanation,
    Rules,
    counted_by_reason,
    current_answers,
)
from numalign.scheduling.ranking import Ranker, RankingRules
from numalign.scheduling.scheduler_state import AT_ONCE, PendingPod, SchedulerState

MOST_REPLICAS = 1000
"""Most replicas to place for one question, in total for all templates."""

PLACING_SECONDS = 10.0
"""The limit in seconds of placing replicas for one question; the next question waits meanwhile."""

MOST_DETAILED = 1000
"""Most nodes, the best first, to explain in detail: the zones that the pod would get, or what exactly they
lack. The reasons of others are those for a scheduler, which many nodes share."""

ANSWERS: Mapping[Chance, WhatIfAnswer] = MappingProxyType(
    {
        Chance.FITS: WhatIfAnswer.FITS,
        Chance.LATER: WhatIfAnswer.NOT_NOW,
        Chance.UNANSWERED: WhatIfAnswer.NOT_ANSWERED,
        Chance.NEVER: WhatIfAnswer.NEVER,
    }
)

_NODES_A_STEP = 16


@dataclass(frozen=True, slots=True)
class _Subject:
    """A pod of a question: its place in the object, its reading, and its form for the scorer."""

    where: str
    reading: PodReading
    pending: PendingPod
    constraints: Constraints


class WhatIf:
    """Answers what-if questions about one cluster, one at a time."""

    def __init__(self, map_state: MapState, *, unknown_may_fit: bool = True) -> None:
        self._map_state, self._state = map_state, map_state.state
        self._unknown_may_fit = unknown_may_fit
        self._ranker = Ranker(RankingRules())
        self._shapes = GatheredCache(self._state.cluster)
        self._turn = asyncio.Lock()

    async def ask(
        self, text: bytes, *, visible: Visible, replicas: int | None = None, user: str = ""
    ) -> WhatIfResult:
        """Return the result for the one object in a text that creates pods.

        `replicas` is the number for each template, by default that of the object; `user` is who creates it.
        The settings of its namespace apply only if pods there are `visible`, and are not disclosed otherwise.
        Raises `BadInput` with all mistakes.
        """
        if replicas is not None and not 1 <= replicas <= pasted.LARGEST_COUNT:
            raise BadInput([Mistake("replicas", f"must be a number from 1 to {pasted.LARGEST_COUNT}")])
        extra = self._state.policy.now.templates
        asked = await asyncio.to_thread(pasted.read, text, extra=extra)
        async with self._turn:
            return await self._answer(asked, visible, replicas or asked.replicas, user)

    async def _answer(self, asked: Pasted, visible: Visible, wanted: int, user: str) -> WhatIfResult:
        subjects, notes = self._subjects(asked, visible, user), asked.notes
        if not visible(asked.namespace):
            notes += ("the settings of its namespace are left out: you may not list pods there",)
        answered = [await self._of_template(subject, notes) for subject in subjects]
        each, placing = min(wanted, MOST_REPLICAS // len(subjects)), Replicas(self._state, self._ranker)
        fitting = [
            [node.name for node in template.nodes if node.answer is WhatIfAnswer.FITS]
            for template in answered
        ]
        work = chain.from_iterable(
            placing.place(at, subject.pending, names, each)
            for at, (subject, names) in enumerate(zip(subjects, fitting, strict=True))
        )
        end, time_slice, in_time = self._state.clock() + PLACING_SECONDS, TimeSlice(), True
        for _ in work:
            if self._state.clock() >= end:
                in_time = False
                break
            await time_slice.share()
        return WhatIfResult(
            asked.kind,
            asked.namespace,
            asked.name,
            tuple(answered),
            wanted,
            len(placing.placed),
            tuple(placing.placed),
            each < wanted or not in_time,
            self._map_state.revision,
        )

    def _subjects(self, asked: Pasted, visible: Visible, user: str) -> list[_Subject]:
        """Return its pods as read in their namespace; raise `BadPod` with the mistakes of all of them."""
        state = self._state
        current = EffectivePolicy.of(state.cluster, state.policy.now)
        policy = current if visible(asked.namespace) else EffectivePolicy()
        subjects, mistakes = list[_Subject](), list[Mistake]()
        for template in asked.templates:
            raw, server = template.place.raw, state.cluster.server
            reading = state.reader.read(raw, asked.namespace, policy, user, server=server)
            match reading:
                case PodQuestion():
                    question, constraints = current.placed(reading).question, reading.constraints
                case Exempt(_, demand) if demand is not None:
                    question, constraints = Question(demand, NO_INTENT), scheduling(raw).constraints
                case Exempt() | Invalid():
                    mistakes += map(template.place.in_object, reading.mistakes)
                    continue
            by_node = state.reader.shared(dra.by_node(question, state.cluster.served))
            pod_question = reading if isinstance(reading, PodQuestion) else None
            created = state.next_created()
            pending = PendingPod("", asked.namespace, asked.name, created, by_node, pod_question)
            subjects.append(_Subject(template.where, reading, pending, constraints))
        if mistakes:
            raise BadPod(dict.fromkeys(mistakes))
        return subjects

    async def _of_template(self, subject: _Subject, notes: tuple[str, ...]) -> WhatIfTemplate:
        reading, demand = subject.reading, subject.pending.demand
        refusal: str | None = None
        warnings: tuple[str, ...] = ()
        if isinstance(reading, PodQuestion):
            # The webhook knows the published topology of nodes, and shapes.
            policy, cache = self._state.policy.now, await self._shapes.current()
            refusals = policy.refusals(unknown_may_fit=self._unknown_may_fit)
            now, served = self._state.wall(), self._state.cluster.served
            decide = partial(admission.decide, reading, cache, refusals, now=now, served=served)
            decision = await computed(cache.pace, decide)
            refusal, warnings = decision.refusal, decision.all_warnings
        explained, unknown = await _explained(self._state, self._ranker, subject)
        nodes = await _shown(explained, self._state.cache.pace)
        counts = Counter(node.answer for node in nodes)
        counted = counted_by_reason(explained)
        return WhatIfTemplate(
            subject.where,
            *intent_of(reading),
            demand.steps,
            demand.total,
            refusal,
            warnings,
            reading.reason if isinstance(reading, Exempt) else None,
            nodes,
            unknown,
            {answer: counts[answer] for answer in WhatIfAnswer},
            tuple((count, ANSWERS[chance], reason) for count, chance, reason in counted),
            notes,
        )


async def _explained(
    state: SchedulerState, ranker: Ranker, subject: _Subject
) -> tuple[Sequence[NodeExplanation], tuple[str, ...]]:
    """Return the answers of nodes by the current ledger, the best chance first, then as the scorer ranks.

    The second part are the names of nodes without topology that the pod may go to. All nodes are evaluated at
    once; the explanations are then composed in steps, with other tasks in between.
    """
    pod = subject.pending
    await patiently(None for _left in state.cache.work_ahead(AT_ONCE, state.clock))

    def answered() -> tuple[CurrentAnswers, Ranks]:
        answers = current_answers(state, pod.question, subject.constraints)
        return answers, ranker.ranks(answers.batch, state.labels, opted_out=pod.opted_out)

    answers, ranks = await computed(state.cache.pace, answered)
    rules, time_slice = Rules(pod.question, state.cache.pace), TimeSlice()
    by_chance: Mapping[Chance, list[NodeExplanation]] = {chance: [] for chance in Chance}
    for at in ranks.order(answers.batch.names):
        explanation = answers.explanation(at, rules)
        by_chance[explanation.chance].append(explanation)
        await time_slice.share()
    unknown = tuple(name for name in answers.cluster.unknown if name not in answers.kept_away)
    return [*chain.from_iterable(by_chance.values())], unknown


async def _shown(explained: Sequence[NodeExplanation], pace: Pace) -> tuple[WhatIfNode, ...]:
    nodes, time_slice = list[WhatIfNode](), TimeSlice()
    for at, explanation in enumerate(explained):
        shown = WhatIfNode(
            explanation.node.name,
            explanation.node_class,
            ANSWERS[explanation.chance],
            explanation.kind_of_reason,
            explanation.score,
            placement=(),
            zones=(),
            doubts=(),
        )
        if at < MOST_DETAILED:
            shown = await computed(pace, partial(_detailed, explanation, shown))
        nodes.append(shown)
        await time_slice.share()
    return tuple(nodes)


def _detailed(explanation: NodeExplanation, shown: WhatIfNode) -> WhatIfNode:
    """Return the same with the node's own reason, or the zones that the pod would get there."""
    kept = explanation.verdict.placement.kept if explanation.chance is Chance.FITS else {}
    names = {zone.id: zone.name for zone in explanation.node.zones}
    placement = (HeldInZones(tuple(names[zone] for zone in zones), kept[zones]) for zones in sorted(kept))
    return replace(
        shown,
        reason=explanation.reason or "",
        placement=tuple(placement),
        zones=tuple(sorted({zone for zones in kept for zone in zones})),
        doubts=tuple(SENTENCES[doubt] for doubt in explanation.doubts),
    )


class Replicas:
    """Places replicas on the current cluster, one after the other as the scorer places them.

    Each goes to the node that ranks first, gets what is predicted there, and counts for the next one; nothing
    is reserved. It is assumed to get exactly that: the kubelet admits it before the next one comes. The node
    as a whole needs room as well, by the rule of kube-scheduler.
    """

    def __init__(self, state: SchedulerState, ranker: Ranker) -> None:
        self._state, self._ranker = state, ranker
        self.placed: list[Placed] = []
        self._assumed = Rearrangement(state.reservations, state.clock())

    def place(self, template: int, pod: PendingPod, names: Sequence[str], count: int) -> Iterator[None]:
        """Place up to `count` replicas of a template on any of these nodes, one in each step."""
        roomy = list[str]()
        for at, name in enumerate(names, start=1):
            if self._assumed.fits(name, pod.demand):
                roomy.append(name)
            if not at % _NODES_A_STEP:
                yield
        batch = self._state.cache.ask(roomy, pod.question, now=self._state.clock())
        ranks = self._ranker.ranks(batch, self._state.labels, opted_out=pod.opted_out)
        for place, name in enumerate(roomy):
            if name in self._assumed.changed:
                ranks = self._again(ranks, place, name, pod)
        end = len(self.placed) + count
        while len(self.placed) < end and (best := ranks.best(roomy)) is not None:
            name = roomy[best]
            if answer := self._answer(name, pod):
                held = answer.held or {}
                record = answer.record or PlacementRecord(held, Source.PREDICTED)
                assigned = pod.assigned_pod(now=self._state.clock())
                replica = replace(assigned, uid=f"replica {len(self.placed)}")
                self._assumed = self._assumed.coming(name, replica, answer._replace(record=record))
                zones = sorted({zone for several in held for zone in several})
                self.placed.append(Placed(template, name, tuple(zones)))
            ranks = self._again(ranks, best, name, pod)
            yield

    def _answer(self, name: str, pod: PendingPod) -> Prediction | None:
        """Return what the next replica would get on a node; None if it does not fit there."""
        answer = self._assumed.predict_settled(name, pod.question.demand, pod.question.intent)
        fits = answer and answer.verdict.admitted and self._assumed.fits(name, pod.demand)
        return answer if fits else None

    def _again(self, ranks: Ranks, place: int, name: str, pod: PendingPod) -> Ranks:
        """Return the ranks with the current score of one of the nodes."""
        answer = self._answer(name, pod)
        if answer is None:
            return ranks.without(place)
        alone = self._state.cache.ask_one(answer.node, answer.verdict, pod.question)
        score = self._ranker.ranks(alone, self._state.labels, opted_out=pod.opted_out).score(0)
        return ranks.with_score(place, score)
