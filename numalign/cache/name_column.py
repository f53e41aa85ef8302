"""A name for each row of a table: that of a node's shape, or of the class in its label."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

import numpy as np

from numalign.cache.arrays import Bools, Ints, Rows

_NO_NAME = -1
_FIRST_ROWS = 16
_SPARE_NAMES = 256


class NameColumn:
    """Names by row, changed in place; unused names are removed now and then."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._number_of: Ints = np.full(_FIRST_ROWS, _NO_NAME, dtype=np.int32)
        self._most_names = _SPARE_NAMES
        self.version = 0
        """Grows whenever the name of a row changes."""

    def __len__(self) -> int:
        """Return the number of stored names, including some unused ones."""
        return len(self._names)

    def put(self, row: int, name: str | None) -> None:
        """Set the name of a row, or remove it."""
        while row >= len(self._number_of):
            self._number_of = np.concatenate([self._number_of, np.full_like(self._number_of, _NO_NAME)])
        number = _NO_NAME if name is None else self._number(name)
        if self._number_of[row] != number:
            self._number_of[row] = number
            self.version += 1

    def of(self, row: int) -> str:
        """Return the name of a row that has one."""
        return self._names[int(self._number_of[row])]

    def every(self) -> frozenset[str]:
        """Return the names of all rows."""
        return frozenset(self._named(self._number_of))

    def rows(self, names: AbstractSet[str]) -> Rows:
        """Return the rows that have one of these names."""
        return np.flatnonzero(self.mapped(dict.fromkeys(names, 0), len(self._number_of)) != _NO_NAME)

    def among(self, rows: Bools) -> Iterator[str]:
        """Return the names of these rows, each once."""
        return self._named(self._number_of[: len(rows)][rows])

    def mapped(self, numbers: Mapping[str, int], height: int) -> Rows:
        """Return for each of these rows the number of its name in `numbers`; -1 without one."""
        by_name = np.array([*(numbers.get(name, _NO_NAME) for name in self._names), _NO_NAME], dtype=np.intp)
        # A row without a name has the index -1, which is the extra entry.
        return by_name[self._number_of[:height]]

    def _named(self, numbers: Ints) -> Iterator[str]:
        used = np.zeros(len(self._names) + 1, dtype=np.bool_)
        used[numbers] = True
        return (self._names[number] for number in np.flatnonzero(used[:-1]))

    def _number(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            if len(self._names) >= self._most_names:
                self._forget_unused()
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
        return number

    def _forget_unused(self) -> None:
        used = np.unique(self._number_of)
        used = used[used != _NO_NAME]
        renumbered = np.searchsorted(used, self._number_of).astype(np.int32)
        self._number_of = np.where(self._number_of == _NO_NAME, np.int32(_NO_NAME), renumbered)
        self._names = [self._names[number] for number in used]
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._most_names = 2 * len(self._names) + _SPARE_NAMES
