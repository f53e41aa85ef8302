"""
What ill nodes are in health: equal ones once, and for each ill node the row that stands for it there.

When a device plugin fails on a whole cluster, thousands of nodes are ill at once and alike in health. What
could ever be is then asked of as many nodes as differ there.
"""

from dataclasses import dataclass, replace

import numpy as np

from numalign.cache.arrays import Rows
from numalign.cache.node_table import NOWHERE, NodeTable
from numalign.model.attributes import NO_ATTRIBUTES
from numalign.model.node import Node

_FIRST_ROWS = 16


@dataclass(slots=True)
class _HealthyNode:
    """The name and row of a node in health, and for how many ill ones it stands."""

    name: str
    row: int
    count: int = 0


class HealthTable:
    """The nodes in health of those that are ill, by what verdicts turn on; changed in place."""

    def __init__(self) -> None:
        self.nodes = NodeTable()
        self._healthy: dict[Node, _HealthyNode] = {}
        self._of_row: dict[int, tuple[Node, Node]] = {}
        self._rows: Rows = np.full(_FIRST_ROWS, NOWHERE, dtype=np.intp)
        self._count = 0

    def put(self, row: int, health: Node | None) -> None:
        """The node in a row is this one in health, with nothing on it; None if it is not ill."""
        before = self._of_row.get(row)
        if health is (before[0] if before else None):
            return
        key = None if health is None else _without_identity(health)
        if before is None or before[1] != key:
            self._leave(row)
            if key is not None:
                self._enter(row, key)
        if health is not None and key is not None:
            self._of_row[row] = health, key

    def rows(self, rows: Rows | None, height: int) -> Rows:
        """For each of these rows, or of so many, the row among `nodes`; -1 for a node that is not ill."""
        self._grow(height)
        return self._rows[:height] if rows is None else self._rows[rows]

    def _enter(self, row: int, key: Node) -> None:
        healthy = self._healthy.get(key) or self._add(key)
        healthy.count += 1
        self._grow(row + 1)
        self._rows[row] = healthy.row

    def _add(self, key: Node) -> _HealthyNode:
        self._count += 1
        name = str(self._count)
        self.nodes.put(replace(key, name=name))
        healthy = self._healthy[key] = _HealthyNode(name, int(self.nodes.rows([name])[0]))
        return healthy

    def _leave(self, row: int) -> None:
        before = self._of_row.pop(row, None)
        if before is None:
            return
        self._rows[row] = NOWHERE
        healthy = self._healthy[before[1]]
        healthy.count -= 1
        if not healthy.count:
            self.nodes.drop(healthy.name)
            del self._healthy[before[1]]

    def _grow(self, height: int) -> None:
        more = height - len(self._rows)
        if more > 0:
            added = np.full(max(more, len(self._rows)), NOWHERE, dtype=np.intp)
            self._rows = np.concatenate([self._rows, added])


def _without_identity(health: Node) -> Node:
    """Return all of it that verdicts turn on."""
    return replace(health, name="", label=None, attributes=NO_ATTRIBUTES, health=None)
