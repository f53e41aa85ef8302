"""
Replays on nodes without zones: the check that a replay reproduces published figures.

Random and BestFit are policies of "Beware of Fragmentation" (USENIX ATC 2023), restated from the published
simulator (hkust-adsl/kubernetes-scheduler-simulator at 8f3d641, pkg/simulator/plugin). Each chooses a node
that has enough left, and GPUs on it; of equally good nodes, the first gets the pod.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from numalign.cache.arrays import Rows
from numalign.simulation.gpu_columns import GpuColumns, TypicalPod, fragments, typical_pods, without_memory
from numalign.simulation.replay import Dice, Sample, arrivals, replay, shares
from numalign.simulation.trace import WHOLE_GPU, Trace, TracePod

_MOST_CPU, _MOST_GPU = 128_000, 8000
"""Millicores and thousandths of GPUs that count as a whole node."""

NodePolicy = Callable[[GpuColumns, TracePod, Rows, Dice], tuple[int, int | None]]
"""Chooses one of the rows, on all of which the pod fits, and the GPU to share if the pod shares one."""


def random_node(columns: GpuColumns, pod: TracePod, rows: Rows, dice: Dice) -> tuple[int, int | None]:
    """Choose a random node, and a random one of its GPUs to share."""
    row = int(dice.choice(rows))
    return row, int(dice.choice(_large(columns, pod, row))) if pod.shares else None


def best_fit(columns: GpuColumns, pod: TracePod, rows: Rows, _dice: Dice) -> tuple[int, int | None]:
    """Choose the node with the least left, CPUs and GPUs together, and its GPU with the least left."""
    cpu = (columns.cpu[rows] - pod.cpu) / _MOST_CPU
    gpu = (columns.gpus[rows].sum(axis=1) - pod.gpu_milli) / _MOST_GPU
    scores = ((1 - (0.5 * cpu + 0.5 * gpu)) * 100).astype(np.int64)
    row = int(rows[scores.argmax()])
    slots = _large(columns, pod, row)
    return row, int(slots[columns.gpus[row, slots].argmin()]) if pod.shares else None


def _large(columns: GpuColumns, pod: TracePod, row: int) -> Rows:
    """Return the GPUs of a node of which the pod could get a share."""
    return np.flatnonzero(columns.gpus[row] >= pod.share)


NODE_POLICIES: Mapping[str, NodePolicy] = MappingProxyType({"Random": random_node, "BestFit": best_fit})
"""Policies by their names in the published tables."""


def replay_on_nodes(trace: Trace, policy: str, *, ratio: float, seed: int) -> Iterator[Sample]:
    """Replay pods of a trace that request `ratio` times its GPUs; `policy` is one of `NODE_POLICIES`.

    The seed shuffles pods and nodes.
    """
    dice = np.random.default_rng(seed)
    pods = arrivals(trace, ratio, dice)
    columns = GpuColumns([trace.nodes[at] for at in dice.permutation(len(trace.nodes))])
    typical = typical_pods(map(without_memory, trace.pods))
    yield from replay(NodeCluster(columns, typical, NODE_POLICIES[policy], dice), pods)


@dataclass(frozen=True, slots=True)
class NodeCluster:
    """Nodes without zones, on which a policy places pods."""

    columns: GpuColumns
    typical: Sequence[TypicalPod]
    policy: NodePolicy
    dice: Dice

    def sample(self, asked: int) -> Sample:
        """Return the current state; there is no kubelet that could refuse a pod."""
        every = np.ones(len(self.columns), dtype=np.bool_)
        found, _ = fragments(self.columns, ((each, every) for each in self.typical))
        return Sample(*shares(self.columns, asked, found))

    def place(self, pod: TracePod) -> None:
        """Place a pod on the node that the policy chooses, if it fits on any."""
        rows = np.flatnonzero(self.columns.fits(pod) & self.columns.accessible(pod))
        if len(rows):
            row, shared = self.policy(self.columns, pod, rows, self.dice)
            whole = np.flatnonzero(self.columns.gpus[row] == WHOLE_GPU)[: pod.gpus].tolist()
            self.columns.take(row, pod, whole if shared is None else [shared])
