"""The measure of fragments, on cases worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.simulation.fragments import FragmentMeasure, TypicalPod, typical_pods, without_memory
from numalign.simulation.gpu_columns import GpuColumns
from numalign.simulation.trace import TraceNode, TracePod

SHARE = TracePod(4000, 0, 1, 600)
WHOLE = TracePod(2000, 0, 1, 1000)
TWO = TracePod(2000, 0, 2, 1000)
NO_GPU = TracePod(1000, 0)


NODE = TraceNode(8000, 0, 3)


def fragments(typical: dict[TracePod, float], cpu: int, *gpus: int, node: TraceNode = NODE) -> float:
    measure = FragmentMeasure(
        [TypicalPod(pod, frequency) for pod, frequency in typical.items()], GpuColumns([node])
    )
    return float(measure(np.array([0]), np.array([cpu]), np.array([gpus]))[0])


@pytest.mark.parametrize(
    ("typical", "cpu", "gpus", "expected"),
    [
        pytest.param({WHOLE: 1.0}, 8000, (1000, 1000, 1000), 0, id="nothing where every GPU is of use"),
        pytest.param({WHOLE: 1.0}, 8000, (1000, 500, 300), 800, id="GPUs that are too small"),
        pytest.param({WHOLE: 1.0}, 8000, (500, 500, 0), 1000, id="all where none is large enough"),
        pytest.param({WHOLE: 1.0}, 1999, (1000, 1000, 0), 2000, id="all where CPUs are too few"),
        pytest.param({TWO: 1.0}, 8000, (1000, 500, 0), 1500, id="all where GPUs are too few"),
        pytest.param({TWO: 1.0}, 8000, (1000, 1000, 400), 400, id="the rest where there are enough"),
        pytest.param({NO_GPU: 1.0}, 8000, (1000, 500, 0), 1500, id="all for who asks for none"),
        # 0.5 x 500 + 0.25 x 500 + 0.25 x 1500
        pytest.param({SHARE: 0.5, WHOLE: 0.25, NO_GPU: 0.25}, 8000, (1000, 500, 0), 750, id="the mean"),
        # SHARE does not fit any more: 0.5 x 1500 + 0.25 x 500 + 0.25 x 1500
        pytest.param(
            {SHARE: 0.5, WHOLE: 0.25, NO_GPU: 0.25}, 3000, (1000, 500, 0), 1250, id="with fewer CPUs"
        ),
    ],
)
def test_fragments_of_a_node(
    typical: dict[TracePod, float], cpu: int, gpus: tuple[int, ...], expected: float
) -> None:
    assert fragments(typical, cpu, *gpus) == pytest.approx(expected)


def test_gpus_of_another_model_are_of_no_use() -> None:
    picky = TracePod(1000, 0, 1, 1000, frozenset({"A10"}))
    assert fragments({picky: 1.0}, 8000, 1000, 0, 0, node=TraceNode(8000, 0, 1, "T4")) == 1000
    assert fragments({picky: 1.0}, 8000, 1000, 0, 0, node=TraceNode(8000, 0, 1, "A10")) == 0


def test_the_fragments_of_all_nodes_add_up() -> None:
    columns = GpuColumns([TraceNode(1000, 0, 2), TraceNode(8000, 0, 1), TraceNode(8000, 0)])
    assert FragmentMeasure([TypicalPod(WHOLE, 1.0)], columns).total(columns) == 2000


def test_typical_are_the_shapes_of_most_pods() -> None:
    pods = [SHARE] * 5 + [WHOLE] * 4 + [NO_GPU]
    assert typical_pods(pods, popular=0.9) == (TypicalPod(SHARE, 5 / 9), TypicalPod(WHOLE, 4 / 9))
    assert typical_pods(pods, popular=0.5) == (TypicalPod(SHARE, 1.0),)


def test_without_memory_shapes_are_the_same_that_differ_in_nothing_else() -> None:
    pods = [TracePod(2000, 7, 1, 1000), TracePod(2000, 9, 1, 1000, guaranteed=False)]
    assert typical_pods(map(without_memory, pods)) == (TypicalPod(WHOLE, 1.0),)


def test_of_equally_frequent_shapes_the_larger_is_typical() -> None:
    assert typical_pods([WHOLE, SHARE, NO_GPU], popular=0.3) == (TypicalPod(SHARE, 1.0),)


pods = st.builds(
    lambda cpu, gpus, share: TracePod(cpu, 0, gpus, (share if gpus == 1 else 1000) if gpus else 0),
    st.integers(0, 9000),
    st.integers(0, 4),
    st.integers(1, 1000),
)


@given(
    st.lists(pods, min_size=1, max_size=12),
    st.integers(0, 9000),
    st.lists(st.integers(0, 1000), min_size=1, max_size=8),
)
def test_fragments_are_never_negative_and_never_more_than_is_idle(
    every: list[TracePod], cpu: int, gpus: list[int]
) -> None:
    columns = GpuColumns([TraceNode(9000, 0, len(gpus))])
    measure = FragmentMeasure(typical_pods(every), columns)
    (found,) = measure(np.array([0]), np.array([cpu]), np.array([gpus]))
    assert -1e-6 <= found <= sum(gpus) + 1e-6
