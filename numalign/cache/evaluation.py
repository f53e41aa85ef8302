"""
The answers of nodes to one question, by row.

Each result is an array, computed for the requested rows and updated from then on. Columns answer table by
table; a node outside columns is evaluated by the rules, whose verdict is cached as long as the node does not
change.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from numalign.cache import batch_placement, batch_refusals
from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.batch_placement import REFUSED
from numalign.cache.change_log import ChangeLog, Compute, TrackedArray
from numalign.cache.column_state import ColumnState
from numalign.cache.columns import FreeOrEmpty, When
from numalign.cache.feasibility import Trial
from numalign.cache.health_table import HealthTable
from numalign.cache.layout import Unfit
from numalign.cache.node_table import GONE, NOWHERE, ODD, NodeTable
from numalign.cache.pace import Pace
from numalign.cache.plan import Plans, TablePlan, Undecided
from numalign.cache.question import Question
from numalign.decision import scoring
from numalign.decision.evaluate import evaluating
from numalign.decision.scoring import EVEN, Strategy, Weights
from numalign.decision.verdict import Refusal, Verdict
from numalign.lru import LRU
from numalign.model.demand import WHOLE_POD
from numalign.model.intent import Policy
from numalign.model.node import Node, judged
from numalign.model.placement import Placement
from numalign.model.pod import Role
from numalign.model.steps import Steps, finished

VERDICTS, LARGE_VERDICTS = 8192, 1024
"""The limits of cached verdicts of single nodes, and of those of pods that are large."""

_MOST_ROWS, _MOST_SETS = 1024, 2**20
"""The limits of rows, and of sets of zones of all rows and requests, in one step."""

_LEAST_ROWS = 128
"""Admitting a pod on fewer rows takes nearly as long."""

_FIRST_CALLS = 2
"""A scheduler asks twice about a pod: to filter and to prioritize."""

_TRIED = 8
"""The limit of sets of rows with cached trials."""

NO, YES, UNANSWERED, NOT_EMPTY = 0, 1, 2, 3
"""The answer of a node; unanswered if it would take too long to compute.

A node that could ever admit a pod, but not when it is empty, is `NOT_EMPTY`.
"""

_BY_RULES = -1
"""What columns leave to the rules."""

_ABOUT_EMPTY_NODES = frozenset({"able", "never"})


class _Aspect(NamedTuple):
    """How one result for each node is computed: in which state, by columns, and from the rules' verdict."""

    key: str
    when: FreeOrEmpty
    by_columns: Callable[[Trial], Ints | Bools]
    by_rules: Callable[[Node, Question, Verdict], int]


class _Part(NamedTuple):
    """Rows of one plan among the requested ones: their positions there, and the trial on them."""

    here: Rows
    trial: Trial


class _Tried(NamedTuple):
    """The trials on some rows, and the rows that only the rules can answer."""

    parts: Sequence[_Part]
    left_over: Rows


class _DegradedRows(NamedTuple):
    """The rows of degraded nodes, and the rows of `evaluation` with their healthy state."""

    evaluation: "Evaluation"
    here: Rows
    rows: Rows


_Verdicts = LRU[tuple[NodeTable, Question, FreeOrEmpty, int], tuple[Node, Verdict]]


@dataclass(slots=True)
class Workspace:
    """What the evaluations of one cache share: the last trials, and the counts by columns and by rules.

    Several results for the same rows are requested one after another, and all come from the same trials; they
    are cached only for the evaluation that was read last. `by_rules` counts pairs of a pod and a node by why
    columns had no answer.
    """

    pace: Pace = field(default_factory=Pace)
    in_columns: int = 0
    by_rules: Counter[Unfit | Undecided] = field(default_factory=Counter)
    usual: _Verdicts = field(default_factory=lambda: LRU(VERDICTS))
    large: _Verdicts = field(default_factory=lambda: LRU(LARGE_VERDICTS))
    _owner: object = None
    _tried: dict[tuple[FreeOrEmpty, bytes | None], tuple[object, _Tried]] = field(default_factory=dict)

    def apart(self) -> "Workspace":
        """Return a workspace for trials of its own; verdicts are shared."""
        return Workspace(self.pace, usual=self.usual, large=self.large)

    def verdicts(self, question: Question) -> "_Verdicts":
        """Return the cached verdicts of pods as large as this one, each with the node as it was."""
        return self.large if question.large else self.usual

    def tried(
        self, owner: object, when: FreeOrEmpty, rows: Rows | None, place: object, work: Callable[[], _Tried]
    ) -> _Tried:
        """Return the trials on these rows, as of a place in the log of changes."""
        if self._owner is not owner:
            self._owner, self._tried = owner, {}
        key = when, None if rows is None else rows.tobytes()
        kept = self._tried.get(key)
        if kept is None or kept[0] != place:
            if len(self._tried) >= _TRIED:
                self._tried = {}
            kept = self._tried[key] = place, work()
        return kept[1]


class RefusalCodes:
    """Kinds of refusals by code: nodes with equal codes have the same refusal. Codes never change."""

    def __init__(self) -> None:
        self._codes: dict[tuple[Refusal, bool], int] = {}
        self._verdicts: list[Verdict] = []

    def __len__(self) -> int:
        return len(self._verdicts)

    def code(self, refusal: Refusal, example: Node, *, permanent: bool) -> int:
        """Return the code of a refusal after `alike`; `example` is a node with it."""
        code = self._codes.setdefault((refusal, permanent), len(self._codes))
        if code == len(self._verdicts):
            self._verdicts.append(
                Verdict(refusal, permanent=permanent, placement=Placement(), known=example.known)
            )
        return code

    def verdict(self, code: int) -> Verdict:
        """Return the refusal of a code, without what a single node has (`wording.reason`)."""
        return self._verdicts[code]


def alike(refusal: Refusal) -> Refusal:
    """Return a refusal without what may differ between nodes that share one reason."""
    needs = tuple(replace(need, most=0) for need in refusal.needs)
    return replace(
        refusal, container=WHOLE_POD, role=Role.APP, needs=needs, shortages=(), beside=False, zones=()
    )


class Evaluation:
    """The answers of the nodes of a table to one question, always current.

    All results are by row: of these rows, or of all if none are given; for a row without a node everything is
    False. `calls` counts how often it was asked about some nodes. With `healths`, what could ever fit is
    evaluated for the healthy states of degraded nodes; without, all nodes count as healthy.
    """

    def __init__(
        self,
        nodes: NodeTable,
        question: Question,
        healths: HealthTable | None = None,
        workspace: Workspace | None = None,
        refusals: RefusalCodes | None = None,
    ) -> None:
        self.question = question
        self._nodes = nodes
        self._healths = healths
        self._workspace = Workspace() if workspace is None else workspace
        self._refusals = RefusalCodes() if refusals is None else refusals
        self._in_health: Evaluation | None = None
        if healths:
            apart = self._workspace.apart()
            self._in_health = Evaluation(healths.nodes, question, workspace=apart, refusals=self._refusals)
        self._arrays: dict[object, TrackedArray] = {}
        self._plans = Plans(question)
        self.calls = 0
        self._of_one_container = sum(bool(step.requests) for step in question.demand.steps) <= 1

    # Verdicts of single nodes.

    def verdict(self, row: int) -> Verdict:
        """Return the verdict of the node in a row; raise `KeyError` if there is none."""
        if (verdict := self._known(When.NOW, row)) is None:
            self._workspace.pace.do((id(self), row), self._evaluate(row))
            verdict = finished(self._evaluated(When.NOW, row))
        return verdict

    def _known(self, when: FreeOrEmpty, row: int) -> Verdict | None:
        """Return the cached verdict of the node in a row."""
        kept = self._workspace.verdicts(self.question).find((self._nodes, self.question, when, row))
        return kept[1] if kept and kept[0] is self._nodes.node(row) else None

    def _evaluate(self, row: int) -> Iterator[None]:
        yield from self._evaluated(When.NOW, row)
        # One of many verdicts is a step by itself.
        yield

    def _evaluated(self, when: FreeOrEmpty, row: int) -> Steps[Verdict]:
        """Return the verdict of the node in a row, in its current or its healthy, empty state."""
        node, verdict = self._nodes.node(row), self._known(when, row)
        if verdict is None:
            state = node.in_health() if when is When.EMPTY else node
            verdict = yield from evaluating(state, self.question.demand, self.question.intent)
            key = self._nodes, self.question, when, row
            self._workspace.verdicts(self.question).put(key, (node, verdict))
        return verdict

    # Yes or no.

    def admitted(self, rows: Rows | None = None) -> Bools:
        """Return which nodes admit the pod at present."""
        admitted: Bools = self._current(_ADMITTED, rows) == YES
        return admitted

    def possible(self, rows: Rows | None = None) -> Bools:
        """Return which nodes admit the pod at present, or have no answer to that."""
        possible: Bools = self._current(_ADMITTED, rows) != NO
        return possible

    def able(self, rows: Rows | None = None) -> Bools:
        """Return which nodes could admit the pod in some state when healthy, or have no answer to that."""
        able: Bools = self.ever(rows) != NO
        return able

    def unanswered(self, rows: Rows | None = None) -> Bools:
        """Return which of the `able` nodes have no answer."""
        unanswered: Bools = self.ever(rows) == UNANSWERED
        return unanswered

    def not_when_empty(self, rows: Rows | None = None) -> Bools:
        """Return which of the `able` nodes refuse the pod when they are empty."""
        not_when_empty: Bools = self.ever(rows) == NOT_EMPTY
        return not_when_empty

    def aligned(self, rows: Rows | None = None) -> Bools:
        """Return which nodes admit the pod and really align it (`decision.scoring.aligned`)."""
        aligned: Bools = self.admitted(rows) & (self._current(_ALIGNED, rows) == YES)
        return aligned

    def ever(self, rows: Rows | None = None) -> Ints:
        """Return by node whether it admits the pod when healthy: empty (`YES`), or in any other state."""
        return self._current(_ABLE, rows)

    def _current(self, aspect: _Aspect, rows: Rows | None) -> Ints:
        self._workspace.pace.do(
            (id(self), aspect.key), self.catching_up(aspect, None if self._reads_all else rows)
        )
        return self._read(aspect.key, rows, np.int8, lambda some: finished(self._answers(aspect, some)))

    def catching_up(self, aspect: _Aspect, rows: Rows | None) -> Iterator[None]:
        """Compute the answers of these rows, or of all, that are not known yet, in steps."""
        array = self._array(aspect.key, np.zeros(0, dtype=np.int8))
        return array.catching_up(rows, self._nodes.height, partial(self._answers, aspect))

    def _answers(self, aspect: _Aspect, rows: Rows | None) -> Steps[Ints]:
        """Return the answers: by columns, part by part, and by the rules where columns have no answer."""
        if degraded := self._degraded_rows(aspect.when, rows):
            yield from degraded.evaluation.catching_up(_ABLE, np.unique(degraded.rows))
        height = self._nodes.height if rows is None else len(rows)
        answers = np.zeros(height, dtype=np.int8)
        left_over = yield from self._answered_by_columns(aspect, rows, answers)
        left_over = np.union1d(left_over, np.flatnonzero(answers == _BY_RULES))
        degraded = self._degraded_rows(aspect.when, rows)
        # Degraded nodes are evaluated as healthy, equal ones together.
        left_over = np.setdiff1d(left_over, degraded.here) if degraded else left_over
        seen = dict[object, int]()
        for at in left_over.tolist():
            row = at if rows is None else int(rows[at])
            # It may have gone since the first step, and may go while it is evaluated.
            if at < height and self._nodes.has(row):
                node = self._nodes.node(row)
                # Thousands of nodes of one make are the same when they are empty.
                state = judged(node.in_health() if aspect.when is When.EMPTY else node)
                if state not in seen:
                    verdict = yield from self._evaluated(aspect.when, row)
                    seen[state] = aspect.by_rules(node, self.question, verdict)
                answers[at] = seen[state]
            yield
        if degraded := self._degraded_rows(aspect.when, rows):
            within = degraded.here < height
            answers[degraded.here[within]] = degraded.evaluation.ever(degraded.rows[within])
        return answers

    def _answered_by_columns(self, aspect: _Aspect, rows: Rows | None, answers: Ints) -> Steps[Rows]:
        """Fill in the answers of columns part by part; return the positions left to the rules."""
        rest, done, tried = np.arange(len(answers)), list[Rows](), self._tried(aspect.when, rows)
        while True:
            place = self._nodes.changes.place
            for part in tried.parts:
                if self._nodes.changes.place != place:
                    break
                answers[rest[part.here]] = aspect.by_columns(part.trial)
                done.append(part.here)
                yield
            else:
                return rest[tried.left_over]
            # Places may have other nodes by now, so the rest is tried again.
            kept = np.delete(np.arange(len(rest)), np.concatenate(done))
            rows, rest, done = kept if rows is None else rows[kept], rest[kept], []
            tried = self._trials(aspect.when, rows)

    # The placement of the pod.

    def zones(self, rows: Rows | None = None) -> Ints:
        """Return how many zones the pod gets, -1 if it is refused."""

        def by_rules(row: int) -> int:
            return len(self.verdict(row).placement.zones)

        return self._read("zones", rows, np.int16, partial(self._placed, batch_placement.zones, by_rules))

    def scores(self, strategy: Strategy, weights: Weights = EVEN, rows: Rows | None = None) -> Ints:
        """Return the score of the placement by a strategy, 0 to 100; -1 if the pod is refused.

        Weights are small, as users choose them: floating point could not distinguish those of 2^50.
        """

        def by_columns(trial: Trial) -> Ints:
            return batch_placement.scores(trial, strategy, weights)

        def by_rules(row: int) -> int:
            placement = self.verdict(row).placement
            return scoring.score(strategy, self._nodes.node(row), self.question.demand, placement, weights)

        key = strategy, tuple(sorted(weights.items()))
        return self._read(key, rows, np.int16, partial(self._placed, by_columns, by_rules))

    def _placed(
        self, by_columns: Callable[[Trial], Ints], by_rules: Callable[[int], int], rows: Rows | None
    ) -> Ints:
        """Return a value of the placement, for rows that take the pod; `REFUSED` for others."""
        admitted = self.admitted(rows)
        values = np.full(len(admitted), REFUSED, dtype=np.int16)
        tried = self._tried(When.NOW, rows)
        for part in tried.parts:
            if admitted[part.here].any():
                values[part.here] = by_columns(part.trial)
        for at in tried.left_over[admitted[tried.left_over]].tolist():
            values[at] = by_rules(at if rows is None else int(rows[at]))
        return values

    # Why nodes refuse.

    def refusals(self, rows: Rows | None = None) -> Ints:
        """Return codes of refusals: nodes with equal codes have the same refusal; -1 without a refusal.

        Codes are valid as long as this evaluation exists, and there are few.
        """
        return self._read("refusals", rows, np.int32, self._find_codes)

    def refusal(self, code: int) -> Verdict:
        """Return the refusal of a code, as `RefusalCodes.verdict` does."""
        return self._refusals.verdict(code)

    def never(self, rows: Rows | None = None) -> Ints:
        """Return the same for rows whose healthy, empty node would refuse."""
        return self._read("never", rows, np.int32, self._find_never)

    def _find_codes(self, rows: Rows | None) -> Ints:
        tables, _ = self._nodes.places(rows)
        refused = ~self.admitted(rows) & (tables != GONE)
        here = np.flatnonzero(refused)
        # For nodes that take the pod, what could ever fit is not needed.
        some = here if rows is None else rows[here]
        able = refused.copy()
        able[here] = self.able(some)
        codes, never = self._codes_of(When.NOW, rows, able), here[~able[here]]
        if len(never):
            codes[never] = self.never(never if rows is None else rows[never])
        return codes

    def _find_never(self, rows: Rows | None) -> Ints:
        tables, _ = self._nodes.places(rows)
        refused = ~self.able(rows) & (tables != GONE)
        degraded = self._degraded_rows(When.EMPTY, rows)
        if degraded is None:
            return self._codes_of(When.EMPTY, rows, refused)
        healthy = refused.copy()
        healthy[degraded.here] = False
        codes = self._codes_of(When.EMPTY, rows, healthy)
        codes[degraded.here] = np.where(
            refused[degraded.here], degraded.evaluation.never(degraded.rows), REFUSED
        )
        return codes

    def _codes_of(self, when: FreeOrEmpty, rows: Rows | None, refused: Bools) -> Ints:
        """Return the codes of the refused among these rows, for the present or permanently."""
        codes, tried = np.full(len(refused), REFUSED, dtype=np.int32), self._tried(when, rows)
        permanent = when is When.EMPTY
        for here, trial in tried.parts:
            if refused[here].any():
                example = trial.plan.plans[0][1].example
                for some, refusal in batch_refusals.refusals(trial, refused[here]):
                    codes[here[some]] = self._refusals.code(refusal, example, permanent=permanent)
        for at in tried.left_over[refused[tried.left_over]].tolist():
            row = at if rows is None else int(rows[at])
            why = finished(self._evaluated(when, row)).refusal
            if why:
                codes[at] = self._refusals.code(alike(why), self._nodes.node(row), permanent=permanent)
        return codes

    def _degraded_rows(self, when: FreeOrEmpty, rows: Rows | None) -> _DegradedRows | None:
        """Return those of these rows, or of all, that are evaluated as healthy; None if there are none."""
        if self._in_health is None or self._healths is None or when is When.NOW:
            return None
        healthy = self._healths.rows(rows, self._nodes.height)
        here = np.flatnonzero(healthy != NOWHERE)
        return _DegradedRows(self._in_health, here, healthy[here]) if len(here) else None

    # How arrays are kept.

    def _read(self, key: object, rows: Rows | None, dtype: type[Any], compute: Compute) -> NDArray[Any]:
        array = self._array(key, np.zeros(0, dtype=dtype))
        height = self._nodes.height
        if rows is None:
            return array.current(height, compute)
        if self._reads_all:
            return array.current(height, compute).take(rows, axis=-1)
        return array.at(rows, height, compute)

    @property
    def _reads_all(self) -> bool:
        """Whether all rows are computed for some: more pods of the template will come, and that is fast."""
        return self.calls > _FIRST_CALLS and self._of_one_container

    def _array(self, key: object, empty: NDArray[Any]) -> TrackedArray:
        if key not in self._arrays:
            self._arrays[key] = TrackedArray(_log(self._nodes, key), empty)
        return self._arrays[key]

    # What is tried in columns.

    def _tried(self, when: FreeOrEmpty, rows: Rows | None) -> _Tried:
        """Return the trials on these rows, the same as before as long as nothing changes."""
        place = self._nodes.changes.place
        return self._workspace.tried(self, when, rows, place, partial(self._trials, when, rows))

    def _trials(self, when: FreeOrEmpty, rows: Rows | None) -> _Tried:
        (tables, places), intent = self._nodes.places(rows), self.question.intent
        if when is When.EMPTY or intent.policy is Policy.NONE:
            return self._trials_of(when, rows, tables, places)
        every = np.arange(self._nodes.height) if rows is None else rows
        # Columns do not know in which zones pods meet.
        concerned = self._nodes.occupied if intent.exclusive else self._nodes.exclusive
        meet = concerned(every) & (tables >= 0)
        left_over = np.flatnonzero(meet)
        if not len(left_over):
            return self._trials_of(when, rows, tables, places)
        self._workspace.by_rules[Undecided.NEIGHBOURS] += len(left_over)
        tried = self._trials_of(when, every, np.where(meet, GONE, tables), places)
        return _Tried(tried.parts, np.concatenate([tried.left_over, left_over]))

    def _trials_of(self, when: FreeOrEmpty, rows: Rows | None, tables: Ints, places: Rows) -> _Tried:
        left_over = [np.flatnonzero(tables == ODD)]
        parts = list[_Part]()
        numbers = [number for number, _ in self._nodes.tables()]
        for number in numbers:
            table = self._nodes.table(number)
            here = table.rows.copy() if rows is None else np.flatnonzero(tables == number)
            if not len(here):
                continue
            for plan in self._plans.of(table):
                part = _part(plan, when, here, None if rows is None else places[here])
                if part is not None and plan.undecided:
                    left_over.append(part.here)
                    self._workspace.by_rules[plan.undecided] += len(part.here)
                elif part is not None:
                    parts += _in_slices(part)
                    self._workspace.in_columns += len(part.here)
        odd = left_over[0] if rows is None else rows[left_over[0]]
        self._workspace.by_rules.update(map(self._nodes.why_odd, odd.tolist()))
        return _Tried(parts, np.concatenate(left_over))


def _part(plan: TablePlan, when: FreeOrEmpty, here: Rows, places: Rows | None) -> _Part | None:
    """Return the rows at these places, or of the whole table, with a plan's layouts; None without any."""
    if plan.meant.all():
        return _Part(here, Trial(ColumnState(plan, when, places)))
    meant = np.flatnonzero(plan.meant.take(plan.kinds.of_rows(places)))
    if not len(meant):
        return None
    some = meant if places is None else places[meant]
    return _Part(here[meant], Trial(ColumnState(plan, when, some)))


def _in_slices(part: _Part) -> Iterator[_Part]:
    """Yield a part in slices: admitting container by container, all rows at once would take long."""
    state, count = part.trial.state, len(part.here)
    if state.plan.only_step:
        yield part
        return
    requested = sum(1 + len(request.names) for request in state.plan.steps)
    most = min(_MOST_ROWS, max(_LEAST_ROWS, (_MOST_SETS >> state.zones) // requested))
    for start in range(0, count, most):
        some = np.arange(start, min(start + most, count))
        yield _Part(part.here[some], Trial(state.at(some)))


def _log(nodes: NodeTable, key: object) -> ChangeLog:
    """Return the log of changes that matter to an array: on an empty node everything is free."""
    return nodes.facts if key in _ABOUT_EMPTY_NODES else nodes.changes


def _answer(_node: Node, _question: Question, verdict: Verdict) -> int:
    if not verdict.answered:
        return UNANSWERED
    return NO if verdict.refused else YES


def _is_aligned(node: Node, question: Question, verdict: Verdict) -> int:
    return int(
        verdict.admitted and scoring.aligned(node, question.demand, verdict.placement, question.intent)
    )


def _taken(trial: Trial) -> Bools:
    return trial.taken


def _could_take(trial: Trial) -> Ints:
    if trial.taken.all():
        return np.full(trial.count, YES, dtype=np.int8)
    return np.where(trial.taken, YES, np.where(trial.never, NO, _BY_RULES)).astype(np.int8)


def _could_ever(node: Node, question: Question, verdict: Verdict) -> int:
    return NOT_EMPTY if verdict.not_when_empty else _answer(node, question, verdict)


_ADMITTED = _Aspect("admitted", When.NOW, _taken, _answer)
_ABLE = _Aspect("able", When.EMPTY, _could_take, _could_ever)
_ALIGNED = _Aspect("aligned", When.NOW, batch_placement.aligned, _is_aligned)
