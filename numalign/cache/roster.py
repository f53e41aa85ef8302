"""
The nodes of a moment, by row: their columns, and by which shape and which label each goes.

A moment is told all its nodes anew, and nearly all are the very objects that the one before had: whatever is
done for each of them is done thousands of times a second in a large cluster.
"""

from collections.abc import Hashable, Mapping

from numalign.cache.health_table import HealthTable
from numalign.cache.name_column import NameColumn
from numalign.cache.node_table import NodeTable
from numalign.model.node import Node, node_class
from numalign.shapes import shape

MOST_KINDS = 4096
"""Names of shapes that are kept by what decides about them; with more, all are found out again."""


class Roster(NodeTable):
    """Nodes by row: the names of their shapes, their labels of classes, and what ill ones are in health."""

    def __init__(self, *, most_kinds: int = MOST_KINDS) -> None:
        super().__init__()
        self._most_kinds = most_kinds
        self.shapes = NameColumn()
        self.labels = NameColumn()
        self.healths = HealthTable()
        self._named: dict[str, Node] = {}
        self._kinds: dict[Hashable, str] = {}

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
        before, told = self._named.get(node.name), self.facts.place
        super().put(node)
        row = self._rows[node.name]
        self._named[node.name] = node
        if before is None or self.facts.place != told or _of_another_kind(node, before):
            self.shapes.put(row, self._shape_of(node))
        self.labels.put(row, node.label)
        self.healths.put(row, node.health)

    def drop(self, name: str) -> None:
        """A node is there no more."""
        row = self.row(name)
        super().drop(name)
        if row is not None:
            del self._named[name]
            self.shapes.put(row, None)
            self.labels.put(row, None)
            self.healths.put(row, None)

    def get(self, name: str) -> Node | None:
        """A node; None if there is none of this name."""
        return self._named.get(name)

    def shape_of(self, name: str) -> str:
        """The name of a node's shape; raises `KeyError` for a name that no node has."""
        row = self.row(name)
        if row is None:
            raise KeyError(name)
        return self.shapes.of(row)

    def _copies(self) -> Mapping[str, object]:
        return {
            **super()._copies(),
            "shapes": self.shapes.copy(),
            "labels": self.labels.copy(),
            "healths": self.healths.copy(),
            "_named": dict(self._named),
        }

    def _shape_of(self, node: Node) -> str:
        kind = (node_class(node), node.attributes.lasting, shape.traits(node.in_health()))
        found = self._kinds.get(kind)
        if found is None:
            if len(self._kinds) >= self._most_kinds:
                self._kinds = {}
            found = self._kinds[kind] = shape.of(node).name
        return found


def _of_another_kind(node: Node, before: Node) -> bool:
    """Whether what decides about the shape beside the facts of a node is not what it was."""
    return node.health != before.health or node.attributes.taints != before.attributes.taints
