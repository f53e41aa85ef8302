"""A small cluster, and a pod: the objects that an API server would hand out."""

from datetime import timedelta
from typing import Any

from kubectl_numa import moving
from kubectl_numa.questions import ClusterView
from numalign.kube.cluster_state import Snapshot
from numalign.model.intent import Match, NamespaceRules
from numalign.model.node import Node
from numalign.runtime.clock import utc_now
from numalign.scheduling.scheduler_state import SchedulerState

SINGLE = "single-numa-node"


def known(kind: str, name: str, /, **content: Any) -> dict[str, Any]:  # noqa: ANN401 any object
    """An object of the core group."""
    metadata = {"name": name, **content.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **content}


# One machine in use, one that is empty and smaller, one that publishes nothing; a namespace that asks.
ITEMS: list[dict[str, Any]] = [
    {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": SINGLE},
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
    known("Node", name, status={"allocatable": {"cpu": cpus, "memory": "128Gi"}})
    for name, cpus in (("big", "64"), ("small", "16"), ("hidden", "16"))
]
ITEMS += [
    known("Namespace", name, metadata={"labels": labels})
    for name, labels in (
        ("default", {}),
        ("eager", {"numalign.io/default": SINGLE}),
        ("strict", {"numalign.io/enforce": "restricted"}),
        ("closed", {"numalign.io/admission": "disabled"}),
    )
]


def manifest(
    name: str, cpu: str, *, policy: str | None = None, namespace: str | None = None
) -> dict[str, Any]:
    """A Guaranteed pod of one container with 4Gi of memory."""
    metadata: dict[str, Any] = {"annotations": {"numalign.io/policy": policy}} if policy else {}
    metadata |= {"namespace": namespace} if namespace else {}
    limits = {"cpu": cpu, "memory": "4Gi"}
    container = {"name": "main", "image": "example/main:1", "resources": {"limits": limits}}
    return known("Pod", name, metadata=metadata, spec={"containers": [container]})


def rejected(name: str, *, reason: str = "TopologyAffinityError", minutes: int = 4) -> dict[str, Any]:
    """A pod of a ReplicaSet that the kubelet of `big` rejected so many minutes ago."""
    at = utc_now() - timedelta(minutes=minutes, seconds=30)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1", "controller": True}
    pod = manifest(name, "8")
    pod["metadata"] |= {"uid": f"uid-of-{name}", "ownerReferences": [owner]}
    pod["spec"]["nodeName"] = "big"
    message = "Pod was rejected: Resources cannot be allocated"
    started = f"{at:%Y-%m-%dT%H:%M:%SZ}"
    return pod | {"status": {"phase": "Failed", "reason": reason, "message": message, "startTime": started}}


def view(
    *nodes: Node,
    rules: NamespaceRules | None = None,
    now: float = 0.0,
    **snapshot: Any,  # noqa: ANN401 other fields of a snapshot
) -> ClusterView:
    """A cluster of these nodes, with these rules in the namespace `default`."""
    namespaces = {"default": rules} if rules else {}
    return ClusterView(Snapshot(nodes, namespaces=namespaces, **snapshot), now=now)


def state(cluster: ClusterView, *pods: dict[str, Any]) -> SchedulerState:
    """These pods on the nodes of a cluster; all that there are, if there are any."""
    return moving.placed_pods(cluster, pods, match=Match.SATISFIES, complete=False).state
