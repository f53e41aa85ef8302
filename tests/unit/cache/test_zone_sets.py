"""Sets of zones are the kubelet's masks, by how many zones they have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache import zone_sets
from numalign.kubelet import hint_sets
from numalign.kubelet.topology_manager import NumaInfo

zones_and_width = st.integers(1, 8).flatmap(lambda zones: st.tuples(st.just(zones), st.integers(1, zones)))


def test_sets_stand_in_the_order_of_their_numbers() -> None:
    assert zone_sets.of_width(4, 2).tolist() == [0b0011, 0b0101, 0b0110, 0b1001, 0b1010, 0b1100]


@pytest.mark.parametrize("zones", [1, 2, 5, 8])
def test_all_sets_are_of_some_width(zones: int) -> None:
    found = [mask for width in range(1, zones + 1) for mask in zone_sets.of_width(zones, width).tolist()]

    assert sorted(found) == [*range(1, 1 << zones)]


def test_members_are_the_zones_in_a_set() -> None:
    assert zone_sets.members(3, 2).tolist() == [[1, 1, 0], [1, 0, 1], [0, 1, 1]]


@given(zones_and_width)
def test_a_set_is_made_of_its_halves(both: tuple[int, int]) -> None:
    low, high = zone_sets.halves(*both)

    assert (low | high << zone_sets.HALF).tolist() == zone_sets.of_width(*both).tolist()
    assert (low < 1 << zone_sets.HALF).all()


@given(st.lists(st.integers(0, 255)))
def test_a_set_is_as_wide_as_it_has_zones(masks: list[int]) -> None:
    assert zone_sets.widths(np.array(masks, dtype=np.int64)).tolist() == [mask.bit_count() for mask in masks]


# Which one the kubelet prefers.

FAR_APART = NumaInfo(3, ((10, 30, 11), (30, 10, 30), (11, 30, 10)))
"""Zones 0 and 2 are close."""


def test_without_distances_the_smaller_number_comes_first() -> None:
    fits = np.array([[True, False, False], [True, True, False], [True, True, False]])

    assert zone_sets.first(3, 2, fits, NumaInfo(3)).tolist() == [0b011, 0b101, 0]


def test_with_distances_the_closest_zones_come_first() -> None:
    fits = np.array([[True, True, False], [True, False, False], [True, True, True]])

    assert zone_sets.first(3, 2, fits, FAR_APART).tolist() == [0b101, 0b011, 0b110]


@given(st.data(), st.integers(2, 5))
def test_the_first_of_those_that_fit_is_the_one_that_the_kubelet_picks(
    data: st.DataObject, zones: int
) -> None:
    distance = st.integers(10, 13)
    apart = data.draw(st.none() | st.tuples(*[st.tuples(*[distance] * zones)] * zones))
    width, numa = data.draw(st.integers(1, zones)), NumaInfo(zones, apart)
    sets = zone_sets.of_width(zones, width)
    fits = data.draw(st.lists(st.booleans(), min_size=len(sets), max_size=len(sets)).filter(any))

    (found,) = zone_sets.first(zones, width, np.array(fits)[:, None], numa).tolist()
    assert found == numa.best(
        hint_sets.of(mask for mask, fit in zip(sets.tolist(), fits, strict=True) if fit)
    )


def test_what_is_kept_cannot_be_changed() -> None:
    assert not zone_sets.of_width(3, 1).flags.writeable
