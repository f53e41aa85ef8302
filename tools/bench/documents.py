"""Nodes of a benchmark as objects of a cluster: Nodes, and the published topologies of their zones."""

from collections.abc import Iterable, Iterator
from typing import Any

from numalign.model.node import Node, Zone
from numalign.model.resources import CPU, MILLI

Raw = dict[str, Any]


def listed(nodes: Iterable[Node]) -> Raw:
    """Return these nodes and their topologies as kubectl prints them; all their CPUs must be whole."""
    return {"apiVersion": "v1", "kind": "List", "items": [each for node in nodes for each in pair(node)]}


def pair(node: Node) -> Iterator[Raw]:
    """Yield a Node and its NodeResourceTopology."""
    allocatable = {name: _said(name, amount) for name, amount in (node.totals or {}).items()}
    metadata = {"name": node.name}
    yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}}
    yield {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": metadata,
        "attributes": [
            {"name": "topologyManagerPolicy", "value": node.policy},
            {"name": "topologyManagerScope", "value": node.scope},
        ],
        "zones": [_zone(zone) for zone in node.zones],
    }


def _zone(zone: Zone) -> Raw:
    return {
        "name": zone.name,
        "type": "Node",
        "costs": [{"name": f"node-{to}", "value": cost} for to, cost in zone.costs],
        "resources": [
            {
                "name": name,
                "capacity": _said(name, capacity),
                "allocatable": _said(name, zone.allocatable[name]),
                "available": _said(name, zone.free[name]),
            }
            for name, capacity in zone.capacity.items()
        ],
    }


def _said(name: str, amount: int) -> str:
    return str(amount // MILLI if name == CPU else amount)
