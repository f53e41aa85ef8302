"""A small cluster, and pods: the objects that an API server returns."""

import json
from datetime import timedelta
from typing import Any

from kubectl_numa import moving
from kubectl_numa.questions import ClusterView
from numalign.model.intent import PLACEMENT_OBSERVED, Match, NamespaceRules
from numalign.model.node import Node
from numalign.runtime.clock import utc_now
from numalign.scheduling.scheduler_state import SchedulerState
from tests.worlds import objects
from tests.worlds.clusters import a_cluster
from tests.worlds.objects import Json

SINGLE = "single-numa-node"
BORN = "2026-11-20T00:00:00Z"
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1", "controller": True}
GATE = "numalign.io/placement"
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}


def topology(name: str, cpus: str, free: tuple[str, ...], *, policy: str = SINGLE) -> Json:
    """A node of these zones with 64Gi each, all of it free, and so many CPUs."""
    attributes = {"topologyManagerPolicy": policy, "topologyManagerScope": "container"}
    memory = {"name": "memory", "capacity": "64Gi", "allocatable": "64Gi", "available": "64Gi"}
    made = objects.nrt(name, attributes=[{"name": key, "value": value} for key, value in attributes.items()])
    cpu = {"name": "cpu", "capacity": cpus, "allocatable": cpus}
    made["zones"] = [
        {"name": f"node-{zone}", "type": "Node", "resources": [{**cpu, "available": cpus_free}, memory]}
        for zone, cpus_free in enumerate(free)
    ]
    return made


def levels(name: str, **policies: str) -> Json:
    """A namespace with labels of ours."""
    return objects.namespace(name, **{f"numalign.io/{key}": policy for key, policy in policies.items()})


def machine_object(name: str, **allocatable: str) -> Json:
    return {**objects.node(name), "status": {"allocatable": allocatable}}


def labelled(made: Json, **labels: str) -> Json:
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


# One machine in use, one that is empty and smaller, one that publishes nothing; namespaces with levels.
ITEMS: list[Json] = [
    topology("big", "32", ("8", "32")),
    topology("small", "8", ("8", "8")),
    *(
        machine_object(name, cpu=cpus, memory="128Gi")
        for name, cpus in (("big", "64"), ("small", "16"), ("hidden", "16"))
    ),
    levels("default"),
    levels("eager", default=SINGLE),
    levels("strict", enforce="restricted"),
    levels("closed", admission="disabled"),
]


def manifest(
    name: str, cpu: str = "8", *, policy: str | None = None, namespace: str | None = None, **spec: object
) -> Json:
    """A Guaranteed pod of one container with 4Gi of memory."""
    metadata: Json = {"name": name}
    metadata |= {"annotations": {"numalign.io/policy": policy}} if policy else {}
    metadata |= {"namespace": namespace} if namespace else {}
    limits = {"cpu": cpu, "memory": "4Gi"}
    container = {"name": "main", "image": "example/main:1", "resources": {"limits": limits}}
    spec = {"containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def waiting(
    name: str, cpu: str = "8", *, namespace: str = "team", policy: str | None = SINGLE, **spec: object
) -> Json:
    """A pod that was created and has no node."""
    pod = manifest(name, cpu, policy=policy, namespace=namespace, **spec)
    pod["metadata"] |= {"uid": f"uid-of-{namespace}-{name}", "creationTimestamp": BORN}
    return pod | {"status": {"phase": "Pending"}}


def running(  # noqa: PLR0913  one for each fact
    name: str,
    *zones: int,
    cpu: str = "8",
    policy: str | None = SINGLE,
    namespace: str = "team",
    node: str = "big",
    key: str = PLACEMENT_OBSERVED,
    **spec: object,
) -> Json:
    """A pod of a ReplicaSet that runs; its CPUs are spread over these zones, its memory is in the first."""
    pod = waiting(name, cpu, policy=policy, namespace=namespace, nodeName=node, **spec)
    pod["metadata"] |= {"labels": {"app": name}, "ownerReferences": [OWNER]}
    if zones:
        share = {"cpu": str(int(cpu) // len(zones))}
        placement = [
            {"zones": [f"node-{zone}"], "amount": share | ({} if at else {"memory": "4Gi"})}
            for at, zone in enumerate(zones)
        ]
        pod["metadata"].setdefault("annotations", {})[key] = json.dumps(placement)
    return pod | {"status": {"phase": "Running", "startTime": BORN}}


def rejected(name: str, *, reason: str = "TopologyAffinityError", minutes: int = 4) -> Json:
    """A pod of a ReplicaSet that the kubelet of `big` rejected so many minutes ago."""
    started = f"{utc_now() - timedelta(minutes=minutes, seconds=30):%Y-%m-%dT%H:%M:%SZ}"
    message = "Pod was rejected: Resources cannot be allocated"
    status = {"phase": "Failed", "reason": reason, "message": message, "startTime": started}
    return running(name, policy=None, namespace="default") | {"status": status}


def workload(kind: str, name: str, *, spec: object, **metadata: object) -> Json:
    """An object of a kind such as `apps/v1/Deployment`."""
    api_version, _, short = kind.rpartition("/")
    return {"apiVersion": api_version, "kind": short, "metadata": {"name": name, **metadata}, "spec": spec}


def deployment(name: str, namespace: str | None = "default", /, **annotations: str) -> Json:
    """A Deployment of pods of four CPUs."""
    template = {"metadata": {}, "spec": manifest("x", "4")["spec"]}
    spec = {"template": template}
    return workload("apps/v1/Deployment", name, namespace=namespace, annotations=annotations, spec=spec)


def volcano_job(*templates: object, **metadata: object) -> Json:
    """A Volcano job with a task for each of these templates."""
    spec = {"tasks": [{"template": template} for template in templates]}
    made = workload("batch.volcano.sh/v1alpha1/Job", "train", namespace="night", spec=spec)
    return made | {"metadata": made["metadata"] | metadata}


def training_runtime(kind: str) -> Json:
    """A runtime of Kubeflow Trainer, with or without a namespace by its kind."""
    job = {"name": "node", "template": {"spec": {"template": {"spec": manifest("x")["spec"]}}}}
    spec = {"template": {"spec": {"replicatedJobs": [job]}}}
    return workload(f"trainer.kubeflow.org/v1alpha1/{kind}", "torch", spec=spec)


def unknown_kind(template: object) -> Json:
    """An object of a kind that is not built in."""
    return workload("x.io/v1/Thing", "a", spec={"template": template})


def view(
    *nodes: Node,
    rules: NamespaceRules | None = None,
    now: float = 0.0,
    **more: Any,  # noqa: ANN401  any value
) -> ClusterView:
    """A cluster of these nodes, with these rules in the namespace `default`."""
    ruled = {"default": rules} if rules else {}
    return ClusterView(a_cluster(nodes, rules=ruled, **more), now=now)


def state(cluster: ClusterView, *pods: Json) -> SchedulerState:
    """These pods on the nodes of a cluster; all that there are, if there are any."""
    return moving.placed_pods(cluster, pods, match=Match.SATISFIES, complete=False).state
