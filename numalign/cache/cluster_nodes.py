"""The nodes of a cluster by row: their columns, their shapes, the classes in their labels, and who is ill."""

from collections.abc import Hashable

from numalign.cache.health_table import HealthTable
from numalign.cache.name_column import NameColumn
from numalign.cache.node_table import NodeTable
from numalign.model.node import Node, node_class
from numalign.shapes import shape

MOST_SHAPE_NAMES = 4096
"""Names of shapes that are kept by what decides about them; with more, all are worked out again."""


class ClusterNodes(NodeTable):
    """Nodes by row, with the names of their `shapes` and `classes`, and what the ill are in health."""

    def __init__(self, *, most_shape_names: int = MOST_SHAPE_NAMES) -> None:
        super().__init__()
        self.shapes = NameColumn()
        self.classes = NameColumn()
        self.healths = HealthTable()
        self._most_shape_names = most_shape_names
        self._shape_names: dict[Hashable, str] = {}

    def put(self, node: Node) -> None:
        """Add a node, or take it over as it is now."""
        before, facts = self.get(node.name), self.facts.place
        super().put(node)
        row = self._rows[node.name]
        if before is None or self.facts.place != facts or _of_another_shape(node, before):
            self.shapes.put(row, self._shape_name(node))
        self.classes.put(row, node.label)
        self.healths.put(row, node.health)

    def drop(self, name: str) -> None:
        """Take a node out, if it is there."""
        row = self.row(name)
        super().drop(name)
        if row is not None:
            self.shapes.put(row, None)
            self.classes.put(row, None)
            self.healths.put(row, None)

    def shape_of(self, name: str) -> str:
        """Return the name of a node's shape; raises `KeyError` for a name that no node has."""
        return self.shapes.of(self._rows[name])

    def _shape_name(self, node: Node) -> str:
        decisive = (node_class(node), node.attributes.lasting, shape.traits(node.health or node))
        name = self._shape_names.get(decisive)
        if name is None:
            if len(self._shape_names) >= self._most_shape_names:
                self._shape_names = {}
            name = self._shape_names[decisive] = shape.of(node).name
        return name


def _of_another_shape(node: Node, before: Node) -> bool:
    """Return whether what decides about the shape beside the facts of a node is not what it was."""
    return node.health != before.health or node.attributes.taints != before.attributes.taints
