"""Fifty-five nodes as they register, and the topologies that exporters publish for them.

There are nine shapes. Eight form a class each; nodes of the last publish no topology. Only `dgx` and `hgx`
have four NVIDIA GPUs in a zone, and no node has more. `mi` and `apu` have GPUs of another vendor.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

Json = dict[str, Any]

TOPOLOGIES = "topology.node.k8s.io"
GIB = 2**30
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
        """Return all resources of a zone, memory in bytes."""
        return {"cpu": self.cpus, "memory": self.gib * GIB, **self.devices}


SHAPES: Mapping[str, Shape] = {
    "dgx": Shape(zones=2, cpus=64, gib=1024, devices={"nvidia.com/gpu": 4, "rdma/hca": 4}, nodes=12),
    "hgx": Shape(zones=2, cpus=48, gib=512, devices={"nvidia.com/gpu": 4}, policy="best-effort", nodes=8),
    "duo": Shape(
        zones=2, cpus=32, gib=256, devices={"nvidia.com/gpu": 2}, scope="pod", nodes=6, version="v1alpha1"
    ),
    "nps": Shape(zones=4, cpus=16, gib=128, devices={"nvidia.com/gpu": 1}, policy="restricted", nodes=6),
    "cpu": Shape(zones=2, cpus=32, gib=256, devices={}, nodes=10),
    "one": Shape(zones=1, cpus=16, gib=64, devices={}, policy="none", nodes=4),
    "mi": Shape(zones=2, cpus=48, gib=512, devices={"amd.com/gpu": 4}, policy="restricted", nodes=3),
    "apu": Shape(zones=2, cpus=48, gib=512, devices={"amd.com/gpu": 1}, policy="restricted", nodes=2),
    "new": Shape(zones=2, cpus=32, gib=256, devices={}, policy="", nodes=4),
}
WITH_FOUR_GPUS = ("dgx", "hgx")

LARGER = replace(SHAPES["dgx"], devices={"nvidia.com/gpu": 8, "rdma/hca": 4})
"""A shape that the fleet does not have: eight GPUs in a zone."""


def nodes() -> Iterator[Json]:
    """Yield all nodes of the fleet."""
    for kind, shape in SHAPES.items():
        yield from (node(name, shape) for name in names(kind))


def topologies() -> Iterator[Json]:
    """Yield the published topologies."""
    for kind, shape in SHAPES.items():
        yield from (topology(name, shape) for name in names(kind) if shape.policy)


def names(kind: str) -> list[str]:
    """Return the names of the nodes of a shape."""
    return [f"{kind}-{number:02}" for number in range(SHAPES[kind].nodes)]


def node(name: str, shape: Shape) -> Json:
    """Return a node as its kubelet registers it, but without a taint, as no controller would remove it."""
    amounts = {resource: str(amount * shape.zones) for resource, amount in shape.per_zone().items()}
    everything = {**amounts, "pods": "110", "ephemeral-storage": "900Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": name.partition("-")[0],
                "topology.kubernetes.io/zone": "z1",
            },
        },
        "status": {
            "capacity": everything,
            "allocatable": everything,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready"}
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "bootID": "8d2c0d86-3f0d-4d0c-9a3b-6c1c7b0a51f4",
                "machineID": "5f0d2c8f5a0f4c4d9c2b7c1f2c3d4e5f",
                "systemUUID": "5f0d2c8f-5a0f-4c4d-9c2b-7c1f2c3d4e5f",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.12.41",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.34.4",
                "osImage": "Debian GNU/Linux 13 (trixie)",
            },
            "addresses": [{"type": "Hostname", "address": name}],
        },
    }


def topology(name: str, shape: Shape) -> Json:
    """Return a topology as Node Feature Discovery's updater writes or wrote it (pkg/nfd-topology-updater)."""
    return {
        "apiVersion": f"{TOPOLOGIES}/{shape.version}",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "zones": [_zone(number, shape) for number in range(shape.zones)],
        **_CONFIGURATION[shape.version](shape),
    }


def _in_attributes(shape: Shape) -> Json:
    return {
        "attributes": [
            {"name": "topologyManagerPolicy", "value": shape.policy},
            {"name": "topologyManagerScope", "value": shape.scope},
        ]
    }


def _in_a_word(shape: Shape) -> Json:
    """Return the policy `SingleNUMANodePodLevel`, the only one that is needed in this form."""
    assert (shape.policy, shape.scope) == ("single-numa-node", "pod")
    return {"topologyPolicies": ["SingleNUMANodePodLevel"]}


_CONFIGURATION = {"v1alpha2": _in_attributes, "v1alpha1": _in_a_word}


def _zone(number: int, shape: Shape) -> Json:
    return {
        "name": f"node-{number}",
        "type": "Node",
        "costs": [
            {"name": f"node-{other}", "value": NEAR if other == number else FAR}
            for other in range(shape.zones)
        ],
        "resources": [
            {
                "name": resource,
                "capacity": str(amount),
                "allocatable": str(amount),
                "available": "0" if shape.taken else str(amount),
            }
            for resource, amount in shape.per_zone().items()
        ],
    }
