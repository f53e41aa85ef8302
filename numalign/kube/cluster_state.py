"""
Everything seen of a cluster, object by object, and the cluster that it represents.

Objects arrive one by one and in any order, from a file or from watches; each is decoded once, and its text
is dropped. What belongs to one node is joined, again only when it has changed. One invalid object never
stops the rest: it is left out and reported, with its kind, its name and all its mistakes.
"""

import time
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from heapq import heapify, heappop
from typing import Any

from numalign.kube.cluster import (
    NO_NODE,
    Cluster,
    NamespaceChanged,
    NodeChanged,
    NodeState,
    ProblemsChanged,
    ServerChanged,
    ShapesChanged,
)
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
from numalign.kube.decode.koordinator import CpuFacts
from numalign.kube.decode.kubelet_config import KubeletConfiguration
from numalign.kube.decode.kubelet_reports import MACHINE, PLACEMENTS, MachineReport
from numalign.kube.decode.namespaces import NamespaceFacts
from numalign.kube.decode.nodes import BadNode, NodeFacts
from numalign.kube.decode.nrt import Topology
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.pod_counts import PodCounts
from numalign.kube.stores import Problem, Store, TopologyStore, sensible
from numalign.lru import Caches
from numalign.model.errors import BadTopology, Mistake
from numalign.model.intent import Policy, Scope
from numalign.model.node import Node
from numalign.model.options import NEWEST
from numalign.model.resources import EMPTY
from numalign.model.steps import Steps, finished
from numalign.shapes import RememberedShapes, ShapeHistory

_NODES_A_STEP = 4


class ClusterState:
    """Everything seen so far; `publish` applies to the `cluster` what has changed in it.

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
        cluster: Cluster | None = None,
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
        self.cluster = cluster or Cluster()
        self.cluster.observed_at = self.topologies.observed_at.view()
        # The history may know nodes of an earlier file.
        self._may_have_others = True

    def caches(self) -> Caches:
        """Return the caches of what agents wrote, by their names in metrics."""
        return {"machine_reports": self.topologies.reports, "machines": self.built_machines.cache}

    @property
    def version(self) -> int:
        """A number that grows whenever there may be something to publish."""
        return self.shape_history.version + sum(store.version for store in self._stores)

    def has_nodes(self) -> bool:
        """Return whether any topology represents a node now."""
        finished(self._join_changed())
        return bool(self._joined)

    def publish(self) -> Steps[None]:
        """Apply to the cluster what has changed, also in the meantime, some nodes at each step."""
        while True:
            self._recall_changed()
            self._publish_shapes()
            self._publish_settings()
            yield from self._join_changed()
            yield from self._examine_changed()
            if not any(store.changed for store in self._stores):
                break
        # Shapes are gone or known by now without any node that changed.
        self._publish_shapes()

    def _publish_settings(self) -> None:
        """Publish what is not part of any node."""
        for name in sorted(self.namespaces.changed):
            self.cluster.apply(NamespaceChanged(name, self.namespaces.get(name)))
        version = self.server_version.get(server_version.NAME) or NEWEST
        served = frozenset[str]().union(*(names for _, names in self.device_classes.decoded()))
        if (version, served) != (self.cluster.server, self.cluster.served):
            self.cluster.apply(ServerChanged(version, served))
        for store in (self.namespaces, self.device_classes, self.server_version, self.remembered_shapes):
            for name in sorted(store.changed):
                self._publish_problems((store.kind, name), store.problem(name))
            store.changed.clear()
        for name in sorted(self.topologies.observed_at.changed - self._unexamined):
            self._publish_problems(("Node", name), self._problems_of(name))
        self.topologies.observed_at.changed.clear()

    def _publish_problems(self, key: tuple[str, str], problems: Iterable[Problem]) -> None:
        before, now = self.cluster.problems_of.get(key, ()), tuple(problems)
        if now != before:
            self.cluster.apply(ProblemsChanged(key, before, now))

    def _publish_shapes(self) -> None:
        """Publish the shapes that have changed, before the first node that has one."""
        history, cluster = self.shape_history, self.cluster
        shapes, others = history.pop_changed(), (history.left_out, history.pools)
        if not cluster.version:
            # The history may have known them before this cluster.
            shapes = history.keyed()
        if shapes or others != (cluster.left_out, cluster.pools):
            cluster.apply(ShapesChanged(shapes, *others))

    def _recall_changed(self) -> None:
        """Recall remembered shapes; they stay known as long as the history keeps them."""
        for name in sorted(self.remembered_shapes.changed):
            self.shape_history.load(self.remembered_shapes.get(name) or RememberedShapes())

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
            # A node that cannot be joined must not hold back the others.
            self._unjoined.discard(name)
            self._join(name)
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
            for at, name in enumerate(self._in_turn(names), start=1):
                # A node that cannot be published must not hold back the others.
                self._unexamined.discard(name)
                self._publish_node(name, self._examined(name))
                if at % _NODES_A_STEP == 0:
                    yield

    def _in_turn(self, names: AbstractSet[str]) -> Iterator[str]:
        """Yield names in order, those of gone nodes last: a node that replaces another is known before."""
        yield from _in_order(name for name in names if name in self._joined or name in self.nodes)
        yield from _in_order(name for name in names if not (name in self._joined or name in self.nodes))

    def _examined(self, name: str) -> Node | None:
        """Return the node of this name with its health, if it has a topology."""
        node, node_facts = self._joined.get(name), self._facts(name)
        if node is None:
            self.shape_history.remove_node(name)
            return None
        return self.shape_history.update_node(node, identity=node_facts.identity, most=node_facts.most)

    def _publish_node(self, name: str, node: Node | None) -> None:
        self._publish_shapes()
        node_facts, topology = self.nodes.get(name), self.topologies.get(name)
        now = NO_NODE
        if node or name in self.nodes:
            now = NodeState(
                node,
                None if node else self._facts(name).bare(),
                node_facts.attributes.labels if node_facts else None,
                node_facts.label if node_facts else None,
                # An invalid topology is no reason to change the label of its node.
                classifiable=bool(node_facts and (node or not self._is_reported(name))),
                fingerprint=topology.fingerprint if node and topology else None,
                placements=self.topologies.placements.get(name) if node else None,
            )
        before = self.cluster.states.get(name, NO_NODE)
        if now != before:
            self.cluster.apply(NodeChanged(name, before, now))
        self._publish_problems(("Node", name), self._problems_of(name))

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
        for store in (*self._joins, self.topologies.observed_at):
            yield from store.problem(name)
        yield from self._join_problems.get(name, ())
        # A configuration for a name that no node has is nearly always misspelt.
        if name in self.configurations and name not in self.nodes and not self._is_reported(name):
            yield Problem(kubelet_config.KIND, name, (_NO_SUCH_NODE,))


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
