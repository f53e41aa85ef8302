"""
The options of a kubelet beyond its policies, and how its version behaves.

The names of the options are the kubelet's own. A kubelet whose configuration is not known has none of them,
and behaves like the newest version that was compared with the real one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class CpuOption(StrEnum):
    """The names in cpuManagerPolicyOptions."""

    FULL_PCPUS_ONLY = "full-pcpus-only"
    DISTRIBUTE_ACROSS_NUMA = "distribute-cpus-across-numa"
    ALIGN_BY_SOCKET = "align-by-socket"
    DISTRIBUTE_ACROSS_CORES = "distribute-cpus-across-cores"
    # It removes the reserved CPUs from the shared pool; exclusive CPUs never include them.
    STRICT_RESERVATION = "strict-cpu-reservation"
    PREFER_UNCORE_CACHE = "prefer-align-cpus-by-uncorecache"


class TopologyOption(StrEnum):
    """The switches in topologyManagerPolicyOptions."""

    PREFER_CLOSEST = "prefer-closest-numa-nodes"


class FeatureGate(StrEnum):
    """The feature gates that change allocations; off by default."""

    POD_LEVEL_MANAGERS = "PodLevelResourceManagers"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What differs between versions of the kubelet.

    `hints_where_devices_are`: hints for a device include only zones that have a device of the resource.
    `rounds_cores_up`: a partial cache serves an odd number of CPUs from one more core. `gates`: the feature
    gates that exist.
    """

    hints_where_devices_are: bool
    rounds_cores_up: bool
    gates: frozenset[FeatureGate]


_NO_GATE = frozenset[FeatureGate]()

BEHAVIOURS: Mapping[int, Behaviour] = MappingProxyType(
    {
        32: Behaviour(hints_where_devices_are=False, rounds_cores_up=False, gates=_NO_GATE),
        33: Behaviour(hints_where_devices_are=False, rounds_cores_up=False, gates=_NO_GATE),
        34: Behaviour(hints_where_devices_are=False, rounds_cores_up=True, gates=_NO_GATE),
        35: Behaviour(hints_where_devices_are=False, rounds_cores_up=True, gates=_NO_GATE),
        36: Behaviour(hints_where_devices_are=True, rounds_cores_up=True, gates=frozenset(FeatureGate)),
    }
)
"""By minor version of Kubernetes 1."""

OLDEST, NEWEST = min(BEHAVIOURS), max(BEHAVIOURS)

LEAVES_POD_LEVEL_ALONE = 34
"""The minor version from which managers ignore pods with pod-level resources by default."""

COMPARED = frozenset({32, 34, 36})
"""The versions whose own code the rules were compared with; the others are read from the source."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one kubelet, and its minor version, None if not known."""

    cpu: frozenset[CpuOption] = frozenset()
    topology: frozenset[TopologyOption] = frozenset()
    gates: frozenset[FeatureGate] = frozenset()
    minor: int | None = None
    behaviour: Behaviour = field(init=False, compare=False, repr=False)
    """The behaviour of its version: the newest if it is not known, the nearest if it is not in the table."""

    def __post_init__(self) -> None:
        minor = NEWEST if self.minor is None else self.minor
        object.__setattr__(self, "behaviour", BEHAVIOURS[min(max(minor, OLDEST), NEWEST)])

    def on(self, gate: FeatureGate) -> bool:
        """Return whether a feature gate is on and exists in this version."""
        return gate in self.gates & self.behaviour.gates


DEFAULTS = Options()
