"""
Policies of "Beware of Fragmentation" (USENIX ATC 2023) that choose a node, and GPUs on it, knowing no zones.

They restate the published simulator (hkust-adsl/kubernetes-scheduler-simulator at 8f3d641,
pkg/simulator/plugin): each scores the nodes that fit with a whole number, 0 to 100, and the first of the best
gets the pod. There the scores of BestFit are spread afterwards, which does not change their order.
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
"""Millicores that count as a whole node when what is left is weighed."""

MOST_GPU = 8000
"""Thousandths of GPUs that count as a whole node."""


class NodePolicy(ABC):
    """Scores nodes for a pod, and picks its GPUs once a node is chosen."""

    def __init__(self, columns: GpuColumns, measure: FragmentMeasure, dice: Dice) -> None:
        self.columns = columns
        self.measure = measure
        self.dice = dice

    @abstractmethod
    def scores(self, pod: TracePod, rows: Rows) -> Ints:
        """How good each of these nodes is, all of which fit: 0 to 100, shape (n,)."""

    def choose(self, scores: Ints) -> int:
        """Return one of the nodes, which score -1 where the pod does not fit; at least one fits."""
        return int(scores.argmax())

    def slots(self, pod: TracePod, row: int) -> Sequence[int]:
        """Return the GPUs of a chosen node that the pod gets: whole ones in order, or one to share."""
        gpus = self.columns.gpus[row]
        if pod.shares:
            return [self.shared_slot(pod, row, np.flatnonzero(gpus >= pod.share))]
        return np.flatnonzero(gpus == WHOLE_GPU)[: pod.gpus].tolist() if pod.gpus else []

    def shared_slot(self, pod: TracePod, row: int, slots: Rows) -> int:  # noqa: ARG002 others look at the pod
        """Return which of these GPUs, all large enough, is shared: the one with the least left."""
        return int(slots[np.argmin(self.columns.gpus[row, slots])])


class Random(NodePolicy):
    """Any node, and any of its GPUs."""

    def scores(self, pod: TracePod, rows: Rows) -> Ints:  # noqa: ARG002 chance looks at nothing
        """Return all alike."""
        return np.zeros(len(rows), dtype=np.int64)

    def choose(self, scores: Ints) -> int:
        """Any that fits."""
        return int(self.dice.choice(np.flatnonzero(scores >= 0)))

    def shared_slot(self, pod: TracePod, row: int, slots: Rows) -> int:  # noqa: ARG002 chance looks at nothing
        """Any of them."""
        return int(self.dice.choice(slots))


class BestFit(NodePolicy):
    """The node of which the least is left, CPUs and GPUs together."""

    def scores(self, pod: TracePod, rows: Rows) -> Ints:
        """100 less the mean of what is left of either, as shares of a large node."""
        cpu = (self.columns.cpu[rows] - pod.cpu) / MOST_CPU
        gpu = (self.columns.gpus[rows].sum(axis=1) - pod.gpu_milli) / MOST_GPU
        return _whole((1 - (0.5 * cpu + 0.5 * gpu)) * HIGHEST_SCORE)


class DotProduct(NodePolicy):
    """The node whose rest is least of the kind that the pod asks for (the alignment of Tetris, reversed)."""

    def scores(self, pod: TracePod, rows: Rows) -> Ints:
        """100 less half of the product of what is left and what is asked, as shares of a large node."""
        cpu = self.columns.cpu[rows] / MOST_CPU * (pod.cpu / MOST_CPU)
        gpu = self.columns.gpus[rows].sum(axis=1) / MOST_GPU * (pod.gpu_milli / MOST_GPU)
        return _whole((1 - (cpu + gpu) / 2) * HIGHEST_SCORE)


class GpuPacking(NodePolicy):
    """GPUs that are shared already before free ones, and those before nodes that are empty."""

    def scores(self, pod: TracePod, rows: Rows) -> Ints:
        """0 for a pod without GPUs; else above 50, to 50, and to 33 for the three."""
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
    """Nodes whose pods ask for as many GPUs as this one, then empty ones; the fuller the better."""

    def scores(self, pod: TracePod, rows: Rows) -> Ints:
        """0 for a pod without GPUs; else four quarters, by whom the pod would be beside."""
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
        """50 where fragments stay as they are, less where they grow, more where they shrink."""
        return self._by_slot(pod, rows).max(axis=1) if pod.shares else self._of_whole(pod, rows)

    def shared_slot(self, pod: TracePod, row: int, slots: Rows) -> int:  # noqa: ARG002 too small ones score -1
        """Return the first of those where fragments grow least."""
        return int(self._by_slot(pod, np.array([row]))[0].argmax())

    def _of_whole(self, pod: TracePod, rows: Rows) -> Ints:
        gpus = self.columns.gpus[rows]
        if pod.gpus:
            idle = gpus == WHOLE_GPU
            gpus = np.where(idle & (idle.cumsum(axis=1) <= pod.gpus), 0, gpus)
        return self._steepness(rows, self._now(rows), self.columns.cpu[rows] - pod.cpu, gpus)

    def _by_slot(self, pod: TracePod, rows: Rows) -> Ints:
        """The score by each GPU that could be shared, of shape (n, slots); -1 where it is too small."""
        gpus = self.columns.gpus[rows]
        # GPUs of one node with as much left are alike, and the first of them is chosen.
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
    """FGD as kube-scheduler would run it: among the best nodes chance decides."""

    def choose(self, scores: Ints) -> int:
        """Any of the best."""
        return int(self.dice.choice(np.flatnonzero(scores == scores.max())))


def steepness(before: Floats, after: Floats) -> Ints:
    """What it is worth that fragments come to so much: 50 where nothing changes, more where they shrink."""
    return _whole(HIGHEST_SCORE / (1 + np.exp((after - before) / WHOLE_GPU)))


def _whole(scores: Floats) -> Ints:
    """Rounded towards zero."""
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
"""By the names in the published tables; the last is in none."""
