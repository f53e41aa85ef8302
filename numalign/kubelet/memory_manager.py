"""
The memory manager under policy Static.

Restates pkg/kubelet/cm/memorymanager/policy_static.go. It differs from the other managers in two ways. A
request that no set of zones can serve gives no hint at all ("don't care"), and fails at the allocation, under
every policy. And zones that share a block form a group (`cells`): a zone with a block of its own joins no
group, and the zones of a group serve only that exact set until their last block is gone.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from types import MappingProxyType
from typing import NamedTuple

from numalign.kubelet import hint_sets
from numalign.kubelet.bitmask import Mask, ZoneAmounts, draw, subtract
from numalign.kubelet.hint_sets import HintSet
from numalign.kubelet.topology_manager import ResourceHints, TopologyHint, hints_preferring, impossible
from numalign.model.bitset import bits, members
from numalign.model.demand import Step
from numalign.model.node import MemoryManager, Node
from numalign.model.pod import Role
from numalign.model.resources import MEMORY, Kind, Resources, kind


class Block(NamedTuple):
    """Bytes of one resource that a container has from a set of zones (state.Block)."""

    container: str
    role: Role
    resource: str
    mask: Mask
    size: int


Groups = tuple[tuple[int, Mask], ...]
"""Zones by position, each with the set that it serves."""


class MemoryState(NamedTuple):
    """The bytes per zone of every memory resource, the zones' groups, and the blocks of this pod.

    `cells` and `assignments` are Cells and NumberOfAssignments of the kubelet's NUMANodeState. `reusable` is
    what finished init containers leave to later containers, by the exact set of zones.
    """

    allocatable: Mapping[str, ZoneAmounts]
    free: Mapping[str, ZoneAmounts]
    cells: tuple[Mask, ...]
    assignments: ZoneAmounts
    reusable: Mapping[tuple[Mask, str], int] = MappingProxyType({})
    blocks: tuple[Block, ...] = ()

    @property
    def groups(self) -> Groups:
        """The zones with blocks on them, each with the set that it serves."""
        return tuple([(zone, self.cells[zone]) for zone, count in enumerate(self.assignments) if count])


def state(node: Node) -> MemoryState | None:
    """Return the memory before the pod's first container; None if the manager is off."""
    if node.memory_manager is not MemoryManager.STATIC:
        return None
    zones, order = node.zones, node.ids
    allocatable = _allocatable(tuple([zone.allocatable for zone in zones]))
    return MemoryState(
        allocatable=allocatable,
        free={name: tuple([zone.free.get(name, 0) for zone in zones]) for name in allocatable},
        # A zone without a known group is a group of its own.
        cells=tuple(
            [
                bits(order.index(cell) for cell in zone.cells if cell in order) if zone.cells else 1 << at
                for at, zone in enumerate(zones)
            ]
        ),
        assignments=tuple([zone.assignments for zone in zones]),
    )


def topology_hints(memory: MemoryState, request: Resources) -> list[ResourceHints]:
    """Return the same hints under every requested name; none if no set of zones can serve them."""
    if not request:
        return []
    # calculateHints creates the entry of a name with its first hint, so without one it has no preference.
    hints = _hints(memory, request)
    return (
        [ResourceHints(name, hints.possible, hints.preferred) for name in request] if hints.possible else []
    )


def min_affinity_size(memory: MemoryState, request: Resources) -> int:
    """Return the fewest zones with enough allocatable memory for a request, for all names together."""
    return _large_enough(memory, request)[1]


def allocate(memory: MemoryState, step: Step, affinity: TopologyHint) -> MemoryState | None:
    """Reserve a block for every name; None if the kubelet's Allocate fails, whatever the policy."""
    request = step.memory
    # A hint of policy none or without a preference: the manager generates the default hint itself.
    hint: TopologyHint | None = affinity
    if affinity.mask is None:
        hint = _best_around(memory, request, affinity)
    # isAffinitySatisfyRequest checks what is free, not what init containers left, even after a hint that
    # counts both; then extendTopologyManagerHint.
    if hint and hint.mask is not None and not _satisfies(memory, request, hint.mask):
        hint = _best_around(memory, request, hint)
    # The last check of Allocate; a merged hint of best-effort can be one that the manager never generated.
    if hint is None or hint.mask is None or _violates_group(memory.groups, hint.mask):
        return None
    mask = hint.mask
    blocks = (Block(step.container, step.role, name, mask, size) for name, size in request.items())
    return with_blocks(memory, blocks)


def with_blocks(memory: MemoryState, blocks: Iterable[Block]) -> MemoryState:
    """Return the memory with these blocks taken, one after another."""
    return reduce(_with_block, blocks, memory)


def without_blocks(memory: MemoryState, blocks: Iterable[Block]) -> MemoryState:
    """Return the memory after these blocks are freed, one after another (RemoveContainer)."""
    return reduce(_without_block, blocks, memory)


def containers_started(memory: MemoryState) -> MemoryState:
    """Return the memory once all containers run: AddContainer drops blocks of finished init containers."""
    # CPUs and devices of finished init containers stay with the pod; only memory is freed.
    done = [block for block in memory.blocks if block.role is Role.INIT]
    if not done:
        return memory
    kept = tuple(block for block in memory.blocks if block.role is not Role.INIT)
    return without_blocks(memory._replace(blocks=kept), done)


@lru_cache(maxsize=4096)
def _allocatable(zones: tuple[Resources, ...]) -> Mapping[str, ZoneAmounts]:
    names = sorted({name for amounts in zones for name in amounts if kind(name) is Kind.MEMORY})
    return {name: tuple(amounts.get(name, 0) for amounts in zones) for name in names}


def _hints(memory: MemoryState, request: Resources) -> ResourceHints:
    """Restate calculateHints: of large enough sets, those that groups leave open with enough free."""
    possible, fewest = _large_enough(memory, request)
    # Groups are checked after the least width is known, and can leave no mask of that width.
    if groups := memory.groups:
        possible &= _open(memory.cells, groups)
    for name, size in request.items() if possible else ():
        free = memory.free[name]
        # Free memory and what init containers left may be enough together, for exactly their set of zones.
        with_reusable = hint_sets.of(
            mask
            for (mask, resource), again in memory.reusable.items()
            if resource == name and sum([free[zone] for zone in members(mask)]) + again >= size
        )
        possible &= hint_sets.reaching(free, size) | with_reusable
    return hints_preferring(MEMORY, possible, fewest)


def _large_enough(memory: MemoryState, request: Resources) -> tuple[HintSet, int]:
    """Return the sets of zones with enough allocatable memory, and the least width, attainable or not."""
    zones = len(memory.cells)
    # A resource that no zone lists does not exist; the kubelet itself would panic.
    enough, nothing = hint_sets.every(zones), (0,) * zones
    for name, size in request.items() if enough else ():
        enough &= hint_sets.reaching(memory.allocatable.get(name, nothing), size)
    return enough, hint_sets.narrowest_width(enough, zones)


@lru_cache(maxsize=256)
def _open(cells: tuple[Mask, ...], groups: Groups) -> HintSet:
    """Return the usable sets of zones: one outside any group, several free ones, a whole group."""
    # A zone with blocks of its own serves alone, however many blocks it has.
    single = hint_sets.of(1 << zone for zone, cell in enumerate(cells) if cell.bit_count() <= 1)
    whole = hint_sets.of(
        cell for _, cell in groups if cell.bit_count() > 1 and not _violates_group(groups, cell)
    )
    # A wide mask must not touch a zone that holds a block, unless it is the group of that zone.
    free = hint_sets.inside(bits(zone for zone in range(len(cells)) if zone not in dict(groups)))
    return single | whole | free & ~hint_sets.of_width(free, 1)


def _violates_group(groups: Groups, mask: Mask) -> bool:
    """Restate isAffinityViolatingNUMAAllocations: a block on one zone, which can break a group, is fine."""
    return mask.bit_count() > 1 and any(mask >> zone & 1 and cells != mask for zone, cells in groups)


def _best_around(memory: MemoryState, request: Resources, affinity: TopologyHint) -> TopologyHint | None:
    """Restate getDefaultHint and extendTopologyManagerHint: None if the best around an affinity is worse."""
    # Hints are by name, so a request for nothing has none.
    hints = _hints(memory, request) if request else impossible(MEMORY)
    # Extending never drops a zone of the affinity: devices and CPUs may be there already.
    around = hints.possible & hint_sets.around(affinity.mask or 0, len(memory.cells))
    preferred = around & hints.preferred
    if not around or (affinity.preferred and not preferred):
        return None
    # findBestHint: preferred ones first, then IsNarrowerThan, of equals the lower number.
    best = hint_sets.lowest(hint_sets.narrowest(preferred or around))
    return TopologyHint(best, preferred=bool(preferred))


def _satisfies(memory: MemoryState, request: Resources, mask: Mask) -> bool:
    return all(
        name in memory.free and sum(memory.free[name][zone] for zone in members(mask)) >= size
        for name, size in request.items()
    )


def _with_block(memory: MemoryState, block: Block) -> MemoryState:
    """Restate updateMachineState: the lowest zone gives first, and all zones of the mask form one group."""
    mask, name = block.mask, block.resource
    key, free = (mask, name), memory.free[name]
    reusable = memory.reusable.get(key, 0)
    taken = draw(free, members(mask), max(0, block.size - reusable))
    # Init containers run one after another, so the largest of them is what can be reused.
    again = max(reusable, block.size) if block.role is Role.INIT else max(0, reusable - block.size)
    return MemoryState(
        memory.allocatable,
        free={**memory.free, name: subtract(free, taken)},
        # Zones join the group, and count the block, even if they give nothing to it.
        cells=tuple([mask if mask >> zone & 1 else cell for zone, cell in enumerate(memory.cells)]),
        assignments=tuple([count + (mask >> zone & 1) for zone, count in enumerate(memory.assignments)]),
        reusable={**memory.reusable, key: again},
        # Blocks of init containers keep exactly what can be reused.
        blocks=(*(_shrunken(memory.blocks, block) if reusable else memory.blocks), block),
    )


def _shrunken(blocks: tuple[Block, ...], taker: Block) -> Iterator[Block]:
    """Restate updateInitContainersMemoryBlocks: blocks of init containers shrink by what a new one reuses."""
    missing = taker.size
    for block in blocks:
        same = (block.role, block.resource, block.mask) == (Role.INIT, taker.resource, taker.mask)
        used = min(block.size, missing) if same else 0
        # Blocks are taken in the order of the containers until the new size is covered.
        missing -= used
        yield block._replace(size=block.size - used) if used else block


def _without_block(memory: MemoryState, block: Block) -> MemoryState:
    """Free a block from the lowest zone on, as much as pods have of each: possibly not what it gave."""
    name, missing = block.resource, block.size
    counts, cells, free = list(memory.assignments), list(memory.cells), list(memory.free[name])
    for zone in members(block.mask):
        counts[zone] -= 1
        cells[zone] = cells[zone] if counts[zone] else 1 << zone
        # What neither a zone nor a later one of the mask can take back is lost to the kubelet.
        back = min(memory.allocatable[name][zone] - free[zone], missing)
        free[zone], missing = free[zone] + back, missing - back
    return memory._replace(
        free={**memory.free, name: tuple(free)}, cells=tuple(cells), assignments=tuple(counts)
    )
