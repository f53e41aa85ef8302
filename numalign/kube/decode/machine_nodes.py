"""
One node whose machine was described: what its kubelet makes of the machine, zone by zone.

Which CPUs are kept for the system and what every zone has to give out turns on the kubelet's configuration,
so a description alone says neither. The two may also tell of different machines, and then nothing that
follows from them would hold.
"""

from collections.abc import Iterator
from dataclasses import replace

from numalign.kube.decode import nodes
from numalign.kube.decode.kubelet_config import KubeletConfiguration
from numalign.kube.decode.machines import DescribedMachine, ZoneMemory
from numalign.kube.decode.nodes import BadNode, NodeFacts
from numalign.kube.decode.nrt import Topology
from numalign.kubelet import cpu_manager
from numalign.model import resources
from numalign.model.errors import Mistake
from numalign.model.machine import CpuSet, Machine, cpu_topology, render_list
from numalign.model.node import CpuManager, Known, MemoryManager, Node, Zone
from numalign.model.options import Options
from numalign.model.resources import CPU, EMPTY, MEMORY, MILLI, Resources


def join(
    described: DescribedMachine,
    topology: Topology,
    *,
    node_facts: NodeFacts | None = None,
    configured: KubeletConfiguration | None = None,
) -> Node:
    """The node with this machine; of the topology only its name and what it says of policies count.

    Raises `BadNode` with every mistake: where the machine and the configuration contradict each other, or
    else as `nodes.join` does.
    """
    configuration = configured or KubeletConfiguration(topology.name)
    if mistakes := [*_contradictions(described, configuration)]:
        raise BadNode((), mistakes)
    plain = nodes.unchecked(topology, node_facts=node_facts, configured=configured)
    # Which CPUs are kept can turn on a walk as well.
    if mistakes := [*nodes.unwalkable(plain, len(described.zones))]:
        raise BadNode(mistakes, ())
    kept = _kept(described, configuration, plain.options)
    built = Machine(described.zones, described.cores, kept, described.devices)
    node = replace(
        plain, zones=_zones(plain, built, described, configuration), machine=built, known=Known.MACHINE
    )
    return nodes.checked(node, configured)


def _contradictions(described: DescribedMachine, configuration: KubeletConfiguration) -> Iterator[Mistake]:
    """Where a configuration tells of another machine than the description."""
    both = described.reserved is not None and configuration.reserved_cpus is not None
    if both and described.reserved != configuration.reserved_cpus:
        lists = [f'"{render_list(held or 0)}"' for held in (configuration.reserved_cpus, described.reserved)]
        yield Mistake("reservedSystemCPUs", f"{lists[0]} is not what the machine says: {lists[1]}")
    elif strange := (configuration.reserved_cpus or 0) & ~described.cpus:
        yield Mistake("reservedSystemCPUs", f"CPU {render_list(strange)} is not on this machine")
    if configuration.kept_cpus > described.cpus.bit_count():
        message = (
            f"{configuration.kept_cpus} CPUs cannot be kept on a machine of {described.cpus.bit_count()}"
        )
        yield Mistake("systemReserved.cpu", message)
    for bank in described.banks:
        yield from _contradiction(bank, configuration)


def _contradiction(bank: ZoneMemory, configuration: KubeletConfiguration) -> Iterator[Mistake]:
    if configuration.reserved is None:
        return
    kept = _reserving(bank, configuration)
    if bank.reserved is not None and bank.reserved != kept:
        message = f"{_shown(kept)} of zone {bank.zone} is not what the machine says: {_shown(bank.reserved)}"
        yield Mistake("reservedMemory", message)
    elif kept + sum(bank.huge.values()) > bank.memory:
        yield Mistake("reservedMemory", f"zone {bank.zone} does not have {_shown(kept)} beside its hugepages")


def _reserving(bank: ZoneMemory, configuration: KubeletConfiguration) -> int:
    """The memory that is kept of a zone: what the configuration says, else the machine."""
    if configuration.reserved is None:
        return bank.reserved or 0
    return configuration.reserved.zones.get(bank.zone, EMPTY).get(MEMORY, 0)


def _kept(described: DescribedMachine, configuration: KubeletConfiguration, options: Options) -> CpuSet:
    """The CPUs that are kept for the system: those that are named, else as the kubelet would choose them."""
    named_ones = described.reserved if configuration.reserved_cpus is None else configuration.reserved_cpus
    if named_ones is not None:
        return named_ones
    count = configuration.kept_cpus if described.kept is None else described.kept
    return (
        cpu_manager.reserved_cpus(cpu_topology(described.cores, described.zones), options, count)
        if count
        else 0
    )


def _zones(
    node: Node, built: Machine, described: DescribedMachine, configuration: KubeletConfiguration
) -> tuple[Zone, ...]:
    """The zones as an exporter would publish them while the node is empty."""
    # A kubelet gives every zone every size of page that any of them has.
    sizes = Resources({name: 0 for bank in described.banks for name in bank.huge})
    return tuple(
        _zone(
            node,
            built,
            at,
            replace(bank, reserved=_reserving(bank, configuration), huge=sizes.plus(bank.huge)),
        )
        for at, bank in enumerate(described.banks)
    )


def _zone(node: Node, built: Machine, at: int, bank: ZoneMemory) -> Zone:
    capacity, allocatable = {}, {}
    if node.cpu_manager is CpuManager.STATIC and (cpus := built.topology.zones[at]):
        capacity[CPU] = cpus.bit_count() * MILLI
        allocatable[CPU] = (cpus & ~built.reserved).bit_count() * MILLI
    if node.memory_manager is MemoryManager.STATIC:
        capacity |= {MEMORY: bank.memory, **bank.huge}
        allocatable |= {MEMORY: bank.memory - (bank.reserved or 0) - sum(bank.huge.values()), **bank.huge}
    for name, listed in built.devices:
        of_zone = [place for place in listed if bank.zone in place.zones and place.total]
        if of_zone:
            capacity[name] = sum(place.total for place in of_zone)
            allocatable[name] = sum(place.healthy for place in of_zone)
    free = Resources(allocatable)
    costs = tuple(zip(built.zones, bank.distances, strict=False))
    return Zone(bank.zone, f"node-{bank.zone}", Resources(capacity), free, free, costs)


def _shown(amount: int) -> str:
    return resources.render(MEMORY, amount)
