"""
One allocation for a whole pod, which its containers divide among themselves.

So does the kubelet from 1.36 on with the gate PodLevelResourceManagers, in pod scope, for pods that state
their resources as a whole (AllocatePod of the CPU and the memory manager). Containers that are not pinned
share what the pinned ones leave. The device manager takes no part in it, and gives such a pod no devices.
"""

from collections.abc import Mapping, Sequence

from numalign.kubelet import cpu_manager
from numalign.kubelet import memory_manager as blocks
from numalign.kubelet.admission_errors import RejectionReason
from numalign.kubelet.cpu_manager import CpuState
from numalign.kubelet.managers_state import Entry, ManagersState
from numalign.kubelet.topology_manager import TopologyHint
from numalign.model.demand import Demand, Step
from numalign.model.machine import CpuSet
from numalign.model.pod import Role
from numalign.model.resources import CPU, MILLI, Resources


def allocate_cpus(
    state: ManagersState, demand: Demand, affinity: TopologyHint, crowded: frozenset[str]
) -> tuple[ManagersState, Mapping[str, CpuSet]] | RejectionReason:
    """The CPUs of the pod, and of each of its containers."""
    if not state.cpus or not demand.whole.cpu:
        return state, {}
    if CPU in crowded:
        return RejectionReason.EMPTY_SHARED_POOL
    served = cpu_manager.allocate(state.cpus, demand.whole, affinity.mask)
    if isinstance(served, RejectionReason):
        return served
    after, ids = served
    parts = divide_cpus(after, ids, demand.steps)
    return parts if isinstance(parts, RejectionReason) else (state._replace(cpus=after), parts)


def allocate_memory(
    state: ManagersState, demand: Demand, affinity: TopologyHint, crowded: frozenset[str]
) -> tuple[ManagersState, Mapping[str, tuple[Entry, ...]]] | RejectionReason:
    """The memory of the pod, and of each of its containers."""
    if not state.memory or not demand.whole.managed:
        return state, {}
    if crowded & demand.whole.memory.keys():
        return RejectionReason.EMPTY_SHARED_POOL
    held = blocks.allocate(state.memory, demand.whole, affinity)
    if held is None:
        return RejectionReason.UNEXPECTED_ADMISSION
    parts = divide_memory(demand.whole.memory, demand.steps)
    mask = held.blocks[0].mask if held.blocks else 0
    entries = {
        name: tuple((mask, resource, size) for resource, size in share.items() if mask)
        for name, share in parts.items()
    }
    return state._replace(memory=held), entries


def divide_cpus(
    cpus: CpuState, whole: CpuSet, steps: Sequence[Step]
) -> Mapping[str, CpuSet] | RejectionReason:
    """The CPUs of each pinned container, by its name; why not, where there are too few for one."""
    shares, rest = dict[str, CpuSet](), whole
    for step in steps:
        if step.cpu:
            taken = cpu_manager.allocate_cpus(cpus, rest, step.cpu // MILLI)
            if isinstance(taken, RejectionReason):
                return taken
            shares[step.container] = taken
            rest = rest if step.role is Role.INIT else rest & ~taken
    return shares


def divide_memory(whole: Resources, steps: Sequence[Step]) -> Mapping[str, Resources]:
    """The memory of each container, by its name, that which it shares included."""
    shares, rest = dict[str, Resources](), whole
    for step in steps:
        if step.memory:
            shares[step.container] = step.memory
            rest = rest if step.role is Role.INIT else _less(rest, step.memory)
        elif step.role is Role.INIT:
            shares[step.container] = rest.positive()
    return {step.container: shares.get(step.container, rest.positive()) for step in steps}


def _less(whole: Resources, taken: Resources) -> Resources:
    return Resources({name: amount - taken.get(name, 0) for name, amount in whole.items()})
