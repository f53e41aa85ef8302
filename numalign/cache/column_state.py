"""
What nodes have free at one moment of a pod's admission, in columns.

It begins with what is free, now or on empty nodes, and is charged container by container as the kubelet's
managers are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.change_log import Compute, TrackedArray
from numalign.cache.columns import (
    GROUPED,
    GROUPS,
    RAW,
    USED,
    Columns,
    Feature,
    FreeOrEmpty,
    When,
    dtype,
    sums_of,
)
from numalign.cache.plan import StepRequest
from numalign.model.resources import CPU, MILLI

_T = TypeVar("_T", np.bool_, np.int8)

ResourceAmounts = tuple[tuple[str, int], ...]
"""How much of which resource."""


class Ever:
    """What a question comes to on the nodes of some columns whatever is free, kept as long as they stay."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._kept: dict[object, TrackedArray] = {}

    def of(self, key: object, compute: Compute) -> NDArray[Any]:
        """An array over all rows, which equal keys say the same of."""
        if key not in self._kept:
            self._kept[key] = TrackedArray(self._columns.facts, np.zeros(0))
        return self._kept[key].current(self._columns.count, compute)


@dataclass(frozen=True, slots=True)
class ColumnState:
    """What these rows may give, all rows if `rows` is None.

    `kept` is what was worked out before for the question, if anybody keeps it. `allocated` is what earlier
    containers of the pod were given of each resource, (zones, rows) in the unit of the columns; `own_memory`
    the zones, as bits by row, that their memory lies on.
    """

    columns: Columns
    when: FreeOrEmpty
    rows: Rows | None = None
    kept: Ever | None = None
    allocated: Mapping[str, Ints] = field(default_factory=dict)
    own_memory: Ints | None = None

    @property
    def count(self) -> int:
        """How many rows these are."""
        return self.columns.count if self.rows is None else len(self.rows)

    def at(self, some: Rows) -> "ColumnState":
        """The same of some of these rows, by their place among them."""
        return replace(
            self,
            rows=some if self.rows is None else self.rows[some],
            allocated={name: amounts[:, some] for name, amounts in self.allocated.items()},
            own_memory=None if self.own_memory is None else self.own_memory[some],
        )

    def ever(self, key: object, compute: Callable[["ColumnState"], NDArray[_T]]) -> NDArray[_T]:
        """By row what depends on no free amount; equal keys say the same."""
        if self.kept is None:
            return compute(self)
        every: NDArray[_T] = self.kept.of(
            key, lambda rows: compute(ColumnState(self.columns, self.when, rows))
        )
        return every if self.rows is None else every.take(self.rows)

    def amounts(self, name: str) -> Ints:
        """What each zone may give of a resource: (zones, rows)."""
        feature = self.when, name
        if not self.columns.has(feature):
            return np.zeros((self.columns.layout.count, self.count), dtype=np.int64)
        free = self.columns.of(feature, self.rows)
        return free - self.allocated[name] if name in self.allocated else free

    def raw(self, name: str) -> Ints:
        """What each zone has free of a resource, in the unit of its name: of CPUs that may be a fraction."""
        if name != CPU:
            return self.amounts(name)
        free = self.columns.of((RAW + self.when, CPU), self.rows)
        return free - MILLI * self.allocated[CPU] if CPU in self.allocated else free

    def enough(self, amounts: ResourceAmounts, width: int) -> Bools:
        """Which sets of so many zones have so much of everything: (sets, rows), in the layout's order."""
        if self.rows is None:
            parts = (self.sums(name, width) >= amount for name, amount in amounts)
            sets: Bools = reduce(lambda one, other: np.logical_and(one, other, out=one), parts)
            return sets
        # In the order of the columns, so that they are read in one piece.
        names, needs = zip(*sorted(amounts), strict=True)
        own, layout = self._several(names), self.columns.layout
        sums = own if width == 1 and layout.in_order else layout.members(width) @ own.astype(np.float64)
        enough = sums >= np.array(needs, dtype=sums.dtype)[:, None, None]
        return np.asarray(enough.all(axis=0))

    def _several(self, names: tuple[str, ...]) -> Ints:
        """What each zone may give of several resources: (resources, zones, rows)."""
        if self.allocated or not all(self.columns.has((self.when, name)) for name in names):
            return np.stack([self.amounts(name) for name in names])
        own = self.columns.block(self.when, names, self.rows)
        return own.reshape(len(names), self.columns.layout.count, self.count)

    def sums(self, name: str, width: int) -> Ints:
        """What each set of so many zones may give of a resource, by set in the layout's order."""
        layout = self.columns.layout
        if width == 1 and layout.in_order:
            return self.amounts(name)
        if self.rows is None and name not in self.allocated and self.columns.has((self.when, name)):
            return self.columns.sums(self.when, name, width)
        return sums_of(layout, self.amounts(name), width, dtype(name))

    def closed(self, width: int) -> Bools | None:
        """Which sets of so many zones the memory manager's groups close, (sets, rows); None if none are."""
        used = self._memory_used()
        if used is None:
            return None
        order = np.array(self.columns.layout.of_width(width))[:, None]
        grouped = self._any_bits(GROUPED)
        if width == 1:
            return None if grouped is None else (order & grouped) != 0
        closed: Bools = (order & used) != 0
        if grouped is not None:
            rows = np.flatnonzero(grouped)
            closed[:, rows] = _breaks_a_group(self.at(rows), used[rows], order)
        return closed

    def _any_bits(self, feature: Feature) -> Ints | None:
        """Zones as bits by row; None if there are none anywhere, as on empty nodes."""
        zones = self.columns.of(feature, self.rows)[0] if self.when is When.NOW else None
        return zones if zones is not None and zones.any() else None

    def _memory_used(self) -> Ints | None:
        """The zones that memory is given out of, as bits by row; None if there are none anywhere."""
        used, own = self._any_bits(USED), self.own_memory
        if own is None or used is None:
            return used if own is None or not own.any() else own
        return used | own

    def memory_group(self, zone: int) -> Ints:
        """The set that a zone's memory serves, as bits by row."""
        group: Ints = self.columns.of(GROUPS, self.rows)[zone]
        bit = np.int64(1 << zone)
        return group if self.own_memory is None else np.where(self.own_memory & bit, bit, group)

    def memory_used(self) -> Bools:
        """Whether memory of any zone is given out, by row."""
        used = self._memory_used()
        return np.zeros(self.count, dtype=np.bool_) if used is None else used != 0

    def charged(self, request: StepRequest, mask: Ints) -> "ColumnState":
        """After a container whose share comes from a single zone on each row; from none where `mask` is 0."""
        zones = (mask >> np.arange(self.columns.layout.count)[:, None]) & 1
        allocated = dict(self.allocated)
        for name, amount in request.amounts:
            allocated[name] = allocated.get(name, 0) + zones * amount
        if not request.memory:
            return replace(self, allocated=allocated)
        own_memory = mask if self.own_memory is None else self.own_memory | mask
        return replace(self, allocated=allocated, own_memory=own_memory)


def _breaks_a_group(state: ColumnState, used: Ints, order: Ints) -> Bools:
    """Whether a set holds a zone with a block that serves another set: (sets, rows)."""
    broken = np.zeros((len(order), state.count), dtype=np.bool_)
    for zone in range(state.columns.layout.count):
        bit = np.int64(1 << zone)
        broken |= (order & bit != 0) & (used & bit != 0) & (state.memory_group(zone) != order)
    return broken
