"""
What nodes have in common beside amounts: the kubelet's configuration, and the listed resources.

A table of columns holds nodes of many layouts; what matters to a question besides amounts is computed once
per layout and looked up by node. A node that the columns could describe only approximately has no layout, and
is evaluated by the rules.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain, count
from operator import attrgetter
from types import MappingProxyType

from numalign.kubelet import cpu_manager
from numalign.kubelet.admit import numa_info
from numalign.kubelet.numa_scores import Ties, ties
from numalign.kubelet.topology_manager import NumaInfo
from numalign.model.intent import Policy, Scope
from numalign.model.machine import MOST_CPUS, CpuTopology
from numalign.model.node import CpuManager, MemoryManager, Node, Zone, alike
from numalign.model.options import CpuOption, FeatureGate, KubeletChange
from numalign.model.resources import MILLI, Kind, ZoneId, kind

MOST_ZONES = 8
"""Each zone doubles the sets of zones, and this is as many as a kubelet aligns by default."""

MOST_NAMES = 32
"""A refusal of the node as a whole has one bit for each resource that it lacks."""

MOST_PIECES = 2**27
"""Devices of all zones together are counted in 32 bits."""

MOST_BYTES = 2**49
"""Half a pebibyte: no node has so much, and eight zones of it are far below the limit of a number."""

COUNTED_THREADS = 2
"""For cores with this many threads the whole ones are counted."""

_COMPARES = frozenset({Policy.BEST_EFFORT, Policy.RESTRICTED})

_IN_COLUMNS = frozenset({CpuOption.STRICT_RESERVATION, CpuOption.FULL_PCPUS_ONLY})


class Unfit(StrEnum):
    """Why a node is in no table, and is evaluated by the rules."""

    ZONES = "zones"
    """It has none, or more than `MOST_ZONES`; or only one that hints can include, of several."""
    SCORES = "scores"
    """Its kubelet chooses zones by how much of them is allocated, also such that no resource prefers."""
    CPU_OPTIONS = "cpu-options"
    """Its kubelet chooses CPUs by an option beyond those that only count."""
    POD_LEVEL = "pod-level-managers"
    """Its kubelet serves pods as a whole."""
    MEMORY_GROUPS = "memory-groups"
    """Zones are grouped by memory that no pod holds."""
    UNEVEN_CPUS = "uneven-cpus"
    """Zones, sockets or cores differ in size: there the kubelet can take CPUs that are not free."""
    SOCKETS = "sockets"
    """A zone is on several sockets."""
    SPLIT_CORES = "split-cores"
    """It allocates whole cores, and reserves threads of others than the first ones of a zone."""
    AMOUNTS = "amounts"
    """A zone reports more than it has, other amounts than its machine, or more than a column holds."""
    THREADS = "threads"
    """Cores have more than two threads, and the allocated CPUs are known."""
    NAMES = "names"
    """It lists more than `MOST_NAMES` resources."""


@dataclass(frozen=True, slots=True)
class KubeletConfig:
    """The configuration of a kubelet, as far as columns support it.

    `near` means that hints for devices include only zones with a device, `whole_cores` that CPUs are
    allocated in whole cores, and `threads` is the number of threads per core. With `init_memory`, memory that
    only init containers request counts in pod scope.
    """

    policy: Policy
    scope: Scope
    cpu_manager: CpuManager
    memory_manager: MemoryManager
    near: bool
    whole_cores: bool
    threads: int
    init_memory: bool
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Hashing so many enumerations takes long, and questions look layouts up by it.
        object.__setattr__(self, "_hash", hash(_configured(self)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def strict(self) -> bool:
        """Whether the kubelet refuses what it cannot align."""
        return self.policy.at_least(Policy.RESTRICTED)


_configured = attrgetter(
    *("policy", "scope", "cpu_manager", "memory_manager", "near", "whole_cores", "threads", "init_memory")
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The facts of a node beside amounts; `totals` is None if the node reports none.

    `names` are those of everything that a zone has, `listed` those that it may allocate, `elsewhere` those of
    zones that no hint can include, and `devices` those of device plugins. Of the `unplaced` ones some are
    between zones or on none, so columns do not cover them. It is not known which zones have the `uncertain`.
    `sockets` has the number of each zone's socket, in the kubelet's order; `numa` has the distances of zones
    if the kubelet prefers the closest, and `ties` says how it chooses between equals.
    """

    ids: tuple[ZoneId, ...]
    config: KubeletConfig
    devices: frozenset[str]
    unplaced: frozenset[str]
    uncertain: frozenset[str]
    names: tuple[str, ...]
    listed: frozenset[str]
    elsewhere: frozenset[str]
    totals: frozenset[str] | None
    max_zones: int
    costs: tuple[tuple[tuple[ZoneId, int], ...], ...]
    sockets: tuple[int, ...]
    numa: NumaInfo
    ties: Ties | None
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(_identity(self)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names of everything that a zone or the node as a whole lists, in order."""
        return tuple(sorted({*self.names, *self.elsewhere, *(self.totals or ())}))

    def gives_out(self, name: str) -> bool:
        """Return whether a manager of these kubelets allocates this resource exclusively."""
        sort = kind(name)
        if sort is Kind.CPU:
            return self.config.cpu_manager is CpuManager.STATIC
        if sort is Kind.MEMORY:
            return self.config.memory_manager is MemoryManager.STATIC
        return name in self.devices


_identity = attrgetter(
    "ids", "config", "devices", "uncertain", "names", "listed", "totals", "costs", "max_zones"
)


def only_free_differs(node: Node, before: Node) -> bool:
    """Return whether a node differs from its earlier state only in what is free."""
    facts_alike = _facts(node) == _facts(before) and alike(node.health, before.health)
    amounts_alike = facts_alike and all(map(_alike_zones, node.zones, before.zones))
    return amounts_alike and not (_joined(node) or _scattered(node) or _contradicts(node))


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
    "others",
    "uncertain",
)


def _alike_zones(one: Zone, other: Zone) -> bool:
    return bool(_amounts(one) == _amounts(other))


_amounts = attrgetter("capacity", "allocatable", "costs")


def layout_of(node: Node) -> Layout | Unfit:
    """Return the layout of a node, or why it has none because only the rules can evaluate it."""
    cpus = cpu_manager.topology(node)
    if unfit := _unfit(node, cpus):
        return unfit
    bags = [bag for zone in node.zones for bag in (zone.capacity, zone.allocatable, zone.free)]
    return Layout(
        ids=node.ids,
        config=config_of(node, cpus),
        devices=node.devices,
        unplaced=_unplaced(node),
        uncertain=node.uncertain,
        names=tuple(sorted({*chain.from_iterable(bags)})),
        listed=frozenset(chain.from_iterable(zone.allocatable for zone in node.zones)),
        elsewhere=frozenset(chain.from_iterable(zone.allocatable for zone in node.others)),
        totals=None if node.totals is None else frozenset(node.totals),
        max_zones=node.max_zones,
        costs=tuple(zone.costs for zone in node.zones),
        sockets=_sockets(node, cpus),
        # If only single zones count, or none, distances do not matter.
        # Columns store no affinity, so zones that are in no hint do not matter either.
        numa=replace(numa_info(node), others=0) if node.policy in _COMPARES else NumaInfo(len(node.zones)),
        ties=ties(node),
    )


def config_of(node: Node, cpus: CpuTopology | None) -> KubeletConfig:
    """Return the configuration of a node's kubelet, whose CPU manager knows these CPUs."""
    return KubeletConfig(
        policy=node.policy,
        scope=node.scope,
        cpu_manager=node.cpu_manager,
        memory_manager=node.memory_manager,
        near=KubeletChange.HINTS_WHERE_DEVICES_ARE in node.options.changes,
        whole_cores=_gives_whole_cores(node),
        threads=_threads(cpus),
        init_memory=KubeletChange.INIT_ONLY_NAMES in node.options.changes,
    )


def _threads(cpus: CpuTopology | None) -> int:
    """Return the threads per core; one if CPUs are not allocated."""
    return (cpus and cpus.threads_per_core) or 1


def _gives_whole_cores(node: Node) -> bool:
    return node.cpu_manager is CpuManager.STATIC and CpuOption.FULL_PCPUS_ONLY in node.options.cpu


def _sockets(node: Node, cpus: CpuTopology | None) -> tuple[int, ...]:
    """Return by zone the position of its socket; a zone without CPUs counts as one, after the others."""
    zones = cpus.zones if cpus else (0,) * len(node.zones)
    sockets = cpus.sockets if cpus else ()
    others = count(len(sockets))
    return tuple(
        next(at for at, socket in enumerate(sockets) if socket & zone) if zone else next(others)
        for zone in zones
    )


def _unfit(node: Node, cpus: CpuTopology | None) -> Unfit | None:
    """Return the first reason why amounts do not decide everything."""
    if not 0 < len(node.zones) <= MOST_ZONES or (len(node.zones) == 1 and not node.single):
        return Unfit.ZONES
    return next((unfit for unfit, applies in _UNFIT.items() if applies(node, cpus)), None)


def _chooses_cpus(node: Node) -> bool:
    return node.cpu_manager is CpuManager.STATIC and bool(node.options.cpu - _IN_COLUMNS)


def _joined(node: Node) -> bool:
    """Return whether zones are grouped by memory that no pod holds."""
    return any(zone.cells for zone in node.zones) and not any(zone.assignments for zone in node.zones)


def _scattered(node: Node) -> bool:
    """Return whether the allocated CPUs are known, on cores that are not counted one by one."""
    return node.stock is not None and _threads(cpu_manager.topology(node)) > COUNTED_THREADS


def _uneven(cpus: CpuTopology | None) -> bool:
    """Return whether zones, sockets or cores differ in size.

    On such nodes the kubelet can take CPUs that are not free.
    """
    return cpus is not None and not cpus.even


def _across_sockets(cpus: CpuTopology | None) -> bool:
    """Return whether a zone is on several sockets; the kubelet's order of zones assumes that none is."""
    return cpus is not None and any(
        sum([bool(zone & socket) for socket in cpus.sockets]) > 1 for zone in cpus.zones
    )


def _splits_late(node: Node, cpus: CpuTopology | None) -> bool:
    """Return whether partly reserved cores come after others that containers get as a whole."""
    if cpus is None or node.machine is None or not _gives_whole_cores(node):
        return False
    kept = node.machine.reserved
    split = [[bool(core & kept) for core in cpus.cores if core & zone & ~kept] for zone in cpus.zones]
    return any(each != sorted(each, reverse=True) for each in split)


def _unplaced(node: Node) -> frozenset[str]:
    """Return the devices of which some are between zones or on none, or of which there are none."""
    machine = node.machine
    if machine is None:
        return frozenset()
    return frozenset(
        name
        for name, places in machine.devices
        if {len(place.known) for place in places if place.total} != _ON_ONE_ZONE
    )


_ON_ONE_ZONE = frozenset({1})


def _implausible(node: Node) -> bool:
    """Return whether a zone reports more than it has, so that free amounts say nothing about hardware."""
    return _contradicts(node) or any(_beyond(zone) for zone in node.zones)


def _contradicts(node: Node) -> bool:
    """Return whether zones report other devices than the machine, or reserved CPUs are free."""
    machine, stock = node.machine, node.stock
    if machine is None or stock is None:
        return False
    left, known = dict(stock.devices), dict(machine.devices)
    foreign = stock.cpus & ~(machine.topology.everything & ~machine.reserved)
    if foreign or machine.zones != node.ids or not node.devices <= known.keys() == left.keys():
        return True
    zones = len(node.zones)
    return any(
        (zone.capacity.get(name, 0), zone.allocatable.get(name, 0), zone.free.get(name, 0))
        != (place.total, place.healthy, free)
        for name, places in known.items()
        if len(places) == zones
        for zone, place, free in zip(node.zones, places, left[name], strict=True)
    )


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
    {Kind.CPU: MOST_CPUS * MILLI, Kind.MEMORY: MOST_BYTES, Kind.DEVICE: MOST_PIECES, Kind.NODE: MOST_BYTES}
)


def _lists_many(node: Node) -> bool:
    bags = (bag for zone in node.every_zone for bag in (zone.capacity, zone.allocatable, zone.free))
    return len({*chain.from_iterable(bags), *(node.totals or ())}) > MOST_NAMES


_UNFIT: Mapping[Unfit, Callable[[Node, CpuTopology | None], bool]] = MappingProxyType(
    {
        Unfit.SCORES: lambda node, _: node.policy is Policy.BEST_EFFORT and ties(node) is not None,
        Unfit.CPU_OPTIONS: lambda node, _: _chooses_cpus(node),
        Unfit.POD_LEVEL: lambda node, _: node.options.on(FeatureGate.POD_LEVEL_MANAGERS),
        Unfit.MEMORY_GROUPS: lambda node, _: _joined(node),
        Unfit.AMOUNTS: lambda node, _: _implausible(node),
        Unfit.UNEVEN_CPUS: lambda _, cpus: _uneven(cpus),
        Unfit.SOCKETS: lambda _, cpus: _across_sockets(cpus),
        Unfit.SPLIT_CORES: _splits_late,
        Unfit.THREADS: lambda node, _: _scattered(node),
        Unfit.NAMES: lambda node, _: _lists_many(node),
    }
)
