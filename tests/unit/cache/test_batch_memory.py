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
from numalign.kubelet.admit import admit
from numalign.kubelet.memory_manager import MemoryState
from numalign.kubelet.topology_manager import TopologyHint
from numalign.kubelet.zone_amounts import ZoneAmounts
from numalign.model.bitset import bits
from numalign.model.demand import Step
from numalign.model.node import MemoryManager, Node
from numalign.model.pod import Role
from numalign.model.resources import MEMORY, Resources
from tests.laws.fleets import FEW, OFTEN, SELDOM, UNITS, Pick, counted, drawn, seeded, worn
from tests.worlds.lattices import hint_sets_of
from tests.worlds.notation import HUGE, HUGE_2M, asks, node, table

GIB = 2**30
NONE = TopologyHint(None, preferred=False)


def columns(*states: MemoryState) -> MemoryColumns:
    """The memory of nodes with as many zones each."""
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
    return [state for one in nodes if (state := memory_manager.state(one))]


def wants(text: str) -> Step:
    """A step of a Guaranteed pod: `init mem=6Gi`."""
    [step] = asks(f"{text} cpu=500m").steps
    return step


def affinity_of(text: str) -> TopologyHint:
    """An affinity as hints are written; `-` if none is stored."""
    mask = text.removesuffix("p")
    return TopologyHint(None if mask == "-" else int(mask, 2), preferred=text.endswith("p"))


def allocated(memory: MemoryColumns, step: Step, *affinities: TopologyHint) -> MemoryAllocation:
    """What a step comes to that every row is asked for."""
    return asked(memory, step, affinities, [True] * len(affinities))


def asked(
    memory: MemoryColumns, step: Step, affinities: Sequence[TopologyHint], where: Sequence[bool]
) -> MemoryAllocation:
    """What a step comes to that some rows are asked for."""
    return batch_memory.allocate(
        memory,
        step,
        np.array([-1 if hint.mask is None else hint.mask for hint in affinities]),
        np.array([hint.preferred for hint in affinities]),
        np.array(where),
    )


def written(allocation: MemoryAllocation) -> list[int | None]:
    """By row the set of zones, None where the step is refused."""
    return [
        mask if ok else None
        for mask, ok in zip(allocation.mask.tolist(), allocation.ok.tolist(), strict=True)
    ]


EVEN = node("mem=10Gi", "mem=10Gi")
HALF = node("mem=10Gi//4Gi", "mem=10Gi//4Gi")
SINGLE = node("mem=10Gi//8Gi", "mem=10Gi", blocks=[(0,)])
JOINED = node("mem=10Gi//5Gi", "mem=10Gi//5Gi", blocks=[(0, 1)])


def test_hints_are_told_by_row_with_the_width_that_is_preferred() -> None:
    possible, width = batch_memory.hints(columns(*memory_of(EVEN, HALF, SINGLE, JOINED)), {MEMORY: 6 * GIB})

    assert hint_sets_of(possible) == [0b1110, 0b1000, 0b0110, 0b1000]
    assert width.tolist() == [1, 1, 1, 1], "by what is allocatable, used or not"


def test_there_is_no_opinion_on_what_no_zones_can_serve() -> None:
    memory = columns(*memory_of(EVEN, HALF))

    assert hint_sets_of(batch_memory.hints(memory, {MEMORY: 9 * GIB})[0]) == [0b1110, 0]
    assert hint_sets_of(batch_memory.hints(memory, {MEMORY: GIB, HUGE: GIB})[0]) == [0, 0]
    assert hint_sets_of(batch_memory.hints(memory, {})[0]) == [0, 0]


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

    assert written(allocated(memory, wants(step), *[affinity_of(affinity)] * 4)) == masks


def test_who_asks_for_no_memory_takes_none_and_can_be_refused() -> None:
    memory, nothing = columns(*memory_of(EVEN, SINGLE)), replace(wants("mem=1Gi"), memory=Resources())

    assert written(allocated(memory, nothing, NONE, NONE)) == [None, None]
    across = allocated(memory, nothing, affinity_of("11"), affinity_of("11"))
    assert written(across) == [0, None]
    assert across.after is memory


def test_who_is_not_asked_is_left_alone() -> None:
    memory, one = columns(*memory_of(HALF, HALF)), affinity_of("1")

    allocation = asked(memory, wants("mem=2Gi"), [one, one], [True, False])
    assert written(allocation) == [0b01, 0]
    assert (allocation.after.free[MEMORY].T // GIB).tolist() == [[2, 4], [4, 4]]
    assert written(asked(memory, wants("mem=9Gi"), [one, one], [False, False])) == [0, 0]


def test_what_an_init_container_had_is_taken_again_on_the_very_same_zones() -> None:
    first = allocated(columns(*memory_of(EVEN, EVEN)), wants("init mem=8Gi"), *[affinity_of("1")] * 2)

    second = allocated(first.after, wants("mem=9Gi"), affinity_of("1"), affinity_of("10"))
    assert written(second) == [0b01, 0b10]
    assert (second.after.free[MEMORY].T // GIB).tolist() == [[1, 10], [2, 1]]


def test_rows_can_be_picked() -> None:
    memory = allocated(
        columns(*memory_of(EVEN, HALF, SINGLE)), wants("init mem=2Gi"), *map(affinity_of, ("1", "10", "11"))
    ).after

    picked = memory.at(np.array([2, 1]))
    assert (picked.free[MEMORY].T // GIB).tolist() == [[8, 10], [4, 2]]
    assert (picked.allocatable[MEMORY].T // GIB).tolist() == [[10, 10], [10, 10]]
    assert (picked.cells.T.tolist(), picked.used.tolist()) == ([[1, 2], [1, 2]], [1, 2])
    assert [(left.mask.tolist(), left.amount.tolist()) for left in picked.reusable] == [
        ([0, 2], [2 * GIB, 2 * GIB])
    ]


def test_memory_counts_as_that_of_its_zones_whoever_takes_it_again() -> None:
    """So a step has memory of the zones that were chosen for it, until init containers are dropped."""
    first, second = admit(EVEN, asks("init mem=8Gi cpu=500m | mem=8Gi cpu=500m")).placement.grants
    assert first.amounts == {(0,): Resources({MEMORY: 0})}
    assert first.zones_of([MEMORY]) == second.zones_of([MEMORY]) == {0}


# Against the rules.


class Story(NamedTuple):
    """Nodes, and containers that come one after another: by node the affinity, and whether it is asked."""

    states: list[MemoryState]
    steps: list[tuple[Step, list[tuple[TopologyHint, bool]]]]


def story(pick: Pick) -> Iterator[Story]:
    """Stories of nodes with as many zones each, worn and grouped."""
    kinds = [counted(pick) for _ in range(pick([1, 2, 5]))]
    by_count = defaultdict[int, list[MemoryState]](list)
    for kind in kinds:
        for one in (kind, worn(pick, kind), worn(pick, kind), worn(pick, kind)):
            if len(one.zones) <= MOST_ZONES and _is_sizable(one):
                states = memory_of(replace(one, memory_manager=MemoryManager.STATIC))
                by_count[len(one.zones)] += [_strangely_grouped(pick, state) for state in states]
    for zones, states in by_count.items():
        steps = [_step(pick, f"c{at}") for at in range(pick([2, 3]))]
        told = [(step, [(_affinity(pick, zones), not pick(SELDOM)) for _ in states]) for step in steps]
        yield Story(states, told)


def _strangely_grouped(pick: Pick, state: MemoryState) -> MemoryState:
    """Sometimes with zones in groups of which they are no part, as no kubelet has them."""
    return state._replace(cells=state.cells[::-1]) if pick(SELDOM) else state


def _is_sizable(one: Node) -> bool:
    amounts = (bag.values() for zone in one.zones for bag in (zone.allocatable, zone.free))
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


@given(drawn(lambda pick: list(story(pick))))
def test_memory_is_that_of_the_rules(stories: list[Story]) -> None:
    for told in stories:
        compare(told)


@given(st.integers(0, 2**32))
def test_memory_is_that_of_the_rules_on_many_nodes(seed: int) -> None:
    for _ in range(4):
        seed += 1
        for told in seeded(lambda pick: list(story(pick)), seed):
            compare(told)


def compare(told: Story) -> None:
    states, memory = list(told.states), columns(*told.states)
    for step, told_by_row in told.steps:
        assert_same_hints(memory, states, step)
        affinities, where = zip(*told_by_row, strict=True)
        allocation = asked(memory, step, affinities, where)
        for row, affinity in enumerate(affinities):
            after = memory_manager.allocate(states[row], step, affinity) if where[row] else states[row]
            assert allocation.ok[row] == (after is not None)
            states[row] = after or states[row]
            given = {block.mask for block in states[row].blocks if block.container == step.container}
            assert given == ({allocation.mask[row]} - {0})
        memory = allocation.after
        assert_same(memory, states)


def assert_same_hints(memory: MemoryColumns, states: Sequence[MemoryState], step: Step) -> None:
    possible, width = batch_memory.hints(memory, step.memory)
    hints = zip(
        hint_sets_of(possible),
        hint_sets_of(batch_hint_sets.of_width(possible, width)),
        strict=True,
    )
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
        left = [(mask[row], name, amount[row]) for name, mask, amount in memory.reusable if mask[row]]
        assert sorted(((mask, name), amount) for mask, name, amount in left if amount) == sorted(
            (key, amount) for key, amount in state.reusable.items() if amount
        )
