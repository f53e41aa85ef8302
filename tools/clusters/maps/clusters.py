"""A sample cluster for the map: the bundled one, a node with all reports of an agent, and pods."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numalign.kube.files import documents

Json = dict[str, Any]

BUNDLED = Path(__file__).parents[3] / "examples" / "data" / "cluster.yaml"
GPU, NIC = "nvidia.com/gpu", "rdma/hca"
GIB = 2**30

AGENT_NODE = "gpu-1"
"""The node with all reports of an agent."""

_CORES = 32
"""The cores of each of its sockets. Each has two threads; the second ones are numbered after all first."""


def bundled(*, now: float) -> list[Json]:
    """Return the bundled cluster with another node, and pods; the agent of that node observed it `now`."""
    items = [dict(each.raw) for each in documents.objects(documents.load(str(BUNDLED)))]
    return [*items, *_agent_node(now), *_pods()]


def _agent_node(now: float) -> Iterator[Json]:
    capacity = {"cpu": "128", "memory": "1024Gi", GPU: "8", NIC: "2", "pods": "110"}
    labels = {"topology.kubernetes.io/zone": "rack-b", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    yield {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": AGENT_NODE, "labels": labels},
        "status": {"capacity": capacity, "allocatable": capacity | {"cpu": "124", "memory": "1008Gi"}},
    }
    amounts = {"cpu": ("64", "62"), "memory": ("512Gi", "504Gi"), GPU: ("4", "4")}
    resources = [
        {"name": name, "capacity": most, "allocatable": given, "available": given}
        for name, (most, given) in amounts.items()
    ]
    yield {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": AGENT_NODE, "annotations": _reports(now)},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "best-effort"},
            {"name": "topologyManagerScope", "value": "container"},
        ],
        "zones": [{"name": f"node-{at}", "type": "Node", "resources": resources} for at in range(2)],
    }


def _reports(now: float) -> Mapping[str, str]:
    machine = {
        "zones": [_described(number) for number in range(2)],
        "reservedSystemCPUs": "0,32,64,96",
        "devices": {
            GPU: [{"zones": [number], "total": 4, "healthy": 4} for number in range(2)],
            NIC: [{"zones": [0, 1], "total": 2, "healthy": 2}],
        },
    }
    kubelet = {
        "version": "v1.34.4",
        "cpuManagerPolicy": "static",
        "memoryManagerPolicy": "Static",
        "topologyManagerPolicy": "best-effort",
    }
    pods = {
        f"uid-{name}": {
            "held": [{"zones": [zone], "amount": amounts} for zone, amounts in held.items()],
            "cpus": cpus,
        }
        for name, held, cpus in _OBSERVED
    }
    return {
        "numalign.io/machine": json.dumps({"version": 1, "kubelet": kubelet, "machine": machine}),
        "numalign.io/placements": json.dumps({"version": 1, "pods": pods}),
        "numalign.io/observed-at": _stamp(now),
    }


def _described(number: int) -> Json:
    first = number * _CORES
    caches = [[*range(at, at + 8), *range(at + 64, at + 72)] for at in range(first, first + _CORES, 8)]
    return {
        "id": number,
        "socket": number,
        "cores": [[at, at + 2 * _CORES] for at in range(first, first + _CORES)],
        "uncoreCaches": caches,
        "memory": 512 * GIB,
        "reservedMemory": 8 * GIB,
    }


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_OBSERVED: Sequence[tuple[str, Mapping[str, Json], str]] = (
    ("trainer-0", {"node-0": {"cpu": "16", "memory": "64Gi", GPU: "2"}}, "1-8,65-72"),
    ("trainer-1", {"node-1": {"cpu": "16", "memory": "64Gi", GPU: "2"}}, "33-40,97-104"),
    (
        "ranker",
        {"node-0": {"cpu": "8", "memory": "32Gi", GPU: "1"}, "node-1": {"cpu": "8"}},
        "9-12,41-44,73-76,105-108",
    ),
    ("loader", {"node-0": {"cpu": "38", "memory": "64Gi"}}, "13-31,77-95"),
    ("cache", {"node-1": {"cpu": "8", "memory": "16Gi"}}, "45-48,109-112"),
)
"""What each pod holds: amounts by zone, and CPUs."""


def pod(  # noqa: PLR0913  each is a field of a pod
    name: str,
    node: str,
    asks: Mapping[str, str],
    *,
    zone: str = "",
    namespace: str = "team-a",
    policy: str = "single-numa-node",
    owner: str = "",
) -> Json:
    """Return a guaranteed pod of one container on a node; its placement is predicted in `zone`, if given.

    In `asks`, `gpu` and `mem` are short for the names of the resources.
    """
    limits = {{"gpu": GPU, "mem": "memory"}.get(key, key): amount for key, amount in asks.items()}
    kind = {"apiVersion": "apps/v1", "kind": "StatefulSet"}
    predicted = [{"zones": [zone], "amount": limits}]
    placement = {"numalign.io/placement": json.dumps(predicted)} if zone else {}
    resources = {"requests": limits, "limits": limits}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "creationTimestamp": _stamp(time.time()),
            "annotations": {"numalign.io/policy": policy, **placement},
            "ownerReferences": [{**kind, "name": owner, "uid": owner, "controller": True}] if owner else [],
        },
        "spec": {
            "nodeName": node,
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "image": "x", "resources": resources}],
        },
        "status": {"phase": "Running", "startTime": _stamp(time.time())},
    }


def _pods() -> Iterator[Json]:
    asks = {"cpu": "16", "mem": "64Gi", "gpu": "2"}
    for number in range(2):
        yield pod(f"trainer-{number}", AGENT_NODE, asks, zone=f"node-{number}", owner="trainer")
    asks = {"cpu": "16", "mem": "32Gi", "gpu": "1"}
    yield pod("ranker", AGENT_NODE, asks, zone="node-0", namespace="prod")
    yield pod("loader", AGENT_NODE, {"cpu": "38", "mem": "64Gi"}, namespace="lab", policy="restricted")
    yield pod("cache", AGENT_NODE, {"cpu": "8", "mem": "16Gi"}, namespace="lab", policy="best-effort")
    for number, (node, zone, cpus, gpus) in enumerate(_BATCH):
        asks = {"cpu": str(cpus), "mem": f"{2 * cpus}Gi"} | ({"gpu": str(gpus)} if gpus else {})
        yield pod(f"batch-{number}", node, asks, zone=f"node-{zone}", namespace="lab", policy="restricted")


_BATCH = (
    ("dgx-1", 0, 32, 3),
    ("dgx-1", 1, 10, 2),
    ("dgx-2", 0, 62, 4),
    ("dgx-2", 1, 24, 1),
    ("hgx-1", 0, 24, 3),
    ("sparse-1", 0, 38, 2),
    ("sparse-1", 3, 16, 1),
    *(("epyc-1", zone, cpus, 0) for zone, cpus in enumerate((23, 23, 20, 16, 12, 6))),
    ("edge-1", 0, 8, 1),
)
"""Pods: the node, the number of the zone, CPUs and GPUs."""
