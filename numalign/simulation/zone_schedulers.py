"""
Schedulers that choose nodes whose kubelets align.

`stock` is plain kube-scheduler, which ignores zones: it spreads pods over the nodes with enough left, at
random among equals. `webhook` is the same among nodes that could ever admit the pod, which a node affinity
can express. `scorer` is kube-scheduler with the scorer as its extender: among nodes that admit the pod now,
by its own scores and the scorer's. A strategy alone is the scorer's own order of these nodes, equals by name,
as for gates and `/v1/rank`; `gate` is that of its default strategies.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.ranking import Ranking, Ranks, ranks
from numalign.decision.scoring import Strategy
from numalign.simulation.arrivals import Dice
from numalign.simulation.gpu_columns import GpuColumns
from numalign.simulation.trace import TracePod
from numalign.simulation.zone_cluster import AskedPod, ZoneNodes, ZoneScheduler

_HUNDRED = 100

_EXTENDER_HIGHEST, _EXTENDER_WEIGHT = 10, 100
"""The highest score of an extender, and the weight of one, with `weight: 10` as in deploy/schedulers."""


class KubeScheduler:
    """kube-scheduler with its default plugins, as far as they consider what is left."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice

    def choose(self, nodes: ZoneNodes, asked: AskedPod) -> int | None:
        """Return a random one of the best nodes; None if there is none."""
        return _any_of_best(asked.rows, stock_points(nodes.columns, asked.pod, asked.rows), self._dice)


class Webhook:
    """Plain kube-scheduler, on nodes that could ever admit the pod."""

    def __init__(self, dice: Dice) -> None:
        self._stock = KubeScheduler(dice)

    def choose(self, nodes: ZoneNodes, asked: AskedPod) -> int | None:
        """Return a random one of the best of these nodes; None if there is none."""
        able: Bools = nodes.evaluation(asked.question).able()
        return self._stock.choose(nodes, AskedPod(asked.pod, asked.question, asked.rows[able[asked.rows]]))


class Extender:
    """The scores of kube-scheduler and the scorer, on nodes that admit the pod now."""

    def __init__(self, dice: Dice, ranking: Ranking) -> None:
        self._dice = dice
        self._ranking = ranking

    def choose(self, nodes: ZoneNodes, asked: AskedPod) -> int | None:
        """Return a random one of the best nodes; None if there is none."""
        ranked = _ranked(nodes, asked, self._ranking)
        points = stock_points(nodes.columns, asked.pod, asked.rows)
        points += np.array(ranked.squeezed(_EXTENDER_HIGHEST), dtype=np.int64) * _EXTENDER_WEIGHT
        return _any_of_best(asked.rows[ranked.admitted], points[ranked.admitted], self._dice)


class ScorerOrder:
    """The scorer's own order of nodes that admit the pod now."""

    def __init__(self, ranking: Ranking) -> None:
        self._ranking = ranking

    def choose(self, nodes: ZoneNodes, asked: AskedPod) -> int | None:
        """Return the first of the best nodes; None if there is none."""
        best = _ranked(nodes, asked, self._ranking).best([nodes.names[row] for row in asked.rows])
        return None if best is None else int(asked.rows[best])


def _ranked(nodes: ZoneNodes, asked: AskedPod, ranking: Ranking) -> Ranks:
    names = [nodes.names[row] for row in asked.rows]
    return ranks(nodes.cache.ask(names, asked.question), [ranking])


def _any_of_best(rows: Rows, points: Ints, dice: Dice) -> int | None:
    return int(dice.choice(rows[points == points.max()])) if len(rows) else None


def stock_points(columns: GpuColumns, pod: TracePod, rows: Rows) -> Ints:
    """Return LeastAllocated plus BalancedAllocation for CPUs and memory, 0 to 200; nodes have enough left.

    Reimplements leastResourceScorer of noderesources/least_allocated.go and balancedResourceScorer of
    noderesources/balanced_allocation.go (Kubernetes 1.34), which have weight 1 each. The other default
    plugins consider nothing that a trace contains.
    """
    amounts = (
        (columns.cpu, columns.cpu_capacity, pod.cpu),
        (columns.memory, columns.memory_capacity, pod.memory),
    )
    unused = [(free[rows] - request, np.maximum(capacity[rows], 1)) for free, capacity, request in amounts]
    least = sum(left * _HUNDRED // whole for left, whole in unused) // len(unused)
    (cpu, memory) = (left / whole for left, whole in unused)
    balanced: Ints = ((1 - np.abs(cpu - memory) / 2) * _HUNDRED).astype(np.int64)
    return least + balanced


def _order(strategy: Strategy) -> Callable[[Dice], ZoneScheduler]:
    return lambda _dice: ScorerOrder(Ranking((strategy,)))


ZONE_SCHEDULERS: Mapping[str, Callable[[Dice], ZoneScheduler]] = MappingProxyType(
    {
        "stock": KubeScheduler,
        "webhook": Webhook,
        "scorer": lambda dice: Extender(dice, Ranking()),
        "gate": lambda _: ScorerOrder(Ranking()),
        **{str(strategy): _order(strategy) for strategy in Strategy},
    }
)
"""Schedulers by their names in tables."""
