"""
The class of each node of the cluster, and which class labels are wrong.

Computing a class takes a while, and for thousands of nodes a long while. So it is done in a thread, and once
for each version of a node.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from operator import attrgetter

from numalign.kube.cluster_state import Snapshot
from numalign.model.node import Node, node_class
from numalign.model.resources import Resources
from numalign.shapes.health import missing_devices


@dataclass(frozen=True, slots=True)
class Change:
    """A node's class label now, and as it should be; None is no label."""

    node: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class NodeClasses:
    """
    The class label of every Node, None if it has none, and the class of every node with a topology.

    `lacking` has the devices that degraded nodes lack, for a dry run.
    """

    labels: Mapping[str, str | None]
    classes: Mapping[str, str]
    lacking: Mapping[str, Resources] = field(default_factory=dict)

    def missing(self) -> frozenset[str]:
        """Return nodes with a label, but without a topology that supports it."""
        return frozenset(
            node for node, label in self.labels.items() if label is not None and node not in self.classes
        )

    def changes(self, *, gone: AbstractSet[str] = frozenset()) -> tuple[Change, ...]:
        """
        Return the changes that make all labels right, sorted by node.

        Without a topology a label is kept, unless the topology is `gone` for good.
        """
        # Thousands of nodes are checked, and almost all labels are right.
        return tuple(sorted(self._changes(gone), key=attrgetter("node")))

    def _changes(self, gone: AbstractSet[str]) -> Iterator[Change]:
        for node, before in self.labels.items():
            after = self.classes.get(node, None if node in gone else before)
            if after != before:
                yield Change(node, before, after)


class Classifier:
    """
    Computes the classes of snapshots; `current` is that of the last one, replaced as a whole, never changed.

    `remembers` returns whether it is known what nodes were before this process started.
    """

    def __init__(self, *, remembers: Callable[[], bool]) -> None:
        self.current: NodeClasses | None = None
        self._remembers = remembers
        self._known: Mapping[str, tuple[Node, str]] = {}

    def waiting_for(self) -> str | None:
        """Return what readiness is waiting for: a first snapshot."""
        return None if self.current else "the first complete state of the cluster"

    async def take(self, snapshot: Snapshot) -> None:
        """Make the classes of a snapshot the current ones."""
        # Ask this first: what is read later was not used in this snapshot.
        remembers = self._remembers()
        self._known = await asyncio.to_thread(_classified, snapshot, self._known)
        classes = {name: class_ for name, (_, class_) in self._known.items()}
        unproven = {} if remembers else _unproven(snapshot)
        self.current = NodeClasses(snapshot.labels, {**classes, **unproven})


def classify(snapshot: Snapshot) -> NodeClasses:
    """Return the classes of a snapshot's nodes, and what degraded ones lack."""
    return NodeClasses(
        snapshot.labels,
        {node.name: node_class(node) for node in snapshot.nodes},
        {node.name: missing_devices(node) for node in snapshot.nodes if node.health},
    )


def _unproven(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the labels of classes without a known shape: what their nodes lack is unknown, so keep them."""
    classes = {shape.shape.node_class for shape in snapshot.shapes}
    return {
        node.name: label
        for node in snapshot.nodes
        if (label := snapshot.labels.get(node.name)) is not None and label not in classes
    }


def _classified(snapshot: Snapshot, before: Mapping[str, tuple[Node, str]]) -> Mapping[str, tuple[Node, str]]:
    """Return the class of each node; reuse it if the node is the same as before."""
    return {
        node.name: last if (last := before.get(node.name)) and last[0] is node else (node, node_class(node))
        for node in snapshot.nodes
    }
