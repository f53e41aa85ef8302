"""Nodes of benchmarks as objects of an API server."""

from collections.abc import Iterator
from typing import Any

from numalign.model.intent import Policy
from numalign.model.node import Node
from numalign.model.resources import render
from tools.bench.fleets import Case

Json = dict[str, Any]


def many(count: int, makes: int = 24) -> list[Json]:
    """Return so many nodes of so many makes, as Nodes and NodeResourceTopologies."""
    nodes = Case.mixed(count, makes, Policy.SINGLE_NUMA_NODE).members()
    return [each for node in nodes for each in _objects(node)]


def _objects(node: Node) -> Iterator[Json]:
    totals = {name: render(name, amount) for name, amount in (node.totals or {}).items()}
    yield {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": {"kubernetes.io/hostname": node.name}},
        "spec": {"unschedulable": node.name.endswith("99")},
        "status": {"capacity": totals, "allocatable": totals},
    }
    yield {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node.name},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": node.policy.value},
            {"name": "topologyManagerScope", "value": node.scope.value},
        ],
        "zones": [
            {
                "name": zone.name,
                "type": "Node",
                "resources": [
                    {
                        "name": name,
                        "capacity": render(name, zone.capacity[name]),
                        "allocatable": render(name, zone.allocatable[name]),
                        "available": render(name, zone.free[name]),
                    }
                    for name in zone.allocatable
                ],
            }
            for zone in node.zones
        ],
    }
