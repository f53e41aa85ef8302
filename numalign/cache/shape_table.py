"""
The shapes of a cluster, by row: each as a node in columns, and which of them pods may use.

There are few shapes and they hardly ever change, so results about them stay valid for long.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    its own row, whatever its name: the other shapes of that name come from nodes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.all_changes = ChangeLog()
        self._known: dict[str, KnownShape] = {}
        self._ordered: list[tuple[int, KnownShape]] | None = None
        self._listed: frozenset[str] | None = None

    def update(self, shapes: Mapping[str, KnownShape | None]) -> None:
        """Add or update shapes by their keys; remove those that are None."""
        for key, known in shapes.items():
            before = self._known.get(key)
            if known is None and before is not None:
                self.all_changes.note(self._rows[key])
                self.drop(key)
                del self._known[key]
            elif known is not None:
                if before is None or before.shape != known.shape:
                    self.put(replace(known.shape.node, name=key))
                    self.all_changes.note(self._rows[key])
                self._known[key] = known
        self._ordered = self._listed = None

    @property
    def listed(self) -> frozenset[str]:
        """Every resource that a node of some shape lists, with any amount."""
        if self._listed is None:
            every = (listed(known.shape.node) for known in self._known.values())
            self._listed = frozenset(chain.from_iterable(every))
        return self._listed

    @property
    def classes(self) -> frozenset[str]:
        """Every name of a class."""
        return frozenset(known.shape.node_class for known in self._known.values())

    def known(self) -> Sequence[tuple[int, KnownShape]]:
        """Return every shape and its row, by name; the declared ones last."""
        if self._ordered is None:
            ordered = sorted(self._known.items(), key=lambda keyed: (keyed[1].declared, keyed[0]))
            self._ordered = [(self._rows[key], known) for key, known in ordered]
        return self._ordered

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


def deriving(named: Iterable[tuple[str, Node]]) -> Steps[Mapping[str, KnownShape]]:
    """Return the shapes of nodes by name, each node given with that of its shape; some nodes at each step."""
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
    return {name: KnownShape(each, counts[name]) for name, each in sorted(found.items())}
