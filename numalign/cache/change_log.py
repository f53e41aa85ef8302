"""
What changed since somebody looked, so that what was worked out is patched and not worked out anew.

Rows that change are noted in a log. Whoever keeps something by row remembers how far it has read; what it
missed is stale, and worked out again when somebody asks for it. A log that grew longer than it is worth
begins anew, and then all is stale.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numalign.cache.arrays import Bools, Rows
from numalign.model.steps import Steps

_LONGEST = 4096


class ChangeLog:
    """The rows that changed, in order; a `place` in them is where somebody stopped reading."""

    def __init__(self) -> None:
        self._log: list[int] = []
        self._era = 0

    @property
    def place(self) -> tuple[int, int]:
        """The end of what is noted so far."""
        return self._era, len(self._log)

    def note(self, row: int) -> None:
        """A row is not what it was."""
        if len(self._log) == _LONGEST:
            self._log.clear()
            self._era += 1
        self._log.append(row)

    def since(self, place: tuple[int, int], *, below: int) -> Rows | None:
        """Return the rows that changed since then, each once, of those below a number; None for all."""
        era, at = place
        if era != self._era:
            return None
        rows = np.array(sorted({*self._log[at:]}), dtype=np.intp)
        return rows if not len(rows) or rows[-1] < below else rows[rows < below]


Compute = Callable[[Rows | None], NDArray[Any]]
"""Works out an array whose last axis is the rows: these, each once, or all."""

Computing = Callable[[Rows | None], Steps[NDArray[Any]]]
"""The same step by step."""


class TrackedArray:
    """An array whose last axis is the rows. What is asked for is up to date with changes of them."""

    def __init__(self, changes: ChangeLog, empty: NDArray[Any]) -> None:
        self._changes = changes
        self._place = changes.place
        self._array = empty
        self._stale: Bools = np.ones(0, dtype=np.bool_)

    @property
    def bytes(self) -> int:
        """What the array takes in memory."""
        return self._array.nbytes + self._stale.nbytes

    def current(self, count: int, compute: Compute) -> NDArray[Any]:
        """Return the array of so many rows; only what is stale is worked out."""
        self._follow(count)
        stale = self._stale[:count]
        if stale.any():
            # Of all rows columns are read as they stand, which is faster than to pick them out.
            rows = None if 2 * np.count_nonzero(stale) > count else np.flatnonzero(stale)
            self._take(rows, compute(rows))
        return self._array[..., :count]

    def at(self, rows: Rows, count: int, compute: Compute) -> NDArray[Any]:
        """Return the same of some of so many rows, in their order; of others nothing is worked out."""
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
        """Work out step by step what is stale of these rows, or of all; what changes meanwhile stays so."""
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
        # Somebody who could not wait may have done it meanwhile, and knows better.
        wanted = self._stale[done] & ~np.isin(done, changed)
        self._take(done[wanted], found[..., wanted])

    def _missing(self, rows: Rows | None, count: int) -> Rows | None:
        """Return what is stale of these rows or of all; None if that is about all there is."""
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
        """Mark what changed, and make room for so many rows."""
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
