"""
What a kubelet admitted of a pod whose spec was resized since.

A resize in place changes the spec at once; the allocation follows when the kubelet carries it out, or never:
one whose CPU or memory manager is static refuses to resize a Guaranteed pod (canResizePod of
pkg/kubelet/allocation/allocation_manager.go; recorded in tests/kubelet/real/test_resizes.py). The admitted
amounts are in `status.containerStatuses[].allocatedResources`, since Kubernetes 1.33 for every container.
"""

from collections.abc import Mapping
from typing import Any

from numalign.kube.decode.parts import inner

_LISTS = (("initContainers", "initContainerStatuses"), ("containers", "containerStatuses"))
_GUARANTEED = "Guaranteed"


def admitted(pod: object) -> object:
    """Return the pod as its kubelet admitted it: the same object, unless it was resized since.

    Only a Guaranteed pod has exclusive resources that could be resized, and its limits are its requests.
    """
    if inner(inner(pod, "status"), "qosClass") != _GUARANTEED:
        return pod
    changed = {key: listed for key, statuses in _LISTS if (listed := _containers(pod, key, statuses))}
    return {**_fields(pod), "spec": {**_fields(inner(pod, "spec")), **changed}} if changed else pod


def _containers(pod: object, key: str, statuses: str) -> list[object] | None:
    """Return the containers of one list; None if all are as admitted."""
    listed, reported = inner(inner(pod, "spec"), key), inner(inner(pod, "status"), statuses)
    if not isinstance(listed, list) or not isinstance(reported, list):
        return None
    amounts = {_name(one): inner(one, "allocatedResources") for one in reported}
    containers = [_container(one, amounts.get(_name(one))) for one in listed]
    return None if all(map(_same, containers, listed)) else containers


def _container(container: object, amounts: object) -> object:
    resources = inner(container, "resources")
    if not isinstance(resources, dict) or not isinstance(amounts, dict):
        return container
    both = {
        kind: _amounts(resources.get(kind), amounts) for kind in ("requests", "limits") if kind in resources
    }
    if all(map(_same, both.values(), (resources[kind] for kind in both))):
        return container
    return {**_fields(container), "resources": {**resources, **both}}


def _amounts(asked: object, amounts: Mapping[str, object]) -> object:
    """Return the request, unless another amount was allocated; the API server writes both alike."""
    if not isinstance(asked, dict) or all(amounts.get(name, asked[name]) == asked[name] for name in asked):
        return asked
    return {name: amounts.get(name, amount) for name, amount in asked.items()}


def _name(of: object) -> str:
    name = inner(of, "name")
    return name if isinstance(name, str) else ""


def _same(one: object, other: object) -> bool:
    return one is other


def _fields(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
