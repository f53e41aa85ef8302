"""
What changed since somebody looked, so that what was worked out is patched and not worked out anew.

Rows that change are noted in a log. Whoever keeps something by row remembers how far it has read; what it
missed are the rows to do again. A log that grew longer than it is worth begins anew, and then all is.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numalign.cache.arrays import Rows
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
        """The rows that changed since then, each once, of those below a number; None for all."""
        era, at = place
        if era != self._era:
            return None
        rows = np.array(sorted({*self._log[at:]}), dtype=np.intp)
        return rows if not len(rows) or rows[-1] < below else rows[rows < below]


Compute = Callable[[Rows | None], NDArray[Any]]
"""Works out an array whose last axis is the rows: these, or all."""

Computing = Callable[[Rows | None], Steps[NDArray[Any]]]
"""The same step by step."""


class TrackedArray:
    """An array whose last axis is the rows, kept up to date with changes of them."""

    def __init__(self, changes: ChangeLog, empty: NDArray[Any]) -> None:
        self._changes = changes
        self._place = (-1, 0)
        self._array = empty
        self._count = 0

    @property
    def bytes(self) -> int:
        """What the array takes in memory."""
        return self._array.nbytes

    def current(self, count: int, compute: Compute) -> NDArray[Any]:
        """The array of so many rows; only what changed is worked out, if little did."""
        place = self._changes.place
        if place != self._place or count != self._count:
            rows = self._behind(count)
            if rows is None:
                self._array = compute(None)
            elif len(rows):
                self._array[..., rows] = compute(rows)
            self._place, self._count = place, count
        return self._array[..., :count]

    def catching_up(self, count: int, computing: Computing) -> Iterator[None]:
        """Work out what changed until now, step by step; whatever changes meanwhile is left for later."""
        before, place = self._place, self._changes.place
        rows = self._behind(count)
        if rows is not None and not len(rows):
            return
        found = yield from computing(rows)
        # Somebody who could not wait may have done it meanwhile, and knows better.
        if self._place != before:
            return
        if rows is None:
            self._array = found
        else:
            self._array[..., rows] = found
        self._place, self._count = place, count

    def _behind(self, count: int) -> Rows | None:
        """The rows to be worked out, for which there is room; None for all."""
        rows = self._changes.since(self._place, below=count)
        if rows is None or 2 * len(rows) > count:
            return None
        if count > self._array.shape[-1]:
            self._widen(count)
        return rows

    def _widen(self, count: int) -> None:
        old = self._array
        wider = np.zeros((*old.shape[:-1], count + count // 2), dtype=old.dtype)
        wider[..., : old.shape[-1]] = old
        self._array = wider
