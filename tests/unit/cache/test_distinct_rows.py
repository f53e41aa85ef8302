"""Rows that say the same are of one kind."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.distinct_rows import kinds

rows = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.tuples(*[st.integers(-2, 2) | st.just(2**62)] * width), max_size=30).map(
        lambda drawn: (drawn, width)
    )
)


def test_equal_rows_have_one_number() -> None:
    numbers, firsts = kinds([np.array([7, 3, 7, 3]), np.array([1, 9, 1, 2])])

    assert numbers.tolist() == [2, 1, 2, 0]
    assert firsts[[0, 1]].tolist() == [3, 1]
    assert firsts[2] in {0, 2}


@given(rows)
def test_numbers_are_the_places_of_rows_among_all_that_differ(
    drawn: tuple[list[tuple[int, ...]], int],
) -> None:
    told, width = drawn
    table = np.array(told, dtype=np.int64).reshape(len(told), width)
    numbers, firsts = kinds([table[:, at] for at in range(width)])
    different = sorted({*told})

    assert numbers.tolist() == [different.index(row) for row in told]
    assert [told[first] for first in firsts] == different
