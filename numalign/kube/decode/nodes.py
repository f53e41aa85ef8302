"""
One node of several objects: its Node, its NodeResourceTopology, and its kubelet's configuration.

The topology has the amounts by zone; the Node has the totals, the attributes that decide which pods may run
there, and its class label; the configuration has the kubelet's alignment settings. Only the topology is
required; the others count as far as they are set, and how much is known is part of the node.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from sys import intern

from numalign.kube.decode import label_syntax
from numalign.kube.decode.kubelet_config import KubeletConfiguration
from numalign.kube.decode.nrt import Topology
from numalign.kube.decode.parts import Part, named
from numalign.kubelet import hinted_zones, validation
from numalign.model.attributes import EFFECTS, NO_ATTRIBUTES, OS_LABEL, Attributes, Labels, Taint
from numalign.model.errors import BadTopology, Mistake
from numalign.model.intent import CLASS_LABEL
from numalign.model.node import CpuManager, Known, MemoryManager, Node, managers
from numalign.model.options import Options
from numalign.model.resources import Kind, Resources, kind
from numalign.model.sharing import shared
from numalign.shapes.history import UNKNOWN, Identity
from numalign.shapes.shape import UnknownNode

THREADS_LABEL = "feature.node.kubernetes.io/cpu-hardware_multithreading"
"""The label of node-feature-discovery for hyperthreads, "true" or "false"."""

_THREADS = {"true": 2, "false": 1}
# What distributions append to a version is ignored: v1.34.4-eks-1234567, v1.34.4+k3s1.
_VERSION = re.compile(r"v?1\.([0-9]{1,3})(\.[0-9]+)?([-+].*)?", re.DOTALL)

_READY, _TRUE = "Ready", "True"


class BadNode(BadTopology):
    """Raised when the parts of a node contradict each other, or no kubelet would start with them.

    `zones` and `configuration` are the mistakes in those objects; `mistakes` holds them all.
    """

    def __init__(self, zones: Iterable[Mistake], configuration: Iterable[Mistake]) -> None:
        self.zones, self.configuration = tuple(zones), tuple(configuration)
        super().__init__((*self.zones, *self.configuration))


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The facts of a Node that its topology does not have.

    `totals`, the kubelet's `minor` version and the `threads` per core are None if not set. `most` are the
    totals with all present devices, allocatable at present or not.
    """

    name: str
    totals: Resources | None = None
    label: str | None = None
    minor: int | None = None
    threads: int | None = None
    attributes: Attributes = NO_ATTRIBUTES
    identity: Identity = UNKNOWN
    most: Resources | None = None

    def bare(self) -> UnknownNode:
        """Return the node without a topology."""
        return UnknownNode(self.name, self.most, self.attributes, self.label)


def facts(raw: Mapping[str, object]) -> NodeFacts:
    """Return the facts of a v1 Node; raise `BadTopology` with every mistake."""
    node = Part(raw)
    metadata, status, info = node["metadata"], node["status"], node["status"]["nodeInfo"]
    name = intern(metadata["name"].required_text())
    totals = shared(status["allocatable"].amounts()) or None
    # Thousands of nodes share the values of labels.
    labels = Labels({intern(key): intern(value) for key, value in metadata["labels"].text_map().items()})
    class_part, label = metadata["labels"][CLASS_LABEL], labels.get(CLASS_LABEL, "")
    if not label_syntax.VALUE.fullmatch(label):
        class_part.wrong("is not a label value: at most 63 letters, digits, -, _ and . are allowed")
    # A node without a kubelet may report any version, and is still a node.
    version, spec = minor(info["kubeletVersion"].text()), node["spec"]
    keeping_away, cordoned = taints(spec["taints"]), bool(spec["unschedulable"].boolean())
    conditions = node["status"]["conditions"].objects()
    ready = [part["status"].text() for part in conditions if part["type"].text() == _READY]
    most = None
    if totals is not None:
        # Devices of a plugin that is down are only in the capacity; one that cannot be read adds nothing.
        capacity = Part(status["capacity"].value).amounts()
        devices = {device: amount for device, amount in capacity.items() if kind(device) is Kind.DEVICE}
        most = shared(totals.most(devices))
    read = NodeFacts(
        name,
        totals,
        label or None,
        minor=version,
        threads=_THREADS.get(labels.get(THREADS_LABEL, "")),
        attributes=Attributes(
            labels,
            keeping_away,
            cordoned=cordoned,
            # A Node without the condition counts as ready.
            ready=not ready or ready[-1] == _TRUE,
            # Nodes that no kubelet runs may lack either.
            os=intern(node["status"]["nodeInfo"]["operatingSystem"].text()) or labels.get(OS_LABEL, ""),
        ),
        identity=Identity(metadata["uid"].text(), info["systemUUID"].text(), info["machineID"].text()),
        most=most,
    )
    node.raise_mistakes(BadTopology)
    return read


def taints(listed: Part) -> tuple[Taint, ...]:
    """Return the taints that keep pods away; one with an unknown effect does not."""
    taints_ = (
        Taint(part["key"].required_text(), part["value"].text(), part["effect"].required_text())
        for part in listed.objects()
    )
    return shared(tuple(taint for taint in taints_ if taint.key and taint.effect in EFFECTS))


def minor_version(part: Part) -> int | None:
    """Return the minor version of a kubelet, as in v1.34.4; None if absent."""
    text = part.text()
    read = minor(text)
    if text and read is None:
        part.wrong(f"{named(text)} is not a Kubernetes version, such as v1.34.4")
    return read


def minor(version: str) -> int | None:
    """Return the minor version in a text like v1.34.4, with any suffix; None if there is none."""
    match = _VERSION.fullmatch(version)
    return int(match[1]) if match else None


def threads_per_core(labels: Part) -> int | None:
    """Return the hardware threads per core; None if no label says so."""
    return _THREADS.get(labels[THREADS_LABEL].text())


def join(
    topology: Topology, *, node_facts: NodeFacts | None = None, configured: KubeletConfiguration | None = None
) -> Node:
    """Return the node of a topology and what else is known; raise `BadNode` if no kubelet starts with it."""
    node = checked(unchecked(topology, node_facts=node_facts, configured=configured), configured)
    if topology.uncertain:
        # There are no managers of uncertain resources that no zone lists.
        lost = {kind(name) for name in topology.uncertain.difference(*(zone.capacity for zone in node.zones))}
        node = replace(
            node,
            uncertain=shared(topology.uncertain),
            cpu_manager=CpuManager.NONE if Kind.CPU in lost else node.cpu_manager,
            memory_manager=MemoryManager.NONE if Kind.MEMORY in lost else node.memory_manager,
        )
    return hinted_zones.apart(node)


def unchecked(
    topology: Topology, *, node_facts: NodeFacts | None = None, configured: KubeletConfiguration | None = None
) -> Node:
    """Return the node as `join` does, without checks."""
    node_facts = node_facts or NodeFacts(topology.name)
    configuration = configured or KubeletConfiguration(topology.name)
    cpu_manager, memory_manager = managers(topology.zones)
    return Node(
        topology.name,
        topology.zones,
        policy=configuration.policy or topology.policy,
        scope=configuration.scope or topology.scope,
        cpu_manager=configuration.cpu_manager or topology.cpus.manager or cpu_manager,
        memory_manager=configuration.memory_manager or memory_manager,
        totals=node_facts.totals,
        max_zones=topology.max_zones if configuration.max_zones is None else configuration.max_zones,
        known=Known.CONFIGURED if configured else Known.COUNTS,
        label=node_facts.label,
        attributes=node_facts.attributes,
        options=shared(
            Options(
                configuration.cpu_options if configured else topology.cpus.options,
                configuration.topology_options,
                configuration.gates.on(node_facts.minor),
                node_facts.minor,
                configuration.strategy,
                configuration.weights,
                configuration.unknown_options,
                configuration.unreleased_options,
            )
        ),
        threads=node_facts.threads or topology.cpus.threads,
    )


def checked(node: Node, configured: KubeletConfiguration | None) -> Node:
    """Return the node itself; raise `BadNode` if its kubelet, as far as that is known, would not start."""
    mistakes: list[Mistake] = []
    if node.known is not Known.COUNTS:
        mistakes += validation.start_errors(node, configured.reserved if configured else None)
    off = configured.cpu_options_off if configured else None
    if off and node.cpu_manager is CpuManager.NONE and not node.options.cpu:
        # The node has only the options that are on; policy none rejects any setting of them.
        why = f"CPU manager policy none takes no options, not even disabled ones: {', '.join(sorted(off))}"
        mistakes.append(Mistake(validation.CPU_OPTIONS, f"the kubelet would not start: {why}"))
    if mistakes:
        raise BadNode((), mistakes)
    return node
