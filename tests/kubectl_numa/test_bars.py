"""Bars do not lie at their ends, and amounts stay short enough for a line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_numa.bars import ASCII, BLOCKS, LONGEST_EXACT, bar, short
from tests.notation import table


@pytest.mark.parametrize(
    ("used", "whole", "drawn"),
    table(
        [
            ("nothing used", 0, 62, "........"),
            ("half", 31, 62, "####...."),
            ("all", 62, 62, "########"),
            ("the least bit shows", 1, 1000, "#......."),
            ("what is left shows too", 999, 1000, "#######."),
            ("nothing there", 0, 0, "........"),
            ("more than there is", 70, 62, "########"),
        ]
    ),
)
def test_a_bar_shows_how_much_is_used(used: int, whole: int, drawn: str) -> None:
    assert bar(used, whole, width=8, ink=ASCII) == drawn


def test_blocks_where_the_terminal_can() -> None:
    assert bar(1, 2, width=4, ink=BLOCKS) == "██░░"


@given(used=st.integers(0, 10**15), whole=st.integers(1, 10**15), width=st.integers(2, 40))
def test_only_empty_looks_empty_and_only_full_looks_full(used: int, whole: int, width: int) -> None:
    drawn = bar(used, whole, width=width, ink=ASCII)
    assert len(drawn) == width
    assert ("#" in drawn) == (used > 0)
    assert ("." in drawn) == (used < whole)


@pytest.mark.parametrize(
    ("resource", "amount", "shown"),
    table(
        [
            ("whole CPUs", "cpu", 62_000, "62"),
            ("a part of a CPU", "cpu", 1_500, "1500m"),
            ("memory that divides", "memory", 504 * 2**30, "504Gi"),
            ("memory that does not", "memory", 541_165_875_201, "504.0Gi"),
            ("a few bytes", "memory", 17, "17"),
            ("devices", "nvidia.com/gpu", 4, "4"),
        ]
    ),
)
def test_amounts_are_short(resource: str, amount: int, shown: str) -> None:
    assert short(resource, amount) == shown
    assert len(shown) <= LONGEST_EXACT
