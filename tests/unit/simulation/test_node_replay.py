"""Replays on nodes without zones: the published figures come out, and the books balance."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import DATA
from examples.openb import shapes
from numalign.simulation.fragments import FragmentMeasure, typical_pods
from numalign.simulation.gpu_columns import GpuColumns
from numalign.simulation.node_policies import NODE_POLICIES
from numalign.simulation.node_replay import ScoredNodes, replay_on_nodes
from numalign.simulation.trace import WHOLE_GPU, Trace, TraceNode, TracePod, read_trace
from tools.bench.published import PUBLISHED

nodes = st.builds(TraceNode, st.integers(1, 16_000), st.integers(1, 64), st.integers(0, 4))
pods = st.builds(
    lambda cpu, memory, gpus, share: TracePod(
        cpu, memory, gpus, (share if gpus == 1 else WHOLE_GPU) if gpus else 0
    ),
    st.integers(1, 8000),
    st.integers(0, 32),
    st.integers(0, 3),
    st.sampled_from([100, 500, WHOLE_GPU]),
)
traces = st.builds(
    Trace,
    st.lists(nodes, min_size=1, max_size=6).filter(lambda every: any(node.gpus for node in every)),
    st.lists(pods, min_size=1, max_size=12),
)
policies = st.sampled_from(sorted(NODE_POLICIES))


@pytest.mark.parametrize("policy", PUBLISHED)
def test_the_published_figures_come_out(policy: str) -> None:
    """Within a point, as the mean of ten does; one seed is within less than that of ours."""
    trace = read_trace(DATA / shapes.NODES, DATA / shapes.PODS).with_gpus()
    *_, last = replay_on_nodes(trace, policy, ratio=1.3, seed=42)
    assert last.arrived == pytest.approx(130, abs=0.1)
    assert last.allocated == pytest.approx(PUBLISHED[policy].allocated[-1], abs=1)
    assert last.fragments == pytest.approx(PUBLISHED[policy].fragments[-1], abs=1)


def test_a_pod_that_fits_nowhere_is_placed_nowhere() -> None:
    trace = Trace([TraceNode(4000, 10, 1)], [TracePod(1000, 11, 1, WHOLE_GPU)])
    *_, last = replay_on_nodes(trace, "BestFit", ratio=1.0, seed=1)
    assert (last.arrived, last.allocated, last.fragments) == (100, 0, 0)


def test_the_same_seed_gives_the_same_replay() -> None:
    trace = Trace([TraceNode(4000, 10, 2)] * 3, [TracePod(1000, 1, 1, 300), TracePod(500, 1, 2, WHOLE_GPU)])
    one, other = (list(replay_on_nodes(trace, "FGD", ratio=1.2, seed=3)) for _ in range(2))
    assert one == other


@given(traces, policies, st.integers(0, 3))
def test_never_more_is_allocated_than_there_is_or_than_was_asked(
    trace: Trace, policy: str, seed: int
) -> None:
    samples = list(replay_on_nodes(trace, policy, ratio=1.5, seed=seed))
    for sample in samples:
        assert 0 <= sample.allocated <= min(100, sample.arrived) + 1e-9
        assert -1e-6 <= sample.fragments <= 100 - sample.allocated + 1e-6
    for before, after in pairwise(samples):
        assert before.arrived <= after.arrived
        assert before.allocated <= after.allocated


@settings(max_examples=20)
@given(traces, policies)
def test_scores_that_are_kept_are_those_worked_out_anew(trace: Trace, policy: str) -> None:
    kept_columns, new_columns = GpuColumns(trace.nodes), GpuColumns(trace.nodes)
    kept = _scored(trace, kept_columns, policy)
    for at, pod in enumerate([*trace.pods, *trace.pods]):
        kept.place(at % len(trace.pods), pod)
        _scored(trace, new_columns, policy).place(0, pod)
    assert policy in {"Random", "FGD, ties by chance"} or (kept_columns.gpus == new_columns.gpus).all()
    for columns in (kept_columns, new_columns):
        assert (columns.gpus >= 0).all()
        assert (columns.cpu >= 0).all()
        assert (columns.memory >= 0).all()


def _scored(trace: Trace, columns: GpuColumns, policy: str) -> ScoredNodes:
    measure = FragmentMeasure(typical_pods(trace.pods), columns)
    return ScoredNodes(columns, measure, NODE_POLICIES[policy](columns, measure, np.random.default_rng(1)))
