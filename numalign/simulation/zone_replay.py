"""Replays on nodes whose kubelets align."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush

import numpy as np

from numalign.model.intent import Policy, Scope
from numalign.model.options import DEFAULTS, Options
from numalign.simulation.gpu_columns import typical_pods
from numalign.simulation.replay import EVERY, PER_CENT, Arrivals, arrivals, replay
from numalign.simulation.trace import Trace
from numalign.simulation.zone_cluster import PlacedPod, ZoneCluster, ZoneNodes, ZoneSample
from numalign.simulation.zone_schedulers import ZONE_SCHEDULERS
from numalign.simulation.zoned_nodes import GpuNode, gpu_zones, zoned_node


@dataclass(frozen=True, slots=True)
class Zoning:
    """The zones that are assumed for the nodes of a trace, and how their kubelets are configured."""

    zones: int
    policy: Policy
    scope: Scope = Scope.CONTAINER
    options: Options = DEFAULTS

    def nodes_of(self, trace: Trace) -> list[GpuNode]:
        """Return the nodes of a trace with these zones."""
        nodes = list[GpuNode]()
        for node in trace.nodes:
            made = zoned_node("", node, zones=self.zones, policy=self.policy, scope=self.scope)
            gpus = gpu_zones(node, len(made.zones))
            nodes.append(GpuNode(replace(made, options=self.options), node, gpus))
        return nodes


def replay_on_zones(  # noqa: PLR0913  a replay, and how often it is sampled
    nodes: Sequence[GpuNode],
    trace: Trace,
    scheduler: str,
    *,
    ratio: float,
    seed: int,
    every: float = EVERY,
) -> Iterator[ZoneSample]:
    """Replay pods of a trace that request `ratio` times the GPUs; `scheduler` is one of `ZONE_SCHEDULERS`.

    The seed shuffles pods and nodes. `every` is as in `replay`.
    """
    cluster, pods = _begun(nodes, trace, scheduler, ratio, seed)
    yield from replay(cluster, pods, every)


def turnover_on_zones(  # noqa: PLR0913  a replay, how long its pods live, and how often it is sampled
    nodes: Sequence[GpuNode],
    trace: Trace,
    scheduler: str,
    *,
    ratio: float,
    seed: int,
    load: float,
    every: float = EVERY,
) -> Iterator[ZoneSample]:
    """Replay as `replay_on_zones`, but pods end: those alive request `load` times the GPUs on average.

    Each lives until a random number of others have arrived (exponential), which depends on the seed alone.
    Yield a sample every so many per cent of all GPUs that pods request.
    """
    cluster, pods = _begun(nodes, trace, scheduler, ratio, seed)
    mean_life = load / ratio * len(pods.order)
    lives = np.random.default_rng([seed, 1]).exponential(mean_life, len(pods.order)).tolist()
    ends, asked = list[tuple[float, int, PlacedPod]](), 0
    due = step = every / PER_CENT * cluster.columns.gpu_milli
    for turn, (number, life) in enumerate(zip(pods.order, lives, strict=True)):
        while ends and ends[0][0] <= turn:
            cluster.end(heappop(ends)[2])
        pod = pods.shapes[number]
        if placed := cluster.place(pod):
            heappush(ends, (turn + life, turn, placed))
        asked += pod.gpu_milli
        if asked >= due:
            yield cluster.sample(asked)
            due += step


def _begun(
    nodes: Sequence[GpuNode], trace: Trace, scheduler: str, ratio: float, seed: int
) -> tuple[ZoneCluster, Arrivals]:
    """Return the empty cluster and the pods to come, both shuffled by the seed."""
    dice = np.random.default_rng(seed)
    counted = Trace([node.counted for node in nodes], trace.pods)
    pods = arrivals(counted, ratio, dice)
    shuffled = ZoneNodes([nodes[at] for at in dice.permutation(len(nodes))])
    typical = typical_pods(trace.pods)
    return ZoneCluster(shuffled, partial(ZONE_SCHEDULERS[scheduler], dice), typical), pods
