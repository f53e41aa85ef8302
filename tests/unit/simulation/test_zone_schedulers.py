"""The nodes that each scheduler chooses."""

import numpy as np
import pytest

from numalign.model.intent import Policy
from numalign.simulation.gpu_columns import GpuColumns
from numalign.simulation.trace import MIB, Trace, TraceNode, TracePod
from numalign.simulation.zone_cluster import AskedPod, ZoneNodes
from numalign.simulation.zone_replay import Zoning
from numalign.simulation.zone_schedulers import ZONE_SCHEDULERS, stock_points
from numalign.simulation.zoned_nodes import question

NODE = TraceNode(32_000, 1000 * MIB, 2)
POD = TracePod(8000, 100 * MIB, 1, 1000)
TEN_CPUS = TracePod(10_000, 100 * MIB, 1, 500)


def chosen(name: str, nodes: ZoneNodes, pod: TracePod) -> set[int | None]:
    """The choices of a scheduler in thirty calls."""
    every = np.arange(len(nodes.names))
    asked = AskedPod(pod, question(pod), every[nodes.columns.fits(pod)])
    dice = np.random.default_rng(1)
    return {ZONE_SCHEDULERS[name](dice, nodes, asked) for _ in range(30)}


def three_nodes() -> ZoneNodes:
    """An empty one, one with a pod in a zone, and one without room for ten CPUs in either zone."""
    nodes = ZoneNodes(Zoning(2, Policy.RESTRICTED).nodes_of(Trace([NODE] * 3, [])))
    for row in (1, 2, 2):
        nodes.put(row, TEN_CPUS, nodes.admission(row, question(TEN_CPUS)))
    return nodes


def test_stock_points_are_unused_share_and_balance() -> None:
    """Left are 75 % and 90 %, so (75 + 90) // 2 and 100 (1 - 0.15 / 2)."""
    columns = GpuColumns([NODE, TraceNode(16_000, 200 * MIB, 1)])
    # Of the small one 50 % and 50 % are left.
    assert stock_points(columns, POD, np.arange(2)).tolist() == [82 + 92, 50 + 100]


def test_stock_chooses_any_emptiest_node_and_gate_the_first() -> None:
    nodes = ZoneNodes(Zoning(2, Policy.RESTRICTED).nodes_of(Trace([NODE] * 3, [])))
    assert [chosen(name, nodes, POD) for name in ("gate", "scorer")] == [{0}, {0, 1, 2}]
    nodes.put(1, TEN_CPUS, nodes.admission(1, question(TEN_CPUS)))
    assert chosen("stock", nodes, POD) == {0, 2}


@pytest.mark.parametrize("name", ["gate", "MostAllocated"])
def test_most_allocated_order_prefers_nodes_in_use(name: str) -> None:
    assert chosen(name, three_nodes(), TracePod(4000, 100 * MIB, 1, 500)) == {1}


@pytest.mark.parametrize("name", ["scorer", "gate", "LeastAllocated", "LeastNUMANodes"])
def test_node_whose_kubelet_rejects_is_not_chosen(name: str) -> None:
    assert 2 not in chosen(name, three_nodes(), TEN_CPUS)


@pytest.mark.parametrize("name", sorted(ZONE_SCHEDULERS))
def test_no_node_is_chosen_without_room(name: str) -> None:
    nodes = ZoneNodes(Zoning(2, Policy.RESTRICTED).nodes_of(Trace([NODE], [])))
    assert chosen(name, nodes, TracePod(8000, MIB, 3, 1000)) == {None}
