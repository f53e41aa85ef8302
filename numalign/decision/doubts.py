"""
What could make a prediction wrong: facts that the kubelet uses and that are not reported.

A missing fact has the kubelet's default, so a prediction from counts alone is often right, and its doubts
show what it rests on. Each doubt concerns only nodes and pods for which the missing fact would matter.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from numalign.kubelet.numa_scores import ties
from numalign.model.demand import Demand
from numalign.model.intent import Policy
from numalign.model.node import CpuManager, Known, MemoryManager, Node
from numalign.model.options import COMPARED, LEAVES_POD_LEVEL_ALONE, PRE_RELEASE, CpuOption, TopologyOption
from numalign.model.resources import CPU, MEMORY, Kind


class Doubt(StrEnum):
    """A missing fact, or a version that was not compared."""

    OPTIONS = "options"
    NO_VERSION = "no-version"
    VERSION = "version"
    PRE_RELEASE = "pre-release"
    THREADS = "threads"
    CORES = "cores"
    SOCKETS = "sockets"
    DISTANCES = "distances"
    DEVICES = "devices"
    ZONES = "zones"
    GROUPS = "groups"
    INIT_CPUS = "init-cpus"
    POD_LEVEL = "pod-level"
    UNKNOWN_OPTION = "unknown-option"
    UNRELEASED = "unreleased-option"
    SCORES = "scores"


class _Row(NamedTuple):
    applies: Callable[[Node, Demand], bool]
    sentence: str


def doubts(node: Node, demand: Demand) -> tuple[Doubt, ...]:
    """Return what could make a prediction for this pod wrong; for a known machine only its version."""
    return tuple([doubt for doubt, row in _ROWS.items() if row.applies(node, demand)])


def _counted(node: Node) -> bool:
    return node.known is not Known.MACHINE


def _cpus(node: Node, demand: Demand) -> bool:
    """Return whether CPUs are allocated here and only their amounts are known."""
    return _counted(node) and node.cpu_manager is CpuManager.STATIC and Kind.CPU in demand.kinds


def _whole_cores(node: Node, demand: Demand) -> bool:
    return CpuOption.FULL_PCPUS_ONLY in node.options.cpu and _cpus(node, demand)


def _used(node: Node, name: str) -> bool:
    return any(zone.free.get(name) != zone.allocatable.get(name) for zone in node.zones)


def _alignable(demand: Demand) -> bool:
    """Return whether something could be pinned for the pod, at least under a feature gate that may be on."""
    return demand.alignable or demand.pod_level is not None


def uncertain(node: Node, demand: Demand) -> bool:
    """Return whether it is uncertain which zones have something that the steps request or name."""
    names = (name for step in demand.steps for name in (*step.requests, *step.devices))
    return not node.uncertain.isdisjoint(names)


def _groups(node: Node, demand: Demand) -> bool:
    manages = node.memory_manager is MemoryManager.STATIC and len(node.zones) > 1 and _counted(node)
    listed = any(zone.assignments for zone in node.zones)
    return manages and not listed and Kind.MEMORY in demand.kinds and _used(node, MEMORY)


_ROWS: Mapping[Doubt, _Row] = MappingProxyType(
    {
        Doubt.OPTIONS: _Row(
            lambda node, demand: node.known is Known.COUNTS and _alignable(demand),
            "the kubelet's options are unknown; none are assumed",
        ),
        Doubt.NO_VERSION: _Row(
            lambda node, demand: node.options.minor is None and _alignable(demand),
            "the kubelet's version is unknown; the newest tested version is assumed",
        ),
        Doubt.VERSION: _Row(
            lambda node, _: node.options.minor is not None and node.options.minor not in COMPARED,
            "this kubelet version is untested; only versions close to it were tested",
        ),
        Doubt.PRE_RELEASE: _Row(
            lambda node, _: node.options.minor == PRE_RELEASE,
            "only a pre-release of this kubelet version was tested; it may have changed since",
        ),
        # A label shows that there are hyperthreads, not how many.
        Doubt.THREADS: _Row(
            lambda node, demand: node.threads != 1 and _whole_cores(node, demand),
            "the number of threads per core is uncertain, and only whole cores are allocated",
        ),
        Doubt.CORES: _Row(
            lambda node, demand: (
                any(zone.free.get(CPU) != zone.capacity.get(CPU) for zone in node.zones)
                and _whole_cores(node, demand)
            ),
            "which CPUs are reserved or free is unknown; some cores may be partly allocated",
        ),
        Doubt.SOCKETS: _Row(
            lambda node, demand: CpuOption.ALIGN_BY_SOCKET in node.options.cpu and _cpus(node, demand),
            "which NUMA zones share a socket is unknown; it is derived from their distances",
        ),
        Doubt.DISTANCES: _Row(
            lambda node, _: (
                TopologyOption.PREFER_CLOSEST in node.options.topology
                and any(len(zone.costs) < len(node.zones) for zone in node.zones)
            ),
            "the distances between NUMA zones are unknown, and the kubelet prefers the closest",
        ),
        # A named device is in question even if none is requested.
        Doubt.DEVICES: _Row(
            lambda node, demand: _counted(node) and any(step.devices for step in demand.steps),
            "the topology does not show devices that are broken, or on several NUMA zones or none",
        ),
        Doubt.ZONES: _Row(
            uncertain,
            "how much of some requested resource each NUMA zone has is uncertain; it is refused only for what"
            " the zones list",
        ),
        Doubt.GROUPS: _Row(_groups, "which NUMA zones are grouped by memory that spans them is unknown"),
        Doubt.INIT_CPUS: _Row(
            lambda node, demand: node.stock is None and _cpus(node, demand) and _used(node, CPU),
            "CPUs that finished init containers still hold look free in the topology",
        ),
        Doubt.POD_LEVEL: _Row(
            lambda node, demand: (
                demand.pod_level is not None
                and node.options.minor is not None
                and node.options.minor < LEAVES_POD_LEVEL_ALONE
            ),
            "a kubelet without the feature gate PodLevelResources (before 1.34) considers containers only",
        ),
        Doubt.UNKNOWN_OPTION: _Row(
            lambda node, demand: bool(node.options.unknown) and _alignable(demand),
            "the kubelet has options that numalign does not know; they are left out of account",
        ),
        Doubt.UNRELEASED: _Row(
            lambda node, demand: ties(node) is not None and _alignable(demand),
            "the kubelet chooses NUMA zones by an option of KEP-6007, which no release has; it may work"
            " differently",
        ),
        # A container can get zones that it does not prefer, by the score of several resources.
        Doubt.SCORES: _Row(
            lambda node, demand: (
                ties(node) is not None
                and node.policy is Policy.BEST_EFFORT
                and any(len({*step.requests, *step.devices}) > 1 for step in demand.steps)
            ),
            "which NUMA zones best-effort takes if the resources prefer different ones can be chance, with"
            " scores",
        ),
    }
)

SENTENCES: Mapping[Doubt, str] = MappingProxyType({doubt: row.sentence for doubt, row in _ROWS.items()})
"""A sentence about each doubt, without a full stop."""
