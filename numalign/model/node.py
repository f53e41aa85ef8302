"""
A node: zones with amounts, and how its kubelet aligns.

A zone is a NUMA node. Its `capacity` is hardware, its `allocatable` what the kubelet may allocate, its `free`
what is not allocated yet. Everything but `free` (and the memory manager's groups) is static as long as the
node is healthy, so `Node.in_health` tells what could ever be allocated.

Settings that are not reported have the kubelet's default. `known` is how much was reported, and every verdict
repeats it.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter

from numalign.model.attributes import NO_ATTRIBUTES, Attributes
from numalign.model.intent import NODE_LABEL, Policy, Scope
from numalign.model.machine import Machine, Stock, full_stock
from numalign.model.options import DEFAULTS, Options
from numalign.model.resources import CPU, MEMORY, MILLI, Kind, Resources, ZoneId, kind
from numalign.model.sharing import shared

DEFAULT_MAX_ZONES = 8
"""The kubelet's max-allowable-numa-nodes, unless its configuration sets another."""

_GIB = 2**30
_LABEL = 63
_HASH = 8


class CpuManager(StrEnum):
    """The kubelet's cpuManagerPolicy."""

    NONE = "none"
    STATIC = "static"


class MemoryManager(StrEnum):
    """The kubelet's memoryManagerPolicy."""

    NONE = "None"
    STATIC = "Static"


class Known(StrEnum):
    """How much of a node is known; each level includes the one before."""

    COUNTS = "counts"
    CONFIGURED = "configured"
    MACHINE = "machine"


ZoneCosts = tuple[tuple[ZoneId, int], ...]
"""The distances from one zone to others, as a topology lists them."""


@dataclass(frozen=True, slots=True)
class Zone:
    """One NUMA node.

    `cells` are the zones that its memory is grouped with (itself alone, if empty) and `assignments` the
    number of memory blocks on it: the memory manager's own bookkeeping.
    """

    id: ZoneId
    name: str
    capacity: Resources
    allocatable: Resources
    free: Resources
    costs: ZoneCosts = ()
    cells: frozenset[ZoneId] = frozenset()
    assignments: int = 0

    def emptied(self) -> "Zone":
        """Return the zone with all allocatable amounts free and no memory groups; itself if it is so."""
        if not self.cells and not self.assignments and self.free == self.allocatable:
            return self
        return replace(self, free=self.allocatable, cells=frozenset(), assignments=0)


@dataclass(frozen=True, slots=True)
class Node:
    """One node; its zones are in ascending order of their ids.

    `zones` are those that hints of its kubelet can include, `others` those that none can
    (`kubelet.hinted_zones`).

    `totals` is what the node as a whole may allocate, None if not reported. `label` is the topology class in
    its label at present, if any. `threads` is the number of hardware threads per core, None if no label says
    so. `stock` says which CPUs and devices are left, if the `machine` is described or pods were charged to
    the assumed one. The zones' free amounts are then its sums, so code that changes them drops it.
    `attributes` decide which pods may run there. How much of the `uncertain` resources each zone has is not
    known for certain: no zone has to list them, and nothing is refused but for what zones list.

    In the `occupied` zones, pods with an intent hold (or may hold) the resources of that intent; in the
    `exclusive` ones, a pod that shares them with no other such pod. `health` of a degraded node is the same
    node when healthy, with nothing allocated.
    """

    name: str
    zones: tuple[Zone, ...]
    policy: Policy = Policy.NONE
    scope: Scope = Scope.CONTAINER
    cpu_manager: CpuManager = CpuManager.STATIC
    memory_manager: MemoryManager = MemoryManager.STATIC
    totals: Resources | None = None
    max_zones: int = DEFAULT_MAX_ZONES
    known: Known = Known.COUNTS
    label: str | None = None
    options: Options = DEFAULTS
    threads: int | None = None
    machine: Machine | None = None
    stock: Stock | None = None
    attributes: Attributes = NO_ATTRIBUTES
    occupied: frozenset[ZoneId] = frozenset()
    exclusive: frozenset[ZoneId] = frozenset()
    health: "Node | None" = None
    others: tuple[Zone, ...] = ()
    uncertain: frozenset[str] = frozenset()
    devices: frozenset[str] = field(init=False)
    ids: tuple[ZoneId, ...] = field(init=False, compare=False, repr=False)
    hinting: frozenset[Kind] = field(init=False, compare=False, repr=False)
    """The kinds of resources for which the kubelet's managers generate hints."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "zones", tuple(sorted(self.zones, key=lambda zone: zone.id)))
        object.__setattr__(self, "ids", shared(tuple(zone.id for zone in self.zones)))
        object.__setattr__(self, "hinting", shared(frozenset(self._hinting())))
        listed = [name for zone in self.zones for name, amount in zone.capacity.items() if amount]
        # Such devices are in no zone, and yet their resource has hints.
        listed += self.machine.of_unknown_zones if self.machine else ()
        object.__setattr__(self, "devices", shared(frozenset(filter(_is_device, listed))))
        if self.machine and not self.stock:
            object.__setattr__(self, "stock", full_stock(self.machine))

    @property
    def single(self) -> bool:
        """Whether the machine has one zone, so that all that a pod gets there comes from it."""
        return len(self.zones) == 1 and not self.others

    @property
    def every_zone(self) -> tuple[Zone, ...]:
        """All zones of the machine, in ascending order of their ids."""
        return tuple(sorted((*self.zones, *self.others), key=attrgetter("id"))) if self.others else self.zones

    def emptied(self) -> "Node":
        """Return the node with nothing allocated and full stock; itself if nothing changes."""
        stock = full_stock(self.machine) if self.machine else None
        zones = tuple(zone.emptied() for zone in self.zones)
        if stock == self.stock and zones == self.zones and not self.occupied:
            return self
        return replace(self, zones=zones, stock=stock, occupied=frozenset(), exclusive=frozenset())

    def in_health(self) -> "Node":
        """Return the healthy node with nothing allocated: `health` of a degraded node, else `emptied`."""
        return self.health or self.emptied()

    def aligns(self, resource: str) -> bool:
        """Return whether this kubelet hints a resource; for a device, only if its zones list it."""
        manager = kind(resource)
        return manager in self.hinting and (manager is not Kind.DEVICE or resource in self.devices)

    def _hinting(self) -> Iterator[Kind]:
        if self.policy is Policy.NONE:
            return
        yield Kind.DEVICE
        if self.cpu_manager is CpuManager.STATIC:
            yield Kind.CPU
        if self.memory_manager is MemoryManager.STATIC:
            yield Kind.MEMORY


def managers(zones: Iterable[Zone]) -> tuple[CpuManager, MemoryManager]:
    """Return the managers' policies, derived from what the zones list.

    Exporters list exactly what the kubelet calls allocatable, and a manager with the policy none calls
    nothing allocatable (policy_none.go of cpumanager and memorymanager).
    """
    listed = {kind(name) for zone in zones for name, amount in zone.allocatable.items() if amount}
    return (
        CpuManager.STATIC if Kind.CPU in listed else CpuManager.NONE,
        MemoryManager.STATIC if Kind.MEMORY in listed else MemoryManager.NONE,
    )


def node_label(name: str) -> str:
    """Return the value of `NODE_LABEL` for the node of this name: the name itself, if a label may have it.

    A name of more than 63 characters is cut, and ends in the beginning of its SHA-256, which tells it from
    others.
    """
    if len(name) <= _LONGEST_LABEL:
        return name
    end = f"-{hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]}"
    return name[: _LONGEST_LABEL - len(end)] + end


_LONGEST_LABEL, _DIGEST = 63, 16


def is_labelled(name: str, node_labels: Mapping[str, Mapping[str, str]]) -> bool:
    """Return whether the node of this name has its name as a label, among the labels of every node."""
    return node_labels.get(name, {}).get(NODE_LABEL) == node_label(name)


def node_class(node: Node) -> str:
    """Return the name of a node's topology class, a valid label value: `<readable>-<hash8>`.

    A degraded node has the class that it has when healthy. Nodes of one class have the same policy, scope,
    managers and zones. Memory counts in whole GiB, so that a few reserved KiB do not split a fleet into as
    many classes as nodes.
    """
    node = node.health or node
    zones = tuple((zone.id, _rounded(zone.capacity), _rounded(zone.allocatable)) for zone in node.every_zone)
    return _class_of(node.policy, node.scope, node.cpu_manager, node.memory_manager, zones)


_Rounded = tuple[tuple[str, int], ...]
"""Amounts by name, memory in whole GiB."""

_Amounts = tuple[ZoneId, _Rounded, _Rounded]
"""One zone: its id, its capacity, and its allocatable amounts."""


# No two nodes have exactly the same bytes, and thousands of nodes have few classes.
@lru_cache(maxsize=4096)
def _class_of(
    policy: Policy, scope: Scope, cpus: CpuManager, memory: MemoryManager, zones: tuple[_Amounts, ...]
) -> str:
    facts = (policy.value, scope.value, cpus.value, memory.value, zones)
    digest = hashlib.sha256(repr(facts).encode()).hexdigest()[:_HASH]
    readable = _readable(policy, scope, [dict(has) for _, has, _ in zones])
    return f"{readable[: _LABEL - _HASH - 1].rstrip('-')}-{digest}"


def _is_device(name: str) -> bool:
    return kind(name) is Kind.DEVICE


def _rounded(amounts: Resources) -> _Rounded:
    return tuple((name, amount // _GIB if name == MEMORY else amount) for name, amount in amounts.items())


def _readable(policy: Policy, scope: Scope, capacities: list[dict[str, int]]) -> str:
    """Return the readable part of the name: zones, then what the largest zone has, then the policy."""
    zones, devices = len(capacities), Counter[str]()
    for capacity in capacities:
        devices |= Counter({name: capacity[name] for name in capacity if _is_device(name)})
    cpus = max((capacity.get(CPU, 0) // MILLI for capacity in capacities), default=0)
    parts = [f"{zones}x{cpus}cpu"] if cpus else [f"{zones}z"]
    parts += [f"{count}{_short(name)}" for name, count in sorted(devices.items()) if count]
    return "-".join([*parts, policy.value, scope.value])


def _short(resource: str) -> str:
    """Return the last part of a resource name, with only the characters of a label value."""
    return "".join(
        letter for letter in resource.rpartition("/")[2].lower() if letter.isascii() and letter.isalnum()
    )


def alike(node: Node | None, before: Node | None) -> bool:
    """Return whether two nodes differ at most in name, label and attributes; None is alike only to None."""
    if node is before or node is None or before is None:
        return node is before
    # Identical objects are equal without a comparison.
    return judged(node) == judged(before) and alike(node.health, before.health)


judged = attrgetter(
    *(
        attribute.name
        for attribute in fields(Node)
        if attribute.init and attribute.name not in {"name", "label", "attributes", "health"}
    )
)
"""Return all of a node that a verdict on its current state depends on."""
