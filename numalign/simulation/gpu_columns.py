"""
What is left of every node, in columns: millicores, bytes, and thousandths of each of its GPUs.

Zones are ignored: this is the view of a scheduler that counts the resources of nodes, and knows which GPU
each pod is on. A slot without a GPU has nothing left and is too small for every pod.
"""

from collections.abc import Sequence

import numpy as np

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.simulation.trace import WHOLE_GPU, TraceNode, TracePod


class GpuColumns:
    """Rows are nodes, in the order given; `gpus` has a slot for each GPU of the largest node.

    `kinds` combines the bits of the pods on a node (`TracePod.kind`).
    """

    def __init__(self, nodes: Sequence[TraceNode]) -> None:
        slots = np.arange(max((node.gpus for node in nodes), default=0))
        self.gpu_counts: Ints = np.array([node.gpus for node in nodes], dtype=np.int64)
        self.cpu = np.array([node.cpu for node in nodes], dtype=np.int64)
        self.memory = np.array([node.memory for node in nodes], dtype=np.int64)
        self.gpus = np.where(slots < self.gpu_counts[:, None], WHOLE_GPU, 0)
        self.cpu_capacity, self.memory_capacity = self.cpu.copy(), self.memory.copy()
        self.models = np.array([node.model for node in nodes], dtype=object)
        self.gpu_milli = int(self.gpu_counts.sum()) * WHOLE_GPU
        self.kinds: Ints = np.zeros(len(nodes), dtype=np.int64)
        self.version = 0
        self._changed = np.zeros(len(nodes), dtype=np.int64)

    def copied(self, rows: Rows) -> "GpuColumns":
        """Return these nodes in their current state, in columns of their own; `rows` must be different."""
        some = GpuColumns(())
        some.gpu_counts, some.models, some.kinds = self.gpu_counts[rows], self.models[rows], self.kinds[rows]
        some.cpu, some.memory, some.gpus = self.cpu[rows], self.memory[rows], self.gpus[rows]
        some.cpu_capacity, some.memory_capacity = self.cpu_capacity[rows], self.memory_capacity[rows]
        some.gpu_milli = int(some.gpu_counts.sum()) * WHOLE_GPU
        some._changed = np.zeros_like(some.cpu)
        return some

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

    def fits(self, pod: TracePod, rows: Rows) -> Bools:
        """Return which of these nodes have enough left, whatever the models of their GPUs."""
        enough: Bools = (self.cpu[rows] >= pod.cpu) & (self.memory[rows] >= pod.memory)
        if pod.gpus:
            enough &= (self.gpus[rows] >= pod.share).sum(axis=1) >= pod.gpus
        return enough

    def take(self, row: int, pod: TracePod, slots: Sequence[int]) -> None:
        """Place a pod on a node and on these of its GPUs."""
        self.cpu[row] -= pod.cpu
        self.memory[row] -= pod.memory
        self.gpus[row, list(slots)] -= pod.share
        self.kinds[row] |= pod.kind
        self._note(row)

    def give_back(self, row: int, pod: TracePod, slots: Sequence[int]) -> None:
        """Free what a pod had; the node keeps the bits of its kind."""
        self.cpu[row] += pod.cpu
        self.memory[row] += pod.memory
        self.gpus[row, list(slots)] += pod.share
        self._note(row)

    def _note(self, row: int) -> None:
        self.version += 1
        self._changed[row] = self.version

    def changed_since(self, version: int) -> Rows:
        """Return the nodes on which a pod was placed after that version."""
        return np.flatnonzero(self._changed > version)
