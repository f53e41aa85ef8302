"""CPUs in columns are those that the CPU manager allocates on each node."""

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
from numalign.cache.arrays import Ints
from numalign.cache.batch_cpus import CpuAllocation, CpuColumns
from numalign.kubelet import cpu_manager, hint_sets
from numalign.kubelet.admission_errors import RejectionReason
from numalign.kubelet.cpu_manager import CpuState
from numalign.model.bitset import bits, members
from numalign.model.demand import Step
from numalign.model.machine import CpuSet, Stock
from numalign.model.node import CpuManager, Node
from numalign.model.options import DEFAULTS, Options
from numalign.model.pod import Role
from numalign.model.resources import CPU, MILLI
from tests.laws.fleets import OFTEN, SOMETIMES, Pick, drawn, seeded
from tests.worlds.columns import masks_of
from tests.worlds.notation import Ids, free_of, node, options, table

APP, INIT, SIDECAR = Role.APP, Role.INIT, Role.SIDECAR
ANY = -1
FULL_PCPUS_ONLY = options("full-pcpus-only")


def state(node: Node) -> CpuState:
    state = cpu_manager.state(node)
    assert state is not None
    return state


def columns_of(*nodes: Node, sockets: Sequence[int], threads: int = 1) -> CpuColumns:
    states = [state(node) for node in nodes]
    available = np.stack([by_core(one, one.free, threads) for one in states], axis=-1)
    split = [by_core(one, one.free & ~cpu_manager.whole_cores(one), threads) for one in states]
    return CpuColumns(
        np.array([one.topology.sizes for one in states]).T,
        tuple(sockets),
        available,
        np.zeros_like(available),
        np.stack(split, axis=-1),
    )


def by_core(state: CpuState, cpus: CpuSet, threads: int) -> Ints:
    return batch_cpus.by_core(state.topology, cpus, threads)


def socketed(*zones: str, sockets: Sequence[int], threads: int = 1, chosen: Options = DEFAULTS) -> Node:
    """A node whose zones share these sockets."""
    every = range(len(zones))
    costs: dict[Ids, int] = {
        (one, two): 10 if sockets[one] == sockets[two] else 21 for one in every for two in every
    }
    return node(*zones, cpu_manager=CpuManager.STATIC, costs=costs, threads=threads, options=chosen)


USED = ["cpu=4", "cpu=4/4/1", "cpu=4/4/2", "cpu=4/4/2"]


TAKEN = [
    ("those of the affinity", ["cpu=8", "cpu=8"], (0, 1), 3, 0b10, [0, 3]),
    ("then any", ["cpu=8", "cpu=8/8/2", "cpu=8"], (0, 1, 2), 4, 0b10, [2, 2, 0]),
    ("no affinity", ["cpu=8", "cpu=8/8/2", "cpu=8/8/1"], (0, 1, 2), 4, ANY, [1, 2, 1]),
    ("whole zones", ["cpu=8/8/2", "cpu=8", "cpu=8"], (0, 1, 2), 9, ANY, [1, 8, 0]),
    ("no zone with reserved CPUs", ["cpu=8/7", "cpu=8", "cpu=8/7"], (0, 1, 2), 8, ANY, [0, 8, 0]),
    ("whole sockets", ["cpu=4/4/1", "cpu=4", "cpu=4", "cpu=4"], (0, 0, 2, 2), 8, ANY, [0, 0, 4, 4]),
    ("the lowest socket", ["cpu=4"] * 4, (0, 1, 1, 0), 8, ANY, [4, 0, 0, 4]),
    ("the lowest zone", ["cpu=0", "cpu=4", "cpu=4", "cpu=0"], (0, 1, 0, 1), 3, ANY, [0, 3, 0, 0]),
    ("the fullest socket", USED, (0, 0, 2, 2), 3, ANY, [0, 0, 2, 1]),
    ("the fullest zone", USED, (0, 1, 2, 3), 3, ANY, [0, 1, 2, 0]),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "sockets", "request_", "mask", "taken"), table(TAKEN))
def test_cpus_come_from(
    zones: list[str], sockets: tuple[int, ...], request_: int, mask: int, taken: list[int]
) -> None:
    columns = columns_of(socketed(*zones, sockets=sockets), sockets=sockets)

    assert batch_cpus.allocate(columns, request_, np.array([mask]), APP).taken[:, 0].tolist() == taken


def test_each_row_may_have_its_own_request() -> None:
    columns = columns_of(*[node("cpu=4", "cpu=4")] * 3, sockets=(0, 1))

    allocation = batch_cpus.allocate(columns, np.array([0, 5, 9]), np.array([ANY, 0b10, 0b10]), APP)

    assert allocation.taken.T.tolist() == [[0, 0], [1, 4], [0, 0]]
    assert allocation.ok.tolist() == [True, True, False]


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
    """The request of one container, and its affinity on each of the nodes."""

    step: Step
    masks: tuple[int, ...]


class Case(NamedTuple):
    nodes: tuple[Node, ...]
    sockets: tuple[int, ...]
    threads: int
    containers: tuple[Container, ...]

    @property
    def columns(self) -> CpuColumns:
        return columns_of(*self.nodes, sockets=self.sockets, threads=self.threads)


def case(pick: Pick, *, rows: Sequence[int] = (1, 2, 4)) -> Case:
    sockets, threads = pick(SOCKETS), pick([1, 2, 1, 2, 4])
    nodes = tuple(_even_node(pick, sockets, threads) for _ in range(pick(rows)))
    containers = tuple(_container(pick, len(sockets), len(nodes)) for _ in range(pick([1, 2, 3, 4])))
    return Case(nodes, sockets, threads, containers)


def _even_node(pick: Pick, sockets: tuple[int, ...], threads: int) -> Node:
    """A node with CPUs on as many zones of each socket that has any; of some the free ones are known."""
    hosts = pick(_even_hosts(sockets)) if pick(SOMETIMES) else range(len(sockets))
    size = pick([1, 2, 3]) * threads
    zones = (_zone(pick, size) if at in hosts else "cpu=0" for at in range(len(sockets)))
    node = socketed(*zones, sockets=sockets, threads=threads, chosen=pick([DEFAULTS, FULL_PCPUS_ONLY]))
    if pick(OFTEN):
        return node
    cpus = state(node)
    most = cpus.topology.everything & ~cpus.reserved
    return replace(node, stock=Stock(bits(cpu for cpu in members(most) if pick(OFTEN))))


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
    return seeded(lambda pick: case(pick, rows=[16]), seed)


cases = st.one_of(drawn(case), st.integers(0, 2**32).map(many_rows))


def admitted(case: Case) -> Iterator[tuple[CpuColumns, list[CpuState], Container, CpuAllocation]]:
    """Each container: the columns and the states before it, and its allocation in columns."""
    columns, states = case.columns, [state(node) for node in case.nodes]
    for container in case.containers:
        step = container.step
        allocation = batch_cpus.allocate(columns, step.cpu // MILLI, np.array(container.masks), step.role)
        yield columns, states, container, allocation
        columns = allocation.after
        states = [
            before if isinstance(after := by_rules(before, container, row), RejectionReason) else after[0]
            for row, before in enumerate(states)
        ]


def by_rules(
    before: CpuState, container: Container, row: int, chosen: Options = DEFAULTS
) -> tuple[CpuState, CpuSet] | RejectionReason:
    mask = container.masks[row]
    return cpu_manager.allocate(
        before._replace(options=chosen), container.step, None if mask == ANY else mask
    )


@given(cases)
def test_each_container_gets_the_cpus_of_the_rules(case: Case) -> None:
    for _, states, container, allocation in admitted(case):
        for row, before in enumerate(states):
            result = by_rules(before, container, row)
            refused = isinstance(result, RejectionReason)
            taken = 0 if isinstance(result, RejectionReason) else result[1]

            assert bool(allocation.ok[row]) is not refused
            assert tuple(allocation.taken[:, row]) == cpu_manager.cpus_per_zone(before.topology, taken)


@given(cases)
def test_hints_are_those_of_the_rules(case: Case) -> None:
    for columns, states, container, _ in admitted(case):
        by_row = [cpu_manager.topology_hints(one, container.step)[0].possible for one in states]

        assert masks_of(batch_cpus.hints(columns, container.step.cpu // MILLI)) == [
            hint_sets.listed(possible) for possible in by_row
        ]


@given(cases)
def test_cores_are_broken_where_the_rules_refuse_it(case: Case) -> None:
    for columns, states, container, _ in admitted(case):
        refused = [by_rules(one, container, row, FULL_PCPUS_ONLY) for row, one in enumerate(states)]

        assert batch_cpus.breaks_cores(columns, container.step.cpu // MILLI).tolist() == [
            result is RejectionReason.SMT_ALIGNMENT for result in refused
        ]


@given(cases)
def test_free_cpus_by_core_are_those_of_the_rules(case: Case) -> None:
    for columns, states, _, _ in admitted(case):
        for row, one in enumerate(states):
            assert (columns.available[..., row] == by_core(one, one.available, case.threads)).all()
            assert tuple(columns.reusable[..., row].sum(axis=0)) == cpu_manager.cpus_per_zone(
                one.topology, one.reusable
            )


@given(cases)
def test_free_cpus_of_counted_nodes_are_the_last_ones(case: Case) -> None:
    nodes = tuple(replace(node, stock=None) for node in case.nodes)
    columns = case._replace(nodes=nodes).columns
    free = np.array([free_of(node, CPU) for node in nodes]).T
    allocatable = np.array([free_of(node.emptied(), CPU) for node in nodes]).T
    split = np.maximum(0, free - allocatable // case.threads * case.threads)

    assert (batch_cpus.last_ones(free, case.threads) == columns.available).all()
    assert (batch_cpus.last_ones(split, case.threads) == columns.split).all()
