"""
Measure what users of a cluster see: how many pods kubelets reject, how many wait, and how many run.

A real kube-apiserver, etcd and kube-scheduler, nodes with the kubelet's managers, and pods drawn from a trace
that come and go. The same pods arrive in every run (`--runs`), for each delay with which topologies are
published (`--delays`). Time is compressed: what takes days in the trace takes seconds here. Only the delay of
topologies is as long as in a cluster, and so weighs much more.
"""

import asyncio
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from tools.bench.e2e_cells import AGENTS, COLUMNS, Case, Cell
from tools.bench.e2e_cells import measure as measure_cell
from tools.bench.e2e_workload import tasks
from tools.bench.tables import CellValue, Measurement, one_of, program
from tools.clusters.kubelets.build import versions
from tools.clusters.sim.shapes import SimNode

NEVER = "-"


@dataclass(frozen=True, slots=True)
class Measured:
    """A cell, and the name of its column, its delay and its seed."""

    name: str
    delay: str
    seed: int
    cell: Cell


def machines(nodes: int) -> list[SimNode]:
    """Return nodes of eight zones with one GPU each, and of two zones with four GPUs each, in turn."""
    # Both policies reject pods; restricted admits a pod to several zones only if no fewer can hold it.
    policies = ("single-numa-node", "restricted")
    return [
        SimNode(f"two-{number:02}", "two-by-four")
        if number % 2
        else SimNode(f"eight-{number:02}", "eight-zones", policy=policies[number // 2 % 2])
        for number in range(nodes)
    ]


def measure(chosen: Namespace) -> Iterator[Measurement]:
    """Measure every delay, seed and run."""
    for name in chosen.runs:
        one_of(name, COLUMNS)
    if chosen.kubelets:
        one_of(chosen.kubelets, versions())
    elif AGENTS in chosen.delays:
        sys.exit(f"--delays {AGENTS}: agents need real kubelets, see --kubelets")
    found = []
    for delay in chosen.delays:
        for seed in chosen.seeds:
            arriving = tasks(seed, pods=chosen.pods, seconds=chosen.seconds, life=chosen.life)
            case = Case(
                machines(chosen.nodes), arriving, delay, chosen.patience, seed, kubelets=chosen.kubelets
            )
            found += [_measured(name, case) for name in chosen.runs]
    made = list(tables(found))
    if chosen.markdown:
        pages = ["\n".join((f"{each.name}:", "", *each.markdown())) for each in made]
        legend = "\n".join(f"* {name}: {meaning}" for name, (meaning, _) in FIGURES.items())
        chosen.markdown.write_text("\n\n".join((*pages, legend)) + "\n", encoding="utf-8")
    yield from made


def _measured(name: str, case: Case) -> Measured:
    """Measure one cell, and report it on standard error."""
    began = time.monotonic()
    cell = asyncio.run(measure_cell(COLUMNS[name], case))
    sys.stderr.write(
        f"{COLUMNS[name].title}, {case.delay} late, seed {case.seed}: {cell.rejected} rejected,"
        f" {cell.placed} of {cell.pods} placed ({time.monotonic() - began:.0f} s)\n"
    )
    return Measured(name, case.delay, case.seed, cell)


def tables(found: Sequence[Measured]) -> Iterator[Measurement]:
    """Yield a table for each delay.

    Figures that depend on the seed are shown for each seed; the rest are means over all seeds.
    """
    for delay in dict.fromkeys(each.delay for each in found):
        rows: list[Sequence[CellValue]] = []
        for name, column in COLUMNS.items():
            cells = [each.cell for each in found if (each.name, each.delay) == (name, delay)]
            if cells:
                rows.append((column.title, *(show(cells) for _, show in FIGURES.values())))
        source = "by agents" if delay == AGENTS else f"{delay} s late"
        yield Measurement(f"Topologies {source}", rows, head=("", *FIGURES))


def _each(of: Callable[[Cell], object]) -> Callable[[Sequence[Cell]], str]:
    return lambda seeds: " ".join(str(of(cell)) for cell in seeds)


def _mean(of: Callable[[Cell], float]) -> Callable[[Sequence[Cell]], str]:
    return lambda seeds: f"{fmean(map(of, seeds)):.1f}"


def _rejected(cell: Cell) -> str:
    return str(cell.rejected) if cell.pinned is None else f"{cell.pinned}+{cell.rejected - cell.pinned}"


def _wrong(cell: Cell) -> str:
    if not cell.recorded:
        return NEVER
    wrong = f"{cell.believed}+{cell.wrong - cell.believed}" if cell.pinned is None else str(cell.wrong)
    return f"{wrong}/{cell.recorded}"


FIGURES: dict[str, tuple[str, Callable[[Sequence[Cell]], str]]] = {
    "rejected": (
        "pods that a kubelet rejected, per seed; with gates, those whose node the controller chose + others",
        _each(_rejected),
    ),
    "placed": (
        "pods that a kubelet admitted, at once or after they were created again, per seed",
        _each(lambda cell: cell.placed),
    ),
    "until all ran, s": (
        f"seconds from the first arrival until every pod had run, per seed; {NEVER} if some never ran",
        _each(lambda cell: NEVER if cell.seconds is None else f"{cell.seconds:.0f}"),
    ),
    "writes a pod": (
        "creations, patches and deletions of pods and Events by all programs, per requested pod",
        _mean(lambda cell: cell.writes / cell.pods),
    ),
    "largest slot": (
        "the most free GPUs in one zone of any node, on average until all pods ran",
        _mean(lambda cell: cell.slot),
    ),
    "whole zones left": (
        "zones of four GPUs without an allocation, when only the pods that stay until the end are left",
        _mean(lambda cell: cell.whole),
    ),
    "unaligned": (
        "pods that requested a single zone and got several, per seed",
        _each(lambda cell: cell.unaligned),
    ),
    "records wrong": (
        "recorded placements that are not what the kubelet did, of all, per seed: believed + withdrawn",
        _each(_wrong),
    ),
}
"""The figures of the comparison: their meaning, and how they are shown for all seeds."""

main = program(
    "e2e",
    __doc__,
    measure,
    nodes=(20, 4, "nodes, half with eight zones and half with two"),
    pods=(400, 10, "pods that arrive"),
    seconds=(20.0, 3.0, "seconds in which the pods arrive"),
    life=(10.0, 3.0, "seconds that pods run on average, if they end"),
    patience=(25.0, 15.0, "seconds to wait after the last arrival"),
    delays=(("0", "1", "10"), ("0",), f"delays of exporters in seconds; {AGENTS}: agents publish instead"),
    kubelets=("", "", "use real kubelets of this version, as root, in place of simulated ones"),
    seeds=((1, 2, 3), (1,), "random seeds"),
    runs=(tuple(COLUMNS), ("stock", "bind"), "what to compare"),
    markdown=(None, None, "write the tables here, as Markdown"),
)

if __name__ == "__main__":
    sys.exit(main(None))
