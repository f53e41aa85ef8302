"""
The placement of a pod: for each container, its zones and the amounts it gets from them.

A block of memory may span zones and binds them together. So amounts are by *sets* of zones, and are never
split by guess.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from numalign.model.machine import CpuSet
from numalign.model.pod import Role
from numalign.model.resources import Resources, ZoneId

ZoneSet = tuple[ZoneId, ...]
"""Zone ids in ascending order."""

Held = Mapping[tuple[str, ...], Resources]
"""What a pod holds, by sets of zones; zones have the names that the topology uses."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What one container gets.

    `affinity` is the set that the topology manager stored for it, None if it stored none; `preferred` is
    whether that hint was preferred. `amounts` is by set of zones; empty for a container that gets nothing
    exclusive. `cpus` are ids of the node's machine, or of the assumed one if none is described. `chosen`
    names devices that the kubelet picks at random among equal ones, so others are as likely.
    """

    container: str
    role: Role
    affinity: ZoneSet | None
    preferred: bool
    amounts: Mapping[ZoneSet, Resources] = field(default_factory=dict)
    cpus: CpuSet = 0
    chosen: tuple[str, ...] = ()

    def zones_of(self, resources: Iterable[str]) -> frozenset[ZoneId]:
        """Return all zones from which it gets any of these resources."""
        wanted = set(resources)
        return frozenset(
            zone for zones, amounts in self.amounts.items() if wanted & amounts.keys() for zone in zones
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """The grants of a pod's containers, in the kubelet's order.

    `kept` is what the pod holds once its containers run: it includes the CPUs and devices of finished init
    containers, but not their memory. `whole` is set if the pod was served as a whole and its containers
    divide what it got.
    """

    grants: tuple[Grant, ...] = ()
    kept: Mapping[ZoneSet, Resources] = field(default_factory=dict)
    whole: Grant | None = None

    @property
    def zones(self) -> frozenset[ZoneId]:
        """Every zone in which the pod holds a resource."""
        return frozenset(zone for zones in self.kept for zone in zones)
