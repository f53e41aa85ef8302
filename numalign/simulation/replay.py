"""
A replay: pods arrive one after the other, and the state of the cluster is sampled in between.

As in the experiments of "Beware of Fragmentation" (USENIX ATC 2023), the pods of a trace are shuffled. If
they request fewer GPUs than wanted, pods drawn from the trace come after them; if they request more, some are
left out. Pods never leave, since a replay is about how full a cluster gets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from numalign.model.errors import BadInput, Mistake
from numalign.simulation.gpu_columns import GpuColumns
from numalign.simulation.trace import WHOLE_GPU, Trace, TracePod

Dice = np.random.Generator
"""The source of all randomness in a replay, from one seed."""

MOST_ARRIVALS = 1_000_000

EVERY = 1.0
"""Per cent of all GPUs that pods request between two samples."""

PER_CENT = 100


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Pods one after the other, as positions in `shapes`, which are all different."""

    shapes: Sequence[TracePod]
    order: Sequence[int]

    @property
    def gpu_milli(self) -> int:
        """Thousandths of GPUs that all of them request together."""
        return sum(self.shapes[shape].gpu_milli for shape in self.order)


def arrivals(trace: Trace, ratio: float, dice: Dice) -> Arrivals:
    """Return the pods of a trace so that they request `ratio` times the GPUs that its nodes have.

    The last pod that is drawn may request several GPUs although fewer are still wanted (as in the published
    runs). No pods are drawn from a trace whose pods request no GPU at all. Raises `BadInput` if pods request
    so little that more than `MOST_ARRIVALS` would arrive.
    """
    shapes = list(dict.fromkeys(trace.pods))
    numbers = {shape: number for number, shape in enumerate(shapes)}
    every = np.array([numbers[pod] for pod in trace.pods], dtype=np.intp)
    asked = np.array([shape.gpu_milli for shape in shapes], dtype=np.int64)
    wanted = ratio * WHOLE_GPU * sum(node.gpus for node in trace.nodes)
    order: list[int] = dice.permutation(every).tolist()
    total = int(asked[every].sum())
    if total > wanted:
        while total > wanted:
            total -= int(asked[order.pop(int(dice.integers(len(order))))])
        return Arrivals(shapes, order)
    if not total or total == wanted:
        return Arrivals(shapes, order)
    while len(order) < MOST_ARRIVALS:
        shape = int(dice.choice(every))
        if total + shapes[shape].share > wanted:
            return Arrivals(shapes, order)
        order.append(shape)
        total += int(asked[shape])
    message = f"request so little that more than {MOST_ARRIVALS:,} would arrive: lower the ratio"
    raise BadInput([Mistake("the pods of the trace", message)])


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

    def place(self, pod: TracePod) -> object:
        """Place a pod on a node if it fits on any."""

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
        cluster.place(pod)
        asked += pod.gpu_milli
        if asked * PER_CENT >= due * cluster.columns.gpu_milli:
            yield cluster.sample(asked)
            due += every
    yield cluster.sample(asked)


def shares(columns: GpuColumns, asked: int, *milli: float) -> tuple[float, ...]:
    """Return what was requested, what is allocated and other thousandths of GPUs, in per cent of all GPUs."""
    one = columns.gpu_milli / PER_CENT
    return tuple(amount / one for amount in (asked, columns.gpu_milli - columns.free_gpu_milli, *milli))
