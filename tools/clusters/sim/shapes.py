"""Shapes of machines, because what a kubelet rejects depends on the hardware more than on anything else.

A shape is data: the configuration of the kubelet's managers, the Node object and the topology of an exporter
are derived from it. Every CPU is a core of its own, and every zone a socket.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from types import MappingProxyType
from typing import Any

from numalign.model.errors import BadInput, Mistake
from tools.clusters.fleets import FAR, NEAR

Json = dict[str, Any]
Amounts = Mapping[str, int]
"""Amounts by resource: CPUs in thousandths, memory in bytes, devices by number."""

GIB = 2**30
GPU = "nvidia.com/gpu"


class Policy(StrEnum):
    """The policy of the kubelet's topology manager."""

    SINGLE = "single-numa-node"
    RESTRICTED = "restricted"
    BEST_EFFORT = "best-effort"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Shape:
    """The hardware of a machine. Amounts are per zone.

    `cpus` and `gib` are allocatable to pods; `reserved` CPUs and `reserved_gib` are additional, and not for
    pods. `devices` are numbers by resource.
    """

    zones: int
    cpus: int
    gib: int
    reserved: int = 1
    reserved_gib: int = 1
    devices: Amounts = field(default_factory=dict)
    memory_manager: str = "Static"
    scope: str = "container"

    @property
    def ids(self) -> range:
        return range(self.zones)

    def capacity(self) -> dict[str, int]:
        return self._aligned(self.cpus + self.reserved, self.gib + self.reserved_gib)

    def allocatable(self) -> dict[str, int]:
        return self._aligned(self.cpus, self.gib)

    def _aligned(self, cpus: int, gib: int) -> dict[str, int]:
        # A disabled memory manager reports no allocatable memory (kubelet, memorymanager/policy_none.go), so
        # exporters do not list any.
        memory = {"memory": gib * GIB} if self.memory_manager == "Static" else {}
        return {"cpu": cpus * 1000, **memory, **self.devices}

    def machine(self) -> Json:
        reserved = [cpu for zone in self.ids for cpu in self._cpus(zone)[: self.reserved]]
        return {
            "zones": [self._zone(zone) for zone in self.ids],
            "reservedSystemCPUs": ",".join(map(str, reserved)),
            "devices": {resource: self._devices(count) for resource, count in self.devices.items()},
        }

    def _devices(self, count: int) -> list[Json]:
        places = product(self.ids, range(count))
        return [{"id": f"{zone}-{number}", "zones": [zone]} for zone, number in places]

    def _zone(self, zone: int) -> Json:
        return {
            "id": zone,
            "socket": zone,
            "cores": [[cpu] for cpu in self._cpus(zone)],
            "memory": (self.gib + self.reserved_gib) * GIB,
            "reservedMemory": self.reserved_gib * GIB,
            "distances": [NEAR if other == zone else FAR for other in self.ids],
        }

    def _cpus(self, zone: int) -> Sequence[int]:
        size = self.cpus + self.reserved
        return range(zone * size, (zone + 1) * size)

    def configuration(self, policy: Policy) -> Json:
        return {
            "cpuManagerPolicy": "static",
            "memoryManagerPolicy": self.memory_manager,
            "topologyManagerPolicy": policy,
            "topologyManagerScope": self.scope,
        }


SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        "two-by-four": Shape(zones=2, cpus=32, gib=256, reserved=2, devices={GPU: 4}),
        # The kubelet takes practically for ever to merge three resources over eight zones.
        "eight-zones": Shape(zones=8, cpus=16, gib=128, devices={GPU: 1}, memory_manager="None"),
        "small": Shape(zones=2, cpus=4, gib=16),
    }
)


@dataclass(frozen=True, slots=True)
class SimNode:
    """A node to simulate: its name, a name of `SHAPES` or another shape, and the topology manager's policy.

    Raise `BadInput` if the shape or the policy is unknown.
    """

    name: str
    shape: str | Shape
    policy: str = Policy.SINGLE

    def __post_init__(self) -> None:
        mistakes = []
        if isinstance(self.shape, str) and self.shape not in SHAPES:
            mistakes.append(Mistake("shape", f"{self.shape!r} is none of {', '.join(SHAPES)}"))
        if self.policy not in set(Policy):
            mistakes.append(Mistake("policy", f"{self.policy!r} is none of {', '.join(Policy)}"))
        if mistakes:
            raise BadInput(mistakes)

    @property
    def make(self) -> Shape:
        return SHAPES[self.shape] if isinstance(self.shape, str) else self.shape

    def line(self) -> Json:
        config = self.make.configuration(Policy(self.policy))
        return {"name": self.name, "kubeletConfig": config, "machine": self.make.machine()}
