"""
Fragments: idle GPUs that typical pods cannot use.

The measure is that of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023). For a typical pod, all idle
GPUs of a node are fragments if the pod does not fit on the node, or requests no GPU; otherwise those that are
each too small for it. A node's fragments are the mean over typical pods, weighted by their frequency. Memory
is ignored here: it is not part of a typical pod.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.simulation.gpu_columns import GpuColumns
from numalign.simulation.trace import TracePod

POPULAR = 0.95
"""The most frequent shapes that together make up this share of all pods are typical."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TypicalPod:
    """A shape of pods, and its share of all typical pods."""

    pod: TracePod
    frequency: float


def typical_pods(pods: Iterable[TracePod], popular: float = POPULAR) -> tuple[TypicalPod, ...]:
    """Return the most frequent shapes, in this order, that together make up the share `popular` of all pods.

    Of equally frequent shapes, the larger come first, as in the published runs.
    """
    counts = Counter(pods)
    ordered = sorted(counts.items(), key=lambda counted: (counted[1], _size(counted[0])), reverse=True)
    wanted, reached, chosen = popular * counts.total(), 0, list[tuple[TracePod, int]]()
    for pod, count in ordered:
        if reached >= wanted:
            break
        chosen.append((pod, count))
        reached += count
    return tuple(TypicalPod(pod, count / reached) for pod, count in chosen)


def without_memory(pod: TracePod) -> TracePod:
    """Return a pod with only what the published measure considers: CPUs and GPUs."""
    return TracePod(pod.cpu, 0, pod.gpus, pod.share, pod.models)


def _size(pod: TracePod) -> tuple[int, int, int, tuple[str, ...], int, bool]:
    return pod.cpu, pod.share, pod.gpus, tuple(sorted(pod.models)), pod.memory, pod.guaranteed


class FragmentMeasure:
    """The fragments of nodes for typical pods; to those without GPUs, every idle GPU is a fragment."""

    def __init__(self, typical: Iterable[TypicalPod], columns: GpuColumns) -> None:
        every = list(typical)
        asking = [each for each in every if each.pod.gpus]
        self._of_others = sum(each.frequency for each in every if not each.pod.gpus)
        self._frequency = np.array([each.frequency for each in asking])
        self._cpu = np.array([each.pod.cpu for each in asking], dtype=np.int64)
        self._count = np.array([each.pod.gpus for each in asking], dtype=np.int64)
        self._shares = np.array(sorted({each.pod.share for each in asking}), dtype=np.int64)
        self._share = np.searchsorted(self._shares, [each.pod.share for each in asking])
        accessible = [columns.accessible(each.pod) for each in asking]
        self._accessible = np.array(accessible, dtype=np.bool_).reshape(len(asking), len(columns)).T

    def __call__(self, rows: Rows, cpu: Ints, gpus: Ints) -> Floats:
        """Return the fragments, in thousandths of GPUs, of these nodes if so much is left of them.

        `rows`, `cpu` and the result have shape (n,), `gpus` has shape (n, slots).
        """
        idle = gpus.sum(axis=1)
        large = gpus[:, :, None] >= self._shares
        count, usable = large.sum(axis=1), np.einsum("ns,nsk->nk", gpus, large)
        takes: Bools = (cpu[:, None] >= self._cpu) & (count[:, self._share] >= self._count)
        takes &= self._accessible[rows]
        of_typical = (idle[:, None] - np.where(takes, usable[:, self._share], 0)) @ self._frequency
        fragments: Floats = of_typical + self._of_others * idle
        return fragments

    def total(self, columns: GpuColumns) -> float:
        """Return the fragments of all nodes together, in thousandths of GPUs."""
        return float(self(np.arange(len(columns)), columns.cpu, columns.gpus).sum())
