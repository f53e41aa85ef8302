"""What kubelets and exporters write to an API server: nodes, the statuses of pods, topologies.

Sources: kubernetes v1.34.4 (pkg/kubelet/kubelet.go, rejectPod; pkg/kubelet/status/status_manager.go) for the
statuses; Node Feature Discovery (pkg/nfd-topology-updater) and resource-topology-exporter for the topology.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tools.clusters import fleets
from tools.clusters.sim.accounts import Held, Zones
from tools.clusters.sim.predicates import Refusal
from tools.clusters.sim.shapes import GIB, Shape, SimNode

Json = dict[str, Any]

GROUP = "topology.node.k8s.io/v1alpha2"
OBSERVED = "numalign.io/placement-observed"


def node(machine: SimNode) -> Json:
    shape = machine.make
    capacity = _whole(shape, shape.cpus + shape.reserved, shape.gib + shape.reserved_gib)
    return fleets.registered(machine.name, _quantities(capacity), _quantities(allocatable(shape)), {})


def allocatable(shape: Shape) -> dict[str, int]:
    return _whole(shape, shape.cpus, shape.gib)


def _whole(shape: Shape, cpus: int, gib: int) -> dict[str, int]:
    devices = {resource: count * shape.zones for resource, count in shape.devices.items()}
    aligned = {"cpu": cpus * 1000 * shape.zones, "memory": gib * GIB * shape.zones}
    return {**aligned, "ephemeral-storage": 900 * GIB, "pods": 110, **devices}


def stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(pod: Json) -> Json:
    """Return the status of a pod whose containers were started, and whose init containers ended."""
    now, spec = stamp(), pod["spec"]
    goes_on = {"running": {"startedAt": now}}
    ended = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
    inits = spec.get("initContainers") or ()
    conditions = ("PodReadyToStartContainers", "PodScheduled", "Initialized", "ContainersReady", "Ready")
    started = [_container(one, goes_on if one.get("restartPolicy") == "Always" else ended) for one in inits]
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in conditions],
        **({"initContainerStatuses": started} if inits else {}),
        "containerStatuses": [_container(one, goes_on) for one in spec["containers"]],
    }


def _container(container: Json, state: Json) -> Json:
    image = container.get("image", "")
    known = {"name": container["name"], "image": image, "imageID": image, "restartCount": 0}
    return {**known, "ready": True, "started": "running" in state, "state": state}


def rejected(refusal: Refusal) -> Json:
    """Return the status of a pod that the kubelet did not admit."""
    message = f"Pod was rejected: {refusal.message}"
    return {"phase": "Failed", "startTime": stamp(), "reason": refusal.reason, "message": message}


def placement(held: Held) -> str:
    """Return what a pod holds as the value of an annotation: one entry for each set of zones."""
    entries = [
        {"zones": [f"node-{zone}" for zone in zones], "amount": _quantities(amounts)}
        for zones, amounts in sorted(held.items())
    ]
    return json.dumps(entries, separators=(",", ":"))


def topology(machine: SimNode, left: Zones, attributes: Mapping[str, str]) -> Json:
    """Return what an exporter publishes: the kubelet's configuration, and what is left of each zone."""
    shape = machine.make
    configured = {"topologyManagerPolicy": str(machine.policy), "topologyManagerScope": shape.scope}
    built, usable = shape.capacity(), shape.allocatable()
    zones = {
        zone: {name: (built[name], usable[name], left[zone][name]) for name in sorted(usable)}
        for zone in shape.ids
    }
    return {
        "apiVersion": GROUP,
        "kind": "NodeResourceTopology",
        "metadata": {"name": machine.name},
        "attributes": [
            {"name": name, "value": value} for name, value in {**configured, **attributes}.items()
        ],
        "zones": [fleets.zone(zone, shape.zones, _listed(amounts)) for zone, amounts in zones.items()],
    }


def _listed(amounts: Mapping[str, tuple[int, int, int]]) -> dict[str, tuple[str, str, str]]:
    return {
        name: (_quantity(name, built), _quantity(name, usable), _quantity(name, left))
        for name, (built, usable, left) in amounts.items()
    }


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return {resource: _quantity(resource, amount) for resource, amount in amounts.items()}


def _quantity(resource: str, amount: int) -> str:
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    return str(amount)
