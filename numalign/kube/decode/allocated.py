"""
What a kubelet admitted of a pod whose spec was resized since.

A resize in place changes the spec at once; the allocation follows when the kubelet carries it out, or never:
one whose CPU or memory manager is static refuses to resize a Guaranteed pod (canResizePod of
pkg/kubelet/allocation/allocation_manager.go; recorded in tests/kubelet/real/test_resizes.py). The admitted
amounts are in `status.containerStatuses[].allocatedResources`, since Kubernetes 1.33 for every container.
"""

from numalign.kube.decode.parts import inner

_LISTS = (("initContainers", "initContainerStatuses"), ("containers", "containerStatuses"))


def admitted(pod: object) -> object:
    """Return the pod as its kubelet admitted it: the same object, unless it was resized since.

    Only a Guaranteed pod has exclusive resources that could be resized, and its limits are its requests.
    """
    spec, status = inner(pod, "spec"), inner(pod, "status")
    if not isinstance(pod, dict) or not isinstance(spec, dict) or inner(status, "qosClass") != "Guaranteed":
        return pod
    changed: dict[str, list[object]] = {}
    for key, statuses in _LISTS:
        listed, reported = spec.get(key), inner(status, statuses)
        if isinstance(listed, list) and isinstance(reported, list):
            amounts = {_name(one): inner(one, "allocatedResources") for one in reported}
            containers = [_container(one, amounts.get(_name(one))) for one in listed]
            if any(one is not other for one, other in zip(containers, listed, strict=True)):
                changed[key] = containers
    return {**pod, "spec": {**spec, **changed}} if changed else pod


def _container(container: object, amounts: object) -> object:
    """Return the container with the allocated amounts; the API server writes requests and limits alike."""
    resources = inner(container, "resources")
    if not isinstance(container, dict) or not isinstance(resources, dict) or not isinstance(amounts, dict):
        return container
    changed = {}
    for kind in ("requests", "limits"):
        bag = resources.get(kind)
        if isinstance(bag, dict) and any(amounts.get(name, bag[name]) != bag[name] for name in bag):
            changed[kind] = {name: amounts.get(name, amount) for name, amount in bag.items()}
    return {**container, "resources": {**resources, **changed}} if changed else container


def _name(of: object) -> str:
    name = inner(of, "name")
    return name if isinstance(name, str) else ""
