"""
What all nodes say to one question, by row.

Each thing that can be asked about is an array, worked out when somebody asks for it and patched from then on.
Columns say it, table by table; a node that stands in none, or where amounts do not decide, is asked by the
rules, whose verdict is kept as long as the node stands.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from numalign.fleet import causes, placing, reach
from numalign.fleet.arrays import Bools, Ints, Rows
from numalign.fleet.changes import Changes, Compute, Patched
from numalign.fleet.columns import Moment, When
from numalign.fleet.placing import REFUSED
from numalign.fleet.plan import Plan, plan_of
from numalign.fleet.question import Question
from numalign.fleet.state import State
from numalign.fleet.tables import GONE, ODD, Tables
from numalign.rules import scoring
from numalign.rules.evaluate import evaluate
from numalign.rules.placement import Placement
from numalign.rules.scoring import EVEN, Strategy, Weights
from numalign.rules.topology import Node
from numalign.rules.verdict import Verdict

_ON_EMPTY = "able"

_VERDICTS = 4096
"""So many verdicts of single nodes are kept."""


class _YesOrNo(NamedTuple):
    """How something about a node is found out: in which state, by columns, and by the rules."""

    when: Moment
    by_columns: Callable[[Plan, State], tuple[Bools, Bools]]
    by_rules: Callable[["Answer", int], bool]


class Answer:
    """What nodes say, as things stand whenever it is read; of a row without a node nothing is true."""

    def __init__(self, nodes: Tables, question: Question) -> None:
        self.question = question
        self._nodes = nodes
        self._kept: dict[object, Patched] = {}
        self._plans: dict[int, Plan] = {}
        self._verdicts: dict[int, tuple[Node, Verdict]] = {}
        self._numbers: dict[object, int] = {}

    def verdict(self, row: int) -> Verdict:
        """All that the node in a row says; raises `KeyError` where there is none."""
        node, known = self._nodes.node(row), self._verdicts.get(row)
        if known is None or known[0] is not node:
            if len(self._verdicts) >= _VERDICTS:
                self._verdicts.clear()
            known = node, evaluate(node, self.question.demand, self.question.intent)
            self._verdicts[row] = known
        return known[1]

    def placed(self, row: int) -> Placement:
        """Where the pod comes to on the node in a row; nowhere, where it is refused."""
        return self.verdict(row).placement

    # What is true of nodes.

    @property
    def admitted(self) -> Bools:
        """Whether the pod is admitted as things stand."""
        return self._true("admitted", _ADMITTED)

    @property
    def able(self) -> Bools:
        """Whether the pod would be admitted with nothing on the node."""
        return self._true(_ON_EMPTY, _ABLE)

    @property
    def permanent(self) -> Bools:
        """Whether the pod is refused and would be with nothing on the node."""
        tables, _ = self._nodes.places(None)
        found: Bools = ~(self.admitted | self.able) & (tables != GONE)
        return found

    @property
    def aligned(self) -> Bools:
        """Whether the kubelet really aligns the pod that it admits (`rules.scoring.aligned`)."""
        found: Bools = self.admitted & self._true("aligned", _ALIGNED)
        return found

    def _true(self, key: str, of: _YesOrNo) -> Bools:
        return self._patched(key, np.zeros(0, dtype=np.bool_), lambda rows: self._found(of, rows))

    def _found(self, of: _YesOrNo, rows: Rows | None) -> Bools:
        """Ask columns table by table, and the rules where they have no answer."""
        numbers, places = self._nodes.places(rows)
        found, unsure = np.zeros(len(numbers), dtype=np.bool_), numbers == ODD
        for plan, here, state in self._states(of.when, rows, numbers, places):
            found[here], unsure[here] = of.by_columns(plan, state)
        for at in np.flatnonzero(unsure):
            found[at] = of.by_rules(self, int(at if rows is None else rows[at]))
        return found

    # Where the pod comes to.

    @property
    def width(self) -> Ints:
        """How many zones the pod gets, -1 where it is refused."""
        return self._patched("width", np.zeros(0, dtype=np.int16), self._widths)

    def scores(self, strategy: Strategy, weights: Weights = EVEN) -> Ints:
        """How good the placement is by a strategy, 0 to 100; -1 where the pod is refused.

        Weights are such as people choose: floating point would not tell those of 2^50 apart.
        """
        key, empty = (strategy, tuple(sorted(weights.items()))), np.zeros(0, dtype=np.int16)
        return self._patched(key, empty, lambda rows: self._scored(rows, strategy, weights))

    @property
    def _masks(self) -> Ints:
        """By step and row the zones that the pod comes to, as bits; `UNTOLD` in the first for all."""
        empty = np.zeros((max(1, len(self.question.demand.steps)), 0), dtype=np.int16)
        return self._patched("masks", empty, self._masked)

    def _masked(self, rows: Rows | None) -> Ints:
        numbers, places = self._nodes.places(rows)
        found = np.zeros((max(1, len(self.question.demand.steps)), len(numbers)), dtype=np.int16)
        for plan, here, state in self._states(When.NOW, rows, numbers, places):
            found[:, here], unknown = placing.masks(plan, state)
            found[0, here[unknown]] = placing.UNTOLD
        found[0, numbers == ODD] = placing.UNTOLD
        found[:, ~self.admitted[_chosen(rows)]] = 0
        return found

    def _widths(self, rows: Rows | None) -> Ints:
        masks = self._masks[:, _chosen(rows)]
        found = np.where(self.admitted[_chosen(rows)], placing.width(masks), np.int16(REFUSED))
        for at, row in _untold(rows, masks):
            found[at] = len(self.placed(row).zones)
        return found

    def _scored(self, rows: Rows | None, strategy: Strategy, weights: Weights) -> Ints:
        numbers, places = self._nodes.places(rows)
        masks = self._masks[:, _chosen(rows)]
        found = np.full(len(numbers), REFUSED, dtype=np.int16)
        told = self.admitted[_chosen(rows)] & (masks[0] != placing.UNTOLD)
        for number, table in self._nodes.among(numbers[told]):
            here = np.flatnonzero(told & (numbers == number))
            state = State(table.columns, When.NOW, places[here])
            found[here] = placing.score(self._plan(number), state, masks[:, here], strategy, weights)
        for at, row in _untold(rows, masks):
            node, demand = self._nodes.node(row), self.question.demand
            found[at] = scoring.score(strategy, node, demand, self.placed(row), weights)
        return found

    # What refusals say.

    @property
    def said(self) -> Ints:
        """Of refused rows a number: equal ones have the same said of them; -1 where nothing is refused."""
        return self._patched("said", np.zeros(0, dtype=np.int32), self._numbered)

    def _numbered(self, rows: Rows | None) -> Ints:
        numbers, places = self._nodes.places(rows)
        refused = ~self.admitted[_chosen(rows)] & (numbers != GONE)
        when: Mapping[Moment, Bools] = {
            When.NOW: self.able[_chosen(rows)],
            When.EMPTY: ~self.able[_chosen(rows)],
        }
        found = np.full(len(numbers), REFUSED, dtype=np.int32)
        by_rules = refused & (numbers == ODD)
        for moment, those in when.items():
            for number, table in self._nodes.among(numbers[refused & those]):
                here = np.flatnonzero(refused & those & (numbers == number))
                said = causes.numbers(self._plan(number), State(table.columns, moment, places[here]))
                found[here] = self._shared((moment, number), said)
                by_rules[here[said == causes.UNTOLD]] = True
        for at in np.flatnonzero(by_rules):
            found[at] = self._number(self._said(int(at if rows is None else rows[at])))
        return found

    def _shared(self, key: tuple[Moment, int], said: Ints) -> Ints:
        kinds, which = np.unique(said, return_inverse=True)
        return np.array([self._number((*key, int(kind))) for kind in kinds], dtype=np.int32)[which]

    def _said(self, row: int) -> object:
        """All that somebody is told of a refusal."""
        verdict = self.verdict(row)
        refusal = verdict.refusal
        if refusal is None:
            raise ValueError("a node that takes the pod refuses nothing")
        needs = tuple((need.resource, need.asked, need.zones) for need in refusal.needs)
        return refusal.reason, refusal.cause, refusal.policy, verdict.permanent, needs, refusal.detail

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    # How arrays are kept.

    def _patched(self, key: object, empty: NDArray[Any], compute: Compute) -> NDArray[Any]:
        if key not in self._kept:
            self._kept[key] = Patched(_followed(self._nodes, key), empty)
        return self._kept[key].current(self._nodes.height, compute)

    def _states(
        self, when: Moment, rows: Rows | None, numbers: Ints, places: Rows
    ) -> Iterator[tuple[Plan, Rows, State]]:
        """By table: the plan, where its nodes are among these rows, and what they have."""
        if rows is None:
            for number, table in self._nodes.tables():
                yield self._plan(number), table.rows, State(table.columns, when)
            return
        for number, table in self._nodes.among(numbers):
            here = np.flatnonzero(numbers == number)
            yield self._plan(number), here, State(table.columns.some(places[here]), when)

    def _plan(self, number: int) -> Plan:
        if number not in self._plans:
            table = self._nodes.table(number)
            example = self._nodes.node(int(table.rows[0]))
            self._plans[number] = plan_of(table.columns.layout, self.question, example)
        return self._plans[number]

    def node(self, row: int) -> Node:
        """The node in a row; raises `KeyError` where there is none."""
        return self._nodes.node(row)


def _followed(nodes: Tables, key: object) -> Changes:
    """The changes that matter to one of the arrays: on an empty node everything is free."""
    return nodes.facts if key == _ON_EMPTY else nodes.changes


def _chosen(rows: Rows | None) -> Rows | slice:
    return slice(None) if rows is None else rows


def _untold(rows: Rows | None, masks: Ints) -> Iterator[tuple[int, int]]:
    """Where the rules have to be asked: the place among these rows, and the row."""
    for at in np.flatnonzero(masks[0] == placing.UNTOLD):
        yield int(at), int(at if rows is None else rows[at])


def _admitted(plan: Plan, state: State) -> tuple[Bools, Bools]:
    found = reach.tried(plan, state)
    return found.taken, found.unsure


def _able_by_rules(answer: Answer, row: int) -> bool:
    asked, empty = answer.question, answer.node(row).emptied()
    return evaluate(empty, asked.demand, asked.intent).admitted


def _aligned_by_rules(answer: Answer, row: int) -> bool:
    verdict, asked = answer.verdict(row), answer.question
    return verdict.admitted and scoring.aligned(
        answer.node(row), asked.demand, verdict.placement, asked.intent
    )


_ADMITTED = _YesOrNo(When.NOW, _admitted, lambda answer, row: answer.verdict(row).admitted)
_ABLE = _YesOrNo(When.EMPTY, _admitted, _able_by_rules)
_ALIGNED = _YesOrNo(When.NOW, placing.aligned, _aligned_by_rules)
