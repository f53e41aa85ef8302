"""
What changed since the last read, so that results are updated and not computed again.

Changed rows are noted in a log. Each reader remembers how far it has read; what it missed is stale, and
computed again when it is needed. A log that grew too long is restarted, and then everything is stale.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numalign.cache.arrays import Bools, Rows
from numalign.model.steps import Steps

_LONGEST = 4096


class ChangeLog:
    """The rows that changed, in order; a `place` in them is where a reader stopped."""

    def __init__(self) -> None:
        self._log: list[int] = []
        self._era = 0

    @property
    def place(self) -> tuple[int, int]:
        """The end of the log."""
        return self._era, len(self._log)

    def note(self, row: int) -> None:
        """Note that a row has changed."""
        if len(self._log) == _LONGEST:
            self._log.clear()
            self._era += 1
        self._log.append(row)

    def since(self, place: tuple[int, int], *, below: int) -> Rows | None:
        """Return the rows that changed since then, each once, below a number; None for all."""
        era, at = place
        if era != self._era:
            return None
        rows = np.array(sorted({*self._log[at:]}), dtype=np.intp)
        return rows if not len(rows) or rows[-1] < below else rows[rows < below]


Compute = Callable[[Rows | None], NDArray[Any]]
"""Computes an array whose last axis is the rows: these, each once, or all."""

Computing = Callable[[Rows | None], Steps[NDArray[Any]]]
"""The same step by step."""


class TrackedArray:
    """An array whose last axis is the rows. Results include all changes of the requested rows."""

    def __init__(self, changes: ChangeLog, empty: NDArray[Any]) -> None:
        self._changes = changes
        self._place = changes.place
        self._array = empty
        self._stale: Bools = np.ones(0, dtype=np.bool_)

    def current(self, count: int, compute: Compute) -> NDArray[Any]:
        """Return the array of `count` rows; only stale rows are computed."""
        self._follow(count)
        stale = self._stale[:count]
        if stale.any():
            # For all rows columns are read in place, which is faster than selecting rows.
            rows = None if 2 * np.count_nonzero(stale) > count else np.flatnonzero(stale)
            self._take(rows, compute(rows))
        return self._array[..., :count]

    def at(self, rows: Rows, count: int, compute: Compute) -> NDArray[Any]:
        """Return the same for some of the rows, in their order; others are not computed."""
        self._follow(count)
        stale = self._stale[rows]
        if stale.any():
            if 2 * len(rows) > count:
                self.current(count, compute)
            else:
                missing = np.unique(rows[stale])
                self._take(missing, compute(missing))
        return self._array.take(rows, axis=-1)

    def catching_up(self, rows: Rows | None, count: int, computing: Computing) -> Iterator[None]:
        """Compute stale rows of these, or of all, step by step; later changes stay stale."""
        self._follow(count)
        missing = self._missing(rows, count)
        if missing is not None and not len(missing):
            return
        place = self._changes.place
        found = yield from computing(missing)
        height = found.shape[-1] if missing is None else count
        changed = self._changes.since(place, below=height)
        if changed is None:
            return
        self._follow(height)
        done = np.arange(height) if missing is None else missing
        # A reader that could not wait may have computed it meanwhile, with newer data.
        wanted = self._stale[done] & ~np.isin(done, changed)
        self._take(done[wanted], found[..., wanted])

    def _missing(self, rows: Rows | None, count: int) -> Rows | None:
        """Return the stale rows of these, or of all; None if that is nearly all."""
        stale = self._stale[:count] if rows is None else self._stale[rows]
        if 2 * np.count_nonzero(stale) > count:
            return None
        return np.flatnonzero(stale) if rows is None else np.unique(rows[stale])

    def _take(self, rows: Rows | None, found: NDArray[Any]) -> None:
        if rows is None:
            self._array = found
            self._stale = np.zeros(found.shape[-1], dtype=np.bool_)
        else:
            self._array[..., rows] = found
            self._stale[rows] = False

    def _follow(self, count: int) -> None:
        """Mark changed rows as stale, and make room for `count` rows."""
        if count > self._array.shape[-1]:
            self._widen(count)
        place = self._changes.place
        if place != self._place:
            rows = self._changes.since(self._place, below=len(self._stale))
            self._stale[slice(None) if rows is None else rows] = True
            self._place = place

    def _widen(self, count: int) -> None:
        old, more = self._array, count + count // 2
        self._array = np.zeros((*old.shape[:-1], more), dtype=old.dtype)
        self._array[..., : old.shape[-1]] = old
        self._stale = np.concatenate([self._stale, np.ones(more - len(self._stale), dtype=np.bool_)])
