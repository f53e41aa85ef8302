"""
The memory manager under policy Static.

Restates pkg/kubelet/cm/memorymanager/policy_static.go. Two things set it apart from the other managers. A
request that no set of zones can serve gives no hint at all ("don't care"), and fails when it is allocated,
under every policy. And zones that share a block form a group (`cells`): a zone with a block of its own joins
no group, and the zones of a group serve only that very set until their last block is gone.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

from numalign.rules.demand import Step
from numalign.rules.kubelet import masks
from numalign.rules.kubelet.masks import Mask
from numalign.rules.kubelet.merge import Merged, Offer, offer
from numalign.rules.kubelet.pool import Amounts, draw
from numalign.rules.pod import Role
from numalign.rules.resources import MEMORY, Kind, Resources, kind
from numalign.rules.topology import MemoryManager, Node


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes of one resource that a container holds from a set of zones."""

    container: str
    role: Role
    resource: str
    mask: Mask
    size: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes per zone of every memory resource, the zones' groups, and the blocks of this pod.

    `reusable` is what finished init containers leave to later containers, by the exact set of zones.
    """

    allocatable: Mapping[str, Amounts]
    free: Mapping[str, Amounts]
    cells: tuple[Mask, ...]
    assignments: Amounts
    reusable: Mapping[tuple[Mask, str], int] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()

    @property
    def groups(self) -> "Groups":
        """The zones with blocks on them, each with the set that it serves."""
        return [(zone, self.cells[zone]) for zone, count in enumerate(self.assignments) if count]

    def left_over(self, name: str) -> Iterator[tuple[Mask, int]]:
        """What init containers left of a resource, by the exact set of zones."""
        return ((mask, size) for (mask, resource), size in self.reusable.items() if resource == name)


Groups = list[tuple[int, Mask]]
"""Zones by position, each with the set that it serves."""


def of(node: Node) -> Memory | None:
    """The memory before the pod's first container; None where the manager is off."""
    if node.memory_manager is not MemoryManager.STATIC:
        return None
    position = {zone.id: index for index, zone in enumerate(node.zones)}
    names = sorted({name for zone in node.zones for name in zone.allocatable if kind(name) is Kind.MEMORY})
    allocatable = {name: tuple(zone.allocatable.get(name, 0) for zone in node.zones) for name in names}
    return Memory(
        allocatable=allocatable,
        free={name: tuple(zone.free.get(name, 0) for zone in node.zones) for name in names},
        cells=tuple(
            masks.of(position[cell] for cell in zone.cells or {zone.id} if cell in position)
            for zone in node.zones
        ),
        assignments=tuple(zone.assignments for zone in node.zones),
    )


def offers(memory: Memory, request: Resources) -> list[Offer]:
    """The same hints under every requested name; none at all if no set of zones can serve them."""
    hint = _hint(memory, request)
    return [replace(hint, resource=name) for name in request] if hint.possible else []


def width(memory: Memory, request: Resources) -> int:
    """The fewest zones whose allocatable memory reaches what is asked, of all names together."""
    return min(map(int.bit_count, _large_enough(memory, request)), default=len(memory.cells))


def allocate(memory: Memory, step: Step, affinity: Merged) -> Memory | None:
    """Reserve a block of every name; None where the kubelet's Allocate fails, whatever the policy."""
    mask = _mask_to_use(memory, step.memory, affinity)
    if mask is None or _breaks_a_group(memory.groups, mask):
        return None
    for name, size in step.memory.items():
        memory = _reserve(memory, Block(step.container, step.role, name, mask, size))
    return memory


def started(memory: Memory) -> Memory:
    """The memory once the pod's containers run: blocks of finished init containers are released."""
    done = [block for block in memory.blocks if block.role is Role.INIT]
    kept = tuple(block for block in memory.blocks if block.role is not Role.INIT)
    return reduce(_release, done, replace(memory, blocks=kept))


def _hint(memory: Memory, request: Resources) -> Offer:
    """What all requested names are offered alike."""
    large = _large_enough(memory, request)
    fewest = min(map(int.bit_count, large), default=len(memory.cells))
    return offer(MEMORY, _free_enough(memory, request, large), fewest)


def _free_enough(memory: Memory, request: Resources, hints: list[Mask]) -> list[Mask]:
    """Those that groups leave open and whose free amounts suffice, with what init containers left."""
    if groups := memory.groups:
        hints = [mask for mask in hints if _open(memory.cells, groups, mask)]
    for name, size in request.items() if hints else ():
        free = masks.sums(memory.free[name])
        for mask, again in memory.left_over(name):
            free[mask] += again
        hints = masks.reaching(hints, free, size)
    return hints


def _large_enough(memory: Memory, request: Resources) -> list[Mask]:
    """The sets of zones whose allocatable amounts reach what is asked, used or not."""
    enough: Iterable[Mask] = masks.ascending(len(memory.cells))
    for name, size in request.items():
        totals = masks.sums(memory.allocatable.get(name, (0,) * len(memory.cells)))
        enough = masks.reaching(enough, totals, size)
    return list(enough)


def _open(cells: tuple[Mask, ...], groups: Groups, mask: Mask) -> bool:
    """Whether groups let a set of zones be used: one zone outside any group, or a group as it is."""
    if mask.bit_count() == 1:
        return cells[mask.bit_length() - 1].bit_count() <= 1
    return not _breaks_a_group(groups, mask)


def _breaks_a_group(groups: Groups, mask: Mask) -> bool:
    """Whether a block over several zones would touch one that serves another set."""
    return mask.bit_count() > 1 and any(mask >> zone & 1 and cells != mask for zone, cells in groups)


def _mask_to_use(memory: Memory, request: Resources, affinity: Merged) -> Mask | None:
    """The affinity if it has room, else the best set of zones around it (without one: of all)."""
    mask = affinity.mask
    if mask is not None and _has_room(memory, request, mask):
        return mask
    hint = _hint(memory, request)
    around = [wider for wider in hint.possible if mask is None or wider & mask == mask]
    if not around:
        return None
    preferred = [wider for wider in around if wider in hint.preferred]
    return masks.narrowest(preferred or around) if preferred or not affinity.preferred else None


def _has_room(memory: Memory, request: Resources, mask: Mask) -> bool:
    """Whether plain free memory suffices; what init containers left is not counted here."""
    return all(
        sum(memory.free[name][zone] for zone in masks.members(mask)) >= size if name in memory.free else False
        for name, size in request.items()
    )


def _reserve(memory: Memory, block: Block) -> Memory:
    key = (block.mask, block.resource)
    left_over = memory.reusable.get(key, 0)
    taken = draw(memory.free[block.resource], masks.members(block.mask), max(0, block.size - left_over))
    return replace(
        memory,
        free={**memory.free, block.resource: tuple(map(int.__sub__, memory.free[block.resource], taken))},
        cells=tuple(block.mask if block.mask >> zone & 1 else cell for zone, cell in enumerate(memory.cells)),
        assignments=tuple(count + (block.mask >> zone & 1) for zone, count in enumerate(memory.assignments)),
        reusable={**memory.reusable, key: _left_over(left_over, block)},
        blocks=(*_shrunken(memory.blocks, block), block),
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
        yield replace(block, size=block.size - used) if used else block


def _release(memory: Memory, block: Block) -> Memory:
    name, rest = block.resource, block.size
    counts, cells, free = list(memory.assignments), list(memory.cells), list(memory.free[name])
    for zone in masks.members(block.mask):
        counts[zone] -= 1
        cells[zone] = cells[zone] if counts[zone] else 1 << zone
        back = min(memory.allocatable[name][zone] - free[zone], rest)
        free[zone], rest = free[zone] + back, rest - back
    return replace(
        memory, free={**memory.free, name: tuple(free)}, cells=tuple(cells), assignments=tuple(counts)
    )
