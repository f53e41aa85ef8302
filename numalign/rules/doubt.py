"""
What could make a prediction wrong: facts that the kubelet decides with and nobody told.

A missing fact takes the kubelet's default, so a prediction from counts alone is often right and never looks
like more than it is. Each doubt concerns only nodes and pods for which the missing fact would count.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType

from numalign.rules.demand import Demand
from numalign.rules.intent import Policy
from numalign.rules.options import CpuOption, TopologyOption
from numalign.rules.resources import CPU, MEMORY, Kind
from numalign.rules.topology import CpuManager, Known, MemoryManager, Node


class Doubt(StrEnum):
    """A fact that is missing, in the words in which a person is told of it."""

    VERSION = "the rules were not compared with this version of the kubelet; the nearest one stands in"
    OPTIONS = "the kubelet's options and version are not known; it is taken to have none and to be new"
    THREADS = "how many threads a core has is not known; two are assumed where only whole cores are given out"
    CORES = "which CPUs are free is not known; the kubelet gives out whole cores, and some may be broken into"
    SOCKETS = "which zones share a socket is not known; it is read off their distances"
    DISTANCES = "how far apart zones are is not known; the kubelet prefers the closest"
    DEVICES = "a topology shows no device that sits between zones or on none"
    GROUPS = "which zones are bound together by memory that spans them is not known"
    INIT_CPUS = "CPUs that finished init containers still hold look free in a topology"


def doubts(node: Node, demand: Demand) -> tuple[Doubt, ...]:
    """What could make a prediction for this pod on this node wrong; nothing, where the machine is known."""
    return tuple([doubt for doubt, applies in _APPLIES.items() if applies(node, demand)])


def _counted(node: Node) -> bool:
    return node.known is not Known.MACHINE


def _cpus(node: Node, demand: Demand) -> bool:
    """Whether CPUs are given out here of which only amounts are known."""
    return _counted(node) and node.cpu_manager is CpuManager.STATIC and Kind.CPU in demand.kinds


def _used(node: Node, name: str) -> bool:
    """Whether some of it is given out already."""
    return any(zone.free.get(name) != zone.allocatable.get(name) for zone in node.zones)


def _version(node: Node, _demand: Demand) -> bool:
    return not node.options.compared


def _options(node: Node, demand: Demand) -> bool:
    return node.known is Known.COUNTS and demand.alignable


def _threads(node: Node, demand: Demand) -> bool:
    return node.threads is None and CpuOption.FULL_PCPUS_ONLY in node.options.cpu and _cpus(node, demand)


def _cores(node: Node, demand: Demand) -> bool:
    return CpuOption.FULL_PCPUS_ONLY in node.options.cpu and _cpus(node, demand) and _used(node, CPU)


def _sockets(node: Node, demand: Demand) -> bool:
    return CpuOption.ALIGN_BY_SOCKET in node.options.cpu and _cpus(node, demand)


def _distances(node: Node, _demand: Demand) -> bool:
    wanted = TopologyOption.PREFER_CLOSEST in node.options.topology
    return wanted and any(len(zone.costs) < len(node.zones) for zone in node.zones)


def _devices(node: Node, demand: Demand) -> bool:
    return _counted(node) and node.policy is not Policy.NONE and Kind.DEVICE in demand.kinds


def _groups(node: Node, demand: Demand) -> bool:
    manages = node.memory_manager is MemoryManager.STATIC and len(node.zones) > 1
    told = any(zone.assignments for zone in node.zones)
    return manages and not told and Kind.MEMORY in demand.kinds and _used(node, MEMORY)


def _init_cpus(node: Node, demand: Demand) -> bool:
    return node.stock is None and _cpus(node, demand) and _used(node, CPU)


_APPLIES: Mapping[Doubt, Callable[[Node, Demand], bool]] = MappingProxyType(
    {
        Doubt.VERSION: _version,
        Doubt.OPTIONS: _options,
        Doubt.THREADS: _threads,
        Doubt.CORES: _cores,
        Doubt.SOCKETS: _sockets,
        Doubt.DISTANCES: _distances,
        Doubt.DEVICES: _devices,
        Doubt.GROUPS: _groups,
        Doubt.INIT_CPUS: _init_cpus,
    }
)
