"""
Which nodes a pod may go to, for callers that have not asked a scheduler first.

kube-scheduler asks an extender about nodes that passed its own filters. A person who asks has passed none: a
node that the pod does not select, or whose taints it does not tolerate, is no answer to them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numalign.cache.eligibility import NUMBERS, Eligibility
from numalign.cache.node_table import NodeTable
from numalign.kube.cluster_state import Snapshot
from numalign.lru import Caches
from numalign.model.attributes import Attributes
from numalign.model.constraints import Constraints, Unmet
from numalign.model.node import Node

_UNMET: Mapping[int, Unmet] = {number: unmet for unmet, number in NUMBERS.items() if unmet}


@dataclass(frozen=True, slots=True)
class Away:
    """What keeps a pod away from a node, for now or, if `lasting`, as long as nobody relabels the node."""

    unmet: Unmet
    lasting: bool


class Places:
    """Who may go to the nodes of a cluster, as its snapshots tell, whether their topology is known or not."""

    def __init__(self) -> None:
        # Nodes without zones: here it matters who may go to them, and not what they have.
        self._nodes = NodeTable()
        self._eligible = Eligibility(self._nodes)
        self._told: dict[str, Attributes] = {}
        self._seen: Snapshot | None = None

    def caches(self) -> Caches:
        """What is remembered of what was asked."""
        return self._eligible.caches()

    def away(
        self, names: Sequence[str], constraints: Constraints, snapshot: Snapshot | None
    ) -> Mapping[str, Away]:
        """What keeps a pod away, by node; a node of which nothing is told keeps nobody away."""
        self._follow(snapshot)
        rows = self._nodes.rows(names)
        known = rows >= 0
        here = [name for name, told in zip(names, known.tolist(), strict=True) if told]
        lasting, now = (
            unmet[rows[known]].tolist()
            for unmet in (self._eligible.unmet_ever(constraints), self._eligible.unmet_now(constraints))
        )
        return {
            name: Away(_UNMET[number], lasting=bool(for_good))
            for name, for_good, number in zip(here, lasting, now, strict=True)
            if number
        }

    def _follow(self, snapshot: Snapshot | None) -> None:
        """Look at the nodes only when somebody asks, and only at those that are not what they were."""
        if snapshot is self._seen or snapshot is None:
            return
        self._seen = snapshot
        told = {node.name: node.attributes for node in snapshot.nodes}
        told |= {bare.name: bare.attributes for bare in snapshot.bare.values()}
        for name in self._told.keys() - told.keys():
            self._nodes.drop(name)
        before, self._told = self._told, told
        for name, attributes in told.items():
            if before.get(name) is not attributes:
                self._nodes.put(Node(name, (), attributes=attributes))
