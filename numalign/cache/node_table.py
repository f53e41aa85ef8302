"""
Nodes by name and by row, their amounts in one table of columns for each number of zones.

Rows number nodes for data that is kept by node; a row is reused after its node has gone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import repeat
from operator import itemgetter

import numpy as np

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.change_log import ChangeLog
from numalign.cache.columns import Columns
from numalign.cache.layout import Layout, Unfit, layout_of, only_free_differs
from numalign.cache.layout_kinds import LayoutKinds
from numalign.lru import LRU
from numalign.model.node import Node, alike

NOWHERE = -1
"""In place of the row of a missing node."""

ODD, GONE = -1, -2
"""In place of the number of a table: the node is in none, or there is no node."""

_FIRST = 16

_KINDS = 64
"""The limit of sets of resources with cached kinds of layouts; most pods request one of a few."""


class ZoneTable:
    """Nodes with equally many zones: their columns, and the row of each in the node table."""

    def __init__(self, zones: int) -> None:
        self.columns = Columns(zones)
        self._kinds: LRU[frozenset[str], LayoutKinds] = LRU(_KINDS)
        self._rows: Rows = np.zeros(_FIRST, dtype=np.intp)

    @property
    def rows(self) -> Rows:
        """The row of each of its nodes."""
        return self._rows[: self.columns.count]

    def kinds(self, asked: frozenset[str]) -> LayoutKinds:
        """Return the kinds of the layouts here, with regard to these resources."""
        kept = self._kinds.get(asked, lambda: LayoutKinds(self.columns, asked))
        if kept.era != self.columns.era:
            kept = LayoutKinds(self.columns, asked)
            self._kinds.put(asked, kept)
        return kept

    def add(self, row: int, layout: Layout, node: Node) -> int:
        """Add a node, and return its place."""
        at = self.columns.count
        if at == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros(at, dtype=np.intp)])
        self._rows[at] = row
        self.columns.put(at, layout, node)
        return at

    def remove(self, at: int) -> int:
        """Remove a place; return the row that is there now."""
        last = self.columns.remove(at)
        self._rows[at] = self._rows[last]
        return int(self._rows[at])


class NodeTable:
    """Nodes by name and by row. Changed in place.

    `changes` notes every row with a change that matters to verdicts, `facts` those where more changed than
    the free amounts, `attributes` those whose attributes changed.
    """

    def __init__(self) -> None:
        self.changes = ChangeLog()
        self.facts = ChangeLog()
        self.attributes = ChangeLog()
        self._nodes: list[Node | None] = []
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._tables: list[ZoneTable] = []
        self._unfit: dict[int, Unfit] = {}
        self._table_of: Ints = np.full(_FIRST, GONE, dtype=np.int32)
        self._occupied: Bools = np.zeros(_FIRST, dtype=np.bool_)
        self._exclusive: Bools = np.zeros(_FIRST, dtype=np.bool_)
        self._place_of: Rows = np.zeros(_FIRST, dtype=np.intp)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def height(self) -> int:
        """The number of rows, including those of nodes that are gone."""
        return len(self._nodes)

    @property
    def in_columns(self) -> int:
        """The number of nodes in columns; the others are evaluated by the rules."""
        return sum(table.columns.count for table in self._tables)

    def row(self, name: str) -> int | None:
        """Return the row of a node; None if it does not exist."""
        return self._rows.get(name)

    def rows(self, names: Sequence[str]) -> Rows:
        """Return the row of each of these nodes, -1 for missing ones."""
        return np.fromiter(self._rows_of(names), dtype=np.intp, count=len(names))

    def _rows_of(self, names: Sequence[str]) -> Iterable[int]:
        # Nearly always there are several, and all are known: then this is the fastest lookup.
        if len(names) > 1:
            with suppress(KeyError):
                rows: tuple[int, ...] = itemgetter(*names)(self._rows)
                return rows
        return map(self._rows.get, names, repeat(NOWHERE))

    def names(self) -> AbstractSet[str]:
        """Return the names of all nodes."""
        return self._rows.keys()

    def get(self, name: str) -> Node | None:
        """Return a node by its name; None if it does not exist."""
        row = self._rows.get(name)
        return None if row is None else self._nodes[row]

    def node(self, row: int) -> Node:
        """Return the node in a row; raise `KeyError` if there is none."""
        node = self._nodes[row] if 0 <= row < len(self._nodes) else None
        if node is None:
            raise KeyError(row)
        return node

    def has(self, row: int) -> bool:
        """Return whether a row has a node."""
        return 0 <= row < len(self._nodes) and self._nodes[row] is not None

    def __iter__(self) -> Iterator[Node]:
        """Iterate over all nodes, by row."""
        return (node for node in self._nodes if node is not None)

    def put(self, node: Node) -> None:
        """Add or update a node."""
        row = self._rows.get(node.name)
        if row is None:
            row = self._rows[node.name] = self._new_row()
        before, self._nodes[row] = self._nodes[row], node
        if before is node:
            return
        if before is None or before.attributes != node.attributes:
            self.attributes.note(row)
        if before is not None and alike(node, before):
            return
        self._occupied[row], self._exclusive[row] = bool(node.occupied), bool(node.exclusive)
        same = before is not None and only_free_differs(node, before)
        if not (same and self._refreshed(row, node)):
            self._settle(row, node)
        if not same:
            self.facts.note(row)
        self.changes.note(row)

    def drop(self, name: str) -> None:
        """Remove a node, if it exists."""
        row = self._rows.pop(name, None)
        if row is not None:
            self._leave(row)
            self._nodes[row], self._table_of[row] = None, GONE
            self._occupied[row] = self._exclusive[row] = False
            self._free.append(row)
            self.facts.note(row)
            self.changes.note(row)
            self.attributes.note(row)

    @property
    def unfit(self) -> Mapping[Unfit, int]:
        """The number of nodes outside columns, by reason."""
        return Counter(self._unfit.values())

    def why_odd(self, row: int) -> Unfit:
        """Return why the node in a row is in no columns; raise `KeyError` if it is in some."""
        return self._unfit[row]

    def tables(self) -> Iterator[tuple[int, ZoneTable]]:
        """Return all tables with nodes, by number."""
        return ((at, table) for at, table in enumerate(self._tables) if table.columns.count)

    def table(self, number: int) -> ZoneTable:
        """Return a table by its number."""
        return self._tables[number]

    def places(self, rows: Rows | None) -> tuple[Ints, Rows]:
        """Return the table numbers of these rows, or all, below 0 for none, and their places there."""
        chosen = slice(self.height) if rows is None else rows
        return self._table_of[chosen], self._place_of[chosen]

    def occupied(self, rows: Rows) -> Bools:
        """Return which of these rows have nodes that hold a pod with an intent."""
        chosen: Bools = self._occupied[rows]
        return chosen

    def exclusive(self, rows: Rows) -> Bools:
        """Return which of these rows have nodes that hold a pod with exclusive zones."""
        chosen: Bools = self._exclusive[rows]
        return chosen

    def _new_row(self) -> int:
        if self._free:
            return self._free.pop()
        self._nodes.append(None)
        more = len(self._table_of)
        if len(self._nodes) > more:
            self._table_of = np.concatenate([self._table_of, np.full(more, GONE, dtype=np.int32)])
            self._place_of = np.concatenate([self._place_of, np.zeros(more, dtype=np.intp)])
            self._occupied = np.concatenate([self._occupied, np.zeros(more, dtype=np.bool_)])
            self._exclusive = np.concatenate([self._exclusive, np.zeros(more, dtype=np.bool_)])
        return len(self._nodes) - 1

    def _refreshed(self, row: int, node: Node) -> bool:
        """Update what is free on a node, if it is in columns and stays there."""
        number = int(self._table_of[row])
        return number >= 0 and self._tables[number].columns.refresh(int(self._place_of[row]), node)

    def _settle(self, row: int, node: Node) -> None:
        """Put a node into a table of nodes with as many zones, if amounts describe it completely."""
        layout = layout_of(node)
        if isinstance(layout, Unfit):
            self._leave(row)
            self._table_of[row], self._unfit[row] = ODD, layout
            return
        number = self._number(layout)
        if self._table_of[row] == number:
            self._tables[number].columns.put(int(self._place_of[row]), layout, node)
            return
        self._leave(row)
        self._table_of[row] = number
        self._place_of[row] = self._tables[number].add(row, layout, node)

    def _number(self, layout: Layout) -> int:
        """Return the number of the first table with these zones and room for a layout's resources."""
        zones = len(layout.ids)
        for number, table in enumerate(self._tables):
            if table.columns.zones == zones and table.columns.has_room_for(layout):
                return number
        self._tables.append(ZoneTable(zones))
        return len(self._tables) - 1

    def _leave(self, row: int) -> None:
        self._unfit.pop(row, None)
        number, at = int(self._table_of[row]), int(self._place_of[row])
        if number >= 0:
            self._place_of[self._tables[number].remove(at)] = at
