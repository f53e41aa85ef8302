"""Sets of zones in columns are the sets of the rules, row by row."""

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache import batch_hint_sets
from numalign.cache.batch_hint_sets import MOST_ASKED
from numalign.kubelet import hint_sets
from numalign.kubelet.bitmask import Mask
from numalign.kubelet.hint_sets import HintSet
from numalign.kubelet.topology_manager import Distances, NumaInfo
from tests.worlds.columns import hint_sets_of, lattice

ROWS = 3


class Hints(NamedTuple):
    """Sets of zones in some rows, twice."""

    zones: int
    some: list[HintSet]
    others: list[HintSet]


@st.composite
def drawn_hints(draw: st.DrawFn) -> Hints:
    zones = draw(st.integers(1, 8))
    masks = st.lists(st.integers(1, 2**zones - 1), max_size=6).map(hint_sets.of)
    anything = st.integers(0, 2**2**zones - 1).map(lambda sets: sets & ~1)
    rows = st.lists(masks | anything, min_size=ROWS, max_size=ROWS)
    return Hints(zones, draw(rows), draw(rows))


def distances(zones: int) -> st.SearchStrategy[Distances]:
    row = st.tuples(*[st.sampled_from([10, 11, 21])] * zones)
    return st.tuples(*[row] * zones)


@given(drawn_hints())
def test_intersections_are_those_of_the_rules(hints: Hints) -> None:
    reached = batch_hint_sets.intersections(
        lattice(hints.some, hints.zones), lattice(hints.others, hints.zones)
    )

    assert hint_sets_of(reached) == [
        hint_sets.intersections(one, other, hints.zones)
        for one, other in zip(hints.some, hints.others, strict=True)
    ]


def test_as_many_intersections_as_there_can_be_are_counted() -> None:
    every = lattice([hint_sets.every(8)], 8)

    assert hint_sets_of(batch_hint_sets.intersections(every, every)) == [hint_sets.every(8)]


@given(drawn_hints(), st.integers(0, 9))
def test_widths_are_those_of_the_rules(hints: Hints, width: int) -> None:
    sets = lattice(hints.some, hints.zones)

    narrowest = batch_hint_sets.narrowest_width(sets, 9)
    assert narrowest.tolist() == [hint_sets.narrowest_width(one, 9) for one in hints.some]
    for of_width, by_rules in ((narrowest, hint_sets.narrowest), (width, None)):
        assert hint_sets_of(batch_hint_sets.of_width(sets, of_width)) == [
            by_rules(one) if by_rules else hint_sets.of_width(one, width) for one in hints.some
        ]


amounts = st.lists(st.lists(st.integers(0, 2**50), min_size=ROWS, max_size=ROWS), min_size=1, max_size=8)


@given(amounts, st.integers(1, 2**53))
def test_sets_reach_a_request_as_by_the_rules(zones: list[list[int]], request: int) -> None:
    by_row = [hint_sets.reaching(row, request) for row in zip(*zones, strict=True)]

    assert hint_sets_of(batch_hint_sets.reaching(np.array(zones), request)) == by_row


def test_huge_requests_fit_no_set_and_zero_fits_all() -> None:
    plenty = np.full((8, 1), 2**49)

    assert not batch_hint_sets.reaching(plenty, 2**70).any()
    assert not batch_hint_sets.reaching(plenty, MOST_ASKED).any()
    assert hint_sets_of(batch_hint_sets.reaching(np.zeros((2, 1), dtype=np.int64), 0)) == [0b1110]


@given(drawn_hints(), st.lists(st.integers(1, 255), min_size=ROWS, max_size=ROWS))
def test_sets_around_and_apart_are_those_of_the_rules(hints: Hints, least: list[Mask]) -> None:
    masks = [mask & 2**hints.zones - 1 for mask in least]
    rows, every = np.array(masks), hint_sets.every(hints.zones)

    assert hint_sets_of(batch_hint_sets.around(rows, hints.zones)) == [
        hint_sets.around(mask, hints.zones) | (mask == 0) for mask in masks
    ]
    assert hint_sets_of(batch_hint_sets.apart(rows, hints.zones)) == [
        (every & ~hint_sets.touching(mask, hints.zones)) | 1 for mask in masks
    ]
    assert batch_hint_sets.masks(batch_hint_sets.members(rows, hints.zones)).tolist() == masks


@given(drawn_hints(), st.data())
def test_the_best_set_is_that_of_the_rules(hints: Hints, data: st.DataObject) -> None:
    numa = NumaInfo(hints.zones, data.draw(st.none() | distances(hints.zones)))

    best = batch_hint_sets.best(lattice(hints.some, hints.zones), batch_hint_sets.by_preference(numa))
    assert best.tolist() == [numa.best(one) if one else 0 for one in hints.some]


def test_rows_without_sets_have_the_choice_of_the_order() -> None:
    order = batch_hint_sets.in_order([0b11, 0b01, 0b10], otherwise=0b11)
    rows = [hint_sets.of([0b01, 0b10]), hint_sets.of([0b10]), hint_sets.of([])]

    assert batch_hint_sets.best(lattice(rows, 2), order).tolist() == [0b01, 0b10, 0b11]
