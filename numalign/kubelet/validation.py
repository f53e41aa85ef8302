"""
The configurations with which a kubelet does not start.

A kubelet that does not start admits nothing, so such a node is a mistake in its description, and its verdicts
would be about an impossible machine. The kubelet stops at the first reason; a user who fixes a configuration
wants all of them.

Restates policy_options.go, policy_none.go, policy_static.go and cpu_manager.go of pkg/kubelet/cm/cpumanager,
topology_manager.go, policy_options.go and numa_info.go of topologymanager, and memory_manager.go and
policy_static.go of memorymanager, Kubernetes v1.32.13 to v1.36.3. Which options a feature gate allows is not
checked here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from numalign.model import resources
from numalign.model.errors import Mistake
from numalign.model.intent import Policy
from numalign.model.node import DEFAULT_MAX_ZONES, CpuManager, MemoryManager, Node
from numalign.model.options import CpuOption, TopologyOption
from numalign.model.resources import EMPTY, MEMORY, Kind, Resources, ZoneId, kind

CPU_OPTIONS = "cpuManagerPolicyOptions"
TOPOLOGY_OPTIONS = "topologyManagerPolicyOptions"
MAX_ZONES = "max-allowable-numa-nodes"
RESERVED_CPUS = "reservedSystemCPUs"
RESERVED_MEMORY = "reservedMemory"

# NewStaticPolicyOptions of policy_options.go stops at the first of these, in this order.
CLASHES = (
    (CpuOption.FULL_PCPUS_ONLY, CpuOption.DISTRIBUTE_ACROSS_CORES),
    (CpuOption.DISTRIBUTE_ACROSS_NUMA, CpuOption.DISTRIBUTE_ACROSS_CORES),
    (CpuOption.PREFER_UNCORE_CACHE, CpuOption.DISTRIBUTE_ACROSS_CORES),
    (CpuOption.PREFER_UNCORE_CACHE, CpuOption.DISTRIBUTE_ACROSS_NUMA),
)
"""Pairs of options that cannot be on together."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """The memory that a kubelet is configured to reserve for the system.

    `zones` is its reservedMemory. `memory` is what it reserves of the node, in bytes: the sum of
    kubeReserved, systemReserved and the hard eviction threshold; None if that cannot be computed.
    """

    zones: Mapping[ZoneId, Resources]
    memory: int | None


def start_errors(node: Node, reserved: Reserved | None = None) -> list[Mistake]:
    """Return why this kubelet would not start, by field; of the machine only if that is known."""
    errors = [*_of_cpus(node), *_of_memory(node, reserved)]
    # Under policy none the topology manager reads no options.
    errors += [] if node.policy is Policy.NONE else _of_zones(node)
    return [Mistake(field, f"the kubelet would not start: {reason}") for field, reason in errors]


StartError = tuple[str, str]
"""The field that is wrong, and the reason."""


def _of_cpus(node: Node) -> Iterator[StartError]:
    options = node.options.cpu
    if node.cpu_manager is CpuManager.NONE:
        # NewNonePolicy of policy_none.go accepts no options.
        if options:
            yield (
                CPU_OPTIONS,
                f"the CPU manager's policy none takes no options, not {', '.join(sorted(options))}",
            )
        return
    for one, other in CLASHES:
        if {one, other} <= options:
            yield CPU_OPTIONS, f"{one} and {other} cannot be used at the same time"
    # ValidateStaticPolicyOptions, which needs the topology manager's policy and the machine for it.
    by_socket, where = CpuOption.ALIGN_BY_SOCKET in options, f"{CPU_OPTIONS}.{CpuOption.ALIGN_BY_SOCKET}"
    if by_socket and node.policy is Policy.SINGLE_NUMA_NODE:
        yield where, f"it is not compatible with topologyManagerPolicy {Policy.SINGLE_NUMA_NODE}"
    # NumNUMANodes counts zones that own CPUs, and NumSockets every socket.
    laid = node.machine.topology if node.machine else None
    if by_socket and laid and len(laid.sockets) > laid.zones_with_cpus:
        counts = f"{len(laid.sockets)} sockets are more than the {laid.zones_with_cpus} zones that have CPUs"
        yield where, f"it is not compatible with a machine whose {counts}"
    # NewManager of cpu_manager.go: otherwise exclusive CPUs could use up the shared pool.
    if node.machine and not node.machine.reserved:
        yield RESERVED_CPUS, "the CPU manager's policy static needs more than zero CPUs reserved"


def _of_memory(node: Node, reserved: Reserved | None) -> Iterator[StartError]:
    if node.memory_manager is MemoryManager.NONE:
        return
    kept = False
    for zone in node.zones:
        # Hugepages reduce a zone's memory, whether they are for pods or reserved.
        huge = (
            amount for name, amount in zone.capacity.items() if kind(name) is Kind.MEMORY and name != MEMORY
        )
        kept |= zone.capacity.get(MEMORY, 0) - sum(huge) != zone.allocatable.get(MEMORY, 0)
    # NewPolicyStatic adds up memory alone, so reserved hugepages do not help.
    if node.machine and not kept:
        yield RESERVED_MEMORY, "the memory manager's policy Static needs memory reserved on some zone"
    if reserved is None:
        return
    # getTotalMemoryTypeReserved of memory_manager.go, by NUMA id.
    for strange in sorted(reserved.zones.keys() - set(node.ids)):
        yield RESERVED_MEMORY, f"zone {strange} does not exist on this machine"
    # validateReservedMemory: a name that only one side has counts as zero on the other.
    zones = EMPTY
    for amounts in reserved.zones.values():
        zones = zones.plus(amounts)
    # A node as a whole cannot reserve hugepages (parseResourceList of cmd/kubelet/app/server.go).
    whole = Resources({**dict.fromkeys(zones, 0), MEMORY: reserved.memory or 0})
    for name in whole:
        shown = [resources.render(name, bag.get(name, 0)) for bag in (zones, whole)]
        if shown[0] != shown[1] and (name != MEMORY or reserved.memory is not None):
            sums = "kubeReserved, systemReserved and evictionHard"
            yield RESERVED_MEMORY, f"the zones reserve {shown[0]} of {name}, but {sums} reserve {shown[1]}"


def _of_zones(node: Node) -> Iterator[StartError]:
    # NewPolicyOptions refuses a low limit before NewManager of topology_manager.go counts any zone.
    where = f"{TOPOLOGY_OPTIONS}.{MAX_ZONES}"
    if node.max_zones < DEFAULT_MAX_ZONES:
        yield where, f"{node.max_zones} is below the minimum of {DEFAULT_MAX_ZONES}"
    elif len(node.zones) > node.max_zones:
        yield where, f"the machine has {len(node.zones)} zones, and it aligns at most {node.max_zones}"
    # NewNUMAInfo needs the distances of every zone, but only under this option.
    silent = [str(zone.id) for zone in node.zones if not zone.costs]
    if node.machine and TopologyOption.PREFER_CLOSEST in node.options.topology and silent:
        where = f"{TOPOLOGY_OPTIONS}.{TopologyOption.PREFER_CLOSEST}"
        yield where, f"the machine does not report the distances of zone {', '.join(silent)}"
