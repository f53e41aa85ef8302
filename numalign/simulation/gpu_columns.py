"""
What is left of every node, in columns: millicores, bytes, and thousandths of each of its GPUs.

Zones are ignored: this is the view of a scheduler that counts the resources of nodes, and knows which GPU
each pod is on. A slot without a GPU has nothing left and is too small for every pod.

Fragments are idle GPUs that typical pods cannot use, as in "Beware of Fragmentation" (Weng et al., USENIX ATC
2023). For a typical pod, all idle GPUs of a node are fragments if the pod does not fit on the node, or
requests no GPU; otherwise those that are each too small for it. A node's fragments are the mean over typical
pods, weighted by their frequency. Memory is ignored there: it is not part of a typical pod.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from numalign.cache.arrays import Bools, Ints
from numalign.simulation.trace import WHOLE_GPU, TraceNode, TracePod

POPULAR = 0.95
"""The most frequent shapes that together make up this share of all pods are typical."""


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


@dataclass(frozen=True, slots=True)
class TypicalPod:
    """A shape of pods, and its share of all typical pods."""

    pod: TracePod
    frequency: float


def typical_pods(pods: Iterable[TracePod], popular: float = POPULAR) -> tuple[TypicalPod, ...]:
    """Return the most frequent shapes, in this order, that together make up the share `popular` of all pods.

    Of equally frequent shapes, the larger come first, as in the published runs.
    """

    def order(pod: TracePod) -> tuple[object, ...]:
        models = tuple(sorted(pod.models))
        return counts[pod], pod.cpu, pod.share, pod.gpus, models, pod.memory, pod.guaranteed

    counts = Counter(pods)
    wanted, reached, chosen = popular * counts.total(), 0, list[TracePod]()
    for pod in sorted(counts, key=order, reverse=True):
        if reached >= wanted:
            break
        chosen.append(pod)
        reached += counts[pod]
    return tuple(TypicalPod(pod, counts[pod] / reached) for pod in chosen)


def without_memory(pod: TracePod) -> TracePod:
    """Return a pod with only what the published measure considers: CPUs and GPUs."""
    return TracePod(pod.cpu, 0, pod.gpus, pod.share, pod.models)


def fragments(columns: GpuColumns, admitting: Iterable[tuple[TypicalPod, Bools]]) -> tuple[float, float]:
    """Return the fragments, and those of them that zones cause, in thousandths of GPUs.

    With each typical pod come the nodes whose kubelet admits it. It fits on those that have enough left too.
    """
    gpus, idle, total, stranded = columns.gpus, columns.gpus.sum(axis=1), 0.0, 0.0
    for typical, admitted in admitting:
        pod = typical.pod
        usable = np.where(gpus >= pod.share, gpus, 0).sum(axis=1) if pod.gpus else np.zeros_like(idle)
        fits = columns.fits(pod) & columns.accessible(pod)
        total += typical.frequency * float((idle - usable * (fits & admitted)).sum())
        stranded += typical.frequency * float(usable[fits & ~admitted].sum())
    return total, stranded
