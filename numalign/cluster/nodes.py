"""
One node of many objects: its Node, its NodeResourceTopology, and its kubelet's configuration.

The topology says what there is by zone, the Node what there is in all and which class it is labelled with,
the configuration how the kubelet was told to align. Only the topology must be there; of the others, what is
told counts, and how much was told is part of the node.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from numalign.cluster.kubelet_config import KubeletConfiguration
from numalign.cluster.parts import Part
from numalign.cluster.topologies import Topology
from numalign.rules.errors import BadTopology, Mistake
from numalign.rules.intent import CLASS_LABEL, Policy
from numalign.rules.resources import Resources
from numalign.rules.topology import Known, MemoryManager, Node, managers

LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

MOST_ZONES = 16
"""A kubelet that aligns walks all sets of its zones; with more zones neither it nor the rules would end."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a Node tells that its topology does not; `totals` is None if it does not say."""

    name: str
    totals: Resources | None = None
    label: str | None = None


def facts(raw: Mapping[str, object]) -> Facts:
    """What a v1 Node tells; raises `BadTopology` with every mistake."""
    whole = Part(raw)
    metadata = whole["metadata"]
    name = metadata["name"].needed_text()
    totals = whole["status"]["allocatable"].amounts() or None
    label = metadata["labels"][CLASS_LABEL]
    if not LABEL_VALUE.fullmatch(label.text()):
        label.wrong("no label can have this value: letters, digits and -_. between them, at most 63")
    whole.settle(BadTopology)
    return Facts(name, totals, label.text() or None)


def join(
    topology: Topology,
    *,
    told: Facts | None = None,
    configured: KubeletConfiguration | None = None,
) -> Node:
    """The node that a topology describes, with what else is known of it.

    Raises `BadTopology` where the kubelet would walk the sets of more than `MOST_ZONES` zones.
    """
    told = told or Facts(topology.name)
    said = configured or KubeletConfiguration(topology.name)
    cpu_manager, memory_manager = managers(topology.zones)
    node = Node(
        topology.name,
        topology.zones,
        policy=said.policy or topology.policy,
        scope=said.scope or topology.scope,
        cpu_manager=said.cpu_manager or cpu_manager,
        memory_manager=said.memory_manager or memory_manager,
        totals=told.totals,
        max_zones=said.max_zones or topology.max_zones,
        known=Known.CONFIGURED if configured else Known.COUNTS,
        label=told.label,
    )
    _walkable(node)
    return node


def _walkable(node: Node) -> None:
    walks = node.policy is not Policy.NONE or node.memory_manager is MemoryManager.STATIC
    if walks and len(node.zones) > MOST_ZONES:
        message = f"{len(node.zones)} are more than the {MOST_ZONES} among which a kubelet can align"
        raise BadTopology([Mistake("zones", message)])
