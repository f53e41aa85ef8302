"""Workloads whose pods have an intent, and pods without one that leave holes in nodes."""

from collections.abc import Mapping, Sequence

from tools.clusters.api_requests import Json

INTENT = {"numalign.io/policy": "single-numa-node"}
OF = "of"
"""The label by which pods are found: the name of their workload."""

WIDE = 2
"""CPUs of a pod with an intent."""


def template(name: str, *, on: Mapping[str, str], cpus: int = WIDE, restart: str = "Always") -> Json:
    """A guaranteed pod with an intent, for nodes with these labels; it runs until it is deleted."""
    amounts = {"cpu": str(cpus), "memory": "64Mi"}
    container = {
        "name": "main",
        "image": "registry.example/main",
        "resources": {"requests": amounts, "limits": {**amounts}},
    }
    return {
        "metadata": {"labels": {OF: name}, "annotations": dict(INTENT)},
        "spec": {
            "containers": [container],
            "nodeSelector": dict(on),
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 0,
        },
    }


def ending(wish: Json, *, seconds: int) -> Json:
    spec = wish["spec"]
    containers = [{**each, "command": ["sleep", str(seconds)]} for each in spec["containers"]]
    return {**wish, "spec": {**spec, "containers": containers, "restartPolicy": "Never"}}


def _workload(version: str, kind: str, namespace: str, name: str, spec: Json) -> Json:
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def replicaset(namespace: str, name: str, replicas: int, wish: Json) -> Json:
    return _selecting("ReplicaSet", namespace, name, replicas, wish)


def deployment(namespace: str, name: str, replicas: int, wish: Json) -> Json:
    return _selecting("Deployment", namespace, name, replicas, wish)


def statefulset(namespace: str, name: str, replicas: int, wish: Json) -> Json:
    made = _selecting("StatefulSet", namespace, name, replicas, wish)
    return {**made, "spec": {**made["spec"], "serviceName": name, "podManagementPolicy": "Parallel"}}


def _selecting(kind: str, namespace: str, name: str, replicas: int, wish: Json) -> Json:
    spec = {"replicas": replicas, "selector": {"matchLabels": {OF: name}}, "template": wish}
    return _workload("apps/v1", kind, namespace, name, spec)


def job(namespace: str, name: str, count: int, wish: Json, *, backoff: int) -> Json:
    """A Job of so many pods at once, with a podFailurePolicy; it gives up after `backoff` failures."""
    return _workload("batch/v1", "Job", namespace, name, job_spec(count, wish, backoff=backoff))


def job_spec(count: int, wish: Json, *, backoff: int) -> Json:
    # A pod that somebody disturbs is no failure of its Job's.
    disturbed = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return {
        "parallelism": count,
        "completions": count,
        "backoffLimit": backoff,
        "podFailurePolicy": {"rules": [disturbed]},
        "template": wish,
    }


JOBS = 2
"""Of a JobSet."""


def jobset(namespace: str, name: str, wish: Json, *, backoff: int, restarts: int) -> Json:
    """A JobSet of `JOBS`, of one pod each; it starts all of them anew if one fails."""
    worker = {"name": "worker", "replicas": JOBS, "template": {"spec": job_spec(1, wish, backoff=backoff)}}
    spec = {"replicatedJobs": [worker], "failurePolicy": {"maxRestarts": restarts}}
    return _workload("jobset.x-k8s.io/v1alpha2", "JobSet", namespace, name, spec)


def budget(namespace: str, name: str, *, available: int) -> Json:
    spec = {"minAvailable": available, "selector": {"matchLabels": {OF: name}}}
    return _workload("policy/v1", "PodDisruptionBudget", namespace, name, spec)


BLOCKERS = "blockers"


def blocker(namespace: str, name: str, node: str, *, cpus: int) -> Json:
    """A pod without an intent, put on a node by nobody's leave, that holds whole CPUs there."""
    wish = template(name, on={}, cpus=cpus)
    metadata = {"namespace": namespace, "name": name, "labels": {OF: BLOCKERS}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**wish["spec"], "nodeName": node},
    }


def names(items: Sequence[Json]) -> list[str]:
    return [each["metadata"]["name"] for each in items]


def assert_pinned(pods: Sequence[Json]) -> None:
    """Assert that numalign chose the node of each pod, and that its own kubelet took it."""
    for pod in pods:
        assert "numalign.io/pinned-at" in pod["metadata"]["annotations"]
        required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        fields = [field for term in required["nodeSelectorTerms"] for field in term["matchFields"]]
        assert {value for field in fields for value in field["values"]} == {pod["spec"]["nodeName"]}
