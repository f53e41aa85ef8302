"""
Asking many nodes without keeping anybody waiting.

Columns answer for thousands of nodes within a millisecond or two; where they cannot, the rules need a tenth
of that for a single node, and for many containers on many zones up to a second. So it is found out step by
step what a pod means to all nodes, and whoever has others to answer lets them in between.
"""

from collections.abc import Iterator

import numpy as np

from numalign.cache import feasibility
from numalign.cache.arrays import Bools, Rows
from numalign.cache.column_state import ColumnState
from numalign.cache.columns import FreeOrEmpty, When
from numalign.cache.node_table import ODD, NodeTable
from numalign.cache.plan import plan_of
from numalign.cache.question import Question
from numalign.decision.evaluate import evaluating
from numalign.decision.verdict import Verdict
from numalign.model.steps import Steps


class Sweep:
    """Whether the nodes in these rows (all, if None) take a pod, of those `among` them that are asked at all.

    `taken` says which are known to take it, or to be `unanswered`: nothing may be refused for those. Several
    callers may go on with one sweep in turn: what one of them has found out is found out for all.
    """

    def __init__(
        self,
        nodes: NodeTable,
        question: Question,
        when: FreeOrEmpty,
        rows: Rows | None = None,
        *,
        among: Bools | None = None,
    ) -> None:
        self._nodes = nodes
        self._question = question
        self._when = when
        self._rows = rows
        self._tables, self._places = nodes.places(rows)
        self._among = np.ones(len(self._tables), dtype=np.bool_) if among is None else among
        self._waiting = [number for number, _ in nodes.tables()] if len(self._tables) else []
        self._unsure: Bools = (self._tables == ODD) & self._among
        self._asking: dict[int, Steps[Verdict]] = {}
        self.taken: Bools = np.zeros(len(self._tables), dtype=np.bool_)
        self.unanswered: Bools = np.zeros(len(self._tables), dtype=np.bool_)

    @property
    def found(self) -> int | None:
        """A row that takes the pod, or may take it, if one is known."""
        places = np.flatnonzero(self.taken)
        return self._row(int(places[0])) if len(places) else None

    def patched(self, before: Bools | None) -> Bools:
        """`taken` of all rows by now, where `before` is what was known of rows that are not meant."""
        return self._patched(self.taken, before)

    def patched_unanswered(self, before: Bools | None) -> Bools:
        """The same of those that are `unanswered`."""
        return self._patched(self.unanswered, before)

    def _patched(self, found: Bools, before: Bools | None) -> Bools:
        if self._rows is None:
            return found
        known = np.zeros(self._nodes.height, dtype=np.bool_)
        if before is not None:
            known[: len(before)] = before
        known[self._rows] = found
        return known

    def run(self) -> Iterator[None]:
        """Find out the rest: a table of columns at each step, then a node or some containers on it."""
        while self._waiting:
            self._ask_table(self._waiting.pop())
            yield
        for at in map(int, np.flatnonzero(self._unsure)):
            while self._unsure[at]:
                self._go_on(at)
                yield

    def _row(self, at: int) -> int:
        return int(at if self._rows is None else self._rows[at])

    def _ask_table(self, number: int) -> None:
        table = self._nodes.table(number)
        here = table.rows if self._rows is None else np.flatnonzero(self._tables == number)
        if not len(here):
            return
        plan = plan_of(table.columns.layout, self._question, self._nodes.node(int(table.rows[0])))
        places = None if self._rows is None else self._places[here]
        found = feasibility.tried(plan, ColumnState(table.columns, self._when, places))
        self.taken[here] = found.taken & ~found.unsure & self._among[here]
        self._unsure[here] = found.unsure & self._among[here]

    def _go_on(self, at: int) -> None:
        """One step of asking a node, which another caller may have begun."""
        if at not in self._asking:
            self._asking[at] = self._ask_node(self._row(at))
        try:
            next(self._asking[at])
        except StopIteration as done:
            verdict: Verdict = done.value
            self.taken[at], self.unanswered[at] = not verdict.refused, not verdict.answered
            self._unsure[at] = False
            del self._asking[at]

    def _ask_node(self, row: int) -> Steps[Verdict]:
        node = self._nodes.node(row)
        there = node.emptied() if self._when is When.EMPTY else node
        return evaluating(there, self._question.demand, self._question.intent)
