"""
The class of each node of the cluster, and which labels of nodes are wrong.

Computing a class takes a while, and for thousands of nodes a long while. So it is done in a thread, and once
for each version of a node.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from operator import attrgetter

from numalign.kube.cluster_state import Snapshot
from numalign.model.intent import CLASS_LABEL, NODE_LABEL
from numalign.model.node import Node, node_class, node_label
from numalign.model.resources import Resources
from numalign.shapes.health import missing_devices


@dataclass(frozen=True, slots=True)
class Change:
    """A label of a node now, and as it should be; None is no label."""

    node: str
    before: str | None
    after: str | None
    key: str = CLASS_LABEL


@dataclass(frozen=True, slots=True)
class NodeClasses:
    """
    The class label of every Node, None if it has none, and the class of every node with a topology.

    `lacking` has the devices that degraded nodes lack, for a dry run. `names` has the `NODE_LABEL` of every
    Node, and nothing if that is not maintained.
    """

    labels: Mapping[str, str | None]
    classes: Mapping[str, str]
    lacking: Mapping[str, Resources] = field(default_factory=dict)
    names: Mapping[str, str | None] = field(default_factory=dict)

    def of(self, key: str) -> Mapping[str, str | None]:
        """Return the values of one of the two labels, by node."""
        return self.labels if key == CLASS_LABEL else self.names

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
        return tuple(sorted(self._changes(gone), key=attrgetter("node", "key")))

    def _changes(self, gone: AbstractSet[str]) -> Iterator[Change]:
        for node, before in self.labels.items():
            after = self.classes.get(node, None if node in gone else before)
            if after != before:
                yield Change(node, before, after)
        for node, before in self.names.items():
            if before != (name := node_label(node)):
                yield Change(node, before, name, NODE_LABEL)


NamesOf = Callable[[Snapshot], Mapping[str, str | None]]
"""Returns the `NODE_LABEL` of every Node, None if it has none."""


def names_of(snapshot: Snapshot) -> Mapping[str, str | None]:
    """Return the `NODE_LABEL` of every Node, None if it has none."""
    return {node: labels.get(NODE_LABEL) for node, labels in snapshot.node_labels.items()}


def no_names(_snapshot: Snapshot) -> Mapping[str, str | None]:
    """Return no label: only gates need them, and some autoscalers take labels for properties of a group."""
    return {}


class Classifier:
    """
    Computes the classes of snapshots; `current` is that of the last one, replaced as a whole, never changed.

    `remembers` returns whether it is known what nodes were before this process started. `names` returns the
    `NODE_LABEL`s to maintain.
    """

    def __init__(self, *, remembers: Callable[[], bool], names: NamesOf = no_names) -> None:
        self.current: NodeClasses | None = None
        self._remembers = remembers
        self._names = names
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
        self.current = NodeClasses(snapshot.labels, {**classes, **unproven}, names=self._names(snapshot))


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
