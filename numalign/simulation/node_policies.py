"""
Policies of "Beware of Fragmentation" (USENIX ATC 2023) that choose a node, and GPUs on it, but ignore zones.

They reimplement the published simulator (hkust-adsl/kubernetes-scheduler-simulator at 8f3d641,
pkg/simulator/plugin): each scores the nodes that fit with a whole number, 0 to 100, and the first of the best
gets the pod. There, the scores of BestFit are rescaled afterwards, which does not change their order.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from numalign.cache.arrays import Ints, Rows
from numalign.simulation.arrivals import Dice
from numalign.simulation.fragments import Floats, FragmentMeasure
from numalign.simulation.gpu_columns import GpuColumns
from numalign.simulation.trace import WHOLE_GPU, TracePod

HIGHEST_SCORE = 100
MOST_CPU = 128_000
"""Millicores that count as a whole node when amounts are scaled."""

MOST_GPU = 8000
"""Thousandths of GPUs that count as a whole node when amounts are scaled."""


class NodePolicy(ABC):
    """Scores nodes for a pod, and chooses its GPUs on the chosen node."""

    def __init__(self, columns: GpuColumns, measure: FragmentMeasure, dice: Dice) -> None:
        self.columns = columns
        self.measure = measure
        self.dice = dice

    @abstractmethod
    def scores(self, pod: TracePod, rows: Rows) -> Ints:
        """Return the score of each of these nodes, on all of which the pod fits: 0 to 100, shape (n,)."""

    def choose(self, scores: Ints) -> int:
        """Return the best node, the first among equals.

        Scores are -1 where the pod does not fit; it fits on at least one node.
        """
        return int(scores.argmax())

    def slots(self, pod: TracePod, row: int) -> Sequence[int]:
        """Return the GPUs of a chosen node that the pod gets: whole ones in order, or one to share."""
        gpus = self.columns.gpus[row]
        if pod.shares:
            return [self.shared_slot(pod, row, np.flatnonzero(gpus >= pod.share))]
        return np.flatnonzero(gpus == WHOLE_GPU)[: pod.gpus].tolist() if pod.gpus else []

    def shared_slot(self, pod: TracePod, row: int, slots: Rows) -> int:  # noqa: ARG002 subclasses use the pod
        """Return which of these GPUs, all large enough, to share: the one with the least left."""
        return int(slots[np.argmin(self.columns.gpus[row, slots])])


class Random(NodePolicy):
    """A random node, and a random one of its GPUs to share."""

    def scores(self, pod: TracePod, rows: Rows) -> Ints:  # noqa: ARG002 random
        """Return the same score for all nodes."""
        return np.zeros(len(rows), dtype=np.int64)

    def choose(self, scores: Ints) -> int:
        """Return a random node on which the pod fits."""
        return int(self.dice.choice(np.flatnonzero(scores >= 0)))

    def shared_slot(self, pod: TracePod, row: int, slots: Rows) -> int:  # noqa: ARG002 random
        """Return a random one of these GPUs."""
        return int(self.dice.choice(slots))


class BestFit(NodePolicy):
    """The node with the least left, CPUs and GPUs together."""

    def scores(self, pod: TracePod, rows: Rows) -> Ints:
        """Return 100 less the mean of what is left of CPUs and of GPUs, in per cent of a whole node."""
        cpu = (self.columns.cpu[rows] - pod.cpu) / MOST_CPU
        gpu = (self.columns.gpus[rows].sum(axis=1) - pod.gpu_milli) / MOST_GPU
        return _whole((1 - (0.5 * cpu + 0.5 * gpu)) * HIGHEST_SCORE)


class DotProduct(NodePolicy):
    """The node with the smallest product of what is left and requested (Tetris' alignment, reversed)."""

    def scores(self, pod: TracePod, rows: Rows) -> Ints:
        """Return 100 * (1 - p / 2); p is the dot product of what is left and requested, in whole nodes."""
        cpu = self.columns.cpu[rows] / MOST_CPU * (pod.cpu / MOST_CPU)
        gpu = self.columns.gpus[rows].sum(axis=1) / MOST_GPU * (pod.gpu_milli / MOST_GPU)
        return _whole((1 - (cpu + gpu) / 2) * HIGHEST_SCORE)


class GpuPacking(NodePolicy):
    """GPUs that are already shared before free ones, and these before those of empty nodes."""

    def scores(self, pod: TracePod, rows: Rows) -> Ints:
        """Return 0 for a pod without GPUs; else at least 50, at most 50, or at most 33 for the three."""
        if not pod.gpus:
            return np.zeros(len(rows), dtype=np.int64)
        gpus = np.sort(self.columns.gpus[rows], axis=1)
        free, large = (gpus == WHOLE_GPU).sum(axis=1), gpus >= pod.share
        taken = large & (large.cumsum(axis=1) <= pod.gpus)
        opened = (taken & (gpus == WHOLE_GPU)).sum(axis=1)
        leftover = np.where(taken, gpus * HIGHEST_SCORE // WHOLE_GPU, 0).sum(axis=1)
        shared = np.maximum(HIGHEST_SCORE - leftover // 10, HIGHEST_SCORE // 2)
        used = np.maximum(HIGHEST_SCORE // 2 - opened, HIGHEST_SCORE // 3)
        empty = np.maximum(HIGHEST_SCORE // 3 - free, free)
        scores: Ints = np.where(
            free == self.columns.gpu_counts[rows], empty, np.where(opened > 0, used, shared)
        )
        return scores


class GpuClustering(NodePolicy):
    """Nodes whose pods request GPUs in the same way as this one, then empty ones; the fuller the better."""

    def scores(self, pod: TracePod, rows: Rows) -> Ints:
        """Return 0 for a pod without GPUs; else one of four quarters, by the requests of the node's pods."""
        if not pod.gpus:
            return np.zeros(len(rows), dtype=np.int64)
        quarter, beside = HIGHEST_SCORE // 4, self.columns.kinds[rows]
        fullness = quarter * (MOST_GPU - self.columns.gpus[rows].sum(axis=1)) // MOST_GPU
        alike = np.where(beside == pod.kind, 3, 2)
        scores: Ints = fullness + quarter * np.where(beside & pod.kind, alike, np.where(beside == 0, 1, 0))
        return scores


class FragmentationGradient(NodePolicy):
    """FGD: the node, and the GPU to share, where fragments grow least."""

    def scores(self, pod: TracePod, rows: Rows) -> Ints:
        """Return 50 where fragments stay the same, less where they grow, more where they shrink."""
        return self._by_slot(pod, rows).max(axis=1) if pod.shares else self._of_whole(pod, rows)

    def shared_slot(self, pod: TracePod, row: int, slots: Rows) -> int:  # noqa: ARG002 too small ones score -1
        """Return the first of the GPUs where fragments grow least."""
        return int(self._by_slot(pod, np.array([row]))[0].argmax())

    def _of_whole(self, pod: TracePod, rows: Rows) -> Ints:
        gpus = self.columns.gpus[rows]
        if pod.gpus:
            idle = gpus == WHOLE_GPU
            gpus = np.where(idle & (idle.cumsum(axis=1) <= pod.gpus), 0, gpus)
        return self._steepness(rows, self._now(rows), self.columns.cpu[rows] - pod.cpu, gpus)

    def _by_slot(self, pod: TracePod, rows: Rows) -> Ints:
        """Return the score by GPU to share, shape (n, slots); -1 where it is too small or repeats another."""
        gpus = self.columns.gpus[rows]
        # GPUs of one node with the same amount left are equal: only the first of them is scored.
        first = np.tril(gpus[:, :, None] == gpus[:, None, :]).argmax(axis=2) == np.arange(gpus.shape[1])
        at, slot = np.nonzero((gpus >= pod.share) & first)
        left = gpus[at]
        left[np.arange(len(at)), slot] -= pod.share
        scores = np.full(gpus.shape, -1, dtype=np.int64)
        scores[at, slot] = self._steepness(
            rows[at], self._now(rows)[at], self.columns.cpu[rows[at]] - pod.cpu, left
        )
        return scores

    def _now(self, rows: Rows) -> Floats:
        return self.measure(rows, self.columns.cpu[rows], self.columns.gpus[rows])

    def _steepness(self, rows: Rows, before: Floats, cpu: Ints, gpus: Ints) -> Ints:
        return steepness(before, self.measure(rows, cpu, gpus))


class FragmentationGradientByChance(FragmentationGradient):
    """FGD as kube-scheduler would run it: it chooses a random one of the best nodes."""

    def choose(self, scores: Ints) -> int:
        """Return a random one of the best nodes."""
        return int(self.dice.choice(np.flatnonzero(scores == scores.max())))


def steepness(before: Floats, after: Floats) -> Ints:
    """Return the scores of changes in fragments: 50 for no change, more where they shrink."""
    return _whole(HIGHEST_SCORE / (1 + np.exp((after - before) / WHOLE_GPU)))


def _whole(scores: Floats) -> Ints:
    """Return scores rounded towards zero."""
    return scores.astype(np.int64)


NODE_POLICIES: Mapping[str, Callable[[GpuColumns, FragmentMeasure, Dice], NodePolicy]] = MappingProxyType(
    {
        "Random": Random,
        "DotProd": DotProduct,
        "GpuClustering": GpuClustering,
        "GpuPacking": GpuPacking,
        "BestFit": BestFit,
        "FGD": FragmentationGradient,
        "FGD, ties by chance": FragmentationGradientByChance,
    }
)
"""Policies by their names in the published tables; the last one is in none."""
