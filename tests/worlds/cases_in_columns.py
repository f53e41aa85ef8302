"""The nodes of fleets that stand in columns, part by part, and what they may give to a pod."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from numalign.cache.column_state import ColumnState
from numalign.cache.columns import FreeOrEmpty, When
from numalign.cache.layout import Layout, layout_of
from numalign.model.node import Node
from tests.laws.fleets import Case
from tests.worlds.in_columns import plans


def parts_of(asked: Case, when: FreeOrEmpty = When.NOW) -> Iterator[tuple[ColumnState, Sequence[Node]]]:
    """What nodes that decide alike may give, and the node of each row as it is then."""
    known = [one for one in asked.nodes if isinstance(layout_of(one), Layout)]
    for _, some in groupby(sorted(known, key=_zones), key=_zones):
        nodes = [*some]
        for plan in plans(asked.question.demand, *nodes, intent=asked.question.intent):
            rows = np.flatnonzero(plan.meant[plan.kinds.of_rows(None)])
            meant = [nodes[row] for row in rows.tolist()]
            stand = meant if when is When.NOW else [one.emptied() for one in meant]
            yield ColumnState(plan, when, rows), stand


def _zones(one: Node) -> int:
    return len(one.zones)
