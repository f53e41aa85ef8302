"""
The zones that hints of a kubelet can include.

An accelerator with its own memory, such as a GB200, shows it as zones without CPUs and devices: of 34 zones
two can serve a pod. Hints for CPUs include only zones with CPUs, and from Kubernetes 1.36 on those for a
device only zones with such devices (deviceNUMANodes of devicemanager/topology_hints.go). The memory manager
visits all zones. So where it is off, the others change no prediction, except that they are in an affinity to
all zones; but each of them would double the sets of zones.
"""

from collections.abc import Callable
from dataclasses import replace

from numalign.kubelet import assumed_machine
from numalign.model.machine import Core, CpuSet, DevicePlace, Machine, all_places
from numalign.model.node import MemoryManager, Node, Zone
from numalign.model.options import KubeletChange
from numalign.model.resources import CPU, Kind, ZoneId, kind

DevicePlaces = tuple[tuple[str, tuple[DevicePlace, ...]], ...]
Build = Callable[[tuple[ZoneId, ...], tuple[Core, ...], CpuSet, DevicePlaces], Machine]
"""Returns the machine of these zones, cores, reserved CPUs and devices."""


def apart(node: Node, build: Build = Machine) -> Node:
    """Return an empty node with the zones that no hint can include in `others`."""
    near = KubeletChange.HINTS_WHERE_DEVICES_ARE in node.options.changes
    # A CPU manager that is off lists no CPU, and an uncertain resource may be in any zone.
    listed = frozenset[str]().union(*(zone.capacity for zone in node.zones))
    shows_all = node.uncertain <= listed and (node.machine is not None or CPU in listed)
    if node.memory_manager is MemoryManager.STATIC or not near or not shows_all:
        return node
    topology = node.machine.topology if node.machine else assumed_machine.assume(node).topology
    hinted = tuple(
        zone
        for zone, cpus in zip(node.zones, topology.zones, strict=True)
        if cpus or any(amount and kind(name) is Kind.DEVICE for name, amount in zone.capacity.items())
    )
    if not hinted or len(hinted) == len(node.zones):
        return node
    others = tuple(zone for zone in node.zones if zone not in hinted)
    return _with_zones(node, hinted, (*node.others, *others), build)


def together(node: Node) -> Node:
    """Return an empty node with all zones of its machine in `zones`, the reverse of `apart`."""
    return _with_zones(node, node.every_zone, (), Machine) if node.others else node


def order(node: Node) -> tuple[ZoneId, ...]:
    """Return the id of each position of a mask: those of hints, then the others."""
    return node.ids + tuple(zone.id for zone in node.others)


def _with_zones(node: Node, zones: tuple[Zone, ...], others: tuple[Zone, ...], build: Build) -> Node:
    machine = node.machine
    if machine:
        # No CPU or device may be on other zones.
        ids = tuple([zone.id for zone in zones])
        devices = tuple(
            (name, all_places(ids, (place for place in places if place.total)))
            for name, places in machine.devices
        )
        machine = build(ids, machine.cores, machine.reserved, devices)
    return replace(node, zones=zones, others=others, machine=machine, stock=None)
