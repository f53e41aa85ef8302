"""Which of equally good zones a kubelet with an option of KEP-6007 takes; recordings have more cases."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kubelet.admit import admit, charge
from numalign.kubelet.numa_scores import Use, better, mean
from numalign.model.node import Node
from tests.worlds.notation import asks, node, options, table

SMALL = "cpu=1 mem=1Gi"


def taken(start: Node, *pods: str) -> list[Sequence[int] | None]:
    """The zones of the affinity of each pod, one after another; each pod has one container."""
    zones = list[Sequence[int] | None]()
    for pod in pods:
        admission = admit(start, asks(pod))
        start = charge(start, admission)
        zones.append(admission.placement.grants[0].affinity)
    return zones


def test_signals_of_cpus_and_memory_are_combined() -> None:
    """-1 is the current zone, 1 the candidate; 0 leaves the narrowest mask, which is the current zone."""
    signs = {pair: better(*pair) for pair in product((-5, 0, 5), repeat=2)}
    assert [*signs.values()] == [-1, -1, 0, -1, 0, 1, 0, 1, 1]


@given(st.integers(-5, 400), st.integers(0, 400))
def test_score_is_a_percentage_and_zero_only_for_nothing(most: int, used: int) -> None:
    use = Use([0b1], (most,), (most - min(used, max(most, 0)),))
    expected = max(1, min(used, most) * 100 // most) if most > 0 else 0
    assert use.score(0b1) == expected


def test_several_zones_are_one_pool_and_no_mean_of_zones() -> None:
    use = Use([0b01, 0b10, 0b11], (10, 90, 20), (0, 90, 20))
    assert [use.score(mask) for mask in (0b01, 0b10, 0b11)] == [33, 1, 8]


MEANS = [
    ("all weigh 1", {"cpu": 40, "memory": 81}, {}, 60),
    ("named weights", {"cpu": 80, "memory": 20, "gpu": 10}, {"cpu": 3, "memory": 1, "gpu": 6}, 32),
    ("0 leaves a resource out", {"cpu": 80, "memory": 20}, {"cpu": 0}, 20),
    ("a resource without a score does not count", {"cpu": 0, "memory": 21}, {"cpu": 9}, 21),
    ("nothing has a weight", {"cpu": 80}, {"cpu": 0}, 0),
]


@pytest.mark.parametrize(("scores", "weights", "expected"), table(MEANS))
def test_score_is_a_weighted_mean(scores: dict[str, int], weights: dict[str, int], expected: int) -> None:
    assert mean(scores, weights) == expected


HALF = "cpu=8//4 mem=8Gi"
CHOICES = [
    # what it shows           strategy           weights  zones                            taken
    ("the fuller zone",       "most-allocated",  "",      [HALF, "cpu=8//2 mem=8Gi"],      (1,)),
    ("the emptier zone",      "least-allocated", "",      [HALF, "cpu=8//6 mem=8Gi"],      (1,)),
    ("the mean of resources", "most-allocated",  "",      [HALF, "cpu=8//6 mem=8Gi//2Gi"], (1,)),
    ("weighed",               "most-allocated",  "cpu=9", [HALF, "cpu=8//6 mem=8Gi//2Gi"], (0,)),
]  # fmt: skip


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize(("strategy", "weights", "zones", "chosen"), table(CHOICES))
def test_strategy_decides_among_equal_zones(
    policy: str, strategy: str, weights: str, zones: list[str], chosen: object
) -> None:
    scored = options(minor=38, strategy=strategy, weights=weights)
    assert taken(node(*zones, policy=policy, options=scored), SMALL) == [chosen]


@given(
    st.lists(st.tuples(st.integers(1, 16), st.integers(0, 16)), min_size=2, max_size=4),
    st.sampled_from(["restricted", "single-numa-node"]),
    st.sampled_from(["most-allocated", "least-allocated"]),
    st.integers(1, 8),
)
def test_strategies_do_not_change_admission(
    sizes: list[tuple[int, int]], policy: str, strategy: str, request: int
) -> None:
    zones = [f"cpu={size}//{min(size, free)}" for size, free in sizes]
    plain = node(*zones, policy=policy)
    scored = replace(plain, options=options(strategy=strategy))
    outcomes = [admit(each, asks(f"cpu={request}")) for each in (plain, scored)]
    assert (outcomes[0].refusal is None) is (outcomes[1].refusal is None)
