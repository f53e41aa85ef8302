"""
What-if questions: what would happen to a pod, or to the pods of a workload, if it were created now.

The answers are those of the other components: the decision of the webhook, the answers and the ranking of the
scorer, and the text of `kubectl numa explain`. Nothing is reserved, and no question is stored.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from numalign.cache import admission, dra
from numalign.cache.pod_question import Exempt, Invalid, PodQuestion
from numalign.cache.question import Question
from numalign.decision.evaluate import NO_INTENT
from numalign.kube.admission_caches import GatheredCache
from numalign.kube.decode.pod_reader import PodReading
from numalign.kube.decode.scheduling import scheduling
from numalign.kube.decode.templates import PodTemplate
from numalign.kube.effective_policy import EffectivePolicy
from numalign.map import pasted
from numalign.map.explained_nodes import ANSWERS, explained_nodes, shown_nodes
from numalign.map.pasted import Pasted
from numalign.map.pod_view import containers, intent_of
from numalign.map.replicas import Replicas
from numalign.map.state import MapState
from numalign.map.views import (
    Placed,
    Visible,
    WebhookAnswer,
    WhatIfAnswer,
    WhatIfResult,
    WhatIfTemplate,
)
from numalign.model.constraints import Constraints
from numalign.model.errors import BadInput, BadPod, Mistake
from numalign.runtime.cooperative import TimeSlice, computed
from numalign.scheduling.node_explanation import (
    counted_by_reason,
)
from numalign.scheduling.ranking import Ranker, RankingRules
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState

MOST_REPLICAS = 1000
"""Most replicas to place for one question, in total for all templates."""

PLACING_SECONDS = 10.0
"""The limit in seconds of placing replicas for one question; the next question waits meanwhile."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """A pod of a question: its reading, and its form for the scorer."""

    template: PodTemplate
    reading: PodReading
    pending: PendingPod
    constraints: Constraints


@dataclass(eq=False)
class WhatIf:
    """Answers what-if questions about one cluster, one at a time; `ranker` is that of the scorer."""

    map_state: MapState
    ranker: Ranker = field(default_factory=lambda: Ranker(RankingRules()))
    unknown_may_fit: bool = True
    _shapes: GatheredCache = field(init=False)
    _turn: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._shapes = GatheredCache(self._state.cluster)

    @property
    def _state(self) -> SchedulerState:
        return self.map_state.state

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
        subjects, notes = self._subjects(asked, visible, user), list(asked.notes)
        if not visible(asked.namespace):
            notes.append("the settings of its namespace are left out: you may not list pods there")
        answered = [await self._of_template(subject, tuple(notes)) for subject in subjects]
        each = min(wanted, MOST_REPLICAS // len(subjects))
        placing = Replicas(self._state, self.ranker)
        in_time = await self._in_time(self._placing(placing, subjects, answered, each))
        return WhatIfResult(
            asked.kind,
            asked.namespace,
            asked.name,
            tuple(answered),
            wanted,
            len(placing.placed),
            tuple(placing.placed),
            each < wanted or not in_time,
            self.map_state.revision,
            self._state.wall(),
            _highlighted(placing.placed),
        )

    def _placing(
        self,
        placing: Replicas,
        subjects: Iterable[_Subject],
        answered: Iterable[WhatIfTemplate],
        count: int,
    ) -> Iterator[None]:
        """Place up to `count` replicas of each template in turn, one at each step."""
        for at, (subject, template) in enumerate(zip(subjects, answered, strict=True)):
            names = [node.name for node in template.nodes if node.answer is WhatIfAnswer.FITS]
            yield from placing.place(at, subject.pending, names, count)

    async def _in_time(self, work: Iterator[None]) -> bool:
        """Do the work in steps for at most `PLACING_SECONDS`; return whether that was enough."""
        end, time_slice = self._state.clock() + PLACING_SECONDS, TimeSlice()
        for _ in work:
            if self._state.clock() >= end:
                return False
            await time_slice.share()
        return True

    # Reading.

    def _subjects(self, asked: Pasted, visible: Visible, user: str) -> list[_Subject]:
        """Return its pods as read in their namespace; raise `BadPod` with the mistakes of all of them."""
        policy = self._policy() if visible(asked.namespace) else EffectivePolicy()
        subjects, mistakes = list[_Subject](), list[Mistake]()
        for template in asked.templates:
            reading = self._state.reader.read(
                template.place.raw, asked.namespace, policy, user, server=self._state.cluster.server
            )
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
                placed = self._policy().placed(reading)
                question, constraints = placed.question, reading.constraints
            case Exempt(_, demand) if demand is not None:
                question, constraints = (
                    Question(demand, NO_INTENT),
                    scheduling(template.place.raw).constraints,
                )
            case Exempt() | Invalid():
                raise BadPod(reading.mistakes)
        by_node = self._state.reader.shared(dra.by_node(question, self._state.cluster.served))
        pod_question = reading if isinstance(reading, PodQuestion) else None
        created = self._state.next_created()
        pending = PendingPod("", asked.namespace, asked.name, created, by_node, pod_question)
        return _Subject(template, reading, pending, constraints)

    def _policy(self) -> EffectivePolicy:
        return EffectivePolicy.of(self._state.cluster, self._state.policy.now)

    # Answering.

    async def _of_template(self, subject: _Subject, notes: tuple[str, ...]) -> WhatIfTemplate:
        webhook, pod = await self._webhook(subject.reading), subject.pending
        explained = await explained_nodes(self._state, self.ranker, pod, subject.constraints)
        nodes = await shown_nodes(explained.by_rank, self._state.cache.pace)
        counts = Counter(node.answer for node in nodes)
        counted = counted_by_reason(explained.by_rank)
        return WhatIfTemplate(
            subject.template.where,
            intent_of(subject.reading),
            containers(pod.demand),
            pod.demand.total,
            webhook,
            nodes,
            explained.unknown,
            {answer: counts[answer] for answer in WhatIfAnswer},
            tuple((count, ANSWERS[chance], reason) for count, chance, reason in counted),
            notes,
        )

    async def _webhook(self, reading: PodReading) -> WebhookAnswer:
        """Return the response of the webhook, which knows the published topology of nodes, and shapes."""
        if not isinstance(reading, PodQuestion):
            return WebhookAnswer(None, (), reading.reason if isinstance(reading, Exempt) else None)
        cluster, policy, cache = self._state.cluster, self._state.policy.now, await self._shapes.current()
        refusals = policy.refusals(unknown_may_fit=self.unknown_may_fit)
        now, served = self._state.wall(), cluster.served
        decide = partial(admission.decide, reading, cache, refusals, now=now, served=served)
        decision = await computed(cache.pace, decide)
        return WebhookAnswer(decision.refusal, decision.all_warnings, None)


def _highlighted(placed: Iterable[Placed]) -> Mapping[str, frozenset[str]]:
    """Return the zones of all replicas by node."""
    zones = defaultdict[str, set[str]](set)
    for replica in placed:
        zones[replica.node].update(replica.zones)
    return {name: frozenset(held) for name, held in zones.items()}
