"""Which name each row has."""

import numpy as np
import pytest

from numalign.cache.name_column import NameColumn


def names(*told: str | None) -> NameColumn:
    made = NameColumn()
    for row, name in enumerate(told):
        made.put(row, name)
    return made


def among(made: NameColumn, *rows: int) -> set[str]:
    chosen = np.zeros(1 + max(rows, default=0), dtype=np.bool_)
    chosen[list(rows)] = True
    return {*made.among(chosen)}


def test_each_row_has_its_name_or_none() -> None:
    made = names("small", "large", None, "small")

    assert made.every() == {"small", "large"}
    assert [made.of(row) for row in (0, 1, 3)] == ["small", "large", "small"]
    assert [among(made, 0, 3), among(made, 1), among(made, 2)] == [{"small"}, {"large"}, set()]


def test_a_name_that_is_taken_away_is_no_name_any_more() -> None:
    made = names("small", "blue")
    made.put(1, None)

    assert made.every() == {"small"}


def test_no_rows_have_no_names() -> None:
    assert among(names("small")) == set()
    assert {*NameColumn().among(np.zeros(0, dtype=np.bool_))} == set()
    assert NameColumn().every() == frozenset()


def test_rows_are_numbered_as_their_names_are_by_somebody_else() -> None:
    made = names("small", None, "large", "small", "unheard of")

    assert made.numbered({"small": 7, "large": 3}, 5).tolist() == [7, -1, 3, 7, -1]
    assert made.numbered({"small": 7}, 2).tolist() == [7, -1]
    assert NameColumn().numbered({"small": 7}, 0).tolist() == []


def test_there_may_be_very_many() -> None:
    made = names(*(f"name-{number}" for number in range(100)))

    assert len(made.every()) == 100
    assert made.of(99) == "name-99"


def test_a_copy_changes_apart() -> None:
    made = names("small")
    other = made.copy()
    other.put(0, "large")

    assert made.every() == {"small"}
    assert other.every() == {"large"}


@pytest.mark.parametrize("gone", [10, 3000])
def test_names_that_no_row_has_are_forgotten_in_time(gone: int) -> None:
    made = names("small", "large")
    for number in range(gone):
        made.put(2, f"name-{number}")
    told = made.every()

    other = made.copy()

    assert other.every() == told
    assert [other.of(0), other.of(1)] == ["small", "large"]
    assert other.numbered({"large": 1}, 3).tolist() == [-1, 1, -1]
    assert len(other.copy()) < 300


def test_after_everything_has_gone_there_is_nothing() -> None:
    made = names(*(f"name-{number}" for number in range(500)))
    for row in range(500):
        made.put(row, None)

    assert made.copy().every() == frozenset()
