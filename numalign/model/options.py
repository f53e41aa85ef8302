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
    # Of the first text of KEP-6007; no kubelet was released with it.
    PREFER_MOST_ALLOCATED = "prefer-most-allocated-numa-node"


STRATEGY, WEIGHTS = "numa-allocation-strategy", "numa-score-weights"
"""The options of topologyManagerPolicyOptions for scores of zones."""

UNRELEASED = frozenset({TopologyOption.PREFER_MOST_ALLOCATED.value, STRATEGY, WEIGHTS})
"""The options of KEP-6007, which no kubelet was released with."""


class NumaStrategy(StrEnum):
    """The values of numa-allocation-strategy: which of equally good zones the kubelet takes."""

    NONE = "none"
    MOST_ALLOCATED = "most-allocated"
    LEAST_ALLOCATED = "least-allocated"


class FeatureGate(StrEnum):
    """The feature gates that change allocations; off by default."""

    POD_LEVEL_MANAGERS = "PodLevelResourceManagers"
    # A kubelet with an option that is alpha does not start without it.
    ALPHA_TOPOLOGY_OPTIONS = "TopologyManagerPolicyAlphaOptions"


class KubeletChange(StrEnum):
    """What a kubelet does differently from those of older versions.

    `CHANGES` has the versions. The texts are names in tables, and stay as they are.
    """

    ODD_CACHE_SHARE = "odd-share-of-a-cache"
    """A part of a cache serves an odd number of CPUs from one more core."""

    HINTS_WHERE_DEVICES_ARE = "hints-where-devices-are"
    """Hints for a device include only zones that have a device of the resource."""

    SOCKET_SHARE = "share-within-a-socket"
    """Aligned by socket, CPUs are distributed inside one socket if possible, by what each zone has."""

    LOWERED_SHARE = "lowered-share"
    """The even share of a distribution is lowered to what the chosen zones have."""

    NO_MEMORY_NO_BLOCK = "no-memory-no-block"
    """The memory manager leaves a container alone that requests no memory."""

    HINT_WIDTH = "width-of-the-hint"
    """CPUs are distributed over at least as many zones as the hint has."""

    COPIED_COMBINATIONS = "copied-combinations"
    """The zones of a distribution are those that were found best, not overwritten by later ones."""

    WHOLE_GROUPS = "whole-groups"
    """The remainder of a distribution comes from zones that have it in whole cores."""

    OWN_SIZE = "own-size"
    """A socket or core is whole if all its own CPUs are free, not as many as the average has."""

    SPREAD_IN_TURN = "cores-in-turn"
    """Spread across cores, each core gives one CPU before any gives a second."""

    CACHES_IN_TWO_PASSES = "caches-in-two-passes"
    """All whole caches come before any part of one, and a cache that spans zones counts once."""

    INIT_ONLY_NAMES = "init-only-memory"
    """In pod scope, memory that only init containers request counts."""


CHANGES: Mapping[KubeletChange, int] = MappingProxyType(
    {
        KubeletChange.ODD_CACHE_SHARE: 34,
        KubeletChange.HINTS_WHERE_DEVICES_ARE: 36,
        KubeletChange.SOCKET_SHARE: 37,
        KubeletChange.LOWERED_SHARE: 37,
        KubeletChange.NO_MEMORY_NO_BLOCK: 37,
        KubeletChange.HINT_WIDTH: 38,
        KubeletChange.COPIED_COMBINATIONS: 38,
        KubeletChange.WHOLE_GROUPS: 38,
        KubeletChange.OWN_SIZE: 38,
        KubeletChange.SPREAD_IN_TURN: 38,
        KubeletChange.CACHES_IN_TWO_PASSES: 38,
        KubeletChange.INIT_ONLY_NAMES: 38,
    }
)
"""The first minor version of Kubernetes 1 with each change."""

GATED_SINCE: Mapping[FeatureGate, int] = MappingProxyType(
    {FeatureGate.POD_LEVEL_MANAGERS: 36, FeatureGate.ALPHA_TOPOLOGY_OPTIONS: 26}
)
"""The first minor version that has each feature gate, as alpha."""

BETA_SINCE: Mapping[FeatureGate, int] = MappingProxyType({FeatureGate.POD_LEVEL_MANAGERS: 37})
"""The first minor version in which it is beta; others are alpha in all."""

OLDEST, NEWEST = 32, 37
"""The versions between which nodes are predicted as they are; others like the nearest of them."""

PRE_RELEASE = 38
"""The version after the newest, as far as its last pre-release shows."""

LEAVES_POD_LEVEL_ALONE = 34
"""The minor version from which managers ignore pods with pod-level resources by default."""

COMPARED = frozenset({32, 34, 36, 37, 38})
"""The versions whose own code the rules were compared with; the others are read from the source."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one kubelet, and its minor version, None if not known.

    `weights` are those of resources in the scores of zones, by which a `strategy` chooses. `unknown` are the
    options, or settings of them, that are not known here. `unreleased` are those that no kubelet was released
    with, whatever they are set to.
    """

    cpu: frozenset[CpuOption] = frozenset()
    topology: frozenset[TopologyOption] = frozenset()
    gates: frozenset[FeatureGate] = frozenset()
    minor: int | None = None
    strategy: NumaStrategy = NumaStrategy.NONE
    weights: tuple[tuple[str, int], ...] = ()
    unknown: frozenset[str] = frozenset()
    unreleased: frozenset[str] = frozenset()
    changes: frozenset[KubeletChange] = field(init=False, compare=False, repr=False)
    """Those of its version: of the newest release if it is not known, of the pre-release if it is newer."""

    def __post_init__(self) -> None:
        changes = frozenset(change for change, since in CHANGES.items() if since <= self.version)
        object.__setattr__(self, "changes", changes)
        held = {
            TopologyOption.PREFER_MOST_ALLOCATED.value: TopologyOption.PREFER_MOST_ALLOCATED in self.topology,
            STRATEGY: self.strategy is not NumaStrategy.NONE,
            WEIGHTS: bool(self.weights),
        }
        used = frozenset(name for name, on in held.items() if on)
        object.__setattr__(self, "unreleased", self.unreleased | used)

    @property
    def version(self) -> int:
        """The minor version, the newest release if it is not known."""
        return NEWEST if self.minor is None else self.minor

    def on(self, gate: FeatureGate) -> bool:
        """Return whether a feature gate is on and exists in this version."""
        return gate in self.gates and GATED_SINCE[gate] <= self.version


DEFAULTS = Options()
