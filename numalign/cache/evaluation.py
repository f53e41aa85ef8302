"""
What all nodes answer to one question, by row.

Each thing that can be asked is an array, worked out when somebody asks for it and patched from then on.
Columns answer table by table; a node that stands in none, or where amounts do not decide, is evaluated by the
rules, whose verdict is kept as long as the node stays as it is.
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

_FEW = 256
"""What is worked out for one array on so many rows, or fewer, is kept for the next array."""

_VERDICTS = 4096
"""Verdicts of single nodes that are kept, if the pod is a small one."""

_BYTES_OF_VERDICTS = 2**24
"""What they may take of a pod with many containers, each of which has its place in every verdict."""

_BYTES_OF_PLAN = 4096
"""What it takes to know how a pod is tried on the nodes of one layout, roughly."""

_ROUNDS = 3
"""How often work is looked for again that came up while the last was done in steps."""

NO, YES, UNANSWERED = 0, 1, 2
"""What a node answers; unanswered if it would take too long to work out."""

_EVER_KEYS = frozenset({"able", "never"})
"""Arrays about empty nodes."""


class _Aspect(NamedTuple):
    """How one thing about each node is worked out: in which state, by columns, and by the rules' verdict."""

    key: str
    when: FreeOrEmpty
    by_columns: Callable[[Trial], tuple[Bools, Bools]]
    by_rules: Callable[[Node, Question, Verdict], int]


@dataclass(slots=True)
class _Part:
    """The rows of one layout among those that are meant: their positions there, and what is tried on them."""

    here: Rows
    trial: Trial
    units: Sequence[Unit] = ()


class _TriedParts(NamedTuple):
    """What is tried on some rows, layout by layout, and which of them stand in no table."""

    parts: Sequence[_Part]
    odd: Bools


class _Ill(NamedTuple):
    """Which of some rows are of ill nodes, and the rows of `evaluation` that stand for them in health."""

    evaluation: "Evaluation"
    here: Rows
    rows: Rows


class _Recent(NamedTuple):
    """What was tried on a few rows, as of a place in the change log."""

    place: tuple[int, int]
    rows: bytes
    parts: _TriedParts


class Evaluation:
    """What the nodes of a table answer to one question, as they are whenever it is read.

    Arrays are by row; of a row without a node nothing is true. With `healths`, what could ever be is asked of
    ill nodes as they are in health; without, all nodes are in health.
    """

    def __init__(self, nodes: NodeTable, question: Question, healths: HealthTable | None = None) -> None:
        self.question = question
        self._nodes = nodes
        self._healths = healths
        self._in_health = Evaluation(healths.nodes, question) if healths else None
        self._arrays: dict[object, TrackedArray] = {}
        self._plans: dict[int, tuple[LayoutPlan, Ever]] = {}
        self._recent: dict[FreeOrEmpty, _Recent] = {}
        self._verdicts: dict[tuple[FreeOrEmpty, int], tuple[Node, Verdict]] = {}
        self._verdicts_bytes = 0
        self._codes: dict[object, int] = {}
        self._examples: dict[int, Verdict] = {}
        self._examples_bytes = 0

    @property
    def weight(self) -> int:
        """The bytes that it takes in memory by now, those of its question included."""
        return self.question.weight + self.bytes

    @property
    def bytes(self) -> int:
        """The same without those of its question."""
        own = self._verdicts_bytes + self._examples_bytes + len(self._plans) * _BYTES_OF_PLAN
        arrays = sum(array.bytes for array in self._arrays.values())
        return own + arrays + (self._in_health.bytes if self._in_health else 0)

    # Verdicts of single nodes.

    def verdict(self, row: int) -> Verdict:
        """The verdict of the node in a row, as it is now; raises `KeyError` where there is none."""
        return finished(self.work_verdict(row))

    def work_verdict(self, row: int) -> Steps[Verdict]:
        """Work out in steps what `verdict` gives at once."""
        return self._evaluated(When.NOW, row)

    def _evaluated(self, when: FreeOrEmpty, row: int) -> Steps[Verdict]:
        """The verdict of the node in a row, as it is or in health and with nothing on it."""
        node, kept = self._nodes.node(row), self._verdicts.get((when, row))
        if kept is None or kept[0] is not node:
            state = node.in_health() if when is When.EMPTY else node
            kept = node, (yield from evaluating(state, self.question.demand, self.question.intent))
            self._keep((when, row), kept)
        return kept[1]

    def _keep(self, key: tuple[FreeOrEmpty, int], kept: tuple[Node, Verdict]) -> None:
        if len(self._verdicts) >= _VERDICTS or self._verdicts_bytes >= _BYTES_OF_VERDICTS:
            self._verdicts.clear()
            self._verdicts_bytes = 0
        before = self._verdicts.get(key)
        self._verdicts_bytes += weight(kept[1]) - (weight(before[1]) if before else 0)
        self._verdicts[key] = kept

    def placement(self, row: int) -> Placement:
        """Where the pod comes to on the node in a row; nowhere, where it is refused."""
        return self.verdict(row).placement

    # What takes long, step by step.

    def work(self) -> Iterator[None]:
        """Work out in steps what columns cannot say; the arrays are then there at once.

        What changes meanwhile is worked out when an array is read, unless another round comes to it.
        """
        yield from self.work_now()
        yield from self.work_ever()

    def work_now(self) -> Iterator[None]:
        """Work out in steps who admits the pod now, and nothing else."""
        yield from self._catch_up(_ADMITTED)

    def work_ever(self) -> Iterator[None]:
        """Work out in steps what could ever be, and nothing else."""
        yield from self._catch_up(_ABLE)

    def _catch_up(self, aspect: _Aspect) -> Iterator[None]:
        array = self._array(aspect.key, np.zeros(0, dtype=np.int8))
        for _ in range(_ROUNDS):
            yield from array.catching_up(self._nodes.height, partial(self._answers, aspect))

    # Yes or no.

    @property
    def admitted(self) -> Bools:
        """Whether the pod is admitted as things stand."""
        admitted: Bools = self._current(_ADMITTED) == YES
        return admitted

    @property
    def possible(self) -> Bools:
        """Whether the pod is admitted as things stand, or that is not answered."""
        possible: Bools = self._current(_ADMITTED) != NO
        return possible

    @property
    def able(self) -> Bools:
        """Whether it would be admitted in health and with nothing on the node, or that is not answered."""
        able: Bools = self.ever != NO
        return able

    @property
    def unanswered(self) -> Bools:
        """Which of the `able` are so only because that is not answered."""
        unanswered: Bools = self.ever == UNANSWERED
        return unanswered

    @property
    def aligned(self) -> Bools:
        """Whether the kubelet really aligns the pod that it admits (`decision.scoring.aligned`)."""
        aligned: Bools = self.admitted & (self._current(_ALIGNED) == YES)
        return aligned

    @property
    def ever(self) -> Ints:
        """`YES`, `NO` or `UNANSWERED`: whether the pod would be admitted in health and on an empty node."""
        return self._current(_ABLE)

    def _current(self, aspect: _Aspect) -> Ints:
        empty = np.zeros(0, dtype=np.int8)
        return self._patched(aspect.key, empty, lambda rows: finished(self._answers(aspect, rows)))

    def _answers(self, aspect: _Aspect, rows: Rows | None) -> Steps[Ints]:
        """Ask columns layout by layout, and the rules where they have no answer."""
        if ill := self._ill(aspect.when, rows, self._nodes.height):
            yield from ill.evaluation.work_ever()
        answers, unsure = yield from self._by_columns(aspect, rows)
        if ill := self._ill(aspect.when, rows, len(answers)):
            answers[ill.here] = ill.evaluation.ever[ill.rows]
            unsure[ill.here] = False
        for at in unsure.nonzero()[0]:
            row = int(at if rows is None else rows[at])
            # It may have gone since the first step, and may go while it is evaluated.
            if self._nodes.has(row):
                node, verdict = self._nodes.node(row), (yield from self._evaluated(aspect.when, row))
                answers[at] = aspect.by_rules(node, self.question, verdict)
            yield
        return answers

    def _by_columns(self, aspect: _Aspect, rows: Rows | None) -> Steps[tuple[Ints, Bools]]:
        """What columns answer, and for which rows they have no answer; of all rows a layout at each step."""
        if rows is not None:
            parts, odd = self._parts(aspect.when, rows)
            answers, unsure = np.zeros(len(odd), dtype=np.int8), odd.copy()
            for part in parts:
                answers[part.here], doubtful = aspect.by_columns(part.trial)
                unsure[part.here[doubtful]] = True
            return answers, unsure
        tables, _ = self._nodes.places(None)
        answers, unsure = np.zeros(len(tables), dtype=np.int8), tables == ODD
        for number, _ in [*self._nodes.tables()]:
            table = self._nodes.table(number)
            if not table.columns.count:
                continue
            # Rows may have come since the first step; what changed meanwhile is worked out again.
            here = table.rows < len(answers)
            yes, doubtful = aspect.by_columns(self._trial(number, aspect.when))
            answers[table.rows[here]] = yes[here]
            unsure[table.rows[here & doubtful]] = True
            yield
        return answers, unsure

    # Where the pod comes to.

    @property
    def zones(self) -> Ints:
        """How many zones the pod gets, -1 where it is refused."""
        return self._patched("zones", np.zeros(0, dtype=np.int16), self._count_zones)

    def scores(self, strategy: Strategy, weights: Weights = EVEN) -> Ints:
        """How good the placement is by a strategy, 0 to 100; -1 where the pod is refused.

        Weights are such as people choose: floating point would not tell those of 2^50 apart.
        """
        key, empty = (strategy, tuple(sorted(weights.items()))), np.zeros(0, dtype=np.int16)
        return self._patched(key, empty, lambda rows: self._score(rows, strategy, weights))

    @property
    def _masks(self) -> Ints:
        """By step and row the zones that the pod comes to, as bits; `UNTOLD` in the first for all."""
        empty = np.zeros((max(1, len(self.question.demand.steps)), 0), dtype=np.int16)
        return self._patched("masks", empty, self._find_masks)

    def _find_masks(self, rows: Rows | None) -> Ints:
        parts, odd = self._parts(When.NOW, rows)
        masks = np.zeros((max(1, len(self.question.demand.steps)), len(odd)), dtype=np.int16)
        for part in parts:
            masks[:, part.here], unknown = batch_placement.masks(part.trial)
            masks[0, part.here[unknown]] = batch_placement.UNTOLD
        masks[0, odd] = batch_placement.UNTOLD
        masks[:, ~self.admitted[_chosen(rows)]] = 0
        return masks

    def _count_zones(self, rows: Rows | None) -> Ints:
        masks = self._masks[:, _chosen(rows)]
        zones = np.where(self.admitted[_chosen(rows)], batch_placement.width(masks), np.int16(REFUSED))
        for at, row in _untold(rows, masks):
            zones[at] = len(self.placement(row).zones)
        return zones

    def _score(self, rows: Rows | None, strategy: Strategy, weights: Weights) -> Ints:
        masks = self._masks[:, _chosen(rows)]
        scores = np.full(masks.shape[1], REFUSED, dtype=np.int16)
        in_columns = self.admitted[_chosen(rows)] & (masks[0] != batch_placement.UNTOLD)
        for part in self._parts_with(in_columns, When.NOW, rows):
            if not part.units:
                part.units = batch_placement.units(part.trial, masks[:, part.here])
            values = batch_placement.score(part.trial, part.units, strategy, weights)
            scores[part.here] = np.where(in_columns[part.here], values, REFUSED)
        for at, row in _untold(rows, masks):
            node, demand = self._nodes.node(row), self.question.demand
            scores[at] = scoring.score(strategy, node, demand, self.placement(row), weights)
        return scores

    # Why nodes refuse.

    @property
    def refusals(self) -> Ints:
        """A code of the refusal per row: nodes with equal codes refuse alike; -1 where nothing is refused.

        A code means the same as long as this evaluation lives, and there are few.
        """
        return self._patched("refusals", np.zeros(0, dtype=np.int32), self._find_codes)

    def _find_codes(self, rows: Rows | None) -> Ints:
        chosen, (tables, _) = _chosen(rows), self._nodes.places(rows)
        refused, able = ~self.admitted[chosen] & (tables != GONE), self.able[chosen]
        codes, never = self._codes_of(When.NOW, rows, refused & able), refused & ~able
        return np.where(never, self.never[chosen], codes) if never.any() else codes

    def refusal(self, code: int, row: int) -> Verdict:
        """The verdict behind a code, of the node in a row that has it or of one that had it before."""
        verdict = self._examples.get(code)
        if verdict is None:
            if self._examples_bytes >= _BYTES_OF_VERDICTS:
                self._examples, self._examples_bytes = {}, 0
            verdict = self._examples[code] = self.verdict(row)
            self._examples_bytes += weight(verdict)
        return verdict

    @property
    def never(self) -> Ints:
        """The same of rows that would refuse in health and with nothing on the node."""
        return self._patched("never", np.zeros(0, dtype=np.int32), self._find_never)

    def _find_never(self, rows: Rows | None) -> Ints:
        refused = ~self.able[_chosen(rows)]
        ill = self._ill(When.EMPTY, rows, len(refused))
        if ill is None:
            return self._codes_of(When.EMPTY, rows, refused)
        healthy = refused.copy()
        healthy[ill.here] = False
        codes, theirs = self._codes_of(When.EMPTY, rows, healthy), ill.evaluation.never[ill.rows]
        codes[ill.here] = np.where(refused[ill.here], self._code_each(("in health",), theirs), REFUSED)
        return codes

    def _codes_of(self, when: FreeOrEmpty, rows: Rows | None, refused: Bools) -> Ints:
        tables, _ = self._nodes.places(rows)
        codes, by_rules = np.full(len(tables), REFUSED, dtype=np.int32), refused & (tables == ODD)
        for part in self._parts_with(refused, when, rows):
            causes, those = refusal_codes.numbers(part.trial), refused[part.here]
            own = self._code_each((when, int(tables[part.here[0]])), causes)
            codes[part.here] = np.where(those, own, REFUSED)
            by_rules[part.here[those & (causes == refusal_codes.UNTOLD)]] = True
        for at in np.flatnonzero(by_rules):
            row = int(at if rows is None else rows[at])
            codes[at] = self._code(_refusal_key(finished(self._evaluated(when, row))))
        return codes

    def _code_each(self, key: tuple[object, ...], causes: Ints) -> Ints:
        kinds, which = np.unique(causes, return_inverse=True)
        return np.array([self._code((*key, int(kind))) for kind in kinds], dtype=np.int32)[which]

    def _code(self, key: object) -> int:
        return self._codes.setdefault(key, len(self._codes))

    def _ill(self, when: FreeOrEmpty, rows: Rows | None, height: int) -> _Ill | None:
        """Those of these rows, or of so many, that are asked as they are in health; None if none are."""
        if self._in_health is None or self._healths is None or when is When.NOW:
            return None
        healthy = self._healths.rows(rows, height)
        here = np.flatnonzero(healthy != NOWHERE)
        return _Ill(self._in_health, here, healthy[here]) if len(here) else None

    # How arrays are kept.

    def _patched(self, key: object, empty: NDArray[Any], compute: Compute) -> NDArray[Any]:
        return self._array(key, empty).current(self._nodes.height, compute)

    def _array(self, key: object, empty: NDArray[Any]) -> TrackedArray:
        if key not in self._arrays:
            self._arrays[key] = TrackedArray(_log(self._nodes, key), empty)
        return self._arrays[key]

    def _parts(self, when: FreeOrEmpty, rows: Rows | None) -> _TriedParts:
        """What is tried on these rows; on a few it is the same as before, as long as nothing changes."""
        if rows is None:
            tables, _ = self._nodes.places(None)
            every = [_Part(table.rows, self._trial(at, when)) for at, table in self._nodes.tables()]
            return _TriedParts(every, tables == ODD)
        if len(rows) > _FEW:
            return self._tried_on(when, rows)
        recent, place, key = self._recent.get(when), self._nodes.changes.place, rows.tobytes()
        if recent is None or recent.place != place or recent.rows != key:
            recent = self._recent[when] = _Recent(place, key, self._tried_on(when, rows))
        return recent.parts

    def _tried_on(self, when: FreeOrEmpty, rows: Rows) -> _TriedParts:
        tables, places = self._nodes.places(rows)
        positions = [(at, (tables == at).nonzero()[0]) for at, _ in self._nodes.among(tables)]
        parts = [_Part(those, self._trial(at, when, places[those])) for at, those in positions]
        return _TriedParts(parts, tables == ODD)

    def _parts_with(self, wanted: Bools, when: FreeOrEmpty, rows: Rows | None) -> Iterator[_Part]:
        """Those in which any row is wanted; of many rows these alone, of few all that are tried anyway."""
        for part in self._parts(when, rows).parts if wanted.any() else ():
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


def _log(nodes: NodeTable, key: object) -> ChangeLog:
    """The changes that matter to one of the arrays: on an empty node everything is free."""
    return nodes.facts if key in _EVER_KEYS else nodes.changes


def _chosen(rows: Rows | None) -> Rows | slice:
    return slice(None) if rows is None else rows


def _untold(rows: Rows | None, masks: Ints) -> Iterator[tuple[int, int]]:
    """Where the rules have to be asked: the position among these rows, and the row."""
    for at in np.flatnonzero(masks[0] == batch_placement.UNTOLD):
        yield int(at), int(at if rows is None else rows[at])


def _refusal_key(verdict: Verdict) -> object:
    """All that somebody is told of a refusal."""
    refusal = verdict.refusal
    if refusal is None:
        raise ValueError("a node that takes the pod refuses nothing")
    needs = tuple((need.resource, need.asked, need.zones) for need in refusal.needs)
    return refusal.reason, refusal.cause, refusal.policy, verdict.permanent, needs, refusal.detail


def _fits(trial: Trial) -> tuple[Bools, Bools]:
    return trial.outcome.taken, trial.outcome.unsure


def _answer(_node: Node, _question: Question, verdict: Verdict) -> int:
    if not verdict.answered:
        return UNANSWERED
    return NO if verdict.refused else YES


def _is_aligned(node: Node, question: Question, verdict: Verdict) -> int:
    return int(
        verdict.admitted and scoring.aligned(node, question.demand, verdict.placement, question.intent)
    )


_ADMITTED = _Aspect("admitted", When.NOW, _fits, _answer)
_ABLE = _Aspect("able", When.EMPTY, _fits, _answer)
_ALIGNED = _Aspect("aligned", When.NOW, batch_placement.aligned, _is_aligned)
