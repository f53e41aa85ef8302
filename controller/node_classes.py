"""
Which class each node of the cluster has, and which class labels are not true.

A class takes a while to work out, and of thousands of nodes a long while: so it is done beside the loop, and
once for each node as it is.
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
    """What a node's class label is, and what it should be; None is no label."""

    node: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class NodeClasses:
    """The class label of every Node, None for one without, and the class of every node with a topology.

    `ill` has what nodes lack of what they are in health, for a dry run.
    """

    labels: Mapping[str, str | None]
    classes: Mapping[str, str]
    ill: Mapping[str, Resources] = field(default_factory=dict)

    def missing(self) -> frozenset[str]:
        """Nodes with a label and without a topology that supports it."""
        return frozenset(
            node for node, label in self.labels.items() if label is not None and node not in self.classes
        )

    def changes(self, *, gone: AbstractSet[str] = frozenset()) -> tuple[Change, ...]:
        """What has to change, by node, for every label to be true.

        Without a topology a label stays as it is, unless the topology is `gone` for good.
        """
        # Thousands of nodes are looked through, and next to none is wrong.
        return tuple(sorted(self._changes(gone), key=attrgetter("node")))

    def _changes(self, gone: AbstractSet[str]) -> Iterator[Change]:
        for node, before in self.labels.items():
            after = self.classes.get(node, None if node in gone else before)
            if after != before:
                yield Change(node, before, after)


class Classifier:
    """Works out the classes of snapshots; `current` is that of the last one, replaced whole, never changed.

    `remembers` says whether it is known what nodes were before this process began.
    """

    def __init__(self, *, remembers: Callable[[], bool]) -> None:
        self.current: NodeClasses | None = None
        self._remembers = remembers
        self._known: Mapping[str, tuple[Node, str]] = {}

    def waiting_for(self) -> str | None:
        """What readiness lacks: a first snapshot."""
        return None if self.current else "the first complete state of the cluster"

    async def take(self, snapshot: Snapshot) -> None:
        """Make the classes of a snapshot the current ones."""
        # Asked before anything else happens: what is read later was not in this snapshot.
        remembers = self._remembers()
        self._known = await asyncio.to_thread(_classified, snapshot, self._known)
        classes = {name: class_ for name, (_, class_) in self._known.items()}
        unproven = {} if remembers else _unproven(snapshot)
        self.current = NodeClasses(snapshot.labels, {**classes, **unproven})


def classify(snapshot: Snapshot) -> NodeClasses:
    """The classes of a snapshot's nodes, with what those that are ill lack."""
    return NodeClasses(
        snapshot.labels,
        {node.name: node_class(node) for node in snapshot.nodes},
        {node.name: missing_devices(node) for node in snapshot.nodes if node.health},
    )


def _unproven(snapshot: Snapshot) -> Mapping[str, str]:
    """The labels of classes that no shape has: what their nodes lack cannot be seen, so they stand."""
    classes = {shape.shape.node_class for shape in snapshot.shapes}
    return {
        node.name: label
        for node in snapshot.nodes
        if (label := snapshot.labels.get(node.name)) is not None and label not in classes
    }


def _classified(snapshot: Snapshot, before: Mapping[str, tuple[Node, str]]) -> Mapping[str, tuple[Node, str]]:
    """The class of each node; of one that is the same as before, what it was."""
    return {
        node.name: last if (last := before.get(node.name)) and last[0] is node else (node, node_class(node))
        for node in snapshot.nodes
    }
