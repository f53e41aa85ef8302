"""
One allocation for a whole pod, which its containers divide among themselves.

The kubelet does this from 1.36 on with the feature gate PodLevelResourceManagers, in pod scope, for pods with
pod-level resources (AllocatePod of the CPU and the memory manager). Containers that are not pinned share what
the pinned ones leave. The device manager does not take part, and gives such a pod no devices.
"""

from collections.abc import Mapping

from numalign.kubelet import cpu_manager, memory_manager
from numalign.kubelet.admission_errors import RejectionReason
from numalign.kubelet.managers_state import Entry, ManagersState
from numalign.kubelet.topology_manager import TopologyHint
from numalign.model.demand import Demand
from numalign.model.machine import CpuSet
from numalign.model.pod import Role
from numalign.model.resources import CPU, MILLI, Resources


def allocate_cpus(
    state: ManagersState, demand: Demand, affinity: TopologyHint, crowded: frozenset[str]
) -> tuple[ManagersState, Mapping[str, CpuSet]] | RejectionReason:
    """Return the state with the CPUs of the pod, and those of each container; else why it gets none."""
    if not state.cpus or not demand.whole.cpu:
        return state, {}
    # Policy none asks for no hints, so this is the first check.
    if CPU in crowded:
        return RejectionReason.EMPTY_SHARED_POOL
    # enforceSMTAlignment checks the pod-level request, and allocateCPUs has no reusable CPUs here.
    allocated = cpu_manager.allocate(state.cpus, demand.whole, affinity.mask)
    if isinstance(allocated, RejectionReason):
        return allocated
    after, free = allocated
    parts, width = dict[str, CpuSet](), (affinity.mask or 0).bit_count()
    for step in demand.steps:
        if step.cpu:
            # Within what the pod was given, by the same choice as elsewhere: no affinity applies any more.
            # takeByTopology alone: a part of the pod can split a core even under full-pcpus-only.
            cpus = cpu_manager.allocate_cpus(after, free, step.cpu // MILLI, width)
            if isinstance(cpus, RejectionReason):
                return cpus
            parts[step.container] = cpus
            # An init container has ended when the next one takes its CPUs, so they stay in the pod's pool.
            free = free if step.role is Role.INIT else free & ~cpus
    return state._replace(cpus=after), parts


def allocate_memory(
    state: ManagersState, demand: Demand, affinity: TopologyHint, crowded: frozenset[str]
) -> tuple[ManagersState, Mapping[str, tuple[Entry, ...]]] | RejectionReason:
    """Return the state with the memory of the pod, and that of each container; else why it gets none."""
    whole = demand.whole
    if not state.memory or not whole.managed:
        return state, {}
    if crowded & whole.memory.keys():
        return RejectionReason.EMPTY_SHARED_POOL
    # The steps of Allocate for the pod-level request: default hint, extension, and the check of groups.
    after = memory_manager.allocate(state.memory, whole, affinity)
    if after is None:
        return RejectionReason.UNEXPECTED_ADMISSION
    # All blocks of the pod come from one set of zones; without a block no container has any.
    mask = after.blocks[0].mask if after.blocks else 0
    shares, free = dict[str, Resources](), whole.memory
    for step in demand.steps:
        if step.memory:
            shares[step.container] = step.memory
            if step.role is not Role.INIT:
                free = Resources({name: size - step.memory.get(name, 0) for name, size in free.items()})
        # It sees all that sidecars before it left; apps have not started.
        elif step.role is Role.INIT:
            shares[step.container] = free.positive()
    # Containers that are not pinned share what is left.
    entries = {
        step.container: tuple(
            (mask, resource, size)
            for resource, size in shares.get(step.container, free.positive()).items()
            if mask
        )
        for step in demand.steps
    }
    return state._replace(memory=after), entries
