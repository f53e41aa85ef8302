"""
The shapes of a cluster, by row: each as a node in columns, and which of them pods may use.

There are few shapes and they hardly ever change, so results about them stay valid for long.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from numalign.cache.arrays import Bools, Rows
from numalign.cache.change_log import ChangeLog
from numalign.cache.node_table import NodeTable
from numalign.model.constraints import Constraints, Unmet
from numalign.model.node import Node
from numalign.model.steps import Steps
from numalign.shapes import KnownShape, Shape, shape
from numalign.shapes.hints import listed

_SHAPES_A_STEP = 32
_NODES_A_STEP = 8

ShapeRule = Callable[[Shape, Constraints], Unmet | None]
"""`Shape.unmet`, `Shape.unmet_by_new` or `GrowablePools.unmet`."""


class ShapeTable(NodeTable):
    """Shapes by row, each as a healthy, empty node. Changed in place.

    `all_changes` notes every row of which anything changed: amounts, labels or taints. A declared shape has
    its own row, whatever its name: the other shapes of that name come from nodes. `listed` is every resource
    that a node of some shape lists, with any amount.
    """

    def __init__(self) -> None:
        super().__init__()
        self.all_changes = ChangeLog()
        self.listed: frozenset[str] = frozenset()
        self.classes: frozenset[str] = frozenset()
        self._known: dict[str, KnownShape] = {}

    def replace_all(self, shapes: Iterable[KnownShape]) -> None:
        """Replace all shapes by these."""
        keyed = dict(_keyed(shapes))
        for key in self._known.keys() - keyed.keys():
            self.all_changes.note(self._rows[key])
            self.drop(key)
        before, self._known = self._known, keyed
        for key, known in keyed.items():
            if key not in before or before[key].shape != known.shape:
                self.put(replace(known.shape.node, name=key))
                self.all_changes.note(self._rows[key])
        every = [known.shape for known in keyed.values()]
        self.listed = frozenset(chain.from_iterable(listed(shape.node) for shape in every))
        self.classes = frozenset(shape.node_class for shape in every)

    def known(self) -> Iterator[tuple[int, KnownShape]]:
        """Return every shape and its row, in the order in which they were given."""
        return ((self._rows[key], known) for key, known in self._known.items())

    def rows_by_name(self) -> Mapping[str, int]:
        """Return the rows of shapes that nodes can have, by the names of shapes."""
        return self._rows

    def may_go(self, rule: ShapeRule, constraints: Constraints, rows: Rows | None) -> Steps[Bools]:
        """Return whether a rule lets a pod use the shapes in these rows, or in all; some at each step."""
        wanted = range(self.height) if rows is None else rows.tolist()
        may_go = np.zeros(len(wanted), dtype=np.bool_)
        shapes = dict(self.known())
        for at, row in enumerate(wanted):
            known = shapes.get(row)
            may_go[at] = known is not None and rule(known.shape, constraints) is None
            if (at + 1) % _SHAPES_A_STEP == 0:
                yield
        return may_go


def deriving(named: Iterable[tuple[str, Node]]) -> Steps[Sequence[KnownShape]]:
    """Return the shapes of nodes, each given with the name of its shape; some nodes at each step."""
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
