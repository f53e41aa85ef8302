"""
What the trace does not contain: the zones of a node's resources, and the annotations of pods.

Every choice is a table or a number below, and nothing is random: the first node of a shape gets the first
kubelet of its model's row, the second node the second, and so on in turn. The same figures give the same
manifests, byte for byte.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any

from kubectl_numa.demo.openb.shapes import NodeShape, PodShape, node_shapes, pod_shapes
from numalign.model.intent import AUDIT, DEFAULT, ENFORCE, POLICY, SCOPE, VOLCANO_POLICY, WARN
from numalign.model.quantity import render_millis

GPU = "nvidia.com/gpu"
# A thousandth of a GPU, named as in the trace's own simulator. Nodes have it, zones do not.
GPU_SHARE = "alibabacloud.com/gpu-milli"
WHOLE_GPU = 1000
MIB = 2**20

RESERVED_CPUS = 1
RESERVED_MIB = 1024
SMALL_CPUS = 16
NPS4_CPUS = 96

# Model -> policy and scope of the kubelet.
KUBELETS: Mapping[str, Sequence[tuple[str, str]]] = MappingProxyType(
    {
        "": (("none", "container"), ("best-effort", "container"), ("restricted", "pod")),
        "A10": (("single-numa-node", "pod"),),
        "G2": (("single-numa-node", "container"), ("restricted", "container"), ("best-effort", "container")),
        "G3": (("restricted", "container"), ("restricted", "pod")),
        "P100": (("best-effort", "container"), ("none", "container")),
        "T4": (("single-numa-node", "container"), ("best-effort", "container")),
        "V100M16": (("single-numa-node", "container"), ("restricted", "container")),
        "V100M32": (("restricted", "container"), ("single-numa-node", "pod")),
    }
)

NAMESPACES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "batch": {AUDIT: "restricted"},
        "inference": {WARN: "single-numa-node"},
        "shared": {DEFAULT: "best-effort"},
        "training": {ENFORCE: "restricted"},
    }
)

# Namespace -> the annotations that the owners of its pods wrote.
INTENTS: Mapping[str, Sequence[Mapping[str, str]]] = MappingProxyType(
    {
        "batch": ({POLICY: "single-numa-node"}, {POLICY: "restricted"}, {}),
        "inference": (
            {POLICY: "single-numa-node"},
            {POLICY: "single-numa-node"},
            {POLICY: "best-effort"},
            {},
        ),
        "shared": ({}, {POLICY: "best-effort"}, {POLICY: "single-numa-node"}),
        "training": (
            {POLICY: "restricted"},
            {POLICY: "restricted"},
            {VOLCANO_POLICY: "restricted"},
            {POLICY: "single-numa-node"},
            {},
        ),
    }
)

# One in so many pods has a mistake in place of its intent.
MISTAKE_EVERY = 100
MISTAKES: Sequence[Mapping[str, str]] = (
    {POLICY: "single-numa"},
    {POLICY: "best_effort"},
    {"numalign.io/polcy": "restricted"},
    {POLICY: "Restricted", SCOPE: "containers"},
    {POLICY: "restricted", VOLCANO_POLICY: "single-numa-node"},
)


def cluster() -> list[dict[str, Any]]:
    """Return every Namespace, Node and NodeResourceTopology, without running pods: the items of a `List`."""
    items: list[dict[str, Any]] = []
    for name, labels in NAMESPACES.items():
        metadata = {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}}
        items.append({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    for number, shape in enumerate(node_shapes()):
        kubelets = KUBELETS[shape.model]
        for index in range(shape.count):
            name = f"{shape.model.lower() or 'cpu'}-{number:02}-{index:03}"
            policy, scope = kubelets[index % len(kubelets)]
            items.append(_node(shape, name=name))
            items.append(_topology(shape, name=name, policy=policy, scope=scope))
    return items


def pods() -> Iterator[dict[str, Any]]:
    """Yield every pod of the trace in the order of the table, each as a manifest of its own."""
    turns = count()
    for number, shape in enumerate(pod_shapes()):
        shared = shape.gpu_milli < WHOLE_GPU
        where, memory = namespace(shape), {"memory": f"{shape.memory_mib}Mi"} if shape.memory_mib else {}
        for index in range(shape.count):
            devices: dict[str, str] = {}
            if shape.num_gpu:
                devices = {GPU_SHARE: str(shape.gpu_milli)} if shared else {GPU: str(shape.num_gpu)}
            requests = {"cpu": render_millis(shape.cpu_milli), **memory, **devices}
            burstable = index >= shape.count - shape.burstable
            resources = {"requests": requests, "limits": devices if burstable else dict(requests)}
            turn = next(turns)
            mistake, position = divmod(turn, MISTAKE_EVERY)
            intents = INTENTS[where]
            mistaken = position == MISTAKE_EVERY - 1
            annotations = MISTAKES[mistake % len(MISTAKES)] if mistaken else intents[turn % len(intents)]
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"shape-{number:03}-{index:04}",
                    "namespace": where,
                    "labels": {"app": f"shape-{number:03}"},
                    **({"annotations": dict(annotations)} if annotations else {}),
                },
                "spec": {"containers": [{"name": "main", "image": "openb:2023", "resources": resources}]},
            }


def zone_count(shape: NodeShape) -> int:
    """Return 1 for a small node, 8 for two sockets in NPS4 (CPU-only, 96 CPUs), otherwise 2."""
    cpus = shape.cpu_milli // 1000
    if cpus <= SMALL_CPUS:
        return 1
    return 8 if cpus == NPS4_CPUS and not shape.gpu else 2


def namespace(shape: PodShape) -> str:
    """Return the namespace of such pods: there is one for each way to request GPUs."""
    if not shape.num_gpu:
        return "batch"
    if shape.gpu_milli < WHOLE_GPU:
        return "shared"
    return "training" if shape.num_gpu > 1 else "inference"


def _node(shape: NodeShape, *, name: str) -> dict[str, Any]:
    zones = zone_count(shape)
    devices = {GPU: str(shape.gpu), GPU_SHARE: str(shape.gpu * WHOLE_GPU)} if shape.gpu else {}

    def amounts(reserving: int) -> dict[str, str]:
        cpus = shape.cpu_milli // 1000 - reserving * RESERVED_CPUS
        memory = shape.memory_mib - reserving * RESERVED_MIB
        return {"cpu": str(cpus), "memory": f"{memory * 1024}Ki", "pods": "110", **devices}

    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": amounts(reserving=0), "allocatable": amounts(reserving=zones)},
    }


def _topology(shape: NodeShape, *, name: str, policy: str, scope: str) -> dict[str, Any]:
    count = zone_count(shape)
    cpus, memory, gpus = (
        _split(total, count) for total in (shape.cpu_milli // 1000, shape.memory_mib, shape.gpu)
    )
    zones = []
    for zone in range(count):
        amounts = (
            ("cpu", cpus[zone], cpus[zone] - RESERVED_CPUS),
            ("memory", memory[zone] * MIB, (memory[zone] - RESERVED_MIB) * MIB),
            (GPU, gpus[zone], gpus[zone]),
        )
        # As firmware reports it: 10 in the zone, 12 on the same of two sockets, 21 across.
        socket = zone * 2 // count
        near = [12 if other * 2 // count == socket else 21 for other in range(count)]
        distances = [10 if other == zone else near[other] for other in range(count)]
        zones.append(
            {
                "name": f"node-{zone}",
                "type": "Node",
                "costs": [{"name": f"node-{other}", "value": value} for other, value in enumerate(distances)],
                "resources": [
                    {
                        "name": resource,
                        "capacity": str(capacity),
                        "allocatable": str(free),
                        "available": str(free),
                    }
                    for resource, capacity, free in amounts
                    if capacity
                ],
            }
        )
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": policy},
            {"name": "topologyManagerScope", "value": scope},
        ],
        "zones": zones,
    }


def _split(total: int, parts: int) -> list[int]:
    """Return even parts of a whole; the remainder goes to the first ones, a piece each."""
    share, over = divmod(total, parts)
    return [share + (part < over) for part in range(parts)]
