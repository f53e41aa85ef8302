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
        self.computed: list[list[int] | None] = []

    def put(self, row: int, number: int) -> None:
        self.numbers[row : row + 1] = [number]
        self.changes.note(row)

    def compute(self, rows: Rows | None) -> NDArray[Any]:
        self.computed.append(ALL if rows is None else rows.tolist())
        every = 2 * np.array(self.numbers, dtype=np.int64)
        return every if rows is None else every[rows]

    def patched(self) -> TrackedArray:
        return TrackedArray(self.changes, np.zeros(0, dtype=np.int64))

    def read(self, array: TrackedArray) -> list[int]:
        return list[int](array.current(len(self.numbers), self.compute).tolist())

    def read_some(self, array: TrackedArray, *rows: int) -> list[int]:
        return list[int](array.at(np.array(rows), len(self.numbers), self.compute).tolist())

    def catch_up(self, array: TrackedArray, *rows: int, between: Callable[[], object] = list) -> None:
        """Work doubles out, of all rows if none is named; something happens after half of it."""

        def computing(some: Rows | None) -> Steps[NDArray[Any]]:
            numbers = self.compute(some)
            yield
            return numbers

        steps = array.catching_up(np.array(rows) if rows else ALL, len(self.numbers), computing)
        for _ in steps:
            between()


def log_of(*rows: int) -> ChangeLog:
    changes = ChangeLog()
    for row in rows:
        changes.note(row)
    return changes


def since(changes: ChangeLog, place: tuple[int, int], below: int = 100) -> list[int] | None:
    rows = changes.since(place, below=below)
    return None if rows is None else rows.tolist()


# The log.


def test_changed_rows_are_listed_once_and_in_order() -> None:
    changes = log_of(1, 2)
    place = changes.place
    for row in (7, 3, 7):
        changes.note(row)

    assert since(changes, place) == [3, 7]
    assert since(changes, place, below=5) == [3], "rows that are gone are not listed"
    assert since(changes, changes.place) == []


def test_after_a_long_log_all_rows_changed() -> None:
    changes = log_of(*[5] * LONG)
    assert since(changes, (changes.place[0], 0)) == [5]

    start = changes.place[0], 0
    changes.note(6)
    assert since(changes, start) is ALL
    assert since(changes, (changes.place[0], 0)) == [6]


# What is patched.


CHANGED = [
    ("one row", [2], [2]),
    ("half of the rows", [3, 0], [0, 3]),
    ("more than half of them", [3, 0, 1], ALL),
    ("so many that the log begins anew", [1] * (LONG + 1), ALL),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "computed"), table(CHANGED))
def test_only_changed_rows_are_computed_unless_most_are(
    changed: list[int], computed: list[int] | None
) -> None:
    source = Doubles(1, 2, 3, 4)
    array = source.patched()
    source.read(array)
    for row in changed:
        source.put(row, 10 + row)

    assert source.read(array) == [2 * number for number in source.numbers]
    assert source.computed == [ALL, computed]


# Of some rows alone.


def test_only_requested_rows_are_computed_each_once() -> None:
    source, small = Doubles(*range(10)), Doubles(1, 2, 3)
    array, all_of_it = source.patched(), small.patched()

    assert source.read_some(array, 7, 2, 7) == [14, 4, 14]
    assert source.read_some(array, 2) == [4]
    assert source.read_some(array, 2, 3) == [4, 6]
    assert source.computed == [[2, 7], [3]]
    assert small.read_some(all_of_it, 2, 0) == [6, 2]
    assert small.read(all_of_it) == [2, 4, 6]
    assert small.computed == [ALL], "for most rows all are computed"


# Step by step.


def read_early(source: Doubles, array: TrackedArray) -> None:
    source.put(4, 40)
    assert source.read_some(array, 4, 5) == [80, 10]


def go(source: Doubles, _array: TrackedArray) -> None:
    source.numbers.pop()
    source.changes.note(9)


def restart(source: Doubles, _array: TrackedArray) -> None:
    for number in range(LONG + 1):
        source.put(4, number)


BETWEEN: list[tuple[str, Callable[[Doubles, TrackedArray], object], list[list[int] | None]]] = [
    # what happens half-way                                                what is computed until all are read
    ("a row changes",                  lambda source, _: source.put(4, 40), [ALL, [4]]),
    ("a row changes and is read then", read_early,                          [ALL, [4, 5]]),
    ("the log begins anew",            restart,                             [ALL, ALL]),
    ("a row goes",                     go,                                  [ALL]),
]  # fmt: skip


@pytest.mark.parametrize(("between", "computed"), table(BETWEEN))
def test_changes_between_steps_are_computed_again(
    between: Callable[[Doubles, TrackedArray], object], computed: list[list[int] | None]
) -> None:
    source = Doubles(*range(10))
    array = source.patched()
    source.catch_up(array, between=lambda: between(source, array))

    assert source.read(array) == [2 * number for number in source.numbers]
    assert source.computed == computed


ways = st.sampled_from(["put", "read", "some", "catch up", "catch up with some"])


@given(st.lists(st.tuples(ways, st.integers(0, 9), st.integers(0, 99)), max_size=30))
def test_arrays_are_current_after_any_events(events: list[tuple[str, int, int]]) -> None:
    source = Doubles(*range(5))
    array = source.patched()
    for way, at, number in events:
        row = min(at, len(source.numbers) - 1)
        put = partial(source.put, min(at, len(source.numbers)), number)
        if way == "put":
            put()
        elif way == "read":
            assert source.read(array) == [2 * each for each in source.numbers]
        elif way == "some":
            assert source.read_some(array, row, 0) == [2 * source.numbers[row], 2 * source.numbers[0]]
        else:
            source.catch_up(array, *[row] * (way != "catch up"), between=put)
    assert source.read(array) == [2 * each for each in source.numbers]
