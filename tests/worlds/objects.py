"""Objects of a cluster as an API server or a file has them, and machines as people describe them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from numalign.model.errors import BadInput

Json = dict[str, Any]

GIB = 2**30


def node(name: str, *, cpu: object = "8", **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": cpu}},
    }


def nrt(name: str, *zones: str, cpu: object = 8, available: object = None, **fields: object) -> Json:
    """A topology of these zones (`node-0` alone, if none are named) with so many CPUs each."""
    amount = {"name": "cpu", "capacity": cpu, "allocatable": cpu, "available": available or cpu}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "zones": [{"name": zone, "type": "Node", "resources": [amount]} for zone in zones or ("node-0",)],
        **fields,
    }


def reported(
    topology: Json, described: object = None, *, pods: object = None, kubelet: object = None, **texts: object
) -> Json:
    """A topology with what an agent wrote beside it; `texts` are annotations as they are."""
    report = {"version": 1, "kubelet": kubelet or STATIC_KUBELET, "machine": described}
    written = {
        "machine": described and json.dumps(report),
        "placements": pods and json.dumps({"version": 1, "pods": pods}),
        **texts,
    }
    annotations = {f"numalign.io/{key}": text for key, text in written.items() if text is not None}
    return {**topology, "metadata": {**topology["metadata"], "annotations": annotations}}


POLICIES = {"cpuManagerPolicy": "static", "topologyManagerPolicy": "single-numa-node"}
STATIC_KUBELET: Json = {"version": "v1.34.4", **POLICIES}


def numatopology(name: str = "a", **fields: object) -> Json:
    """As Volcano's exporter has a node of two zones, each of two cores with two threads; nothing is taken."""
    places = {at: {"numa": at // 2 % 2, "socket": at // 2 % 2, "core": at % 2} for at in range(8)}
    spec = {
        "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "restricted"},
        "numares": {"cpu": {"allocatable": "0-7", "capacity": 8}},
        # What is zero is left out.
        "cpuDetail": {str(at): {key: at for key, at in place.items() if at} for at, place in places.items()},
        **fields,
    }
    version = "nodeinfo.volcano.sh/v1alpha1"
    return {"apiVersion": version, "kind": "Numatopology", "metadata": {"name": name}, "spec": spec}


def namespace(name: str, **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def pod(name: str, *, namespace: str = "default", **fields: object) -> Json:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **fields}


def configuration(name: str, **fields: object) -> Json:
    version = "kubelet.config.k8s.io/v1beta1"
    return {"apiVersion": version, "kind": "KubeletConfiguration", "metadata": {"name": name}, **fields}


def listed(*items: object) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def described_machine(*zones: Json, **fields: object) -> Json:
    return {"zones": list(zones) or [machine_zone()], "reservedSystemCPUs": "0", **fields}


def machine_zone(number: object = 0, **fields: object) -> Json:
    """A zone of two cores of two threads and 8Gi, one of them kept for the system."""
    first = 4 * number if isinstance(number, int) else 0
    return {
        "id": number,
        "socket": number,
        "cores": [[first, first + 2], [first + 1, first + 3]],
        "memory": 8 * GIB,
        "reservedMemory": GIB,
        **fields,
    }


def mistakes(error: type[BadInput], decode: Callable[..., object], *written: object) -> list[str]:
    """What a decoder raises about what is written: every mistake with its place, in order."""
    with pytest.raises(error) as raised:
        decode(*written)
    return [str(mistake) for mistake in raised.value.mistakes]


def all_visible(_namespace: str) -> bool:
    return True
