"""Memory in columns is the memory of the rules, row by row and container after container."""

from collections.abc import Sequence

import numpy as np
import pytest

from numalign.cache import batch_memory
from numalign.cache.arrays import Ints
from numalign.cache.batch_memory import MemoryAllocation, MemoryColumns
from numalign.kubelet import memory_manager
from numalign.kubelet.bitmask import ZoneAmounts
from numalign.kubelet.memory_manager import MemoryState
from numalign.kubelet.topology_manager import TopologyHint
from numalign.model.bitset import bits
from numalign.model.demand import Step
from tests.worlds.columns import masks_of
from tests.worlds.notation import asks, node, table

GIB = 2**30


def columns(*states: MemoryState) -> MemoryColumns:
    names = {name for state in states for name in state.allocatable}
    nothing = (0,) * len(states[0].cells)
    return MemoryColumns(
        {name: by_zone([state.allocatable.get(name, nothing) for state in states]) for name in names},
        {name: by_zone([state.free.get(name, nothing) for state in states]) for name in names},
        by_zone([state.cells for state in states]),
        np.array([bits(zone for zone, _ in state.groups) for state in states]),
    )


def by_zone(rows: Sequence[ZoneAmounts]) -> Ints:
    return np.array(rows, dtype=np.int64).T


def step_of(text: str) -> Step:
    """A step of a Guaranteed pod: `init mem=6Gi`."""
    [step] = asks(f"{text} cpu=500m").steps
    return step


def allocated(memory: MemoryColumns, step: Step, affinity: TopologyHint) -> MemoryAllocation:
    rows, mask = memory.count, -1 if affinity.mask is None else affinity.mask
    every = np.ones(rows, dtype=np.bool_)
    return batch_memory.allocate(memory, step, np.array([mask] * rows), every & affinity.preferred, every)


EVEN = node("mem=10Gi", "mem=10Gi")
HALF = node("mem=10Gi//4Gi", "mem=10Gi//4Gi")
SINGLE = node("mem=10Gi//8Gi", "mem=10Gi", blocks=[(0,)])
JOINED = node("mem=10Gi//5Gi", "mem=10Gi//5Gi", blocks=[(0, 1)])


ALLOCATED = [
    # what it shows                                  step        affinity  even, half, single, joined
    ("its affinity, if it has room",                 "mem=3Gi",  "10",     [0b10, 0b10, 0b10, 0b10]),
    ("a wider set around it, unless groups forbid",  "mem=6Gi",  "1",      [0b01, 0b11, 0b01, 0b11]),
    ("nothing, if that is not what was promised",    "mem=6Gi",  "1p",     [0b01, None, 0b01, None]),
    ("without an affinity the best there is",        "mem=9Gi",  "-",      [0b01, None, 0b10, 0b11]),
    ("nothing across a zone with its own block",     "mem=4Gi",  "11",     [0b11, 0b11, None, 0b11]),
    ("nothing of pages that no zone has",   "mem=1Gi huge=1Gi", "1",      [None, None, None, None]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "affinity", "masks"), table(ALLOCATED))
def test_memory_is_allocated_from(text: str, affinity: str, masks: list[int | None]) -> None:
    """An affinity is written as its mask with a `p` if it is preferred; `-` if none is stored."""
    states = [state for one in (EVEN, HALF, SINGLE, JOINED) if (state := memory_manager.state(one))]
    mask, step = affinity.removesuffix("p"), step_of(text)
    hint = TopologyHint(None if mask == "-" else int(mask, 2), preferred=affinity.endswith("p"))
    allocation = allocated(columns(*states), step, hint)
    by_rules = [memory_manager.allocate(state, step, hint) for state in states]

    assert allocation.ok.tolist() == [after is not None for after in by_rules]
    for row, after in enumerate(by_rules):
        assert masks[row] == (allocation.mask[row] if after else None)
        assert {block.mask for block in after.blocks if block.container} == {masks[row]} if after else True


def test_memory_of_init_containers_is_reused_on_its_zones() -> None:
    (state,) = filter(None, [memory_manager.state(EVEN)])
    before, affinity = columns(state), TopologyHint(0b01, preferred=True)
    after = allocated(before, step_of("init mem=6Gi"), affinity).after
    hints = [masks_of(batch_memory.hints(memory, step_of("mem=9Gi").memory)[0]) for memory in (before, after)]

    assert hints == [[[0b01, 0b10, 0b11]], [[0b01, 0b10]]]
    assert allocated(after, step_of("mem=6Gi"), affinity).after.free["memory"].tolist() == [
        [4 * GIB],
        [10 * GIB],
    ]
