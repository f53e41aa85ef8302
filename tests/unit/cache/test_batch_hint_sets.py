"""Sets of zones in columns are the sets of the rules, row by row."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache import batch_hint_sets
from numalign.cache.batch_hint_sets import MOST_ASKED
from numalign.kubelet import hint_sets
from numalign.kubelet.hint_sets import HintSet
from numalign.kubelet.topology_manager import NumaInfo
from tests.worlds.columns import hint_sets_of, lattice

ROWS = 3


@st.composite
def rows_of(draw: st.DrawFn, zones: int) -> list[HintSet]:
    masks = st.lists(st.integers(1, 2**zones - 1), max_size=6).map(hint_sets.of)
    anything = st.integers(0, 2**2**zones - 1).map(lambda sets: sets & ~1)
    return draw(st.lists(masks | anything, min_size=ROWS, max_size=ROWS))


@given(st.data(), st.integers(1, 8), st.integers(0, 9))
def test_sets_are_those_of_the_rules(data: st.DataObject, zones: int, width: int) -> None:
    some, others = data.draw(rows_of(zones)), data.draw(rows_of(zones))
    masks = data.draw(st.lists(st.integers(0, 2**zones - 1), min_size=ROWS, max_size=ROWS))
    distances = st.tuples(*[st.tuples(*[st.sampled_from([10, 11, 21])] * zones)] * zones)
    numa = NumaInfo(zones, data.draw(st.none() | distances))
    sets, rows, every = lattice(some, zones), np.array(masks), hint_sets.every(zones)
    narrowest = batch_hint_sets.narrowest_width(sets, 9)
    best = batch_hint_sets.best(sets, batch_hint_sets.by_preference(numa))

    assert hint_sets_of(batch_hint_sets.intersections(sets, lattice(others, zones))) == [
        hint_sets.intersections(one, other, zones) for one, other in zip(some, others, strict=True)
    ]
    assert narrowest.tolist() == [hint_sets.narrowest_width(one, 9) for one in some]
    assert hint_sets_of(batch_hint_sets.of_width(sets, narrowest)) == [
        hint_sets.narrowest(one) for one in some
    ]
    assert hint_sets_of(batch_hint_sets.of_width(sets, width)) == [
        hint_sets.of_width(one, width) for one in some
    ]
    assert best.tolist() == [numa.best(one) if one else 0 for one in some]
    assert hint_sets_of(batch_hint_sets.around(rows, zones)) == [
        hint_sets.around(mask, zones) | (mask == 0) for mask in masks
    ]
    assert hint_sets_of(batch_hint_sets.apart(rows, zones)) == [
        (every & ~hint_sets.touching(mask, zones)) | 1 for mask in masks
    ]
    assert batch_hint_sets.masks(batch_hint_sets.members(rows, zones)).tolist() == masks


amounts = st.lists(st.lists(st.integers(0, 2**50), min_size=ROWS, max_size=ROWS), min_size=1, max_size=8)


@given(amounts, st.integers(1, 2**53))
def test_sets_reach_a_request_as_by_the_rules(zones: list[list[int]], request: int) -> None:
    by_row = [hint_sets.reaching(row, request) for row in zip(*zones, strict=True)]

    assert hint_sets_of(batch_hint_sets.reaching(np.array(zones), request)) == by_row


def test_extremes_are_counted() -> None:
    plenty, every = np.full((8, 1), 2**49), lattice([hint_sets.every(8)], 8)

    assert hint_sets_of(batch_hint_sets.intersections(every, every)) == [hint_sets.every(8)]
    assert not batch_hint_sets.reaching(plenty, 2**70).any()
    assert not batch_hint_sets.reaching(plenty, MOST_ASKED).any()
    assert hint_sets_of(batch_hint_sets.reaching(np.zeros((2, 1), dtype=np.int64), 0)) == [0b1110]


def test_rows_without_sets_have_the_choice_of_the_order() -> None:
    order = batch_hint_sets.in_order([0b11, 0b01, 0b10], otherwise=0b11)
    rows = [hint_sets.of([0b01, 0b10]), hint_sets.of([0b10]), hint_sets.of([])]

    assert batch_hint_sets.best(lattice(rows, 2), order).tolist() == [0b01, 0b10, 0b11]
