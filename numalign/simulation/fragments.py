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

from numalign.cache.arrays import Bools
from numalign.simulation.gpu_columns import GpuColumns
from numalign.simulation.trace import TracePod

POPULAR = 0.95
"""The most frequent shapes that together make up this share of all pods are typical."""


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
