"""A replay: pods arrive one after the other, and what becomes of the cluster is looked at now and then."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from numalign.simulation.arrivals import Arrivals
from numalign.simulation.gpu_columns import GpuColumns
from numalign.simulation.trace import TracePod

EVERY = 1.0
"""A sample each time that pods asked for so many per cent more of all GPUs."""

PER_CENT = 100


@dataclass(frozen=True, slots=True)
class Sample:
    """How things stand once so much was asked for, in per cent of the GPUs that there are.

    `stranded` are the fragments that would be none if nodes had no zones. `refusals` are pods that a kubelet
    refused, counted, each as often as it was made anew.
    """

    arrived: float
    allocated: float
    fragments: float
    stranded: float = 0
    refusals: float = 0


class ReplayedCluster(Protocol):
    """What pods are placed on."""

    @property
    def columns(self) -> GpuColumns:
        """Its nodes, and what is left of them."""

    def place(self, shape: int, pod: TracePod) -> None:
        """Put a pod, which is of the shape with that number, on a node if it fits anywhere."""

    @property
    def refusals(self) -> int:
        """How often a kubelet refused a pod."""

    def fragments(self) -> tuple[float, float]:
        """Fragments as things stand, and those of them that zones make, in thousandths of GPUs."""


def replay(cluster: ReplayedCluster, pods: Arrivals) -> Iterator[Sample]:
    """Place all pods; a sample after the first, every `EVERY` per cent, and at the end. It has GPUs."""
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
