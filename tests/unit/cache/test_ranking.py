"""Which node is the best: by alignment, then by strategies in order, then as numbers for two schedulers."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.ranking import Measure, Ranking, Ranks, Relative, Score, ranks
from numalign.decision.scoring import HIGHEST, Strategy
from numalign.model.node import Node
from tests.worlds.columns import batch, ranked
from tests.worlds.notation import node, table

FEW, MOST, LEAST = Strategy.LEAST_NUMA_NODES, Strategy.MOST_ALLOCATED, Strategy.LEAST_ALLOCATED
RELATIVE = Relative.NUMA_NODES

EMPTY = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy="best-effort")
"""Two zones, with everything free."""
FULLER = node("cpu=8//4 mem=8Gi gpu=4//2", "cpu=8//4 mem=8Gi gpu=4//2", policy="best-effort")
TORN = node("cpu=8//8 mem=8Gi gpu=4//0", "cpu=8//0 mem=8Gi gpu=4//4", policy="best-effort")
"""CPUs are free in one NUMA zone, and devices in the other."""
WIDE = node("cpu=16 mem=8Gi gpu=4", "cpu=16 mem=8Gi gpu=4", policy="best-effort")
LOOSE, FULL = replace(EMPTY, policy=EMPTY.policy.NONE), node("cpu=8//0 mem=8Gi gpu=4//0")

POD = "cpu=4 mem=4Gi gpu=2"
REFUSES = Score((0, 0))


def by(*strategies: Measure, **weights: int) -> Ranking:
    return Ranking(strategies or Ranking().strategies, weights)


def scores(ranks_of: Ranks) -> list[Score]:
    return [ranks_of.score(place) for place in range(len(ranks_of.admitted))]


def values(ranks_of: Ranks) -> list[tuple[int, ...]]:
    return [score.values for score in scores(ranks_of)]


def names(count: int) -> list[str]:
    return [f"n{at}" for at in range(count)]


# Strategies.


def test_alignment_comes_before_every_strategy() -> None:
    ranks_of = ranked([TORN, EMPTY], POD, by(LEAST))

    assert ranks_of.order(names(2)) == [1, 0]
    assert values(ranks_of) == [(58,), (50,)]


def test_without_a_node_for_the_pod_none_is_best() -> None:
    assert ranked([FULL], POD).best(["a"]) is None
    assert ranked([], POD).best([]) is None
    assert made([]).squeezed(10) == []


def test_for_pods_that_opt_out_all_nodes_are_equal() -> None:
    ranks_of = ranks(batch([LOOSE, FULL, EMPTY], POD), [by(FEW, RELATIVE)], opted_out=True)
    best = Score((100, 100), aligned=True, admitted=True)

    assert scores(ranks_of) == [best, REFUSES, best]


ALONE, TWICE = by(RELATIVE), "cpu=8 mem=1Gi | cpu=8 mem=1Gi"
COUNTED = [
    # what it shows                   nodes           pod        ranking, values
    ("as in Volcano",                 [EMPTY, TORN],  POD,       ALONE, [(50,), (0,)]),
    ("nothing pinned anywhere",       [EMPTY, LOOSE], "cpu=4..", ALONE, [(100,), (100,)]),
    ("all of a pod's zones together", [EMPTY, WIDE],  TWICE,     ALONE, [(0,), (50,)]),
    ("nobody takes it",               [FULL],         POD,       ALONE, [(0,)]),
    ("beside other strategies", [EMPTY, TORN], POD, by(MOST, RELATIVE, FEW), [(50, 50, 94), (41, 0, 82)]),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "pod", "ranking", "expected"), table(COUNTED))
def test_relative_values_are(
    nodes: list[Node], pod: str, ranking: Ranking, expected: list[tuple[int, ...]]
) -> None:
    assert values(ranked(nodes, pod, ranking)) == expected


# Who is asked, and by which ranking.


@pytest.mark.parametrize("position", [0, 1, 2])
def test_the_own_node_replaces_its_row(position: int) -> None:
    nodes: list[Node | None] = [FULL, EMPTY, TORN]
    others: list[Node] = [TORN, FULL, FULLER]
    rows = [*nodes[:position], others[position], *nodes[position + 1 :]]
    own = batch(nodes, POD, own=(position, others[position]))

    assert scores(ranks(own, [by(MOST, RELATIVE)])) == scores(ranked(rows, POD, by(MOST, RELATIVE)))


def test_nodes_of_different_rankings_are_compared() -> None:
    ranks_of = ranks(batch([FULLER, EMPTY], POD), [by(LEAST), by(FEW), by(MOST)], chosen=[2, 1])

    assert (values(ranks_of), ranks_of.order(names(2))) == ([(83,), (94,)], [1, 0])


MORE = [by(FEW), by(FEW, MOST)]


def test_missing_values_count_as_the_best() -> None:
    ranks_of = ranks(batch([EMPTY, EMPTY, FULL], POD), MORE, chosen=[1, 0, 0])

    assert values(ranks_of) == [(94, 50), (94, 100), (0, 0)]


# Numbers for schedulers.


def made(drawn: Iterable[Score], width: int = 1) -> Ranks:
    scored = list(drawn)
    columns = np.array([score.values for score in scored], dtype=np.int64).reshape(len(scored), width)
    return Ranks(
        np.array([score.admitted for score in scored], dtype=np.bool_),
        np.array([score.aligned for score in scored], dtype=np.bool_),
        tuple(columns[:, at] for at in range(width)),
    )


def test_absolute_numbers_begin_with_the_first_value() -> None:
    several = [Score(values, aligned=True, admitted=True) for values in ((94, 100), (94, 0))]

    assert made(several, 2).absolute() == pytest.approx([94, 93.8])
    assert made([Score((0,), aligned=True, admitted=True)]).absolute() == [0.5]


percents = st.sampled_from([0, 1, 2, 50, 93, 94, 99, 100]) | st.integers(0, 100)
MOST_VALUES = 12
"""More than fit in one number."""


def some(width: int) -> st.SearchStrategy[tuple[list[Score], int]]:
    one = st.builds(
        Score,
        values=st.lists(percents, min_size=width, max_size=width).map(tuple),
        aligned=st.booleans(),
        admitted=st.sampled_from([True, True, False]),
    )
    nothing = Score((0,) * width)
    sensible = one.map(lambda score: score if score.admitted else nothing)
    return st.tuples(st.lists(sensible, min_size=1, max_size=40), st.just(width))


few_values = st.integers(1, len([*Strategy, *Relative])).flatmap(some)
any_scores = st.integers(1, MOST_VALUES).flatmap(some)
Drawn = tuple[list[Score], int]


def rank(score: Score) -> tuple[int, ...]:
    """What scores are compared by, as the words have it."""
    return (score.admitted, score.aligned, *score.values)


@given(any_scores)
def test_nodes_are_in_the_order_of_their_ranks(drawn: Drawn) -> None:
    scored, width = drawn
    labels = names(len(scored))[::-1]
    order = made(scored, width).order(labels)
    best = made(scored, width).best(labels)

    assert order == sorted(
        range(len(scored)), key=lambda at: ([-part for part in rank(scored[at])], labels[at])
    )
    assert best == (order[0] if scored[order[0]].admitted else None)


@given(any_scores)
def test_squeezed_numbers_follow_from_the_kinds_of_nodes(drawn: Drawn) -> None:
    scored, width = drawn
    every = sorted({rank(score) for score in scored})
    last = len(every) - 1
    numbers = [10 * every.index(rank(score)) // last if last else 10 for score in scored]

    assert made(scored, width).squeezed(10) == [
        number if score.admitted else 0 for score, number in zip(scored, numbers, strict=True)
    ]


@given(st.integers(12, 400))
def test_many_kinds_share_numbers_evenly(count: int) -> None:
    shared = Counter(made(_ascending(count), 2).squeezed(10))

    assert shared.pop(10) == 1
    assert {*shared} == {*range(10)}
    assert max(shared.values()) - min(shared.values()) <= 1


def _ascending(count: int) -> list[Score]:
    return [Score((at // 100, at % 100), aligned=True, admitted=True) for at in range(count)]


@given(any_scores, st.data())
def test_reserved_nodes_come_before_equals_only(drawn: Drawn, data: st.DataObject) -> None:
    scored, width = drawn
    place, labels = data.draw(st.integers(0, len(scored) - 1)), names(len(scored))
    after = made(scored, width).above_equals([place])

    def before_others(at: int) -> tuple[tuple[int, ...], bool, str]:
        reserved = at == place and scored[at].admitted
        return tuple(-part for part in rank(scored[at])), not reserved, labels[at]

    assert after.order(labels) == sorted(range(len(scored)), key=before_others)


@given(any_scores, st.data())
def test_the_score_of_one_node_can_be_replaced(drawn: Drawn, data: st.DataObject) -> None:
    scored, width = drawn
    place = data.draw(st.integers(0, len(scored) - 1))
    other = data.draw(st.sampled_from(scored))
    changed = [*scored[:place], other, *scored[place + 1 :]]
    labels, before = names(len(scored)), made(scored, width)

    after, without = before.with_score(place, other), before.without(place)

    assert after.order(labels) == made(changed, width).order(labels)
    assert not without.score(place).admitted
    assert without.best(labels) != place
    assert before.order(labels) == made(scored, width).order(labels)


@given(few_values)
def test_absolute_numbers_are_percents_in_order(drawn: Drawn) -> None:
    scored, width = drawn
    numbers = made(scored, width).absolute()
    admitted = [pair for pair in zip(scored, numbers, strict=True) if pair[0].admitted]

    assert all(0 <= number <= HIGHEST for number in numbers)
    assert all(number == 0 for score, number in zip(scored, numbers, strict=True) if not score.admitted)
    for one, number in admitted:
        for other, its in admitted:
            assert (rank(one) > rank(other)) == (number > its)


@given(few_values)
def test_absolute_numbers_are_near_the_first_value(drawn: Drawn) -> None:
    scored, width = drawn

    for score, number in zip(scored, made(scored, width).absolute(), strict=True):
        if score.aligned:
            assert abs(number - score.values[0]) <= 0.5
            assert width > 1 or number == max(score.values[0], 0.5)
