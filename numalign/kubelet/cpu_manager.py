"""
The CPU manager under policy static: the hints for CPUs, and which ones a container gets.

Restates policy_static.go of pkg/kubelet/cm/cpumanager; which CPUs of those in question are taken stands in
`take`. It works on sets of CPU ids, whether somebody described the machine or it is assumed from counts.
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

    layout: CpuTopology
    options: Options
    reserved: CpuSet
    free: CpuSet
    reusable: CpuSet = 0
    given: CpuSet = 0

    @property
    def available(self) -> CpuSet:
        """What a container of this pod could get."""
        return self.free | self.reusable

    def charged(self, taken: CpuSet, role: Role) -> "CpuState":
        """The CPUs after a container; what an init container got can be used again."""
        reusable = self.reusable | taken if role is Role.INIT else self.reusable & ~taken
        free, given = self.free & ~taken, self.given | taken
        return CpuState(self.layout, self.options, self.reserved, free, reusable, given)

    def released(self, gone: CpuSet) -> "CpuState":
        """The CPUs after a pod that had these is gone; the reserved ones stay what they are."""
        return self._replace(free=self.free | gone & ~self.reserved)


def state(node: Node) -> CpuState | None:
    """The CPUs before the pod's first container; None where the manager is off."""
    if node.cpu_manager is not CpuManager.STATIC:
        return None
    laid, kept = (
        (node.machine.layout, node.machine.reserved) if node.machine else assumed_machine.assume(node)
    )
    return CpuState(
        laid, node.options, kept, node.stock.cpus if node.stock else assumed_machine.free_cpus(node, laid)
    )


def cpus_per_zone(laid: CpuTopology, held: CpuSet) -> tuple[int, ...]:
    """How many of these CPUs each zone owns."""
    return tuple([(held & zone).bit_count() for zone in laid.zones])


def topology_hints(cpus: CpuState, step: Step) -> list[ResourceHints]:
    """The hints for a step; none at all if it asks for no exclusive CPU."""
    if not step.cpu:
        return []
    asked, laid = step.cpu // MILLI, cpus.layout
    # A mask is a set of zones that own CPUs; the CPUs of init containers must all lie within.
    possible = hint_sets.inside(bits(laid.hosts)) & hint_sets.reaching(
        cpus_per_zone(laid, cpus.available), asked
    )
    if cpus.reusable:
        anchor = bits([at for at, size in enumerate(cpus_per_zone(laid, cpus.reusable)) if size])
        possible &= hint_sets.around(anchor, len(laid.zones))
    return [ResourceHints(CPU, possible, _preferred(cpus, possible, min_affinity_size(laid.sizes, asked)))]


def min_affinity_size(sizes: Iterable[int], asked: int) -> int:
    """The fewest zones whose CPUs, reserved and busy ones included, reach what is asked."""
    hosts = [size for size in sizes if size]
    return bitmask.fewest(hosts, asked) or max(1, len(hosts))


def allocate(cpus: CpuState, step: Step, mask: Mask | None) -> tuple[CpuState, CpuSet] | RejectionReason:
    """The CPUs that a container gets: those of its affinity first, and then any; else why it gets none."""
    asked = step.cpu // MILLI
    if CpuOption.FULL_PCPUS_ONLY in cpus.options.cpu and _breaks_cores(cpus, asked):
        return RejectionReason.SMT_ALIGNMENT
    available = cpus.available
    near = 0 if mask is None else available & _aligned(cpus, mask)
    taken = allocate_cpus(cpus, near, min(asked, near.bit_count()))
    if not isinstance(taken, RejectionReason) and (rest := asked - taken.bit_count()) > 0:
        far = allocate_cpus(cpus, available & ~taken, rest)
        taken = far if isinstance(far, RejectionReason) else taken | far
    return taken if isinstance(taken, RejectionReason) else (cpus.charged(taken, step.role), taken)


def allocate_cpus(cpus: CpuState, held: CpuSet, count: int) -> CpuSet | RejectionReason:
    """So many of these CPUs, however they are spread; why not, if the kubelet finds too few.

    Where a cache spans zones the kubelet counts it twice and is content with fewer.
    """
    strategy = _strategy(cpus.options, cpus.layout.threads_per_core)
    if strategy.distribute and choices(cpus.layout, held, count, strategy) > MOST_CHOICES:
        return RejectionReason.NOT_ANSWERED
    taken = take_by_topology(cpus.layout, held, count, strategy)
    return RejectionReason.UNEXPECTED_ADMISSION if count and not taken else taken


def reserved_cpus(laid: CpuTopology, options: Options, count: int) -> CpuSet:
    """The CPUs that a kubelet keeps for the system where it is told only how many."""
    return take_by_topology(laid, laid.everything, count, _strategy(options, laid.threads_per_core))


def _preferred(cpus: CpuState, possible: HintSet, fewest: int) -> HintSet:
    narrow = hint_sets.of_width(possible, fewest)
    laid = cpus.layout
    per_socket = laid.zones_with_cpus // len(laid.sockets) if laid.sockets else 0
    if CpuOption.ALIGN_BY_SOCKET not in cpus.options.cpu or not per_socket:
        return narrow
    # A mask is as good if it spans just the sockets that so many zones would take (isHintSocketAligned).
    return narrow | possible & _spanning(laid, -(-fewest // per_socket))


@lru_cache(maxsize=64)
def _spanning(laid: CpuTopology, sockets: int) -> HintSet:
    """The masks whose zones lie on so many sockets."""
    spanned = bitmask.joined(tuple(_sockets_of(laid, zone) for zone in laid.zones))
    return hint_sets.of(
        mask for mask, touched in enumerate(spanned) if mask and touched.bit_count() == sockets
    )


def _sockets_of(laid: CpuTopology, zone: CpuSet) -> int:
    """The positions of the sockets that these CPUs sit on, as bits."""
    return bits(at for at, socket in enumerate(laid.sockets) if socket & zone)


def _sockets(laid: CpuTopology, mask: Mask) -> list[CpuSet]:
    inside = union(laid.zones[at] for at in members(mask))
    return [socket for socket in laid.sockets if socket & inside]


def _aligned(cpus: CpuState, mask: Mask) -> CpuSet:
    """The CPUs of the zones in an affinity or, aligned by socket, of all sockets that they touch."""
    if CpuOption.ALIGN_BY_SOCKET in cpus.options.cpu:
        return union(_sockets(cpus.layout, mask))
    return union(cpus.layout.zones[at] for at in members(mask))


def _breaks_cores(cpus: CpuState, asked: int) -> bool:
    """Whether so many CPUs cannot be whole cores. Init containers' CPUs do not count as available here."""
    # A node of which no zone lists a CPU has no core either.
    threads = cpus.layout.threads_per_core or 1
    return asked % threads > 0 or asked > whole_cores(cpus).bit_count()


def whole_cores(cpus: CpuState) -> CpuSet:
    """The free CPUs whose core keeps no thread for the system."""
    touched = (core for core in cpus.layout.cores if core & cpus.reserved)
    return cpus.free & ~union(touched)


@lru_cache(maxsize=256)
def _strategy(options: Options, threads: int) -> StaticPolicyOptions:
    told = options.cpu
    return StaticPolicyOptions(
        distribute=CpuOption.DISTRIBUTE_ACROSS_NUMA in told,
        group=threads if CpuOption.FULL_PCPUS_ONLY in told else 1,
        spread=CpuOption.DISTRIBUTE_ACROSS_CORES in told,
        by_cache=CpuOption.PREFER_UNCORE_CACHE in told,
        odd_cache_share=options.behaviour.rounds_cores_up,
    )
