"""
What the trace does not tell: where a node's resources sit, and what a pod's owner wanted.

Every choice is a table or a number below, and turns take the place of chance: the first node of a shape gets
the first kubelet of its model's row, the second node the second, and so on around. The same figures give the
same manifests, byte for byte.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, TypeAlias

from examples.openb.shapes import NodeShape, PodShape, node_shapes, pod_shapes
from numalign.model.intent import AUDIT, DEFAULT, ENFORCE, POLICY, SCOPE, VOLCANO_POLICY, WARN
from numalign.model.quantity import render_millis

Manifest: TypeAlias = dict[str, Any]
Annotations: TypeAlias = Mapping[str, str]

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
        "G2": (
            ("single-numa-node", "container"),
            ("restricted", "container"),
            ("best-effort", "container"),
        ),
        "G3": (("restricted", "container"), ("restricted", "pod")),
        "P100": (("best-effort", "container"), ("none", "container")),
        "T4": (("single-numa-node", "container"), ("best-effort", "container")),
        "V100M16": (("single-numa-node", "container"), ("restricted", "container")),
        "V100M32": (("restricted", "container"), ("single-numa-node", "pod")),
    }
)

NAMESPACES: Mapping[str, Annotations] = MappingProxyType(
    {
        "batch": {AUDIT: "restricted"},
        "inference": {WARN: "single-numa-node"},
        "shared": {DEFAULT: "best-effort"},
        "training": {ENFORCE: "restricted"},
    }
)

# Namespace -> what the owners of its pods wrote.
INTENTS: Mapping[str, Sequence[Annotations]] = MappingProxyType(
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

# Every so many pods, one carries a mistake in place of its intent.
MISTAKE_EVERY = 100
MISTAKES: Sequence[Annotations] = (
    {POLICY: "single-numa"},
    {POLICY: "best_effort"},
    {"numalign.io/polcy": "restricted"},
    {POLICY: "Restricted", SCOPE: "containers"},
    {POLICY: "restricted", VOLCANO_POLICY: "single-numa-node"},
)


def cluster() -> list[Manifest]:
    """Every Namespace, Node and NodeResourceTopology, no pod running: the items of a `List`."""
    items = [_namespace(name, labels) for name, labels in NAMESPACES.items()]
    for number, shape in enumerate(node_shapes()):
        kubelets = KUBELETS[shape.model]
        for index in range(shape.count):
            name = f"{shape.model.lower() or 'cpu'}-{number:02}-{index:03}"
            policy, scope = kubelets[index % len(kubelets)]
            items.append(_node(shape, name=name))
            items.append(_topology(shape, name=name, policy=policy, scope=scope))
    return items


def pods() -> Iterator[Manifest]:
    """Every pod of the trace in the order of the table, each a manifest of its own."""
    turns = count()
    for number, shape in enumerate(pod_shapes()):
        for index in range(shape.count):
            name = f"shape-{number:03}-{index:04}"
            squeezed = index >= shape.count - shape.burstable
            resources = _resources(shape, squeezed=squeezed)
            yield _pod(shape, name=name, turn=next(turns), resources=resources)


def zone_count(shape: NodeShape) -> int:
    """1 for a small node, 8 for two sockets in NPS4 (CPU-only, 96 CPUs), otherwise 2."""
    cpus = shape.cpu_milli // 1000
    if cpus <= SMALL_CPUS:
        return 1
    return 8 if cpus == NPS4_CPUS and not shape.gpu else 2


def namespace(shape: PodShape) -> str:
    """The namespace of such pods: one for each way to ask for GPUs."""
    if not shape.num_gpu:
        return "batch"
    if shape.gpu_milli < WHOLE_GPU:
        return "shared"
    return "training" if shape.num_gpu > 1 else "inference"


def _namespace(name: str, labels: Annotations) -> Manifest:
    labels = {"kubernetes.io/metadata.name": name, **labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _node(shape: NodeShape, *, name: str) -> Manifest:
    zones = zone_count(shape)
    cpus = shape.cpu_milli // 1000
    devices = {GPU: str(shape.gpu), GPU_SHARE: str(shape.gpu * WHOLE_GPU)} if shape.gpu else {}
    capacity = _node_amounts(cpus, shape.memory_mib)
    left = _node_amounts(cpus - zones * RESERVED_CPUS, shape.memory_mib - zones * RESERVED_MIB)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": {**capacity, **devices}, "allocatable": {**left, **devices}},
    }


def _node_amounts(cpus: int, memory_mib: int) -> dict[str, str]:
    return {"cpu": str(cpus), "memory": f"{memory_mib * 1024}Ki", "pods": "110"}


def _topology(shape: NodeShape, *, name: str, policy: str, scope: str) -> Manifest:
    zones = zone_count(shape)
    shares = zip(
        _split(shape.cpu_milli // 1000, zones),
        _split(shape.memory_mib, zones),
        _split(shape.gpu, zones),
        strict=True,
    )
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": policy},
            {"name": "topologyManagerScope", "value": scope},
        ],
        "zones": [
            {
                "name": f"node-{zone}",
                "type": "Node",
                "costs": [
                    {"name": f"node-{other}", "value": _distance(zone, other, zones=zones)}
                    for other in range(zones)
                ],
                "resources": _zone_resources(cpus, memory_mib, gpus),
            }
            for zone, (cpus, memory_mib, gpus) in enumerate(shares)
        ],
    }


def _split(total: int, parts: int) -> list[int]:
    """Even parts of a whole; what does not divide goes to the first ones, a piece each."""
    share, rest = divmod(total, parts)
    return [share + (part < rest) for part in range(parts)]


def _distance(zone: int, other: int, *, zones: int) -> int:
    """As firmware tells it: 10 at home, 12 on the same of two sockets, 21 across."""
    if zone == other:
        return 10
    return 12 if zone * 2 // zones == other * 2 // zones else 21


def _zone_resources(cpus: int, memory_mib: int, gpus: int) -> list[dict[str, str]]:
    amounts = [
        ("cpu", cpus, cpus - RESERVED_CPUS),
        ("memory", memory_mib * MIB, (memory_mib - RESERVED_MIB) * MIB),
        (GPU, gpus, gpus),
    ]
    return [
        {"name": name, "capacity": str(whole), "allocatable": str(left), "available": str(left)}
        for name, whole, left in amounts
        if whole
    ]


def _resources(shape: PodShape, *, squeezed: bool) -> Manifest:
    devices = _devices(shape)
    memory = {"memory": f"{shape.memory_mib}Mi"} if shape.memory_mib else {}
    requests = {"cpu": render_millis(shape.cpu_milli), **memory, **devices}
    return {"requests": requests, "limits": devices if squeezed else dict(requests)}


def _devices(shape: PodShape) -> dict[str, str]:
    if not shape.num_gpu:
        return {}
    if shape.gpu_milli < WHOLE_GPU:
        return {GPU_SHARE: str(shape.gpu_milli)}
    return {GPU: str(shape.num_gpu)}


def _annotations(turn: int, intents: Sequence[Annotations]) -> dict[str, str]:
    mistake, position = divmod(turn, MISTAKE_EVERY)
    if position == MISTAKE_EVERY - 1:
        return dict(MISTAKES[mistake % len(MISTAKES)])
    return dict(intents[turn % len(intents)])


def _pod(shape: PodShape, *, name: str, turn: int, resources: Manifest) -> Manifest:
    where = namespace(shape)
    metadata = {"name": name, "namespace": where, "labels": {"app": name.rpartition("-")[0]}}
    annotations = _annotations(turn, INTENTS[where])
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": "openb:2023", "resources": resources}]},
    }
