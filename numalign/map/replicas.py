"""
How many replicas would fit, placed one after the other as the scorer places them.

Each goes to the node that ranks first, gets what is predicted there, and counts for the next one; nothing is
reserved. It is assumed to get exactly that: the kubelet admits it before the next one comes. The node as a
whole needs room as well, by the rule of kube-scheduler.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from numalign.cache.ranking import Ranks
from numalign.ledger.model import PlacementRecord, Prediction, Source
from numalign.ledger.rearrangement import Rearrangement
from numalign.map.views import Placed
from numalign.scheduling.ranking import Ranker
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState

_NODES_A_STEP = 16


@dataclass(slots=True)
class Replicas:
    """Places replicas on the current cluster, in addition to those that were placed before."""

    state: SchedulerState
    ranker: Ranker
    placed: list[Placed] = field(default_factory=list)
    _assumed: Rearrangement = field(init=False)

    def __post_init__(self) -> None:
        self._assumed = Rearrangement(self.state.reservations, self.state.clock())

    def place(self, template: int, pod: PendingPod, names: Sequence[str], count: int) -> Iterator[None]:
        """Place up to `count` replicas of a template on any of these nodes, one in each step."""
        roomy = list[str]()
        for at, name in enumerate(names, start=1):
            if self._assumed.fits(name, pod.demand):
                roomy.append(name)
            if not at % _NODES_A_STEP:
                yield
        ranks = self._ranks(pod, roomy)
        for place, name in enumerate(roomy):
            if name in self._assumed.changed:
                ranks = self._again(ranks, place, name, pod)
        end = len(self.placed) + count
        while len(self.placed) < end and (best := ranks.best(roomy)) is not None:
            if answer := self._answer(roomy[best], pod):
                self._take(template, roomy[best], pod, answer)
            ranks = self._again(ranks, best, roomy[best], pod)
            yield

    def _answer(self, name: str, pod: PendingPod) -> Prediction | None:
        """Return what the next replica would get on a node; None if it does not fit there."""
        answer = self._assumed.predict_settled(name, pod.question.demand, pod.question.intent)
        fits = answer and answer.verdict.admitted and self._assumed.fits(name, pod.demand)
        return answer if fits else None

    def _ranks(self, pod: PendingPod, names: Sequence[str]) -> Ranks:
        """Return the ranks of the nodes as they are now."""
        batch = self.state.cache.ask(names, pod.question, now=self.state.clock())
        return self.ranker.ranks(batch, self.state.labels, opted_out=pod.opted_out)

    def _again(self, ranks: Ranks, place: int, name: str, pod: PendingPod) -> Ranks:
        """Return the ranks with the current score of one of the nodes."""
        answer = self._answer(name, pod)
        if answer is None:
            return ranks.without(place)
        alone = self.state.cache.ask_one(answer.node, answer.verdict, pod.question)
        score = self.ranker.ranks(alone, self.state.labels, opted_out=pod.opted_out).score(0)
        return ranks.with_score(place, score)

    def _take(self, template: int, name: str, pod: PendingPod, answer: Prediction) -> None:
        """Assume that a replica got what was predicted."""
        held = answer.held or {}
        record = answer.record or PlacementRecord(held, Source.PREDICTED)
        replica = replace(pod.assigned_pod(now=self.state.clock()), uid=f"replica {len(self.placed)}")
        self._assumed = self._assumed.coming(name, replica, answer._replace(record=record))
        zones = sorted({zone for several in held for zone in several})
        self.placed.append(Placed(template, name, tuple(zones)))
