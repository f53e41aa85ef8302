"""
The nodes of a moment, by row: their columns, and the classes that they go by.

A moment is told all its nodes anew, and nearly all are the very objects that the one before had: whatever is
done for each of them is done thousands of times a second in a large cluster.
"""

from collections.abc import Mapping
from copy import copy
from typing import Self

from numalign.fleet.classes import Classes
from numalign.fleet.tables import Tables
from numalign.rules.topology import Node


class Roster(Tables):
    """Nodes by row, and the classes that they go by."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = Classes()
        self._named: dict[str, Node] = {}

    def become(self, nodes: Mapping[str, Node]) -> None:
        """Hold these nodes, by their names, and no others."""
        for name in self._named.keys() - nodes.keys():
            self.drop(name)
        # Nearly all are the very objects that they were.
        here = self._named.get
        for node in [node for name, node in nodes.items() if here(name) is not node]:
            self.put(node)

    def put(self, node: Node) -> None:
        """A node is as it is told now."""
        told = self.facts.place
        super().put(node)
        row = self._rows[node.name]
        self._named[node.name] = node
        if self.facts.place != told:
            self.classes.put(row, node)
        self.classes.label(row, node)

    def drop(self, name: str) -> None:
        """A node is there no more."""
        row = self.row(name)
        super().drop(name)
        if row is not None:
            del self._named[name]
            self.classes.drop(row)

    def get(self, name: str) -> Node | None:
        """A node; None if there is none of this name."""
        return self._named.get(name)

    def class_of(self, name: str) -> str:
        """The class of a node by its facts; raises `KeyError` for a name that no node has."""
        row = self.row(name)
        if row is None:
            raise KeyError(name)
        return self.classes.of(row)

    def copy(self) -> Self:
        """The same nodes, to be changed apart."""
        other = copy(self)
        vars(other).update(self._copies(), classes=self.classes.copy(), _named=dict(self._named))
        return other
