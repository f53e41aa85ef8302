"""A figure beside what it is held against."""

import math

import pytest

from tools.bench.rows import Row, digits


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((0.0, "0"), (0.05234, "0.0523"), (0.5, "0.5"), (1.234, "1.23"), (12.34, "12.3"), (99.96, "100")),
        *((123.4, "123"), (21669, "21,669"), (math.inf, "too long")),
    ],
)
def test_three_digits_mean_something(value: float, shown: str) -> None:
    assert digits(value) == shown


def test_a_row_says_how_many_times_it_is_what_stands_beside_it() -> None:
    row = Row("verdicts", 0.5, "ms", beside=0.25, beside_what="in Go", target=0.8)
    assert row.cells() == ["verdicts", "0.5 ms", "0.25 ms in Go", "2", "≤ 0.8 ms", "met"]


def test_what_has_nothing_beside_it_says_why() -> None:
    row = Row("verdicts", 0.5, "ms", beside_what="no go here")
    assert row.cells() == ["verdicts", "0.5 ms", "no go here", "", "", ""]


@pytest.mark.parametrize(
    ("row", "met"),
    [
        pytest.param(Row("", 1, "ms", target=1), True, id="as much as it may be"),
        pytest.param(Row("", 1.1, "ms", target=1), False, id="more than it may be"),
        pytest.param(Row("", math.inf, "ms", target=1), False, id="never measured"),
        pytest.param(Row("", 0.9, "", target=0.9, over=True), True, id="as much as it must be"),
        pytest.param(Row("", 0.8, "", target=0.9, over=True), False, id="less than it must be"),
        pytest.param(Row("", 1, "ms"), None, id="nothing is aimed at"),
    ],
)
def test_a_target_is_met_or_missed(row: Row, met: bool | None) -> None:  # noqa: FBT001 - a column of a table
    assert row.met is met
