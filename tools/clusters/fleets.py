"""Nodes as kubelets register them, topologies as exporters publish them, and a fleet of fifty-five.

The fleet has nine shapes. Eight form a class each; nodes of the last publish no topology. Only `dgx` and
`hgx` have four NVIDIA GPUs in a zone, and no node has more. `mi` and `apu` have GPUs of another vendor.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

Json = dict[str, Any]

TOPOLOGIES = "topology.node.k8s.io"
GIB = 2**30
KUBELET = "v1.34.4"
NEAR, FAR = 10, 21


@dataclass(frozen=True, slots=True)
class Shape:
    """The hardware of a group of nodes. Amounts are per zone; without a `policy`, no topology is published.

    If `taken`, running pods hold everything. `version` is the API version that the exporter writes.
    """

    zones: int
    cpus: int
    gib: int
    devices: Mapping[str, int]
    policy: str = "single-numa-node"
    scope: str = "container"
    nodes: int = 1
    taken: bool = False
    version: str = "v1alpha2"

    def per_zone(self) -> dict[str, int]:
        return {"cpu": self.cpus, "memory": self.gib * GIB, **self.devices}


SHAPES: Mapping[str, Shape] = {
    "dgx": Shape(2, 64, 1024, {"nvidia.com/gpu": 4, "rdma/hca": 4}, nodes=12),
    "hgx": Shape(2, 48, 512, {"nvidia.com/gpu": 4}, policy="best-effort", nodes=8),
    "duo": Shape(2, 32, 256, {"nvidia.com/gpu": 2}, scope="pod", nodes=6, version="v1alpha1"),
    "nps": Shape(4, 16, 128, {"nvidia.com/gpu": 1}, policy="restricted", nodes=6),
    "cpu": Shape(2, 32, 256, {}, nodes=10),
    "one": Shape(1, 16, 64, {}, policy="none", nodes=4),
    "mi": Shape(2, 48, 512, {"amd.com/gpu": 4}, policy="restricted", nodes=3),
    "apu": Shape(2, 48, 512, {"amd.com/gpu": 1}, policy="restricted", nodes=2),
    "new": Shape(2, 32, 256, {}, policy="", nodes=4),
}
WITH_FOUR_GPUS = ("dgx", "hgx")

LARGER = replace(SHAPES["dgx"], devices={"nvidia.com/gpu": 8, "rdma/hca": 4})
"""A shape that the fleet does not have: eight GPUs in a zone."""


def nodes() -> Iterator[Json]:
    for kind, shape in SHAPES.items():
        yield from (node(name, shape) for name in names(kind))


def topologies() -> Iterator[Json]:
    for kind, shape in SHAPES.items():
        yield from (topology(name, shape) for name in names(kind) if shape.policy)


def names(kind: str) -> list[str]:
    return [f"{kind}-{number:02}" for number in range(SHAPES[kind].nodes)]


def node(name: str, shape: Shape) -> Json:
    amounts = {resource: str(amount * shape.zones) for resource, amount in shape.per_zone().items()}
    everything = {**amounts, "pods": "110", "ephemeral-storage": "900Gi"}
    labels = {"node.kubernetes.io/instance-type": name.partition("-")[0], "topology.kubernetes.io/zone": "z1"}
    return registered(name, everything, everything, labels)


def registered(
    name: str, capacity: Mapping[str, str], allocatable: Mapping[str, str], labels: Mapping[str, str]
) -> Json:
    """Return a node that is ready, without the taint of new nodes, as no controller would remove it."""
    hostname = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    status = {
        "capacity": capacity,
        "allocatable": allocatable,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": KUBELET},
        "addresses": [{"type": "Hostname", "address": name}],
    }
    metadata = {"name": name, "labels": {**hostname, **labels}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def topology(name: str, shape: Shape) -> Json:
    """Return a topology as Node Feature Discovery's updater writes or wrote it (pkg/nfd-topology-updater)."""
    attributes = {"topologyManagerPolicy": shape.policy, "topologyManagerScope": shape.scope}
    configured: Json = {"attributes": [{"name": key, "value": value} for key, value in attributes.items()]}
    if shape.version == "v1alpha1":
        # The only policy that is needed in this form.
        assert (shape.policy, shape.scope) == ("single-numa-node", "pod")
        configured = {"topologyPolicies": ["SingleNUMANodePodLevel"]}
    amounts = {
        resource: (str(amount), str(amount), "0" if shape.taken else str(amount))
        for resource, amount in shape.per_zone().items()
    }
    return {
        "apiVersion": f"{TOPOLOGIES}/{shape.version}",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "zones": [zone(number, shape.zones, amounts) for number in range(shape.zones)],
        **configured,
    }


def zone(number: int, zones: int, amounts: Mapping[str, tuple[str, str, str]]) -> Json:
    """Return a zone; the amounts of a resource are its capacity, and what is allocatable and available."""
    names = ("capacity", "allocatable", "available")
    return {
        "name": f"node-{number}",
        "type": "Node",
        "costs": [{"name": f"node-{at}", "value": NEAR if at == number else FAR} for at in range(zones)],
        "resources": [
            {"name": name, **dict(zip(names, each, strict=True))} for name, each in amounts.items()
        ],
    }
