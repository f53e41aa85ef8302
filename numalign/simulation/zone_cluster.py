"""
A cluster whose kubelets align: a scheduler sends each pod somewhere, and the kubelet has the last word.

Kubelets are those of `numalign.kubelet`, and what nodes answer to a pod is asked of `numalign.cache`, as the
scorer asks it. Beside that stands what any scheduler counts: CPUs, memory, and what is left of each GPU.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from numalign.cache import ClusterCache, Question
from numalign.cache.arrays import Bools, Rows
from numalign.cache.evaluation import Evaluation
from numalign.kubelet import admit as kubelet
from numalign.kubelet.admit import PodAdmitResult
from numalign.model.node import Node
from numalign.model.placement import Placement
from numalign.simulation.fragments import TypicalPod
from numalign.simulation.gpu_columns import GpuColumns
from numalign.simulation.trace import TraceNode, TracePod
from numalign.simulation.zoned_nodes import GPU, GPU_SHARE, question, with_free_gpus

ATTEMPTS = 5
"""So often a pod asks for a place, whose owner makes it anew each time that a kubelet refuses it."""


NOTHING = TracePod(0, 0)


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node with its zones, what a scheduler counts on it, and the zone of each of its GPUs, by position.

    What runs there already is `held`, as if a single pod had it, with these GPUs; the zones are without it.
    """

    zoned: Node
    counted: TraceNode
    gpu_zones: Sequence[int]
    held: TracePod = NOTHING
    held_gpus: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class AskedPod:
    """A pod that looks for a place; `rows` are the nodes that have enough left, whatever their zones."""

    pod: TracePod
    question: Question
    rows: Rows


class ZoneNodes:
    """Nodes and what is left of them. They are numbered in the order given, and so sort their names."""

    def __init__(self, nodes: Sequence[GpuNode]) -> None:
        self.names = [f"{row:06}" for row in range(len(nodes))]
        self.columns = GpuColumns([node.counted for node in nodes])
        self.cache = ClusterCache.of(
            replace(node.zoned, name=name) for name, node in zip(self.names, nodes, strict=True)
        )
        for row, node in enumerate(nodes):
            if node.held != NOTHING:
                self.columns.take(row, node.held, node.held_gpus)
        self._gpu_zones = [node.gpu_zones for node in nodes]
        kinds = dict[Hashable, int]()
        self._kinds = [
            kinds.setdefault((node.zoned.emptied(), node.counted, tuple(node.gpu_zones)), len(kinds))
            for node in nodes
        ]

    def evaluation(self, question: Question) -> Evaluation:
        """Return what all nodes answer to a pod, by their numbers."""
        return self.cache.ask([], question).evaluation

    def state(self, row: int) -> Hashable:
        """Equal for nodes that are alike and of which as much is left."""
        zones = self.cache.nodes.node(row).zones
        columns = self.columns
        counted = int(columns.cpu[row]), int(columns.memory[row]), columns.gpus[row].tobytes()
        return self._kinds[row], counted, tuple((zone.free, zone.cells, zone.assignments) for zone in zones)

    def admission(self, row: int, question: Question) -> PodAdmitResult:
        """Return what the kubelet of a node says to a pod."""
        return kubelet.admit(self.cache.nodes.node(row), question.demand)

    def after(self, row: int, pod: TracePod, admission: PodAdmitResult) -> tuple[Node, Sequence[int]]:
        """Return the node with a pod that it admits, and the GPUs that the pod has there."""
        slots, gpus = self._slots(row, pod, admission.placement), self.columns.gpus[row].copy()
        gpus[slots] -= pod.share
        zones = self._gpu_zones[row]
        charged = kubelet.charge(self.cache.nodes.node(row), admission)
        return with_free_gpus(charged, zones, gpus[: len(zones)].tolist()), slots

    def put(self, row: int, pod: TracePod, admission: PodAdmitResult) -> None:
        """Put a pod on a node that admits it."""
        node, slots = self.after(row, pod, admission)
        self.columns.take(row, pod, slots)
        self.cache.nodes.put(node)

    def _slots(self, row: int, pod: TracePod, placement: Placement) -> list[int]:
        """GPUs in the zones that the kubelet gives: whole ones in order, or the fullest that has room.

        Where no policy binds a pod to zones, any other GPU comes after those.
        """
        if not pod.gpus:
            return []
        gpus, zones = self.columns.gpus[row], self._gpu_zones[row]
        large = [slot for slot in range(len(zones)) if gpus[slot] >= pod.share]
        if pod.shares:
            given = _given(placement, GPU_SHARE)
            return [min(large, key=lambda slot: (zones[slot] not in given, gpus[slot]))]
        given, chosen = _given(placement, GPU), list[int]()
        for slot in large:
            if given.get(zones[slot], 0) > 0:
                given[zones[slot]] -= 1
                chosen.append(slot)
        return [*chosen, *(slot for slot in large if slot not in chosen)][: pod.gpus]


def _given(placement: Placement, resource: str) -> dict[int, int]:
    """Return how much of a device the pod gets, by the position of its zone."""
    return {
        int(zones[0]): amounts[resource] for zones, amounts in placement.kept.items() if resource in amounts
    }


class ZoneScheduler(Protocol):
    """Chooses a node for a pod."""

    def choose(self, nodes: ZoneNodes, asked: AskedPod) -> int | None:
        """Return one of the nodes that have enough left; None for none of them."""


class ZoneCluster:
    """Nodes, and who places pods on them."""

    def __init__(self, nodes: ZoneNodes, scheduler: ZoneScheduler, typical: Sequence[TypicalPod]) -> None:
        self._nodes = nodes
        self.columns = nodes.columns
        self._scheduler = scheduler
        self._typical = [(each, question(each.pod)) for each in typical]
        self._questions: dict[TracePod, Question] = {}
        self._every = np.arange(len(nodes.names))
        self._refusals = 0

    @property
    def refusals(self) -> int:
        """How often a kubelet refused a pod."""
        return self._refusals

    def place(self, shape: int, pod: TracePod) -> None:  # noqa: ARG002 the pod says enough
        """Let the scheduler choose until a kubelet admits the pod, as often as its owner makes it anew."""
        asked = AskedPod(pod, self._question(pod), np.flatnonzero(self._fits(pod)))
        for _ in range(ATTEMPTS):
            row = self._scheduler.choose(self._nodes, asked) if len(asked.rows) else None
            if row is None:
                return
            admission = self._nodes.admission(row, asked.question)
            if not admission.refusal:
                self._nodes.put(row, pod, admission)
                return
            self._refusals += 1

    def fragments(self) -> tuple[float, float]:
        """Fragments as things stand, and those of them that zones make, in thousandths of GPUs.

        A node takes a typical pod if it has enough left and its kubelet admits it.
        """
        idle, total, stranded = self.columns.gpus.sum(axis=1), 0.0, 0.0
        for typical, asked in self._typical:
            pod, gpus = typical.pod, self.columns.gpus
            usable = np.where(gpus >= pod.share, gpus, 0).sum(axis=1) if pod.gpus else np.zeros_like(idle)
            fits = self._fits(pod)
            admitted = fits & self._nodes.evaluation(asked).admitted()
            total += typical.frequency * float((idle - usable * admitted).sum())
            stranded += typical.frequency * float(usable[fits & ~admitted].sum())
        return total, stranded

    def _fits(self, pod: TracePod) -> Bools:
        return self.columns.fits(pod, self._every) & self.columns.accessible(pod)

    def _question(self, pod: TracePod) -> Question:
        if pod not in self._questions:
            self._questions[pod] = question(pod)
        return self._questions[pod]
