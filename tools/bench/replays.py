"""
Replay the openb trace: without zones, to check published figures, and with zones, to compare strategies.

`--markdown docs/measurements/simulate.md` writes the page with its charts, and next to it simulate.json with
all figures, from which the page is generated.
"""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from kubectl_numa.demo import DATA
from kubectl_numa.demo.openb import shapes
from kubectl_numa.simulating import Simulation
from numalign.model.intent import Policy
from numalign.simulation.node_replay import NODE_POLICIES, replay_on_nodes
from numalign.simulation.replay import PER_CENT
from numalign.simulation.replay_summary import CHARTED, mean_of, replay_charts, to_document
from numalign.simulation.trace import Trace, read_trace
from numalign.simulation.zone_cluster import ZoneSample
from numalign.simulation.zone_replay import Zoning
from numalign.simulation.zone_schedulers import ZONE_SCHEDULERS
from tools.bench.tables import MARKDOWN, Measurement, Row, program, write_page

Raw = dict[str, Any]
R = TypeVar("R")

FIRST_SEED = 42
"""The first seed of the published runs, which count up from it."""
RATIO = 1.3
ZONES = 2, 4
"""Numbers of zones into which nodes are split."""

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


def replayed(replay: Callable[..., R], runs: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], R]:
    """Return the result of each replay, by its arguments, from all processors; report which are done."""
    found = {}
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for run, result in zip(runs, pool.map(replay, *zip(*runs, strict=True)), strict=True):
            sys.stderr.write(f"{run}\n")
            found[run] = result
    return found


@cache
def bundled() -> Trace:
    """Return the bundled trace, without nodes that have no GPU."""
    return read_trace(DATA / shapes.NODES, DATA / shapes.PODS).with_gpus()


def replay(zones: int, name: str, seeds: Sequence[int]) -> Raw:
    """Replay on nodes of so many zones, on which all pods get exclusive CPUs, or on nodes without zones."""
    if zones:
        pinned = bundled().pinned()
        nodes = Zoning(zones, Policy.RESTRICTED).nodes_of(pinned)
        [found] = Simulation(nodes, pinned, [name], RATIO, seeds).run(lambda _: None).documents()
        return found
    last = [[*replay_on_nodes(bundled(), name, ratio=RATIO, seed=seed)][-1] for seed in seeds]
    return {"mean": to_document(mean_of(last)), "runs": [to_document(sample) for sample in last]}


def figures(seeds: int, zone_seeds: int) -> Raw:
    numbers, zone_numbers = (range(FIRST_SEED, FIRST_SEED + count) for count in (seeds, zone_seeds))
    runs = [(0, name, numbers) for name in NODE_POLICIES]
    runs += [(zones, name, zone_numbers) for zones in ZONES for name in ZONE_SCHEDULERS]
    by_zones: dict[int, Raw] = {}
    for (zones, name, _), found in replayed(replay, runs).items():
        by_zones.setdefault(zones, {})[name] = found
    return {
        "ratio": RATIO,
        "seeds": list(numbers),
        "zone_seeds": list(zone_numbers),
        "trace": described(bundled()),
        "policies": by_zones[0],
        "zoned": {str(zones): by_zones[zones] for zones in ZONES},
    }


def described(trace: Trace) -> Raw:
    gpus = sum(node.gpus for node in trace.nodes)
    return {"nodes": len(trace.nodes), "gpus": gpus, "pods": len(trace.pods)}


def tables(found: Raw) -> dict[str, Measurement]:
    def beside(name: str, each: Raw) -> Row:
        pairs = ((each["mean"][figure], PUBLISHED[name][figure]) for figure in ("allocated", "fragments"))
        return tuple(f"{figure:.2f}" for pair in pairs for figure in pair)

    def zoned(_: str, each: Raw) -> Row:
        return *(f"{each['mean'][figure]:.2f}" for figure in CHARTED), f"{each['mean']['refusals']:,.0f}"

    def table(title: str, head: Sequence[str], runs: Raw, cells: Callable[[str, Raw], Row]) -> Measurement:
        rows = []
        for name, each in runs.items():
            allocated = [run["allocated"] for run in each["runs"]]
            rows.append((name, *cells(name, each), f"{min(allocated):.2f} to {max(allocated):.2f}"))
        return Measurement(title, rows, head=(*head, "range allocated, %"))

    head = ("policy", "allocated, %", "published", "fragments, %", "published")
    zone_head = ("strategy", *(f"{figure}, %" for figure in CHARTED), "rejections")
    return {
        "policies": table("no zones", head, found["policies"], beside),
        **{
            f"zones_{zones}": table(f"{zones} zones", zone_head, runs, zoned)
            for zones, runs in found["zoned"].items()
        },
    }


def filled(name: str, tables: Mapping[str, Measurement], **figures: object) -> str:
    template = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return template.format(**{at: "\n".join(table.markdown()) for at, table in tables.items()}, **figures)


def page(found: Raw) -> str:
    return filled(
        "replay_page.md",
        tables(found),
        **found["trace"],
        seeds=len(found["seeds"]),
        first=found["seeds"][0],
        last=found["seeds"][-1],
        zone_seeds=", ".join(map(str, found["zone_seeds"])),
        requested=round(found["ratio"] * PER_CENT),
    )


def charts(found: Raw) -> dict[str, str]:
    """Return the charts of the replays with zones, by the ends of their names."""
    made = dict[str, str]()
    for zones, strategies in found["zoned"].items():
        curves = {name: [ZoneSample(**each) for each in strategies[name]["curve"]] for name in _DRAWN}
        drawn = replay_charts(curves, f"{zones} zones").items()
        made |= {f"{zones}-zones-{figure}.svg": chart for figure, chart in drawn}
    return made


def measure(chosen: Namespace) -> Iterable[Measurement]:
    found = figures(chosen.seeds, chosen.zone_seeds)
    write_page(page(found), found, chosen.markdown)
    for name, chart in charts(found).items() if chosen.markdown else ():
        chosen.markdown.with_name(f"{chosen.markdown.stem}-{name}").write_text(chart, encoding="utf-8")
    return tables(found).values()


main = program(
    "replays",
    __doc__,
    measure,
    seeds=(10, 1, "number of seeds without zones"),
    zone_seeds=(1, 1, "number of seeds with zones"),
    markdown=MARKDOWN,
)

if __name__ == "__main__":
    sys.exit(main(None))
