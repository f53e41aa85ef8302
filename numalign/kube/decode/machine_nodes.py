"""
One node with a described machine: the zones that its kubelet derives from the machine.

Which CPUs are reserved and what every zone can allocate depends on the kubelet's configuration, so a
description alone is not enough. The two may also describe different machines, and then nothing derived from
them would be right.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from numalign.kube.decode import nodes
from numalign.kube.decode.kubelet_config import KubeletConfiguration
from numalign.kube.decode.kubelet_reports import MachineReport, ObservedPlacement
from numalign.kube.decode.machines import DescribedMachine, ZoneMemory
from numalign.kube.decode.nodes import BadNode, NodeFacts
from numalign.kube.decode.nrt import Topology
from numalign.kubelet import cpu_manager, hinted_zones
from numalign.kubelet.hinted_zones import Build, DevicePlaces
from numalign.kubelet.observed_state import ObservedContainer, observe
from numalign.lru import LRU
from numalign.model import resources
from numalign.model.bitset import lowest, union
from numalign.model.demand import WHOLE_POD, Demand, Step
from numalign.model.errors import BadTopology, Mistake
from numalign.model.machine import Core, CpuSet, Machine, Stock, cpu_topology, render_list
from numalign.model.node import CpuManager, Known, MemoryManager, Node, Zone
from numalign.model.options import CpuOption, Options
from numalign.model.placement import ZoneSet
from numalign.model.pod import Qos, Role
from numalign.model.resources import CPU, EMPTY, MEMORY, MILLI, Resources, ZoneId

MOST_MACHINES = 512
MOST_DISTRIBUTED = 16
"""The limit of zones with CPUs over which reserved CPUs are distributed: their sets double with each."""


class BuiltMachines:
    """A cache of machines for nodes with the same parts; laying out the CPUs of one takes time."""

    def __init__(self) -> None:
        self.cache = LRU[tuple[object, ...], Machine](MOST_MACHINES, large=lambda _, built: built.large)

    def build(
        self, zones: tuple[ZoneId, ...], cores: tuple[Core, ...], reserved: CpuSet, devices: DevicePlaces
    ) -> Machine:
        """Return the machine of these parts, the same object for the same parts."""
        parts = zones, cores, reserved, devices
        return self.cache.get(parts, lambda: Machine(*parts))


def join(
    described: DescribedMachine,
    topology: Topology,
    *,
    node_facts: NodeFacts | None = None,
    configured: KubeletConfiguration | None = None,
    build: Build = Machine,
) -> Node:
    """Return the node with this machine; of the topology only its name and policies are used.

    Raise `BadNode` if the machine and the configuration contradict each other, or else as `nodes.join` does.
    """
    configuration = configured or KubeletConfiguration(topology.name)
    if mistakes := [*_contradictions(described, configuration)]:
        raise BadNode((), mistakes)
    plain = nodes.unchecked(topology, node_facts=node_facts, configured=configured)
    kept = _kept(described, configuration, plain.options)
    built = build(described.zones, described.cores, kept, described.devices)
    # A shape of the node stores the threads of its cores as one number.
    threads = {*map(int.bit_count, built.topology.cores)}
    node = replace(
        plain,
        zones=_zones(plain, built, described, configuration),
        machine=built,
        known=Known.MACHINE,
        threads=next(iter(threads)) if len(threads) == 1 else plain.threads,
    )
    return hinted_zones.apart(nodes.checked(node, configured), build)


def reported(
    report: MachineReport, topology: Topology, *, node_facts: NodeFacts | None = None, build: Build = Machine
) -> Node:
    """Return the empty node that its agent reports; raise `BadNode` as `join` does, or for other zones."""
    if strange := [zone.id for zone in topology.zones if zone.id not in report.machine.zones]:
        messages = (f"zone {zone} of the topology is not on this machine" for zone in strange)
        raise BadNode([Mistake("machine.zones", message) for message in messages], ())
    minor = nodes.minor(report.version)
    known = node_facts or NodeFacts(topology.name)
    known = known if minor is None else replace(known, minor=minor)
    try:
        return join(report.machine, topology, node_facts=known, configured=report.configuration, build=build)
    except BadNode as error:
        machine = [mistake.under("machine") for mistake in error.zones]
        kubelet = [mistake.under("kubelet") for mistake in error.configuration]
        raise BadNode(machine, kubelet) from error


def occupied(node: Node, placements: Mapping[str, ObservedPlacement], topology: Topology) -> Node:
    """Return the node after its kubelet gave its pods, by uid, what they were observed to hold.

    No zone has more free than in the topology: there may be pods whose holdings could not be determined.
    Raise `BadTopology` if pods hold what does not exist.
    """
    if mistakes := [*_strange(node, placements)]:
        raise BadTopology(mistakes)
    cpus = union(pod.cpus for pod in placements.values())
    ids = {zone.name: zone.id for zone in node.zones}
    sums: dict[ZoneSet, Counter[str]] = defaultdict(Counter)
    for pod in placements.values():
        for names, amounts in pod.held.items():
            held = sums[tuple(sorted(ids[name] for name in names))]
            for name, amount in amounts.items():
                held[name] += amount
    together = {zones: Resources(held) for zones, held in sums.items()}
    charged, _ = observe(node, _NO_DEMAND, [ObservedContainer(WHOLE_POD, cpus or None, together)])
    if mistakes := [*_overdrawn(charged)]:
        raise BadTopology(mistakes)
    return _limited(charged, {zone.id: zone.free for zone in topology.zones})


_NO_DEMAND = Demand(Qos.BEST_EFFORT, (), Step(WHOLE_POD, Role.APP), EMPTY)


def _strange(node: Node, placements: Mapping[str, ObservedPlacement]) -> Iterator[Mistake]:
    """Yield mistakes where pods hold what the machine does not have, or what another pod holds."""
    everything = node.machine.topology.everything if node.machine else 0
    names = {zone.name for zone in node.zones}
    given = 0
    for uid, pod in placements.items():
        if not all(names.issuperset(zones) for zones in pod.held):
            yield Mistake(f"pods.{uid}.held", "names a zone that is not on this machine")
        if strange := pod.cpus & ~everything:
            yield Mistake(f"pods.{uid}.cpus", f"CPU {render_list(strange)} is not on this machine")
        if again := pod.cpus & given:
            yield Mistake(f"pods.{uid}.cpus", f"CPU {render_list(again)} is also held by another pod")
        given |= pod.cpus


def _overdrawn(node: Node) -> Iterator[Mistake]:
    for zone in node.zones:
        for name, amount in zone.free.items():
            if amount < 0:
                over = resources.render(name, -amount)
                yield Mistake("pods", f"hold {over} more {name} than zone {zone.id} can allocate")
    for name, free in node.stock.devices if node.stock else ():
        if min(free, default=0) < 0:
            yield Mistake("pods", f"hold more {name} than their zones have")


def _limited(node: Node, most: Mapping[ZoneId, Resources]) -> Node:
    """Return the node with no more free on any zone than this, where it is reported."""
    zones: list[Zone] = []
    for zone in node.zones:
        here = most.get(zone.id, EMPTY)
        free = Resources({name: min(amount, here.get(name, amount)) for name, amount in zone.free.items()})
        zones.append(zone if free == zone.free else replace(zone, free=free))
    if tuple(zones) == node.zones or node.machine is None or node.stock is None:
        return node
    # Of each zone the last free CPUs are left, as many as it has free, as on an assumed machine.
    cpus = node.stock.cpus
    for zone, every in zip(zones, node.machine.topology.zones, strict=True):
        own = every & cpus
        more = own.bit_count() - zone.free.get(CPU, 0) // MILLI
        if own and CPU in zone.free and more > 0:
            cpus &= ~lowest(own, more)
    # No place has more free devices than its zones; those between zones come last.
    devices, places = [], dict(node.machine.devices)
    for name, amounts in node.stock.devices:
        left = {zone.id: zone.free.get(name, 0) for zone in zones}
        kept: list[int] = []
        for place, amount in zip(places[name], amounts, strict=True):
            limit = min((left[zone_id] for zone_id in place.known), default=amount)
            kept.append(max(0, min(amount, limit)))
            left |= {zone_id: left[zone_id] - kept[-1] for zone_id in place.known}
        devices.append((name, tuple(kept)))
    return replace(node, zones=tuple(zones), stock=Stock(cpus, tuple(devices)))


def _contradictions(described: DescribedMachine, configuration: KubeletConfiguration) -> Iterator[Mistake]:
    both = described.reserved is not None and configuration.reserved_cpus is not None
    if both and described.reserved != configuration.reserved_cpus:
        lists = [f'"{render_list(held or 0)}"' for held in (configuration.reserved_cpus, described.reserved)]
        yield Mistake("reservedSystemCPUs", f"{lists[0]} contradicts the machine: {lists[1]}")
    elif strange := (configuration.reserved_cpus or 0) & ~described.cpus:
        yield Mistake("reservedSystemCPUs", f"CPU {render_list(strange)} is not on this machine")
    kept, cpus = configuration.kept_cpus, described.cpus.bit_count()
    if kept > cpus:
        yield Mistake("systemReserved.cpu", f"{kept} CPUs cannot be reserved on a machine with {cpus}")
    for bank in described.banks if configuration.reserved else ():
        memory = _reserving(bank, configuration)
        shown = resources.render(MEMORY, memory)
        if bank.reserved is not None and bank.reserved != memory:
            other = resources.render(MEMORY, bank.reserved)
            message = f"{shown} of zone {bank.zone} contradicts the machine: {other}"
            yield Mistake("reservedMemory", message)
        elif memory + sum(bank.huge.values()) > bank.memory:
            message = f"zone {bank.zone} does not have {shown} apart from its hugepages"
            yield Mistake("reservedMemory", message)


def _reserving(bank: ZoneMemory, configuration: KubeletConfiguration) -> int:
    if configuration.reserved is None:
        return bank.reserved or 0
    return configuration.reserved.zones.get(bank.zone, EMPTY).get(MEMORY, 0)


def _kept(described: DescribedMachine, configuration: KubeletConfiguration, options: Options) -> CpuSet:
    """Return the CPUs reserved for the system: those set by id, else those the kubelet would choose."""
    named_ones = described.reserved if configuration.reserved_cpus is None else configuration.reserved_cpus
    if named_ones is not None:
        return named_ones
    count = configuration.kept_cpus if described.kept is None else described.kept
    topology = cpu_topology(described.cores, described.zones)
    if CpuOption.DISTRIBUTE_ACROSS_NUMA in options.cpu and topology.zones_with_cpus > MOST_DISTRIBUTED:
        message = (
            f"{topology.zones_with_cpus} zones with CPUs are more than the {MOST_DISTRIBUTED} over which"
            " numalign can distribute reserved CPUs: set reservedSystemCPUs"
        )
        raise BadNode([Mistake("zones", message)], ())
    return cpu_manager.reserved_cpus(topology, options, count) if count else 0


def _zones(
    node: Node, built: Machine, described: DescribedMachine, configuration: KubeletConfiguration
) -> tuple[Zone, ...]:
    """Return the zones as an exporter would publish them while the node is empty."""
    zones = []
    # A kubelet gives every zone every page size that any of them has.
    sizes = Resources({name: 0 for bank in described.banks for name in bank.huge})
    for at, bank in enumerate(described.banks):
        capacity, allocatable, huge = {}, {}, sizes.plus(bank.huge)
        if node.cpu_manager is CpuManager.STATIC and (cpus := built.topology.zones[at]):
            capacity[CPU] = cpus.bit_count() * MILLI
            allocatable[CPU] = (cpus & ~built.reserved).bit_count() * MILLI
        if node.memory_manager is MemoryManager.STATIC:
            memory = bank.memory - _reserving(bank, configuration) - sum(huge.values())
            capacity |= {MEMORY: bank.memory, **huge}
            allocatable |= {MEMORY: memory, **huge}
        for name, listed in built.devices:
            of_zone = [place for place in listed if bank.zone in place.zones and place.total]
            if of_zone:
                capacity[name] = sum(place.total for place in of_zone)
                allocatable[name] = sum(place.healthy for place in of_zone)
        free = Resources(allocatable)
        costs = tuple(zip(built.zones, bank.distances, strict=False))
        zones.append(Zone(bank.zone, f"node-{bank.zone}", Resources(capacity), free, free, costs))
    return tuple(zones)
