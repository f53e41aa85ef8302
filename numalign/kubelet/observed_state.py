"""
What a kubelet really did with a pod, in place of what was predicted.

Whoever watches a node learns what each container got, by sets of zones, and perhaps which CPUs and how much
is left. This brings the managers' state to that state, so that the next prediction starts from the truth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numalign.kubelet import memory_manager
from numalign.kubelet.bitmask import Mask
from numalign.kubelet.cpu_manager import CpuState
from numalign.kubelet.device_manager import DeviceState
from numalign.kubelet.managers_state import (
    Assignments,
    Entry,
    ManagersState,
    assignments_since,
    read_state,
    with_state,
)
from numalign.kubelet.memory_manager import Block, MemoryState
from numalign.model.bitset import bits, lowest, members, union
from numalign.model.demand import WHOLE_POD, Demand
from numalign.model.machine import CpuSet
from numalign.model.node import Node
from numalign.model.placement import ZoneSet
from numalign.model.pod import Role
from numalign.model.resources import CPU, EMPTY, MILLI, Kind, Resources, ZoneId, kind


@dataclass(frozen=True, slots=True)
class ObservedContainer:
    """What one container was seen to hold; `cpus` is None where only amounts are known."""

    container: str
    cpus: CpuSet | None
    amounts: Mapping[ZoneSet, Resources]


FreeByZone = Mapping[ZoneSet, Resources]
"""What every zone has left after a pod, all its containers running; devices between zones stand apart."""


def observe(
    node: Node, demand: Demand, seen: Sequence[ObservedContainer], left: FreeByZone | None = None
) -> tuple[Node, Assignments]:
    """The node with a pod on it as it was seen, and what the pod holds.

    `node` is as it was before the pod. What containers were seen to hold does not tell how much of it was
    used twice; `left` does. Of a pod that was served as a whole, what is seen under `WHOLE_POD` is all.
    """
    roles = {WHOLE_POD: Role.APP} | {step.container: step.role for step in demand.steps}
    together = [one for one in seen if one.container == WHOLE_POD]
    known = together or [one for one in seen if one.container in roles]
    names = {name for one in known for bag in one.amounts.values() for name in bag}
    before = read_state(node, names)
    after, at = before, {zone.id: position for position, zone in enumerate(node.zones)}
    for one in known:
        after = _with(after, one, roles[one.container], at)
    settled = after._replace(
        memory=after.memory and _left_by(memory_manager.containers_started(after.memory), node, left)
    )
    if before.cpus and settled.cpus and left and any(one.cpus is None for one in known):
        free = _counted_free(settled.cpus, node, left)
        counted = settled.cpus._replace(free=free, given=before.cpus.free & ~free)
        settled = settled._replace(cpus=counted)
    return with_state(node, before, settled), assignments_since(before, settled)


def _with(
    state: ManagersState, one: ObservedContainer, role: Role, at: Mapping[ZoneId, int]
) -> ManagersState:
    """The state with one container's share, in the order in which containers are admitted."""
    entries = [
        (bits(at[zone] for zone in zones if zone in at), name, amount)
        for zones, bag in one.amounts.items()
        for name, amount in bag.items()
    ]
    blocks = [
        Block(one.container, role, name, mask, amount)
        for mask, name, amount in entries
        if kind(name) is Kind.MEMORY
    ]
    return ManagersState(
        state.cpus and state.cpus.charged(_cpus(state.cpus, one, entries), role),
        state.memory and memory_manager.with_blocks(state.memory, _reported(state.memory, blocks)),
        {name: _drawn(pool, name, entries, role) for name, pool in state.devices.items()},
    )


def _reported(held: MemoryState, blocks: list[Block]) -> list[Block]:
    """Those of what the zones report; a node may not know what was seen on it."""
    return [block for block in blocks if block.resource in held.free]


def _cpus(cpus: CpuState, one: ObservedContainer, entries: list[Entry]) -> CpuSet:
    """The CPUs themselves or, where only amounts are known, as many of their zones."""
    if one.cpus is not None:
        return one.cpus
    asked = [(mask, amount // MILLI) for mask, name, amount in entries if name == CPU]
    return union(_some(cpus, mask, count) for mask, count in asked)


def _some(cpus: CpuState, mask: Mask, count: int) -> CpuSet:
    """So many CPUs of these zones, first those that can be used again."""
    zones = union(cpus.topology.zones[at] for at in members(mask))
    again = lowest(cpus.reusable & zones, count)
    return again | lowest(cpus.free & zones, count - again.bit_count())


def _drawn(pool: DeviceState, name: str, entries: list[Entry], role: Role) -> DeviceState:
    amounts = {mask: amount for mask, resource, amount in entries if resource == name}
    return pool.charged(tuple(amounts.get(place, 0) for place in pool.places), role)


def _left_by(held: MemoryState, node: Node, left: FreeByZone | None) -> MemoryState:
    """The memory with the free amounts that were seen: which zone of a group gave them is not in a block."""
    if left is None:
        return held
    zones = [(left.get((zone.id,), EMPTY), at) for at, zone in enumerate(node.zones)]
    free = {
        name: tuple(bag.get(name, amounts[at]) for bag, at in zones) for name, amounts in held.free.items()
    }
    return held._replace(free=free)


def _counted_free(cpus: CpuState, node: Node, left: FreeByZone) -> CpuSet:
    """The free CPUs, as many of each zone as were seen."""
    zones = zip(node.ids, cpus.topology.zones, strict=True)
    return union(
        _free(cpus, inside, left[zone,].get(CPU, 0) // MILLI) if (zone,) in left else cpus.free & inside
        for zone, inside in zones
    )


def _free(cpus: CpuState, zone: CpuSet, count: int) -> CpuSet:
    own = cpus.free & zone
    spare = own.bit_count() - count
    return own & ~lowest(own, spare) if spare >= 0 else own | lowest(zone & ~own & ~cpus.reserved, -spare)
