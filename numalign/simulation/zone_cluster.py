"""
A cluster whose kubelets align: a scheduler chooses a node for each pod, and the kubelet admits or refuses it.

Kubelets are those of `numalign.kubelet`, and `numalign.cache` evaluates nodes for a pod, as for the scorer.
Columns hold what any scheduler counts: CPUs, memory, and what is left of each GPU.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from numalign.cache import ClusterCache, Question
from numalign.cache.arrays import Rows
from numalign.cache.evaluation import Evaluation
from numalign.kubelet import admit as kubelet
from numalign.kubelet.admit import PodAdmitResult
from numalign.kubelet.managers_state import Assignments, assignments_since
from numalign.model.node import Node
from numalign.model.placement import Placement
from numalign.model.resources import CPU, MILLI
from numalign.simulation.gpu_columns import GpuColumns, TypicalPod, fragments
from numalign.simulation.replay import Sample, shares
from numalign.simulation.trace import TracePod
from numalign.simulation.zoned_nodes import GPU, GPU_SHARE, NOTHING, GpuNode, question, with_free_gpus

ATTEMPTS = 5
"""How often a pod is scheduled at most: its owner creates it again each time that a kubelet refuses it."""


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod on a node: which of its GPUs the pod has, and how its kubelet admitted it."""

    row: int
    pod: TracePod
    slots: Sequence[int]
    admission: PodAdmitResult

    @property
    def aligned(self) -> bool:
        """Whether all that it holds is in the same zone."""
        return [len(zones) for zones in self.admission.placement.kept] == [1]


@dataclass(frozen=True, slots=True)
class ZoneSample(Sample):
    """A sample with what only kubelets that align cause.

    Of `pods` that arrived, `aligned` got all from one zone, and `turned_away` found room on a node in total,
    but no kubelet that admits them. `free_cpus` and `free_gpus` are free in the zone of a node that has most
    of them: the mean over nodes, of whole CPUs and of GPUs that no pod shares.
    """

    pods: float = 0
    aligned: float = 0
    turned_away: float = 0
    free_cpus: float = 0
    free_gpus: float = 0


@dataclass(frozen=True, slots=True)
class AskedPod:
    """A pod to schedule; `rows` are the nodes that have enough left, whatever their zones."""

    pod: TracePod
    question: Question
    rows: Rows


class ZoneNodes:
    """Nodes and what is left of them. Their numbers are in the given order, and their names sort likewise."""

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

    def evaluation(self, question: Question) -> Evaluation:
        """Return the evaluation of all nodes for a pod, by their numbers."""
        return self.cache.ask([], question).evaluation

    def admission(self, row: int, question: Question) -> PodAdmitResult:
        """Return how the kubelet of a node decides on a pod."""
        return kubelet.admit(self.cache.nodes.node(row), question.demand)

    def put(self, row: int, pod: TracePod, admission: PodAdmitResult) -> PlacedPod:
        """Place a pod on a node that admits it."""
        slots = self._slots(row, pod, admission.placement)
        self.columns.take(row, pod, slots)
        self._store(kubelet.charge(self.cache.nodes.node(row), admission), row)
        return PlacedPod(row, pod, slots, admission)

    def end(self, placed: PlacedPod) -> None:
        """Remove a pod that has ended."""
        row, kept = placed.row, placed.admission.placement.kept
        self.columns.give_back(row, placed.pod, placed.slots)
        held = assignments_since(placed.admission.before, placed.admission.after)
        # Nodes here have CPUs and GPUs by amount: only memory is given back as the manager recorded it.
        node = kubelet.release(self.cache.nodes.node(row), [Assignments(blocks=held.blocks)])
        zones = tuple(
            replace(zone, free=zone.free.plus({CPU: kept[zone.id,].get(CPU, 0)}))
            if (zone.id,) in kept
            else zone
            for zone in node.zones
        )
        self._store(replace(node, zones=zones), row)

    def _store(self, node: Node, row: int) -> None:
        """Store a node with what its columns have left of each GPU."""
        zones = self._gpu_zones[row]
        gpus = self.columns.gpus[row, : len(zones)].tolist()
        self.cache.nodes.put(with_free_gpus(node, zones, gpus))

    def largest(self, resource: str) -> float:
        """Return how much of a resource is free in the zone of a node that has most, as the mean of nodes."""
        nodes = [self.cache.nodes.node(row) for row in range(len(self.names))]
        most = [max((zone.free.get(resource, 0) for zone in node.zones), default=0) for node in nodes]
        return sum(most) / len(most)

    def _slots(self, row: int, pod: TracePod, placement: Placement) -> list[int]:
        """Return GPUs in the zones that the kubelet chose: whole ones in order, or the fullest with room.

        For a pod that no policy binds to zones, any other GPU comes after those.
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


class ZoneCluster:
    """Nodes, and a scheduler that chooses those for pods among nodes that have enough left."""

    def __init__(
        self,
        nodes: ZoneNodes,
        choose: Callable[[ZoneNodes, AskedPod], int | None],
        typical: Sequence[TypicalPod],
    ) -> None:
        self._nodes = nodes
        self.columns = nodes.columns
        self._choose = choose
        self._typical = [(each, question(each.pod)) for each in typical]
        self._questions: dict[TracePod, Question] = {}
        self._refusals = self._pods = self._aligned = self._turned_away = 0

    def place(self, pod: TracePod) -> PlacedPod | None:
        """Let the scheduler choose until a kubelet admits the pod, at most `ATTEMPTS` times."""
        if pod not in self._questions:
            self._questions[pod] = question(pod)
        fitting = np.flatnonzero(self.columns.fits(pod) & self.columns.accessible(pod))
        asked, placed = AskedPod(pod, self._questions[pod], fitting), None
        for _ in range(ATTEMPTS if len(fitting) else 0):
            row = self._choose(self._nodes, asked)
            if row is None:
                break
            admission = self._nodes.admission(row, asked.question)
            if not admission.refusal:
                placed = self._nodes.put(row, pod, admission)
                break
            self._refusals += 1
        self._pods += 1
        self._turned_away += placed is None and len(fitting) > 0
        self._aligned += placed is not None and placed.aligned
        return placed

    def end(self, placed: PlacedPod) -> None:
        """Remove a pod that has ended."""
        self._nodes.end(placed)

    def sample(self, asked: int) -> ZoneSample:
        """Return the current state, once pods requested so many thousandths of GPUs."""
        arrived, allocated, fragments, stranded = shares(self.columns, asked, *self.fragments())
        return ZoneSample(
            arrived,
            allocated,
            fragments,
            stranded,
            self._refusals,
            pods=self._pods,
            aligned=self._aligned,
            turned_away=self._turned_away,
            free_cpus=self._nodes.largest(CPU) / MILLI,
            free_gpus=self._nodes.largest(GPU),
        )

    def fragments(self) -> tuple[float, float]:
        """Return the current fragments, and those of them that zones cause, in thousandths of GPUs."""
        admitting = ((each, self._nodes.evaluation(asked).admitted()) for each, asked in self._typical)
        return fragments(self.columns, admitting)
