"""The measure of fragments, on cases worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.simulation.gpu_columns import GpuColumns, TypicalPod, fragments, typical_pods, without_memory
from numalign.simulation.trace import TraceNode, TracePod
from tests.worlds.notation import table

SHARE = TracePod(4000, 0, 1, 600)
WHOLE = TracePod(2000, 0, 1, 1000)
TWO = TracePod(2000, 0, 2, 1000)
NO_GPU = TracePod(1000, 0)
PICKY = TracePod(1000, 0, 1, 1000, frozenset({"A10"}))


def columns(cpu: int, *gpus: int, model: str = "") -> GpuColumns:
    """A node with so many millicores and shares of GPUs."""
    made = GpuColumns([TraceNode(cpu, 0, len(gpus), model)])
    made.gpus[0] = gpus
    return made


def total(typical: dict[TracePod, float], node: GpuColumns, *, admitted: bool = True) -> tuple[float, float]:
    every = [TypicalPod(pod, frequency) for pod, frequency in typical.items()]
    return fragments(node, ((each, np.array([admitted])) for each in every))


FRAGMENTS = [
    # the typical pods, CPUs and GPUs of a node, and what of its GPUs is fragments
    ("every GPU of use",       {WHOLE: 1.0},  8000, (1000, 1000, 1000), 0),
    ("GPUs too small",         {WHOLE: 1.0},  8000, (1000, 500, 300),   800),
    ("too few CPUs",           {WHOLE: 1.0},  1999, (1000, 1000, 0),    2000),
    ("too few GPUs",           {TWO: 1.0},    8000, (1000, 500, 0),     1500),
    ("enough GPUs and a rest", {TWO: 1.0},    8000, (1000, 1000, 400),  400),
    ("no GPU requested",       {NO_GPU: 1.0}, 8000, (1000, 500, 0),     1500),
    # 0.5 x 500 + 0.25 x 500 + 0.25 x 1500
    ("the mean", {SHARE: 0.5, WHOLE: 0.25, NO_GPU: 0.25}, 8000, (1000, 500, 0), 750),
    ("GPUs of another model",  {PICKY: 1.0},  8000, (1000,),            1000),
]  # fmt: skip


@pytest.mark.parametrize(("typical", "cpu", "gpus", "expected"), table(FRAGMENTS))
def test_fragments_of_a_node(
    typical: dict[TracePod, float], cpu: int, gpus: tuple[int, ...], expected: float
) -> None:
    assert total(typical, columns(cpu, *gpus)) == pytest.approx((expected, 0))


def test_gpus_count_by_admission_and_by_model() -> None:
    assert total({WHOLE: 1.0}, columns(8000, 1000, 500), admitted=False) == (1500, 1000)
    assert total({PICKY: 1.0}, columns(8000, 1000, model="A10")) == (0, 0)


def test_typical_are_the_shapes_of_most_pods() -> None:
    pods = [SHARE] * 5 + [WHOLE] * 4 + [NO_GPU]
    assert typical_pods(pods, popular=0.9) == (TypicalPod(SHARE, 5 / 9), TypicalPod(WHOLE, 4 / 9))
    assert typical_pods(pods, popular=0.5) == (TypicalPod(SHARE, 1.0),)


def test_shapes_without_memory_count_and_the_larger_first() -> None:
    pods = [TracePod(2000, 7, 1, 1000), TracePod(2000, 9, 1, 1000, guaranteed=False)]
    assert typical_pods(map(without_memory, pods)) == (TypicalPod(WHOLE, 1.0),)
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
    st.booleans(),
)
def test_fragments_are_between_zero_and_what_is_idle(
    every: list[TracePod],
    cpu: int,
    gpus: list[int],
    admitted: bool,  # noqa: FBT001  drawn
) -> None:
    typical = {each.pod: each.frequency for each in typical_pods(every)}
    fragmented, stranded = total(typical, columns(cpu, *gpus), admitted=admitted)
    assert -1e-6 <= stranded <= fragmented + 1e-6 <= sum(gpus) + 2e-6
