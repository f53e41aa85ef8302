"""What kubelets and exporters write to an API server: nodes, the statuses of pods, topologies.

Sources: kubernetes v1.34.4 (pkg/kubelet/kubelet.go, rejectPod; pkg/kubelet/status/status_manager.go) for the
statuses; Node Feature Discovery (pkg/nfd-topology-updater) and resource-topology-exporter for the topology.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from tools.clusters.oracle.build import USUAL
from tools.clusters.sim.accounts import Held, Zones
from tools.clusters.sim.predicates import Refusal
from tools.clusters.sim.shapes import FAR, GIB, NEAR, Shape, SimNode

Json = dict[str, Any]

GROUP = "topology.node.k8s.io/v1alpha2"
PODS = 110
OBSERVED = "numalign.io/placement-observed"


def node(machine: SimNode) -> Json:
    """Return a node as its kubelet registers it, ready and without taints."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": machine.name,
            "labels": {
                "kubernetes.io/hostname": machine.name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            },
        },
        "status": {
            "capacity": _quantities(capacity(machine.make)),
            "allocatable": _quantities(allocatable(machine.make)),
            "conditions": [
                _condition("Ready", "True", reason="KubeletReady", message="kubelet is posting ready status")
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "bootID": machine.name,
                "machineID": machine.name,
                "systemUUID": machine.name,
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.12.41",
                "kubeProxyVersion": "",
                "kubeletVersion": USUAL,
                "osImage": "Debian GNU/Linux 13 (trixie)",
            },
            "addresses": [{"type": "Hostname", "address": machine.name}],
        },
    }


def capacity(shape: Shape) -> dict[str, int]:
    """Return the capacity of the whole node."""
    return _whole(shape, cpus=shape.cpus + shape.reserved, gib=shape.gib + shape.reserved_gib)


def allocatable(shape: Shape) -> dict[str, int]:
    """Return what pods can have of the whole node."""
    return _whole(shape, cpus=shape.cpus, gib=shape.gib)


def _whole(shape: Shape, *, cpus: int, gib: int) -> dict[str, int]:
    devices = {resource: count * shape.zones for resource, count in shape.devices.items()}
    return {
        "cpu": cpus * 1000 * shape.zones,
        "memory": gib * GIB * shape.zones,
        "ephemeral-storage": 900 * GIB,
        "pods": PODS,
        **devices,
    }


def _condition(kind: str, status: str, *, reason: str = "", message: str = "") -> Json:
    now = stamp()
    said = {key: text for key, text in (("reason", reason), ("message", message)) if text}
    return {"type": kind, "status": status, "lastTransitionTime": now, **said}


def stamp() -> str:
    """Return the current time in Kubernetes' format."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# ---- pods


def running(pod: Json) -> Json:
    """Return the status of a pod whose containers were started, and whose init containers ended."""
    now = stamp()
    spec = pod["spec"]
    inits = spec.get("initContainers") or ()
    conditions = ("PodReadyToStartContainers", "PodScheduled", "Initialized", "ContainersReady", "Ready")
    started = {"initContainerStatuses": [_container(one, _init_state(one, now)) for one in inits]}
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [_condition(kind, "True") for kind in conditions],
        **(started if inits else {}),
        "containerStatuses": [_container(one, _goes_on(now)) for one in spec["containers"]],
    }


def _container(container: Json, state: Json) -> Json:
    image = container.get("image", "")
    known = {"name": container["name"], "image": image, "imageID": image, "restartCount": 0}
    return {**known, "ready": True, "started": "running" in state, "state": state}


def _goes_on(now: str) -> Json:
    return {"running": {"startedAt": now}}


def _init_state(container: Json, now: str) -> Json:
    ended = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
    return _goes_on(now) if container.get("restartPolicy") == "Always" else ended


def rejected(refusal: Refusal) -> Json:
    """Return the status of a pod that the kubelet did not admit."""
    return {
        "phase": "Failed",
        "startTime": stamp(),
        "reason": refusal.reason,
        "message": f"Pod was rejected: {refusal.message}",
    }


def placement(held: Held) -> str:
    """Return what a pod holds as the value of an annotation: one entry for each set of zones."""
    entries = [
        {"zones": [zone_name(zone) for zone in zones], "amount": _quantities(amounts)}
        for zones, amounts in sorted(held.items())
    ]
    return json.dumps(entries, separators=(",", ":"))


# ---- topologies


def topology(machine: SimNode, left: Zones, attributes: Mapping[str, str]) -> Json:
    """Return what an exporter publishes: the kubelet's configuration, and what is left of each zone."""
    said = {
        "topologyManagerPolicy": str(machine.policy),
        "topologyManagerScope": machine.make.scope,
        **attributes,
    }
    return {
        "apiVersion": GROUP,
        "kind": "NodeResourceTopology",
        "metadata": {"name": machine.name},
        "attributes": [{"name": name, "value": value} for name, value in said.items()],
        "zones": [_zone(zone, machine.make, left[zone]) for zone in machine.make.ids],
    }


def _zone(zone: int, shape: Shape, left: Mapping[str, int]) -> Json:
    built, usable = shape.capacity(), shape.allocatable()
    return {
        "name": zone_name(zone),
        "type": "Node",
        "costs": [{"name": zone_name(other), "value": NEAR if other == zone else FAR} for other in shape.ids],
        "resources": [
            {
                "name": resource,
                "capacity": _quantity(resource, built[resource]),
                "allocatable": _quantity(resource, usable[resource]),
                "available": _quantity(resource, left[resource]),
            }
            for resource in sorted(usable)
        ],
    }


def zone_name(zone: int) -> str:
    """Return the name that both exporters give a zone."""
    return f"node-{zone}"


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return {resource: _quantity(resource, amount) for resource, amount in amounts.items()}


def _quantity(resource: str, amount: int) -> str:
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    return str(amount)


def names(pods: Iterable[Json]) -> list[tuple[str, str]]:
    """Return namespace and name of each pod."""
    return [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods]
