"""
Replay a trace on the nodes of a cluster, or on those of the trace with assumed zones.

Everything is read before anything is replayed, and every mistake in it is reported at once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubectl_numa.lines import some
from kubectl_numa.listings import ListedRow
from numalign.kube.command_line import Trouble
from numalign.model.errors import BadInput, Mistake
from numalign.model.intent import Policy, Scope
from numalign.model.node import Node
from numalign.model.spelling import closest_word
from numalign.simulation.cluster_nodes import gpu_node
from numalign.simulation.replay import Sample
from numalign.simulation.replay_charts import replay_charts
from numalign.simulation.replay_summary import mean_curve, mean_of, to_document
from numalign.simulation.trace import Trace, read_pods, read_trace
from numalign.simulation.zone_cluster import GpuNode
from numalign.simulation.zone_replay import Zoning, replay_on_zones
from numalign.simulation.zone_schedulers import ZONE_SCHEDULERS

DEFAULT_ZONES = 2
DEFAULT_POLICY = Policy.RESTRICTED

COLUMNS = ("strategy", "allocated", "fragments", "stranded", "refusals")
WIDE_COLUMNS = ("least allocated", "most allocated", "seeds")


@dataclass(frozen=True, slots=True)
class MadeUpZones:
    """What is assumed about the nodes of a trace; None for the default."""

    zones: int | None = None
    policy: Policy | None = None
    scope: Scope | None = None

    def zoning(self) -> Zoning:
        """Return the zones, with defaults for what was not given."""
        return Zoning(
            self.zones or DEFAULT_ZONES, self.policy or DEFAULT_POLICY, self.scope or Scope.CONTAINER
        )

    def none_without_a_table(self) -> None:
        """Raise `Trouble` if something is given that the nodes of a cluster already have."""
        flags = {"--zones": self.zones, "--topology-policy": self.policy, "--topology-scope": self.scope}
        if given_flags := [flag for flag, value in flags.items() if value is not None]:
            raise Trouble(
                f"{some(given_flags)}: needs nodes of a trace (--nodes), as a cluster has zones of its own"
            )


@dataclass(frozen=True, slots=True)
class Gpus:
    """The resource of a cluster's nodes for GPUs, and the label for their model."""

    resource: str
    model_label: str


@dataclass(frozen=True, slots=True)
class Simulation:
    """What is replayed: these nodes and pods, with `ratio` times the GPUs requested, once for each seed."""

    nodes: Sequence[GpuNode]
    pods: Trace
    strategies: Sequence[str]
    ratio: float
    seeds: Sequence[int]

    def __post_init__(self) -> None:
        if not any(node.counted.gpus for node in self.nodes):
            raise Trouble("no node has a GPU, so there is nothing to allocate")

    def run(self, progress: Callable[[str], None]) -> "Simulated":
        """Replay them all; call `progress` with what has been done."""
        replays: dict[str, list[list[Sample]]] = {name: [] for name in self.strategies}
        for name in self.strategies:
            for at, seed in enumerate(self.seeds, start=1):
                samples = list[Sample]()
                for sample in replay_on_zones(self.nodes, self.pods, name, ratio=self.ratio, seed=seed):
                    samples.append(sample)
                    progress(f"{name}, {at} of {len(self.seeds)}: {sample.arrived:.0f} % requested")
                replays[name].append(samples)
        return Simulated(self, replays)


@dataclass(frozen=True, slots=True)
class Simulated:
    """The results, by strategy and seed."""

    simulation: Simulation
    replays: Mapping[str, Sequence[Sequence[Sample]]] = field(default_factory=dict)

    def rows(self) -> Iterator[ListedRow]:
        """Yield a row for each strategy: per cent of all GPUs, refusals as a mean."""
        for name, replays in self.replays.items():
            last = [samples[-1] for samples in replays]
            mean, allocated = mean_of(last), [sample.allocated for sample in last]
            shares = (mean.allocated, mean.fragments, mean.stranded)
            cells = (name, *(f"{share:.2f} %" for share in shares), f"{mean.refusals:,.0f}")
            wide = (f"{min(allocated):.2f} %", f"{max(allocated):.2f} %", len(last))
            yield ListedRow(f"strategy/{name}", (*cells, *wide))

    def documents(self) -> list[dict[str, Any]]:
        """
        Return a document for each strategy: the mean, how each seed ended, and the curve.

        All is in per cent of all GPUs, except `refusals`, which are pods.
        """
        return [
            {
                "strategy": name,
                "ratio": self.simulation.ratio,
                "mean": to_document(mean_of(samples[-1] for samples in replays)),
                "runs": [
                    {"seed": seed, **to_document(samples[-1])}
                    for seed, samples in zip(self.simulation.seeds, replays, strict=True)
                ],
                "curve": [to_document(sample) for sample in mean_curve(replays)],
            }
            for name, replays in self.replays.items()
        ]

    def write_charts(self, folder: Path) -> list[Path]:
        """Write a chart for each figure into an existing folder; raise `OSError`."""
        curves = {name: mean_curve(replays) for name, replays in self.replays.items()}
        written = []
        for figure, chart in replay_charts(curves, f"{len(self.simulation.nodes):,} nodes").items():
            path = folder / f"simulate-{figure}.svg"
            path.write_text(chart, encoding="utf-8")
            written.append(path)
        return written


def strategies(text: str) -> tuple[str, ...]:
    """Return comma-separated strategies; raise `BadInput` with every unknown one."""
    small = {name.lower(): name for name in ZONE_SCHEDULERS}
    names = [word.strip() for word in text.split(",")]
    mistakes = [Mistake("--strategies", _unknown(name)) for name in names if name.lower() not in small]
    if mistakes:
        raise BadInput(mistakes)
    return tuple(dict.fromkeys(small[name.lower()] for name in names))


def _unknown(name: str) -> str:
    closest = closest_word(name, ZONE_SCHEDULERS)
    hint = f"; did you mean {closest}?" if closest else ""
    return f'"{name}" is not one of {", ".join(ZONE_SCHEDULERS)}{hint}'


def read_tables(nodes: Path | None, pods: Path) -> Trace:
    """Return both tables, or pods alone; raise `BadInput` with every mistake in either, and `OSError`."""
    return Trace((), read_pods(pods)) if nodes is None else read_trace(nodes, pods)


def nodes_of_cluster(nodes: Sequence[Node], gpus: Gpus) -> list[GpuNode]:
    """Return the nodes of a cluster whose zones are known; raise `Trouble` if there are none."""
    if not nodes:
        raise Trouble("no node publishes its zones: pass nodes of a trace with --nodes")
    return [gpu_node(node, gpus.resource, gpus.model_label) for node in nodes]
