"""
What nodes have in common whose amounts can stand in one table.

Nodes of one layout differ in amounts alone: as many zones, the same managers, policy, resources and
distances. Everything that a question turns on besides amounts is worked out once per layout. A node that the
columns could only nearly describe has none, and is asked by the rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import attrgetter
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from numalign.cache.arrays import Rows
from numalign.kubelet import bitmask, cpu_manager
from numalign.kubelet.admit import numa_info
from numalign.kubelet.bitmask import Mask
from numalign.kubelet.topology_manager import NumaInfo
from numalign.model.intent import Policy, Scope
from numalign.model.node import CpuManager, MemoryManager, Node, Zone, alike
from numalign.model.options import CpuOption, FeatureGate, TopologyOption
from numalign.model.resources import MILLI, Kind, ZoneId, kind

MOST_ZONES = 8
"""Each zone doubles the sets of zones, and this is as many as a kubelet aligns by default."""

HALF = 4
"""So many zones are half of the most that there are."""

MOST_NAMES = 32
"""A refusal of the node as a whole says by one bit each which resources it lacks."""

MOST_PIECES = 2**27
"""CPUs and devices of all zones together are counted in 32 bits."""

MOST_BYTES = 2**49
"""Half a pebibyte: nobody has so much, and eight zones of it are far from what a number can hold."""

_COMPARES = frozenset({Policy.BEST_EFFORT, Policy.RESTRICTED})

_HARMLESS = frozenset({CpuOption.STRICT_RESERVATION})


@dataclass(frozen=True, slots=False)
class Layout:
    """The facts that the nodes of one table share; `totals` is None where the nodes tell none."""

    ids: tuple[ZoneId, ...]
    policy: Policy
    scope: Scope
    cpu_manager: CpuManager
    memory_manager: MemoryManager
    devices: frozenset[str]
    names: tuple[str, ...]
    listed: frozenset[str]
    totals: frozenset[str] | None
    max_zones: int
    costs: tuple[tuple[tuple[ZoneId, int], ...], ...]
    near: bool
    closest: bool
    zones: NumaInfo = field(compare=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(_identity(self)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def count(self) -> int:
        """How many zones a node has."""
        return len(self.ids)

    @cached_property
    def all_names(self) -> tuple[str, ...]:
        """The names of everything that a zone or the node as a whole lists, in order."""
        return tuple(sorted({*self.names, *(self.totals or ())}))

    @property
    def strict(self) -> bool:
        """Whether the kubelet refuses what it cannot align."""
        return self.policy.at_least(Policy.RESTRICTED)

    @property
    def single(self) -> bool:
        """Whether only one zone will do."""
        return self.policy is Policy.SINGLE_NUMA_NODE

    def gives_out(self, name: str) -> bool:
        """Whether a manager of these kubelets gives containers this resource of their own."""
        sort = kind(name)
        if sort is Kind.CPU:
            return self.cpu_manager is CpuManager.STATIC
        if sort is Kind.MEMORY:
            return self.memory_manager is MemoryManager.STATIC
        return name in self.devices

    @cached_property
    def _orders(self) -> tuple[tuple[Mask, ...], ...]:
        every = sorted(bitmask.ascending(self.count), key=self.zones.rank)
        return tuple(
            tuple(mask for mask in every if mask.bit_count() == width) for width in range(self.count + 1)
        )

    def of_width(self, width: int) -> tuple[Mask, ...]:
        """The sets of so many zones, in the order in which the kubelet prefers them."""
        return self._orders[width]

    @cached_property
    def in_order(self) -> bool:
        """Whether single zones are preferred as they stand."""
        return self.of_width(1) == tuple(1 << at for at in range(self.count))

    @cached_property
    def _members(self) -> tuple[NDArray[np.float64], ...]:
        zones = np.arange(self.count)
        return tuple(
            (np.array(order, dtype=np.intp)[:, None] >> zones & 1).astype(np.float64)
            for order in self._orders
        )

    def members(self, width: int) -> NDArray[np.float64]:
        """Which zones are in each set of so many, 0 or 1: (sets, zones).

        As floats, for of these there are fast products; totals of bytes are far below 2^53 (`MOST_BYTES`).
        """
        return self._members[width]

    @cached_property
    def _halves(self) -> tuple[tuple[Rows, Rows], ...]:
        orders = (np.array(order, dtype=np.intp) for order in self._orders)
        return tuple((order & (1 << HALF) - 1, order >> HALF) for order in orders)

    def halves(self, width: int) -> tuple[Rows, Rows]:
        """The sets of so many zones by their halves: the bits of the first zones, and those of the others.

        Of seventy sets of four zones in eight, each half is one of sixteen.
        """
        return self._halves[width]


_identity = attrgetter("ids", "policy", "scope", "devices", "names", "listed", "totals", "costs")


def only_free_differs(node: Node, before: Node) -> bool:
    """Whether a node has the layout and all amounts that it had, but for what is free."""
    facts_alike = _facts(node) == _facts(before) and alike(node.health, before.health)
    return facts_alike and all(map(_alike_zones, node.zones, before.zones)) and not _joined(node)


_facts = attrgetter(
    "policy",
    "scope",
    "cpu_manager",
    "memory_manager",
    "totals",
    "max_zones",
    "options",
    "threads",
    "machine",
    "ids",
)


def _alike_zones(one: Zone, other: Zone) -> bool:
    return bool(_amounts(one) == _amounts(other))


_amounts = attrgetter("capacity", "allocatable", "costs")


def layout_of(node: Node) -> Layout | None:
    """The layout of a node; None if only the rules can say what becomes of a pod there."""
    if not 0 < len(node.zones) <= MOST_ZONES or _peculiar(node) or _incredible(node):
        return None
    bags = [bag for zone in node.zones for bag in (zone.capacity, zone.allocatable, zone.free)]
    names, totals = tuple(sorted({*chain.from_iterable(bags)})), node.totals
    if len({*names, *(totals or ())}) > MOST_NAMES:
        return None
    return Layout(
        ids=node.ids,
        policy=node.policy,
        scope=node.scope,
        cpu_manager=node.cpu_manager,
        memory_manager=node.memory_manager,
        devices=node.devices,
        names=names,
        listed=frozenset(chain.from_iterable(zone.allocatable for zone in node.zones)),
        totals=None if totals is None else frozenset(totals),
        max_zones=node.max_zones,
        costs=tuple(zone.costs for zone in node.zones),
        near=node.options.behaviour.hints_where_devices_are,
        closest=TopologyOption.PREFER_CLOSEST in node.options.topology,
        # Where only single zones count, or none, nobody asks how far apart they are.
        zones=numa_info(node) if node.policy in _COMPARES else NumaInfo(len(node.zones)),
    )


def _peculiar(node: Node) -> bool:
    """Whether more than amounts decides: a described machine, options, groups of nothing, or uneven CPUs."""
    options = node.options.cpu - _HARMLESS if node.cpu_manager is CpuManager.STATIC else ()
    gated = node.options.on(FeatureGate.POD_LEVEL_MANAGERS)
    return bool(node.machine or options or gated or _joined(node) or _uneven(node))


def _joined(node: Node) -> bool:
    """Whether zones are grouped by memory that nobody holds."""
    return any(zone.cells for zone in node.zones) and not any(zone.assignments for zone in node.zones)


def _uneven(node: Node) -> bool:
    """Whether zones, sockets or cores differ in size: there the kubelet can take CPUs that it has not got."""
    cpus = cpu_manager.state(node)
    if cpus is None:
        return False
    zones = (zone for zone in cpus.topology.zones if zone)
    return any(
        len({*map(int.bit_count, units)}) > 1 for units in (zones, cpus.topology.sockets, cpus.topology.cores)
    )


def _incredible(node: Node) -> bool:
    """Whether a zone reports more than it has, so that what is free says nothing about hardware."""
    return any(_beyond(zone) for zone in node.zones)


def _beyond(zone: Zone) -> bool:
    most, has = zone.allocatable, zone.capacity
    if any(not 0 <= amount <= most.get(name, 0) for name, amount in zone.free.items()):
        return True
    limits = (
        (amount, has.get(name, 0) if kind(name) is Kind.DEVICE else MOST_BYTES)
        for name, amount in most.items()
    )
    return any(not 0 <= amount <= limit for amount, limit in limits) or any(
        _MOST[kind(name)] < amount for name, amount in has.items()
    )


_MOST: Mapping[Kind, int] = MappingProxyType(
    {Kind.CPU: MOST_PIECES * MILLI, Kind.MEMORY: MOST_BYTES, Kind.DEVICE: MOST_PIECES, Kind.NODE: MOST_BYTES}
)
