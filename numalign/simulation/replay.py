"""A replay: pods arrive one after the other, and the state of the cluster is sampled in between."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

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


SampleT_co = TypeVar("SampleT_co", bound=Sample, covariant=True)


class ReplayedCluster(Protocol[SampleT_co]):
    """The cluster on which pods are placed."""

    @property
    def columns(self) -> GpuColumns:
        """Its nodes, and what is left of them."""

    def place(self, shape: int, pod: TracePod) -> object:
        """Place a pod, whose shape has that number, on a node if it fits on any."""

    def sample(self, asked: int) -> SampleT_co:
        """Return the current state, once pods requested so many thousandths of GPUs."""


def replay(
    cluster: ReplayedCluster[SampleT_co], pods: Arrivals, every: float = EVERY
) -> Iterator[SampleT_co]:
    """Place all pods; yield a sample after the first, every so many per cent, and at the end.

    The cluster must have GPUs.
    """
    asked, due = 0, 0.0
    for number in pods.order:
        pod = pods.shapes[number]
        cluster.place(number, pod)
        asked += pod.gpu_milli
        if asked * PER_CENT >= due * cluster.columns.gpu_milli:
            yield cluster.sample(asked)
            due += every
    yield cluster.sample(asked)


def shares(columns: GpuColumns, asked: int, *milli: float) -> tuple[float, ...]:
    """Return what was requested, what is allocated and other thousandths of GPUs, in per cent of all GPUs."""
    one = columns.gpu_milli / PER_CENT
    return tuple(amount / one for amount in (asked, columns.gpu_milli - columns.free_gpu_milli, *milli))
