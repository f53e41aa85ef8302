"""
The memory manager under policy Static.

Restates pkg/kubelet/cm/memorymanager/policy_static.go. Two things set it apart from the other managers. A
request that no set of zones can serve gives no hint at all ("don't care"), and fails when it is allocated,
under every policy. And zones that share a block form a group (`cells`): a zone with a block of its own joins
no group, and the zones of a group serve only that very set until their last block is gone.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from types import MappingProxyType
from typing import NamedTuple

from numalign.kubelet import hint_sets
from numalign.kubelet.bitmask import Mask
from numalign.kubelet.hint_sets import HintSet
from numalign.kubelet.topology_manager import ResourceHints, TopologyHint, hints_preferring, impossible
from numalign.kubelet.zone_amounts import ZoneAmounts, draw, subtract
from numalign.model.bitset import bits, members
from numalign.model.demand import Step
from numalign.model.node import MemoryManager, Node, Zone
from numalign.model.pod import Role
from numalign.model.resources import MEMORY, Kind, Resources, ZoneId, kind


class Block(NamedTuple):
    """Bytes of one resource that a container holds from a set of zones."""

    container: str
    role: Role
    resource: str
    mask: Mask
    size: int


class MemoryState(NamedTuple):
    """Bytes per zone of every memory resource, the zones' groups, and the blocks of this pod.

    `reusable` is what finished init containers leave to later containers, by the exact set of zones.
    """

    allocatable: Mapping[str, ZoneAmounts]
    free: Mapping[str, ZoneAmounts]
    cells: tuple[Mask, ...]
    assignments: ZoneAmounts
    reusable: Mapping[tuple[Mask, str], int] = MappingProxyType({})
    blocks: tuple[Block, ...] = ()

    @property
    def nothing(self) -> ZoneAmounts:
        """None of it on any zone."""
        return (0,) * len(self.cells)

    @property
    def groups(self) -> "Groups":
        """The zones with blocks on them, each with the set that it serves."""
        return tuple([(zone, self.cells[zone]) for zone, count in enumerate(self.assignments) if count])

    def left_over(self, name: str) -> Iterator[tuple[Mask, int]]:
        """What init containers left of a resource, by the exact set of zones."""
        return ((mask, size) for (mask, resource), size in self.reusable.items() if resource == name)


Groups = tuple[tuple[int, Mask], ...]
"""Zones by position, each with the set that it serves."""


def state(node: Node) -> MemoryState | None:
    """The memory before the pod's first container; None where the manager is off."""
    if node.memory_manager is not MemoryManager.STATIC:
        return None
    zones, allocatable = node.zones, _allocatable(tuple([zone.allocatable for zone in node.zones]))
    return MemoryState(
        allocatable=allocatable,
        free={name: tuple([zone.free.get(name, 0) for zone in zones]) for name in allocatable},
        cells=tuple([_cells(zone, at, node.ids) for at, zone in enumerate(zones)]),
        assignments=tuple([zone.assignments for zone in zones]),
    )


def topology_hints(memory: MemoryState, request: Resources) -> list[ResourceHints]:
    """The same hints under every requested name; none at all if no set of zones can serve them."""
    if not request:
        return []
    hint = _hint(memory, request)
    return [ResourceHints(name, hint.possible, hint.preferred) for name in request] if hint.possible else []


def min_affinity_size(memory: MemoryState, request: Resources) -> int:
    """The fewest zones whose allocatable memory reaches what is asked, of all names together."""
    return _large_enough(memory, request)[1]


def allocate(memory: MemoryState, step: Step, affinity: TopologyHint) -> MemoryState | None:
    """Reserve a block of every name; None where the kubelet's Allocate fails, whatever the policy."""
    mask = _mask_to_use(memory, step.memory, affinity)
    if mask is None or _breaks_a_group(memory.groups, mask):
        return None
    blocks = (Block(step.container, step.role, name, mask, size) for name, size in step.memory.items())
    return with_blocks(memory, blocks)


def with_blocks(memory: MemoryState, blocks: Iterable[Block]) -> MemoryState:
    """The memory with these blocks taken, one after another."""
    return reduce(_reserve, blocks, memory)


def containers_started(memory: MemoryState) -> MemoryState:
    """The memory once the pod's containers run: blocks of finished init containers are released."""
    done = [block for block in memory.blocks if block.role is Role.INIT]
    if not done:
        return memory
    kept = tuple(block for block in memory.blocks if block.role is not Role.INIT)
    return without_blocks(memory._replace(blocks=kept), done)


def without_blocks(memory: MemoryState, blocks: Iterable[Block]) -> MemoryState:
    """The memory after these blocks are given back, one after another (RemoveContainer)."""
    return reduce(_release, blocks, memory)


@lru_cache(maxsize=4096)
def _allocatable(zones: tuple[Resources, ...]) -> Mapping[str, ZoneAmounts]:
    """What each zone may give out of everything that a memory manager keeps."""
    names = sorted({name for bag in zones for name in bag if kind(name) is Kind.MEMORY})
    return {name: tuple(bag.get(name, 0) for bag in zones) for name in names}


def _cells(zone: Zone, at: int, order: tuple[ZoneId, ...]) -> Mask:
    """The zones that its memory is grouped with, itself among them."""
    if not zone.cells:
        return 1 << at
    return bits(order.index(cell) for cell in zone.cells if cell in order)


def _hint(memory: MemoryState, request: Resources) -> ResourceHints:
    """What all requested names are offered alike."""
    large, fewest = _large_enough(memory, request)
    return hints_preferring(MEMORY, _free_enough(memory, request, large), fewest)


def _free_enough(memory: MemoryState, request: Resources, possible: HintSet) -> HintSet:
    """Those that groups leave open and whose free amounts suffice, with what init containers left."""
    if groups := memory.groups:
        possible &= _open(memory.cells, groups)
    for name, size in request.items() if possible else ():
        possible &= hint_sets.reaching(memory.free[name], size) | _left_enough(memory, name, size)
    return possible


def _left_enough(memory: MemoryState, name: str, size: int) -> HintSet:
    """The sets of zones of which init containers left so much that it suffices with what is free."""
    free = memory.free[name]
    left_over = memory.left_over(name) if memory.reusable else ()
    return hint_sets.of(
        mask for mask, again in left_over if sum([free[zone] for zone in members(mask)]) + again >= size
    )


def _large_enough(memory: MemoryState, request: Resources) -> tuple[HintSet, int]:
    """The sets of zones whose allocatable amounts reach what is asked, used or not, and their least width."""
    zones = len(memory.cells)
    enough = hint_sets.every(zones)
    for name, size in request.items() if enough else ():
        enough &= hint_sets.reaching(memory.allocatable.get(name, memory.nothing), size)
    return enough, hint_sets.narrowest_width(enough, zones)


@lru_cache(maxsize=256)
def _open(cells: tuple[Mask, ...], groups: Groups) -> HintSet:
    """The sets of zones that can be used: a zone outside any group, several free ones, a group as it is."""
    single = hint_sets.of(1 << zone for zone, cell in enumerate(cells) if cell.bit_count() <= 1)
    whole = hint_sets.of(
        cell for _, cell in groups if cell.bit_count() > 1 and not _breaks_a_group(groups, cell)
    )
    free = hint_sets.inside(bits(zone for zone in range(len(cells)) if zone not in dict(groups)))
    return single | whole | free & ~hint_sets.of_width(free, 1)


def _breaks_a_group(groups: Groups, mask: Mask) -> bool:
    """Whether a block over several zones would touch one that serves another set."""
    return mask.bit_count() > 1 and any(mask >> zone & 1 and cells != mask for zone, cells in groups)


def _mask_to_use(memory: MemoryState, request: Resources, affinity: TopologyHint) -> Mask | None:
    """The affinity, or without one the best hint; where plain free memory falls short, the best around it."""
    chosen: TopologyHint | None = affinity
    if affinity.mask is None:
        chosen = _best_around(memory, request, affinity)
    if chosen and chosen.mask is not None and not _has_room(memory, request, chosen.mask):
        chosen = _best_around(memory, request, chosen)
    return chosen.mask if chosen else None


def _best_around(memory: MemoryState, request: Resources, affinity: TopologyHint) -> TopologyHint | None:
    """The best hint that holds an affinity (any, if it is none); None if it would be a step down."""
    # Hints hang on names, so a request for nothing has none.
    hint = _hint(memory, request) if request else impossible(MEMORY)
    inner = affinity.mask or 0
    around = hint.possible & hint_sets.around(inner, len(memory.cells))
    preferred = around & hint.preferred
    if not around or (affinity.preferred and not preferred):
        return None
    chosen = hint_sets.lowest(hint_sets.narrowest(preferred or around))
    return TopologyHint(chosen, preferred=bool(preferred))


def _has_room(memory: MemoryState, request: Resources, mask: Mask) -> bool:
    """Whether plain free memory suffices; what init containers left is not counted here."""
    return all(
        sum(memory.free[name][zone] for zone in members(mask)) >= size if name in memory.free else False
        for name, size in request.items()
    )


def _reserve(memory: MemoryState, block: Block) -> MemoryState:
    key = (block.mask, block.resource)
    left_over = memory.reusable.get(key, 0)
    taken = draw(memory.free[block.resource], members(block.mask), max(0, block.size - left_over))
    mask, free = block.mask, memory.free[block.resource]
    return MemoryState(
        memory.allocatable,
        free={**memory.free, block.resource: subtract(free, taken)},
        cells=tuple([mask if mask >> zone & 1 else cell for zone, cell in enumerate(memory.cells)]),
        assignments=tuple([count + (mask >> zone & 1) for zone, count in enumerate(memory.assignments)]),
        reusable={**memory.reusable, key: _left_over(left_over, block)},
        # Of init containers' blocks just as much is there as can be used again.
        blocks=(*(_shrunken(memory.blocks, block) if left_over else memory.blocks), block),
    )


def _left_over(before: int, block: Block) -> int:
    return max(before, block.size) if block.role is Role.INIT else max(0, before - block.size)


def _shrunken(blocks: tuple[Block, ...], taker: Block) -> Iterator[Block]:
    """Earlier init containers' blocks, less what the new block uses again of them."""
    left = taker.size
    for block in blocks:
        same = (block.role, block.resource, block.mask) == (Role.INIT, taker.resource, taker.mask)
        used = min(block.size, left) if same else 0
        left -= used
        yield block._replace(size=block.size - used) if used else block


def _release(memory: MemoryState, block: Block) -> MemoryState:
    name, rest = block.resource, block.size
    counts, cells, free = list(memory.assignments), list(memory.cells), list(memory.free[name])
    for zone in members(block.mask):
        counts[zone] -= 1
        cells[zone] = cells[zone] if counts[zone] else 1 << zone
        back = min(memory.allocatable[name][zone] - free[zone], rest)
        free[zone], rest = free[zone] + back, rest - back
    return memory._replace(
        free={**memory.free, name: tuple(free)}, cells=tuple(cells), assignments=tuple(counts)
    )
