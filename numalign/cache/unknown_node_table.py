"""
The nodes of a moment whose topology is not known, by row: who may go there, and what they have as a whole.

After an outage of an exporter that may be every node there is, so their totals stand in columns as well.
"""

from collections.abc import Mapping

import numpy as np

from numalign.cache.arrays import Bools, Ints
from numalign.cache.node_table import NodeTable
from numalign.model.demand import Demand
from numalign.model.node import Node
from numalign.model.resources import EMPTY, NODE_LEVEL
from numalign.shapes import UnknownNode

ENOUGH = 2**62
"""In place of an amount that nobody told, which may be enough for everything."""

MOST_RESOURCES = 256
"""Resources with a column; with more, those that no node lists any more lose theirs."""

_FIRST = 16


class UnknownNodeTable(NodeTable):
    """Nodes without topology by row, and what each has as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self._bare: Mapping[str, UnknownNode] = {}
        self._untold: Bools = np.zeros(_FIRST, dtype=np.bool_)
        self._amounts: dict[str, Ints] = {}

    def become(self, bare: Mapping[str, UnknownNode]) -> None:
        """Hold these nodes and no others."""
        before, self._bare = self._bare, bare
        if before is bare:
            return
        for name in before.keys() - bare.keys():
            self.drop(name)
        for node in [node for name, node in bare.items() if before.get(name) != node]:
            self.put(Node(node.name, (), totals=node.totals, attributes=node.attributes))
        if len(self._amounts) > MOST_RESOURCES:
            told = frozenset[str]().union(*(node.totals or () for node in bare.values()))
            self._amounts = {name: self._amounts[name] for name in self._amounts.keys() & told}

    def put(self, node: Node) -> None:
        """A node is as it is told now."""
        super().put(node)
        row = self._rows[node.name]
        while row >= len(self._untold):
            self._widen()
        self._untold[row] = node.totals is None
        for name in (node.totals or {}).keys() - self._amounts.keys():
            self._amounts[name] = np.full(len(self._untold), _at_least(name), dtype=np.int64)
        for name, amounts in self._amounts.items():
            amounts[row] = _amount(node, name)

    def listed(self) -> frozenset[str]:
        """Every resource that some of them list, or listed."""
        return frozenset(self._amounts)

    def large_enough(self, demand: Demand) -> Bools:
        """By row whether the node as a whole may have what a pod asks for."""
        found = np.ones(self.height, dtype=np.bool_)
        for name, asked in demand.total.items():
            found &= self._has(name, asked)
        return found

    def _has(self, name: str, asked: int) -> Bools:
        untold = self._untold[: self.height]
        if name not in self._amounts:
            return untold | (min(asked, ENOUGH) <= _at_least(name))
        return untold | (self._amounts[name][: self.height] >= min(asked, ENOUGH))

    def _widen(self) -> None:
        self._untold = np.concatenate([self._untold, np.zeros_like(self._untold)])
        self._amounts = {
            name: np.concatenate([amounts, np.zeros_like(amounts)]) for name, amounts in self._amounts.items()
        }

    def _copies(self) -> Mapping[str, object]:
        amounts = {name: amounts.copy() for name, amounts in self._amounts.items()}
        return {**super()._copies(), "_untold": self._untold.copy(), "_amounts": amounts}


def _amount(node: Node, name: str) -> int:
    return min((node.totals or EMPTY).get(name, _at_least(name)), ENOUGH)


def _at_least(name: str) -> int:
    """What a node may have of a resource that it does not list; what no zone can hold is often left out."""
    return ENOUGH if name in NODE_LEVEL else 0
