"""
Replay the openb trace: without zones, to check published figures, and with zones, to compare strategies.

`--markdown docs/measurements/simulate.md` writes the page with its charts, and next to it simulate.json with
all figures, from which the page is generated.
By default, the trace is the bundled tables of shapes. With `--trace`, it is the published lists in a folder.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from kubectl_numa.demo import DATA
from kubectl_numa.demo.openb import shapes
from numalign.curves import Axis, Chart, Line
from numalign.model.errors import BadInput
from numalign.model.intent import Policy
from numalign.simulation.node_replay import NODE_POLICIES, replay_on_nodes
from numalign.simulation.replay import PER_CENT, Sample
from numalign.simulation.replay_charts import CHARTED
from numalign.simulation.replay_summary import mean_curve, mean_of, to_document
from numalign.simulation.trace import Trace, read_trace
from numalign.simulation.zone_replay import Zoning, replay_on_zones
from numalign.simulation.zone_schedulers import ZONE_SCHEDULERS
from tools.bench.tables import Measurement, parsed, write_page

Raw = dict[str, Any]

FIRST_SEED = 42
"""The first seed of the published runs, which count up from it."""
RATIO = 1.3
ZONES = 2, 4
"""Numbers of zones into which nodes are split."""
LISTS = "openb_node_list_all_node.csv", "openb_pod_list_default.csv"
"""The files of the published trace: nodes and pods."""

PUBLISHED: Mapping[str, Mapping[str, float]] = {
    "Random": {"allocated": 87.47, "fragments": 12.43},
    "BestFit": {"allocated": 93.08, "fragments": 6.85},
}
"""
Means of the ten seeds for `openb_pod_list_default` at tuning ratio 1.3, in per cent of all GPUs, once 130 per
cent are requested, from hkust-adsl/kubernetes-scheduler-simulator at 8f3d641,
experiments/analysis/expected_results (analysis_allo_discrete.csv and analysis_frag_discrete.csv).
"""

_DRAWN = ("stock", "webhook", "scorer", "LeastNUMANodes", "MostAllocated")
_TEMPLATE = Path(__file__).with_name("replay_page.md")


def replayed(runs: Sequence[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """Yield replays with their samples, from all processors; report on standard error which are done."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for run, samples in zip(runs, pool.map(type(runs[0]).samples, runs), strict=True):
            sys.stderr.write(f"{run}: {samples[-1].allocated:.2f} % allocated\n")
            yield run, samples


@dataclass(frozen=True, slots=True)
class Replay:
    """One replay of the trace in a folder; on nodes without zones if `zones` is 0."""

    folder: Path | None
    zones: int
    name: str
    seed: int

    def samples(self) -> list[Sample]:
        """Run the replay and return its samples; with zones, all pods get exclusive CPUs."""
        trace = bundled(self.folder)
        if not self.zones:
            return list(replay_on_nodes(trace, self.name, ratio=RATIO, seed=self.seed))
        pinned = trace.pinned()
        nodes = Zoning(self.zones, Policy.RESTRICTED).nodes_of(pinned)
        return list(replay_on_zones(nodes, pinned, self.name, ratio=RATIO, seed=self.seed))


def bundled(folder: Path | None = None) -> Trace:
    """Return the trace of the published lists in a folder, or of the bundled tables, without other nodes."""
    files = LISTS if folder else (shapes.NODES, shapes.PODS)
    nodes, pods = ((folder or DATA) / name for name in files)
    return read_trace(nodes, pods).with_gpus()


def measure(folder: Path | None, *, seeds: int, zone_seeds: int) -> Raw:
    """Run all replays; return the document of the run."""
    trace, numbers = bundled(folder), {0: seeds, **dict.fromkeys(ZONES, zone_seeds)}
    runs = [
        Replay(folder, zones, name, FIRST_SEED + at)
        for zones, count in numbers.items()
        for name in (ZONE_SCHEDULERS if zones else NODE_POLICIES)
        for at in range(count)
    ]
    found: dict[tuple[int, str], list[list[Sample]]] = {}
    for run, samples in replayed(runs):
        found.setdefault((run.zones, run.name), []).append(samples)
    summaries: dict[int, Raw] = {zones: {} for zones in numbers}
    for (zones, name), several in found.items():
        last = [samples[-1] for samples in several]
        summaries[zones][name] = {
            "mean": to_document(mean_of(last)),
            "runs": [to_document(sample) for sample in last],
            "curve": [to_document(sample) for sample in mean_curve(several)],
        }
    return {
        "ratio": RATIO,
        "seeds": [FIRST_SEED + at for at in range(seeds)],
        "zone_seeds": [FIRST_SEED + at for at in range(zone_seeds)],
        "trace": described(trace),
        "policies": summaries[0],
        "zoned": {str(zones): summaries[zones] for zones in ZONES},
    }


def described(trace: Trace) -> Raw:
    """Return the numbers of nodes, GPUs and pods of a trace."""
    gpus = sum(node.gpus for node in trace.nodes)
    return {"nodes": len(trace.nodes), "gpus": gpus, "pods": len(trace.pods)}


def tables(found: Raw) -> dict[str, Measurement]:
    """Return the tables of a run, by their places in the page."""
    rows = [
        (
            name,
            *(
                cell
                for each in ("allocated", "fragments")
                for cell in _beside(name, each, policy["mean"][each])
            ),
            _range(policy),
        )
        for name, policy in found["policies"].items()
    ]
    head = ("policy", "allocated, %", "published", "fragments, %", "published", "range allocated, %")
    made = {"policies": Measurement("no zones", rows, head=head)}
    for zones, strategies in found["zoned"].items():
        zone_rows = [
            (
                name,
                *(f"{each['mean'][figure]:.2f}" for figure in CHARTED),
                f"{each['mean']['refusals']:,.0f}",
                _range(each),
            )
            for name, each in strategies.items()
        ]
        zone_head = ("strategy", *(f"{figure}, %" for figure in CHARTED), "rejections", "range allocated, %")
        made[f"zones_{zones}"] = Measurement(f"{zones} zones", zone_rows, head=zone_head)
    return made


def _beside(policy: str, figure: str, mean: float) -> tuple[str, str]:
    return f"{mean:.2f}", f"{PUBLISHED[policy][figure]:.2f}"


def _range(found: Raw) -> str:
    allocated = [run["allocated"] for run in found["runs"]]
    return f"{min(allocated):.2f} to {max(allocated):.2f}"


def page(found: Raw) -> str:
    """Return the page; it depends on these figures only."""
    return _TEMPLATE.read_text(encoding="utf-8").format(
        **found["trace"],
        seeds=len(found["seeds"]),
        first=found["seeds"][0],
        last=found["seeds"][-1],
        zone_seeds=", ".join(map(str, found["zone_seeds"])),
        asked=round(found["ratio"] * PER_CENT),
        **{place: "\n".join(table.markdown()) for place, table in tables(found).items()},
    )


def charts(found: Raw) -> dict[str, Chart]:
    """Return the charts of the replays with zones, by what they show."""
    across = Axis("asked for, % of all GPUs", logarithmic=False, ticks=range(0, 131, 10))
    return {
        f"{zones}-zones-{figure}": Chart(
            f"{title}, {zones} zones",
            across,
            Axis("%", logarithmic=False),
            [
                Line(name, [(each["arrived"], each[figure]) for each in strategies[name]["curve"]], colour)
                for colour, name in enumerate(_DRAWN)
            ],
        )
        for zones, strategies in found["zoned"].items()
        for figure, title in CHARTED.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay as the flags say; return 0, or 2 with the mistakes of a trace on standard error."""
    chosen = parsed(
        "replays",
        __doc__,
        arguments,
        trace=(None, None, "read the published lists in this folder"),
        seeds=(10, 1, "number of seeds without zones"),
        zone_seeds=(1, 1, "number of seeds with zones"),
        markdown=(None, None, "write the page here, with its charts and figures"),
    )
    try:
        found = measure(chosen.trace, seeds=chosen.seeds, zone_seeds=chosen.zone_seeds)
    except (BadInput, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    print("\n\n".join(table.printed() for table in tables(found).values()))
    write_page(page(found), found, charts(found), chosen.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
