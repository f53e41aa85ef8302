"""
The CPU manager under policy static: the hints for CPUs, and which ones a container gets.

Restates policy_static.go of pkg/kubelet/cm/cpumanager; which CPUs of those in question are taken stands in
`cpu_assignment`. It works on sets of CPU ids, whether somebody described the machine or it is assumed from
counts.
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
from numalign.lru import remembering
from numalign.model.bitset import bits, members, union
from numalign.model.demand import Step
from numalign.model.machine import CpuSet, CpuTopology
from numalign.model.node import CpuManager, Node
from numalign.model.options import CpuOption, Options
from numalign.model.pod import Role
from numalign.model.resources import CPU, MILLI

MOST_CHOICES = 5_000
"""So many ways to distribute CPUs are compared at the most, which takes tens of milliseconds.

On 8 zones there are never so many. On 16 zones there can be more for what does not fit in three.
"""


class CpuState(NamedTuple):
    """The CPUs of a node while one pod is admitted.

    `free` ones are not given out, `given` ones were given to this pod, some of them `reusable` by its later
    containers. On a machine of uneven cores the kubelet can give a CPU that another pod has.
    """

    topology: CpuTopology
    options: Options
    reserved: CpuSet
    free: CpuSet
    reusable: CpuSet = 0
    given: CpuSet = 0

    @property
    def available(self) -> CpuSet:
        """What a container of this pod could get."""
        return self.free | self.reusable

    def charged(self, cpus: CpuSet, role: Role) -> "CpuState":
        """Return the state after a container got these CPUs (updateCPUsToReuse).

        What an init container got can be used again, what a sidecar or an app took of it cannot.
        """
        reusable = self.reusable | cpus if role is Role.INIT else self.reusable & ~cpus
        free, given = self.free & ~cpus, self.given | cpus
        return CpuState(self.topology, self.options, self.reserved, free, reusable, given)

    def emptied(self) -> "CpuState":
        """Return the state with nothing given out: that of the emptied node (`Node.emptied`)."""
        return CpuState(self.topology, self.options, self.reserved, self.topology.everything & ~self.reserved)

    def released(self, cpus: CpuSet) -> "CpuState":
        """Return the state after a pod that had these is gone; the reserved ones stay what they are."""
        return self._replace(free=self.free | cpus & ~self.reserved)


def state(node: Node) -> CpuState | None:
    """Return the CPUs before the pod's first container; None where the manager is off."""
    if node.cpu_manager is not CpuManager.STATIC:
        return None
    topology, reserved = _cpus(node)
    # What was given out of an assumed machine is known by its ids from the first pod on.
    free = node.stock.cpus if node.stock else assumed_machine.free_cpus(node, topology)
    return CpuState(topology, node.options, reserved, free)


def topology(node: Node) -> CpuTopology | None:
    """Return the CPUs that the manager knows; None where it is off."""
    return _cpus(node)[0] if node.cpu_manager is CpuManager.STATIC else None


def _cpus(node: Node) -> tuple[CpuTopology, CpuSet]:
    """Return the CPUs of a node, and the reserved ones among them."""
    if machine := node.machine:
        return machine.topology, machine.reserved
    return assumed_machine.assume(node)


def cpus_per_zone(topology: CpuTopology, cpus: CpuSet) -> tuple[int, ...]:
    """Return how many of these CPUs each zone owns, by position."""
    return tuple([(cpus & zone).bit_count() for zone in topology.zones])


def topology_hints(state: CpuState, step: Step) -> list[ResourceHints]:
    """Return the hints for a step (generateCPUTopologyHints); none at all if it asks for no exclusive CPU."""
    if not step.cpu:
        return []
    request, topology = step.cpu // MILLI, state.topology
    # Zones without CPUs are in no hint: the manager walks the zones that its CPU topology knows.
    possible = hint_sets.inside(bits(topology.hosts)) & hint_sets.reaching(
        cpus_per_zone(topology, state.available), request
    )
    if state.reusable:
        # A mask that leaves out a zone of reusable CPUs is skipped, even where it has enough without them.
        anchor = bits(zone for zone, count in enumerate(cpus_per_zone(topology, state.reusable)) if count)
        possible &= hint_sets.around(anchor, len(topology.zones))
    return [
        ResourceHints(CPU, possible, _preferred(state, possible, min_affinity_size(topology.sizes, request)))
    ]


def min_affinity_size(sizes: Iterable[int], request: int) -> int:
    """The fewest zones whose CPUs reach a request, in CPUs; of more than there are, all zones that have any.

    Reserved and busy CPUs count (minAffinitySize is lowered before anything else of a mask is looked at). So
    one zone can be the fewest that no pod could ever get.
    """
    hosts = [size for size in sizes if size]
    return bitmask.fewest(hosts, request) or max(1, len(hosts))


def allocate(state: CpuState, step: Step, mask: Mask | None) -> tuple[CpuState, CpuSet] | RejectionReason:
    """Return the CPUs that a container gets, and the state after it; else why it gets none (Allocate).

    Those of its affinity come first, and what is missing then from anywhere.
    """
    request, available = step.cpu // MILLI, state.available
    # Asked before anything else, of the node as a whole, and under every topology policy.
    if CpuOption.FULL_PCPUS_ONLY in state.options.cpu and _breaks_cores(state, request):
        return RejectionReason.SMT_ALIGNMENT
    # Without an affinity (policy none, or none stored) nothing is aligned, and all come from the rest.
    near = 0 if mask is None else available & _aligned(state, mask)
    cpus = allocate_cpus(state, near, min(request, near.bit_count()))
    if not isinstance(cpus, RejectionReason) and (missing := request - cpus.bit_count()) > 0:
        # This is how best-effort goes beyond its affinity: the rest is taken as if it were asked for alone.
        far = allocate_cpus(state, available & ~cpus, missing)
        cpus = far if isinstance(far, RejectionReason) else cpus | far
    return cpus if isinstance(cpus, RejectionReason) else (state.charged(cpus, step.role), cpus)


def allocate_cpus(state: CpuState, available: CpuSet, count: int) -> CpuSet | RejectionReason:
    """So many of these CPUs, however they are spread; why not, if the kubelet finds too few.

    Where a cache spans zones the kubelet counts it twice and is content with fewer.
    """
    options = _policy_options(state.options, state.topology.threads_per_core)
    if options.distribute and choices(state.topology, available, count, options) > MOST_CHOICES:
        return RejectionReason.NOT_ANSWERED
    cpus = take_by_topology(state.topology, available, count, options)
    # Taking nothing is no error: an affinity can have no CPU left.
    return RejectionReason.UNEXPECTED_ADMISSION if count and not cpus else cpus


def reserved_cpus(topology: CpuTopology, options: Options, count: int) -> CpuSet:
    """The CPUs that a kubelet keeps for the system where it is told only how many (NewStaticPolicy)."""
    return take_by_topology(
        topology, topology.everything, count, _policy_options(options, topology.threads_per_core)
    )


def whole_cores(state: CpuState) -> CpuSet:
    """Return the free CPUs whose core keeps no thread for the system (GetAvailablePhysicalCPUs)."""
    # A core is lost to pods as a whole if any of its threads is reserved; shared pods change nothing.
    return state.free & ~union(core for core in state.topology.cores if core & state.reserved)


def _preferred(state: CpuState, possible: HintSet, fewest: int) -> HintSet:
    # No mask of the fewest zones need be possible: then nothing is preferred, however empty the node.
    narrow = hint_sets.of_width(possible, fewest)
    topology = state.topology
    per_socket = topology.zones_with_cpus // len(topology.sockets) if topology.sockets else 0
    # More sockets than zones leave none for a zone, and the kubelet does not start with the option then.
    if CpuOption.ALIGN_BY_SOCKET not in state.options.cpu or not per_socket:
        return narrow
    # A mask is as good if it spans just the sockets that so many zones would take (isHintSocketAligned).
    return narrow | possible & _spanning(topology, -(-fewest // per_socket))


@remembering(64)
def _spanning(topology: CpuTopology, sockets: int) -> HintSet:
    """Return the masks whose zones lie on so many sockets."""
    by_zone = (
        bits(at for at, socket in enumerate(topology.sockets) if socket & zone) for zone in topology.zones
    )
    spanned = enumerate(bitmask.joined(tuple(by_zone)))
    return hint_sets.of(mask for mask, touched in spanned if mask and touched.bit_count() == sockets)


def _aligned(state: CpuState, mask: Mask) -> CpuSet:
    """Return the CPUs of the zones in an affinity or, aligned by socket, of all sockets that they touch."""
    # By socket the affinity is only where to begin: its sockets are as good as its zones.
    inside = union(state.topology.zones[at] for at in members(mask))
    if CpuOption.ALIGN_BY_SOCKET not in state.options.cpu:
        return inside
    return union(socket for socket in state.topology.sockets if socket & inside)


def _breaks_cores(state: CpuState, request: int) -> bool:
    """Return whether so many CPUs cannot be whole cores.

    Init containers' CPUs do not count as available here.
    """
    # A node of which no zone lists a CPU has no core either.
    threads = state.topology.threads_per_core or 1
    return request % threads > 0 or request > whole_cores(state).bit_count()


@lru_cache(maxsize=256)
def _policy_options(options: Options, threads: int) -> StaticPolicyOptions:
    return StaticPolicyOptions(
        distribute=CpuOption.DISTRIBUTE_ACROSS_NUMA in options.cpu,
        group=threads if CpuOption.FULL_PCPUS_ONLY in options.cpu else 1,
        spread=CpuOption.DISTRIBUTE_ACROSS_CORES in options.cpu,
        by_cache=CpuOption.PREFER_UNCORE_CACHE in options.cpu,
        odd_cache_share=options.behaviour.rounds_cores_up,
    )
