"""
FragmentationGradient: the node where fragments grow least, like FGD of "Beware of Fragmentation".

A pod must not only fit on a node: the kubelet must admit it as well. What a pod would leave of a node is
tried on copies of nodes, by the kubelet's rules and with the same columns.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from numalign.cache import ClusterCache
from numalign.cache.arrays import Bools, Ints, Rows
from numalign.simulation.fragments import Floats, TypicalPod
from numalign.simulation.gpu_columns import GpuColumns
from numalign.simulation.node_policies import steepness
from numalign.simulation.trace import TracePod
from numalign.simulation.zone_cluster import AskedPod, ZoneNodes
from numalign.simulation.zoned_nodes import question

MOST_KEPT = 500_000
"""Most pairs of a shape and a node's state to keep."""

_REFUSED = -1


class ZoneFragmentMeasure:
    """The fragments of nodes whose kubelets align, for typical pods."""

    def __init__(self, typical: Sequence[TypicalPod]) -> None:
        self._asking = [(each, question(each.pod)) for each in typical if each.pod.gpus]
        self._of_others = sum(each.frequency for each in typical if not each.pod.gpus)

    def __call__(self, cache: ClusterCache, columns: GpuColumns, rows: Rows) -> Floats:
        """Return the fragments of these nodes, in thousandths of GPUs, shape (n,), by cache and columns."""
        gpus = columns.gpus[rows]
        idle = gpus.sum(axis=1)
        fragments: Floats = self._of_others * idle.astype(np.float64)
        for typical, asked in self._asking:
            takes: Bools = columns.fits(typical.pod, rows) & columns.accessible(typical.pod)[rows]
            takes &= cache.ask([], asked).evaluation.admitted(rows)
            usable = np.where(gpus >= typical.pod.share, gpus, 0).sum(axis=1)
            fragments += typical.frequency * (idle - usable * takes)
        return fragments


class ZoneGradient:
    """FragmentationGradient as a scheduler.

    Scores are cached by shape, and worked out again for nodes that changed; the fragments that a pod leaves
    are cached by the state of the node before, as many nodes come to be alike.
    """

    def __init__(self, typical: Sequence[TypicalPod]) -> None:
        self._measure = ZoneFragmentMeasure(typical)
        self._scored: dict[TracePod, _Scored] = {}
        self._now: _Now | None = None
        self._left: dict[tuple[TracePod, Hashable], float] = {}
        self._trial = ClusterCache()

    def choose(self, nodes: ZoneNodes, asked: AskedPod) -> int | None:
        """Return the first of the best nodes that admit the pod; None if none does."""
        now = self._up_to_date(nodes)
        scored = self._scored.get(asked.pod)
        if scored is None:
            scored = self._scored[asked.pod] = _Scored.none(len(nodes.names))
        stale = nodes.columns.changed_since(scored.version)
        scored.scores[stale], scored.version = _REFUSED, nodes.columns.version
        rows = np.intersect1d(stale, asked.rows, assume_unique=True)
        rows = rows[nodes.evaluation(asked.question).admitted(rows)]
        if len(rows):
            scored.after[rows] = self._after(nodes, asked, rows, now)
            scored.scores[rows] = steepness(now.fragments[rows], scored.after[rows])
        row = int(scored.scores.argmax())
        if scored.scores[row] == _REFUSED:
            return None
        now.chosen = row, float(scored.after[row])
        return row

    def _up_to_date(self, nodes: ZoneNodes) -> "_Now":
        """Return the current fragments and states; since the last call, only the chosen node has changed."""
        if self._now is None:
            every = np.arange(len(nodes.names))
            fragments = self._measure(nodes.cache, nodes.columns, every)
            self._now = _Now(fragments, [nodes.state(row) for row in every.tolist()])
        now = self._now
        if now.chosen is not None and nodes.columns.version != now.version:
            row, now.fragments[now.chosen[0]] = now.chosen
            now.states[row] = nodes.state(row)
        now.version, now.chosen = nodes.columns.version, None
        return now

    def _after(self, nodes: ZoneNodes, asked: AskedPod, rows: Rows, now: "_Now") -> Floats:
        """Return the fragments of nodes with the pod on them."""
        keys = [(asked.pod, now.states[row]) for row in rows.tolist()]
        missing = {key: row for key, row in zip(keys, rows.tolist(), strict=True) if key not in self._left}
        if len(self._left) > MOST_KEPT:
            self._left, missing = {}, dict(zip(keys, rows.tolist(), strict=True))
        if missing:
            tried = np.array(list(missing.values()))
            self._left.update(zip(missing, self._tried(nodes, asked, tried).tolist(), strict=True))
        return np.array([self._left[key] for key in keys])

    def _tried(self, nodes: ZoneNodes, asked: AskedPod, rows: Rows) -> Floats:
        columns = nodes.columns.copied(rows)
        for at, row in enumerate(rows.tolist()):
            node, slots = nodes.after(row, asked.pod, nodes.admission(row, asked.question))
            self._trial.nodes.put(replace(node, name=f"{at:06}"))
            columns.take(at, asked.pod, slots)
        return self._measure(self._trial, columns, np.arange(len(rows)))


@dataclass(slots=True)
class _Scored:
    """The scores of nodes for a shape of pods as of a version, and the fragments that it would leave."""

    version: int
    scores: Ints
    after: Floats

    @classmethod
    def none(cls, count: int) -> "_Scored":
        return cls(-1, np.full(count, _REFUSED, dtype=np.int64), np.zeros(count))


@dataclass(slots=True)
class _Now:
    """The fragments and state of each node; `chosen` is the last choice, with its fragments afterwards."""

    fragments: Floats
    states: list[Hashable]
    version: int = 0
    chosen: tuple[int, float] | None = None
