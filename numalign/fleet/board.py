"""
All nodes, asked together, as things stand.

What nodes said to a question is kept, and asked again only of those that changed since. Every answer is what
the rules say of each node; columns only say it sooner.
"""

from collections.abc import Iterable

from numalign.fleet.answer import Answer
from numalign.fleet.question import Question
from numalign.fleet.recent import Recent
from numalign.fleet.tables import Tables
from numalign.rules.topology import Node

__all__ = ["Answer", "Board"]

REMEMBERED = 256
"""Questions whose answers are kept; the least recently asked goes first."""


class Board(Tables):
    """Nodes that can be asked. Changed in place, by one thread; so much of what was asked is `remembered`."""

    def __init__(self, nodes: Iterable[Node] = (), *, remembered: int = REMEMBERED) -> None:
        super().__init__()
        self._remembered = remembered
        self._answers: Recent[Question, Answer] = Recent(remembered)
        for node in nodes:
            self.put(node)

    def ask(self, question: Question) -> Answer:
        """What every node says."""
        return self._answers.get(question, lambda: Answer(self, question))
