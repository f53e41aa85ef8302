"""Summaries of several replays, each of the same pods and nodes in another order."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from typing import TypeVar

from numalign.simulation.replay import Sample

SampleT = TypeVar("SampleT", bound=Sample)

STEP = 5
"""Per cent between two points of a curve."""


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
