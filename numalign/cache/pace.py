"""
Answers that take long, computed in steps.

An answer is computed by plain functions, all of it at one moment, so that it is true of one state of the
cluster. Those of its parts that may take long (thousands of rows, a verdict about many containers) are
generators, which store their results. While an answer is computed in steps, a part that takes too long
interrupts it: the part is finished with other tasks in between, and then the answer is computed again from
the start, with what is stored by then. So what an answer becomes because the cluster has changed meanwhile is
decided here alone: it is that of the last start. A part interrupts it a few times at most, so every answer
ends, however fast the cluster changes.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import TypeVar

from numalign.model.steps import Steps

T = TypeVar("T")

_PAUSES = 2
"""How often one part interrupts an answer: at the second time it does only what has changed since the first.

A cluster may change all the time, and an answer has to end.
"""


class _Interrupted(Exception):
    """Ends the computation of an answer until the `rest` of a part is done."""

    def __init__(self, rest: Iterator[None]) -> None:
        super().__init__()
        self.rest = rest


class Pace:
    """How the answers of one cache are computed: at once, or in steps. Used by one thread.

    `again` is whether an answer is being computed again after an interruption.
    """

    def __init__(self) -> None:
        self.again = False
        self._over: Callable[[], bool] | None = None
        self._used: dict[int, object] = {}
        self._pauses = Counter[Hashable]()

    def use(self, value: object) -> None:
        """Keep a value that an answer is computed from until the answer is there, restarts included."""
        self._used[id(value)] = value

    def do(self, key: Hashable, part: Iterator[None]) -> None:
        """Do a part of an answer that stores its result; equal keys are for the same part, done again."""
        for _ in part:
            if self._over and self._pauses[key] < _PAUSES and self._over():
                self._pauses[key] += 1
                raise _Interrupted(part)

    def in_steps(self, answer: Callable[[], T], over: Callable[[], bool] = lambda: True) -> Steps[T]:
        """Compute an answer in steps, and return it; a part of it may go on until its time is `over`."""
        used, pauses = dict[int, object](), Counter[Hashable]()
        while True:
            self._over, self.again, self._used, self._pauses = over, bool(pauses), used, pauses
            try:
                return answer()
            except _Interrupted as interrupted:
                rest = interrupted.rest
            finally:
                self._over, self.again, self._used, self._pauses = None, False, {}, Counter()
            yield
            yield from rest
