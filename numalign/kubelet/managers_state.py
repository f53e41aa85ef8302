"""
The state of a node's managers: what is free, and what is assigned to a pod.

A kubelet keeps it in checkpoints, by container. Here it is read from the node when a pod is evaluated, each
manager changes its own part, and the node is written from it again. Assignments last until the managers drop
the pod (removeStaleState).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from numalign.kubelet import bitmask, cpu_manager, device_manager, memory_manager
from numalign.kubelet.bitmask import Mask, ZoneAmounts, add, subtract
from numalign.kubelet.cpu_manager import CpuState
from numalign.kubelet.device_manager import DeviceStates
from numalign.kubelet.memory_manager import Block, MemoryState
from numalign.model.machine import CpuSet, Stock
from numalign.model.node import Node, Zone
from numalign.model.resources import CPU, MILLI, Resources


class ManagersState(NamedTuple):
    """The state of all managers while one pod is admitted; None where a manager is off."""

    cpus: CpuState | None
    memory: MemoryState | None
    devices: DeviceStates


class Assignments(NamedTuple):
    """What the managers assigned to one pod: CPU ids, devices by place, blocks of memory in order."""

    cpus: CpuSet = 0
    devices: Mapping[str, ZoneAmounts] = MappingProxyType({})
    blocks: tuple[Block, ...] = ()


Entry = tuple[Mask, str, int]
"""A set of zones, a resource, and the amount that comes from there."""


def read_state(node: Node, devices: Iterable[str]) -> ManagersState:
    """Return the managers' state of a node; the device manager's for these resources only."""
    # A manager of policy none generates no hints and allocates nothing, so it has no state.
    return ManagersState(
        cpu_manager.state(node), memory_manager.state(node), device_manager.states(node, devices)
    )


def assignments_since(before: ManagersState, after: ManagersState) -> Assignments:
    """Return what was assigned to one pod between two states."""
    # Nothing else is allocated while one pod is admitted, so all that is missing since then is its own.
    cpus = after.cpus.given if after.cpus else 0
    devices = {name: subtract(pool.free, after.devices[name].free) for name, pool in before.devices.items()}
    return Assignments(cpus, devices, after.memory.blocks if after.memory else ())


def removed(state: ManagersState, assignments: Assignments) -> ManagersState:
    """Return the state after the managers dropped a pod with these assignments."""
    cpus = state.cpus and state.cpus.released(assignments.cpus)
    # For memory the order of the pods matters: RemoveContainer frees memory of the lowest zone first.
    memory = state.memory and memory_manager.without_blocks(state.memory, assignments.blocks)
    # For devices it does not: UpdateAllocatedDevices counts again what the remaining pods have.
    devices = {
        name: pool._replace(free=add(pool.free, assignments.devices[name]))
        if name in assignments.devices
        else pool
        for name, pool in state.devices.items()
    }
    return ManagersState(cpus, memory, devices)


def with_state(node: Node, before: ManagersState, after: ManagersState) -> Node:
    """Return the node with the free amounts of a later state; `before` is the one read from it."""
    spent, zones = _spent(before, after), list[Zone]()
    for at, zone in enumerate(node.zones):
        # The group of a zone and the number of its blocks, under a memory manager.
        cells, earlier = (
            (memory.cells[at], memory.assignments[at]) if memory else None
            for memory in (after.memory, before.memory)
        )
        # Unchanged zones stay the same objects, so that they need not be compared again.
        if cells == earlier and not any(amounts[at] for amounts in spent.values()):
            zones.append(zone)
            continue
        free = Resources(
            {
                name: amount - spent[name][at] if name in spent else amount
                for name, amount in zone.free.items()
            }
        )
        if not cells:
            zones.append(replace(zone, free=free))
            continue
        # A zone that is its own group needs none.
        mask, assignments = cells
        group = zone.cells if mask == 1 << at and not zone.cells else frozenset(bitmask.ids(mask, node.ids))
        zones.append(replace(zone, free=free, cells=group, assignments=assignments))
    stock = node.stock
    # Of an assumed machine the CPUs are known by their ids once the first are allocated.
    if stock is not None or before.cpus != after.cpus:
        stock = stock or Stock()
        # Devices that the pod does not name were not read, and none of them were allocated.
        devices = (
            (name, after.devices[name].free if name in after.devices else free)
            for name, free in stock.devices
        )
        stock = Stock(after.cpus.free if after.cpus else stock.cpus, tuple(devices))
    return replace(node, zones=tuple(zones), stock=stock)


def _spent(before: ManagersState, after: ManagersState) -> dict[str, ZoneAmounts]:
    """Return how much less of each resource every zone has."""
    # A device between zones is missing in each of them, as an exporter shows it.
    spent = {
        name: pool.devices.in_zones(subtract(pool.free, after.devices[name].free))
        for name, pool in before.devices.items()
    }
    if before.cpus and after.cpus:
        counts = (cpu_manager.cpus_per_zone(cpus.topology, cpus.free) for cpus in (before.cpus, after.cpus))
        spent[CPU] = tuple(count * MILLI for count in subtract(*counts))
    if before.memory and after.memory:
        # As updateMachineState took it from each zone; RTE subtracts the full block from each of its zones.
        remaining = after.memory.free
        spent |= {name: subtract(free, remaining[name]) for name, free in before.memory.free.items()}
    return spent
