"""Makes of machines, because what bounces off a kubelet depends on the iron more than on anything else.

A shape is data: what the kubelet's managers are started with, what the Node object says and what an exporter
publishes all follow from it. Every CPU is a core of its own, and every zone a socket.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from numalign.model.errors import BadInput, Mistake

Json = dict[str, Any]
Amounts = Mapping[str, int]
"""By resource: CPUs in thousandths, memory in bytes, devices in pieces."""

GIB = 2**30
NEAR, FAR = 10, 21
GPU = "nvidia.com/gpu"


class Policy(StrEnum):
    """Of the kubelet's topology manager."""

    SINGLE = "single-numa-node"
    RESTRICTED = "restricted"
    BEST_EFFORT = "best-effort"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Shape:
    """A make of machine. Amounts are those of one zone.

    `cpus` and `gib` are what pods can have; `reserved` CPUs and `reserved_gib` are kept from them and come on
    top. `devices` are pieces by resource.
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
        """The zones."""
        return range(self.zones)

    def capacity(self) -> dict[str, int]:
        """What is built into a zone, of what the managers give out."""
        return self._aligned(self.cpus + self.reserved, self.gib + self.reserved_gib)

    def allocatable(self) -> dict[str, int]:
        """What of it pods can have."""
        return self._aligned(self.cpus, self.gib)

    def _aligned(self, cpus: int, gib: int) -> dict[str, int]:
        # A memory manager that is off calls no memory allocatable (kubelet, memorymanager/policy_none.go),
        # so exporters do not list any.
        memory = {"memory": gib * GIB} if self.memory_manager == "Static" else {}
        return {"cpu": cpus * 1000, **memory, **self.devices}

    def machine(self) -> Json:
        """The hardware, as the oracle reads it."""
        return {
            "zones": [self._zone(zone) for zone in self.ids],
            "reservedSystemCPUs": ",".join(
                str(cpu) for zone in self.ids for cpu in self._cpus(zone)[: self.reserved]
            ),
            "devices": {
                resource: [
                    {"id": f"{zone}-{number}", "zones": [zone]}
                    for zone in self.ids
                    for number in range(count)
                ]
                for resource, count in self.devices.items()
            },
        }

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
        """The fields of KubeletConfiguration that decide."""
        return {
            "cpuManagerPolicy": "static",
            "memoryManagerPolicy": self.memory_manager,
            "topologyManagerPolicy": policy,
            "topologyManagerScope": self.scope,
        }


SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        "two-by-four": Shape(zones=2, cpus=32, gib=256, reserved=2, devices={GPU: 4}),
        # The kubelet's own merge of three resources over eight zones does not end in a lifetime.
        "eight-zones": Shape(zones=8, cpus=16, gib=128, devices={GPU: 1}, memory_manager="None"),
        "small": Shape(zones=2, cpus=4, gib=16),
    }
)


@dataclass(frozen=True, slots=True)
class SimNode:
    """A node to be: its name, one of `SHAPES` or a shape of one's own, and the topology manager's policy.

    Raises `BadInput` for a shape or a policy that is not known.
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
        """Its shape, looked up."""
        return SHAPES[self.shape] if isinstance(self.shape, str) else self.shape

    def line(self) -> Json:
        """The node line of the oracle."""
        return {
            "name": self.name,
            "kubeletConfig": self.make.configuration(Policy(self.policy)),
            "machine": self.make.machine(),
        }
