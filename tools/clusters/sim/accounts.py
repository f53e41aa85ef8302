"""What pods hold and what is left of each zone, as the kubelet's pod resources endpoint reports it.

Containers and sidecars are listed; init containers that end are not. CPUs that these keep until their pod
ends appear as available to exporters, and so they do here (kubelet, apis/podresources/server_v1.go).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

Json = dict[str, Any]
Held: TypeAlias = dict[tuple[int, ...], dict[str, int]]
"""Amounts by the zones that they may come from: CPUs in thousandths, memory in bytes, devices by number."""

Zones: TypeAlias = dict[int, dict[str, int]]
"""Amounts by zone."""


def held(pod: Json, answer: Json) -> Held:
    found: dict[tuple[int, ...], Counter[str]] = {}
    given = [*(answer["containers"][name] for name in listed(pod)), answer.get("shared") or {}]
    for one in given:
        for zones, amounts in (one.get("amounts") or {}).items():
            found.setdefault(_ids(zones), Counter()).update(amounts)
    return {zones: dict(amounts) for zones, amounts in sorted(found.items())}


def listed(pod: Json) -> list[str]:
    """Return the names of the containers that run as long as their pod."""
    inits = pod["spec"].get("initContainers") or ()
    sidecars = [one for one in inits if one.get("restartPolicy") == "Always"]
    return [one["name"] for one in (*sidecars, *pod["spec"]["containers"])]


def available(allocatable: Mapping[int, Mapping[str, int]], pods: Iterable[Held]) -> Zones:
    """Return what is left after pods took their resources, in the order in which they came."""
    left = {zone: dict(amounts) for zone, amounts in allocatable.items()}
    for one in pods:
        for zones, amounts in one.items():
            for resource, amount in amounts.items():
                rest = amount
                # From the lowest zone first, as the kubelet takes memory, and NFD reports it.
                for zone in zones:
                    # Exporters do not count a resource in zones for which they do not list it.
                    if taken := min(rest, left[zone].get(resource, 0)):
                        left[zone][resource] -= taken
                        rest -= taken
    return left


def _ids(zones: str) -> tuple[int, ...]:
    return tuple(int(zone) for zone in zones.split(",") if zone)
