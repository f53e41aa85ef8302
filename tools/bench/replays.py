"""
Replay the openb trace: with the published policies, which validates the simulator, and on nodes with zones.

`make simulate` writes docs/measurements/simulate.md with its charts, and next to it simulate.json with all
figures, from which the page is generated.
By default, the trace is the bundled tables of shapes. With `--trace`, it is the published lists in a folder.
"""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

from examples import DATA
from examples.openb import shapes
from numalign.model.errors import BadInput
from numalign.model.intent import Policy
from numalign.simulation.node_policies import NODE_POLICIES
from numalign.simulation.node_replay import replay_on_nodes
from numalign.simulation.replay import Sample
from numalign.simulation.replay_summary import mean_curve, mean_of, to_document
from numalign.simulation.trace import Trace, read_trace
from numalign.simulation.zone_replay import Zoning, replay_on_zones
from numalign.simulation.zone_schedulers import ZONE_SCHEDULERS
from tools.bench import command_line, replay_page
from tools.bench.replay_page import Raw

FIRST_SEED = 42
"""The first seed of the published runs, which count up from it."""

RATIO = 1.3

LISTS = "openb_node_list_all_node.csv", "openb_pod_list_default.csv"
"""The files of the published trace: nodes and pods."""


ZONES = 2, 4
"""Numbers of zones into which nodes are split."""

POLICY = Policy.RESTRICTED


@dataclass(frozen=True, slots=True)
class Replayed:
    """One replay; on nodes without zones if `zones` is 0."""

    zones: int
    name: str
    seed: int

    def samples(self, trace: Trace) -> list[Sample]:
        """Run the replay and return its samples; with zones, all pods get exclusive CPUs."""
        if not self.zones:
            return list(replay_on_nodes(trace, self.name, ratio=RATIO, seed=self.seed))
        pinned = trace.pinned()
        nodes = Zoning(self.zones, POLICY).nodes_of(pinned)
        return list(replay_on_zones(nodes, pinned, self.name, ratio=RATIO, seed=self.seed))


def measure(trace: Trace, *, seeds: int, zone_seeds: int) -> Raw:
    """Run all replays on all processors; return the document of the run."""
    nodes = trace.with_gpus()
    names = {0: NODE_POLICIES, **dict.fromkeys(ZONES, ZONE_SCHEDULERS)}
    every = [
        Replayed(zones, name, FIRST_SEED + at)
        for zones, each in names.items()
        for name in each
        for at in range(zone_seeds if zones else seeds)
    ]
    found = dict(zip(every, _replayed(nodes, every), strict=True))
    by_zones = {
        zones: {
            name: summed_up([found[one] for one in every if (one.zones, one.name) == (zones, name)])
            for name in each
        }
        for zones, each in names.items()
    }
    return {
        "ratio": RATIO,
        "seeds": [FIRST_SEED + at for at in range(seeds)],
        "zone_seeds": [FIRST_SEED + at for at in range(zone_seeds)],
        "trace": {
            "nodes": len(nodes.nodes),
            "gpus": sum(node.gpus for node in nodes.nodes),
            "pods": len(nodes.pods),
        },
        "policies": by_zones[0],
        "zoned": {str(zones): by_zones[zones] for zones in ZONES},
    }


def _replayed(trace: Trace, every: Sequence[Replayed]) -> Iterator[list[Sample]]:
    """Yield the samples of all replays, in order; report on standard error which are done."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for one, samples in zip(every, pool.map(Replayed.samples, every, repeat(trace)), strict=True):
            where = f"{one.zones} zones" if one.zones else "no zones"
            sys.stderr.write(f"{where}, {one.name}, seed {one.seed}: {samples[-1].allocated:.2f} %\n")
            yield samples


def summed_up(replays: list[list[Sample]]) -> Raw:
    """Return the last sample of each replay, their mean, and the mean curve."""
    last = [samples[-1] for samples in replays]
    return {
        "mean": to_document(mean_of(last)),
        "runs": [to_document(sample) for sample in last],
        "curve": [to_document(sample) for sample in mean_curve(replays)],
    }


def main() -> int:
    """Replay as the flags say; return 0, or 2 with the mistakes of a trace on standard error."""
    parser = command_line.parser("tools.bench.replays", __doc__)
    parser.add_argument(
        "--trace", type=Path, metavar="FOLDER", help="read the published lists in this folder"
    )
    parser.add_argument(
        "--seeds", type=command_line.number, default=10, help="number of seeds without zones (default 10)"
    )
    parser.add_argument(
        "--zone-seeds", type=command_line.number, default=1, help="number of seeds with zones (default 1)"
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write the page here, with its charts and figures"
    )
    chosen = parser.parse_args()
    try:
        trace = read_trace(*files(chosen.trace))
        found = measure(trace, seeds=chosen.seeds, zone_seeds=chosen.zone_seeds)
    except (BadInput, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    print(replay_page.text(found))
    command_line.write(found, chosen.json)
    if chosen.markdown:
        _write(found, chosen.markdown)
    return 0


def files(folder: Path | None) -> tuple[Path, Path]:
    """Return the files of nodes and pods: the published lists in a folder, or the bundled tables."""
    names = LISTS if folder else (shapes.NODES, shapes.PODS)
    nodes, pods = ((folder or DATA) / name for name in names)
    return nodes, pods


def _write(found: Raw, file: Path) -> None:
    file.write_text(replay_page.page(found), encoding="utf-8")
    command_line.write(found, file.with_suffix(".json"))
    for name, chart in replay_page.charts(found).items():
        (file.parent / replay_page.chart_file(name)).write_text(chart, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
