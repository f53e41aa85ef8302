"""
The shapes of a cluster, by row: each as a node in columns, and which of them pods may go to.

Shapes are few and hardly ever change, so what was found out about them holds for a long time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from numalign.cache.arrays import Bools, Rows
from numalign.cache.change_log import ChangeLog
from numalign.cache.node_table import NodeTable
from numalign.model.constraints import Constraints
from numalign.model.node import Node
from numalign.model.steps import Steps
from numalign.shapes import KnownShape, Shape, shape

_SHAPES_A_STEP = 32
_NODES_A_STEP = 8


class ShapeTable(NodeTable):
    """Shapes by row, each as a node in health with nothing on it. Changed in place.

    `told` notes every row of which anything changed: amounts, labels or taints. One that was declared has a
    row of its own, whatever its name: what else is known of a shape of that name is what nodes have shown.
    `listed` is every resource that a node of some shape lists, whether or not it has any of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.told = ChangeLog()
        self.listed: frozenset[str] = frozenset()
        self.classes: frozenset[str] = frozenset()
        self._known: dict[str, KnownShape] = {}

    def become(self, shapes: Iterable[KnownShape]) -> None:
        """Hold these shapes and no others."""
        keyed = dict(_keyed(shapes))
        for key in self._known.keys() - keyed.keys():
            self.told.note(self._rows[key])
            self.drop(key)
        before, self._known = self._known, keyed
        for key, known in keyed.items():
            if key not in before or before[key].shape != known.shape:
                self.put(replace(known.shape.node, name=key))
                self.told.note(self._rows[key])
        every = [known.shape for known in keyed.values()]
        self.listed = frozenset(chain.from_iterable(_listed(shape.node) for shape in every))
        self.classes = frozenset(shape.node_class for shape in every)

    def known(self) -> Iterator[tuple[int, KnownShape]]:
        """Return every shape and its row, the declared ones last if that is how they were told."""
        return ((self._rows[key], known) for key, known in self._known.items())

    def rows_by_name(self) -> Mapping[str, int]:
        """Return the rows of shapes that nodes can be of, by the names of shapes."""
        return self._rows

    def may_go(self, constraints: Constraints, rows: Rows | None) -> Steps[Bools]:
        """Return whether a pod may go to nodes of the shapes in these rows, or in all; some at each step."""
        wanted = range(self.height) if rows is None else rows.tolist()
        may_go = np.zeros(len(wanted), dtype=np.bool_)
        shapes = dict(self.known())
        for at, row in enumerate(wanted):
            known = shapes.get(row)
            may_go[at] = known is not None and known.shape.unmet(constraints) is None
            if (at + 1) % _SHAPES_A_STEP == 0:
                yield
        return may_go


def deriving(named: Iterable[tuple[str, Node]]) -> Steps[Sequence[KnownShape]]:
    """Return the shapes of nodes, each told with the name of its shape; some nodes at each step."""
    found: dict[str, Shape] = {}
    counts = Counter[str]()
    for at, (name, node) in enumerate(named, start=1):
        counts[name] += 1
        before = found.get(name)
        if before is None or node.health or not before.covers(node):
            own = shape.of(node)
            found[name] = before.joined(own) if before else own
        if at % _NODES_A_STEP == 0:
            yield
    return [KnownShape(each, counts[name]) for name, each in sorted(found.items())]


def _keyed(shapes: Iterable[KnownShape]) -> Iterator[tuple[str, KnownShape]]:
    declared = Counter[str]()
    for each in shapes:
        name = each.shape.name
        if each.declared:
            declared[name] += 1
            # No name of a shape has a slash.
            name = f"{name}/{declared[name]}"
        yield name, each


def _listed(node: Node) -> Iterator[str]:
    bags = (bag for zone in node.zones for bag in (zone.capacity, zone.allocatable))
    yield from chain.from_iterable(bags)
    yield from node.totals or ()
