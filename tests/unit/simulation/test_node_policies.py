"""Which node and which GPU each of the published policies chooses, on cases worked out by hand."""

import numpy as np
import pytest

from numalign.simulation.fragments import FragmentMeasure, TypicalPod
from numalign.simulation.gpu_columns import GpuColumns
from numalign.simulation.node_policies import NODE_POLICIES, NodePolicy
from numalign.simulation.trace import TraceNode, TracePod

WHOLE = TracePod(1000, 0, 1, 1000)
HALF = TracePod(1000, 0, 1, 500)
NO_GPU = TracePod(4000, 0)


def policy(name: str, *gpus: tuple[int, ...], cpu: int = 64_000, typical: TracePod = WHOLE) -> NodePolicy:
    """The policy on nodes of which so much of each GPU is left."""
    columns = GpuColumns([TraceNode(cpu, 0, len(left)) for left in gpus])
    for row, left in enumerate(gpus):
        columns.gpus[row, : len(left)] = left
    measure = FragmentMeasure([TypicalPod(typical, 1.0)], columns)
    return NODE_POLICIES[name](columns, measure, np.random.default_rng(1))


def scores(chosen: NodePolicy, pod: TracePod) -> list[int]:
    return list(map(int, chosen.scores(pod, np.arange(len(chosen.columns)))))


def test_fgd_fills_a_gpu_that_is_of_use_to_nobody_else() -> None:
    """On the first node a fragment of half a GPU comes up, 1 / (1 + e^0.5); on the second one goes."""
    fgd = policy("FGD", (1000, 1000), (1000, 500))
    assert scores(fgd, HALF) == [37, 62]
    assert fgd.choose(np.array(scores(fgd, HALF))) == 1
    assert fgd.slots(HALF, 1) == [1]


def test_fgd_heeds_cpus_without_which_gpus_are_of_no_use() -> None:
    """A pod without GPUs leaves 60 CPUs beside one GPU, or half a CPU beside another."""
    columns = GpuColumns([TraceNode(64_000, 0, 1), TraceNode(4500, 0, 1)])
    fgd = NODE_POLICIES["FGD"](
        columns, FragmentMeasure([TypicalPod(WHOLE, 1.0)], columns), np.random.default_rng(1)
    )
    assert scores(fgd, NO_GPU) == [50, 26]


def test_fgd_takes_whole_gpus_in_order() -> None:
    fgd = policy("FGD", (500, 1000, 1000, 1000))
    assert fgd.slots(TracePod(1000, 0, 2, 1000), 0) == [1, 2]
    # What was of use and is not idle any more was no fragment before.
    assert scores(fgd, TracePod(1000, 0, 2, 1000)) == [50]


def test_best_fit_prefers_the_node_of_which_the_least_is_left() -> None:
    """100 (1 - (63/128 + 2/8) / 2), with the GPUs that remain."""
    best = policy("BestFit", (1000, 1000, 1000), (1000, 500, 0))
    assert scores(best, WHOLE) == [62, 72]


def test_best_fit_shares_the_gpu_with_the_least_left() -> None:
    assert policy("BestFit", (1000, 500, 700, 300)).slots(HALF, 0) == [1]


def test_dot_product_prefers_the_node_whose_rest_is_unlike_what_is_asked() -> None:
    """100 (1 - (64/128 x 1/128 + 3/8 x 1/8) / 2)."""
    assert scores(policy("DotProd", (1000,) * 3, (1000,) * 8), WHOLE) == [97, 93]


@pytest.mark.parametrize(
    ("gpus", "pod", "expected"),
    [
        pytest.param((1000, 1000), WHOLE, 31, id="an empty node"),
        pytest.param((1000, 0), WHOLE, 49, id="a free GPU of a node in use"),
        pytest.param((1000, 600), HALF, 94, id="a GPU in use with 60 per cent left"),
        pytest.param((1000, 400), HALF, 49, id="a free GPU to share, where none in use is large enough"),
        pytest.param((1000, 0), NO_GPU, 0, id="no GPU"),
    ],
)
def test_packing_prefers_gpus_in_use(gpus: tuple[int, ...], pod: TracePod, expected: int) -> None:
    assert scores(policy("GpuPacking", gpus), pod) == [expected]


def test_clustering_prefers_those_alike() -> None:
    """Beside whole ones alone, beside whole ones and shares, on an empty node, beside shares alone."""
    found = policy("GpuClustering", (1000,) * 8, (1000,) * 8, (1000,) * 8, (1000,) * 8)
    found.columns.take(0, WHOLE, [0])
    found.columns.take(1, WHOLE, [0])
    found.columns.take(1, HALF, [1])
    found.columns.take(3, HALF, [0])
    assert scores(found, WHOLE) == [75 + 3, 50 + 4, 25, 1]


def test_random_takes_any_node_that_fits_and_any_gpu() -> None:
    chance = policy("Random", (1000, 500, 1000))
    assert {chance.choose(np.array([-1, 0, -1, 0])) for _ in range(50)} == {1, 3}
    assert {chance.slots(HALF, 0)[0] for _ in range(50)} == {0, 1, 2}


def test_of_nodes_that_are_as_good_the_first_is_chosen() -> None:
    assert policy("FGD", (1000,)).choose(np.array([-1, 50, 50])) == 1


def test_as_kube_scheduler_has_it_any_of_them_is() -> None:
    chance = policy("FGD, ties by chance", (1000,))
    assert {chance.choose(np.array([-1, 50, 50, 49])) for _ in range(50)} == {1, 2}
