"""What the notation of the tables says, as it stands in the documents of a cluster."""

from collections.abc import Mapping
from typing import Any

from numalign.model.node import Node, Zone
from numalign.model.pod import Container, Role
from numalign.model.resources import Resources, render
from tests.worlds.notation import pod

Raw = dict[str, Any]


def pod_spec(*containers: str) -> Raw:
    parsed = pod(*containers)
    roles = {role: [_container(one) for one in parsed.containers if one.role is role] for role in Role}
    for sidecar in roles[Role.SIDECAR]:
        sidecar["restartPolicy"] = "Always"
    return {"initContainers": [*roles[Role.INIT], *roles[Role.SIDECAR]], "containers": roles[Role.APP]}


def v1_pod(
    *containers: str,
    policy: str | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, object] | None = None,
    **metadata: object,
) -> Raw:
    """A v1 Pod with the annotation of a policy."""
    written = {**({"numalign.io/policy": policy} if policy else {}), **(annotations or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"annotations": written, **metadata},
        "spec": {**pod_spec(*containers), **(spec or {})},
    }


def topology(name: str, node: Node) -> Raw:
    attributes = {"topologyManagerPolicy": node.policy, "topologyManagerScope": node.scope}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [{"name": key, "value": value} for key, value in attributes.items()],
        "zones": [
            {"name": zone.name, "type": "Node", "resources": [_listed(zone, key) for key in zone.capacity]}
            for zone in node.zones
        ],
    }


def _listed(zone: Zone, name: str) -> Raw:
    columns = {"capacity": zone.capacity, "allocatable": zone.allocatable, "available": zone.free}
    return {"name": name, **{column: render(name, bag[name]) for column, bag in columns.items()}}


def labelled(kind: str, name: str, labels: Mapping[str, str]) -> Raw:
    """An object of the core API that has nothing but labels."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels}}


def _container(container: Container) -> Raw:
    amounts = {"requests": container.requests, "limits": container.limits}
    resources = {key: _rendered(bag) for key, bag in amounts.items() if bag}
    return {"name": container.name, "resources": resources}


def _rendered(bag: Resources) -> dict[str, str]:
    return {name: render(name, amount) for name, amount in bag.items()}
