"""Fifty-five nodes as they register, and the topologies that exporters publish for them.

There are nine shapes. Eight form a class each; nodes of the last publish no topology. Only `dgx` and `hgx`
have four NVIDIA GPUs in a zone, and no node has more. `mi` and `apu` have GPUs of another vendor.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tools.clusters import nodes as registered

Json = dict[str, Any]

TOPOLOGIES = "topology.node.k8s.io"
GIB = 2**30


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
    instance = {"node.kubernetes.io/instance-type": name.partition("-")[0]}
    labels = {**instance, "topology.kubernetes.io/zone": "z1"}
    return registered.node(name, everything, everything, labels)


def topology(name: str, shape: Shape) -> Json:
    """Return a topology as Node Feature Discovery's updater writes or wrote it (pkg/nfd-topology-updater)."""
    if shape.version == "v1alpha1":
        # The only policy that is needed in this form.
        assert (shape.policy, shape.scope) == ("single-numa-node", "pod")
        configured: Json = {"topologyPolicies": ["SingleNUMANodePodLevel"]}
    else:
        attributes = {"topologyManagerPolicy": shape.policy, "topologyManagerScope": shape.scope}
        configured = {"attributes": [{"name": key, "value": value} for key, value in attributes.items()]}
    amounts = {
        resource: (str(amount), str(amount), "0" if shape.taken else str(amount))
        for resource, amount in shape.per_zone().items()
    }
    return {
        "apiVersion": f"{TOPOLOGIES}/{shape.version}",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "zones": [registered.zone(number, shape.zones, amounts) for number in range(shape.zones)],
        **configured,
    }
