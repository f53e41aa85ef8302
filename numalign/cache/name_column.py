"""A name for each row: that of a node's shape, or what a node is labelled with."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from numalign.cache.arrays import Bools, Ints, Rows

_NOTHING = -1
_FIRST = 16
_SPARE = 256


class NameColumn:
    """Names by row. Changed in place."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = list(names)
        self._numbers = {name: number for number, name in enumerate(names)}
        self._told: Ints = np.full(_FIRST, _NOTHING, dtype=np.int32)

    def __len__(self) -> int:
        """How many names are known, those that no row has any more included."""
        return len(self._names)

    def put(self, row: int, name: str | None) -> None:
        """A row has this name, or none."""
        while row >= len(self._told):
            self._told = np.concatenate([self._told, np.full_like(self._told, _NOTHING)])
        self._told[row] = _NOTHING if name is None else self._number(name)

    def of(self, row: int) -> str:
        """The name of a row that has one."""
        return self._names[int(self._told[row])]

    def every(self) -> frozenset[str]:
        """Every name that a row has."""
        return frozenset(self._named(self._told))

    def among(self, rows: Bools) -> Iterator[str]:
        """The names that these rows have, each once."""
        return self._named(self._told[: len(rows)][rows])

    def numbered(self, numbers: Mapping[str, int], height: int) -> Rows:
        """For so many rows, the number that is given to the name of each; -1 where there is none."""
        by_name = np.array([*(numbers.get(name, _NOTHING) for name in self._names), _NOTHING], dtype=np.intp)
        # What is nothing is counted from the end, and so meets the place that is no name's.
        return by_name[self._told[:height]]

    def copy(self) -> "NameColumn":
        """The same names, to be changed apart; of those that no row has any more, few are kept."""
        used = np.unique(self._told)
        if len(self._names) <= 2 * len(used) + _SPARE:
            other = NameColumn(self._names)
            other._told = self._told.copy()
            return other
        living = used[used != _NOTHING]
        other = NameColumn([self._names[number] for number in living])
        numbers = np.searchsorted(living, self._told).astype(np.int32)
        other._told = np.where(self._told == _NOTHING, np.int32(_NOTHING), numbers)
        return other

    def _named(self, numbers: Ints) -> Iterator[str]:
        met = np.zeros(len(self._names) + 1, dtype=np.bool_)
        met[numbers] = True
        return (self._names[number] for number in np.flatnonzero(met[:-1]))

    def _number(self, name: str) -> int:
        number = self._numbers.setdefault(name, len(self._names))
        if number == len(self._names):
            self._names.append(name)
        return number
