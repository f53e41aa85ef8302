"""
The memory manager under policy Static on many nodes at once.

Restates `kubelet.memory_manager`, which names the kubelet's functions, for nodes with the same number of
zones. One set of zones is bits by row, many sets are a lattice (`batch_hint_sets`). No zone may have 2^59
bytes or more. A node without a resource has 0 of it, because no container requests 0.

The zones of a container's memory are those that `allocate` chose, even if its block is used up later: a later
container can reuse what an init container left, but the rules still count the empty block (`Grant.zones_of`).
Once all containers run, the blocks of init containers are gone (`containers_started`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from numalign.cache import batch_hint_sets
from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.batch_hint_sets import MOST_ASKED
from numalign.kubelet.topology_manager import NumaInfo
from numalign.model.demand import Step
from numalign.model.pod import Role


class ReusableMemory(NamedTuple):
    """What an init container leaves to later containers of the pod on exactly the same zones.

    By row, `mask` is the set of these zones, 0 where it leaves nothing, and `amount` is in bytes. No row has
    two entries of one resource for the same set.
    """

    resource: str
    mask: Ints
    amount: Ints


@dataclass(frozen=True, slots=True, eq=False)
class MemoryColumns:
    """Bytes of every memory resource by zone, the groups of zones, and reusable memory (`MemoryState`).

    `allocatable` and `free` are by name, (zones, rows), of 64 bits. `cells` is the group of each zone as a
    set of zones, (zones, rows); a zone without a known group is a group of its own. `used` are the zones with
    a block, as bits by row. Arrays are never changed in place.
    """

    allocatable: Mapping[str, Ints]
    free: Mapping[str, Ints]
    cells: Ints
    used: Ints
    reusable: tuple[ReusableMemory, ...] = ()

    @property
    def zones(self) -> int:
        """The number of zones of each node."""
        return len(self.cells)

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.used)

    def at(self, rows: Rows) -> "MemoryColumns":
        """Return the same for some of these rows."""
        return MemoryColumns(
            {name: amounts.take(rows, axis=1) for name, amounts in self.allocatable.items()},
            {name: amounts.take(rows, axis=1) for name, amounts in self.free.items()},
            self.cells.take(rows, axis=1),
            self.used[rows],
            tuple(ReusableMemory(name, mask[rows], amount[rows]) for name, mask, amount in self.reusable),
        )


class MemoryAllocation(NamedTuple):
    """The result of an allocation for one step, by row.

    `mask` is the set of zones of its blocks, 0 where it gets none. Where it is not `ok`, the kubelet's
    Allocate fails under any policy, and `after` is the state before.
    """

    after: MemoryColumns
    mask: Ints
    ok: Bools


def hints(memory: MemoryColumns, request: Mapping[str, int]) -> tuple[Bools, Ints]:
    """Return the sets of zones that can serve a request, (2^zones, rows), and the preferred width by row.

    The hints are the same under every requested name; those of that width are preferred. Where no set can
    serve the request, the memory manager has no preference: it returns no list of hints, not an empty one.
    For an empty request it never returns a list.
    """
    possible, width = large_enough(memory, request)
    if not request:
        return np.zeros_like(possible), width
    if memory.used.any():
        possible &= _open(memory)
    for name, size in request.items():
        possible &= _available(memory, name, size)
    return possible, width


def large_enough(memory: MemoryColumns, request: Mapping[str, int]) -> tuple[Bools, Ints]:
    """Return the sets of zones with enough allocatable memory for a request, and their least width by row.

    Both stay the same as long as allocatable amounts do. Where there is no set, the width is all zones.
    """
    enough = np.ones((1 << memory.zones, memory.count), dtype=np.bool_)
    enough[0] = False
    for name, size in request.items():
        enough &= batch_hint_sets.reaching(_amounts(memory, memory.allocatable, name), size)
    return enough, batch_hint_sets.narrowest_width(enough, memory.zones)


def allocate(
    memory: MemoryColumns, step: Step, mask: Ints, preferred: Bools, asked: Bools
) -> MemoryAllocation:
    """Allocate a block for every name of a step on the `asked` rows, as `memory_manager.allocate`.

    `mask` and `preferred` are the affinity by row: at least one zone, or -1 where none is stored. Rows that
    are not `asked` (the manager is off, or ignores the pod) are unchanged, and ok. A step without memory
    fails where no affinity is stored, and else only where the affinity violates a group.
    """
    request = step.memory
    stays = (mask > 0) & _satisfies(memory, request, mask)
    chosen = np.where(asked, mask, 0)
    others = np.flatnonzero(asked & ~stays)
    if len(others):
        chosen[others] = _best_around(memory.at(others), request, mask[others], preferred[others])
    ok = (chosen > 0) & ~_violates_group(memory.cells, memory.used, chosen)
    taken = np.where(ok, chosen, 0) if request else np.zeros_like(chosen)
    return MemoryAllocation(_with_blocks(memory, step, taken), taken, ok | ~asked)


def _available(memory: MemoryColumns, name: str, size: int) -> Bools:
    """Return the sets of zones with enough free memory, or with what init containers left to exactly them."""
    free = _amounts(memory, memory.free, name)
    enough = batch_hint_sets.reaching(free, size)
    for resource, mask, amount in memory.reusable:
        if resource == name:
            rows = np.flatnonzero(_total(free, mask) + amount >= min(size, MOST_ASKED))
            # Where nothing is left this may be the empty set, which `large_enough` rules out.
            enough[mask[rows], rows] = True
    return enough


def _open(memory: MemoryColumns) -> Bools:
    """Return the usable sets of zones: one outside any group, several unused ones, or a whole group."""
    opened, cells = batch_hint_sets.apart(memory.used, memory.zones), memory.cells
    sizes = np.bitwise_count(cells)
    for zone, cell in enumerate(cells):
        # As long as no zone has a block, groups do not matter.
        opened[1 << zone] = (sizes[zone] <= 1) | (memory.used == 0)
        # A group without blocks is several unused zones, or has a zone that serves another set.
        rows = np.flatnonzero((sizes[zone] > 1) & ~_violates_group(cells, memory.used, cell))
        opened[cell[rows], rows] = True
    return opened


def _violates_group(cells: Ints, used: Ints, mask: Ints) -> Bools:
    """Return whether a block over several zones would include one that serves another set, by row."""
    touched = batch_hint_sets.members(mask & used, len(cells))
    violated: Bools = (touched & (cells != mask)).any(axis=0) & (np.bitwise_count(mask) > 1)
    return violated


def _best_around(memory: MemoryColumns, request: Mapping[str, int], mask: Ints, preferred: Bools) -> Ints:
    """Return the best set that contains an affinity (any, if -1), by row; 0 if it would be worse."""
    possible, width = hints(memory, request)
    possible &= batch_hint_sets.around(np.maximum(mask, 0), memory.zones)
    best = batch_hint_sets.best(possible, batch_hint_sets.by_preference(NumaInfo(memory.zones)))
    # No set is narrower than the preferred width, so the best set is preferred if any is.
    chosen: Ints = np.where(preferred & (np.bitwise_count(best) != width), 0, best)
    return chosen


def _satisfies(memory: MemoryColumns, request: Mapping[str, int], mask: Ints) -> Bools:
    """Return whether all requested memory is free in these zones, by row."""
    satisfied = np.ones(memory.count, dtype=np.bool_)
    for name, size in request.items():
        satisfied &= _total(_amounts(memory, memory.free, name), mask) >= min(size, MOST_ASKED)
    return satisfied


def _total(amounts: Ints, mask: Ints) -> Ints:
    """Return the total of the zones in the set of each row."""
    total: Ints = np.where(batch_hint_sets.members(mask, len(amounts)), amounts, 0).sum(axis=0)
    return total


def _amounts(memory: MemoryColumns, amounts: Mapping[str, Ints], name: str) -> Ints:
    """Return the amounts of a resource by zone; zeros if no zone lists it."""
    listed = amounts.get(name)
    return np.zeros((memory.zones, memory.count), dtype=np.int64) if listed is None else listed


def _with_blocks(memory: MemoryColumns, step: Step, mask: Ints) -> MemoryColumns:
    """Return the memory with a block for every name on these zones, which become a group; 0 means none."""
    if not mask.any():
        return memory
    after = replace(
        memory,
        cells=np.where(batch_hint_sets.members(mask, memory.zones), mask, memory.cells),
        used=memory.used | mask,
    )
    for name, size in step.memory.items():
        after = _with_block(after, name, size, mask, step.role)
    return after


def _with_block(memory: MemoryColumns, name: str, size: int, mask: Ints, role: Role) -> MemoryColumns:
    """Restate updateMachineState: reusable memory is taken first, and then the lowest zone gives."""
    left = [each for each in memory.reusable if each.resource == name]
    same = [each.mask == mask for each in left]
    found = np.zeros(memory.count, dtype=np.int64)
    for each, here in zip(left, same, strict=True):
        found += each.amount * here
    # Init containers run one after another, so the largest of their blocks is reusable.
    again = np.maximum(found, size) if role is Role.INIT else np.maximum(found - size, 0)
    kept = [
        each._replace(amount=np.where(here, again, each.amount))
        for each, here in zip(left, same, strict=True)
    ]
    if role is Role.INIT:
        kept.append(ReusableMemory(name, np.where(np.logical_or.reduce(same), 0, mask), again))
    others = (each for each in memory.reusable if each.resource != name)
    free = _drawn(memory.free[name], mask, np.maximum(size - found, 0))
    return replace(memory, free={**memory.free, name: free}, reusable=(*others, *kept))


def _drawn(free: Ints, mask: Ints, missing: Ints) -> Ints:
    """Return what each zone has left after the zones of the set have given the missing amount in turn."""
    left = free.copy()
    for zone, inside in zip(left, batch_hint_sets.members(mask, len(free)), strict=True):
        taken = np.minimum(zone, missing) * inside
        np.subtract(zone, taken, out=zone)
        missing = missing - taken
    return left
