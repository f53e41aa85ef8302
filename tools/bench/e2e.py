"""
Measure what users of a cluster see: how many pods kubelets reject, how many wait, and how many run.

A real kube-apiserver, etcd and kube-scheduler, simulated nodes with the managers of the real kubelet, and
pods drawn from a trace that come and go. The same pods arrive in every run (`--runs`): with the stock
scheduler alone, and with the webhook. To the webhook, a run may add gates or the scorer. The scorer reserves
when nodes are ranked or when a pod is bound, and is called by the stock scheduler or by a second one. All
runs are repeated for each delay with which topologies are published (`--delays`). Time is compressed: what
takes days in the trace takes seconds here. Only the delay of topologies is as long as in a cluster, and so
weighs much more.
"""

import argparse
import asyncio
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from tools.bench import command_line, e2e_workload
from tools.bench.e2e_cells import AGENTS, COLUMNS, Case, Delay, measure
from tools.bench.e2e_tables import Measured, Outcome
from tools.bench.e2e_workload import Task
from tools.clusters.kubelets.build import USUAL, versions
from tools.clusters.sim.shapes import SimNode

N = TypeVar("N", int, float)

SMALL_PATIENCE = 8.0
SMALL_CPUS = (3, 3, 2)


@dataclass(frozen=True, slots=True)
class Load:
    """The load of each column; `life` is how many seconds pods run on average, those that end."""

    nodes: int
    pods: int
    seconds: float
    life: float
    patience: float

    def case(self, *, delay: Delay, seed: int, kubelets: str = "") -> Case:
        """Return the case of a delay and a seed, on simulated kubelets or on real ones of a version."""
        tasks = e2e_workload.tasks(seed, pods=self.pods, seconds=self.seconds, life=self.life)
        return Case(machines(self.nodes), tasks, delay, self.patience, seed, kubelets=kubelets)


def machines(nodes: int) -> list[SimNode]:
    """Return nodes of eight zones with one GPU each, and of two zones with four GPUs each, in turn."""
    return [_machine(number) for number in range(nodes)]


def _machine(number: int) -> SimNode:
    if number % 2:
        return SimNode(f"two-{number:02}", "two-by-four")
    # Both policies reject pods; restricted admits a pod to several NUMA zones only if no fewer can hold it.
    policy = ("single-numa-node", "restricted")[number // 2 % 2]
    return SimNode(f"eight-{number:02}", "eight-zones", policy=policy)


def small() -> Case:
    """Return two zones of four CPUs, and pods of three, three and two CPUs, two of which have room."""
    tasks = [
        Task(
            name=f"small-{number}",
            at=number / 4,
            life=None,
            requests={"cpu": cpus, "memory": 2**30},
            annotations={"numalign.io/policy": "single-numa-node"},
            guaranteed=True,
        )
        for number, cpus in enumerate(SMALL_CPUS)
    ]
    return Case([SimNode("small", "small")], tasks, delay=0, patience=SMALL_PATIENCE, resource="cpu")


@dataclass(frozen=True, slots=True)
class Bench:
    """The folder of the control plane's programs, and the folder for logs, if they are wanted."""

    binaries: Path
    logs: Path | None

    def measured(self, name: str, case: Case, *, called: str = "") -> Measured:
        """Measure one cell, and report it on standard error."""
        began = time.monotonic()
        keep = self.logs / f"{called}{name}-{case.delay}-{case.seed}" if self.logs else None
        cell = asyncio.run(measure(COLUMNS[name], case, binaries=self.binaries, keep=keep))
        found = Measured(name, case.delay, case.seed, cell)
        sys.stderr.write(f"{called}{found} ({time.monotonic() - began:.0f} s)\n")
        return found


def binaries() -> Path | None:
    """Return the folder of the control plane's programs, built first if necessary; None if it cannot be."""
    search = [sys.executable, "-m", "tools.clusters.controlplane.build"]
    found = subprocess.run(search, stdout=subprocess.PIPE, check=False, text=True)  # noqa: S603 - our own
    return None if found.returncode else Path(found.stdout.strip())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure as the flags say; return 0 whatever the result, or 69 if there is no control plane."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if AGENTS in chosen.delays and not chosen.kubelets:
        parser.error(f"--delays {AGENTS}: agents need real kubelets, as with --kubelets {USUAL}")
    folder = binaries()
    if folder is None:
        return os.EX_UNAVAILABLE
    load = Load(chosen.nodes, chosen.pods, chosen.seconds, chosen.life, chosen.patience)
    numbers = {**asdict(load), "delays": chosen.delays, "seeds": chosen.seeds, "kubelets": chosen.kubelets}
    outcome = Outcome(numbers)
    try:
        _fill(outcome, Bench(folder, chosen.logs), load, runs=chosen.runs)
    finally:
        # Report what has been measured, even after an interrupt or a failure.
        _tell(outcome, json=chosen.json, markdown=chosen.markdown)
    return 0


def _fill(outcome: Outcome, bench: Bench, load: Load, *, runs: Sequence[str]) -> None:
    kubelets = outcome.numbers["kubelets"]
    for name in () if kubelets else runs:
        outcome.small.append(bench.measured(name, small(), called="small "))
    for seed in outcome.numbers["seeds"]:
        sys.stderr.write(f"seed {seed}: {e2e_workload.described(load.case(delay=0, seed=seed).tasks)}\n")
    delays, seeds = outcome.numbers["delays"], outcome.numbers["seeds"]
    for delay, seed, name in itertools.product(delays, seeds, runs):
        case = load.case(delay=delay, seed=seed, kubelets=kubelets)
        outcome.cells.append(bench.measured(name, case))


def _tell(outcome: Outcome, *, json: Path | None, markdown: Path | None) -> None:
    print(outcome.text())
    command_line.write(outcome.document(), json)
    if markdown:
        markdown.write_text(outcome.markdown(), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = command_line.parser("tools.bench.e2e", __doc__)
    numbers = (
        ("nodes", int, 20, "nodes, half with eight zones and half with two"),
        ("pods", int, 400, "pods that arrive"),
        ("seconds", float, 20.0, "seconds in which the pods arrive"),
        ("life", float, 10.0, "seconds that pods run on average, if they end"),
        ("patience", float, 25.0, "seconds to wait after the last arrival"),
    )
    for name, kind, default, said in numbers:
        said_by_default = f"{said} (default {default:g})"
        parser.add_argument(f"--{name}", type=_positive(kind), default=default, help=said_by_default)
    parser.add_argument(
        "--delays",
        type=_delays,
        default=(0.0, 1.0, 10.0),
        metavar=f"SECONDS,...,{AGENTS}",
        help=f"delay of exporters in seconds; {AGENTS}: agents publish instead (default 0,1,10)",
    )
    parser.add_argument(
        "--kubelets",
        choices=[*versions()],
        default="",
        help="use real kubelets of this version (default: simulated, with the managers of real ones)",
    )
    parser.add_argument(
        "--seeds",
        type=_several(int),
        default=(1, 2, 3),
        metavar="SEED,...",
        help="random seeds (default 1,2,3)",
    )
    parser.add_argument("--quick", action="store_const", const=(1,), dest="seeds", help="use only seed 1")
    parser.add_argument(
        "--runs",
        type=command_line.several(COLUMNS, "runs"),
        default=tuple(COLUMNS),
        metavar=",".join(COLUMNS),
        help="what to compare (default: all)",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables here, as Markdown")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="keep the output of every program here")
    return parser


def _positive(kind: Callable[[str], N]) -> Callable[[str], N]:
    def read(text: str) -> N:
        found = kind(text)
        if found <= 0:
            raise argparse.ArgumentTypeError(f"{text} is not above zero")
        return found

    return read


def _delays(text: str) -> tuple[Delay, ...]:
    seconds = [each for each in text.split(",") if each != AGENTS]
    told = iter(_several(float)(",".join(seconds)) if seconds else ())
    return tuple(AGENTS if each == AGENTS else next(told) for each in text.split(","))


def _several(kind: Callable[[str], N]) -> Callable[[str], tuple[N, ...]]:
    def read(text: str) -> tuple[N, ...]:
        found = tuple(kind(each) for each in text.split(","))
        if any(each < 0 for each in found):
            raise argparse.ArgumentTypeError(f"{text} has a number below zero")
        return found

    return read


if __name__ == "__main__":
    sys.exit(main())
