"""
Schedulers that choose nodes whose kubelets align.

`stock` is plain kube-scheduler, which ignores zones: it spreads pods over the nodes with enough left, at
random among equals. `webhook` is the same among nodes that could ever admit the pod, which a node affinity
can express. `scorer` is kube-scheduler with the scorer as its extender: among nodes that admit the pod now,
by its own scores and the scorer's. A strategy alone is the scorer's own order of these nodes, equals by name,
as for gates and `/v1/rank`; `gate` is that of its default strategies.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import numpy as np

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.ranking import Ranking, Ranks, ranks
from numalign.decision.scoring import Strategy
from numalign.simulation.gpu_columns import GpuColumns
from numalign.simulation.replay import Dice
from numalign.simulation.trace import TracePod
from numalign.simulation.zone_cluster import AskedPod, ZoneNodes

_HUNDRED = 100

_EXTENDER_HIGHEST, _EXTENDER_WEIGHT = 10, 100
"""The highest score of an extender, and the weight of one, with `weight: 10` as in deploy/schedulers."""

ZoneScheduler = Callable[[Dice, ZoneNodes, AskedPod], int | None]
"""Chooses one of the nodes that have enough left for a pod; None if it chooses none of them."""


def _stock(dice: Dice, nodes: ZoneNodes, asked: AskedPod) -> int | None:
    return _any_of_best(asked.rows, stock_points(nodes.columns, asked.pod, asked.rows), dice)


def _webhook(dice: Dice, nodes: ZoneNodes, asked: AskedPod) -> int | None:
    able: Bools = nodes.evaluation(asked.question).able()
    return _stock(dice, nodes, replace(asked, rows=asked.rows[able[asked.rows]]))


def _scorer(dice: Dice, nodes: ZoneNodes, asked: AskedPod) -> int | None:
    ranked = _ranked(nodes, asked, Ranking())
    points = stock_points(nodes.columns, asked.pod, asked.rows)
    points += np.array(ranked.squeezed(_EXTENDER_HIGHEST), dtype=np.int64) * _EXTENDER_WEIGHT
    return _any_of_best(asked.rows[ranked.admitted], points[ranked.admitted], dice)


def _first(ranking: Ranking, _dice: Dice, nodes: ZoneNodes, asked: AskedPod) -> int | None:
    best = _ranked(nodes, asked, ranking).best([nodes.names[row] for row in asked.rows])
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


ZONE_SCHEDULERS: Mapping[str, ZoneScheduler] = MappingProxyType(
    {
        "stock": _stock,
        "webhook": _webhook,
        "scorer": _scorer,
        "gate": partial(_first, Ranking()),
        **{str(strategy): partial(_first, Ranking((strategy,))) for strategy in Strategy},
    }
)
"""Schedulers by their names in tables."""
