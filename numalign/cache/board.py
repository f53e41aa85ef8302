"""
All nodes, asked together, as things stand.

What nodes said to a question is kept, and asked again only of those that changed since. Every answer is what
the rules say of each node; columns only say it sooner.
"""

from collections.abc import Iterable

from numalign.cache.batch import Answer
from numalign.cache.health_table import HealthTable
from numalign.cache.node_table import NodeTable
from numalign.cache.question import Question
from numalign.lru import LRU, Caches
from numalign.model.node import Node

__all__ = ["Answer", "Board"]

REMEMBERED = 256
"""Questions whose answers are kept; the least recently asked goes first."""

MOST_BYTES = 2**26
"""Of all answers together: one about 5,000 nodes takes a tenth of a MiB, and more for many containers."""


class Board(NodeTable):
    """Nodes that can be asked. Changed in place, by one thread; so much of what was asked is `remembered`."""

    def __init__(self, nodes: Iterable[Node] = (), *, remembered: int = REMEMBERED) -> None:
        super().__init__()
        self._healths = HealthTable()
        self._remembered = remembered
        self._answers: LRU[Question, Answer] = LRU(remembered, most_bytes=MOST_BYTES, weigh=_weight_of_answer)
        for node in nodes:
            self.put(node)

    def put(self, node: Node) -> None:
        """A node is as it is told now."""
        super().put(node)
        self._healths.put(self._rows[node.name], node.health)

    def drop(self, name: str) -> None:
        """A node is there no more."""
        row = self.row(name)
        super().drop(name)
        if row is not None:
            self._healths.put(row, None)

    def ask(self, question: Question) -> Answer:
        """What every node says."""
        found = self._answers.get(question, lambda: Answer(self, question, self._healths))
        # An answer is empty in the beginning, and grows with what it is asked.
        self._answers.weigh_again(question)
        return found

    def caches(self) -> Caches:
        """What is remembered of what was asked."""
        return {"answers": self._answers}


def _weight_of_answer(_question: Question, answer: Answer) -> int:
    return answer.weight
