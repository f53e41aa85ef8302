"""Durations of repeated calls in the process that measures."""

import gc
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from tools.bench.figures import MILLI, quantile

T = TypeVar("T")
R = TypeVar("R")

DIGITS = 4
"""Decimal places of a figure in milliseconds."""


@dataclass(frozen=True, slots=True)
class Times:
    """A summary of durations, in seconds."""

    median: float
    best: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Times":
        """Return their median and the shortest; 0 if there are none."""
        return cls(quantile(seconds, 0.5), min(seconds, default=0))

    def millis(self) -> dict[str, float]:
        """Return the same in milliseconds, for a file."""
        return {"median": round(self.median * MILLI, DIGITS), "best": round(self.best * MILLI, DIGITS)}


def timed(
    do: Callable[[T], R],
    over: Iterable[T],
    *,
    budget: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[list[R], list[float]]:
    """Return the result of each call and its duration in seconds; start none once the budget is spent."""
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
    """Disable the garbage collector, like `timeit`, so that no measured call pays for earlier garbage."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
