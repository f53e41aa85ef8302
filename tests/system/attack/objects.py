"""What the API server has in these tests, and the calls that are made of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

import orjson

from tools.bench import cluster

Json = dict[str, Any]

TEAM = "team"
POLICY = "numalign.io/policy"
SINGLE = "single-numa-node"
NODES = 20
MOST_NAMES, MOST_CONTAINERS = 256, 100
"""Of one container, and of one pod: what is more is not read."""

SMALL: Mapping[str, str] = {"cpu": "2", "memory": "1Gi"}


def nodes(count: int = NODES) -> list[Json]:
    """Nodes with their topologies, of models that differ, and the namespaces that there are."""
    return [*cluster.snapshot(count)["items"], namespace(TEAM)]


def names(objects: Iterable[Json]) -> list[str]:
    return [each["metadata"]["name"] for each in objects if each["kind"] == "Node"]


def namespace(name: str, **labels: str) -> Json:
    prefixed = {f"numalign.io/{key}": value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": prefixed}}


def node(name: str, *, zones: int, policy: str = SINGLE, amounts: Mapping[str, int], free: int) -> list[Json]:
    """A node of so many zones with these amounts each, so many percent of them free, and its topology."""
    total = {each: str(amount * zones) for each, amount in amounts.items()}
    listed = [
        {"name": each, **dict.fromkeys(("capacity", "allocatable"), str(amount))}
        | {"available": str(amount * free // 100)}
        for each, amount in amounts.items()
    ]
    managed = {"topologyManagerPolicy": policy, "topologyManagerScope": "container"}
    topology = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [{"name": key, "value": value} for key, value in managed.items()],
        "zones": [{"name": f"node-{at}", "type": "Node", "resources": listed} for at in range(zones)],
    }
    made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    return [{**made, "status": {"allocatable": {**total, "pods": "110"}}}, topology]


def pod(name: str, *asked: Mapping[str, str], policy: str | None = SINGLE, **annotations: str) -> Json:
    """A pod with a container for each of these amounts; keys of annotations stand without our prefix."""
    prefixed = {f"numalign.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {
        "name": name,
        "namespace": TEAM,
        "uid": f"uid-of-{name}",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "annotations": {**({POLICY: policy} if policy else {}), **prefixed},
    }
    containers = [
        {"name": f"c{at}", "image": "i", "resources": {"requests": dict(each), "limits": dict(each)}}
        for at, each in enumerate(asked or (SMALL,))
    ]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


def on(place: str, made: Json) -> Json:
    status = {"phase": "Running", "startTime": made["metadata"]["creationTimestamp"]}
    return {**made, "spec": {**made["spec"], "nodeName": place}, "status": status}


def of_many_names(name: str, count: int) -> Json:
    """A pod whose containers, as many as are read, ask for so many resources, no two for the same."""
    each = min(count, MOST_NAMES)
    asked = [{f"x.io/r{at}": "1" for at in range(first, first + each)} for first in range(0, count, each)]
    made = pod(name)
    containers = [
        {"name": f"c{at}", "image": "i", "resources": {"requests": named}} for at, named in enumerate(asked)
    ]
    spec = {"containers": containers[:MOST_CONTAINERS], "initContainers": containers[MOST_CONTAINERS:]}
    return {**made, "spec": spec}


def review(made: Json, *, namespace: str = TEAM, **changes: object) -> bytes:
    """The AdmissionReview of a pod that is created, or changed so."""
    asked = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": made,
        **changes,
    }
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked})


def filtering(made: Json, places: Sequence[str]) -> bytes:
    return orjson.dumps({"Pod": made, "Nodes": None, "NodeNames": places})


def binding(made: Json, place: str) -> bytes:
    metadata = made["metadata"]
    named = {"PodName": metadata["name"], "PodNamespace": metadata["namespace"], "PodUID": metadata["uid"]}
    return orjson.dumps({**named, "Node": place})


def path(made: Json) -> str:
    return f"{PODS}/{made['metadata']['name']}"


PODS = f"/api/v1/namespaces/{TEAM}/pods"


def honest_pods() -> Iterator[Json]:
    """Pods as controllers make them, without end: of eight templates, and names of their own."""
    for number, made in enumerate(cycle(cluster.templates(8)), start=1):
        named = dict.fromkeys(("name", "uid"), f"honest-{number}")
        yield {**made, "metadata": {**made["metadata"], **named}}
