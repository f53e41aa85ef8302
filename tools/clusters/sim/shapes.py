"""Shapes of machines, because what a kubelet rejects depends on the hardware more than on anything else.

A shape is data: the configuration of the kubelet's managers, the Node object and the topology of an exporter
are derived from it. Every CPU is a core of its own, and every zone a socket.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tools.clusters.fleets import FAR, NEAR
from tools.clusters.kubelets.kubelets import RealNode

Json = dict[str, Any]

GIB = 2**30
GPU = "nvidia.com/gpu"
POLICIES = ("single-numa-node", "restricted", "best-effort", "none")
RESERVED_GIB = 1


@dataclass(frozen=True, slots=True)
class Shape:
    """The hardware of a machine. Amounts are per zone.

    `cpus` and `gib` are allocatable to pods; `reserved` CPUs and `RESERVED_GIB` are additional, and not for
    pods. `devices` are numbers by resource.
    """

    zones: int
    cpus: int
    gib: int
    reserved: int = 1
    devices: Mapping[str, int] = field(default_factory=dict)
    memory_manager: str = "Static"

    @property
    def ids(self) -> range:
        return range(self.zones)

    def capacity(self) -> dict[str, int]:
        """Return the amounts that exporters list: CPUs in thousandths, memory in bytes, devices by number."""
        return self._aligned(self.cpus + self.reserved, self.gib + RESERVED_GIB)

    def allocatable(self) -> dict[str, int]:
        return self._aligned(self.cpus, self.gib)

    def _aligned(self, cpus: int, gib: int) -> dict[str, int]:
        # A disabled memory manager reports no allocatable memory (kubelet, memorymanager/policy_none.go), so
        # exporters do not list any.
        memory = {"memory": gib * GIB} if self.memory_manager == "Static" else {}
        return {"cpu": cpus * 1000, **memory, **self.devices}

    def whole(self, *, reserved: bool) -> dict[str, int]:
        """Return the amounts of the node, allocatable ones or with what is reserved."""
        amounts = {**(self.capacity() if reserved else self.allocatable())}
        amounts["memory"] = (self.gib + RESERVED_GIB * reserved) * GIB
        total = {resource: amount * self.zones for resource, amount in amounts.items()}
        return {**total, "ephemeral-storage": 900 * GIB, "pods": 110}

    def machine(self) -> Json:
        size = self.cpus + self.reserved
        cpus = [range(zone * size, (zone + 1) * size) for zone in self.ids]
        zones = [
            {
                "id": zone,
                "socket": zone,
                "cores": [[cpu] for cpu in cpus[zone]],
                "memory": (self.gib + RESERVED_GIB) * GIB,
                "reservedMemory": RESERVED_GIB * GIB,
                "distances": [NEAR if other == zone else FAR for other in self.ids],
            }
            for zone in self.ids
        ]
        devices = {
            resource: [
                {"id": f"{zone}-{number}", "zones": [zone]} for zone in self.ids for number in range(count)
            ]
            for resource, count in self.devices.items()
        }
        reserved = ",".join(str(cpu) for each in cpus for cpu in each[: self.reserved])
        return {"zones": zones, "reservedSystemCPUs": reserved, "devices": devices}


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
    """A node to simulate: its name, a shape or its name, and one of `POLICIES` for the topology manager."""

    name: str
    shape: str | Shape
    policy: str = POLICIES[0]

    @property
    def make(self) -> Shape:
        return SHAPES[self.shape] if isinstance(self.shape, str) else self.shape

    def line(self) -> Json:
        """Return the node as the kubelet's managers read it."""
        configuration = {
            "cpuManagerPolicy": "static",
            "memoryManagerPolicy": self.make.memory_manager,
            "topologyManagerPolicy": self.policy,
            "topologyManagerScope": "container",
        }
        return {"name": self.name, "kubeletConfig": configuration, "machine": self.make.machine()}

    def real(self) -> RealNode:
        """Return the node as a real kubelet starts."""
        line = self.line()
        return RealNode(name=self.name, machine=line["machine"], configuration=line["kubeletConfig"])
