"""Which name each row has."""

import itertools

import numpy as np

from numalign.cache.name_column import NameColumn


def names(*row_names: str | None) -> NameColumn:
    made = NameColumn()
    for row, name in enumerate(row_names):
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


def test_the_version_grows_with_another_name() -> None:
    made = names("small", "large")
    versions = [made.version]
    for row, name in ((0, "small"), (0, "large"), (1, None), (1, None)):
        made.put(row, name)
        versions.append(made.version)

    assert [after > before for before, after in itertools.pairwise(versions)] == [False, True, True, False]


def test_unused_names_are_dropped_in_time() -> None:
    made = names("small", None, "large")
    for number in range(3000):
        made.put(3, f"name-{number}")

    assert made.every() == {"small", "large", "name-2999"}
    assert [made.of(0), made.of(2), made.of(3)] == ["small", "large", "name-2999"]
    assert made.mapped({"large": 1}, 4).tolist() == [-1, -1, 1, -1]
    assert len(made) < 300
