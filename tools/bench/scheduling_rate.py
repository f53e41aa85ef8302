"""
Measure how many pods per second the real kube-scheduler binds: with the scorer, an empty extender, or none.

Every extender has the cost of its protocol: JSON, a round trip in the middle of a scheduling cycle, and one
more program that needs processor time. The empty extender shows that cost: it is written in Go, evaluates
nothing, and treats all nodes alike. The rest is the cost of numalign: partly that of Python and its HTTP,
which an empty extender on numalign's own server shows (`tools.bench.empty_server`), and partly that of the
answers.

In every cell, the same pods are in the queue before the scheduler starts, on the same nodes. A pod counts as
bound when a watch of the API server shows its node. On one machine, all programs share the processors, and
each takes time from the others. So in some cells the extender, empty or not, has a processor of its own, as
on a separate host. The cells of a round run one after another on one control plane, and the next round runs
them in reverse order. A ratio compares two cells of one round; the median over all rounds is shown. The
scheduler may send 1,000 requests per second to the API server. With its default limit of 50, it would bind
only that many with any extender.

`--json FILE` writes: {"numbers": {"nodes", "pods", "repeats", "cores"}, "cells": {NAME: {"title",
"binds_per_second", "runs": [pods/s, ...], "steady": [pods/s, ...], "to_empty": ratio, "to_python": ratio,
"to_none": ratio, "beside_empty": NAME, "beside_python": NAME, "beside_none": NAME,
"cpu_ms_per_pod": {PROGRAM: ms}, "cores_for_others"}}, "aims": {SENTENCE: met}}. NAME is one of
`scheduling_cells.CELLS`. A ratio is null if it is not defined, or if the other cell was not run. If other
work on the machine used much of the cores (`cores_for_others`), no rate is meaningful.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tools.bench import command_line, scheduling_site
from tools.bench.e2e import binaries
from tools.bench.figures import table
from tools.bench.scheduling_cells import BASE, CELLS, Cell
from tools.bench.scheduling_site import Run, Site
from tools.bench.targets import AIMED_AT, BINDS
from tools.clusters.gotools import UnavailableError

Raw = dict[str, Any]

WARM_UP = "none"
"""A cell that runs before all others and does not count: an API server is slow at first."""

AIM = f"at least {BINDS:.0%} as many pods per second as with the empty extender"

QUICK = {"nodes": 50, "pods": 50, "repeats": 1, "cells": tuple(BASE)}
NONE = "-"
_PROGRAMS = {
    "CPU ms/pod: scheduler": ("kube-scheduler",),
    "extender": ("extender",),
    "API server, etcd": ("kube-apiserver", "etcd"),
    "kubelets": ("kubelets",),
}
_HEAD = ("", "pods/s", "least", "most", ": empty", ": Python", ": none", *_PROGRAMS, "cores for others")


@dataclass(slots=True)
class Outcome:
    """All rounds of all cells, by name; a cell has one run for each round."""

    numbers: Mapping[str, int]
    runs: dict[str, list[Run]] = field(default_factory=dict)

    def add(self, name: str, run: Run) -> None:
        """Add the next round of a cell."""
        self.runs.setdefault(name, []).append(run)

    def ratio(self, name: str, other: str) -> float | None:
        """Return the median over the rounds of the ratio of two rates; None if either cell was not run."""
        pairs = zip(self.runs.get(name, ()), self.runs.get(other, ()), strict=False)
        ratios = [run.rate / beside.rate for run, beside in pairs]
        return median(ratios) if ratios else None

    def aims(self) -> dict[str, bool]:
        """Return the targets and whether they are met, as far as they were measured."""
        found = {name: self.ratio(name, CELLS[name].empty) for name in AIMED_AT}
        return {
            f"{CELLS[name].title}: {AIM}": ratio >= BINDS
            for name, ratio in found.items()
            if ratio is not None
        }

    def document(self) -> Raw:
        """Return all results for a program."""
        cells = {name: self._cell(name, CELLS[name]) for name in self.runs}
        return {"numbers": dict(self.numbers), "cells": cells, "aims": self.aims()}

    def _cell(self, name: str, cell: Cell) -> Raw:
        runs = self.runs[name]
        return {
            "title": cell.title,
            "binds_per_second": median(run.rate for run in runs),
            "runs": [run.rate for run in runs],
            "steady": [run.steady for run in runs],
            "to_empty": self.ratio(name, cell.empty),
            "to_python": self.ratio(name, cell.python),
            "to_none": self.ratio(name, cell.none),
            "beside_empty": cell.empty or None,
            "beside_python": cell.python or None,
            "beside_none": cell.none or None,
            "cpu_ms_per_pod": self.cpu(name),
            "cores_for_others": median(run.others for run in runs),
        }

    def cpu(self, name: str) -> dict[str, float]:
        """Return milliseconds of a processor per pod, by program: the median over the rounds."""
        each = [run.cpu() for run in self.runs[name]]
        programs = dict.fromkeys(program for used in each for program in used)
        return {program: median(used.get(program, 0.0) for used in each) for program in programs}

    def text(self) -> str:
        """Return the table for a terminal."""
        head = "{pods} pods, {nodes} nodes, {repeats} rounds, {cores} cores".format_map(self.numbers)
        aims = (f"target {'met' if met else 'MISSED'}: {aim}" for aim, met in self.aims().items())
        return "\n".join([head, "", table(_HEAD, self._rows()), "", *aims])

    def _rows(self) -> Iterator[Sequence[str]]:
        for name, runs in self.runs.items():
            rates, cell, cpu = [run.rate for run in runs], CELLS[name], self.cpu(name)
            ratios = [self.ratio(name, other) for other in (cell.empty, cell.python, cell.none)]
            yield (
                cell.title,
                *(f"{shown:.1f}" for shown in (median(rates), min(rates), max(rates))),
                *(NONE if ratio is None else f"{ratio:.2f}" for ratio in ratios),
                *(f"{sum(cpu.get(each, 0.0) for each in programs):.1f}" for programs in _PROGRAMS.values()),
                f"{median(run.others for run in runs):.1f}",
            )


def rounds(names: Sequence[str], repeats: int) -> Iterator[str]:
    """Yield the cells in the order in which they run, which is reversed in every other round."""
    for number in range(repeats):
        yield from names if number % 2 == 0 else reversed(names)


async def measure(site: Site, outcome: Outcome, names: Sequence[str]) -> None:
    """Run cells one after another, and keep their results."""
    await _told(site, WARM_UP, "warming up: ")
    for name in rounds(names, outcome.numbers["repeats"]):
        outcome.add(name, await _told(site, name))


async def _told(site: Site, name: str, called: str = "") -> Run:
    began = time.monotonic()
    run = await site.measure(name)
    took = time.monotonic() - began
    sys.stderr.write(f"{called}{CELLS[name].title}: {run.rate:.1f} pods/s ({took:.0f} s)\n")
    return run


async def _run(chosen: argparse.Namespace, outcome: Outcome, folder: Path) -> None:
    async with scheduling_site.site(
        binaries=folder,
        empty=scheduling_site.built(),
        nodes=chosen.nodes,
        pods=chosen.pods,
        logs=chosen.logs,
    ) as site:
        await measure(site, outcome, chosen.cells)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure as the flags say; return 0 however slow it was, or 69 if the programs are not available."""
    chosen = _parser().parse_args(arguments)
    vars(chosen).update(QUICK if chosen.quick else {})
    folder = binaries()
    if folder is None:
        return os.EX_UNAVAILABLE
    numbers = {"nodes": chosen.nodes, "pods": chosen.pods, "repeats": chosen.repeats}
    outcome = Outcome({**numbers, "cores": len(os.sched_getaffinity(0))})
    try:
        asyncio.run(_run(chosen, outcome, folder))
    except UnavailableError as error:
        sys.stderr.write(f"{error}\n")
        return os.EX_UNAVAILABLE
    finally:
        # Report what has been measured, even after an interrupt or a failure.
        if outcome.runs:
            _tell(outcome, json=chosen.json)
    return 0


def _tell(outcome: Outcome, *, json: Path | None) -> None:
    print(outcome.text())
    command_line.write(outcome.document(), json)


def _parser() -> argparse.ArgumentParser:
    parser = command_line.parser("tools.bench.scheduling_rate", __doc__)
    numbers = (
        ("nodes", 1000, 1, "nodes of the cluster"),
        ("pods", 500, 10, "pods in each cell"),
        ("repeats", 3, 1, "rounds"),
    )
    for name, default, least, said in numbers:
        said_by_default = f"{said} (default {default})"
        parser.add_argument(f"--{name}", type=_at_least(least), default=default, help=said_by_default)
    parser.add_argument(
        "--cells",
        type=_cells,
        default=tuple(CELLS),
        metavar="all|base|NAME,...",
        help=f"cells to run: all, base, or some of {' '.join(CELLS)}",
    )
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="keep the output of every program here")
    said = "use 50 nodes, 50 pods, one round and the base cells; ignore the flags for these"
    parser.add_argument("--quick", action="store_true", help=said)
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is not a number of at least {least}")
        return int(text)

    return read


def _cells(text: str) -> tuple[str, ...]:
    named = {"all": tuple(CELLS), "base": tuple(BASE)}
    return named.get(text) or command_line.several(CELLS, "cells")(text)


if __name__ == "__main__":
    sys.exit(main())
