"""CPUs in columns are those that the CPU manager gives out on each node."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache import batch_cpus
from numalign.cache.arrays import Bools, Ints
from numalign.cache.batch_cpus import CpuAllocation, CpuColumns
from numalign.kubelet import cpu_manager, hint_sets
from numalign.kubelet.admission_errors import RejectionReason
from numalign.kubelet.cpu_manager import CpuState
from numalign.model.bitset import bits, members
from numalign.model.demand import Step
from numalign.model.machine import CpuSet, Stock, read_list
from numalign.model.node import CpuManager, Node
from numalign.model.options import DEFAULTS, Options
from numalign.model.pod import Role
from numalign.model.resources import CPU, MILLI
from tests.laws.fleets import OFTEN, SOMETIMES, Pick, drawn, seeded
from tests.worlds.notation import Ids, free_of, node, options, table

APP, INIT, SIDECAR = Role.APP, Role.INIT, Role.SIDECAR
ANY = -1
FULL_PCPUS_ONLY = options("full-pcpus-only")


def state(one: Node) -> CpuState:
    """The CPUs of a node on which the manager is on."""
    found = cpu_manager.state(one)
    assert found is not None
    return found


def cpus(*nodes: Node, sockets: Sequence[int], threads: int = 1) -> CpuColumns:
    """Nodes with as many zones in columns."""
    states = [state(one) for one in nodes]
    available = np.stack([by_core(each, each.free, threads) for each in states], axis=-1)
    split = [by_core(each, each.free & ~cpu_manager.whole_cores(each), threads) for each in states]
    return CpuColumns(
        np.array([each.topology.sizes for each in states]).T,
        tuple(sockets),
        available,
        np.zeros_like(available),
        np.stack(split, axis=-1),
    )


def by_core(each: CpuState, held: CpuSet, threads: int) -> Ints:
    """CPUs of a node by core."""
    return batch_cpus.by_core(each.topology, held, threads)


def socketed(*zones: str, sockets: Sequence[int], threads: int = 1, held: Options = DEFAULTS) -> Node:
    """A node whose zones share these sockets."""
    every = range(len(zones))
    near: dict[Ids, int] = {
        (one, two): 10 if sockets[one] == sockets[two] else 21 for one in every for two in every
    }
    return node(*zones, cpu_manager=CpuManager.STATIC, costs=near, threads=threads, options=held)


def allocated(columns: CpuColumns, *requests: int, mask: int = ANY, role: Role = APP) -> list[list[int]]:
    """What several containers get on the first row, by zone."""
    found = []
    for request in requests:
        columns, taken, _ = batch_cpus.allocate(columns, request, np.array([mask]), role)
        found.append(taken[:, 0].tolist())
    return found


def masks_of(lattice: Bools) -> list[list[int]]:
    return [np.flatnonzero(sets).tolist() for sets in lattice.T]


# Hints.


def test_hints_are_the_sets_of_zones_with_enough_cpus() -> None:
    nodes = (node("cpu=4/4/2", "cpu=4/4/3"), node("cpu=4/4/1", "cpu=4/4/1"), node("cpu=4", "cpu=0"))

    found = batch_cpus.hints(cpus(*nodes, sockets=(0, 1)), 3)

    assert masks_of(found) == [[2, 3], [], [1]]


def test_hints_keep_to_what_init_containers_left() -> None:
    columns = cpus(node("cpu=4", "cpu=4"), sockets=(0, 1))
    after, _, _ = batch_cpus.allocate(columns, 2, np.array([0b10]), INIT)

    assert masks_of(batch_cpus.hints(after, 1)) == [[2, 3]]
    assert masks_of(batch_cpus.hints(after, 4)) == [[2, 3]]


# What is taken.


USED = ["cpu=4", "cpu=4/4/1", "cpu=4/4/2", "cpu=4/4/2"]


@pytest.mark.parametrize(
    ("zones", "sockets", "request_", "mask", "taken"),
    table(
        [
            ("those of the affinity", ["cpu=8", "cpu=8"], (0, 1), 3, 0b10, [0, 3]),
            ("then any", ["cpu=8", "cpu=8/8/2", "cpu=8"], (0, 1, 2), 4, 0b10, [2, 2, 0]),
            ("no affinity", ["cpu=8", "cpu=8/8/2", "cpu=8/8/1"], (0, 1, 2), 4, ANY, [1, 2, 1]),
            ("whole zones", ["cpu=8/8/2", "cpu=8", "cpu=8"], (0, 1, 2), 9, ANY, [1, 8, 0]),
            ("no zone that is kept", ["cpu=8/7", "cpu=8", "cpu=8/7"], (0, 1, 2), 8, ANY, [0, 8, 0]),
            ("whole sockets", ["cpu=4/4/1", "cpu=4", "cpu=4", "cpu=4"], (0, 0, 2, 2), 8, ANY, [0, 0, 4, 4]),
            ("the lowest socket", ["cpu=4"] * 4, (0, 1, 1, 0), 8, ANY, [4, 0, 0, 4]),
            ("the lowest zone", ["cpu=0", "cpu=4", "cpu=4", "cpu=0"], (0, 1, 0, 1), 4, ANY, [0, 4, 0, 0]),
            ("the lowest of zones", ["cpu=0", "cpu=4", "cpu=4", "cpu=0"], (0, 1, 0, 1), 3, ANY, [0, 3, 0, 0]),
            ("the fullest socket", USED, (0, 0, 2, 2), 3, ANY, [0, 0, 2, 1]),
            ("the fullest zone", USED, (0, 1, 2, 3), 3, ANY, [0, 1, 2, 0]),
        ]
    ),
)
def test_cpus_come_from(
    zones: list[str], sockets: tuple[int, ...], request_: int, mask: int, taken: list[int]
) -> None:
    one = socketed(*zones, sockets=sockets)

    assert allocated(cpus(one, sockets=sockets), request_, mask=mask) == [taken]


def test_a_request_is_one_for_all_rows_or_one_for_each() -> None:
    columns = cpus(*[node("cpu=4", "cpu=4")] * 3, sockets=(0, 1))
    every = np.array([ANY, 0b10, 0b10])

    found = batch_cpus.allocate(columns, np.array([0, 5, 9]), every, APP)

    assert found.taken.T.tolist() == [[0, 0], [1, 4], [0, 0]]
    assert found.ok.tolist() == [True, True, False]
    assert batch_cpus.allocate(columns, 2, every, APP).taken.T.tolist() == [[2, 0], [0, 2], [0, 2]]


def test_what_init_containers_had_is_taken_again() -> None:
    columns = cpus(node("cpu=4", "cpu=4"), sockets=(0, 1))

    assert allocated(columns, 3, 4, mask=0b01, role=INIT) == [[3, 0], [4, 0]]
    assert allocated(columns, 3, 4, mask=0b01, role=SIDECAR) == [[3, 0], [1, 3]]


def test_of_a_core_that_is_broken_into_only_what_init_containers_had_is_reusable() -> None:
    columns = cpus(node("cpu=4", "cpu=4", threads=2), sockets=(0, 1), threads=2)
    mask = np.array([0b01])
    after, _, _ = batch_cpus.allocate(columns, 1, mask, INIT)

    assert after.reusable.sum(axis=0).tolist() == [[1], [0]]
    assert batch_cpus.allocate(after, 1, mask, APP).after.reusable.sum() == 0


def test_cores_that_are_broken_into_are_used_up_first() -> None:
    columns = cpus(node("cpu=8", "cpu=8", threads=2), sockets=(0, 1), threads=2)

    assert allocated(columns, 1, 3, 3, 1) == [[1, 0], [3, 0], [3, 0], [1, 0]]


def test_rows_can_be_taken_out() -> None:
    columns = cpus(*(node(text, "cpu=4") for text in ("cpu=4/4/1", "cpu=4/4/2", "cpu=4/4/3")), sockets=(0, 1))

    some = columns.at(np.array([2, 0]))

    assert some.available[0].tolist() == [[3, 1], [4, 4]]
    assert some.sizes.shape == (2, 2)
    assert batch_cpus.allocate(some, 3, np.array([ANY, ANY]), APP).taken.T.tolist() == [[3, 0], [1, 2]]


def test_numbers_stay_as_wide_as_they_are() -> None:
    wide = cpus(node("cpu=8/8/3", "cpu=8", threads=2), sockets=(0, 0), threads=2)
    counts = (each.astype(np.int32) for each in (wide.available, wide.reusable, wide.split))
    narrow = CpuColumns(wide.sizes.astype(np.int32), (0, 0), *counts)

    found = batch_cpus.allocate(narrow, 9, np.array([ANY], dtype=np.int16), APP)

    assert found.taken.T.tolist() == [[1, 8]]
    assert {each.dtype for each in (found.after.available, found.after.reusable)} == {np.dtype(np.int32)}


# Whole cores.


def test_cpus_of_a_core_that_is_split_with_the_system_are_not_whole_cores() -> None:
    columns = cpus(
        node("cpu=4/3", "cpu=4/4/3", threads=2, options=FULL_PCPUS_ONLY), sockets=(0, 1), threads=2
    )

    assert [bool(batch_cpus.breaks_cores(columns, request)[0]) for request in (1, 2, 4, 6)] == [
        True,
        False,
        False,
        True,
    ]


def test_a_core_that_is_split_with_the_system_stays_so_when_others_are_given_out() -> None:
    columns = cpus(*[node("cpu=4/3", "cpu=4/3", threads=2)] * 2, sockets=(0, 1), threads=2)
    mask = np.array([0b01, ANY])

    by_app = batch_cpus.allocate(columns, 2, mask, APP).after
    by_init = batch_cpus.allocate(columns, 3, mask, INIT).after

    assert [batch_cpus.breaks_cores(by_app, request).tolist() for request in (2, 4)] == [
        [False] * 2,
        [True] * 2,
    ]
    assert [batch_cpus.breaks_cores(by_init, request).tolist() for request in (2, 4)] == [
        [False] * 2,
        [True] * 2,
    ]


# By core.


def test_the_last_cpus_of_a_zone_are_free_where_only_amounts_are_known() -> None:
    found = batch_cpus.last_ones(np.array([[0, 1, 5], [4, 7, 8]]), 4)

    assert found.sum(axis=0).tolist() == [[0, 1, 5], [4, 7, 8]]
    assert found[:3].tolist() == [[[0, 1, 1], [0, 0, 0]], [[0, 0, 0]] * 2, [[0, 0, 0], [0, 3, 0]]]


def test_cpus_are_counted_by_what_their_core_has_of_them() -> None:
    topology = state(node("cpu=8", "cpu=8", threads=4)).topology

    assert batch_cpus.by_core(topology, read_list("0-3,5,9,11-15"), 4).tolist() == [
        [1, 0],
        [0, 2],
        [0, 0],
        [4, 4],
    ]


# Laws: rows are as the rules are, node by node.


SOCKETS = [
    (0, 1),
    (0, 0),
    (0,),
    (0, 1, 2, 3),
    (0, 0, 2, 2),
    (0, 1, 0, 1),
    (0, 1, 1, 0),
    (0, 0, 0, 3, 3, 3),
    (0, 0, 2, 2, 4, 4, 6, 6),
    (0, 1, 2, 3, 4, 5, 6, 7),
]
FEW_OR_MANY = [1, 2, 3, 1, 4, 5, 6, 8, 12, 17]


class Container(NamedTuple):
    """What one container asks, and its affinity on each of the nodes."""

    step: Step
    masks: tuple[int, ...]


class Case(NamedTuple):
    """Nodes that stand in the same columns, and containers of one pod."""

    nodes: tuple[Node, ...]
    sockets: tuple[int, ...]
    threads: int
    containers: tuple[Container, ...]

    @property
    def columns(self) -> CpuColumns:
        """The nodes before the first container."""
        return cpus(*self.nodes, sockets=self.sockets, threads=self.threads)


def case(pick: Pick, *, rows: Sequence[int] = (1, 2, 4)) -> Case:
    """A few rows, whose counterexamples Hypothesis can make small."""
    sockets, threads = pick(SOCKETS), pick([1, 2, 1, 2, 4])
    nodes = tuple(_even_node(pick, sockets, threads) for _ in range(pick(rows)))
    containers = tuple(_container(pick, len(sockets), len(nodes)) for _ in range(pick([1, 2, 3, 4])))
    return Case(nodes, sockets, threads, containers)


def _even_node(pick: Pick, sockets: tuple[int, ...], threads: int) -> Node:
    """A node with CPUs on as many zones of each socket that has any; some know which ones are free."""
    hosts = pick(_even_hosts(sockets)) if pick(SOMETIMES) else range(len(sockets))
    size = pick([1, 2, 3]) * threads
    zones = (_zone(pick, size) if at in hosts else "cpu=0" for at in range(len(sockets)))
    one = socketed(*zones, sockets=sockets, threads=threads, held=pick([DEFAULTS, FULL_PCPUS_ONLY]))
    if pick(OFTEN):
        return one
    found = state(one)
    most = found.topology.everything & ~found.reserved
    return replace(one, stock=Stock(bits(cpu for cpu in members(most) if pick(OFTEN))))


def _zone(pick: Pick, size: int) -> str:
    allocatable = pick([size, size, max(0, size - 1), size // 2])
    return f"cpu={size}/{allocatable}/{pick([allocatable, *range(allocatable)])}"


@lru_cache
def _even_hosts(sockets: tuple[int, ...]) -> list[list[int]]:
    every = (list(members(mask)) for mask in range(1, 1 << len(sockets)))
    return [hosts for hosts in every if len({*Counter(sockets[at] for at in hosts).values()}) == 1]


def _container(pick: Pick, zones: int, nodes: int) -> Container:
    step = Step("c", pick([APP, INIT, SIDECAR]), cpu=pick(FEW_OR_MANY) * MILLI)
    return Container(step, tuple(pick([ANY, *range(1, 1 << zones)]) for _ in range(nodes)))


def many_rows(seed: int) -> Case:
    """As many rows as meet every corner."""
    return seeded(lambda pick: case(pick, rows=[16]), seed)


cases = st.one_of(drawn(case), st.integers(0, 2**32).map(many_rows))


def admitted(asked: Case) -> Iterator[tuple[CpuColumns, list[CpuState], Container, CpuAllocation]]:
    """Each container: in columns and by the rules what is there before it, and what it gets in columns."""
    columns, states = asked.columns, [state(one) for one in asked.nodes]
    for container in asked.containers:
        found = batch_cpus.allocate(
            columns, container.step.cpu // MILLI, np.array(container.masks), container.step.role
        )
        yield columns, states, container, found
        columns = found.after
        states = [
            before if isinstance(given := by_rules(before, container, row), RejectionReason) else given[0]
            for row, before in enumerate(states)
        ]


def by_rules(
    before: CpuState, container: Container, row: int, told: Options = DEFAULTS
) -> tuple[CpuState, CpuSet] | RejectionReason:
    """What the rules give a container on one node, whose kubelet was told this."""
    mask = container.masks[row]
    return cpu_manager.allocate(before._replace(options=told), container.step, None if mask == ANY else mask)


@given(cases)
def test_every_container_gets_from_each_zone_what_the_rules_give_it(asked: Case) -> None:
    for _, states, container, found in admitted(asked):
        for row, before in enumerate(states):
            given_ = by_rules(before, container, row)
            refused = isinstance(given_, RejectionReason)
            taken = 0 if isinstance(given_, RejectionReason) else given_[1]

            assert bool(found.ok[row]) is not refused
            assert tuple(found.taken[:, row]) == cpu_manager.cpus_per_zone(before.topology, taken)


@given(cases)
def test_hints_are_those_of_the_rules(asked: Case) -> None:
    for columns, states, container, _ in admitted(asked):
        lattice = batch_cpus.hints(columns, container.step.cpu // MILLI)
        by_row = [
            hint_sets.listed(cpu_manager.topology_hints(each, container.step)[0].possible) for each in states
        ]

        assert masks_of(lattice) == by_row


@given(cases)
def test_cores_are_broken_where_the_rules_refuse_it(asked: Case) -> None:
    for columns, states, container, _ in admitted(asked):
        broken = batch_cpus.breaks_cores(columns, container.step.cpu // MILLI)
        refused = [
            by_rules(each, container, row, FULL_PCPUS_ONLY) is RejectionReason.SMT_ALIGNMENT
            for row, each in enumerate(states)
        ]

        assert broken.tolist() == refused


@given(cases)
def test_what_is_left_by_core_is_what_the_rules_have_left(asked: Case) -> None:
    for columns, states, _, _ in admitted(asked):
        for row, each in enumerate(states):
            assert (columns.available[..., row] == by_core(each, each.available, asked.threads)).all()
            assert tuple(columns.reusable[..., row].sum(axis=0)) == cpu_manager.cpus_per_zone(
                each.topology, each.reusable
            )


@given(cases)
def test_free_cpus_of_counted_nodes_are_the_last_ones(asked: Case) -> None:
    nodes = tuple(replace(one, stock=None) for one in asked.nodes)
    columns = asked._replace(nodes=nodes).columns
    free = np.array([free_of(one, CPU) for one in nodes]).T
    allocatable = np.array([free_of(one.emptied(), CPU) for one in nodes]).T
    split = np.maximum(0, free - allocatable // asked.threads * asked.threads)

    assert (batch_cpus.last_ones(free, asked.threads) == columns.available).all()
    assert (batch_cpus.last_ones(split, asked.threads) == columns.split).all()
