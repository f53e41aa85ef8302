"""
A cluster whose scheduler ignores zones: each pod goes to the best node that has enough left, or to none.

Scores are cached for each shape of pods, and worked out again only for nodes on which a pod was placed since.
"""

from collections.abc import Iterator

import numpy as np

from numalign.cache.arrays import Bools, Ints
from numalign.simulation.arrivals import arrivals
from numalign.simulation.fragments import FragmentMeasure, typical_pods, without_memory
from numalign.simulation.gpu_columns import GpuColumns
from numalign.simulation.node_policies import NODE_POLICIES, NodePolicy
from numalign.simulation.replay import Sample, replay, shares
from numalign.simulation.trace import Trace, TracePod

_NO_FIT = -1


def replay_on_nodes(trace: Trace, policy: str, *, ratio: float, seed: int) -> Iterator[Sample]:
    """Replay pods of a trace that request `ratio` times its GPUs; `policy` is one of `NODE_POLICIES`.

    The seed shuffles pods and nodes: of equally good nodes, the first gets the pod.
    """
    dice = np.random.default_rng(seed)
    pods = arrivals(trace, ratio, dice)
    columns = GpuColumns([trace.nodes[at] for at in dice.permutation(len(trace.nodes))])
    measure = FragmentMeasure(typical_pods(map(without_memory, trace.pods)), columns)
    yield from replay(ScoredNodes(columns, measure, NODE_POLICIES[policy](columns, measure, dice)), pods)


class ScoredNodes:
    """Nodes, and their scores for the shapes of pods that have arrived so far."""

    def __init__(self, columns: GpuColumns, measure: FragmentMeasure, policy: NodePolicy) -> None:
        self.columns = columns
        self._measure = measure
        self._policy = policy
        self._scores: dict[int, ShapeScores] = {}

    def sample(self, asked: int) -> Sample:
        """Return the current state; there is no kubelet that could refuse a pod."""
        return Sample(*shares(self.columns, asked, self._measure.total(self.columns)))

    def place(self, shape: int, pod: TracePod) -> None:
        """Place a pod on the node that the policy chooses, if it fits on any."""
        if shape not in self._scores:
            self._scores[shape] = ShapeScores(pod, self.columns, self._policy)
        scores = self._scores[shape].current()
        if scores.max(initial=_NO_FIT) > _NO_FIT:
            row = self._policy.choose(scores)
            self.columns.take(row, pod, self._policy.slots(pod, row))


class ShapeScores:
    """The scores of nodes for one shape of pods, kept up to date."""

    def __init__(self, pod: TracePod, columns: GpuColumns, policy: NodePolicy) -> None:
        self._pod = pod
        self._columns = columns
        self._policy = policy
        self._accessible: Bools = columns.accessible(pod)
        self._scores: Ints = np.full(len(columns), _NO_FIT, dtype=np.int64)
        self._version = -1

    def current(self) -> Ints:
        """Return the score of every node, -1 where the pod does not fit."""
        stale = self._columns.changed_since(self._version)
        self._version = self._columns.version
        self._scores[stale] = _NO_FIT
        fitting = stale[self._accessible[stale] & self._columns.fits(self._pod, stale)]
        if len(fitting):
            self._scores[fitting] = self._policy.scores(self._pod, fitting)
        return self._scores
