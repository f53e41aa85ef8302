"""
The names by which a scheduler can tell nodes apart, row by row.

A node goes by the class of its facts, and by the class that its label names at present, which may be another.
A name is ruled out only if it is for every node that goes by it.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from numalign.fleet.arrays import Bools, Ints
from numalign.rules.topology import Node, node_class

_NOTHING = -1
_FIRST = 16
_SPARE = 256

_OWN, _LABEL = 0, 1


class Classes:
    """Class names by row. Changed in place."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = list(names)
        self._numbers = {name: number for number, name in enumerate(names)}
        # By facts and by label, a number for each row.
        self._told: Ints = np.full((2, _FIRST), _NOTHING, dtype=np.int32)

    def __len__(self) -> int:
        """How many names are known, those that no node goes by any more included."""
        return len(self._names)

    def put(self, row: int, node: Node) -> None:
        """The facts in a row are those of this node."""
        while row >= self._told.shape[1]:
            self._told = np.concatenate([self._told, np.full_like(self._told, _NOTHING)], axis=1)
        self._told[_OWN, row] = self._number(node_class(node))

    def label(self, row: int, node: Node) -> None:
        """The node in a row is labelled as this one."""
        self._told[_LABEL, row] = _NOTHING if node.label is None else self._number(node.label)

    def drop(self, row: int) -> None:
        """A row has no node any more."""
        self._told[:, row] = _NOTHING

    def of(self, row: int) -> str:
        """The class of a row's node by its facts."""
        return self._names[int(self._told[_OWN, row])]

    def every(self) -> tuple[str, ...]:
        """Every name that a node goes by, sorted."""
        return tuple(sorted(self._named(self._told)))

    def among(self, rows: Bools) -> Iterator[str]:
        """The names by which the nodes in these rows go, each once."""
        return self._named(self._told[:, : len(rows)][:, rows])

    def members(self) -> Iterator[tuple[str, int, int]]:
        """Each class by facts: its name, one of its rows, and how many it has."""
        rows = np.flatnonzero(self._told[_OWN] != _NOTHING)
        own = self._told[_OWN, rows]
        example = np.zeros(len(self._names), dtype=np.intp)
        example[own] = rows
        for number, count in enumerate(np.bincount(own)):
            if count:
                yield self._names[number], int(example[number]), int(count)

    def copy(self) -> "Classes":
        """The same names, to be changed apart; of those that no node goes by any more, few are kept."""
        used = np.unique(self._told)
        if len(self._names) <= 2 * len(used) + _SPARE:
            other = Classes(self._names)
            other._told = self._told.copy()
            return other
        living = used[used != _NOTHING]
        other = Classes([self._names[number] for number in living])
        numbers = np.searchsorted(living, self._told).astype(np.int32)
        other._told = np.where(self._told == _NOTHING, np.int32(_NOTHING), numbers)
        return other

    def _named(self, numbers: Ints) -> Iterator[str]:
        met = np.zeros(len(self._names) + 1, dtype=np.bool_)
        # What is nothing is counted from the end, and so meets the place that is no name's.
        met[numbers] = True
        return (self._names[number] for number in np.flatnonzero(met[:-1]))

    def _number(self, name: str) -> int:
        number = self._numbers.setdefault(name, len(self._names))
        if number == len(self._names):
            self._names.append(name)
        return number
