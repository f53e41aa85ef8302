"""What placements are worth in columns is what the rules say of each of them, to the last digit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.batch_scoring import Unit, nearest_sets, values
from numalign.decision import scoring
from numalign.decision.scoring import Strategy, whole
from numalign.model.resources import CPU, MEMORY
from tests.worlds.notation import GPU, Ids, node, table

FEW, MOST, LEAST, BALANCED = (
    Strategy.LEAST_NUMA_NODES,
    Strategy.MOST_ALLOCATED,
    Strategy.LEAST_ALLOCATED,
    Strategy.BALANCED_ALLOCATION,
)
MUCH = 2**44
"""Bytes of memory: more than any zone has."""

# What only certain amounts show.


def rounded(strategy: Strategy, *amounts: tuple[str, int, int]) -> tuple[int, int]:
    """The value in columns, and by the rules, by what is asked and free of each resource in a zone."""
    frees = tuple((name, requests, np.array([free])) for name, requests, free in amounts)
    unit = Unit(frees, np.array([1]), np.array([True]))
    (ours,) = values(strategy, [unit], {}, max_zones=8).tolist()
    wholes = [(name, whole(name, requests), free) for name, requests, free in amounts]
    return ours, scoring.OF_AMOUNTS[strategy](wholes, {})


PRIME = 2**46 - 21
FREE = 2**52
"""As much as zones can have free together."""

EDGES = [
    # what it shows                          strategy  amounts                                     value
    ("a hair less than a percent more",      MOST,     [(MEMORY, PRIME // 2, PRIME)],               49),
    ("a percent that floats make up",        MOST,     [(MEMORY, 170759386239848, 172484228525099)], 98),
    ("more than floats can tell apart",      MOST,     [(MEMORY, FREE - 1, FREE)],                  99),
    ("nearly all of it is left",             LEAST,    [(MEMORY, 1, FREE)],                         99),
    ("more is asked than numbers hold",      MOST,     [(MEMORY, 2**64, FREE)],                     0),
    ("nothing is free",                      MOST,     [(GPU, 1, 0)],                               0),
    ("of nothing, all is used",              BALANCED, [(GPU, 1, 0), (MEMORY, 1, 2)],               87),
    ("more is asked than is free",           BALANCED, [(GPU, 3, 2), (MEMORY, 1, 2)],               0),
    ("all shares alike",                     BALANCED, [(GPU, 1, 3), (CPU, 7000, 21), (MEMORY, 5, 15)], 100),
    ("exactly twelve percent apart",         BALANCED, [(GPU, 1, 5), (CPU, 1000, 5), (MEMORY, 4, 5)],  88),
    ("exactly two percent apart",            BALANCED, [(GPU, 1, 5), (MEMORY, 2, 5)],               98),
    ("a hair more apart than that",          BALANCED, [(GPU, 1, 5), (MEMORY, MUCH // 5 * 2 + 1, MUCH)], 97),
]  # fmt: skip


@pytest.mark.parametrize(("strategy", "amounts", "value"), table(EDGES))
def test_a_value_is_not_rounded_twice(
    strategy: Strategy, amounts: list[tuple[str, int, int]], value: int
) -> None:
    assert rounded(strategy, *amounts) == (value, value)


@pytest.mark.parametrize("strategy", [MOST, LEAST])
@given(st.integers(1, FREE), st.integers(0, 100), st.integers(-2, 2))
def test_whole_percents_are_exact_for_any_amount(
    strategy: Strategy, free: int, percent: int, beside: int
) -> None:
    requests = max(0, free * percent // 100 + beside)
    ours, theirs = rounded(strategy, (MEMORY, requests, free))

    assert ours == theirs


@given(st.data())
def test_balance_is_exact_between_two_values(data: st.DataObject) -> None:
    """Shares k/5 and (k + 1)/5 are two percent apart; a byte more or less of them decides."""
    parts, fifths = data.draw(st.integers(1, 2**41)), data.draw(st.integers(0, 4))
    requests = max(1, parts * (fifths + 1) + data.draw(st.integers(-1, 1)))
    gpus = data.draw(st.integers(1, 9))
    ours, theirs = rounded(BALANCED, (GPU, fifths * gpus, 5 * gpus), (MEMORY, requests, 5 * parts))

    assert ours == theirs


# Units and zones.


def test_a_unit_counts_where_it_has_zones() -> None:
    free = np.array([2, 2, 2])
    half = Unit(((GPU, 1, free),), np.array([1, 1, 0]), np.array([True, False, True]))
    full = Unit(((GPU, 2, free),), np.array([2, 0, 0]), np.array([True, True, True]))
    nothing = Unit((), np.array([0, 0, 0]), np.array([True, True, True]))

    assert values(MOST, [half, full, nothing], {}, max_zones=8).tolist() == [75, 50, 100]
    assert values(FEW, [half, full, nothing], {}, max_zones=8).tolist() == [82, 88, 100]
    for strategy in Strategy:
        assert values(strategy, [nothing], {}, max_zones=2).tolist() == [100, 100, 100]


FAR: dict[Ids, int] = {(0, 1): 30, (1, 0): 30, (0, 3): 20, (3, 0): 20, (1, 3): 20, (3, 1): 20}


def test_sets_are_nearest_or_not() -> None:
    node_of = node("cpu=1", "cpu=1", "cpu=1", ids=(0, 1, 3), costs=FAR | {(at, at): 10 for at in (0, 1, 3)})

    nearest = nearest_sets(tuple((zone.id, zone.costs) for zone in node_of.zones))
    assert nearest.tolist() == [True, True, True, False, True, True, True, True]
