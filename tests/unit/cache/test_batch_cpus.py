"""CPUs in columns are those that the CPU manager allocates on each node."""

import numpy as np
import pytest

from numalign.cache import batch_cpus
from numalign.cache.batch_cpus import CpuColumns
from numalign.kubelet import cpu_manager
from numalign.kubelet.admission_errors import RejectionReason
from numalign.model.demand import Step
from numalign.model.node import CpuManager, Node
from numalign.model.pod import Role
from numalign.model.resources import MILLI
from tests.worlds.notation import Ids, node, table

ANY = -1


def columns_of(*zones: str, sockets: tuple[int, ...], threads: int = 1) -> tuple[Node, CpuColumns]:
    """A node whose zones share these sockets, and its CPUs in columns."""
    every = range(len(zones))
    costs: dict[Ids, int] = {
        (one, two): 10 if sockets[one] == sockets[two] else 21 for one in every for two in every
    }
    made = node(*zones, cpu_manager=CpuManager.STATIC, costs=costs, threads=threads)
    state = cpu_manager.state(made)
    assert state
    available, split = (
        batch_cpus.by_core(state.topology, cpus, threads)[..., None]
        for cpus in (state.free, state.free & ~cpu_manager.whole_cores(state))
    )
    sizes = np.array([state.topology.sizes]).T
    return made, CpuColumns(sizes, sockets, available, np.zeros_like(available), split)


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
    one, columns = columns_of(*zones, sockets=sockets)
    allocation = batch_cpus.allocate(columns, request_, np.array([mask]), Role.APP)

    assert allocation.taken[:, 0].tolist() == taken
    state = cpu_manager.state(one)
    assert state
    step = Step("c", Role.APP, cpu=request_ * MILLI)
    by_rules = cpu_manager.allocate(state, step, None if mask == ANY else mask)
    assert not isinstance(by_rules, RejectionReason)
    assert [*cpu_manager.cpus_per_zone(state.topology, by_rules[1])] == taken


def test_each_row_may_have_its_own_request() -> None:
    _, columns = columns_of("cpu=4", "cpu=4", sockets=(0, 1))
    three = columns.at(np.zeros(3, dtype=np.intp))

    allocation = batch_cpus.allocate(three, np.array([0, 5, 9]), np.array([ANY, 0b10, 0b10]), Role.APP)

    assert allocation.taken.T.tolist() == [[0, 0], [1, 4], [0, 0]]
    assert allocation.ok.tolist() == [True, True, False]
