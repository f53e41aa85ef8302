"""
Many sets of zones in one number, compared with the walk over all of them.

Masks are written as bits, as everywhere: `0b101` are the first and the third zone.
"""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kubelet import bitmask, hint_sets
from numalign.kubelet.hint_sets import Between, HintSet
from numalign.model.bitset import members

ZONES = st.integers(0, 7)
AMOUNTS = st.lists(st.sampled_from([0, 1, 2, 3, 5, 100, -1]), max_size=7).map(tuple)
WANTED = st.integers(-2, 12)


def walked(zones: int) -> range:
    return bitmask.ascending(zones)


def total(mask: int, amounts: Sequence[int], between: Sequence[Between] = ()) -> int:
    own = sum(amounts[at] for at in members(mask))
    return own + sum(count for place, count in between if mask & place)


def some(zones: int) -> st.SearchStrategy[HintSet]:
    """Any masks of so many zones."""
    return st.integers(0, hint_sets.every(zones)).map(lambda bits: bits & ~1)


@given(ZONES)
def test_every_mask_but_the_empty_one(zones: int) -> None:
    assert hint_sets.listed(hint_sets.every(zones)) == list(walked(zones))


@given(AMOUNTS, WANTED)
def test_masks_with_enough_of_a_resource(amounts: tuple[int, ...], wanted: int) -> None:
    enough = [mask for mask in walked(len(amounts)) if total(mask, amounts) >= wanted]
    assert hint_sets.listed(hint_sets.reaching(amounts, wanted)) == enough


@given(AMOUNTS, WANTED, st.lists(st.tuples(st.integers(0, 127), st.integers(0, 3)), max_size=4))
def test_device_between_zones_counts_for_each_mask(
    amounts: tuple[int, ...], wanted: int, places: list[Between]
) -> None:
    between = tuple((place & bitmask.full(len(amounts)), count) for place, count in places)
    enough = [mask for mask in walked(len(amounts)) if total(mask, amounts, between) >= wanted]
    assert hint_sets.listed(hint_sets.reaching(amounts, wanted, between)) == enough


def test_masks_with_enough_of_sixteen_zones() -> None:
    amounts, between = tuple(at * at % 7 for at in range(16)), ((0b11 << 7, 5), (0b101, 2))
    enough = [mask for mask in walked(16) if total(mask, amounts, between) >= 30]
    assert hint_sets.listed(hint_sets.reaching(amounts, 30, between)) == enough


@given(st.data(), ZONES)
def test_masks_inside_around_and_touching_others(data: st.DataObject, zones: int) -> None:
    some = data.draw(st.integers(0, bitmask.full(zones)))
    assert hint_sets.listed(hint_sets.inside(some)) == [mask for mask in walked(zones) if mask & some == mask]
    assert hint_sets.listed(hint_sets.around(some, zones)) == [
        mask for mask in walked(zones) if mask & some == some
    ]
    assert hint_sets.listed(hint_sets.touching(some, zones)) == [
        mask for mask in walked(zones) if mask & some
    ]


@given(st.data(), ZONES)
def test_masks_by_width(data: st.DataObject, zones: int) -> None:
    drawn = data.draw(some(zones))
    listed = hint_sets.listed(drawn)
    narrowest = min(map(int.bit_count, listed), default=99)
    assert hint_sets.narrowest_width(drawn, 99) == narrowest
    assert hint_sets.listed(hint_sets.narrowest(drawn)) == [m for m in listed if m.bit_count() == narrowest]
    for width in range(zones + 2):
        assert hint_sets.listed(hint_sets.of_width(drawn, width)) == [
            m for m in listed if m.bit_count() == width
        ]


@given(st.data(), st.integers(0, 5))
def test_intersections_of_two_sets(data: st.DataObject, zones: int) -> None:
    one, other = data.draw(some(zones)), data.draw(some(zones))
    both = {mine & theirs for mine in hint_sets.listed(one) for theirs in hint_sets.listed(other)}
    assert hint_sets.listed(hint_sets.intersections(one, other, zones)) == sorted(both - {0})


@pytest.mark.parametrize("zones", [16, 17])
def test_counts_of_intersections_have_room(zones: int) -> None:
    """Of so many zones a mask is an intersection of nearly 2^zones with as many."""
    every = hint_sets.every(zones)
    assert hint_sets.intersections(every, every, zones) == every
