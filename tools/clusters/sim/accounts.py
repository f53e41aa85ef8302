"""What pods hold, what they request, and what is left of a node.

Exporters see what the kubelet's pod resources endpoint reports: containers and sidecars are listed; init
containers that end are not. CPUs that these keep until their pod ends appear as available to exporters, and
so they do here (kubelet, apis/podresources/server_v1.go).

The kubelet checks the sums of requests after the managers admitted a pod, so a pod can be rejected for its
zones on a node that is full anyway (kubernetes v1.34.4: pkg/kubelet/kubelet.go for the order of admission
handlers, lifecycle/predicate.go, component-helpers/resource/helpers.go). Of these checks, only that of
resources is here: callers that bind pods to simulated nodes check labels, ports and taints.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from numalign.model import quantity

Json = dict[str, Any]
Held: TypeAlias = dict[tuple[int, ...], dict[str, int]]
"""Amounts by the zones that they may come from: CPUs in thousandths, memory in bytes, devices by number."""

Zones: TypeAlias = dict[int, dict[str, int]]
"""Amounts by zone."""

_FIRST = ("cpu", "memory", "ephemeral-storage")


def held(pod: Json, answer: Json) -> Held:
    """Return what a pod holds after this answer of the managers."""
    running = [*_sidecars(pod["spec"]), *pod["spec"]["containers"]]
    found: dict[tuple[int, ...], Counter[str]] = {}
    for one in (*(answer["containers"][each["name"]] for each in running), answer.get("shared") or {}):
        for zones, amounts in (one.get("amounts") or {}).items():
            ids = tuple(int(zone) for zone in zones.split(",") if zone)
            found.setdefault(ids, Counter()).update(amounts)
    return {zones: dict(amounts) for zones, amounts in sorted(found.items())}


def _sidecars(spec: Json) -> list[Json]:
    return [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]


def available(allocatable: Mapping[int, Mapping[str, int]], pods: Iterable[Held]) -> Zones:
    """Return what is left after pods took their resources, in the order in which they came."""
    left = {zone: dict(amounts) for zone, amounts in allocatable.items()}
    for zones, amounts in (each for one in pods for each in one.items()):
        for resource, amount in amounts.items():
            rest = amount
            # From the lowest zone first, as the kubelet takes memory, and NFD reports it.
            for zone in zones:
                # Exporters do not count a resource in zones for which they do not list it.
                if taken := min(rest, left[zone].get(resource, 0)):
                    left[zone][resource] -= taken
                    rest -= taken
    return left


def refusal(pod: Json, others: Iterable[Json], allocatable: Mapping[str, int]) -> tuple[str, str] | None:
    """Return the reason and the message if the pod does not fit next to the active `others`; else None.

    `allocatable` is that of the node: CPUs in thousandths, the rest in units. Extended resources that the
    node does not have are ignored, as in the kubelet.
    """
    needed, used = requests(pod), sum(map(requests, others), Counter())
    for resource in ("pods", *_FIRST, *sorted(needed.keys() - {"pods", *_FIRST})):
        has = allocatable.get(resource)
        if has is not None and needed[resource] > max(0, has - used[resource]):
            figures = f"requested: {needed[resource]}, used: {used[resource]}, capacity: {has}"
            return f"OutOf{resource}", f"Node didn't have enough resource: {resource}, {figures}"
    return None


def requests(pod: Json) -> Counter[str]:
    """Return the requests of a whole pod: those of its containers, or of its init containers if larger."""
    spec = pod["spec"]
    sidecars: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for container in spec.get("initContainers") or ():
        most |= sidecars + _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars += _requests(container)
    containers = sum(map(_requests, spec["containers"]), sidecars)
    total = Counter({**(most | containers), **_requests(spec)}) + _amounts(spec.get("overhead") or {})
    return Counter({**total, "pods": 1})


def _requests(part: Json) -> Counter[str]:
    """Return the requests of a container, or of the pod's own `resources`; limits are the default."""
    resources = part.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(quantities: Mapping[str, object]) -> Counter[str]:
    read = {name: quantity.millis if name == "cpu" else quantity.units for name in quantities}
    return Counter({name: read[name](text) for name, text in quantities.items()})
