"""
The CPU manager under policy static: the hints for CPUs, and which CPUs a container gets.

Restates policy_static.go of pkg/kubelet/cm/cpumanager; the choice among CPUs is in `cpu_assignment`. It works
on sets of CPU ids, whether the machine is described or assumed from counts.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from numalign.kubelet import assumed_machine, bitmask, hint_sets
from numalign.kubelet.admission_errors import RejectionReason
from numalign.kubelet.bitmask import Mask
from numalign.kubelet.cpu_assignment import StaticPolicyOptions, choices, take_by_topology
from numalign.kubelet.hint_sets import HintSet
from numalign.kubelet.topology_manager import ResourceHints
from numalign.model.bitset import bits, union
from numalign.model.demand import Step
from numalign.model.intent import Policy
from numalign.model.machine import CpuSet, CpuTopology
from numalign.model.node import CpuManager, Node
from numalign.model.options import CpuOption, KubeletChange, Options
from numalign.model.pod import Role
from numalign.model.resources import CPU, MILLI, ZoneId

MOST_CHOICES = 5_000
"""The limit of distributions of CPUs that are compared, which takes tens of milliseconds.

Eight zones never have so many. With 16 zones there can be more for a request that does not fit into three.
"""


class CpuState(NamedTuple):
    """The CPUs of a node while one pod is admitted.

    `free` ones are not allocated, `given` ones were given to this pod, some of them `reusable` by its later
    containers. On a machine of uneven cores the kubelet can allocate a CPU that another pod has.
    """

    topology: CpuTopology
    options: Options
    reserved: CpuSet
    free: CpuSet
    reusable: CpuSet = 0
    given: CpuSet = 0

    @property
    def available(self) -> CpuSet:
        """The CPUs that a container of this pod could get."""
        return self.free | self.reusable

    def charged(self, cpus: CpuSet, role: Role) -> "CpuState":
        """Return the state after a container got these CPUs (updateCPUsToReuse)."""
        # CPUs of an init container can be reused; those of them that a sidecar or an app takes cannot.
        reusable = self.reusable | cpus if role is Role.INIT else self.reusable & ~cpus
        free, given = self.free & ~cpus, self.given | cpus
        return CpuState(self.topology, self.options, self.reserved, free, reusable, given)

    def emptied(self) -> "CpuState":
        """Return the state with nothing allocated: that of the emptied node (`Node.emptied`)."""
        return CpuState(self.topology, self.options, self.reserved, self.topology.everything & ~self.reserved)

    def released(self, cpus: CpuSet) -> "CpuState":
        """Return the state after a pod with these CPUs is gone; reserved ones stay reserved."""
        return self._replace(free=self.free | cpus & ~self.reserved)


LEAST_SPLIT, LEAST_SHARING = 2, 4
"""The zones with a part of a core, and of zones in all, from which on `endless` can hold."""


def endless(node: Node) -> tuple[ZoneId, ...]:
    """Return the zones whose reserved CPUs split cores, if a kubelet can search them for CPUs without end.

    Up to 1.37 it looks for zones that have what is left after even shares by the sum of their CPUs, but takes
    whole cores: three cores of two zones that have a core and a half each (kubernetes#140730). That much is
    left only of four shares. An affinity to one zone never needs any.
    """
    cpus, single = state(node), node.policy is Policy.SINGLE_NUMA_NODE
    if cpus is None or node.machine is None or single or KubeletChange.WHOLE_GROUPS in cpus.options.changes:
        return ()
    taking = _policy_options(cpus.options, cpus.topology.threads_per_core)
    room = [(zone & ~cpus.reserved).bit_count() for zone in cpus.topology.zones]
    split = tuple(zone for zone, count in zip(node.machine.zones, room, strict=True) if count % taking.group)
    few = len(split) < LEAST_SPLIT or sum(map(bool, room)) < LEAST_SHARING
    return split if taking.distribute and not few else ()


def state(node: Node) -> CpuState | None:
    """Return the CPUs before the pod's first container; None if the manager is off."""
    if node.cpu_manager is not CpuManager.STATIC:
        return None
    topology, reserved = _cpus(node)
    # CPUs allocated on an assumed machine are known by their ids from the first pod on.
    free = node.stock.cpus if node.stock else assumed_machine.free_cpus(node, topology)
    return CpuState(topology, node.options, reserved, free)


def topology(node: Node) -> CpuTopology | None:
    """Return the CPUs that the manager knows; None if it is off."""
    return _cpus(node)[0] if node.cpu_manager is CpuManager.STATIC else None


def _cpus(node: Node) -> tuple[CpuTopology, CpuSet]:
    if machine := node.machine:
        return machine.topology, machine.reserved
    return assumed_machine.assume(node)


def cpus_per_zone(topology: CpuTopology, cpus: CpuSet) -> tuple[int, ...]:
    """Return how many of these CPUs each zone has, by position."""
    return tuple([(cpus & zone).bit_count() for zone in topology.zones])


def topology_hints(state: CpuState, step: Step) -> list[ResourceHints]:
    """Return the hints for a step (generateCPUTopologyHints); no hints if it requests no exclusive CPU."""
    if not step.cpu:
        return []
    request, topology = step.cpu // MILLI, state.topology
    # Zones without CPUs are in no hint: the manager visits the zones of its CPU topology.
    possible = hint_sets.inside(bits(topology.hosts)) & hint_sets.reaching(
        cpus_per_zone(topology, state.available), request
    )
    if state.reusable:
        # A mask that lacks a zone with reusable CPUs is skipped, even if it has enough without them.
        possible &= hint_sets.around(reusable_zones(state), len(topology.zones))
    # Possibly no mask of the fewest zones is possible: then nothing is preferred, however empty the node.
    fewest = min_affinity_size(topology.sizes, request)
    preferred = hint_sets.of_width(possible, fewest)
    per_socket = topology.zones_with_cpus // len(topology.sockets) if topology.sockets else 0
    # With more sockets than zones a zone has none, and the kubelet does not start with the option.
    if CpuOption.ALIGN_BY_SOCKET in state.options.cpu and per_socket:
        # A mask is as good if it spans exactly as many sockets as that many zones take (isHintSocketAligned).
        preferred |= possible & _spanning(topology, -(-fewest // per_socket))
    return [ResourceHints(CPU, possible, preferred)]


def reusable_zones(state: CpuState) -> Mask:
    """Return the zones of CPUs that containers have to reuse."""
    counts = cpus_per_zone(state.topology, state.reusable)
    return bits(zone for zone, count in enumerate(counts) if count)


def min_affinity_size(sizes: Iterable[int], request: int) -> int:
    """Return the fewest zones with enough CPUs for a request; all zones with CPUs if none are enough."""
    # Reserved and busy CPUs count (minAffinitySize is lowered before anything else of a mask is checked). So
    # the fewest zones can be one zone that no pod could ever get.
    hosts = [size for size in sizes if size]
    return bitmask.fewest(hosts, request) or max(1, len(hosts))


def allocate(state: CpuState, step: Step, mask: Mask | None) -> tuple[CpuState, CpuSet] | RejectionReason:
    """Return the CPUs that a container gets and the state after it, or why it gets none (Allocate)."""
    request, available = step.cpu // MILLI, state.available
    # Checked before anything else, for the node as a whole, and under every topology policy.
    if CpuOption.FULL_PCPUS_ONLY in state.options.cpu:
        # CPUs of init containers do not count here; a node whose zones list no CPU has no core either.
        threads = state.topology.threads_per_core or 1
        if request % threads > 0 or request > whole_cores(state).bit_count():
            return RejectionReason.SMT_ALIGNMENT
    # CPUs of its affinity come first. Without one (policy none, or none stored) all come from the rest.
    near = 0 if mask is None else available & _aligned(state, mask)
    cpus = allocate_cpus(state, near, min(request, near.bit_count()), (mask or 0).bit_count())
    if not isinstance(cpus, RejectionReason) and (missing := request - cpus.bit_count()) > 0:
        # This is how best-effort exceeds its affinity: the rest is taken as if it were requested alone.
        far = allocate_cpus(state, available & ~cpus, missing)
        cpus = far if isinstance(far, RejectionReason) else cpus | far
    return cpus if isinstance(cpus, RejectionReason) else (state.charged(cpus, step.role), cpus)


def allocate_cpus(
    state: CpuState, available: CpuSet, count: int, hint_width: int = 0
) -> CpuSet | RejectionReason:
    """Return `count` of these CPUs, however spread, or why not, if the kubelet finds too few.

    `hint_width` is the number of zones of the hint that is followed, 0 if none is. Where a cache spans zones
    the kubelet counts it twice and accepts fewer.
    """
    options = _policy_options(state.options, state.topology.threads_per_core)
    choosing = (state.topology, available, count, options, hint_width)
    if options.distribute and choices(*choosing) > MOST_CHOICES:
        return RejectionReason.NOT_ANSWERED
    cpus = take_by_topology(*choosing)
    # Taking nothing is not an error: an affinity can have no CPU left.
    return RejectionReason.UNEXPECTED_ADMISSION if count and not cpus else cpus


def reserved_cpus(topology: CpuTopology, options: Options, count: int) -> CpuSet:
    """Return the CPUs that a kubelet reserves for the system, given only their number (NewStaticPolicy)."""
    return take_by_topology(
        topology, topology.everything, count, _policy_options(options, topology.threads_per_core)
    )


def whole_cores(state: CpuState) -> CpuSet:
    """Return the free CPUs whose core has no reserved thread (GetAvailablePhysicalCPUs)."""
    # Pods cannot use a core if any of its threads is reserved; shared pods change nothing.
    return state.free & ~union(core for core in state.topology.cores if core & state.reserved)


@lru_cache(64)
def _spanning(topology: CpuTopology, sockets: int) -> HintSet:
    by_zone = (
        bits(at for at, socket in enumerate(topology.sockets) if socket & zone) for zone in topology.zones
    )
    spanned = enumerate(bitmask.joined(tuple(by_zone)))
    return hint_sets.of(mask for mask, touched in spanned if mask and touched.bit_count() == sockets)


def _aligned(state: CpuState, mask: Mask) -> CpuSet:
    """Return the CPUs of the zones in an affinity or, aligned by socket, of all sockets that they touch."""
    # By socket, the affinity is only the start: all CPUs of its sockets are as good.
    inside = union(cpus for at, cpus in enumerate(state.topology.zones) if mask >> at & 1)
    if CpuOption.ALIGN_BY_SOCKET not in state.options.cpu:
        return inside
    return union(socket for socket in state.topology.sockets if socket & inside)


@lru_cache(maxsize=256)
def _policy_options(options: Options, threads: int) -> StaticPolicyOptions:
    return StaticPolicyOptions(
        distribute=CpuOption.DISTRIBUTE_ACROSS_NUMA in options.cpu,
        group=threads if CpuOption.FULL_PCPUS_ONLY in options.cpu else 1,
        by_socket=CpuOption.ALIGN_BY_SOCKET in options.cpu,
        spread=CpuOption.DISTRIBUTE_ACROSS_CORES in options.cpu,
        by_cache=CpuOption.PREFER_UNCORE_CACHE in options.cpu,
        changes=options.changes,
    )
