"""What changed is worked out again, and nothing else."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from numalign.cache.arrays import Rows
from numalign.cache.change_log import ChangeLog, TrackedArray
from numalign.model.steps import Steps
from tests.worlds.notation import table

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

    def read_some(self, kept: TrackedArray, *rows: int) -> list[int]:
        """The doubles of these rows."""
        return list[int](kept.at(np.array(rows), len(self.numbers), self.work_out).tolist())

    def catch_up(self, kept: TrackedArray, *rows: int, meanwhile: Callable[[], object] = list) -> None:
        """Work doubles out, of all rows if none is named; something happens after half of it."""

        def computing(some: Rows | None) -> Steps[NDArray[Any]]:
            found = self.work_out(some)
            yield
            return found

        steps = kept.catching_up(np.array(rows) if rows else ALL, len(self.numbers), computing)
        for _ in steps:
            meanwhile()


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


def test_rows_that_come_unheard_of_are_worked_out_too() -> None:
    source = Doubles(1, 2, 3)
    kept = source.patched()
    source.read(kept)
    source.numbers.append(4)

    assert source.read(kept) == [2, 4, 6, 8]
    assert source.wanted == [ALL, [3]]


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


# Of some rows alone.


def test_of_some_rows_only_these_are_worked_out_each_once() -> None:
    source = Doubles(*range(10))
    kept = source.patched()

    assert source.read_some(kept, 7, 2, 7) == [14, 4, 14]
    assert source.read_some(kept, 2) == [4]
    assert source.read_some(kept, 2, 3) == [4, 6]
    assert source.wanted == [[2, 7], [3]]


def test_who_asks_for_most_rows_gets_all_worked_out() -> None:
    source = Doubles(1, 2, 3)
    kept = source.patched()

    assert source.read_some(kept, 2, 0) == [6, 2]
    assert source.read(kept) == [2, 4, 6]
    assert source.wanted == [ALL]


def test_of_some_rows_too_what_changed_is_worked_out_again() -> None:
    source = Doubles(*range(10))
    kept = source.patched()
    source.read(kept)
    source.put(3, 30)
    source.put(4, 40)

    assert source.read_some(kept, 3, 5) == [60, 10]
    assert source.read(kept)[3:5] == [60, 80]
    assert source.wanted == [ALL, [3], [4]]


# Step by step.


def test_what_was_caught_up_with_is_there() -> None:
    source = Doubles(*range(10))
    kept = source.patched()
    source.catch_up(kept)
    assert source.read(kept) == [2 * number for number in range(10)]

    source.put(3, 30)
    source.catch_up(kept)
    source.catch_up(kept)
    assert source.read_some(kept, 3) == [60]
    assert source.wanted == [ALL, [3]]


def test_some_rows_can_be_caught_up_with_alone() -> None:
    source = Doubles(*range(10))
    kept = source.patched()
    source.catch_up(kept, 8, 1, 8)

    assert source.read_some(kept, 1, 8) == [2, 16]
    assert source.wanted == [[1, 8]]


def test_what_changes_meanwhile_is_worked_out_again() -> None:
    source = Doubles(*range(10))
    kept = source.patched()
    source.catch_up(kept, meanwhile=lambda: source.put(4, 40))

    assert source.read(kept)[3:6] == [6, 80, 10]
    assert source.wanted == [ALL, [4]]


def test_what_changes_meanwhile_of_some_rows_is_worked_out_again() -> None:
    source = Doubles(*range(10))
    kept = source.patched()
    source.catch_up(kept, 8, 1, meanwhile=lambda: source.put(8, 80))

    assert source.read_some(kept, 1, 8) == [2, 160]
    assert source.wanted == [[1, 8], [8]]


def test_who_could_not_wait_knows_better() -> None:
    source = Doubles(*range(10))
    kept = source.patched()

    def change() -> None:
        source.put(4, 40)
        assert source.read_some(kept, 4, 5) == [80, 10]

    source.catch_up(kept, meanwhile=change)
    assert source.read_some(kept, 4) == [80]
    assert source.wanted == [ALL, [4, 5]]


def test_when_the_log_begins_anew_meanwhile_nothing_is_taken_over() -> None:
    source = Doubles(*range(10))
    kept = source.patched()

    def change() -> None:
        for number in range(LONG + 1):
            source.put(4, number)

    source.catch_up(kept, meanwhile=change)
    assert source.read_some(kept, 4) == [2 * LONG]


def test_rows_that_come_meanwhile_are_stale() -> None:
    source = Doubles(1, 2, 3)
    kept = source.patched()
    source.catch_up(kept, meanwhile=lambda: source.put(3, 4))

    assert source.read(kept) == [2, 4, 6, 8]
    assert source.wanted == [ALL, [3]]


def test_rows_that_go_meanwhile_are_not_shown() -> None:
    source = Doubles(1, 2, 3)
    kept = source.patched()

    def leave() -> None:
        source.numbers.pop()
        source.changes.note(2)

    source.catch_up(kept, meanwhile=leave)
    assert source.read(kept) == [2, 4]


ways = st.sampled_from(["put", "read", "some", "catch up", "catch up with some"])


@given(st.lists(st.tuples(ways, st.integers(0, 9), st.integers(0, 99)), max_size=30))
def test_whatever_happens_what_is_read_is_so(happens: list[tuple[str, int, int]]) -> None:
    source = Doubles(*range(5))
    kept = source.patched()
    for way, at, number in happens:
        row = min(at, len(source.numbers) - 1)
        put = partial(source.put, min(at, len(source.numbers)), number)
        if way == "put":
            put()
        elif way == "read":
            assert source.read(kept) == [2 * each for each in source.numbers]
        elif way == "some":
            assert source.read_some(kept, row, 0) == [2 * source.numbers[row], 2 * source.numbers[0]]
        else:
            source.catch_up(kept, *[row] * (way != "catch up"), meanwhile=put)
    assert source.read(kept) == [2 * each for each in source.numbers]


def test_an_array_takes_as_much_memory_as_its_numbers() -> None:
    source = Doubles(*range(100))
    kept = source.patched()
    assert kept.bytes == 0

    source.read(kept)
    assert kept.bytes >= 100 * np.dtype(np.int64).itemsize
