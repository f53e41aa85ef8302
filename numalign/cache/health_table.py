"""
Degraded nodes in their healthy state: equal ones once, and the row of each degraded node there.

If a device plugin fails on a whole cluster, thousands of nodes are degraded at once and equal when healthy.
What could ever fit is then evaluated only for different ones.
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
    """The name and row of a healthy node, and how many degraded ones it represents."""

    name: str
    row: int
    count: int = 0


class HealthTable:
    """The healthy states of degraded nodes, by what matters to verdicts; changed in place."""

    def __init__(self) -> None:
        self.nodes = NodeTable()
        self._healthy: dict[Node, _HealthyNode] = {}
        self._of_row: dict[int, tuple[Node, Node]] = {}
        self._rows: Rows = np.full(_FIRST_ROWS, NOWHERE, dtype=np.intp)
        self._count = 0

    def put(self, row: int, health: Node | None) -> None:
        """Set the healthy, empty state of the node in a row; None if it is not degraded."""
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
        """Return the row among `nodes` for each of these rows, or of `height`; -1 if not degraded."""
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
    """Return all of it that matters to verdicts."""
    return replace(health, name="", label=None, attributes=NO_ATTRIBUTES, health=None)
