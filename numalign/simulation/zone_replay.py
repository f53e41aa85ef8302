"""Replays on nodes whose kubelets align."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from numalign.model.intent import Policy, Scope
from numalign.simulation.arrivals import arrivals
from numalign.simulation.fragments import typical_pods
from numalign.simulation.replay import Sample, replay
from numalign.simulation.trace import Trace
from numalign.simulation.zone_cluster import GpuNode, ZoneCluster, ZoneNodes
from numalign.simulation.zone_schedulers import ZONE_SCHEDULERS
from numalign.simulation.zoned_nodes import gpu_zones, zoned_node


@dataclass(frozen=True, slots=True)
class Zoning:
    """The zones that are assumed for the nodes of a trace, and the policy of their kubelets."""

    zones: int
    policy: Policy
    scope: Scope = Scope.CONTAINER

    def nodes_of(self, trace: Trace) -> list[GpuNode]:
        """Return the nodes of a trace with these zones."""
        zoned = [
            zoned_node("", node, zones=self.zones, policy=self.policy, scope=self.scope)
            for node in trace.nodes
        ]
        return [
            GpuNode(made, node, gpu_zones(node, len(made.zones)))
            for made, node in zip(zoned, trace.nodes, strict=True)
        ]


def replay_on_zones(
    nodes: Sequence[GpuNode], trace: Trace, scheduler: str, *, ratio: float, seed: int
) -> Iterator[Sample]:
    """Replay pods of a trace that request `ratio` times the GPUs; `scheduler` is one of `ZONE_SCHEDULERS`.

    The seed shuffles pods and nodes.
    """
    dice = np.random.default_rng(seed)
    counted = Trace([node.counted for node in nodes], trace.pods)
    pods = arrivals(counted, ratio, dice)
    shuffled = ZoneNodes([nodes[at] for at in dice.permutation(len(nodes))])
    typical = typical_pods(trace.pods)
    yield from replay(ZoneCluster(shuffled, ZONE_SCHEDULERS[scheduler](dice, typical), typical), pods)
