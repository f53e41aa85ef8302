"""Pods arrive in another order than in the trace, until enough GPUs are requested."""

from collections import Counter

import numpy as np
import pytest

from numalign.model.errors import BadInput
from numalign.simulation import replay
from numalign.simulation.replay import arrivals
from numalign.simulation.trace import Trace, TraceNode, TracePod

SHARE = TracePod(1000, 0, 1, 500)
WHOLE = TracePod(1000, 0, 1, 1000)
TWO = TracePod(2000, 0, 2, 1000)
NO_GPU = TracePod(1000, 0)


def trace(gpus: int, *pods: TracePod) -> Trace:
    return Trace([TraceNode(1000, 0, gpus)], pods)


def arrived(result: Trace, ratio: float, seed: int = 1) -> list[TracePod]:
    pods = arrivals(result, ratio, np.random.default_rng(seed))
    return [pods.shapes[shape] for shape in pods.order]


def test_trace_with_the_wanted_requests_is_shuffled_by_seed() -> None:
    every = [SHARE, SHARE, WHOLE, TWO, NO_GPU, NO_GPU]
    orders = [arrived(trace(4, *every), 1.0, seed) for seed in (*range(5), 0)]
    assert all(Counter(order) == Counter(every) for order in orders)
    assert len(set(map(tuple, orders))) > 1
    assert orders[0] == orders[-1]


def test_pods_are_drawn_until_enough_is_requested() -> None:
    order = arrived(trace(10, SHARE, WHOLE), 2.0)
    assert {*order[:2]} == {SHARE, WHOLE}
    assert 19_000 < sum(pod.gpu_milli for pod in order) <= 20_000


def test_last_drawn_pod_may_request_too_many_gpus() -> None:
    """As in the published runs, where only one of its GPUs counts."""
    assert sum(pod.gpu_milli for pod in arrived(trace(3, TWO), 1.0)) == 4000


def test_pods_are_dropped_if_less_is_wanted() -> None:
    order = arrived(trace(10, *[WHOLE] * 10, *[NO_GPU] * 10), 0.5)
    assert sum(pod.gpu_milli for pod in order) == 5000


def test_trace_without_gpus_arrives_unchanged() -> None:
    assert [arrived(trace(2, NO_GPU, NO_GPU), ratio) for ratio in (0.5, 2.0)] == [[NO_GPU, NO_GPU]] * 2


def test_too_many_arrivals_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MOST_ARRIVALS", 100)
    with pytest.raises(BadInput, match="more than 100 would arrive: lower the ratio"):
        arrived(trace(10, TracePod(1, 0, 1, 1)), 1.0)
