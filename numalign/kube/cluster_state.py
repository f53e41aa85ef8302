"""
Everything seen of a cluster, object by object, and the cluster that it represents.

Objects arrive one by one and in any order, from a file or from watches; each is decoded once, and its text is
dropped. A snapshot joins the current objects, and joins again only what has changed. One invalid object never
stops the rest: it is left out and reported, with its kind, its name and all its mistakes.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop
from types import MappingProxyType
from typing import Any

from numalign.kube.decode import (
    device_classes,
    kubelet_config,
    machine_nodes,
    namespaces,
    nodes,
    nrt,
    numatopologies,
    server_version,
    shapes,
)
from numalign.kube.decode.fingerprints import Fingerprint
from numalign.kube.decode.koordinator import CpuFacts
from numalign.kube.decode.kubelet_config import KubeletConfiguration
from numalign.kube.decode.kubelet_reports import MACHINE, PLACEMENTS, MachineReport
from numalign.kube.decode.namespaces import NamespaceFacts
from numalign.kube.decode.nodes import BadNode, NodeFacts
from numalign.kube.decode.nrt import Topology
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.named_values import NamedValues, SortedValues
from numalign.kube.pod_counts import PodCounts
from numalign.kube.stores import Placements, Problem, Store, TopologyStore, sensible
from numalign.lru import Caches
from numalign.model.errors import BadTopology, Mistake
from numalign.model.intent import NamespaceRules, Policy, Scope
from numalign.model.node import Node
from numalign.model.options import NEWEST
from numalign.model.resources import EMPTY
from numalign.model.steps import Steps, finished
from numalign.shapes import GrowablePools, KnownShape, LeftOut, RememberedShapes, ShapeHistory
from numalign.shapes.growable_pools import BUILT_IN
from numalign.shapes.hints import NOTHING_KNOWN, unhinted
from numalign.shapes.unknown_node import UnknownNode

_NODES_A_STEP = 4


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster at one moment.

    `nodes` are those with a known topology, by name; `unknown` the names of the others, and `bare` the facts
    of their Node objects. `shapes` are all that this cluster has, had, or has declared, except
    those that were `left_out`; `pools` may grow others. `labels` is the class label of each Node, None if it
    has none; a Node that is invalid, or whose topology is, is not in it.
    `node_labels` are all labels of each Node. `namespaces` are the rules of each, and `namespace_labels` all
    of its labels.

    `fingerprints` are those of the pods that the free amounts of a node account for, if its exporter
    publishes one. `placements` are what the agent of a node saw its pods hold, by uid. `observed_at` is when
    it last looked, in seconds since 1970, None if that cannot be read; it is always the current one, because
    nothing else changes with it.

    `server` is the minor version of the API server, the newest release if it is not known. `served` are the
    extended resources that DRA serves. `unhinted` are these, and those for which no known
    kubelet generates hints. `pods` counts the pods on nodes, and `ignored` the objects of kinds that are not
    read, by kind and group (`Deployment.apps`).
    """

    nodes: tuple[Node, ...] = ()
    unknown: tuple[str, ...] = ()
    bare: Mapping[str, UnknownNode] = field(default_factory=dict)
    shapes: tuple[KnownShape, ...] = ()
    left_out: LeftOut | None = None
    pools: GrowablePools = BUILT_IN
    labels: Mapping[str, str | None] = field(default_factory=dict)
    node_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    namespaces: Mapping[str, NamespaceRules] = field(default_factory=dict)
    namespace_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    fingerprints: Mapping[str, Fingerprint] = field(default_factory=dict)
    placements: Mapping[str, Placements] = field(default_factory=dict)
    observed_at: Mapping[str, float | None] = field(default_factory=dict)
    server: int = NEWEST
    served: frozenset[str] = frozenset()
    unhinted: frozenset[str] = NOTHING_KNOWN
    problems: tuple[Problem, ...] = ()
    ignored: Mapping[str, int] = field(default_factory=dict)
    pods: int = 0


@dataclass(frozen=True, slots=True)
class _SnapshotData:
    """What snapshots contain for each node, by its name."""

    nodes: SortedValues[Node] = field(default_factory=SortedValues)
    bare: NamedValues[UnknownNode] = field(default_factory=NamedValues)
    labels: NamedValues[str | None] = field(default_factory=NamedValues)
    node_labels: NamedValues[Mapping[str, str]] = field(default_factory=NamedValues)
    fingerprints: NamedValues[Fingerprint] = field(default_factory=NamedValues)
    placements: NamedValues[Placements] = field(default_factory=NamedValues)
    problems: SortedValues[tuple[Problem, ...]] = field(default_factory=SortedValues)


class ClusterState:
    """Everything seen so far; `snapshot` is the cluster that it represents.

    A topology without a Node is an orphan that its exporter left behind, and is ignored. But a file may
    contain only topologies: unless its Nodes are `complete`, as an API server's are, there are no orphans if
    there is no Node at all. The `shape_history` knows the healthy nodes, `reader` the counted pods.
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
        self.nodes = Store("Node", sensible(nodes.facts))
        self.topologies = TopologyStore()
        self.configurations = Store(kubelet_config.KIND, sensible(kubelet_config.kubelet_configuration))
        self.namespaces: Store[NamespaceFacts] = Store("Namespace", namespaces.facts)
        self.remembered_shapes: Store[RememberedShapes] = Store(shapes.KIND, shapes.decode)
        self.device_classes: Store[frozenset[str]] = Store(device_classes.KIND, device_classes.served)
        self.numatopologies = Store(numatopologies.KIND, sensible(numatopologies.report))
        self.server_version: Store[int] = Store(server_version.KIND, server_version.minor)
        self._joins: tuple[Store[Any], ...] = (
            *(self.nodes, self.topologies, self.topologies.machines, self.topologies.placements),
            *(self.numatopologies, self.configurations),
        )
        self._stores: tuple[Store[Any], ...] = (
            *self._joins,
            *(self.namespaces, self.remembered_shapes, self.device_classes, self.server_version),
        )
        self.pod_counts = PodCounts(reader or PodReader())
        self._unjoined: set[str] = set()
        self.built_machines = machine_nodes.BuiltMachines()
        self._machines: dict[str, tuple[_MachineKey, Node]] = {}
        self._joined: dict[str, Node] = {}
        self._join_problems: dict[str, tuple[Problem, ...]] = {}
        self._unexamined: set[str] = set()
        self._snapshot_data = _SnapshotData()
        self._unhinted: tuple[int, frozenset[str]] = -1, NOTHING_KNOWN
        # The history may know nodes of an earlier file.
        self._may_have_others = True

    def caches(self) -> Caches:
        """Return the caches of what agents wrote, by their names in metrics."""
        return {"machine_reports": self.topologies.reports, "machines": self.built_machines.cache}

    @property
    def version(self) -> int:
        """A number that grows whenever `snapshot` would change, pods aside."""
        return self.shape_history.version + sum(store.version for store in self._stores)

    def has_nodes(self) -> bool:
        """Return whether any topology represents a node now."""
        finished(self._join_changed())
        return bool(self._joined)

    def snapshot(self) -> Snapshot:
        """Return the cluster that all objects represent now; only changed nodes are joined again."""
        finished(self.work())
        data, ruled = self._snapshot_data, dict(self.namespaces.decoded())
        bare, shapes = data.bare.copy(), self.shape_history.shapes()
        if self._unhinted[0] != self.shape_history.version:
            self._unhinted = self.shape_history.version, unhinted(known.shape.node for known in shapes)
        served = frozenset[str]().union(*(names for _, names in self.device_classes.decoded()))
        return Snapshot(
            nodes=data.nodes.copy(),
            unknown=tuple(sorted(bare)),
            bare=bare,
            shapes=shapes,
            left_out=self.shape_history.left_out,
            pools=self.shape_history.pools,
            labels=data.labels.copy(),
            node_labels=data.node_labels.copy(),
            namespaces=MappingProxyType({name: namespace.rules for name, namespace in ruled.items()}),
            namespace_labels=MappingProxyType({name: namespace.labels for name, namespace in ruled.items()}),
            fingerprints=data.fingerprints.copy(),
            placements=data.placements.copy(),
            observed_at=self.topologies.observed_at.view(),
            server=self.server_version.get(server_version.NAME) or NEWEST,
            served=served,
            unhinted=self._unhinted[1] | served,
            problems=tuple(self._problems()),
            pods=len(self.pod_counts),
        )

    def work(self) -> Steps[None]:
        """Compute in steps what `snapshot` then returns at once, including changes in the meantime."""
        while True:
            self._recall_changed()
            yield from self._join_changed()
            yield from self._examine_changed()
            if not any(store.changed for store in (*self._joins, self.remembered_shapes)):
                break
        # These are not part of any node.
        self.namespaces.changed.clear()
        self.device_classes.changed.clear()
        self.server_version.changed.clear()
        self.topologies.observed_at.changed.clear()

    def _recall_changed(self) -> None:
        """Recall remembered shapes; they stay known as long as the history keeps them."""
        for name in sorted(self.remembered_shapes.changed):
            self.shape_history.load(self.remembered_shapes.get(name) or RememberedShapes())
        self.remembered_shapes.changed.clear()

    def _join_changed(self) -> Steps[None]:
        """Join the nodes that have changed since the last time."""
        orphans = self._complete or any(self.nodes)
        if orphans != self._can_have_orphans:
            self._can_have_orphans = orphans
            self._unjoined |= {*self.topologies, *self.numatopologies}
        # Remembered shapes count when they are recalled; a request for nodes alone does not recall them.
        for store in self._joins:
            self._unjoined |= store.changed
            store.changed.clear()
        for at, name in enumerate([*self._unjoined], start=1):
            self._join(name)
            self._unjoined.discard(name)
            self._unexamined.add(name)
            if at % _NODES_A_STEP == 0:
                yield

    def _examine_changed(self) -> Steps[None]:
        """Update the health of these nodes, and of those about whose past they revealed more."""
        if self._may_have_others:
            self._may_have_others = False
            self.shape_history.retain_nodes(self._joined.keys())
        while names := self._unexamined | self.shape_history.pop_stale():
            self._unexamined = {*names}
            for at, name in enumerate(_in_order(names), start=1):
                self._update_snapshot_data(name, self._examined(name))
                self._unexamined.discard(name)
                if at % _NODES_A_STEP == 0:
                    yield

    def _examined(self, name: str) -> Node | None:
        """Return the node of this name with its health, if it has a topology."""
        node, node_facts = self._joined.get(name), self._facts(name)
        if node is None:
            self.shape_history.remove_node(name)
            return None
        return self.shape_history.update_node(node, identity=node_facts.identity, most=node_facts.most)

    def _update_snapshot_data(self, name: str, known: Node | None) -> None:
        """Store what snapshots contain for a node."""
        data, node_facts, topology = self._snapshot_data, self.nodes.get(name), self.topologies.get(name)
        data.nodes.set(name, known)
        data.bare.set(name, self._facts(name).bare() if known is None and name in self.nodes else None)
        data.node_labels.set(name, node_facts.attributes.labels if node_facts else None)
        data.fingerprints.set(name, topology.fingerprint if known and topology else None)
        data.placements.set(name, self.topologies.placements.get(name) if known else None)
        data.problems.set(name, tuple(self._problems_of(name)) or None)
        # An invalid topology is no reason to change the label of its node.
        if node_facts and (known or not self._is_reported(name)):
            data.labels.put(name, node_facts.label)
        else:
            data.labels.drop(name)

    def _facts(self, name: str) -> NodeFacts:
        return self.nodes.get(name) or NodeFacts(name)

    def _join(self, name: str) -> None:
        node, problems = self._joined_anew(name)
        if problems:
            self._join_problems[name] = problems
        else:
            self._join_problems.pop(name, None)
        if node:
            self._joined[name] = node
        else:
            self._joined.pop(name, None)

    def _joined_anew(self, name: str) -> tuple[Node | None, tuple[Problem, ...]]:
        if name not in self.topologies:
            return self._joined_from_cpus(name)
        topology = self.topologies.get(name)
        if topology is None:
            return None, ()
        if self._is_orphan(name):
            return None, (Problem(nrt.KIND, name, (_ORPHAN,)),)
        node_facts, configured = self.nodes.get(name), self.configurations.get(name)
        node, problems = self._reported(topology, node_facts)
        if node is None:
            node, others = _joined(topology, node_facts=node_facts, configured=configured)
            problems = (*problems, *others)
        return node, problems

    def _joined_from_cpus(self, name: str) -> tuple[Node | None, tuple[Problem, ...]]:
        """Return a node that only Volcano's exporter reports."""
        report = self.numatopologies.get(name)
        if report is None:
            return None, ()
        if self._is_orphan(name):
            return None, (Problem(numatopologies.KIND, name, (_ORPHAN,)),)
        node_facts = self._facts(name)
        if node_facts.threads is None:
            node_facts = replace(node_facts, threads=report.threads)
        configured = self.configurations.get(name)
        topology = report.with_gpus((node_facts.most or EMPTY).get(numatopologies.GPU, 0))
        return _joined(topology, node_facts=node_facts, configured=configured)

    def _is_orphan(self, name: str) -> bool:
        """Return whether there are Nodes, and none with this name."""
        return self._can_have_orphans and name not in self.nodes

    def _is_reported(self, name: str) -> bool:
        """Return whether this node's zones are reported at all, valid or not."""
        return name in self.topologies or name in self.numatopologies

    def _reported(
        self, topology: Topology, node_facts: NodeFacts | None
    ) -> tuple[Node | None, tuple[Problem, ...]]:
        """Return the node with the machine that its agent reports, and what is free on it; None without one.

        The agent's report on machine and configuration takes precedence: it is the kubelet's own, and newer.
        """
        name = topology.name
        report = self.topologies.machines.get(name)
        if report is None:
            self._machines.pop(name, None)
            return None, ()
        key = report, topology.policy, topology.scope, topology.max_zones, topology.cpus, node_facts
        before = self._machines.get(name)
        if before is None or before[0] != key:
            try:
                node = machine_nodes.reported(
                    report, topology, node_facts=node_facts, build=self.built_machines.build
                )
            except BadNode as error:
                self._machines.pop(name, None)
                return None, (_in_annotation(name, MACHINE, error.mistakes),)
            before = self._machines[name] = key, node
        return self._occupied(before[1], topology)

    def _occupied(self, node: Node, topology: Topology) -> tuple[Node, tuple[Problem, ...]]:
        """Return the node with what is free there; placements that contradict it are ignored."""
        placements = self.topologies.placements.get(node.name) or {}
        try:
            return machine_nodes.occupied(node, placements, topology), ()
        except BadTopology as error:
            problem = _in_annotation(node.name, PLACEMENTS, error.mistakes)
            return machine_nodes.occupied(node, {}, topology), (problem,)

    def _problems_of(self, name: str) -> Iterator[Problem]:
        yield from self._join_problems.get(name, ())
        # A configuration for a name that no node has is nearly always misspelt.
        if name in self.configurations and name not in self.nodes and not self._is_reported(name):
            yield Problem(kubelet_config.KIND, name, (_NO_SUCH_NODE,))

    def _problems(self) -> Iterator[Problem]:
        for store in (*self._stores, self.topologies.observed_at):
            yield from store.problems()
        for problems in self._snapshot_data.problems.copy():
            yield from problems


_MachineKey = tuple[MachineReport, Policy, Scope, int, CpuFacts, NodeFacts | None]
"""The parts of a node with a machine while it is empty."""


def _in_annotation(name: str, key: str, mistakes: Iterable[Mistake]) -> Problem:
    """Return the problem in an annotation of a node's topology."""
    where = f"metadata.annotations[{key}]"
    return Problem(nrt.KIND, name, tuple(mistake.under(where) for mistake in mistakes))


_ORPHAN = Mistake("metadata.name", "no Node of this name: its exporter left it behind")
_NO_SUCH_NODE = Mistake("metadata.name", "no node in this snapshot has this name")


def _in_order(names: Iterable[str]) -> Iterator[str]:
    """Yield the names in order, one at a time: sorting thousands at once takes milliseconds."""
    heap = [*names]
    heapify(heap)
    while heap:
        yield heappop(heap)


def _joined(
    topology: Topology, *, node_facts: NodeFacts | None, configured: KubeletConfiguration | None
) -> tuple[Node, tuple[Problem, ...]]:
    """Return the node; one whose kubelet would not start as configured is known by its topology alone."""
    try:
        return nodes.join(topology, node_facts=node_facts, configured=configured), ()
    except BadNode as error:
        problem = Problem(kubelet_config.KIND, topology.name, error.configuration)
    return nodes.join(topology, node_facts=node_facts), (problem,)
