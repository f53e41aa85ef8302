"""A replay: pods arrive one after the other, and the state of the cluster is sampled in between."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from numalign.simulation.arrivals import Arrivals
from numalign.simulation.gpu_columns import GpuColumns
from numalign.simulation.trace import TracePod

EVERY = 1.0
"""Per cent of all GPUs that pods request between two samples."""

PER_CENT = 100


@dataclass(frozen=True, slots=True)
class Sample:
    """The state once so much was requested (`arrived`), in per cent of all GPUs.

    `stranded` are the fragments that would not exist if nodes had no zones. `refusals` is the number of
    refusals by kubelets; a pod that is created again counts each time that it is refused.
    """

    arrived: float
    allocated: float
    fragments: float
    stranded: float = 0
    refusals: float = 0


class ReplayedCluster(Protocol):
    """The cluster on which pods are placed."""

    @property
    def columns(self) -> GpuColumns:
        """Its nodes, and what is left of them."""

    def place(self, shape: int, pod: TracePod) -> None:
        """Place a pod, whose shape has that number, on a node if it fits on any."""

    @property
    def refusals(self) -> int:
        """How often a kubelet refused a pod."""

    def fragments(self) -> tuple[float, float]:
        """Return the current fragments, and those of them that zones cause, in thousandths of GPUs."""


def replay(cluster: ReplayedCluster, pods: Arrivals) -> Iterator[Sample]:
    """Place all pods; yield a sample after the first, every `EVERY` per cent, and at the end.

    The cluster must have GPUs.
    """
    asked, due = 0, 0.0
    for number in pods.order:
        pod = pods.shapes[number]
        cluster.place(number, pod)
        asked += pod.gpu_milli
        if asked * PER_CENT >= due * cluster.columns.gpu_milli:
            yield _sample(cluster, asked)
            due += EVERY
    yield _sample(cluster, asked)


def _sample(cluster: ReplayedCluster, asked: int) -> Sample:
    columns = cluster.columns
    one = columns.gpu_milli / PER_CENT
    allocated = columns.gpu_milli - columns.free_gpu_milli
    fragments, stranded = cluster.fragments()
    return Sample(asked / one, allocated / one, fragments / one, stranded / one, cluster.refusals)
