"""Replays on nodes whose kubelets align, in which pods end."""

import pytest

from numalign.model.intent import Policy
from numalign.simulation.trace import MIB, Trace, TraceNode, TracePod
from numalign.simulation.zone_cluster import ZoneSample
from numalign.simulation.zone_replay import Zoning, turnover_on_zones

TRACE = Trace([TraceNode(32_000, 1024 * MIB, 4)] * 5, [TracePod(1000, MIB, 1, 1000)])


def turnover(load: float, scheduler: str = "gate", seed: int = 42) -> list[ZoneSample]:
    nodes = Zoning(2, Policy.SINGLE_NUMA_NODE).nodes_of(TRACE)
    return list(turnover_on_zones(nodes, TRACE, scheduler, ratio=20, seed=seed, load=load, every=10))


def test_running_pods_request_the_load_on_average() -> None:
    result = [sample for sample in turnover(0.5) if sample.arrived > 200]
    assert sum(sample.allocated for sample in result) / len(result) == pytest.approx(50, abs=10)


def test_samples_are_at_even_distances() -> None:
    result = turnover(0.5)
    assert [sample.arrived for sample in result[:3]] == [10, 20, 30]
    assert result[-1].pods == result[-1].aligned == 20 * 20


def test_life_of_a_pod_depends_on_the_seed_alone() -> None:
    allocated = [[sample.allocated for sample in turnover(0.5, name)] for name in ("stock", "scorer")]
    assert allocated[0] == allocated[1]
    assert [sample.allocated for sample in turnover(0.5, seed=43)] != allocated[0]
