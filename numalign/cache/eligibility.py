"""
Which nodes a pod may use, whatever they have: the rules of `model.constraints` for all at once.

Labels are in columns, one per key, built on demand. Results are cached, and computed again only for nodes
with changed attributes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain
from types import MappingProxyType

import numpy as np

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.change_log import TrackedArray
from numalign.cache.label_column import LabelColumn
from numalign.cache.node_table import NodeTable
from numalign.lru import LRU, Caches, is_large
from numalign.model.attributes import NO_LABELS, Attributes
from numalign.model.constraints import Constraints, Requirement, Term, Unmet, unmet_ever, unmet_now
from numalign.model.node import Node

REMEMBERED = 256
"""The size of the cache of constraints and results."""

MOST_KEYS = 256
"""The limit of labels with a column: nearly always all that nodes have."""

NO_NODE, MAY_GO = -1, 0
"""In place of the number of what is unmet."""

NUMBERS: Mapping[Unmet | None, int] = MappingProxyType(
    {None: MAY_GO} | {unmet: at for at, unmet in enumerate(Unmet, start=1)}
)
"""The numbers of what is unmet."""

_Rule = Callable[[Constraints, str, Attributes], Unmet | None]
"""One of the two rules of `model.constraints`."""


class Eligibility:
    """Which of the nodes in a table pods may use, always current."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._keys = LabelColumn(nodes, lambda node: tuple(node.attributes.labels))
        self._names = LabelColumn(nodes, lambda node: node.name)
        self._conditions = LabelColumn(nodes, _condition_of)
        self._labels: LRU[str, LabelColumn] = LRU(MOST_KEYS)
        self._unmet: LRU[Constraints, _Unmet] = LRU(
            REMEMBERED, large=lambda constraints, _: is_large(constraints)
        )

    def caches(self) -> Caches:
        """Return the caches."""
        return {"eligible": self._unmet, "labels": self._labels}

    def ever(self, constraints: Constraints) -> Bools:
        """Return by row whether the pod may use the node as long as labels and lasting taints stay."""
        may_go: Bools = self.unmet_ever(constraints) == MAY_GO
        return may_go

    def now(self, constraints: Constraints) -> Bools:
        """Return by row whether the pod may use the node at present."""
        may_go: Bools = self.unmet_now(constraints) == MAY_GO
        return may_go

    def unmet_ever(self, constraints: Constraints) -> Ints:
        """Return by row the result of `model.constraints.unmet_ever` in `NUMBERS`; `NO_NODE` without one."""
        array = self._arrays(constraints).ever
        return array.current(self._nodes.height, partial(self._find_unmet, constraints, unmet_ever))

    def unmet_now(self, constraints: Constraints) -> Ints:
        """Return the same for `model.constraints.unmet_now`."""
        array = self._arrays(constraints).now
        return array.current(self._nodes.height, partial(self._find_unmet, constraints, unmet_now))

    def _arrays(self, constraints: Constraints) -> "_Unmet":
        return self._unmet.get(constraints, lambda: _Unmet.of(self._nodes))

    def _find_unmet(self, constraints: Constraints, rule: _Rule, rows: Rows | None) -> Ints:
        chosen = slice(None) if rows is None else rows
        tolerant = Constraints(tolerations=constraints.tolerations, os=constraints.os)
        numbers = self._conditions.numbers[chosen]
        by_kind = [
            NUMBERS[rule(tolerant, "", kind)] if isinstance(kind, Attributes) else NO_NODE
            for kind in self._conditions.kinds
        ]
        unmet: Ints = np.array(by_kind, dtype=np.int8)[numbers]
        if constraints.selective:
            selected = _Columns(self._labels_of(constraints), self._names, chosen).select(constraints)
            unmet[~selected & (unmet != NO_NODE)] = NUMBERS[Unmet.AFFINITY]
        return unmet

    def _labels_of(self, constraints: Constraints) -> Mapping[str, LabelColumn]:
        """Return by key the relevant labels that some node has: others cost nothing."""
        expressions = (term.expressions for term in constraints.terms or ())
        keys = {requirement.key for requirement in chain(constraints.selector, *expressions)}
        return {key: self._label(key) for key in keys & self._keys_of_nodes()}

    def _keys_of_nodes(self) -> frozenset[str]:
        kinds = (kind for kind in self._keys.kinds if isinstance(kind, tuple))
        return frozenset(chain.from_iterable(kinds))

    def _label(self, key: str) -> LabelColumn:
        return self._labels.get(key, lambda: LabelColumn(self._nodes, partial(_label_of, key)))


def counted(unmet: Ints, rows: Rows | None = None) -> Mapping[Unmet, int]:
    """Return how many nodes a pod may not use, by reason: each counts once, by its first reason.

    Counts these rows, or all; `unmet` is the result of `Eligibility.unmet_ever` or `unmet_now`.
    """
    numbers = unmet if rows is None else unmet[rows]
    counts = np.bincount(numbers[numbers > MAY_GO], minlength=len(NUMBERS))
    return {why: int(counts[at]) for why, at in NUMBERS.items() if why is not None and counts[at]}


@dataclass(frozen=True, slots=True)
class _Unmet:
    """What is unmet of constraints on every node, in `NUMBERS`."""

    ever: TrackedArray
    now: TrackedArray

    @classmethod
    def of(cls, nodes: NodeTable) -> "_Unmet":
        """Return an entry without results."""
        ever, now = (TrackedArray(nodes.attributes, np.zeros(0, dtype=np.int8)) for _ in range(2))
        return cls(ever, now)


def _condition_of(node: Node) -> Attributes:
    """Return all relevant attributes but labels."""
    return replace(node.attributes, labels=NO_LABELS)


def _label_of(key: str, node: Node) -> str | None:
    return node.attributes.labels.get(key)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns for constraints on these rows; a result that is equal for all rows has one element."""

    labels: Mapping[str, LabelColumn]
    names: LabelColumn
    rows: Rows | slice

    def select(self, constraints: Constraints) -> Bools:
        """Return where the node selector and the required node affinity match."""
        found = _all(map(self._of_label, constraints.selector))
        return found if constraints.terms is None else found & _any(map(self._of_term, constraints.terms))

    def _of_term(self, term: Term) -> Bools:
        if not term.expressions and not term.fields:
            return _NOWHERE
        return _all(chain(map(self._of_label, term.expressions), map(self._of_name, term.fields)))

    def _of_label(self, requirement: Requirement) -> Bools:
        if requirement.key not in self.labels:
            return _EVERYWHERE if requirement.allows(None) else _NOWHERE
        return self._looked_up(self.labels[requirement.key], requirement)

    def _of_name(self, requirement: Requirement) -> Bools:
        return self._looked_up(self.names, requirement)

    def _looked_up(self, values: LabelColumn, requirement: Requirement) -> Bools:
        found: Bools = values.meeting(requirement)[values.numbers[self.rows]]
        return found


_EVERYWHERE, _NOWHERE = np.array([True]), np.array([False])


def _all(parts: Iterable[Bools]) -> Bools:
    return reduce(np.logical_and, parts, _EVERYWHERE)


def _any(parts: Iterable[Bools]) -> Bools:
    return reduce(np.logical_or, parts, _NOWHERE)
