"""
Where a pod lands: for each container, the zones it is bound to and the amounts it gets from them.

A block of memory may span zones, and then it binds them together; so amounts stand under *sets* of zones,
never split by guess.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from numalign.model.machine import CpuSet
from numalign.model.pod import Role
from numalign.model.resources import Resources, ZoneId

ZoneSet = tuple[ZoneId, ...]
"""Zone ids in ascending order."""

Held = Mapping[tuple[str, ...], Resources]
"""What a pod holds, by sets of zones; zones go by the names that the topology gives them."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What one container gets.

    `affinity` is the set that the topology manager stored for it, None if it stored none; `preferred` what
    it thought of it. `amounts` is by set of zones; empty for a container that gets nothing exclusive. `cpus`
    are ids of the node's machine, or of the one that is assumed where nobody described it. `chosen` names
    devices of which equal ones elsewhere would have done as well: the kubelet picks at random.
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

    `kept` is what the pod holds once its containers run: the CPUs and devices of finished init containers
    are in it, their memory is not. `whole` is there if the pod was served as a whole and its containers
    divide what it got.
    """

    grants: tuple[Grant, ...] = ()
    kept: Mapping[ZoneSet, Resources] = field(default_factory=dict)
    whole: Grant | None = None

    @property
    def zones(self) -> frozenset[ZoneId]:
        """Every zone that the pod holds anything of."""
        return frozenset(zone for zones in self.kept for zone in zones)
