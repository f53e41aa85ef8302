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


@given(rows)
def test_numbers_are_places_among_different_rows(drawn: tuple[list[tuple[int, ...]], int]) -> None:
    table_rows, width = drawn
    table = np.array(table_rows, dtype=np.int64).reshape(len(table_rows), width)
    numbers, firsts = kinds([table[:, at] for at in range(width)])
    different = sorted({*table_rows})

    assert numbers.tolist() == [different.index(row) for row in table_rows]
    assert [table_rows[first] for first in firsts] == different
