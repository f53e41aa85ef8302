"""
What nodes have left at one moment of a pod's admission, in columns.

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
from numalign.cache.columns import BUSY, CELLS, GROUPED, RAW, Columns, FreeOrEmpty, When, dtype, sums_of
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

    `kept` is what was found out before about the question that is asked, if anybody keeps it. `taken` is what
    earlier containers of the pod were given of each resource, (zones, rows) in the unit of the columns;
    `bound` the zones, as bits, on which their memory lies.
    """

    columns: Columns
    when: FreeOrEmpty
    rows: Rows | None = None
    kept: Ever | None = None
    taken: Mapping[str, Ints] = field(default_factory=dict)
    bound: Ints | None = None

    @property
    def count(self) -> int:
        """How many rows these are."""
        return self.columns.count if self.rows is None else len(self.rows)

    def at(self, some: Rows) -> "ColumnState":
        """The same of some of these rows, by their place among them."""
        return replace(
            self,
            rows=some if self.rows is None else self.rows[some],
            taken={name: taken[:, some] for name, taken in self.taken.items()},
            bound=None if self.bound is None else self.bound[some],
        )

    def ever(self, key: object, compute: Callable[["ColumnState"], NDArray[_T]]) -> NDArray[_T]:
        """By row what depends on no free amount; equal keys say the same."""
        if self.kept is None:
            return compute(self)
        whole: NDArray[_T] = self.kept.of(
            key, lambda rows: compute(ColumnState(self.columns, self.when, rows))
        )
        return whole if self.rows is None else whole.take(self.rows)

    def amounts(self, name: str) -> Ints:
        """What each zone may give of a resource: (zones, rows)."""
        return self._less((self.when, name), name)

    def raw(self, name: str) -> Ints:
        """What each zone has free of a resource, in the unit of its name: of CPUs that may be a fraction."""
        if name != CPU:
            return self.amounts(name)
        free = self.columns.of((RAW + self.when, CPU), self.rows)
        return free - MILLI * self.taken[CPU] if CPU in self.taken else free

    def _less(self, feature: tuple[str, str], name: str) -> Ints:
        if not self.columns.tells(feature):
            return np.zeros((self.columns.layout.count, self.count), dtype=np.int64)
        free = self.columns.of(feature, self.rows)
        return free - self.taken[name] if name in self.taken else free

    def enough(self, amounts: ResourceAmounts, width: int) -> Bools:
        """Which sets of so many zones have so much of everything: (sets, rows), in the layout's order."""
        if self.rows is None:
            parts = (self.sums(name, width) >= amount for name, amount in amounts)
            found: Bools = reduce(lambda one, other: np.logical_and(one, other, out=one), parts)
            return found
        # In the order of the columns, so that they are read in one piece.
        names, needs = zip(*sorted(amounts), strict=True)
        own, layout = self._several(names), self.columns.layout
        sums = own if width == 1 and layout.in_order else layout.members(width) @ own.astype(np.float64)
        enough = sums >= np.array(needs, dtype=sums.dtype)[:, None, None]
        return np.asarray(enough.all(axis=0))

    def _several(self, names: tuple[str, ...]) -> Ints:
        """What each zone may give of several resources: (resources, zones, rows)."""
        told = all(self.columns.tells((self.when, name)) for name in names)
        if self.taken or not told:
            return np.stack([self.amounts(name) for name in names])
        own = self.columns.block(self.when, names, self.rows)
        return own.reshape(len(names), self.columns.layout.count, self.count)

    def sums(self, name: str, width: int) -> Ints:
        """What each set of so many zones may give of a resource, by set in the layout's order."""
        layout = self.columns.layout
        if width == 1 and layout.in_order:
            return self.amounts(name)
        if self.rows is None and name not in self.taken and self.columns.tells((self.when, name)):
            return self.columns.sums(self.when, name, width)
        return sums_of(layout, self.amounts(name), width, dtype(name))

    def shut(self, width: int) -> Bools | None:
        """Which sets of so many zones the memory manager's groups close, (sets, rows); None if none are."""
        busy = self._busy()
        if busy is None:
            return None
        order = np.array(self.columns.layout.of_width(width))[:, None]
        grouped = self._grouped()
        if width == 1:
            return None if grouped is None else (order & grouped) != 0
        shut: Bools = (order & busy) != 0
        if grouped is not None:
            rows = np.flatnonzero(grouped)
            shut[:, rows] = _breaks_a_group(self.at(rows), busy[rows], order)
        return shut

    def _grouped(self) -> Ints | None:
        """The zones whose memory serves others as well, as bits; None if there are none anywhere."""
        grouped = self.columns.of(GROUPED, self.rows)[0] if self.when is When.NOW else None
        return grouped if grouped is not None and grouped.any() else None

    def _busy(self) -> Ints | None:
        """The zones that memory is given out of, as bits; None if there are none anywhere."""
        busy = self.columns.of(BUSY, self.rows)[0] if self.when is When.NOW else None
        if self.bound is not None:
            busy = self.bound if busy is None else busy | self.bound
        return busy if busy is not None and busy.any() else None

    def serves(self, zone: int) -> Ints:
        """The set that a zone's memory serves, as bits."""
        cells: Ints = self.columns.of(CELLS, self.rows)[zone]
        own = np.int64(1 << zone)
        return cells if self.bound is None else np.where(self.bound & own, own, cells)

    def busy(self) -> Bools:
        """Whether memory of any zone is given out."""
        busy = self._busy()
        return np.zeros(self.count, dtype=np.bool_) if busy is None else busy != 0

    def charged(self, asked: StepRequest, mask: Ints) -> "ColumnState":
        """After a container whose share comes from a single zone on each row; from none where `mask` is 0."""
        zones = np.arange(self.columns.layout.count)[:, None]
        chosen = (mask >> zones) & 1
        taken = dict(self.taken)
        for name, amount in asked.amounts:
            taken[name] = taken.get(name, 0) + chosen * amount
        if not asked.memory:
            return replace(self, taken=taken)
        return replace(self, taken=taken, bound=mask if self.bound is None else self.bound | mask)


def _breaks_a_group(state: ColumnState, busy: Ints, order: Ints) -> Bools:
    """Whether a set holds a zone with a block that serves another set: (sets, rows)."""
    broken = np.zeros((len(order), state.count), dtype=np.bool_)
    for zone in range(state.columns.layout.count):
        own = np.int64(1 << zone)
        broken |= (order & own != 0) & (busy & own != 0) & (state.serves(zone) != order)
    return broken
