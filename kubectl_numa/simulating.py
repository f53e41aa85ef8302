"""
Replay a trace on the nodes of a cluster, or on those of the trace with assumed zones.

Everything is read before anything is replayed, and every mistake in it is reported at once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kubectl_numa.lines import some
from kubectl_numa.listings import ListedRow
from numalign.kube.command_line import Trouble
from numalign.kube.decode.kubelet_config import MOST_WEIGHT, KubeletConfiguration, configuration
from numalign.kube.decode.parts import Part, named
from numalign.model.errors import BadInput, Mistake
from numalign.model.intent import Policy, Scope
from numalign.model.node import Node
from numalign.model.options import DEFAULTS, STRATEGY, WEIGHTS, NumaStrategy, Options, TopologyOption
from numalign.model.spelling import closest_word
from numalign.simulation.replay import PER_CENT
from numalign.simulation.replay_summary import mean_curve, mean_of, replay_charts, to_document
from numalign.simulation.trace import Trace, read_pods, read_trace
from numalign.simulation.zone_cluster import ZoneSample
from numalign.simulation.zone_replay import Zoning, replay_on_zones
from numalign.simulation.zone_schedulers import ZONE_SCHEDULERS
from numalign.simulation.zoned_nodes import GPU, GpuNode, gpu_node

DEFAULT_ZONES = 2
DEFAULT_POLICY = Policy.RESTRICTED

COLUMNS = ("strategy", "allocated", "fragments", "stranded", "refusals")
WIDE_COLUMNS = (
    *("aligned", "turned away", "free CPUs", "free GPUs"),
    *("least allocated", "most allocated", "seeds"),
)


@dataclass(frozen=True, slots=True)
class MadeUpZones:
    """What is assumed about the nodes of a trace; None for the default."""

    zones: int | None = None
    policy: Policy | None = None
    scope: Scope | None = None

    def zoning(self, options: Options | None) -> Zoning:
        """Return the zones, with defaults for what was not given."""
        return Zoning(
            self.zones or DEFAULT_ZONES,
            self.policy or DEFAULT_POLICY,
            self.scope or Scope.CONTAINER,
            options or DEFAULTS,
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
        replays: dict[str, list[list[ZoneSample]]] = {name: [] for name in self.strategies}
        for name in self.strategies:
            for at, seed in enumerate(self.seeds, start=1):
                samples = list[ZoneSample]()
                for sample in replay_on_zones(self.nodes, self.pods, name, ratio=self.ratio, seed=seed):
                    samples.append(sample)
                    progress(f"{name}, {at} of {len(self.seeds)}: {sample.arrived:.0f} % requested")
                replays[name].append(samples)
        return Simulated(self, replays)


@dataclass(frozen=True, slots=True)
class Simulated:
    """The results, by strategy and seed."""

    simulation: Simulation
    replays: Mapping[str, Sequence[Sequence[ZoneSample]]] = field(default_factory=dict)

    def rows(self) -> Iterator[ListedRow]:
        """Yield a row for each strategy: per cent of all GPUs, or of all pods; the rest are means."""
        for name, replays in self.replays.items():
            last = [samples[-1] for samples in replays]
            mean, allocated = mean_of(last), [sample.allocated for sample in last]
            shares = (mean.allocated, mean.fragments, mean.stranded)
            cells = (name, *(f"{share:.2f} %" for share in shares), f"{mean.refusals:,.0f}")
            pods = (f"{share / mean.pods * PER_CENT:.2f} %" for share in (mean.aligned, mean.turned_away))
            free = (f"{mean.free_cpus:.1f}", f"{mean.free_gpus:.2f}")
            wide = (*pods, *free, f"{min(allocated):.2f} %", f"{max(allocated):.2f} %", len(last))
            yield ListedRow(f"strategy/{name}", (*cells, *wide))

    def documents(self) -> list[dict[str, Any]]:
        """Return a document for each strategy: the mean, how each seed ended, and the curve.

        All is in per cent of all GPUs, except `refusals`, `pods`, `aligned` and `turned_away`, which count
        pods, and `free_cpus` and `free_gpus`.
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
    if wrong := [name for name in names if name.lower() not in small]:
        raise BadInput(Mistake("--strategies", _not_one_of(name, ZONE_SCHEDULERS)) for name in wrong)
    return tuple(dict.fromkeys(small[name.lower()] for name in names))


OPTION_VALUES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(TopologyOption, "true or false"),
        STRATEGY: ", ".join(NumaStrategy),
        WEIGHTS: f"weights from 0 to {MOST_WEIGHT} such as cpu=3,{GPU}=6",
    }
)
"""The options of the topology manager that a replay can have, and their values in words."""


def kubelet_options(texts: Sequence[str]) -> Options | None:
    """Return the options in texts like NAME=VALUE, None without any; raise `BadInput` with every mistake."""
    told, mistakes = dict[str, str](), list[str]()
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in OPTION_VALUES:
            mistakes.append(_not_one_of(name, OPTION_VALUES))
        elif name in told:
            mistakes.append(f"{name} is given twice")
        elif not equals or _read({name: value}).unknown_options:
            mistakes.append(f"{name} is {named(value)}: write {name}=VALUE, with {OPTION_VALUES[name]}")
        else:
            told[name] = value
    if mistakes:
        raise BadInput([Mistake("--kubelet-option", mistake) for mistake in mistakes])
    read = _read(told)
    options = Options(topology=read.topology_options, strategy=read.strategy, weights=read.weights)
    return options if told else None


def _read(told: Mapping[str, str]) -> KubeletConfiguration:
    return configuration(Part({"topologyManagerPolicyOptions": told}), "")


def _not_one_of(name: str, known: Iterable[str]) -> str:
    closest = closest_word(name, known)
    hint = f"; did you mean {closest}?" if closest else ""
    return f'"{name}" is not one of {", ".join(known)}{hint}'


def read_tables(nodes: Path | None, pods: Path) -> Trace:
    """Return both tables, or pods alone; raise `BadInput` with every mistake in either, and `OSError`."""
    return Trace((), read_pods(pods)) if nodes is None else read_trace(nodes, pods)


def nodes_of_cluster(nodes: Sequence[Node], gpus: Gpus, options: Options | None = None) -> list[GpuNode]:
    """Return the nodes of a cluster whose zones are known; raise `Trouble` if there are none.

    With `options`, they replace those of each node's topology manager.
    """
    if not nodes:
        raise Trouble("no node publishes its zones: pass nodes of a trace with --nodes")
    made = [gpu_node(node, gpus.resource, gpus.model_label) for node in nodes]
    return made if options is None else [_with_options(node, options, gpus) for node in made]


def _with_options(node: GpuNode, chosen: Options, gpus: Gpus) -> GpuNode:
    """Return a node of a cluster with other options of its topology manager."""
    weights = [(GPU if name == gpus.resource else name, weight) for name, weight in chosen.weights]
    options = replace(
        node.zoned.options, topology=chosen.topology, strategy=chosen.strategy, weights=tuple(weights)
    )
    return replace(node, zoned=replace(node.zoned, options=options))
