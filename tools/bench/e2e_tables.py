"""
Results of the cells of a run: a table, the same in Markdown, and everything for a program.

A row is a column of the comparison at one delay. Figures that depend on the seed are shown for each seed; the
rest are means over all seeds.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from tools.bench.e2e_cells import AGENTS, COLUMNS, Cell, Column, Delay
from tools.bench.figures import table

Raw = dict[str, Any]

NONE = "-"
TO_RUN = 2
"""How many of the three pods in the small case have room."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A cell and its input: `delay` is that of its `Case`, `name` is the column of `COLUMNS`."""

    name: str
    delay: Delay
    seed: int
    cell: Cell

    @property
    def column(self) -> Column:
        """The programs that took part."""
        return COLUMNS[self.name]

    def __str__(self) -> str:
        """Return the result in a line, to show progress."""
        cell = self.cell
        until = f"all after {cell.seconds:.1f} s" if cell.seconds else f"never: {len(cell.waiting)}"
        return (
            f"{self.column.title}, {_source(self.delay)}, seed {self.seed}:"
            f" {cell.rejected} rejected, {cell.placed} of {cell.pods} placed, {until}"
        )

    def document(self) -> Raw:
        """Return the result for a program."""
        shown = asdict(self.cell) | {"writes_per_pod": round(self.cell.writes_per_pod, 2)}
        return {"run": self.name, "delay": self.delay, "seed": self.seed, **shown}


@dataclass(frozen=True, slots=True)
class Outcome:
    """All results and the numbers of the run; `small` is the case of two zones and three pods."""

    numbers: Mapping[str, Any]
    cells: list[Measured] = field(default_factory=list)
    small: list[Measured] = field(default_factory=list)

    def document(self) -> Raw:
        """Return all results for a program."""
        return {
            "numbers": dict(self.numbers),
            "cells": [each.document() for each in self.cells],
            "small": [each.document() for each in self.small],
            "aims": self.aims(),
        }

    def text(self) -> str:
        """Return the tables for a terminal."""
        parts = (f"{_source(delay)}\n{table(_HEAD, rows)}" for delay, rows in self._by_delay().items())
        aims = (f"target {'met' if met else 'MISSED'}: {aim}" for aim, met in self.aims().items())
        return "\n\n".join([*parts, *self._of_small(table), *_legend(), "\n".join(aims)])

    def markdown(self) -> str:
        """Return the tables for a page."""
        parts = (
            f"{_source(delay).capitalize()}:\n\n{_markdown(_HEAD, rows)}"
            for delay, rows in self._by_delay().items()
        )
        return "\n\n".join([*parts, *self._of_small(_markdown), *_legend(bullet="* ")]) + "\n"

    def aims(self) -> dict[str, bool]:
        """Return what the comparison should show, and whether it does, as far as it was measured."""
        bound = [each for each in self.cells if each.name == "bind"]
        second = [each for each in self.cells if each.name == "second"]
        gated = [each for each in self.cells if each.column.gates]
        alike = {(each.delay, each.seed): each.cell.placed for each in bound}
        placed = [each for each in self.cells if (each.delay, each.seed) in alike]
        aims = {
            "with bind, no kubelet rejects a pod": [not each.cell.rejected for each in bound],
            "with bind, no record is believed that is not what the kubelet gave": [
                not each.cell.believed and each.cell.recorded > 0 for each in bound
            ],
            "with bind, as many pods are placed as in any other run": [
                alike[each.delay, each.seed] >= each.cell.placed for each in placed
            ],
            "by the second scheduler, no kubelet rejects a pod": [not each.cell.rejected for each in second],
            "with gates, no kubelet rejects a pod whose node was chosen": [
                not each.cell.pinned for each in gated
            ],
            "of three pods for two zones, two run": [each.cell.placed == TO_RUN for each in self.small],
            "with bind, none of the three is rejected": [
                not each.cell.rejected for each in self.small if each.name == "bind"
            ],
        }
        return {aim: all(found) for aim, found in aims.items() if found}

    def _by_delay(self) -> dict[Delay, list[list[str]]]:
        delays = sorted(
            {each.delay for each in self.cells}, key=lambda delay: math.inf if delay == AGENTS else delay
        )
        return {delay: [*_rows(each for each in self.cells if each.delay == delay)] for delay in delays}

    def _of_small(self, drawn: Callable[[Sequence[str], list[list[str]]], str]) -> Iterator[str]:
        if self.small:
            rows = [
                [
                    each.column.title,
                    str(each.cell.rejected),
                    str(each.cell.placed),
                    str(len(each.cell.waiting)),
                ]
                for each in self.small
            ]
            yield drawn(("3, 3 and 2 CPUs, two zones of 4", "rejected", "run", "wait"), rows)


def _source(delay: Delay) -> str:
    """Return how topologies are published."""
    return "topologies by agents" if delay == AGENTS else f"topologies {delay:g} s late"


def _rows(cells: Iterable[Measured]) -> Iterator[list[str]]:
    found = list(cells)
    for name, column in COLUMNS.items():
        seeds = [each.cell for each in found if each.name == name]
        if seeds:
            yield [column.title, *(figure.shown(seeds) for figure in _SHOWN.values())]


def _each(of: Callable[[Cell], str]) -> Callable[[Sequence[Cell]], str]:
    return lambda seeds: " ".join(map(of, seeds))


def _mean(of: Callable[[Cell], float]) -> Callable[[Sequence[Cell]], str]:
    return lambda seeds: f"{fmean(map(of, seeds)):.1f}"


def _seconds(cell: Cell) -> str:
    return NONE if cell.seconds is None else f"{cell.seconds:.0f}"


def _rejected(cell: Cell) -> str:
    return str(cell.rejected) if cell.pinned is None else f"{cell.pinned}+{cell.rejected - cell.pinned}"


def _wrong(cell: Cell) -> str:
    if cell.pinned is not None and cell.recorded:
        return f"{cell.wrong}/{cell.recorded}"
    return f"{cell.believed}+{cell.wrong - cell.believed}/{cell.recorded}" if cell.recorded else NONE


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure of the table: its meaning, and how it is shown for all seeds."""

    meaning: str
    shown: Callable[[Sequence[Cell]], str]


_SHOWN: Mapping[str, _Figure] = {
    "rejected": _Figure(
        "pods that a kubelet rejected, per seed; with gates, those whose node the controller chose plus those"
        " that it released without a node",
        _each(_rejected),
    ),
    "placed": _Figure(
        "pods that a kubelet admitted, at once or after they were created again, per seed",
        _each(lambda cell: str(cell.placed)),
    ),
    "until all ran, s": _Figure(
        f"seconds from the first arrival until every pod had run, per seed; {NONE} if some never ran",
        _each(_seconds),
    ),
    "writes a pod": _Figure(
        "creations, patches and deletions of pods and Events by all programs, per requested pod",
        _mean(lambda cell: cell.writes_per_pod),
    ),
    "largest slot": _Figure(
        "the most free GPUs in one zone of any node, on average until all pods ran",
        _mean(lambda cell: cell.slot),
    ),
    "whole zones left": _Figure(
        "zones of four GPUs without an allocation, when only the pods that stay until the end are left",
        _mean(lambda cell: cell.whole),
    ),
    "unaligned": _Figure(
        "pods that requested a single zone and got several, per seed",
        _each(lambda cell: str(cell.unaligned)),
    ),
    "records wrong": _Figure(
        "recorded placements that differ from what the kubelet did, of all recorded, per seed: those that the"
        " scorer believes plus those that it withdrew when another pod left; with gates, the sum",
        _each(_wrong),
    ),
}
_HEAD = ("", *_SHOWN)


def _legend(*, bullet: str = "") -> Iterator[str]:
    yield "\n".join(f"{bullet}{name}: {figure.meaning}" for name, figure in _SHOWN.items())


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
