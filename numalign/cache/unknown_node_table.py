"""
The nodes without a known topology, by row: which pods may use them, and their totals.

After an outage of an exporter that may be every node, so their totals are in columns as well.
"""

from collections import Counter
from collections.abc import Set as AbstractSet

import numpy as np

from numalign.cache.arrays import Bools, Ints
from numalign.cache.node_table import NodeTable
from numalign.model.demand import Demand
from numalign.model.node import Node
from numalign.model.resources import EMPTY, NODE_LEVEL
from numalign.shapes import UnknownNode

ENOUGH = 2**62
"""In place of an amount that is not reported, which may be enough for everything."""

_FIRST = 16


class UnknownNodeTable(NodeTable):
    """Nodes without topology by row, and the totals of each."""

    def __init__(self) -> None:
        super().__init__()
        self._without_totals: Bools = np.zeros(_FIRST, dtype=np.bool_)
        self._amounts: dict[str, Ints] = {}
        self._listing = Counter[str]()

    def update(self, name: str, unknown: UnknownNode | None) -> None:
        """Add or update a node; remove it if it is None."""
        if unknown is None:
            self.drop(name)
        else:
            self.put(Node(name, (), totals=unknown.totals, attributes=unknown.attributes))

    def put(self, node: Node) -> None:
        """Add or update a node."""
        before = self.get(node.name)
        super().put(node)
        row = self._rows[node.name]
        while row >= len(self._without_totals):
            self._widen()
        self._without_totals[row] = node.totals is None
        for name in (node.totals or {}).keys() - self._amounts.keys():
            self._amounts[name] = np.full(len(self._without_totals), _at_least(name), dtype=np.int64)
        for name, amounts in self._amounts.items():
            amounts[row] = _amount(node, name)
        self._listing.update([*(node.totals or ())])
        self._delist(before)

    def drop(self, name: str) -> None:
        """Remove a node, if it exists."""
        node = self.get(name)
        super().drop(name)
        self._delist(node)

    def _delist(self, node: Node | None) -> None:
        """Remove the columns of resources that no node lists any more."""
        names = [*((node and node.totals) or ())]
        self._listing.subtract(names)
        for name in names:
            if not self._listing[name]:
                del self._listing[name], self._amounts[name]

    def listed(self) -> AbstractSet[str]:
        """Return every resource that some of them list."""
        return self._listing.keys()

    def large_enough(self, demand: Demand) -> Bools:
        """Return by row whether the node as a whole may have what a pod requests."""
        found = np.ones(self.height, dtype=np.bool_)
        for name, asked in demand.total.items():
            found &= self._has(name, asked)
        return found

    def _has(self, name: str, asked: int) -> Bools:
        without_totals = self._without_totals[: self.height]
        if name not in self._amounts:
            return without_totals | (min(asked, ENOUGH) <= _at_least(name))
        return without_totals | (self._amounts[name][: self.height] >= min(asked, ENOUGH))

    def _widen(self) -> None:
        self._without_totals = np.concatenate([self._without_totals, np.zeros_like(self._without_totals)])
        self._amounts = {
            name: np.concatenate([amounts, np.zeros_like(amounts)]) for name, amounts in self._amounts.items()
        }


def _amount(node: Node, name: str) -> int:
    return min((node.totals or EMPTY).get(name, _at_least(name)), ENOUGH)


def _at_least(name: str) -> int:
    """Return what a node may have of a resource that it does not list.

    Resources that no zone can hold are often omitted.
    """
    return ENOUGH if name in NODE_LEVEL else 0
