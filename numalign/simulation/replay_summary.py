"""Summaries and charts of several replays, each of the same pods and nodes in another order."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, fields
from types import MappingProxyType
from typing import TypeVar

from numalign.curves import COLOURS, Axis, Chart, Line, svg
from numalign.simulation.replay import Sample

SampleT = TypeVar("SampleT", bound=Sample)

STEP = 5
"""Per cent between two points of a curve."""

CHARTED: Mapping[str, str] = MappingProxyType(
    {"allocated": "GPUs allocated", "fragments": "Fragments", "stranded": "Stranded by zones"}
)
"""The figures that are charted, with their titles."""

_TICKS = 10
"""Per cent between ticks."""


def mean_of(samples: Iterable[SampleT]) -> SampleT:
    """Return the mean of each figure; there must be at least one sample."""
    listed = list(samples)
    rows = [astuple(sample) for sample in listed]
    return type(listed[0])(*(sum(column) / len(rows) for column in zip(*rows, strict=True)))


def mean_curve(replays: Sequence[Sequence[SampleT]]) -> list[SampleT]:
    """Return the mean of replays: at every fifth per cent that arrived, that of their latest samples."""
    shares = range(STEP, round(max(samples[-1].arrived for samples in replays)) + 1, STEP)
    grids = [[sample.arrived for sample in samples] for samples in replays]
    return [
        mean_of(
            samples[max(bisect_right(grid, arrived) - 1, 0)]
            for samples, grid in zip(replays, grids, strict=True)
        )
        for arrived in shares
    ]


def to_document(sample: Sample) -> dict[str, float]:
    """Return a sample for a file: per cent, rounded to three decimal places."""
    return {column.name: round(getattr(sample, column.name), 3) for column in fields(sample)}


def replay_charts(curves: Mapping[str, Sequence[Sample]], of_what: str) -> dict[str, str]:
    """Return a chart as SVG for each figure that is not always 0; `curves` are by what is compared."""
    last = max((samples[-1].arrived for samples in curves.values()), default=0)
    across = Axis("asked for, % of all GPUs", logarithmic=False, ticks=range(0, round(last) + _TICKS, _TICKS))
    up, charts = Axis("%", logarithmic=False), dict[str, str]()
    for figure, title in CHARTED.items():
        points = {
            name: [(sample.arrived, getattr(sample, figure)) for sample in samples]
            for name, samples in curves.items()
        }
        if any(amount > 0 for line in points.values() for _, amount in line):
            # Lines are dashed once the colours are used up.
            lines = [
                Line(name, line, number, dashed=number >= len(COLOURS))
                for number, (name, line) in enumerate(points.items())
            ]
            charts[figure] = svg(Chart(f"{title}, {of_what}", across, up, lines))
    return charts
