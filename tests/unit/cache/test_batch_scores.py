"""The choice between equal sets of zones in columns is that of the rules."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache import batch_scores
from numalign.cache.batch_scores import BatchUse
from numalign.kubelet import hint_sets
from numalign.kubelet.managers_state import read_state
from numalign.kubelet.numa_scores import tie_break, ties
from numalign.kubelet.topology_manager import NumaInfo, ResourceHints, merge
from numalign.model.node import Node
from numalign.model.options import Options
from numalign.model.resources import CPU, MEMORY, MILLI
from tests.worlds.notation import GPU, node, options

UNITS = {CPU: MILLI, MEMORY: 1, GPU: 1}
DISTANCES = ((10, 12, 21, 21), (12, 10, 21, 21), (21, 21, 10, 12), (21, 21, 12, 10))
PACKED = options("prefer-most-allocated-numa-node")
SCORED = [
    options(strategy=strategy, weights=weights)
    for strategy in ("most-allocated", "least-allocated")
    for weights in ("", "cpu=3 mem=0", "cpu=0 mem=0 gpu=0")
]

amounts = st.tuples(st.integers(0, 8), st.integers(0, 8))
zones = st.lists(st.tuples(amounts, amounts, amounts), min_size=1, max_size=4)


def built(drawn: list[tuple[tuple[int, int], ...]], chosen: Options, policy: str) -> Node:
    """A node of zones with so many CPUs, bytes and devices, of which so many are free."""
    texts = [
        " ".join(
            f"{name}={most}//{min(most, free)}"
            for name, (most, free) in zip(("cpu", "mem", "gpu"), zone, strict=True)
        )
        for zone in drawn
    ]
    return node(*texts, policy=policy, options=chosen)


def uses(one: Node, names: tuple[str, ...]) -> dict[str, BatchUse]:
    by_name = {}
    for name in names:
        most, free = (
            np.array([[bag.get(name, 0) // UNITS[name]] for bag in bags])
            for bags in ([zone.allocatable for zone in one.zones], [zone.free for zone in one.zones])
        )
        by_name[name] = BatchUse(most, free, np.array([True]))
    return by_name


def assert_best_set(one: Node, names: tuple[str, ...], fits: int, numa: NumaInfo) -> None:
    state = read_state(one, {GPU})
    hints = [ResourceHints(name, fits, fits) for name in names]
    decision = merge(one.policy, hints, numa, tie_break(one, state))
    how = ties(one)
    assert how

    every = np.arange(1, 1 << len(one.zones))
    if one.policy.value == "single-numa-node":
        fits = hint_sets.of_width(fits, 1)
    lattice = np.array([[bool(fits >> int(mask) & 1)] for mask in every])
    counted = uses(one, names if how.strategy.value != "none" else (CPU, MEMORY))
    [mask] = batch_scores.first(every, lattice, numa, how, counted).tolist()
    # On a single zone, single-numa-node stores no affinity.
    expected = decision.affinity.mask if decision.affinity.mask is not None else int(decision.admitted)
    assert mask == (expected if decision.admitted else 0)


@given(
    zones,
    st.sampled_from(SCORED),
    st.integers(0, 2**16 - 1),
    st.sampled_from([(CPU,), (CPU, MEMORY), (GPU,), (GPU, CPU, MEMORY)]),
    st.booleans(),
)
def test_the_best_set_by_use_is_that_of_the_rules(
    drawn: list[tuple[tuple[int, int], ...]],
    chosen: Options,
    fits: int,
    names: tuple[str, ...],
    closest: bool,  # noqa: FBT001 - it is drawn
) -> None:
    count = len(drawn)
    near = tuple(row[:count] for row in DISTANCES[:count]) if closest else None
    fits &= hint_sets.every(count)
    assert_best_set(built(drawn, chosen, "restricted"), names, fits, NumaInfo(count, near))


def test_of_equal_scores_the_lower_number_wins() -> None:
    """Zones 0 and 3 come before zones 1 and 2, and are the higher number."""
    one = built([((4, 2),) * 3] * 4, SCORED[0], "restricted")
    assert_best_set(one, (CPU,), hint_sets.of([0b1001, 0b0110]), NumaInfo(4))


@given(zones, st.integers(0, 2**16 - 1))
def test_signals_of_managers_are_those_of_the_rules(
    drawn: list[tuple[tuple[int, int], ...]], fits: int
) -> None:
    one = built(drawn, PACKED, "single-numa-node")
    assert_best_set(one, (GPU,), fits & hint_sets.every(len(drawn)), NumaInfo(len(drawn)))
