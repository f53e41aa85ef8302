"""
What a kubelet really did with a pod, in place of the prediction.

It restates no function of the kubelet. An observer of a node knows what each container got, by sets of zones,
and perhaps which CPUs and how much is left. This brings the managers' state to that, so that the next
prediction starts from facts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numalign.kubelet import memory_manager
from numalign.kubelet.device_manager import ELSEWHERE
from numalign.kubelet.managers_state import (
    Assignments,
    ManagersState,
    assignments_since,
    read_state,
    with_state,
)
from numalign.kubelet.memory_manager import Block
from numalign.model.bitset import bits, lowest, members, union
from numalign.model.demand import WHOLE_POD, Demand
from numalign.model.machine import CpuSet
from numalign.model.node import Node
from numalign.model.placement import ZoneSet
from numalign.model.pod import Role
from numalign.model.resources import CPU, EMPTY, MILLI, Kind, Resources, ZoneId, kind


@dataclass(frozen=True, slots=True)
class ObservedContainer:
    """What one container was observed to hold; `cpus` is None if only amounts are known."""

    container: str
    cpus: CpuSet | None
    amounts: Mapping[ZoneSet, Resources]


FreeByZone = Mapping[ZoneSet, Resources]
"""What every zone has left after a pod, with all its containers running; between zones apart."""


def observe(
    node: Node, demand: Demand, observed: Sequence[ObservedContainer], free: FreeByZone | None = None
) -> tuple[Node, Assignments]:
    """Return the node with a pod on it as observed, and what the pod holds.

    `node` is as it was before the pod. What containers were observed to hold does not show how much of it was
    reused; `free` does. For a pod that was served as a whole, the entry `WHOLE_POD` is all it has.
    """
    roles = {WHOLE_POD: Role.APP} | {step.container: step.role for step in demand.steps}
    as_one = [container for container in observed if container.container == WHOLE_POD]
    containers = as_one or [container for container in observed if container.container in roles]
    names = {name for container in containers for amounts in container.amounts.values() for name in amounts}
    before = read_state(node, names)
    after, position = before, {zone.id: at for at, zone in enumerate(node.zones)}
    for container in containers:
        after = _with_container(after, container, roles[container.container], position)
    cpus, memory = after.cpus, after.memory and memory_manager.containers_started(after.memory)
    if before.cpus and cpus and free and any(container.cpus is None for container in containers):
        # As many CPUs are free in each zone as were observed.
        unassigned = 0
        for zone, in_zone in zip(node.ids, cpus.topology.zones, strict=True):
            own = cpus.free & in_zone
            if (zone,) in free:
                spare = own.bit_count() - free[zone,].get(CPU, 0) // MILLI
                busy = in_zone & ~own & ~cpus.reserved
                own = own & ~lowest(own, spare) if spare >= 0 else own | lowest(busy, -spare)
            unassigned |= own
        cpus = cpus._replace(free=unassigned, given=before.cpus.free & ~unassigned)
    if memory and free is not None:
        # A block does not show which zone of a group gave its memory.
        zones = [free.get((zone.id,), EMPTY) for zone in node.zones]
        amounts = {
            name: tuple(zone.get(name, predicted[at]) for at, zone in enumerate(zones))
            for name, predicted in memory.free.items()
        }
        memory = memory._replace(free=amounts)
    settled = after._replace(cpus=cpus, memory=memory)
    return with_state(node, before, settled), assignments_since(before, settled)


def _with_container(
    state: ManagersState, container: ObservedContainer, role: Role, position: Mapping[ZoneId, int]
) -> ManagersState:
    entries = [
        (bits(position[zone] for zone in zones if zone in position), name, amount)
        for zones, amounts in container.amounts.items()
        for name, amount in amounts.items()
    ]
    blocks = (
        Block(container.container, role, name, mask, amount)
        for mask, name, amount in entries
        # A node may not report a resource that was observed on it.
        if kind(name) is Kind.MEMORY and state.memory and name in state.memory.free
    )
    devices = {}
    for name, pool in state.devices.items():
        taken = {mask: amount for mask, resource, amount in entries if resource == name}
        places = (place & ~ELSEWHERE for place in pool.devices.places)
        devices[name] = pool.charged(tuple(taken.get(place, 0) for place in places), role)
    cpus = state.cpus
    if cpus and container.cpus is not None:
        cpus = cpus.charged(container.cpus, role)
    elif cpus:
        # If only amounts are known, as many CPUs of their zones, reusable ones first.
        chosen = 0
        for mask, name, amount in entries:
            if name == CPU:
                zones = union(cpus.topology.zones[at] for at in members(mask))
                again = lowest(cpus.reusable & zones, amount // MILLI)
                chosen |= again | lowest(cpus.free & zones, amount // MILLI - again.bit_count())
        cpus = cpus.charged(chosen, role)
    return ManagersState(cpus, state.memory and memory_manager.with_blocks(state.memory, blocks), devices)
