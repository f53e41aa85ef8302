"""Sets of zones in columns are the sets of the rules, row by row."""

from collections.abc import Iterable, Sequence
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
from tests.worlds.lattices import hint_sets_of, lattice

ROWS = 3


class Hints(NamedTuple):
    """Sets of zones in some rows, twice."""

    zones: int
    some: list[HintSet]
    others: list[HintSet]


@st.composite
def hints(draw: st.DrawFn) -> Hints:
    zones = draw(st.integers(1, 8))
    masks = st.lists(st.integers(1, 2**zones - 1), max_size=6).map(hint_sets.of)
    anything = st.integers(0, 2**2**zones - 1).map(lambda sets: sets & ~1)
    rows = st.lists(masks | anything, min_size=ROWS, max_size=ROWS)
    return Hints(zones, draw(rows), draw(rows))


@given(hints())
def test_intersections_are_those_of_the_rules(told: Hints) -> None:
    reached = batch_hint_sets.intersections(lattice(told.some, told.zones), lattice(told.others, told.zones))

    assert hint_sets_of(reached) == [
        hint_sets.intersections(one, other, told.zones)
        for one, other in zip(told.some, told.others, strict=True)
    ]


def test_as_many_intersections_as_there_can_be_are_counted() -> None:
    every = lattice([hint_sets.every(8)], 8)

    assert hint_sets_of(batch_hint_sets.intersections(every, every)) == [hint_sets.every(8)]


@given(hints(), st.integers(0, 9))
def test_widths_are_those_of_the_rules(told: Hints, width: int) -> None:
    sets = lattice(told.some, told.zones)

    narrowest = batch_hint_sets.narrowest_width(sets, 9)
    assert narrowest.tolist() == [hint_sets.narrowest_width(one, 9) for one in told.some]
    assert hint_sets_of(batch_hint_sets.of_width(sets, narrowest)) == list(
        map(hint_sets.narrowest, told.some)
    )
    alike = batch_hint_sets.of_width(sets, width)
    assert hint_sets_of(alike) == [hint_sets.of_width(one, width) for one in told.some]


amounts = st.lists(st.lists(st.integers(0, 2**50), min_size=ROWS, max_size=ROWS), min_size=1, max_size=8)


@given(amounts, st.integers(1, 2**53))
def test_the_sets_that_reach_a_request_are_those_of_the_rules(zones: list[list[int]], request: int) -> None:
    reaching = batch_hint_sets.reaching(np.array(zones), request)

    by_row = [hint_sets.reaching(row, request) for row in zip(*zones, strict=True)]
    assert hint_sets_of(reaching) == by_row


def test_no_set_reaches_more_than_a_number_holds() -> None:
    plenty = np.full((8, 1), 2**49)

    assert not batch_hint_sets.reaching(plenty, 2**70).any()
    assert not batch_hint_sets.reaching(plenty, MOST_ASKED).any()


def test_nothing_is_reached_by_sets_with_a_zone_alone() -> None:
    assert hint_sets_of(batch_hint_sets.reaching(np.zeros((2, 1), dtype=np.int64), 0)) == [0b1110]


@given(hints(), st.lists(st.integers(1, 255), min_size=ROWS, max_size=ROWS))
def test_sets_hold_others_or_stand_apart(told: Hints, least: list[Mask]) -> None:
    masks = [mask & 2**told.zones - 1 for mask in least]
    rows = np.array(masks)

    around, apart = batch_hint_sets.around(rows, told.zones), batch_hint_sets.apart(rows, told.zones)
    assert hint_sets_of(around) == [hint_sets.around(mask, told.zones) | (mask == 0) for mask in masks]
    every = hint_sets.every(told.zones)
    assert hint_sets_of(apart) == [(every & ~hint_sets.touching(mask, told.zones)) | 1 for mask in masks]


def test_a_set_has_members_and_members_are_a_set() -> None:
    rows = np.array([0b101, 0b010])

    inside = batch_hint_sets.members(rows, 3)
    assert inside.T.tolist() == [[True, False, True], [False, True, False]]
    assert batch_hint_sets.masks(inside).tolist() == rows.tolist()


# The order of sets.


@given(hints(), st.data())
def test_the_best_set_is_that_of_the_rules(told: Hints, data: st.DataObject) -> None:
    numa = NumaInfo(told.zones, data.draw(st.none() | distances(told.zones)))

    best = batch_hint_sets.best(lattice(told.some, told.zones), batch_hint_sets.by_preference(numa))
    assert best.tolist() == [numa.best(one) if one else 0 for one in told.some]


def distances(zones: int) -> st.SearchStrategy[Distances]:
    row = st.tuples(*[st.sampled_from([10, 11, 21])] * zones)
    return st.tuples(*[row] * zones)


def test_what_stands_behind_all_sets_is_chosen_where_there_is_none() -> None:
    order = batch_hint_sets.in_order([0b11, 0b01, 0b10], otherwise=0b11)

    assert best_of(["01 10", "10", ""], order) == [0b01, 0b10, 0b11]


def best_of(rows: Iterable[str], order: batch_hint_sets.SetOrder) -> Sequence[Mask]:
    told = [hint_sets.of(int(word, 2) for word in text.split()) for text in rows]
    chosen: list[Mask] = batch_hint_sets.best(lattice(told, 2), order).tolist()
    return chosen
