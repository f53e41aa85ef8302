"""
Which of the nodes of a call is the best, and the scores for two schedulers.

Nodes that take a pod come before those that do not, nodes that align it before those that only try; then
values decide, one measure after the other. For thousands of nodes this is done in columns: each node's rank
is packed into one number.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from numalign.cache.arrays import Bools, Ints
from numalign.cache.batch import Batch
from numalign.cache.distinct_rows import kinds
from numalign.decision.scoring import HIGHEST, Strategy, Weights

Column = TypeVar("Column", Bools, Ints)


class Relative(StrEnum):
    """A measure that compares a node with the others in the same call."""

    NUMA_NODES = "RelativeNUMANodes"


Measure = Strategy | Relative
"""What gives a node a value from 0 to 100; a `Relative` one uses all nodes for that."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """How nodes that align a pod alike are compared: by the first strategy, and among equals the next."""

    strategies: tuple[Measure, ...] = (Strategy.LEAST_NUMA_NODES, Strategy.MOST_ALLOCATED)
    weights: Weights = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a node for a pod: `values` by the strategies of its ranking, each 0 to 100.

    All scores of a pod have equally many values, so there may be more of them than the ranking has
    strategies. A node that refuses the pod, or that is unknown, is not `admitted`. One that is not `aligned`
    takes the pod, but its kubelet would spread it further than necessary.
    """

    values: tuple[int, ...]
    aligned: bool = False
    admitted: bool = False


def ranks(
    batch: Batch,
    rankings: Sequence[Ranking],
    *,
    chosen: Sequence[int] | None = None,
    opted_out: bool = False,
) -> "Ranks":
    """Return the ranks of nodes for one pod, by their position in the call.

    `chosen` is the number of each node's ranking, the first for all if it is None. Nodes of different
    rankings are still compared value by value. If a node has fewer strategies than another, its missing
    values count as the best. For a pod that has `opted_out`, by setting `none`, all nodes that take it are
    equal. A pod without any setting has not: it is ranked by the policies of the nodes.
    """
    admitted = batch.admitted
    width = max(len(ranking.strategies) for ranking in rankings)
    if opted_out:
        return Ranks(admitted, admitted, (HIGHEST * admitted,) * width)
    values = np.zeros((width, len(admitted)), dtype=np.int64)
    for ranking, concerned in _in_play(rankings, chosen, admitted):
        for at in range(width):
            values[at] += concerned * _value(batch, ranking, at)
    return Ranks(admitted, batch.aligned & admitted, tuple(values))


def _value(batch: Batch, ranking: Ranking, at: int) -> Ints | int:
    """Return the values by one strategy of a ranking; the best if it has no more."""
    if at >= len(ranking.strategies):
        return HIGHEST
    measure = ranking.strategies[at]
    if isinstance(measure, Relative):
        return relative_values(measure, batch.zones, batch.admitted)
    return batch.scores(measure, ranking.weights)


def _in_play(
    rankings: Sequence[Ranking], chosen: Sequence[int] | None, admitted: Bools
) -> Iterator[tuple[Ranking, Bools]]:
    """Yield the rankings that apply to any node, and to which."""
    if chosen is None:
        yield rankings[0], admitted
        return
    numbers = np.array(chosen, dtype=np.int64)
    for number, ranking in enumerate(rankings):
        concerned = admitted & (numbers == number)
        if concerned.any():
            yield ranking, concerned


def relative_values(measure: Relative, zones: Ints, admitted: Bools) -> Ints | int:
    """Return 0 to 100 by the zones that the pod gets on each admitting node, or one value for all."""
    return _RELATIVE[measure](zones, admitted)


def _fewer_than_the_most(zones: Ints, admitted: Bools) -> Ints | int:
    """Restate Volcano's numaaware.go: a pod that is pinned nowhere scores best everywhere."""
    # Refusing nodes are filtered out, or will be: Volcano scores only the others.
    most = int(zones.max(initial=0, where=admitted))
    return HIGHEST - HIGHEST * zones.astype(np.int64) // most if most else HIGHEST


_RELATIVE: Mapping[Relative, Callable[[Ints, Bools], Ints | int]] = MappingProxyType(
    {Relative.NUMA_NODES: _fewer_than_the_most}
)


@dataclass(frozen=True, eq=False)
class Ranks:
    """The ranks of nodes for one pod, by position in a call; `values` are columns, the decisive first.

    A node that is not admitted is not aligned and has values of 0.
    """

    admitted: Bools
    aligned: Bools
    values: tuple[Ints, ...]

    @cached_property
    def _key(self) -> Ints:
        """The sort key of nodes: the larger the better, below 0 for all that refuse."""
        columns = (self.aligned.astype(np.int64), *self.values)
        key = _packed(columns) if len(self.values) <= _FIT else kinds(columns)[0]
        return np.where(self.admitted, key, _REFUSED)

    def best(self, names: Sequence[str]) -> int | None:
        """Return the position of the best node, first by name among equals; None if no node takes it."""
        top = self._key.max(initial=-1)
        equals = np.flatnonzero(self._key == top).tolist() if top >= 0 else []
        return min(equals, key=names.__getitem__, default=None)

    def order(self, names: Sequence[str]) -> list[int]:
        """Return all positions, those of the best nodes first, equals by name."""
        by_name = sorted(range(len(names)), key=names.__getitem__)
        return sorted(by_name, key=self._key.tolist().__getitem__, reverse=True)

    def above_equals(self, places: Collection[int]) -> "Ranks":
        """Return the same with these nodes before all equally good ones: one of them is to be chosen."""
        last = np.zeros(len(self.admitted), dtype=np.int64)
        last[list(places)] = HIGHEST
        return replace(self, values=(*self.values, last * self.admitted))

    def with_score(self, place: int, score: Score) -> "Ranks":
        """Return the same with this score of one node."""
        values = zip(self.values, score.values, strict=True)
        return Ranks(
            _replaced(self.admitted, place, score.admitted),
            _replaced(self.aligned, place, score.aligned),
            tuple(_replaced(column, place, value) for column, value in values),
        )

    def without(self, place: int) -> "Ranks":
        """Return the same, with one node refusing the pod."""
        return self.with_score(place, Score((0,) * len(self.values)))

    def squeezed(self, highest: int) -> list[int]:
        """Return for each node a number from 0 to `highest`, as kube-scheduler accepts them.

        The best node that admits the pod has the highest, and refusing nodes have 0. Different kinds of nodes
        have different numbers if there are enough, with refusing nodes as one kind; if there are more kinds,
        about equally many share each number, and only the best has the highest.
        """
        if not len(self._key):
            return []
        ordered = np.sort(self._key)
        different = ordered[np.diff(ordered, prepend=_REFUSED - 1) > 0]
        steps = np.arange(1, highest + 1) * (len(different) - 1)
        found = np.searchsorted(different[-(-steps // highest)], self._key, side="right")
        return list[int]((found * self.admitted).tolist())

    def absolute(self) -> list[float]:
        """Return for each node a number from 0 to 100, as Volcano accepts them.

        It is the value of the first strategy, lower by less than one for the next ones. A node that is not
        aligned has less than any that is, whatever its values; a refusing node has 0.
        """
        first = np.maximum(self.values[0], _LEAST) - _TIE * (1 - _share(self.values[1:]))
        number = np.where(self.aligned, first, _TIE * _share(self.values))
        return list[float]((number * self.admitted).tolist())

    def score(self, place: int) -> Score:
        """Return the score of a single node."""
        values = tuple(int(column[place]) for column in self.values)
        return Score(values, aligned=bool(self.aligned[place]), admitted=bool(self.admitted[place]))


def _replaced(column: Column, place: int, value: int) -> Column:
    changed = column.copy()
    changed[place] = value
    return changed


_REFUSED = -1
"""Below every rank."""

_BITS = 7
"""The bits of a value of at most 100."""

_FIT = 8
"""This many values, and whether a node is aligned, fit in 63 bits."""


def _packed(columns: Sequence[Ints]) -> Ints:
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        key <<= _BITS
        key |= column
    return key


# Aligned nodes whose first value is 0 have up to this much, and others at most a tie; those of 1 have 0.8.
_LEAST, _TIE = 0.5, 0.2


def _share(columns: Sequence[Ints]) -> NDArray[np.float64] | float:
    """Return values as the digits of one number, most significant first, as a share of the largest."""
    if not columns:
        return 1.0
    number, most = np.zeros(len(columns[0])), 0.0
    for column in columns:
        number = number * (HIGHEST + 1) + column
        most = most * (HIGHEST + 1) + HIGHEST
    return number / most
