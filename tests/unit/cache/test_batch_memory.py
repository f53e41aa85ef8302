"""Memory in columns is the memory of the rules, row by row and container after container."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache import batch_hint_sets, batch_memory
from numalign.cache.arrays import Ints
from numalign.cache.batch_memory import MemoryAllocation, MemoryColumns
from numalign.cache.layout import MOST_BYTES, MOST_ZONES
from numalign.kubelet import memory_manager
from numalign.kubelet.memory_manager import MemoryState
from numalign.kubelet.topology_manager import TopologyHint
from numalign.kubelet.zone_amounts import ZoneAmounts
from numalign.model.bitset import bits
from numalign.model.demand import Step
from numalign.model.node import MemoryManager, Node
from numalign.model.pod import Role
from numalign.model.resources import MEMORY, Resources
from tests.laws.fleets import FEW, OFTEN, SELDOM, UNITS, Pick, counted, drawn, seeded, worn
from tests.worlds.columns import hint_sets_of
from tests.worlds.notation import HUGE, HUGE_2M, asks, node, table

GIB = 2**30


def columns(*states: MemoryState) -> MemoryColumns:
    names = {name for state in states for name in state.allocatable}
    nothing = (0,) * len(states[0].cells)
    return MemoryColumns(
        {name: by_zone([state.allocatable.get(name, nothing) for state in states]) for name in names},
        {name: by_zone([state.free.get(name, nothing) for state in states]) for name in names},
        by_zone([state.cells for state in states]),
        np.array([used(state) for state in states]),
    )


def by_zone(rows: Sequence[ZoneAmounts]) -> Ints:
    return np.array(rows, dtype=np.int64).T


def used(state: MemoryState) -> int:
    return bits(zone for zone, _ in state.groups)


def memory_of(*nodes: Node) -> list[MemoryState]:
    return [state for node in nodes if (state := memory_manager.state(node))]


def step_of(text: str) -> Step:
    """A step of a Guaranteed pod: `init mem=6Gi`."""
    [step] = asks(f"{text} cpu=500m").steps
    return step


def affinity_of(text: str) -> TopologyHint:
    """An affinity as hints are written; `-` if none is stored."""
    mask = text.removesuffix("p")
    return TopologyHint(None if mask == "-" else int(mask, 2), preferred=text.endswith("p"))


def allocated(
    memory: MemoryColumns, step: Step, affinities: Sequence[TopologyHint], where: Sequence[bool]
) -> MemoryAllocation:
    return batch_memory.allocate(
        memory,
        step,
        np.array([-1 if hint.mask is None else hint.mask for hint in affinities]),
        np.array([hint.preferred for hint in affinities]),
        np.array(where),
    )


def written(allocation: MemoryAllocation) -> list[int | None]:
    """By row the set of zones, None where the step is refused."""
    rows = zip(allocation.mask.tolist(), allocation.ok.tolist(), strict=True)
    return [mask if ok else None for mask, ok in rows]


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


@pytest.mark.parametrize(("step", "affinity", "masks"), table(ALLOCATED))
def test_memory_is_allocated_from(step: str, affinity: str, masks: list[int | None]) -> None:
    memory = columns(*memory_of(EVEN, HALF, SINGLE, JOINED))

    assert written(allocated(memory, step_of(step), [affinity_of(affinity)] * 4, [True] * 4)) == masks


# Laws.


class Story(NamedTuple):
    """Nodes, and containers one after another: by node the affinity, and whether the manager is asked."""

    states: list[MemoryState]
    steps: list[tuple[Step, list[tuple[TopologyHint, bool]]]]


def stories(pick: Pick) -> Iterator[Story]:
    kinds = [counted(pick) for _ in range(pick([1, 2, 5]))]
    by_count = defaultdict[int, list[MemoryState]](list)
    for kind in kinds:
        for one in (kind, worn(pick, kind), worn(pick, kind), worn(pick, kind)):
            if len(one.zones) <= MOST_ZONES and _is_sizable(one):
                states = memory_of(replace(one, memory_manager=MemoryManager.STATIC))
                by_count[len(one.zones)] += [_strangely_grouped(pick, state) for state in states]
    for zones, states in by_count.items():
        steps = [_step(pick, f"c{at}") for at in range(pick([2, 3]))]
        rows = [(step, [(_affinity(pick, zones), not pick(SELDOM)) for _ in states]) for step in steps]
        yield Story(states, rows)


def _strangely_grouped(pick: Pick, state: MemoryState) -> MemoryState:
    """Sometimes with zones in groups of which they are no part, as no kubelet has them."""
    return state._replace(cells=state.cells[::-1]) if pick(SELDOM) else state


def _is_sizable(node: Node) -> bool:
    amounts = (bag.values() for zone in node.zones for bag in (zone.allocatable, zone.free))
    return max(chain.from_iterable(amounts), default=0) <= MOST_BYTES


def _step(pick: Pick, name: str) -> Step:
    names = pick([(MEMORY,), (MEMORY,), (MEMORY,), (MEMORY, HUGE), (MEMORY, HUGE, HUGE_2M), ()])
    memory = {name: pick(FEW) * UNITS[name] - (name == MEMORY and pick([0, 0, 1])) for name in names}
    role = pick([Role.INIT, Role.APP, Role.INIT, Role.SIDECAR])
    return Step(name, role, memory=Resources(memory), managed=True)


def _affinity(pick: Pick, zones: int) -> TopologyHint:
    lowest = [1 << at for at in range(zones)]
    mask = pick([None, *lowest]) if pick(OFTEN) else pick(range(1, 1 << zones))
    return TopologyHint(mask, preferred=pick([False, True]))


@given(drawn(lambda pick: list(stories(pick))))
def test_memory_is_that_of_the_rules(some: list[Story]) -> None:
    for story in some:
        compare(story)


@given(st.integers(0, 2**32))
def test_memory_of_many_nodes_is_that_of_the_rules(seed: int) -> None:
    for at in range(1, 5):
        for story in seeded(lambda pick: list(stories(pick)), seed + at):
            compare(story)


def compare(story: Story) -> None:
    states, memory = list(story.states), columns(*story.states)
    for step, rows in story.steps:
        assert_same_hints(memory, states, step)
        affinities, where = zip(*rows, strict=True)
        allocation = allocated(memory, step, affinities, where)
        for row, affinity in enumerate(affinities):
            after = memory_manager.allocate(states[row], step, affinity) if where[row] else states[row]
            assert allocation.ok[row] == (after is not None)
            states[row] = after or states[row]
            masks = {block.mask for block in states[row].blocks if block.container == step.container}
            assert masks == ({allocation.mask[row]} - {0})
        memory = allocation.after
        assert_same(memory, states)


def assert_same_hints(memory: MemoryColumns, states: Sequence[MemoryState], step: Step) -> None:
    possible, width = batch_memory.hints(memory, step.memory)
    hints = zip(hint_sets_of(possible), hint_sets_of(batch_hint_sets.of_width(possible, width)), strict=True)
    assert [[both] * len(step.memory) if both[0] else [] for both in hints] == [
        [(hint.possible, hint.preferred) for hint in memory_manager.topology_hints(state, step.memory)]
        for state in states
    ]
    assert width.tolist() == [memory_manager.min_affinity_size(state, step.memory) for state in states]


def assert_same(memory: MemoryColumns, states: Sequence[MemoryState]) -> None:
    nothing = (0,) * memory.zones
    for name, free in memory.free.items():
        assert free.T.tolist() == [list(state.free.get(name, nothing)) for state in states]
    assert memory.cells.T.tolist() == [list(state.cells) for state in states]
    assert memory.used.tolist() == [used(state) for state in states]
    for row, state in enumerate(states):
        reusable = [(mask[row], name, amount[row]) for name, mask, amount in memory.reusable if mask[row]]
        assert sorted(((mask, name), amount) for mask, name, amount in reusable if amount) == sorted(
            (key, amount) for key, amount in state.reusable.items() if amount
        )
