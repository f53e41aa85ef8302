"""Durations of repeated calls, quantiles of them, and those of Prometheus histograms."""

import gc
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

MILLI = 1000
SHARES: Mapping[str, float] = {"p50": 0.50, "p99": 0.99, "max": 1.0}


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of all does not exceed; 0 if there are none."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1] if ordered else 0


def millis(seconds: Sequence[float]) -> dict[str, float]:
    """Return the quantiles `SHARES` of durations, in milliseconds."""
    return {key: quantile(seconds, share) * MILLI for key, share in SHARES.items()}


def timed(
    do: Callable[[T], R],
    over: Iterable[T],
    *,
    budget: float = math.inf,
    clock: Callable[[], float] = time.process_time,
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
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observations by the upper bound of their bucket, in seconds."""

    counts: Mapping[float, float] = field(default_factory=dict)

    @classmethod
    def of(cls, metric: str, page: str) -> "Histogram":
        """Return the sum of all series of a metric on a page of metrics."""
        totals: dict[float, float] = {}
        series = rf'^{metric}_bucket\{{(?:.*,)?le="([^"]+)"[^}}]*\}} (\S+)$'
        for bound, count in re.findall(series, page, re.MULTILINE):
            totals[float(bound)] = totals.get(float(bound), 0.0) + float(count)
        below, counts = 0.0, {}
        for bound in sorted(totals):
            counts[bound], below = totals[bound] - below, totals[bound]
        return cls(counts)

    def since(self, earlier: "Histogram") -> "Histogram":
        """Return the observations since an earlier histogram."""
        return Histogram({at: count - earlier.counts.get(at, 0) for at, count in self.counts.items()})

    def quantile(self, share: float) -> float:
        """Return a quantile, interpolated linearly in its bucket, like `histogram_quantile` of Prometheus."""
        rank, below, lower = share * sum(self.counts.values()), 0.0, 0.0
        for bound, count in self.counts.items():
            if count and below + count >= rank:
                return lower if math.isinf(bound) else lower + (bound - lower) * (rank - below) / count
            below, lower = below + count, bound
        return 0.0

    def millis(self) -> dict[str, float]:
        """Return the quantiles `SHARES`, in milliseconds; the largest is the bound of the last bucket."""
        return {key: self.quantile(share) * MILLI for key, share in SHARES.items()}
