"""The nodes of a cluster by row: columns, shapes, the classes in their labels, and healthy states."""

from collections.abc import Hashable

from numalign.cache.health_table import HealthTable
from numalign.cache.name_column import NameColumn
from numalign.cache.node_table import NodeTable
from numalign.model.node import Node, node_class
from numalign.shapes import shape

MOST_SHAPE_NAMES = 4096
"""The limit of cached names of shapes, by what decides them; beyond it the cache is cleared."""


class ClusterNodes(NodeTable):
    """Nodes by row, with the names of their `shapes` and `classes`, and healthy states of degraded ones."""

    def __init__(self, *, most_shape_names: int = MOST_SHAPE_NAMES) -> None:
        super().__init__()
        self.shapes = NameColumn()
        self.classes = NameColumn()
        self.healths = HealthTable()
        self._most_shape_names = most_shape_names
        self._shape_names: dict[Hashable, str] = {}

    def put(self, node: Node) -> None:
        """Add or update a node."""
        before, facts = self.get(node.name), self.facts.place
        super().put(node)
        row = self._rows[node.name]
        if before is None or self.facts.place != facts or _of_another_shape(node, before):
            self.shapes.put(row, self._shape_name(node))
        self.classes.put(row, node.label)
        self.healths.put(row, node.health)

    def drop(self, name: str) -> None:
        """Remove a node, if it exists."""
        row = self.row(name)
        super().drop(name)
        if row is not None:
            self.shapes.put(row, None)
            self.classes.put(row, None)
            self.healths.put(row, None)

    def shape_of(self, name: str) -> str:
        """Return the name of a node's shape; raise `KeyError` for an unknown node."""
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
    """Return whether what decides the shape, beside the facts of a node, has changed."""
    return node.health != before.health or node.attributes.taints != before.attributes.taints
