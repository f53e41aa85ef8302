"""
The cluster as it is known, and what changes in it.

Whoever watches or reads a cluster says what has changed, once, and everybody behind it acts on that alone:
nobody compares two states to find the difference again. A change is applied as a whole between two steps of
other work, so an answer never meets half of one. A burst of changes is gathered where it arrives
(`numalign.kube.live_feed`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from numalign.kube.decode.fingerprints import Fingerprint
from numalign.kube.decode.namespaces import NamespaceFacts
from numalign.kube.stores import Placements, Problem
from numalign.model.intent import NamespaceRules
from numalign.model.node import Node
from numalign.model.options import NEWEST
from numalign.shapes import GrowablePools, KnownShape, LeftOut, Shape, UnknownNode
from numalign.shapes.growable_pools import BUILT_IN
from numalign.shapes.hints import NOTHING_KNOWN, unhinted

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class NodeState:
    """What is known of one node: its Node object, its topology, and what its agent saw.

    `node` has its topology and its health; without a valid topology, `bare` has the facts of its Node object.
    `labels` are those of the Node, None if there is none. `class_label` is the one with its class;
    `classifiable` is whether that may be changed: Node and topology, if any, are valid.

    `fingerprint` is that of the pods that the free amounts account for, if the exporter publishes one.
    `placements` are what the agent saw its pods hold, by uid.
    """

    node: Node | None = None
    bare: UnknownNode | None = None
    labels: Mapping[str, str] | None = None
    class_label: str | None = None
    classifiable: bool = False
    fingerprint: Fingerprint | None = None
    placements: Placements | None = None


NO_NODE = NodeState()
"""The state of a node that does not exist."""


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node came, changed, or is gone: then it is `NO_NODE` now."""

    name: str
    before: NodeState
    now: NodeState

    def apply_to(self, cluster: "Cluster") -> None:
        """See `Cluster.apply`."""
        _put(cluster.states, self.name, None if self.now is NO_NODE else self.now)
        _put(cluster.node_labels, self.name, self.now.labels)


@dataclass(frozen=True, slots=True)
class ShapesChanged:
    """Shapes came, changed or are gone (None), each by its key; they come before the first node with them.

    `left_out` is what is known of shapes that are not kept, `pools` are those that may grow.
    """

    shapes: Mapping[str, KnownShape | None]
    left_out: LeftOut | None
    pools: GrowablePools

    def apply_to(self, cluster: "Cluster") -> None:
        """See `Cluster.apply`."""
        if any(_shape(cluster.shapes.get(key)) != _shape(known) for key, known in self.shapes.items()):
            cluster.forget_unhinted()
        for key, known in self.shapes.items():
            _put(cluster.shapes, key, known)
        cluster.left_out, cluster.pools = self.left_out, self.pools


@dataclass(frozen=True, slots=True)
class NamespaceChanged:
    """A namespace came, changed, or is gone (None)."""

    name: str
    now: NamespaceFacts | None

    def apply_to(self, cluster: "Cluster") -> None:
        """See `Cluster.apply`."""
        cluster.rules_version += 1
        _put(cluster.namespaces, self.name, self.now.rules if self.now else None)
        _put(cluster.namespace_labels, self.name, self.now.labels if self.now else None)


@dataclass(frozen=True, slots=True)
class ServerChanged:
    """The API server has another minor `version`, or DRA serves other extended resources."""

    version: int
    served: frozenset[str]

    def apply_to(self, cluster: "Cluster") -> None:
        """See `Cluster.apply`."""
        cluster.rules_version += 1
        cluster.server, cluster.served = self.version, self.served


@dataclass(frozen=True, slots=True)
class ProblemsChanged:
    """The mistakes of one object, or of several that belong together, are these now."""

    key: tuple[str, str]
    before: tuple[Problem, ...]
    now: tuple[Problem, ...]

    def apply_to(self, cluster: "Cluster") -> None:
        """See `Cluster.apply`."""
        _put(cluster.problems_of, self.key, self.now or None)


@dataclass(frozen=True, slots=True)
class Settled:
    """All changes that had arrived are published: the first time, the whole cluster is known.

    Of a file, `pods` counts the pods on nodes, and `ignored` the objects of kinds that are not read, by kind
    and group (`Deployment.apps`).
    """

    pods: int = 0
    ignored: Mapping[str, int] = field(default_factory=dict)

    def apply_to(self, cluster: "Cluster") -> None:
        """See `Cluster.apply`."""
        cluster.last_settled = self


Change = NodeChanged | ShapesChanged | NamespaceChanged | ServerChanged | ProblemsChanged | Settled

ChangeListener = Callable[[Change], object]
"""Called with each change, after the cluster has it."""


class Cluster:
    """The cluster as it is known now. Changed in place, by `apply` alone.

    `version` grows with every change, and `rules_version` with each that may change what is requested for a
    pod.
    `observed_at` is when the agent of a node last looked, in seconds since 1970, None if that cannot be read;
    it is always the current one, because nothing else changes with it. `node_labels` are all labels of each
    Node, `namespaces` the rules of each, and `namespace_labels` all of its labels.
    """

    def __init__(self, observed_at: Mapping[str, float | None] | None = None) -> None:
        self.states: dict[str, NodeState] = {}
        self.node_labels: dict[str, Mapping[str, str]] = {}
        self.shapes: dict[str, KnownShape] = {}
        self.left_out: LeftOut | None = None
        self.pools = BUILT_IN
        self.namespaces: dict[str, NamespaceRules] = {}
        self.namespace_labels: dict[str, Mapping[str, str]] = {}
        self.observed_at: Mapping[str, float | None] = {} if observed_at is None else observed_at
        self.server = NEWEST
        self.served: frozenset[str] = frozenset()
        self.problems_of: dict[tuple[str, str], tuple[Problem, ...]] = {}
        self.last_settled: Settled | None = None
        self.version = self.rules_version = self._settled_version = 0
        self._listeners: list[ChangeListener] = []
        self._unhinted: frozenset[str] | None = NOTHING_KNOWN

    def listen(self, listener: ChangeListener) -> None:
        """Call a listener with every change from now on, after what has led to the current state."""
        for change in differences(Cluster(), self):
            listener(change)
        self._listeners.append(listener)

    def apply(self, change: Change) -> None:
        """Apply a change, and pass it on; raise what listeners raise after all of them have it."""
        change.apply_to(self)
        self.version += 1
        if change is self.last_settled:
            self._settled_version = self.version
        errors = list[Exception]()
        for listener in self._listeners:
            try:
                listener(change)
            except Exception as error:  # noqa: BLE001  it keeps no other listener from the change
                errors.append(error)
        if errors:
            raise ExceptionGroup("a change of the cluster was not processed", errors)

    def forget_unhinted(self) -> None:
        """Note that other shapes are known, which may have other hints."""
        self._unhinted = None
        self.rules_version += 1

    @property
    def listed(self) -> bool:
        """Whether the whole cluster was known at some time."""
        return self.last_settled is not None

    @property
    def settled(self) -> bool:
        """Whether all changes that had arrived are published, not only some of them."""
        return self._settled_version == self.version

    def waiting_for(self) -> str | None:
        """Return what readiness is waiting for: the whole cluster."""
        return None if self.listed else "the first complete state of the cluster"

    @property
    def has_topologies(self) -> bool:
        """Whether the topology of any node is known."""
        return any(state.node for state in self.states.values())

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes with a known topology, by name."""
        return tuple(state.node for _, state in sorted(self.states.items()) if state.node)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of the other nodes."""
        return tuple(sorted(name for name, state in self.states.items() if state.bare))

    @property
    def known_shapes(self) -> tuple[KnownShape, ...]:
        """All shapes that this cluster has, had or has declared, by name; the declared ones last."""
        return tuple(known for _, known in sorted(self.shapes.items(), key=_shape_order))

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All objects that are left out, at least in part."""
        return tuple(problem for _, problems in sorted(self.problems_of.items()) for problem in problems)

    @property
    def unhinted(self) -> frozenset[str]:
        """The resources for which no known kubelet generates hints, and those that DRA serves."""
        if self._unhinted is None:
            self._unhinted = unhinted(known.shape.node for known in self.shapes.values())
        return self._unhinted | self.served


def differences(before: Cluster, after: Cluster) -> Iterator[Change]:
    """Yield the changes that make one cluster another; nodes go last, so that none is missing in between."""
    if (before.server, before.served) != (after.server, after.served):
        yield ServerChanged(after.server, after.served)
    for name in _changed(before.namespace_labels, after.namespace_labels):
        labels = after.namespace_labels.get(name)
        yield NamespaceChanged(
            name, None if labels is None else NamespaceFacts(after.namespaces[name], labels)
        )
    shapes = {key: after.shapes.get(key) for key in _changed(before.shapes, after.shapes)}
    if shapes or (before.left_out, before.pools) != (after.left_out, after.pools):
        yield ShapesChanged(shapes, after.left_out, after.pools)
    changed = _changed(before.states, after.states)
    for name in sorted(changed, key=lambda name: (name not in after.states, name)):
        yield NodeChanged(name, before.states.get(name, NO_NODE), after.states.get(name, NO_NODE))
    for key in sorted(_changed(before.problems_of, after.problems_of)):
        yield ProblemsChanged(key, before.problems_of.get(key, ()), after.problems_of.get(key, ()))
    if after.last_settled:
        yield after.last_settled


Key = TypeVar("Key")


def _changed(before: Mapping[Key, object], after: Mapping[Key, object]) -> list[Key]:
    return [key for key in {**before, **after} if before.get(key) != after.get(key)]


def _put(values: dict[Key, Value], key: Key, value: Value | None) -> None:
    """Set a value, or remove it."""
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _shape(known: KnownShape | None) -> Shape | None:
    return known.shape if known else None


def _shape_order(keyed: tuple[str, KnownShape]) -> tuple[bool, str]:
    key, known = keyed
    return known.declared, key
