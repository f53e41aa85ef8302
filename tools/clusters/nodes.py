"""Node objects as kubelets register them, and the zones of topologies as exporters publish them."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

KUBELET = "v1.34.4"
NEAR, FAR = 10, 21


def node(
    name: str, capacity: Mapping[str, str], allocatable: Mapping[str, str], labels: Mapping[str, str]
) -> Json:
    """Return a node that is ready, without the taint of new nodes, as no controller would remove it."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready"}
    hostname = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    about = {
        "architecture": "amd64",
        "operatingSystem": "linux",
        **dict.fromkeys(("bootID", "machineID", "systemUUID"), name),
        "containerRuntimeVersion": "containerd://2.1.4",
        "kernelVersion": "6.12.41",
        "kubeProxyVersion": "",
        "kubeletVersion": KUBELET,
        "osImage": "Debian GNU/Linux 13 (trixie)",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**hostname, **labels}},
        "status": {
            "capacity": capacity,
            "allocatable": allocatable,
            "conditions": [ready],
            "nodeInfo": about,
            "addresses": [{"type": "Hostname", "address": name}],
        },
    }


def zone(number: int, zones: int, amounts: Mapping[str, tuple[str, str, str]]) -> Json:
    """Return a zone; the amounts of a resource are its capacity, and what is allocatable and available."""
    names = ("capacity", "allocatable", "available")
    costs = ({"name": f"node-{at}", "value": NEAR if at == number else FAR} for at in range(zones))
    return {
        "name": f"node-{number}",
        "type": "Node",
        "costs": list(costs),
        "resources": [
            {"name": name, **dict(zip(names, each, strict=True))} for name, each in amounts.items()
        ],
    }
