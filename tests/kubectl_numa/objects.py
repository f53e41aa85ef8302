"""A small cluster, and a pod: the objects that an API server would hand out."""

from typing import Any

# One machine in use, one that is empty and smaller, one that publishes nothing; a namespace that asks.
ITEMS: list[dict[str, Any]] = [
    {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": "container"},
        ],
        "zones": [
            {
                "name": f"node-{zone}",
                "type": "Node",
                "resources": [
                    {"name": "cpu", "capacity": cpus, "allocatable": cpus, "available": free},
                    {"name": "memory", "capacity": "64Gi", "allocatable": "64Gi", "available": "64Gi"},
                ],
            }
            for zone, free in enumerate(free_cpus)
        ],
    }
    for name, cpus, free_cpus in (("big", "32", ("8", "32")), ("small", "8", ("8", "8")))
]
ITEMS += [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpus, "memory": "128Gi"}},
    }
    for name, cpus in (("big", "64"), ("small", "16"), ("hidden", "16"))
]
ITEMS += [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    for name, labels in (
        ("default", {}),
        ("eager", {"numalign.io/default": "single-numa-node"}),
        ("strict", {"numalign.io/enforce": "restricted"}),
        ("closed", {"numalign.io/admission": "disabled"}),
    )
]


def manifest(
    name: str, cpu: str, *, policy: str | None = None, namespace: str | None = None
) -> dict[str, Any]:
    """A Guaranteed pod of one container with 4Gi of memory."""
    amounts = {"cpu": cpu, "memory": "4Gi"}
    metadata: dict[str, Any] = {"name": name}
    if policy:
        metadata["annotations"] = {"numalign.io/policy": policy}
    if namespace:
        metadata["namespace"] = namespace
    container = {"name": "main", "image": "example/main:1", "resources": {"limits": amounts}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
