"""The check of a kubelet besides NUMA: the sums of the pods' requests must not exceed the node's resources.

It runs after the managers admitted a pod, so a pod can be rejected for its zones on a node that is full
anyway.

Source: kubernetes v1.34.4, pkg/kubelet/kubelet.go (the order of admission handlers), lifecycle/predicate.go,
pkg/scheduler/framework/plugins/noderesources/fit.go, component-helpers/resource/helpers.go. Of these checks,
only that of resources is here: callers that bind pods to simulated nodes check labels, ports and taints.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from numalign.model import quantity

Json = dict[str, Any]

_FIRST = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a pod must not run here, as in its status."""

    reason: str
    message: str


def refusal(pod: Json, others: Iterable[Json], allocatable: Mapping[str, int]) -> Refusal | None:
    """Return why the pod does not fit next to the active `others`; None if it fits.

    `allocatable` is that of the node: CPUs in thousandths, the rest in units. Extended resources that the
    node does not have are ignored, as in the kubelet.
    """
    active = list(others)
    if len(active) + 1 > allocatable["pods"]:
        return _short("pods", 1, len(active), allocatable["pods"])
    used: Counter[str] = Counter()
    for other in active:
        used.update(requests(other))
    asked = requests(pod)
    for resource in (*_FIRST, *sorted(asked.keys() - set(_FIRST))):
        has = allocatable.get(resource)
        if has is not None and asked[resource] > max(0, has - used[resource]):
            return _short(resource, asked[resource], used[resource], has)
    return None


def requests(pod: Json) -> Counter[str]:
    """Return the requests of a whole pod: those of its containers, or of its init containers if larger."""
    spec = pod["spec"]
    sidecars: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for container in spec.get("initContainers") or ():
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            sidecars += asked
            most |= sidecars
        else:
            most |= sidecars + asked
    containers = sum(map(_asked, spec["containers"]), sidecars)
    return Counter({**(most | containers), **_asked(spec)}) + amounts(spec.get("overhead") or {})


def _asked(part: Json) -> Counter[str]:
    """Return the requests of a container, or of the pod's own `resources`; limits are the default."""
    resources = part.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def amounts(quantities: Mapping[str, object]) -> Counter[str]:
    """Return quantities as integers: CPUs in thousandths, the rest in units."""
    read = {name: quantity.millis if name == "cpu" else quantity.units for name in quantities}
    return Counter({name: read[name](text) for name, text in quantities.items()})


def _short(resource: str, asked: int, used: int, has: int) -> Refusal:
    figures = f"requested: {asked}, used: {used}, capacity: {has}"
    return Refusal(f"OutOf{resource}", f"Node didn't have enough resource: {resource}, {figures}")
