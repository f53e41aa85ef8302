"""
One fact of each node, as a column of numbers: equal values have equal numbers.

Thousands of nodes have few values of most labels, so a requirement is checked for the values, and the result
is looked up by node.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType

import numpy as np

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.change_log import TrackedArray
from numalign.cache.node_table import NodeTable
from numalign.model.constraints import Operator, Requirement, whole_number
from numalign.model.node import Node


class LabelColumn:
    """A value of each node, by row; None means no value, and is used for rows without a node.

    Follows the attributes of nodes.
    """

    def __init__(self, nodes: NodeTable, read: Callable[[Node], Hashable]) -> None:
        self._nodes = nodes
        self._read = read
        self._kept = TrackedArray(nodes.attributes, np.zeros(0, dtype=np.int32))
        self._numbers: dict[Hashable, int] = {None: 0}
        self._whole: tuple[int, list[str]] = (0, [])

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def numbers(self) -> Ints:
        """The number of each row's value, by row; 0 for None."""
        return self._follow()

    def _follow(self) -> Ints:
        return self._kept.current(self._nodes.height, self._compute)

    @property
    def kinds(self) -> tuple[Hashable, ...]:
        """All values by number, with some that no node has any more."""
        self._follow()
        return tuple(self._numbers)

    @property
    def present(self) -> tuple[Hashable, ...]:
        """The values that some node has now, and None if there is a row without one."""
        kinds = self.kinds
        return tuple(kinds[number] for number in np.unique(self.numbers).tolist())

    def meeting(self, requirement: Requirement) -> Bools:
        """Return by number whether a label with that value meets a requirement.

        The time depends on what the requirement lists, and on the values only for filling an array.
        """
        self._follow()
        numbers = np.array(_NAMED[requirement.operator](self, requirement), dtype=np.intp)
        unnamed = requirement.operator in _UNLESS_NAMED
        found = np.full(len(self), unnamed)
        found[numbers] = not unnamed
        found[0] = requirement.allows(None)
        return found

    def listed(self, requirement: Requirement) -> list[int]:
        """Return the numbers of the values that a requirement lists."""
        return [self._numbers[value] for value in requirement.values if value in self._numbers]

    def beyond(self, requirement: Requirement) -> list[int]:
        """Return the numbers of the values that meet a requirement about whole numbers."""
        # In this order a requirement is met by none up to some value, and by all from there.
        order = self._in_order()[:: _DIRECTION[requirement.operator]]
        refused = bisect_left(order, 1, key=requirement.allows)
        return [self._numbers[each] for each in order[refused:]]

    def _in_order(self) -> list[str]:
        """Return the values that are whole numbers, the smallest first."""
        count, found = self._whole
        if count != len(self):
            texts = (value for value in self._numbers if isinstance(value, str))
            numbered = [(number, text) for text in texts if (number := whole_number(text)) is not None]
            found = [text for _, text in sorted(numbered)]
            self._whole = len(self), found
        return found

    def _compute(self, rows: Rows | None) -> Ints:
        if rows is None:
            # Values that no node has any more are removed here.
            self._numbers, self._whole = {None: 0}, (0, [])
        meant = range(self._nodes.height) if rows is None else rows.tolist()
        return np.fromiter(map(self._number, meant), dtype=np.int32, count=len(meant))

    def _number(self, row: int) -> int:
        value = self._read(self._nodes.node(row)) if self._nodes.has(row) else None
        return self._numbers.setdefault(value, len(self._numbers))


_UNLESS_NAMED = frozenset({Operator.NOT_IN, Operator.EXISTS})
"""The operators that are met by all values but the named ones."""

_DIRECTION: Mapping[Operator, int] = MappingProxyType({Operator.GT: 1, Operator.LT: -1})


def _none(_values: LabelColumn, _requirement: Requirement) -> list[int]:
    return []


_NAMED: Mapping[Operator, Callable[[LabelColumn, Requirement], list[int]]] = MappingProxyType(
    {
        Operator.IN: LabelColumn.listed,
        Operator.NOT_IN: LabelColumn.listed,
        Operator.EXISTS: _none,
        Operator.DOES_NOT_EXIST: _none,
        Operator.GT: LabelColumn.beyond,
        Operator.LT: LabelColumn.beyond,
    }
)
