"""
What the nodes of a table may allocate before a pod is admitted, at present or when empty.

Rows are nodes; what differs by kind of layout is looked up by row. A request counts as zero on rows whose
managers do not allocate the resource.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from numalign.cache import zone_sets
from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.columns import GROUPED, GROUPS, RAW, USED, FreeOrEmpty, When
from numalign.cache.layout import Layout
from numalign.cache.layout_kinds import Trait
from numalign.cache.plan import StepRequest, TablePlan
from numalign.model.resources import CPU

T = TypeVar("T")

_FEW = 256
"""For fewer rows than this, totals of sets of zones are computed each time."""


@dataclass(frozen=True, eq=False)
class ColumnState:
    """What these rows of a plan's table may allocate, or all rows if None; all have its layouts."""

    plan: TablePlan
    when: FreeOrEmpty
    rows: Rows | None = None

    @cached_property
    def count(self) -> int:
        """The number of rows."""
        return self.plan.columns.count if self.rows is None else len(self.rows)

    @property
    def zones(self) -> int:
        """The number of zones of each of these nodes."""
        return self.plan.columns.zones

    def at(self, some: Rows) -> "ColumnState":
        """Return the same for some of these rows, by their position among them."""
        return ColumnState(self.plan, self.when, some if self.rows is None else self.rows[some])

    # What differs by kind of layout.

    @cached_property
    def layouts(self) -> Ints:
        """The number of each row's layout."""
        return self.plan.columns.layout_of(self.rows)

    @cached_property
    def kinds(self) -> Ints:
        """The kind of each row's layout."""
        return self.plan.kinds.of_rows(self.rows)

    def has(self, trait: Trait) -> Bools:
        """Return which rows have a trait."""
        return self.plan.kinds.with_trait(trait, self.rows)

    def gives(self, name: str) -> Bools:
        """Return on which rows managers allocate a resource."""
        return self.plan.kinds.giving(name, self.rows)

    def flags(self, values: Sequence[bool]) -> Bools:
        """Return by row a value given by kind."""
        if all(values) or not any(values):
            return np.full(self.count, values[0], dtype=np.bool_)
        flags: Bools = np.array(values).take(self.kinds)
        return flags

    def alike(self, fact: Callable[[Layout], T]) -> Iterator[tuple[T, Rows | None]]:
        """Yield each value of a fact of layouts, and the rows with it, None for all."""
        values: dict[T, list[int]] = {}
        for number, layout in enumerate(self.plan.columns.layouts):
            if layout is not None:
                values.setdefault(fact(layout), []).append(number)
        if len(values) == 1:
            yield next(iter(values)), None
            return
        of_layout = np.zeros(len(self.plan.columns.layouts), dtype=np.int16)
        for at, numbers in enumerate(values.values()):
            of_layout[numbers] = at
        of_row = of_layout[self.layouts]
        for at, value in enumerate(values):
            rows = np.flatnonzero(of_row == at)
            if len(rows):
                yield value, rows

    # Amounts.

    def free(self, name: str) -> Ints:
        """Return what each zone may allocate of a resource: (zones, rows)."""
        if not self.plan.columns.has(name):
            return np.zeros((self.zones, self.count), dtype=np.int64)
        free: Ints = self.plan.columns.free(self.when, (name,), self.rows)[0]
        return free

    def raw(self, name: str) -> Ints:
        """Return what each zone has free of a resource, in its unit; CPUs may be fractions."""
        return self.plan.columns.of(self.when, RAW, self.rows) if name == CPU else self.free(name)

    def needs(self, request: StepRequest) -> Ints:
        """Return how much of each resource of a request counts on each row: (names, rows), or (names, 1)."""
        amounts = np.array(request.amounts, dtype=np.int64)[:, None]
        return amounts if request.everywhere else (amounts * request.given).take(self.kinds, axis=1)

    def enough(self, request: StepRequest, width: int) -> Bools:
        """Return which sets of `width` zones have all of a request: (sets, rows), by their numbers."""
        columns, needs = self.plan.columns, self.needs(request)
        if all(map(columns.has, request.names)):
            return self._enough(request.names, needs, width)
        listed = [at for at, name in enumerate(request.names) if columns.has(name)]
        enough = self._enough([request.names[at] for at in listed], needs[listed], width)
        # A resource that no zone lists does not exist.
        unlisted = np.delete(needs, listed, axis=0)
        enough &= np.logical_and.reduce(unlisted == 0)
        return enough

    def _enough(self, names: Sequence[str], needs: Ints, width: int) -> Bools:
        """Return the same for resources that some node lists."""
        if 1 < width < self.zones and self.count >= _FEW:
            return self._enough_by_sums(names, needs, width)
        own: NDArray[Any] = self.plan.columns.free(self.when, names, self.rows)
        if width == self.zones:
            own = np.add.reduce(own, axis=1, keepdims=True)
        elif width > 1:
            own = zone_sets.members(self.zones, width) @ own.astype(np.float64)
        enough: Bools = np.logical_and.reduce(own >= needs[:, None])
        return enough

    def _enough_by_sums(self, names: Sequence[str], needs: Ints, width: int) -> Bools:
        enough: Bools = np.ones((len(zone_sets.of_width(self.zones, width)), self.count), dtype=np.bool_)
        for name, need in zip(names, needs, strict=True):
            sums = self.plan.columns.sums(self.when, name, width, self.rows)
            # Comparing numbers of one width takes half the time, and no node has more than they hold.
            enough &= sums >= np.minimum(need, np.iinfo(sums.dtype).max).astype(sums.dtype)
        return enough

    # The memory manager's groups.

    def closed(self, width: int) -> Bools | None:
        """Return which sets of `width` zones the memory manager's groups close; None if none are.

        The shape is (sets, rows).
        """
        used = self._any_bits(USED)
        if used is None:
            return None
        order, grouped = zone_sets.of_width(self.zones, width)[:, None], self._any_bits(GROUPED)
        if width == 1:
            return None if grouped is None else (order & grouped) != 0
        closed: Bools = (order & used) != 0
        if grouped is not None:
            rows = np.flatnonzero(grouped)
            closed[:, rows] = _breaks_a_group(self.at(rows), used[rows], order)
        return closed

    def _any_bits(self, feature: str) -> Ints | None:
        """Return zones as bits by row; None if there are none anywhere, as on empty nodes."""
        if self.when is When.EMPTY:
            return None
        zones = self.plan.columns.of(When.NOW, feature, self.rows)[0]
        return zones if zones.any() else None

    def memory_used(self) -> Bools:
        """Return whether memory of any zone is allocated, by row."""
        used = self._any_bits(USED)
        return np.zeros(self.count, dtype=np.bool_) if used is None else used != 0


def _breaks_a_group(state: ColumnState, used: Ints, order: Ints) -> Bools:
    """Return whether a set has a zone with a block that serves another set: (sets, rows)."""
    groups = state.plan.columns.of(When.NOW, GROUPS, state.rows)
    broken = np.zeros((len(order), state.count), dtype=np.bool_)
    for zone in range(state.zones):
        bit = np.int64(1 << zone)
        broken |= (order & bit != 0) & (used & bit != 0) & (groups[zone] != order)
    return broken
