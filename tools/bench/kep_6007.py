"""
Replay the openb trace with kubelets that choose between equally good zones as KEP-6007 proposes.

`make kep-6007` writes docs/measurements/kep-6007.md with its charts, and next to it kep-6007.json with all
figures, from which the page is generated. It takes some minutes of one processor.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType

from numalign.model.intent import Policy
from numalign.model.options import DEFAULTS, NumaStrategy, Options, TopologyOption
from numalign.simulation.replay_summary import mean_curve, mean_of, to_document
from numalign.simulation.trace import Trace, read_trace
from numalign.simulation.zone_cluster import ZoneSample
from numalign.simulation.zone_replay import Zoning, replay_on_zones, turnover_on_zones
from tools.bench import command_line, kep_6007_page
from tools.bench.kep_6007_cases import CASES, outcome
from tools.bench.replay_page import Raw
from tools.bench.replays import FIRST_SEED, ZONES, files

KUBELETS: Mapping[str, Options] = MappingProxyType(
    {
        "none": DEFAULTS,
        "most-allocated": Options(strategy=NumaStrategy.MOST_ALLOCATED),
        "least-allocated": Options(strategy=NumaStrategy.LEAST_ALLOCATED),
        "prefer-most-allocated": Options(topology=frozenset({TopologyOption.PREFER_MOST_ALLOCATED})),
    }
)
"""The kubelets that are compared, by their option; the last is that of the KEP's first text."""

SCHEDULERS = "stock", "scorer"

ONE_OF = 32
"""One of so many nodes of the trace is replayed."""


@dataclass(frozen=True, slots=True)
class Day:
    """How pods come and go: all request `ratio` times the GPUs, those alive `load` times; None if none end.

    What counts is what happens while they request from `first` to `last` per cent of all GPUs. `every` is the
    distance between two samples, in per cent.
    """

    ratio: float
    load: float | None
    first: int
    last: int
    every: int


DAYS: Mapping[str, Day] = MappingProxyType(
    {"filling": Day(1.3, None, 50, 100, 5), "turnover": Day(2.5, 0.9, 100, 250, 10)}
)


@dataclass(frozen=True, slots=True)
class Run:
    """One replay."""

    day: str
    zones: int
    scheduler: str
    kubelet: str
    seed: int

    def samples(self) -> list[ZoneSample]:
        """Replay, with all pods Guaranteed and whole CPUs, under single-numa-node."""
        pinned, day = fleet().pinned(), DAYS[self.day]
        zoning = Zoning(self.zones, Policy.SINGLE_NUMA_NODE, options=KUBELETS[self.kubelet])
        nodes = zoning.nodes_of(pinned)
        replayed = partial(turnover_on_zones, load=day.load) if day.load else replay_on_zones
        samples = replayed(nodes, pinned, self.scheduler, ratio=day.ratio, seed=self.seed, every=day.every)
        return list(samples)


def fleet() -> Trace:
    """Return the trace with a part of its nodes."""
    trace = read_trace(*files(None)).with_gpus()
    return Trace(trace.nodes[::ONE_OF], trace.pods)


def measure(seeds: int) -> Raw:
    """Run all replays on all processors; return the document of the run."""
    numbers, trace = [FIRST_SEED + at for at in range(seeds)], fleet()
    kinds = list(product(DAYS, ZONES, SCHEDULERS, KUBELETS))
    runs = [Run(*kind, seed) for kind in kinds for seed in numbers]
    found = dict(zip(runs, _replayed(runs), strict=True))
    return {
        "one_of": ONE_OF,
        "seeds": numbers,
        "trace": {
            "nodes": len(trace.nodes),
            "gpus": sum(node.gpus for node in trace.nodes),
            "pods": len(trace.pods),
        },
        "days": {name: {"ratio": day.ratio, "load": day.load} for name, day in DAYS.items()},
        "cases": [
            {
                "title": case.title,
                "pods": [pod.name for pod in case.pods],
                "zones": {name: outcome(case, options) for name, options in KUBELETS.items()},
            }
            for case in CASES
        ],
        "replays": [
            {
                **dict(zip(("day", "zones", "scheduler", "kubelet"), kind, strict=True)),
                **summed_up(DAYS[kind[0]], [found[Run(*kind, seed)] for seed in numbers]),
            }
            for kind in kinds
        ],
    }


def _replayed(runs: Sequence[Run]) -> Iterator[list[ZoneSample]]:
    """Yield the samples of all replays, in order; report on standard error which are done."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for run, samples in zip(runs, pool.map(Run.samples, runs), strict=True):
            sys.stderr.write(
                f"{run.day}, {run.zones} zones, {run.scheduler}, {run.kubelet}, seed {run.seed}:"
                f" {samples[-1].turned_away:,.0f} of {samples[-1].pods:,.0f} pods turned away\n"
            )
            yield samples


def summed_up(day: Day, replays: Sequence[Sequence[ZoneSample]]) -> Raw:
    """Return the figures of each replay in the part of the day that counts, and the mean curve."""
    return {
        "runs": [_figures([sample for sample in samples if _counts(day, sample)]) for samples in replays],
        "curve": [to_document(sample) for sample in mean_curve(replays)],
    }


def _counts(day: Day, sample: ZoneSample) -> bool:
    return day.first <= sample.arrived <= day.last


def _figures(samples: Sequence[ZoneSample]) -> Raw:
    """Return what happened between the first sample and the last per 100 pods, and the mean state."""
    first, last, mean = samples[0], samples[-1], mean_of(samples)
    pods = (last.pods - first.pods) / 100
    return {
        **{
            name: round((getattr(last, name) - getattr(first, name)) / pods, 3)
            for name in ("aligned", "turned_away", "refusals")
        },
        **{
            name: round(getattr(mean, name), 3)
            for name in ("free_cpus", "free_gpus", "stranded", "allocated")
        },
    }


def main() -> int:
    """Replay as the flags say; return 0."""
    parser = command_line.parser("tools.bench.kep_6007", __doc__)
    parser.add_argument("--seeds", type=command_line.number, default=5, help="number of seeds (default 5)")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write the page here, with its charts and figures"
    )
    chosen = parser.parse_args()
    found = measure(chosen.seeds)
    print(kep_6007_page.text(found))
    command_line.write(found, chosen.json)
    if chosen.markdown:
        _write(found, chosen.markdown)
    return 0


def _write(found: Raw, file: Path) -> None:
    file.write_text(kep_6007_page.page(found), encoding="utf-8")
    command_line.write(found, file.with_suffix(".json"))
    for name, chart in kep_6007_page.charts(found).items():
        (file.parent / name).write_text(chart, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
