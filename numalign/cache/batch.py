"""The answers of the nodes of one call to one question, by their position in the call."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, compress

import numpy as np

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.evaluation import Evaluation
from numalign.cache.question import Question
from numalign.decision import scoring
from numalign.decision.scoring import Strategy, Weights
from numalign.decision.verdict import Verdict
from numalign.model.node import Node

UNKNOWN, ADMITTED = 0, 1
"""The codes of nodes without a known topology, and of those that admit the pod."""

_FIRST_REFUSAL = 2


@dataclass(frozen=True, slots=True)
class OwnNode:
    """A node that was evaluated by itself, at its position, in a different state.

    It is evaluated without the pod's own reservation there, or with assumed pods.
    """

    position: int
    node: Node
    verdict: Verdict


@dataclass(frozen=True, eq=False)
class Batch:
    """The answers of the nodes of one call; valid until the cache changes.

    `names` are those of the call, `rows` theirs in the `evaluation`, -1 for a node without a known topology.
    Arrays are by position in the call. If the pod has an `own` node, its own verdict counts.
    """

    names: Sequence[str]
    rows: Rows
    evaluation: Evaluation
    own: OwnNode | None = None

    @property
    def question(self) -> Question:
        """The question."""
        return self.evaluation.question

    @cached_property
    def admitted(self) -> Bools:
        """Which nodes admit the pod at present."""
        return self._at_rows(self.evaluation.admitted, lambda own: own.verdict.admitted).astype(np.bool_)

    @cached_property
    def aligned(self) -> Bools:
        """Which nodes really align the pod; all if it has nothing that its intent concerns."""
        if not self.question.concerned:
            return np.ones(len(self.rows), dtype=np.bool_)
        return self._at_rows(self.evaluation.aligned, self._aligned).astype(np.bool_)

    @cached_property
    def zones(self) -> Ints:
        """How many zones the pod gets; any number for nodes that do not admit it."""
        return self._at_rows(self.evaluation.zones, lambda own: len(own.verdict.placement.zones))

    def scores(self, strategy: Strategy, weights: Weights) -> Ints:
        """Return the scores of the placement, 0 to 100; any number for nodes that do not admit the pod."""
        demand = self.question.demand
        return self._at_rows(
            partial(self.evaluation.scores, strategy, weights),
            lambda own: scoring.score(strategy, own.node, demand, own.verdict.placement, weights),
        )

    @cached_property
    def codes(self) -> Ints:
        """Per node `UNKNOWN`, `ADMITTED`, or the code of its refusal: see `refusals`."""
        own = self.own
        codes: Ints = np.full(len(self.rows), UNKNOWN, dtype=np.int32)
        # Nodes without a refusal have -1.
        codes[self._known] = self.evaluation.refusals(self.rows[self._known]) + _FIRST_REFUSAL
        if own:
            codes[own.position] = ADMITTED if own.verdict.admitted else codes.max() + _FIRST_REFUSAL
        return codes

    @cached_property
    def refusals(self) -> Mapping[int, Verdict]:
        """The refusal of each code, as shared by its nodes: see `RefusalCodes.verdict`."""
        counts = np.bincount(self.codes, minlength=_FIRST_REFUSAL)
        refused = (np.flatnonzero(counts[_FIRST_REFUSAL:]) + _FIRST_REFUSAL).tolist()
        return {code: self._refusal(code, int((self.codes == code).argmax())) for code in refused}

    def split(self, *groups: Collection[int]) -> tuple[Sequence[str], Sequence[Mapping[str, int]]]:
        """Return the names of nodes with a code in no group, and by group the others with their codes.

        All are in the order of the call, and no code is in two groups.
        """
        kinds = np.zeros(max((UNKNOWN, *chain(*groups), self.codes.max(initial=0))) + 1, dtype=np.int8)
        for kind, group in enumerate(groups, start=1):
            kinds[[*group]] = kind
        of_nodes = kinds[self.codes]
        if not of_nodes.any():
            return self.names, [{} for _ in groups]
        chosen = [of_nodes == kind for kind in range(len(groups) + 1)]
        others, *grouped = ([*compress(self.names, some.tolist())] for some in chosen)
        codes = (self.codes[some].tolist() for some in chosen[1:])
        return others, [dict(zip(*named, strict=True)) for named in zip(grouped, codes, strict=True)]

    @property
    def answered(self) -> bool:
        """Whether all nodes have answered in time."""
        return all(verdict.answered for verdict in self.refusals.values())

    def _refusal(self, code: int, position: int) -> Verdict:
        if self.own and self.own.position == position:
            return self.own.verdict
        return self.evaluation.refusal(code - _FIRST_REFUSAL)

    def _aligned(self, own: OwnNode) -> bool:
        question = self.question
        return scoring.aligned(own.node, question.demand, own.verdict.placement, question.intent)

    @cached_property
    def _known(self) -> Bools:
        return self.rows >= 0

    def _at_rows(self, read: Callable[[Rows], Ints | Bools], of_own: Callable[[OwnNode], int]) -> Ints:
        values = np.zeros(len(self.rows), dtype=np.int64)
        values[self._known] = read(self.rows[self._known])
        if self.own:
            values[self.own.position] = of_own(self.own) if self.own.verdict.admitted else 0
        return values
