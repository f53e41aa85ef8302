"""
All that was seen of a cluster, object by object, and the cluster that it makes together.

Objects come one by one and in any order, from a file or from watches; each is decoded once and its text
forgotten. A snapshot joins what there is at the moment, and joins again only what has changed. One broken
object never stops the rest: it is left out and told of, with its kind, its name and all its mistakes.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from sys import intern
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from numalign.kube.decode import device_classes, kubelet_config, namespaces, nodes, nrt, shapes
from numalign.kube.decode.fingerprints import Fingerprint
from numalign.kube.decode.kubelet_config import KubeletConfiguration
from numalign.kube.decode.namespaces import NamespaceFacts
from numalign.kube.decode.nodes import BadNode, NodeFacts
from numalign.kube.decode.nrt import Topology
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.pod_counts import PodCounts
from numalign.model.errors import BadInput, Mistake
from numalign.model.intent import NamespaceRules
from numalign.model.node import Node
from numalign.shapes import KnownShape, RememberedShapes, ShapeHistory
from numalign.shapes.unknown_node import UnknownNode

Decoded = TypeVar("Decoded")


@dataclass(frozen=True, slots=True)
class Problem:
    """An object that was left out, and all that is wrong with it."""

    kind: str
    name: str
    mistakes: tuple[Mistake, ...]

    def __str__(self) -> str:
        """Every mistake on its own line, each with the object it is in."""
        return "\n".join(f"{self.kind} {self.name}: {mistake}" for mistake in self.mistakes)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster as it was found.

    `nodes` are those whose topology is known, by name; `unknown` the names of the others, and `bare` what
    the Node objects of those tell. `shapes` are all that this cluster has, had, or was told of. `labels` is
    the class that each Node is labelled with, None where it is with none; a Node that makes no sense, or
    whose topology makes none, is not in it. `node_labels` are all labels of each Node. `namespaces` are the
    rules of each, and `namespace_labels` all of its labels.
    `fingerprints` are those of the pods that the free amounts of a node account for, where its exporter tells
    one. `served` are the extended resources that DRA serves. `pods` counts what was listed, and `ignored` the
    objects of kinds that nobody reads, by kind and group (`Deployment.apps`).
    """

    nodes: tuple[Node, ...] = ()
    unknown: tuple[str, ...] = ()
    bare: Mapping[str, UnknownNode] = field(default_factory=dict)
    shapes: tuple[KnownShape, ...] = ()
    labels: Mapping[str, str | None] = field(default_factory=dict)
    node_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    namespaces: Mapping[str, NamespaceRules] = field(default_factory=dict)
    namespace_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    fingerprints: Mapping[str, Fingerprint] = field(default_factory=dict)
    served: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()
    ignored: Mapping[str, int] = field(default_factory=dict)
    pods: int = 0


class Store(Generic[Decoded]):
    """The decoded objects of one cluster-scoped kind, by name.

    `decode` gives the decoded object, None if it makes no sense, and all its mistakes. `version` grows with
    every change of either, and `changed` holds the names concerned, until somebody takes them out.
    """

    def __init__(
        self, kind: str, decode: Callable[[Mapping[str, object]], tuple[Decoded | None, tuple[Mistake, ...]]]
    ) -> None:
        self.kind = kind
        self.version = 0
        self.changed: set[str] = set()
        self._decode = decode
        self._decoded: dict[str, Decoded | None] = {}
        self._mistakes: dict[str, tuple[Mistake, ...]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._decoded

    def __iter__(self) -> Iterator[str]:
        """The names of all objects, those that could not be decoded included."""
        return iter(self._decoded)

    def get(self, name: str) -> Decoded | None:
        """The decoded object; None if it is not there, or could not be decoded."""
        return self._decoded.get(name)

    def decoded(self) -> Iterator[tuple[str, Decoded]]:
        """The name and the decoded object, of all that could be decoded."""
        return ((name, decoded) for name, decoded in self._decoded.items() if decoded is not None)

    def put(self, name: str, raw: Mapping[str, object]) -> None:
        """Add an object, or replace the one of its name; one that is decoded to the same changes nothing."""
        decoded, mistakes = self._decode(raw)
        before = (self._decoded.get(name), self._mistakes.get(name, ()))
        # What says the same stays the same, so that nothing is joined anew for a heartbeat.
        if name in self._decoded and before == (decoded, mistakes):
            return
        self._change(name)
        self._decoded[intern(name)] = decoded
        self._mistakes.pop(name, None)
        if mistakes:
            self._mistakes[name] = mistakes

    def drop(self, name: str) -> None:
        """Remove an object, if it is there."""
        if name in self._decoded:
            self._change(name)
            del self._decoded[name]
            self._mistakes.pop(name, None)

    def keep(self, names: AbstractSet[str]) -> None:
        """Remove all other objects, as after a whole list."""
        for name in self._decoded.keys() - names:
            self.drop(name)

    def _change(self, name: str) -> None:
        self.version += 1
        self.changed.add(name)

    def problems(self) -> Iterator[Problem]:
        """The objects with mistakes."""
        return (Problem(self.kind, name, mistakes) for name, mistakes in self._mistakes.items())


class ClusterState:
    """What was seen so far; `snapshot` is the cluster that it makes.

    A topology without a Node is an orphan that its exporter left behind, and makes no node. But a file may
    hold nothing but topologies: unless its Nodes are `complete`, as an API server's are, there is no orphan
    where there is no Node at all. The `shape_history` knows the nodes in health, `reader` the pods that are
    counted.
    """

    def __init__(
        self,
        *,
        complete: bool = False,
        shape_history: ShapeHistory | None = None,
        reader: PodReader | None = None,
    ) -> None:
        self.shape_history = shape_history or ShapeHistory(wall=time.time)
        self._complete = self._can_have_orphans = complete
        self.nodes = Store("Node", _sensible(nodes.facts))
        self.topologies = Store(nrt.KIND, _sensible(nrt.topology))
        self.configurations = Store(kubelet_config.KIND, _sensible(kubelet_config.kubelet_configuration))
        self.namespaces: Store[NamespaceFacts] = Store("Namespace", namespaces.facts)
        self.remembered_shapes: Store[RememberedShapes] = Store(shapes.KIND, shapes.decode)
        self.device_classes: Store[frozenset[str]] = Store(device_classes.KIND, device_classes.served)
        self._stores: tuple[Store[Any], ...] = (
            *(self.nodes, self.topologies, self.configurations),
            *(self.namespaces, self.remembered_shapes, self.device_classes),
        )
        self.pod_counts = PodCounts(reader or PodReader())
        self._joined: dict[str, Node] = {}
        self._known: dict[str, Node] = {}
        self._unexamined: set[str] = set()
        self._unjoined: dict[str, tuple[Problem, ...]] = {}

    @property
    def version(self) -> int:
        """Grows whenever `snapshot` would give something else, pods aside."""
        return self.shape_history.version + sum(store.version for store in self._stores)

    def has_nodes(self) -> bool:
        """Whether any topology makes a node now."""
        self._join_changed()
        return bool(self._joined)

    def snapshot(self) -> Snapshot:
        """The cluster that all objects make now; only nodes that have changed are joined anew."""
        self._recall_changed()
        self._join_changed()
        self._examine_changed()
        ruled = dict(self.namespaces.decoded())
        bare = {name: self._facts(name).bare() for name in sorted(self.nodes) if name not in self._known}
        return Snapshot(
            nodes=tuple(self._known[name] for name in sorted(self._known)),
            unknown=tuple(bare),
            bare=MappingProxyType(bare),
            shapes=self.shape_history.shapes(),
            labels=MappingProxyType(dict(self._labels())),
            node_labels=MappingProxyType(
                {name: node.attributes.labels for name, node in self.nodes.decoded()}
            ),
            namespaces=MappingProxyType({name: namespace.rules for name, namespace in ruled.items()}),
            namespace_labels=MappingProxyType({name: namespace.labels for name, namespace in ruled.items()}),
            fingerprints=MappingProxyType(dict(self._fingerprints())),
            served=frozenset().union(*(names for _, names in self.device_classes.decoded())),
            problems=tuple(self._problems()),
            pods=len(self.pod_counts),
        )

    def _recall_changed(self) -> None:
        """What was remembered stays known for as long as the history says, whatever becomes of the object."""
        for name in sorted(self.remembered_shapes.changed):
            self.shape_history.load(self.remembered_shapes.get(name) or RememberedShapes())
        self.remembered_shapes.changed.clear()

    def _join_changed(self) -> None:
        """Join anew the nodes of which anything has changed since this was done last."""
        orphans, joined = (
            self._complete or any(self.nodes),
            (self.nodes, self.topologies, self.configurations),
        )
        changed = set[str]().union(*(store.changed for store in joined))
        if orphans != self._can_have_orphans:
            self._can_have_orphans = orphans
            changed |= {*self.topologies}
        for name in changed:
            self._join(name)
        self._unexamined |= changed
        # What is remembered counts when it is recalled, and whoever only asks for nodes does not.
        for store in (*joined, self.namespaces, self.device_classes):
            store.changed.clear()

    def _examine_changed(self) -> None:
        """Ask for the health of these nodes, and of those of whose past they made more known."""
        self._known = {name: node for name, node in self._known.items() if name in self._joined}
        self.shape_history.retain_nodes(self._joined.keys())
        unexamined: AbstractSet[str] = self._unexamined & self._joined.keys()
        while unexamined := unexamined | self.shape_history.pop_stale():
            for name in sorted(unexamined):
                node_facts = self._facts(name)
                self._known[name] = self.shape_history.update_node(
                    self._joined[name], identity=node_facts.identity, most=node_facts.most
                )
            unexamined = frozenset()
        self._unexamined.clear()

    def _facts(self, name: str) -> NodeFacts:
        return self.nodes.get(name) or NodeFacts(name)

    def _join(self, name: str) -> None:
        self._joined.pop(name, None)
        self._unjoined.pop(name, None)
        topology = self.topologies.get(name)
        if topology is None:
            return
        if self._can_have_orphans and name not in self.nodes:
            self._unjoined[name] = (Problem(nrt.KIND, name, (_ORPHAN,)),)
            return
        node, problems = _joined(
            topology, node_facts=self.nodes.get(name), configured=self.configurations.get(name)
        )
        if node:
            self._joined[name] = node
        if problems:
            self._unjoined[name] = problems

    def _labels(self) -> Iterator[tuple[str, str | None]]:
        """A topology that is there and makes no sense says nothing against the label that its node has."""
        for name, node_facts in self.nodes.decoded():
            if name in self._known or name not in self.topologies:
                yield name, node_facts.label

    def _fingerprints(self) -> Iterator[tuple[str, Fingerprint]]:
        for name, topology in self.topologies.decoded():
            if topology.fingerprint and name in self._known:
                yield name, topology.fingerprint

    def _problems(self) -> Iterator[Problem]:
        for store in self._stores:
            yield from store.problems()
        for name in sorted(self._unjoined):
            yield from self._unjoined[name]
        # A configuration under a name that no node has is nearly always a misspelt one.
        for name in sorted(self.configurations):
            if name not in self.nodes and name not in self.topologies:
                yield Problem(kubelet_config.KIND, name, (_NO_SUCH_NODE,))


_ORPHAN = Mistake("metadata.name", "no Node of this name: its exporter left it behind")
_NO_SUCH_NODE = Mistake("metadata.name", "no node in this snapshot has this name")


def _joined(
    topology: Topology, *, node_facts: NodeFacts | None, configured: KubeletConfiguration | None
) -> tuple[Node | None, tuple[Problem, ...]]:
    """A node whose kubelet would not start as it was configured is known by its topology."""
    try:
        return nodes.join(topology, node_facts=node_facts, configured=configured), ()
    except BadNode as error:
        if not error.configuration:
            return None, (Problem(nrt.KIND, topology.name, error.zones),)
        problem = Problem(kubelet_config.KIND, topology.name, error.configuration)
    node, problems = _joined(topology, node_facts=node_facts, configured=None)
    return node, (problem, *problems)


def _sensible(
    decode: Callable[[Mapping[str, object]], Decoded],
) -> Callable[[Mapping[str, object]], tuple[Decoded | None, tuple[Mistake, ...]]]:
    """A decoder that gives the mistakes which it would raise."""

    def attempt(raw: Mapping[str, object]) -> tuple[Decoded | None, tuple[Mistake, ...]]:
        try:
            return decode(raw), ()
        except BadInput as error:
            return None, error.mistakes

    return attempt
