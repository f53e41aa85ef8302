"""
Replay the openb trace with kubelets that choose between equally good zones as KEP-6007 proposes.

`--markdown docs/measurements/kep-6007.md` writes the page, and next to it kep-6007.json with all figures,
from which the page is generated. It takes some minutes of one processor.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

from numalign.kubelet.admit import admit, charge
from numalign.model import demand
from numalign.model.intent import Policy
from numalign.model.node import Known, Node, Zone
from numalign.model.options import DEFAULTS, NumaStrategy, Options, TopologyOption
from numalign.model.pod import Container, Pod
from numalign.model.resources import CPU, MEMORY, MILLI, Resources, ZoneId
from numalign.simulation.replay_summary import mean_of
from numalign.simulation.trace import Trace
from numalign.simulation.zone_cluster import ZoneSample
from numalign.simulation.zone_replay import Zoning, replay_on_zones, turnover_on_zones
from tools.bench.replays import FIRST_SEED, ZONES, Raw, bundled, described, replayed
from tools.bench.tables import Measurement, parsed, write_page

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


DAYS: Mapping[str, Day] = {
    "filling": Day(1.3, None, 50, 100, 5),
    "turnover": Day(2.5, 0.9, 100, 250, 10),
}


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
        replay = partial(turnover_on_zones, load=day.load) if day.load else replay_on_zones
        return list(replay(nodes, pinned, self.scheduler, ratio=day.ratio, seed=self.seed, every=day.every))


def fleet() -> Trace:
    """Return the trace with a part of its nodes."""
    trace = bundled()
    return Trace(trace.nodes[::ONE_OF], trace.pods)


def measure(seeds: int) -> Raw:
    """Run all replays on all processors; return the document of the run."""
    numbers = [FIRST_SEED + at for at in range(seeds)]
    kinds = list(product(DAYS, ZONES, SCHEDULERS, KUBELETS))
    found = dict(replayed([Run(*kind, seed) for kind in kinds for seed in numbers]))
    return {
        "one_of": ONE_OF,
        "seeds": numbers,
        "trace": described(fleet()),
        "days": {name: {"ratio": day.ratio, "load": day.load} for name, day in DAYS.items()},
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
                "runs": [figures(DAYS[kind[0]], found[Run(*kind, seed)]) for seed in numbers],
            }
            for kind in kinds
        ],
    }


def figures(day: Day, samples: Sequence[ZoneSample]) -> Raw:
    """Return what happened in the part of a day that counts per 100 pods, and the mean state in it."""
    samples = [each for each in samples if day.first <= each.arrived <= day.last]
    first, last, mean = samples[0], samples[-1], mean_of(samples)
    pods = (last.pods - first.pods) / 100
    events, states = (
        ("aligned", "turned_away", "refusals"),
        ("free_cpus", "free_gpus", "stranded", "allocated"),
    )
    happened = {name: round((getattr(last, name) - getattr(first, name)) / pods, 3) for name in events}
    return {**happened, **{name: round(getattr(mean, name), 3) for name in states}}


# ---- the smallest cases in which the options differ: one node, and three pods in turn

DEVICE = "example.com/nic"
GIB = 2**30


def _pod(name: str, cpus: int, devices: int = 0) -> Pod:
    """Return a Guaranteed pod of so many CPUs, each with 1 GiB of memory, and of devices."""
    more = {DEVICE: devices} if devices else {}
    amounts = Resources({CPU: cpus * MILLI, MEMORY: cpus * GIB, **more})
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
    amounts = [Resources({CPU: 8 * MILLI, MEMORY: 16 * GIB, DEVICE: count}) for count in (0, devices)]
    members = tuple(
        Zone(ZoneId(at), f"node-{at}", each, each, each, ((ZoneId(at), 10), (ZoneId(1 - at), 21)))
        for at, each in enumerate(amounts)
    )
    node = Node("node", members, policy=Policy.SINGLE_NUMA_NODE, known=Known.CONFIGURED, options=options)
    zones: list[int | None] = []
    for pod in pods:
        admission = admit(node, demand.of(pod))
        node = charge(node, admission)
        zones.append(None if admission.refusal else min(admission.placement.zones))
    return zones


# ---- the page

_TEMPLATE = Path(__file__).with_name("kep_6007_page.md")
_HEAD = (
    *("scheduler", "kubelets", "in one zone, %", "turned away, %", "by seed"),
    *("rejections per 100", "free CPUs", "free GPUs", "stranded, %", "allocated, %"),
)


def tables(found: Raw) -> dict[str, Measurement]:
    """Return the tables of the replays, by day and zones."""
    return {
        f"{day}_{zones}": Measurement(
            f"{day}, {zones} zones", [_row(each) for each in _replays(found, day, zones)], head=_HEAD
        )
        for day, zones in _parts(found)
    }


def _parts(found: Raw) -> list[tuple[str, int]]:
    return list(dict.fromkeys((each["day"], each["zones"]) for each in found["replays"]))


def _replays(found: Raw, day: str, zones: int) -> list[Raw]:
    return [each for each in found["replays"] if (each["day"], each["zones"]) == (day, zones)]


def _row(each: Raw) -> Sequence[str]:
    runs = each["runs"]
    mean = {name: sum(run[name] for run in runs) / len(runs) for name in runs[0]}
    return (
        each["scheduler"],
        each["kubelet"],
        f"{mean['aligned']:.2f}",
        f"{mean['turned_away']:.2f}",
        ", ".join(f"{run['turned_away']:.2f}" for run in runs),
        f"{mean['refusals']:.1f}",
        f"{mean['free_cpus']:.1f}",
        f"{mean['free_gpus']:.2f}",
        f"{mean['stranded']:.2f}",
        f"{mean['allocated']:.2f}",
    )


def page(found: Raw) -> str:
    """Return the page; it depends on these figures only."""
    days = found["days"]
    return _TEMPLATE.read_text(encoding="utf-8").format(
        **found["trace"],
        one_of=found["one_of"],
        seeds=", ".join(map(str, found["seeds"])),
        filled=round(days["filling"]["ratio"] * 100),
        turned=round(days["turnover"]["ratio"] * 100),
        load=round(days["turnover"]["load"] * 100),
        cases="\n".join(_cases(found)),
        **{place: "\n".join(table.markdown()) for place, table in tables(found).items()},
    )


def _cases(found: Raw) -> Iterator[str]:
    for case in found["cases"]:
        rows = [
            (name, *("rejected" if zone is None else f"zone {zone}" for zone in zones))
            for name, zones in case["zones"].items()
        ]
        table = Measurement("", rows, head=("kubelet", *case["pods"]))
        yield from (f"**{case['title']}.**", "", *table.markdown(), "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay as the flags say; return 0."""
    chosen = parsed(
        "kep_6007",
        __doc__,
        arguments,
        seeds=(5, 1, "number of seeds"),
        markdown=(None, None, "write the page here, and its figures"),
    )
    found = measure(chosen.seeds)
    print("\n\n".join(table.printed() for table in tables(found).values()))
    write_page(page(found), found, {}, chosen.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
