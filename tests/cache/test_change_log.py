"""What changed is worked out again, and nothing else."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from numalign.cache.arrays import Rows
from numalign.cache.change_log import ChangeLog, TrackedArray
from tests.notation import table

ALL = None
"""What is asked for where every row is."""

LONG = 4096
"""So many changes are noted before a log begins anew."""


class Doubles:
    """Twice the number of each row, and which rows somebody wanted to know it of."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)
        self.changes = ChangeLog()
        self.wanted: list[list[int] | None] = []

    def put(self, row: int, number: int) -> None:
        """A row has another number."""
        self.numbers[row : row + 1] = [number]
        self.changes.note(row)

    def work_out(self, rows: Rows | None) -> NDArray[Any]:
        """As `Compute`."""
        self.wanted.append(ALL if rows is None else rows.tolist())
        every = 2 * np.array(self.numbers, dtype=np.int64)
        return every if rows is None else every[rows]

    def patched(self) -> TrackedArray:
        """Nothing is worked out yet."""
        return TrackedArray(self.changes, np.zeros(0, dtype=np.int64))

    def read(self, kept: TrackedArray) -> list[int]:
        """All doubles."""
        return list[int](kept.current(len(self.numbers), self.work_out).tolist())


def noted(*rows: int) -> ChangeLog:
    changes = ChangeLog()
    for row in rows:
        changes.note(row)
    return changes


def since(changes: ChangeLog, place: tuple[int, int], below: int = 100) -> list[int] | None:
    rows = changes.since(place, below=below)
    return None if rows is None else rows.tolist()


# The log.


def test_rows_that_changed_since_are_told_once_and_in_order() -> None:
    changes = noted(1, 2)
    place = changes.place
    for row in (7, 3, 7):
        changes.note(row)

    assert since(changes, place) == [3, 7]
    assert since(changes, changes.place) == []


def test_rows_that_are_gone_are_not_told() -> None:
    changes = ChangeLog()
    place = changes.place
    for row in (4, 5, 6):
        changes.note(row)

    assert since(changes, place, below=5) == [4]


def test_a_long_log_begins_anew_and_then_all_rows_changed() -> None:
    changes = ChangeLog()
    start = changes.place
    for _ in range(LONG):
        changes.note(5)
    assert since(changes, start) == [5]

    changes.note(6)
    assert since(changes, start) is ALL
    assert since(changes, (changes.place[0], 0)) == [6]


# What is patched.


def test_at_first_all_is_worked_out_and_then_nothing() -> None:
    source = Doubles(1, 2, 3)
    kept = source.patched()

    assert source.read(kept) == [2, 4, 6]
    assert source.read(kept) == [2, 4, 6]
    assert source.wanted == [ALL]


@pytest.mark.parametrize(
    ("changed", "wanted"),
    table(
        [
            ("one row", [2], [2]),
            ("one row again and again", [2, 2, 2], [2]),
            ("half of the rows", [3, 0], [0, 3]),
            ("more than half of them", [3, 0, 1], ALL),
            ("so many that the log begins anew", [1] * (LONG + 1), ALL),
        ]
    ),
)
def test_only_what_changed_is_worked_out_again_unless_it_is_most(
    changed: list[int], wanted: list[int] | None
) -> None:
    source = Doubles(1, 2, 3, 4)
    kept = source.patched()
    source.read(kept)
    for row in changed:
        source.put(row, 10 + row)

    assert source.read(kept) == [2 * number for number in source.numbers]
    assert source.wanted == [ALL, wanted]


def test_what_did_not_change_is_not_even_looked_at() -> None:
    source = Doubles(1, 2, 3, 4)
    kept = source.patched()
    source.read(kept)
    source.numbers[0] = 99
    source.put(1, 20)

    assert source.read(kept) == [2, 40, 6, 8]


def test_rows_that_come_make_it_wider() -> None:
    source = Doubles(1, 2, 3, 4)
    kept = source.patched()
    source.read(kept)
    for row in range(4, 9):
        source.put(row, row + 1)
        assert source.read(kept) == [2 * number for number in source.numbers]

    assert source.wanted == [ALL, [4], [5], [6], [7], [8]]


def test_rows_that_come_unheard_of_are_nothing() -> None:
    source = Doubles(1, 2, 3)
    kept = source.patched()
    source.read(kept)

    assert kept.current(5, source.work_out).tolist() == [2, 4, 6, 0, 0]


def test_rows_that_went_are_not_shown() -> None:
    source = Doubles(1, 2, 3, 4)
    kept = source.patched()
    source.read(kept)
    source.numbers.pop()
    source.changes.note(3)

    assert source.read(kept) == [2, 4, 6]
    assert source.wanted == [ALL]


def test_of_tables_it_is_the_last_axis_that_is_patched() -> None:
    changes = ChangeLog()
    kept = TrackedArray(changes, np.zeros((2, 0), dtype=np.int64))
    numbers = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    kept.current(3, lambda _: numbers[:, :3].copy())
    numbers[:, 1] = 20, 60
    for row in (1, 3):
        changes.note(row)

    assert kept.current(4, lambda rows: numbers[:, rows]).tolist() == [[1, 20, 3, 4], [5, 60, 7, 8]]
