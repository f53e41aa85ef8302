"""
Replay the openb trace with kubelets that choose between equally good zones as KEP-6007 proposes.

`--markdown docs/measurements/kep-6007.md` writes the page, and next to it kep-6007.json with all figures,
from which the page is generated. It takes some minutes of one processor.
"""

import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product

from numalign.kubelet.admit import admit, charge
from numalign.model import demand
from numalign.model.intent import Policy
from numalign.model.node import Known, Node, Zone
from numalign.model.options import DEFAULTS, NumaStrategy, Options, TopologyOption
from numalign.model.pod import Container, Pod
from numalign.model.resources import CPU, MEMORY, MILLI, Resources, ZoneId
from numalign.simulation.replay_summary import mean_of
from numalign.simulation.trace import Trace
from numalign.simulation.zone_replay import Zoning, replay_on_zones, turnover_on_zones
from tools.bench.replays import FIRST_SEED, ZONES, Raw, bundled, described, filled, replayed
from tools.bench.tables import MARKDOWN, Measurement, Row, program, write_page

KUBELETS: Mapping[str, Options] = {
    "none": DEFAULTS,
    "most-allocated": Options(strategy=NumaStrategy.MOST_ALLOCATED),
    "least-allocated": Options(strategy=NumaStrategy.LEAST_ALLOCATED),
    "prefer-most-allocated": Options(topology=frozenset({TopologyOption.PREFER_MOST_ALLOCATED})),
}
"""The kubelets that are compared, by their option; the last is that of the KEP's first text."""

SCHEDULERS = "stock", "scorer"

ONE_OF = 32
"""One of so many nodes of the trace is replayed."""

DAYS: Mapping[str, tuple[float, float | None, int, int, int]] = {
    "filling": (1.3, None, 50, 100, 5),
    "turnover": (2.5, 0.9, 100, 250, 10),
}
"""How pods come and go: how many times the GPUs all request, and those alive, None if none end. What counts
is what happens while they request from one per cent of all GPUs to another, sampled every few per cent."""


def fleet() -> Trace:
    trace = bundled()
    return Trace(trace.nodes[::ONE_OF], trace.pods)


def replay(name: str, zones: int, scheduler: str, kubelet: str, seed: int) -> Raw:
    """Replay a day, with all pods Guaranteed and whole CPUs, under single-numa-node.

    Return what happened in the part of the day that counts per 100 pods, and the mean state in it.
    """
    pinned, (ratio, load, start, end, every) = fleet().pinned(), DAYS[name]
    nodes = Zoning(zones, Policy.SINGLE_NUMA_NODE, options=KUBELETS[kubelet]).nodes_of(pinned)
    run = partial(turnover_on_zones, load=load) if load else replay_on_zones
    sampled = run(nodes, pinned, scheduler, ratio=ratio, seed=seed, every=every)
    samples = [each for each in sampled if start <= each.arrived <= end]
    first, last, mean = samples[0], samples[-1], mean_of(samples)
    pods = (last.pods - first.pods) / 100
    events = ("aligned", "turned_away", "refusals")
    states = ("free_cpus", "free_gpus", "stranded", "allocated")
    happened = {each: round((getattr(last, each) - getattr(first, each)) / pods, 3) for each in events}
    return {**happened, **{each: round(getattr(mean, each), 3) for each in states}}


def figures(seeds: int) -> Raw:
    numbers = [FIRST_SEED + at for at in range(seeds)]
    kinds = list(product(DAYS, ZONES, SCHEDULERS, KUBELETS))
    found = replayed(replay, [(*kind, seed) for kind in kinds for seed in numbers])
    return {
        "one_of": ONE_OF,
        "seeds": numbers,
        "trace": described(fleet()),
        "days": {name: {"ratio": ratio, "load": load} for name, (ratio, load, *_) in DAYS.items()},
        "cases": [
            {
                "title": title,
                "pods": [pod.name for pod in pods],
                "zones": {name: outcome(devices, pods, options) for name, options in KUBELETS.items()},
            }
            for title, devices, pods in CASES
        ],
        "replays": [
            {
                **dict(zip(("day", "zones", "scheduler", "kubelet"), kind, strict=True)),
                "runs": [found[*kind, seed] for seed in numbers],
            }
            for kind in kinds
        ],
    }


# ---- the smallest cases in which the options differ: one node, and three pods in turn

DEVICE = "example.com/nic"
GIB = 2**30


def _amounts(cpus: int, gib: int, devices: int) -> Resources:
    return Resources({CPU: cpus * MILLI, MEMORY: gib * GIB, **({DEVICE: devices} if devices else {})})


def _pod(name: str, cpus: int, devices: int = 0) -> Pod:
    # Each CPU with 1 GiB of memory.
    amounts = _amounts(cpus, cpus, devices)
    return Pod(name, containers=(Container("main", requests=amounts, limits=amounts),))


SMALL, LARGE = _pod("4 CPUs", 4), _pod("8 CPUs", 8)
PINNED = _pod("4 CPUs and a device of zone 1", 4, 1)
CASES = (
    ("A pod is pinned to zone 1 by its device, as in the KEP's figures", 1, (PINNED, SMALL, LARGE)),
    ("The same, but the last pod needs the other device of zone 1", 2, (PINNED, SMALL, PINNED)),
    ("Nothing is pinned", 0, (SMALL, SMALL, LARGE)),
)
"""Titles, the devices in the second zone of a node of two zones of 8 CPUs, and the pods that arrive."""


def outcome(devices: int, pods: Sequence[Pod], options: Options) -> list[int | None]:
    """Return the zone that each pod gets, None if the kubelet rejects it."""
    members = tuple(
        Zone(ZoneId(at), f"node-{at}", each, each, each, ((ZoneId(at), 10), (ZoneId(1 - at), 21)))
        for at, each in enumerate((_amounts(8, 16, 0), _amounts(8, 16, devices)))
    )
    node = Node("node", members, policy=Policy.SINGLE_NUMA_NODE, known=Known.CONFIGURED, options=options)
    zones: list[int | None] = []
    for pod in pods:
        admission = admit(node, demand.of(pod))
        node = charge(node, admission)
        zones.append(None if admission.refusal else min(admission.placement.zones))
    return zones


# ---- the page

_FIGURES: Mapping[str, tuple[str, int]] = {
    "in one zone, %": ("aligned", 2),
    "turned away, %": ("turned_away", 2),
    "by seed": ("", 0),
    "rejections per 100": ("refusals", 1),
    "free CPUs": ("free_cpus", 1),
    "free GPUs": ("free_gpus", 2),
    "stranded, %": ("stranded", 2),
    "allocated, %": ("allocated", 2),
}
"""The columns: what they show, and its decimal places."""


def tables(found: Raw) -> dict[str, Measurement]:
    rows: dict[tuple[str, int], list[Row]] = {}
    for each in found["replays"]:
        runs = each["runs"]
        by_seed = ", ".join(f"{run['turned_away']:.2f}" for run in runs)
        means = (
            f"{sum(run[name] for run in runs) / len(runs):.{places}f}" if name else by_seed
            for name, places in _FIGURES.values()
        )
        cells = (each["scheduler"], each["kubelet"], *means)
        rows.setdefault((each["day"], each["zones"]), []).append(cells)
    head = ("scheduler", "kubelets", *_FIGURES)
    return {
        f"{day}_{zones}": Measurement(f"{day}, {zones} zones", cells, head=head)
        for (day, zones), cells in rows.items()
    }


def page(found: Raw) -> str:
    days, cases = found["days"], list[str]()
    for case in found["cases"]:
        rows = [
            (name, *("rejected" if zone is None else f"zone {zone}" for zone in zones))
            for name, zones in case["zones"].items()
        ]
        table = Measurement("", rows, head=("kubelet", *case["pods"]))
        cases += [f"**{case['title']}.**", "", *table.markdown(), ""]
    return filled(
        "kep_6007_page.md",
        tables(found),
        **found["trace"],
        one_of=found["one_of"],
        seeds=", ".join(map(str, found["seeds"])),
        filled=round(days["filling"]["ratio"] * 100),
        turned=round(days["turnover"]["ratio"] * 100),
        load=round(days["turnover"]["load"] * 100),
        cases="\n".join(cases),
    )


def measure(chosen: Namespace) -> Iterable[Measurement]:
    found = figures(chosen.seeds)
    write_page(page(found), found, chosen.markdown)
    return tables(found).values()


main = program("kep_6007", __doc__, measure, seeds=(5, 1, "number of seeds"), markdown=MARKDOWN)

if __name__ == "__main__":
    sys.exit(main(None))
