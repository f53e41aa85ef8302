"""
What a node is: zones with amounts, and how its kubelet aligns.

A zone is a NUMA node. Its `capacity` is hardware, its `allocatable` what the kubelet may give out, its
`free` what it has not given out yet. Everything but `free` (and the memory manager's groups) is static as
long as the node is in health, so `Node.in_health` answers what could ever be.

What is not told takes the kubelet's default. `known` says how much was told, and every verdict repeats it.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter

from numalign.model.attributes import NO_ATTRIBUTES, Attributes
from numalign.model.intent import Policy, Scope
from numalign.model.machine import Machine, Stock, full_stock
from numalign.model.options import DEFAULTS, Options
from numalign.model.resources import CPU, MEMORY, MILLI, Kind, Resources, ZoneId, kind
from numalign.model.sharing import shared

DEFAULT_MAX_ZONES = 8
"""The kubelet's max-allowable-numa-nodes, unless its configuration says otherwise."""

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
    """How much of a node is known; each level adds to the one before."""

    COUNTS = "counts"
    CONFIGURED = "configured"
    MACHINE = "machine"


ZoneCosts = tuple[tuple[ZoneId, int], ...]
"""The distances from one zone to others, as a topology lists them."""


@dataclass(frozen=True, slots=True)
class Zone:
    """One NUMA node.

    `cells` are the zones that its memory is grouped with (itself alone, if empty) and `assignments` the
    number of memory blocks that lie on it: the memory manager's own bookkeeping.
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
        """The zone with all that is allocatable free and no memory groups; itself if it is so already."""
        if not self.cells and not self.assignments and self.free == self.allocatable:
            return self
        return replace(self, free=self.allocatable, cells=frozenset(), assignments=0)


@dataclass(frozen=True, slots=True)
class Node:
    """One node; its zones stand in ascending order of their ids.

    `totals` is what the node as a whole may give out, None where nobody told. `label` is the node class
    that its label names at present, if any. `threads` is how many hardware threads a core has, None if no
    label tells. `stock` says which CPUs and devices are left, where somebody described the `machine` or pods
    were charged to the one that is assumed; the zones' free amounts are then its
    sums, so whoever changes them drops it. `attributes` say who may go there.
    From the `occupied` zones pods with an intent hold what it is about, or may; from the `exclusive` ones a
    pod that shares them with no other such.
    Of a node that is ill `health` is the same node in health, with nothing on it.
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
    devices: frozenset[str] = field(init=False)
    ids: tuple[ZoneId, ...] = field(init=False, compare=False, repr=False)
    hinting: frozenset[Kind] = field(init=False, compare=False, repr=False)
    """The kinds of resources of which the kubelet's managers give hints."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "zones", tuple(sorted(self.zones, key=lambda zone: zone.id)))
        object.__setattr__(self, "ids", shared(tuple(zone.id for zone in self.zones)))
        object.__setattr__(self, "hinting", shared(frozenset(self._hinting())))
        listed = (name for zone in self.zones for name, amount in zone.capacity.items() if amount)
        object.__setattr__(self, "devices", shared(frozenset(filter(_is_device, listed))))
        if self.machine and not self.stock:
            object.__setattr__(self, "stock", full_stock(self.machine))

    def emptied(self) -> "Node":
        """The node with its zones emptied, its machine's stock full, and nobody there; itself if it is so."""
        stock = full_stock(self.machine) if self.machine else None
        zones = tuple(zone.emptied() for zone in self.zones)
        if stock == self.stock and zones == self.zones and not self.occupied:
            return self
        return replace(self, zones=zones, stock=stock, occupied=frozenset(), exclusive=frozenset())

    def in_health(self) -> "Node":
        """Return the node with nothing given out: `health` of a node that is ill, of any other `emptied`."""
        return self.health or self.emptied()

    def aligns(self, resource: str) -> bool:
        """Whether this kubelet gives hints for a resource; of devices, for those that its zones list."""
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
    """Return the managers' policies, read off what the zones list.

    Exporters list exactly what the kubelet calls allocatable, and a manager whose policy is none calls
    nothing allocatable (policy_none.go of cpumanager and memorymanager).
    """
    listed = {kind(name) for zone in zones for name, amount in zone.allocatable.items() if amount}
    return (
        CpuManager.STATIC if Kind.CPU in listed else CpuManager.NONE,
        MemoryManager.STATIC if Kind.MEMORY in listed else MemoryManager.NONE,
    )


def node_class(node: Node) -> str:
    """Return the name of a node's topology class, a valid label value: `<readable>-<hash8>`.

    The class of a node that is ill is that which it has in health. Nodes of one class have the same policy,
    scope, managers and zones; memory counts in whole GiB, so that a few reserved KiB do not split a fleet
    into as many classes as nodes.
    """
    node = node.health or node
    zones = tuple((zone.id, _rounded(zone.capacity), _rounded(zone.allocatable)) for zone in node.zones)
    return _class_of(node.policy, node.scope, node.cpu_manager, node.memory_manager, zones)


_Rounded = tuple[tuple[str, int], ...]
"""Amounts by name, memory in whole GiB."""

_Amounts = tuple[ZoneId, _Rounded, _Rounded]
"""Of one zone: its id, its capacity, and what may be given out."""


# No two nodes have the same bytes, and thousands are of few classes.
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
    """Return what a person would call it: zones, then what the largest zone has, then the policy."""
    zones, devices = len(capacities), Counter[str]()
    for capacity in capacities:
        devices |= Counter({name: capacity[name] for name in capacity if _is_device(name)})
    cpus = max((capacity.get(CPU, 0) // MILLI for capacity in capacities), default=0)
    parts = [f"{zones}x{cpus}cpu"] if cpus else [f"{zones}z"]
    parts += [f"{count}{_short(name)}" for name, count in sorted(devices.items()) if count]
    return "-".join([*parts, policy.value, scope.value])


def _short(resource: str) -> str:
    """Return the last part of a resource name, with only what a label value may hold."""
    return "".join(
        letter for letter in resource.rpartition("/")[2].lower() if letter.isascii() and letter.isalnum()
    )


def alike(node: Node | None, before: Node | None) -> bool:
    """Return whether two nodes differ in name, label and attributes at most; None is alike None alone."""
    if node is before or node is None or before is None:
        return node is before
    # Parts that are one object are equal without being looked at.
    return _judged(node) == _judged(before) and alike(node.health, before.health)


_judged = attrgetter(
    *(
        attribute.name
        for attribute in fields(Node)
        if attribute.init and attribute.name not in {"name", "label", "attributes", "health"}
    )
)
