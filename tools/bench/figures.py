"""Quantiles of measured values and of Prometheus histograms, and tables to print them."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

MILLI = 1000


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of all does not exceed; 0 if there are none."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1] if ordered else 0


@dataclass(frozen=True, slots=True)
class Spread:
    """A summary of durations, in seconds."""

    p50: float
    p99: float
    most: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Spread":
        """Return the spread of exact durations."""
        return cls(quantile(seconds, 0.50), quantile(seconds, 0.99), max(seconds, default=0))

    def millis(self) -> dict[str, float]:
        """Return the same in milliseconds, for a file."""
        return {"p50": self.p50 * MILLI, "p99": self.p99 * MILLI, "max": self.most * MILLI}


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observations by the upper bound of their bucket, in seconds."""

    counts: Mapping[float, float] = field(default_factory=dict)

    @classmethod
    def cumulative(cls, totals: Mapping[float, float]) -> "Histogram":
        """Return the histogram of an exposition, which has for each bound all observations up to it."""
        below, counts = 0.0, {}
        for bound in sorted(totals):
            counts[bound], below = totals[bound] - below, totals[bound]
        return cls(counts)

    def since(self, earlier: "Histogram") -> "Histogram":
        """Return the observations since an earlier histogram."""
        return Histogram(
            {bound: count - earlier.counts.get(bound, 0) for bound, count in self.counts.items()}
        )

    def plus(self, other: "Histogram") -> "Histogram":
        """Return the sum of both."""
        bounds = sorted({*self.counts, *other.counts})
        return Histogram({bound: self.counts.get(bound, 0) + other.counts.get(bound, 0) for bound in bounds})

    @property
    def observed(self) -> float:
        """The number of observations."""
        return sum(self.counts.values())

    def quantile(self, share: float) -> float:
        """Return a quantile, interpolated linearly in its bucket, like `histogram_quantile` of Prometheus."""
        rank, below, lower = share * self.observed, 0.0, 0.0
        for bound, count in self.counts.items():
            if count and below + count >= rank:
                return lower if math.isinf(bound) else lower + (bound - lower) * (rank - below) / count
            below, lower = below + count, bound
        return 0.0

    def share_within(self, bound: float) -> float:
        """Return the share of observations that do not exceed one of the bounds; exact."""
        return sum(count for each, count in self.counts.items() if each <= bound) / max(self.observed, 1)

    def spread(self) -> Spread:
        """Return interpolated quantiles; the largest value is the upper bound of the last bucket in use."""
        used = [bound for bound, count in self.counts.items() if count]
        return Spread(self.quantile(0.50), self.quantile(0.99), max(used, default=0))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with columns as wide as needed; the first is left-aligned, the others right-aligned."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of the same table in Markdown."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' + '---:|' * (len(head) - 1)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def ms(seconds: float) -> str:
    """Return a duration in milliseconds, with three decimal places below 10 ms and one above."""
    shown = seconds * MILLI
    return f"{shown:.3f}" if shown < 10 else f"{shown:.1f}"  # noqa: PLR2004 - digits before the point
