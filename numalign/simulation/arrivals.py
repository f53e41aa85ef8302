"""
The pods that arrive in a replay, and their order.

As in the experiments of "Beware of Fragmentation" (USENIX ATC 2023), the pods of a trace are shuffled. If
they request fewer GPUs than wanted, pods drawn from the trace come after them; if they request more, some are
left out. Pods never leave, since a replay is about how full a cluster gets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from numalign.model.errors import BadInput, Mistake
from numalign.simulation.trace import WHOLE_GPU, Trace, TracePod

Dice = np.random.Generator
"""The source of all randomness in a replay, from one seed."""

MOST_ARRIVALS = 1_000_000


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
    shares = np.array([shape.share for shape in shapes], dtype=np.int64)
    wanted = ratio * WHOLE_GPU * sum(node.gpus for node in trace.nodes)
    order = dice.permutation(every).tolist()
    total = int(asked[every].sum())
    if total > wanted:
        return Arrivals(shapes, _fewer(order, asked, total, wanted, dice))
    if not total or total == wanted:
        return Arrivals(shapes, order)
    while len(order) < MOST_ARRIVALS:
        shape = int(dice.choice(every))
        if total + shares[shape] > wanted:
            return Arrivals(shapes, order)
        order.append(shape)
        total += int(asked[shape])
    message = f"request so little that more than {MOST_ARRIVALS:,} would arrive: lower the ratio"
    raise BadInput([Mistake("the pods of the trace", message)])


def _fewer(order: list[int], asked: np.ndarray, total: int, wanted: float, dice: Dice) -> list[int]:
    """Leave out random pods until they request no more than wanted."""
    while total > wanted:
        total -= int(asked[order.pop(int(dice.integers(len(order))))])
    return order
