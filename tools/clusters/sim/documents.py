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
from tools.clusters.sim.shapes import SimNode

Json = dict[str, Any]


def node(machine: SimNode) -> Json:
    capacity, allocatable = (_quantities(machine.make.whole(reserved=each)) for each in (True, False))
    return fleets.registered(machine.name, capacity, allocatable, {})


def stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(pod: Json) -> Json:
    """Return the status of a pod whose containers were started, and whose init containers ended."""
    now, spec = stamp(), pod["spec"]
    lasting = {"running": {"startedAt": now}}
    ended = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
    conditions = ("PodReadyToStartContainers", "PodScheduled", "Initialized", "ContainersReady", "Ready")
    inits = [
        _container(one, lasting if one.get("restartPolicy") == "Always" else ended)
        for one in spec.get("initContainers") or ()
    ]
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in conditions],
        **({"initContainerStatuses": inits} if inits else {}),
        "containerStatuses": [_container(one, lasting) for one in spec["containers"]],
    }


def _container(container: Json, state: Json) -> Json:
    image = container.get("image", "")
    known = {"name": container["name"], "image": image, "imageID": image, "restartCount": 0}
    return {**known, "ready": True, "started": "running" in state, "state": state}


def placement(held: Held) -> str:
    """Return what a pod holds as the value of an annotation: one entry for each set of zones."""
    entries = [
        {"zones": [f"node-{zone}" for zone in zones], "amount": _quantities(amounts)}
        for zones, amounts in sorted(held.items())
    ]
    return json.dumps(entries, separators=(",", ":"))


def topology(machine: SimNode, left: Zones, attributes: Mapping[str, str]) -> Json:
    """Return what an exporter publishes: the kubelet's configuration, and what is left of each zone."""
    shape, configured = machine.make, machine.line()["kubeletConfig"]
    shown = {key: configured[key] for key in ("topologyManagerPolicy", "topologyManagerScope")}
    built, usable = _quantities(shape.capacity()), _quantities(shape.allocatable())
    free = {zone: _quantities(amounts) for zone, amounts in left.items()}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": machine.name},
        "attributes": [{"name": name, "value": value} for name, value in {**shown, **attributes}.items()],
        "zones": [
            fleets.zone(
                *(zone, shape.zones),
                {name: (built[name], usable[name], free[zone][name]) for name in sorted(usable)},
            )
            for zone in shape.ids
        ],
    }


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    scale = {"cpu": 1000}
    return {
        resource: f"{amount}m" if amount % scale.get(resource, 1) else str(amount // scale.get(resource, 1))
        for resource, amount in amounts.items()
    }
