"""Sets of zones are the kubelet's masks, by how many zones they have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache import zone_sets
from numalign.kubelet import hint_sets
from numalign.kubelet.topology_manager import NumaInfo

zones_and_width = st.integers(1, 8).flatmap(lambda zones: st.tuples(st.just(zones), st.integers(1, zones)))


def test_sets_are_in_the_order_of_their_numbers() -> None:
    assert zone_sets.of_width(4, 2).tolist() == [0b0011, 0b0101, 0b0110, 0b1001, 0b1010, 0b1100]
    assert zone_sets.members(3, 2).tolist() == [[1, 1, 0], [1, 0, 1], [0, 1, 1]]
    assert not zone_sets.of_width(3, 1).flags.writeable


@pytest.mark.parametrize("zones", [1, 2, 5, 8])
def test_all_sets_are_of_some_width(zones: int) -> None:
    sets = [mask for width in range(1, zones + 1) for mask in zone_sets.of_width(zones, width).tolist()]

    assert sorted(sets) == [*range(1, 1 << zones)]
    assert zone_sets.widths(np.array(sets)).tolist() == [mask.bit_count() for mask in sets]


@given(zones_and_width)
def test_a_set_is_made_of_its_halves(both: tuple[int, int]) -> None:
    low, high = zone_sets.halves(*both)

    assert (low | high << zone_sets.HALF).tolist() == zone_sets.of_width(*both).tolist()
    assert (low < 1 << zone_sets.HALF).all()


@given(st.data(), st.integers(2, 5))
def test_the_first_set_is_the_one_that_the_kubelet_picks(data: st.DataObject, zones: int) -> None:
    distance = st.integers(10, 13)
    apart = data.draw(st.none() | st.tuples(*[st.tuples(*[distance] * zones)] * zones))
    width, numa = data.draw(st.integers(1, zones)), NumaInfo(zones, apart)
    sets = zone_sets.of_width(zones, width)
    fits = data.draw(st.lists(st.booleans(), min_size=len(sets), max_size=len(sets)))

    (first,) = zone_sets.first(zones, width, np.array(fits)[:, None], numa).tolist()
    fitting = hint_sets.of(mask for mask, fit in zip(sets.tolist(), fits, strict=True) if fit)
    assert first == (numa.best(fitting) if any(fits) else 0)
