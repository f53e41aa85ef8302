"""
What is left of every node, in columns: millicores, bytes, and thousandths of each of its GPUs.

Zones are ignored: this is the view of a scheduler that counts the resources of nodes, and knows which GPU
each pod is on. A slot without a GPU has nothing left and is too small for every pod.
"""

from collections.abc import Sequence

import numpy as np

from numalign.cache.arrays import Bools, Ints
from numalign.simulation.trace import WHOLE_GPU, TraceNode, TracePod


class GpuColumns:
    """Rows are nodes, in the order given; `gpus` has a slot for each GPU of the largest node."""

    def __init__(self, nodes: Sequence[TraceNode]) -> None:
        slots = np.arange(max((node.gpus for node in nodes), default=0))
        counts: Ints = np.array([node.gpus for node in nodes], dtype=np.int64)
        self.cpu = np.array([node.cpu for node in nodes], dtype=np.int64)
        self.memory = np.array([node.memory for node in nodes], dtype=np.int64)
        self.gpus = np.where(slots < counts[:, None], WHOLE_GPU, 0)
        self.cpu_capacity, self.memory_capacity = self.cpu.copy(), self.memory.copy()
        self.models = np.array([node.model for node in nodes], dtype=object)
        self.gpu_milli = int(counts.sum()) * WHOLE_GPU

    def __len__(self) -> int:
        return len(self.cpu)

    @property
    def free_gpu_milli(self) -> int:
        """Thousandths of GPUs that are free."""
        return int(self.gpus.sum())

    def accessible(self, pod: TracePod) -> Bools:
        """Return for each node whether the pod accepts the model of its GPUs."""
        if not pod.models:
            return np.ones(len(self), dtype=np.bool_)
        return np.isin(self.models, list(pod.models))

    def fits(self, pod: TracePod) -> Bools:
        """Return which nodes have enough left, whatever the models of their GPUs."""
        enough: Bools = (self.cpu >= pod.cpu) & (self.memory >= pod.memory)
        if pod.gpus:
            enough &= (self.gpus >= pod.share).sum(axis=1) >= pod.gpus
        return enough

    def take(self, row: int, pod: TracePod, slots: Sequence[int]) -> None:
        """Place a pod on a node and on these of its GPUs."""
        self.cpu[row] -= pod.cpu
        self.memory[row] -= pod.memory
        self.gpus[row, list(slots)] -= pod.share

    def give_back(self, row: int, pod: TracePod, slots: Sequence[int]) -> None:
        """Free what a pod had."""
        self.cpu[row] += pod.cpu
        self.memory[row] += pod.memory
        self.gpus[row, list(slots)] += pod.share
