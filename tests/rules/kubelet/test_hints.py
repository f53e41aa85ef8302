"""
Many sets of zones in one number, held against the walk over all of them.

Masks are written as bits, as everywhere: `0b101` are the first and the third zone.
"""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.rules.kubelet import hints, masks
from numalign.rules.kubelet.hints import Between, Hints

ZONES = st.integers(0, 7)
AMOUNTS = st.lists(st.sampled_from([0, 1, 2, 3, 5, 100, -1]), max_size=7).map(tuple)
ASKED = st.integers(-2, 12)


def walked(zones: int) -> range:
    return masks.ascending(zones)


def total(mask: int, amounts: Sequence[int], between: Sequence[Between] = ()) -> int:
    own = sum(amounts[at] for at in masks.members(mask))
    return own + sum(count for place, count in between if mask & place)


def some(zones: int) -> st.SearchStrategy[Hints]:
    """Any masks of so many zones."""
    return st.integers(0, hints.every(zones)).map(lambda bits: bits & ~1)


def test_hints_are_listed_by_number() -> None:
    assert hints.listed(hints.of([0b100, 0b1, 0b11])) == [0b1, 0b11, 0b100]
    assert hints.listed(hints.NONE) == []
    assert hints.lowest(hints.of([0b100, 0b11])) == 0b11


@given(ZONES)
def test_every_mask_but_the_empty_one(zones: int) -> None:
    assert hints.listed(hints.every(zones)) == list(walked(zones))


@given(AMOUNTS, ASKED)
def test_masks_that_have_enough(amounts: tuple[int, ...], asked: int) -> None:
    enough = [mask for mask in walked(len(amounts)) if total(mask, amounts) >= asked]

    assert hints.listed(hints.reaching(amounts, asked)) == enough


@given(AMOUNTS, ASKED, st.lists(st.tuples(st.integers(0, 127), st.integers(0, 3)), max_size=4))
def test_what_sits_between_zones_counts_once_for_each_mask_that_touches_it(
    amounts: tuple[int, ...], asked: int, places: list[Between]
) -> None:
    between = tuple((place & masks.full(len(amounts)), count) for place, count in places)
    enough = [mask for mask in walked(len(amounts)) if total(mask, amounts, between) >= asked]

    assert hints.listed(hints.reaching(amounts, asked, between)) == enough


def test_of_sixteen_zones_the_same_masks_have_enough() -> None:
    amounts, between = tuple(at * at % 7 for at in range(16)), ((0b11 << 7, 5), (0b101, 2))
    enough = [mask for mask in walked(16) if total(mask, amounts, between) >= 30]

    assert hints.listed(hints.reaching(amounts, 30, between)) == enough


@given(st.data(), ZONES)
def test_masks_by_what_they_hold(data: st.DataObject, zones: int) -> None:
    some = data.draw(st.integers(0, masks.full(zones)))

    assert hints.listed(hints.inside(some)) == [mask for mask in walked(zones) if mask & some == mask]
    assert hints.listed(hints.around(some, zones)) == [mask for mask in walked(zones) if mask & some == some]
    assert hints.listed(hints.touching(some, zones)) == [mask for mask in walked(zones) if mask & some]


@given(st.data(), ZONES)
def test_masks_by_width(data: st.DataObject, zones: int) -> None:
    drawn = data.draw(some(zones))
    listed = hints.listed(drawn)
    narrowest = min(map(int.bit_count, listed), default=99)

    assert hints.narrowest_width(drawn, 99) == narrowest
    assert hints.listed(hints.narrowest(drawn)) == [m for m in listed if m.bit_count() == narrowest]
    for width in range(zones + 2):
        assert hints.listed(hints.of_width(drawn, width)) == [m for m in listed if m.bit_count() == width]


NARROWEST = [
    ("fewer zones before smaller numbers", [0b0011, 0b1000], 0b1000),
    ("the smaller number among equals", [0b1001, 0b0110], 0b0110),
]


@pytest.mark.parametrize(("candidates", "chosen"), [each[1:] for each in NARROWEST])
def test_the_kubelet_prefers(candidates: list[int], chosen: int) -> None:
    assert hints.lowest(hints.narrowest(hints.of(candidates))) == chosen


@given(st.data(), st.integers(0, 5))
def test_intersections_of_one_of_each(data: st.DataObject, zones: int) -> None:
    one, other = data.draw(some(zones)), data.draw(some(zones))
    both = {mine & theirs for mine in hints.listed(one) for theirs in hints.listed(other)}

    assert hints.listed(hints.intersections(one, other, zones)) == sorted(both - {0})


@pytest.mark.parametrize("zones", [16, 17])
def test_the_counts_have_room(zones: int) -> None:
    """Of so many zones a mask is an intersection of nearly 2^zones with as many."""
    every = hints.every(zones)

    assert hints.intersections(every, every, zones) == every
