"""
One allocation for a whole pod, which its containers divide among themselves.

So does the kubelet from 1.36 on with the gate PodLevelResourceManagers, in pod scope, for pods that state
their resources as a whole (AllocatePod of the CPU and the memory manager). Containers that are not pinned
share what the pinned ones leave. The device manager takes no part in it, and gives such a pod no devices.
"""

from collections.abc import Mapping, Sequence

from numalign.rules.demand import Step
from numalign.rules.kubelet import cpu
from numalign.rules.kubelet.cpu import Cpus
from numalign.rules.machine import CpuSet
from numalign.rules.pod import Role
from numalign.rules.resources import MILLI, Resources


def divide_cpus(cpus: Cpus, whole: CpuSet, steps: Sequence[Step]) -> Mapping[str, CpuSet] | None:
    """The CPUs of each pinned container, by its name; None where there are too few for one."""
    shares, rest = dict[str, CpuSet](), whole
    for step in steps:
        if step.cpu:
            taken = cpu.some_of(cpus, rest, step.cpu // MILLI)
            if taken is None:
                return None
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
