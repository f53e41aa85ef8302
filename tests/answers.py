"""What nodes say to one question, each of them asked by the rules, in the shape in which they are ranked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.question import Question
from numalign.cache.ranking import Ranking, Ranks, Single, ranks
from numalign.decision import scoring
from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.decision.scoring import Strategy, Weights
from numalign.model.node import Node
from tests.notation import asks, means


@dataclass(frozen=True)
class Told:
    """Nodes by row, and what they said; of nodes that refuse there are numbers that mean nothing."""

    question: Question
    nodes: Sequence[Single]

    @property
    def rows(self) -> Rows:
        """The rows of all nodes."""
        return np.arange(len(self.nodes))

    @property
    def admitted(self) -> Bools:
        """Who takes the pod."""
        return np.array([each.verdict.admitted for each in self.nodes], dtype=np.bool_)

    @property
    def aligned(self) -> Bools:
        """As `scoring.aligned`."""
        demand, intent = self.question.demand, self.question.intent
        return np.array(
            [
                not each.verdict.admitted
                or scoring.aligned(each.node, demand, each.verdict.placement, intent)
                for each in self.nodes
            ],
            dtype=np.bool_,
        )

    @property
    def width(self) -> Ints:
        """How many zones the pod gets."""
        return np.array(
            [len(each.verdict.placement.zones) if each.verdict.admitted else -1 for each in self.nodes],
            dtype=np.int16,
        )

    def scores(self, strategy: Strategy, weights: Weights) -> Ints:
        """As `scoring.score`."""
        found = (self._score(each, strategy, weights) for each in self.nodes)
        return np.fromiter(found, dtype=np.int16)

    def _score(self, told: Single, strategy: Strategy, weights: Weights) -> int:
        if not told.verdict.admitted:
            return -1
        return scoring.score(strategy, told.node, self.question.demand, told.verdict.placement, weights)


def told(nodes: Iterable[Node], pod: str, intent: str = "none") -> Told:
    """What these nodes say to a pod."""
    question = Question(asks(pod), means(intent) if intent != "none" else NO_INTENT)
    return Told(question, [asked(node, question) for node in nodes])


def asked(node: Node, question: Question) -> Single:
    """What one node says by itself."""
    return Single(node, evaluate(node, question.demand, question.intent))


def ranked(answer: Told, *rankings: Ranking) -> Ranks:
    """What all nodes are worth, by the first ranking."""
    return ranks(answer, answer.rows, rankings or [Ranking()])
