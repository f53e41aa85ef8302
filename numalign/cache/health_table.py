"""
What ill nodes are in health: equal ones together, and of each ill node the row that stands for it there.

When a device plugin fails on a whole cluster, thousands of nodes are ill at once and alike in health. What
could ever be is then asked of as many nodes as differ there.
"""

from dataclasses import dataclass, replace

import numpy as np

from numalign.cache.arrays import Rows
from numalign.cache.node_table import NOWHERE, NodeTable
from numalign.model.attributes import NO_ATTRIBUTES
from numalign.model.node import Node

_FIRST = 16


@dataclass(slots=True)
class _Kind:
    """Under which name and in which row a node in health stands for how many ill ones."""

    name: str
    row: int
    count: int = 0


class HealthTable:
    """The nodes in health of those that are ill. Changed in place.

    `nodes` are told apart by what verdicts turn on; their names mean nothing.
    """

    def __init__(self) -> None:
        self.nodes = NodeTable()
        self._kinds: dict[Node, _Kind] = {}
        self._told: dict[int, tuple[Node, Node]] = {}
        self._rows: Rows = np.full(_FIRST, NOWHERE, dtype=np.intp)
        self._turn = 0

    def put(self, row: int, health: Node | None) -> None:
        """The node in a row is this one in health, with nothing on it; None if it is not ill."""
        told = self._told.get(row)
        if health is (told[0] if told else None):
            return
        kind = None if health is None else _kind(health)
        if told is None or told[1] != kind:
            self._leave(row)
            if kind is not None:
                self._enter(row, kind)
        if health is not None and kind is not None:
            self._told[row] = health, kind

    def rows(self, rows: Rows | None, height: int) -> Rows:
        """For each of these rows, or of so many, the row of its node among `nodes`; -1 for one in health."""
        self._grow(height)
        return self._rows[:height] if rows is None else self._rows[rows]

    def copy(self) -> "HealthTable":
        """The same, to be changed apart."""
        other = HealthTable()
        other.nodes, other._turn = self.nodes.copy(), self._turn
        other._kinds = {node: replace(kind) for node, kind in self._kinds.items()}
        other._told, other._rows = dict(self._told), self._rows.copy()
        return other

    def _enter(self, row: int, node: Node) -> None:
        kind = self._kinds.get(node) or self._new_kind(node)
        kind.count += 1
        self._grow(row + 1)
        self._rows[row] = kind.row

    def _new_kind(self, node: Node) -> _Kind:
        self._turn += 1
        name = str(self._turn)
        self.nodes.put(replace(node, name=name))
        kind = self._kinds[node] = _Kind(name, int(self.nodes.rows([name])[0]))
        return kind

    def _leave(self, row: int) -> None:
        told = self._told.pop(row, None)
        if told is None:
            return
        self._rows[row] = NOWHERE
        kind = self._kinds[told[1]]
        kind.count -= 1
        if not kind.count:
            self.nodes.drop(kind.name)
            del self._kinds[told[1]]

    def _grow(self, height: int) -> None:
        more = height - len(self._rows)
        if more > 0:
            added = np.full(max(more, len(self._rows)), NOWHERE, dtype=np.intp)
            self._rows = np.concatenate([self._rows, added])


def _kind(health: Node) -> Node:
    """All of it that verdicts turn on."""
    return replace(health, name="", label=None, attributes=NO_ATTRIBUTES, health=None)
