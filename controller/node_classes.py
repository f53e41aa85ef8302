"""
The class of each node of the cluster, and which labels of nodes are wrong.

Computing a class takes a while, and for thousands of nodes a long while. So it is done once for each change
of a node.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from operator import attrgetter

from numalign.kube.cluster import Change, Cluster, NodeChanged, Settled
from numalign.model.intent import CLASS_LABEL, NODE_LABEL
from numalign.model.node import node_class, node_label
from numalign.model.resources import Resources
from numalign.shapes.health import missing_devices


@dataclass(frozen=True, slots=True)
class LabelChange:
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

    def missing(self) -> frozenset[str]:
        """Return nodes with a label, but without a topology that supports it."""
        return frozenset(
            node for node, label in self.labels.items() if label is not None and node not in self.classes
        )

    def changes(self, *, gone: AbstractSet[str] = frozenset()) -> tuple[LabelChange, ...]:
        """
        Return the changes that make all labels right, sorted by node.

        Without a topology a label is kept, unless the topology is `gone` for good.
        """
        # Thousands of nodes are checked, and almost all labels are right.
        changes: list[LabelChange] = []
        for node, before in self.labels.items():
            after = self.classes.get(node, None if node in gone else before)
            if after != before:
                changes.append(LabelChange(node, before, after))
        for node, before in self.names.items():
            if before != (name := node_label(node)):
                changes.append(LabelChange(node, before, name, NODE_LABEL))
        return tuple(sorted(changes, key=attrgetter("node", "key")))


class Classifier:
    """
    Computes the class of each node when it changes; `nodes` are the labels and classes as they are now.

    `remembers` returns whether it is known what nodes were before this process started. With `names` the
    `NODE_LABEL`s are maintained, too: only gates need them, and some autoscalers take labels for properties
    of a group.
    """

    def __init__(self, cluster: Cluster, *, remembers: Callable[[], bool], names: bool = False) -> None:
        self._cluster = cluster
        self._remembers = remembers
        self._classes: dict[str, str] = {}
        self._labels: dict[str, str | None] = {}
        self._maintains_names = names
        self._names: dict[str, str | None] = {}
        self._made: tuple[int, NodeClasses] | None = None
        self._remembered = False
        cluster.listen(self._take)

    @property
    def current(self) -> NodeClasses | None:
        """The current labels and classes, the same object until they change; None before all are known."""
        if not self._cluster.listed:
            return None
        basis = self._cluster.version
        if self._made is None or self._made[0] != basis:
            classes = dict(self._classes)
            if not self._remembered:
                # What a node lacks is unknown if its label is of a class without a known shape: it is kept.
                known = {known.shape.node_class for known in self._cluster.shapes.values()}
                for name, label in self._labels.items():
                    if label is not None and label not in known and name in classes:
                        classes[name] = label
            made = NodeClasses(dict(self._labels), classes, names=dict(self._names))
            if self._made and self._made[1] == made:
                made = self._made[1]
            self._made = basis, made
        return self._made[1]

    def _take(self, change: Change) -> None:
        if isinstance(change, Settled):
            # What is read later does not count for these nodes yet.
            self._remembered = self._remembers()
        if not isinstance(change, NodeChanged):
            return
        name, now = change.name, change.now
        self._classes.pop(name, None)
        self._labels.pop(name, None)
        self._names.pop(name, None)
        if now.node:
            self._classes[name] = node_class(now.node)
        if now.classifiable:
            self._labels[name] = now.class_label
        if now.labels is not None and self._maintains_names:
            self._names[name] = now.labels.get(NODE_LABEL)


def classify(cluster: Cluster) -> NodeClasses:
    """Return the labels of a cluster's nodes and their classes, and what degraded ones lack."""
    return NodeClasses(
        {name: state.class_label for name, state in cluster.states.items() if state.classifiable},
        {node.name: node_class(node) for node in cluster.nodes},
        {node.name: missing_devices(node) for node in cluster.nodes if node.health},
    )
