"""How long something takes that is done again and again, in the process that measures."""

import gc
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from bench.figures import MILLI, quantile

T = TypeVar("T")
R = TypeVar("R")

DIGITS = 4
"""Of a figure in milliseconds, after the point."""


@dataclass(frozen=True, slots=True)
class Times:
    """Several durations summed up, in seconds."""

    median: float
    best: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Times":
        """The median of them and the shortest; 0 for none."""
        return cls(quantile(seconds, 0.5), min(seconds, default=0))

    def millis(self) -> dict[str, float]:
        """The same in milliseconds, for a file."""
        return {"median": round(self.median * MILLI, DIGITS), "best": round(self.best * MILLI, DIGITS)}


def timed(
    do: Callable[[T], R],
    over: Iterable[T],
    *,
    budget: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[list[R], list[float]]:
    """What came of each call, and the seconds that it took; none is begun once the budget is spent."""
    results, seconds, spent = list[R](), list[float](), 0.0
    for each in over:
        if spent >= budget:
            break
        began = clock()
        results.append(do(each))
        seconds.append(clock() - began)
        spent += seconds[-1]
    return results, seconds


@contextmanager
def undisturbed() -> Iterator[None]:
    """As `timeit` does it, the garbage collector waits: who is measured does not pay for others' garbage."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
