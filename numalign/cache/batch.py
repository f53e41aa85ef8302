"""
What all nodes say to one question, by row.

Each thing that can be asked about is an array, worked out when somebody asks for it and patched from then on.
Columns say it, table by table; a node that stands in none, or where amounts do not decide, is asked by the
rules, whose verdict is kept as long as the node stands.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from numalign.cache import batch_placement, refusal_codes
from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.batch_placement import REFUSED
from numalign.cache.batch_scoring import Unit
from numalign.cache.change_log import ChangeLog, Compute, TrackedArray
from numalign.cache.column_state import ColumnState, Ever
from numalign.cache.columns import FreeOrEmpty, When
from numalign.cache.feasibility import Trial
from numalign.cache.health_table import HealthTable
from numalign.cache.node_table import GONE, NOWHERE, ODD, NodeTable
from numalign.cache.plan import LayoutPlan, plan_of
from numalign.cache.question import Question
from numalign.decision import scoring
from numalign.decision.evaluate import evaluating
from numalign.decision.scoring import EVEN, Strategy, Weights
from numalign.decision.verdict import Verdict
from numalign.memory_size import weight
from numalign.model.node import Node
from numalign.model.placement import Placement
from numalign.model.steps import Steps, finished

_ADMITTED_KEY, _ABLE_KEY, _NEVER_KEY = "admitted", "able", "never"
_ON_EMPTY = (_ABLE_KEY, _NEVER_KEY)
"""What is asked of empty nodes."""

_IN_HEALTH = "in health"
"""In the number of what an ill node says by what it has in health."""

_FEW = 256
"""Of so many rows what is worked out for one thing is kept for the next."""

_VERDICTS = 4096
"""So many verdicts of single nodes are kept, if the pod is a small one."""

_BYTES_OF_VERDICTS = 2**24
"""So much may those take of a pod with many containers, each of which has its place in every one of them."""

_BYTES_OF_PLAN = 4096
"""What it takes to know how a pod is tried on the nodes of one layout, roughly."""


class _YesOrNo(NamedTuple):
    """How something about a node is found out: in which state, by columns, and by the rules' verdict."""

    when: FreeOrEmpty
    by_columns: Callable[[Trial], tuple[Bools, Bools]]
    by_rules: Callable[["Answer", int, Verdict], bool]


@dataclass(slots=True)
class _Part:
    """The rows of one table among those that are meant: their places there, and what is tried on them."""

    here: Rows
    trial: Trial
    units: Sequence[Unit] = ()


class _Look(NamedTuple):
    """What is tried on some rows, table by table, and which of them stand in none."""

    parts: Sequence[_Part]
    odd: Bools


class _Ill(NamedTuple):
    """Which of some rows are those of ill nodes, and the rows of an `answer` that speak of them in health."""

    answer: "Answer"
    here: Rows
    rows: Rows


class _Lately(NamedTuple):
    """What was tried on a few rows, as of a place in what changed."""

    place: tuple[int, int]
    rows: bytes
    look: _Look


class Answer:
    """What nodes say, as things stand whenever it is read; of a row without a node nothing is true.

    What could ever be is asked of ill nodes by their `healths`; without these, all nodes are in health.
    """

    def __init__(self, nodes: NodeTable, question: Question, healths: HealthTable | None = None) -> None:
        self.question = question
        self._nodes = nodes
        self._healths = healths
        self._in_health = Answer(healths.nodes, question) if healths else None
        self._kept: dict[object, TrackedArray] = {}
        self._plans: dict[int, tuple[LayoutPlan, Ever]] = {}
        self._lately: dict[FreeOrEmpty, _Lately] = {}
        self._verdicts: dict[tuple[FreeOrEmpty, int], tuple[Node, Verdict]] = {}
        self._verdicts_bytes = 0
        self._numbers: dict[object, int] = {}

    @property
    def weight(self) -> int:
        """The bytes that it takes in memory by now, those of its question included."""
        return self.question.weight + self.bytes

    @property
    def bytes(self) -> int:
        """The same without those of its question."""
        own = self._verdicts_bytes + len(self._plans) * _BYTES_OF_PLAN
        arrays = sum(each.bytes for each in self._kept.values())
        return own + arrays + (self._in_health.bytes if self._in_health else 0)

    def verdict(self, row: int) -> Verdict:
        """All that the node in a row says; raises `KeyError` where there is none."""
        return finished(self._judging(When.NOW, row))

    def _judging(self, when: FreeOrEmpty, row: int) -> Steps[Verdict]:
        """What the node in a row says, as it is or in health and with nothing on it."""
        node, known = self._nodes.node(row), self._verdicts.get((when, row))
        if known is None or known[0] is not node:
            there = node.in_health() if when is When.EMPTY else node
            known = node, (yield from evaluating(there, self.question.demand, self.question.intent))
            self._keep((when, row), known)
        return known[1]

    def _keep(self, place: tuple[FreeOrEmpty, int], known: tuple[Node, Verdict]) -> None:
        if len(self._verdicts) >= _VERDICTS or self._verdicts_bytes >= _BYTES_OF_VERDICTS:
            self._verdicts.clear()
            self._verdicts_bytes = 0
        before = self._verdicts.get(place)
        self._verdicts_bytes += weight(known[1]) - (weight(before[1]) if before else 0)
        self._verdicts[place] = known

    def asking(self) -> Iterator[None]:
        """Have the rules asked what columns cannot say, step by step; the answer is then there at once.

        What changes meanwhile is asked when the answer is read.
        """
        yield from self._catching_up(_ADMITTED_KEY, _ADMITTED)
        yield from self.asking_ever()

    def asking_ever(self) -> Iterator[None]:
        """The same of what could ever be alone."""
        yield from self._catching_up(_ABLE_KEY, _ABLE)

    def _catching_up(self, key: str, of: _YesOrNo) -> Iterator[None]:
        kept = self._array_of(key, np.zeros(0, dtype=np.bool_))
        yield from kept.catching_up(self._nodes.height, partial(self._finding, of))

    def placed(self, row: int) -> Placement:
        """Where the pod comes to on the node in a row; nowhere, where it is refused."""
        return self.verdict(row).placement

    # What is true of nodes.

    @property
    def admitted(self) -> Bools:
        """Whether the pod is admitted as things stand."""
        return self._true(_ADMITTED_KEY, _ADMITTED)

    @property
    def able(self) -> Bools:
        """Whether the pod would be admitted in health and with nothing on the node, or nobody can say."""
        return self._true(_ABLE_KEY, _ABLE)

    @property
    def permanent(self) -> Bools:
        """Whether the pod is refused and would be in health and with nothing on the node, which is known."""
        tables, _ = self._nodes.places(None)
        found: Bools = ~(self.admitted | self.able) & (tables != GONE)
        return found

    @property
    def aligned(self) -> Bools:
        """Whether the kubelet really aligns the pod that it admits (`decision.scoring.aligned`)."""
        found: Bools = self.admitted & self._true("aligned", _ALIGNED)
        return found

    def _true(self, key: str, of: _YesOrNo) -> Bools:
        empty = np.zeros(0, dtype=np.bool_)
        return self._patched(key, empty, lambda rows: finished(self._finding(of, rows)))

    def _finding(self, of: _YesOrNo, rows: Rows | None) -> Steps[Bools]:
        """Ask columns table by table, and the rules where they have no answer."""
        if ill := self._ill(of.when, rows):
            yield from ill.answer.asking_ever()
        parts, odd = self._look(of.when, rows)
        found, unsure = np.zeros(len(odd), dtype=np.bool_), odd.copy()
        for part in parts:
            found[part.here], doubtful = of.by_columns(part.trial)
            unsure[part.here[doubtful]] = True
        if ill := self._ill(of.when, rows):
            found[ill.here], unsure[ill.here] = ill.answer.able[ill.rows], False
        for at in unsure.nonzero()[0]:
            row = int(at if rows is None else rows[at])
            # It may have gone since the first step.
            if self._nodes.has(row):
                verdict = yield from self._judging(of.when, row)
                found[at] = of.by_rules(self, row, verdict)
            yield
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
        parts, odd = self._look(When.NOW, rows)
        found = np.zeros((max(1, len(self.question.demand.steps)), len(odd)), dtype=np.int16)
        for part in parts:
            found[:, part.here], unknown = batch_placement.masks(part.trial)
            found[0, part.here[unknown]] = batch_placement.UNTOLD
        found[0, odd] = batch_placement.UNTOLD
        found[:, ~self.admitted[_chosen(rows)]] = 0
        return found

    def _widths(self, rows: Rows | None) -> Ints:
        masks = self._masks[:, _chosen(rows)]
        found = np.where(self.admitted[_chosen(rows)], batch_placement.width(masks), np.int16(REFUSED))
        for at, row in _untold(rows, masks):
            found[at] = len(self.placed(row).zones)
        return found

    def _scored(self, rows: Rows | None, strategy: Strategy, weights: Weights) -> Ints:
        masks = self._masks[:, _chosen(rows)]
        found = np.full(masks.shape[1], REFUSED, dtype=np.int16)
        told = self.admitted[_chosen(rows)] & (masks[0] != batch_placement.UNTOLD)
        for part in self._parts_with(told, When.NOW, rows):
            if not part.units:
                part.units = batch_placement.units(part.trial, masks[:, part.here])
            value = batch_placement.score(part.trial, part.units, strategy, weights)
            found[part.here] = np.where(told[part.here], value, REFUSED)
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
        chosen, (numbers, _) = _chosen(rows), self._nodes.places(rows)
        refused, able = ~self.admitted[chosen] & (numbers != GONE), self.able[chosen]
        found, never = self._told(When.NOW, rows, refused & able), refused & ~able
        return np.where(never, self.never[chosen], found) if never.any() else found

    @property
    def never(self) -> Ints:
        """The same of rows that would refuse in health and with nothing on the node."""
        return self._patched(_NEVER_KEY, np.zeros(0, dtype=np.int32), self._never_numbered)

    def _never_numbered(self, rows: Rows | None) -> Ints:
        refused, ill = ~self.able[_chosen(rows)], self._ill(When.EMPTY, rows)
        if ill is None:
            return self._told(When.EMPTY, rows, refused)
        mine = refused.copy()
        mine[ill.here] = False
        found, theirs = self._told(When.EMPTY, rows, mine), ill.answer.never[ill.rows]
        found[ill.here] = np.where(refused[ill.here], self._shared((_IN_HEALTH,), theirs), REFUSED)
        return found

    def _told(self, when: FreeOrEmpty, rows: Rows | None, refused: Bools) -> Ints:
        numbers, _ = self._nodes.places(rows)
        found, by_rules = np.full(len(numbers), REFUSED, dtype=np.int32), refused & (numbers == ODD)
        for part in self._parts_with(refused, when, rows):
            said, those = refusal_codes.numbers(part.trial), refused[part.here]
            shared = self._shared((when, int(numbers[part.here[0]])), said)
            found[part.here] = np.where(those, shared, REFUSED)
            by_rules[part.here[those & (said == refusal_codes.UNTOLD)]] = True
        for at in np.flatnonzero(by_rules):
            row = int(at if rows is None else rows[at])
            found[at] = self._number(_said(finished(self._judging(when, row))))
        return found

    def _shared(self, key: tuple[object, ...], said: Ints) -> Ints:
        kinds, which = np.unique(said, return_inverse=True)
        return np.array([self._number((*key, int(kind))) for kind in kinds], dtype=np.int32)[which]

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    # Who is ill.

    def _ill(self, when: FreeOrEmpty, rows: Rows | None) -> _Ill | None:
        """Those of these rows, or of all, that are asked by what they have in health; None if none are."""
        if self._in_health is None or self._healths is None or when is When.NOW:
            return None
        healthy = self._healths.rows(rows, self._nodes.height)
        here = np.flatnonzero(healthy != NOWHERE)
        return _Ill(self._in_health, here, healthy[here]) if len(here) else None

    # How arrays are kept.

    def _patched(self, key: object, empty: NDArray[Any], compute: Compute) -> NDArray[Any]:
        return self._array_of(key, empty).current(self._nodes.height, compute)

    def _array_of(self, key: object, empty: NDArray[Any]) -> TrackedArray:
        if key not in self._kept:
            self._kept[key] = TrackedArray(_followed(self._nodes, key), empty)
        return self._kept[key]

    def _look(self, when: FreeOrEmpty, rows: Rows | None) -> _Look:
        """What is tried on these rows; of a few it is the same as before, as long as nothing changes."""
        if rows is None:
            numbers, _ = self._nodes.places(None)
            every = [_Part(table.rows, self._trial(at, when)) for at, table in self._nodes.tables()]
            return _Look(every, numbers == ODD)
        if len(rows) > _FEW:
            return self._tried_on(when, rows)
        kept, now, key = self._lately.get(when), self._nodes.changes.place, rows.tobytes()
        if kept is None or kept.place != now or kept.rows != key:
            kept = self._lately[when] = _Lately(now, key, self._tried_on(when, rows))
        return kept.look

    def _tried_on(self, when: FreeOrEmpty, rows: Rows) -> _Look:
        numbers, places = self._nodes.places(rows)
        here = [(at, (numbers == at).nonzero()[0]) for at, _ in self._nodes.among(numbers)]
        parts = [_Part(those, self._trial(at, when, places[those])) for at, those in here]
        return _Look(parts, numbers == ODD)

    def _parts_with(self, wanted: Bools, when: FreeOrEmpty, rows: Rows | None) -> Iterator[_Part]:
        """Those in which anything is wanted; of many rows these alone, of few all that are tried anyway."""
        for part in self._look(when, rows).parts if wanted.any() else ():
            chosen = np.flatnonzero(wanted[part.here])
            if len(chosen) and rows is not None and len(rows) <= _FEW:
                yield part
            elif len(chosen):
                yield _Part(part.here[chosen], part.trial.at(chosen))

    def _trial(self, number: int, when: FreeOrEmpty, places: Rows | None = None) -> Trial:
        table = self._nodes.table(number)
        if number not in self._plans:
            example = self._nodes.node(int(table.rows[0]))
            self._plans[number] = plan_of(table.columns.layout, self.question, example), Ever(table.columns)
        plan, ever = self._plans[number]
        return Trial(plan, ColumnState(table.columns, when, places, ever))

    def node(self, row: int) -> Node:
        """The node in a row; raises `KeyError` where there is none."""
        return self._nodes.node(row)


def _followed(nodes: NodeTable, key: object) -> ChangeLog:
    """The changes that matter to one of the arrays: on an empty node everything is free."""
    return nodes.facts if key in _ON_EMPTY else nodes.changes


def _chosen(rows: Rows | None) -> Rows | slice:
    return slice(None) if rows is None else rows


def _untold(rows: Rows | None, masks: Ints) -> Iterator[tuple[int, int]]:
    """Where the rules have to be asked: the place among these rows, and the row."""
    for at in np.flatnonzero(masks[0] == batch_placement.UNTOLD):
        yield int(at), int(at if rows is None else rows[at])


def _admitted(trial: Trial) -> tuple[Bools, Bools]:
    return trial.outcome.taken, trial.outcome.unsure


def _said(verdict: Verdict) -> object:
    """All that somebody is told of a refusal."""
    refusal = verdict.refusal
    if refusal is None:
        raise ValueError("a node that takes the pod refuses nothing")
    needs = tuple((need.resource, need.asked, need.zones) for need in refusal.needs)
    return refusal.reason, refusal.cause, refusal.policy, verdict.permanent, needs, refusal.detail


def _aligned_by_rules(answer: Answer, row: int, verdict: Verdict) -> bool:
    asked = answer.question
    return verdict.admitted and scoring.aligned(
        answer.node(row), asked.demand, verdict.placement, asked.intent
    )


_ADMITTED = _YesOrNo(When.NOW, _admitted, lambda _answer, _row, verdict: verdict.admitted)
_ABLE = _YesOrNo(When.EMPTY, _admitted, lambda _answer, _row, verdict: not verdict.refused)
_ALIGNED = _YesOrNo(When.NOW, batch_placement.aligned, _aligned_by_rules)
