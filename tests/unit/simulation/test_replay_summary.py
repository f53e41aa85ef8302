"""Replays in which pods end, several of them on the average, and charts of them side by side."""

import pytest

from numalign.model.intent import Policy
from numalign.simulation.replay import Sample
from numalign.simulation.replay_summary import mean_curve, mean_of, replay_charts, to_document
from numalign.simulation.trace import MIB, Trace, TraceNode, TracePod
from numalign.simulation.zone_cluster import ZoneSample
from numalign.simulation.zone_replay import Zoning, turnover_on_zones


def test_mean_curve_continues_with_the_latest_sample() -> None:
    assert mean_of([Sample(10, 8, 1), Sample(20, 10, 4)]) == Sample(15, 9, 2.5)
    one = [Sample(0.5, 0, 9), Sample(10, 2, 8)]
    other = [Sample(0.1, 0, 7), Sample(5, 1, 6), Sample(15, 3, 5)]
    curve = [(at.allocated, at.fragments) for at in mean_curve([one, other])]
    assert curve == [(0.5, 7.5), (1.5, 7), (2.5, 6.5)]


def test_document_has_three_decimal_places() -> None:
    result = to_document(Sample(1 / 3, 2, 3, 4, 5))
    assert result == {"arrived": 0.333, "allocated": 2, "fragments": 3, "stranded": 4, "refusals": 5}


def test_every_figure_above_zero_has_a_chart() -> None:
    charts = replay_charts({"stock": [Sample(5, 5, 1), Sample(10, 9, 2)]}, "3 nodes")
    assert list(charts) == ["allocated", "fragments"]
    assert "GPUs allocated, 3 nodes" in charts["allocated"]
    assert list(replay_charts({"stock": [Sample(5, 5, 1, 1)]}, "")) == ["allocated", "fragments", "stranded"]
    curves = {f"s{number}": [Sample(5, 5, 1), Sample(10, 9, 2)] for number in range(8)}
    assert replay_charts(curves, "")["allocated"].count("stroke-dasharray") == 2


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
