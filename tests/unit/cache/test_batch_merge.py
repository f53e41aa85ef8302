"""
The merge in columns is the merge of the rules, row by row.

Hints are written as the digits of their zones, as in the tests of the rules: `0 01 | 12` are two lists, `-`
is one without any.
"""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache import batch_merge
from numalign.cache.arrays import Bools
from numalign.kubelet import hint_sets
from numalign.kubelet.hint_sets import HintSet
from numalign.kubelet.topology_manager import NumaInfo, ResourceHints, merge
from numalign.model.bitset import bits, members
from numalign.model.intent import Policy
from tests.worlds.lattices import lattice

FOUR = NumaInfo(4)
NEAR = NumaInfo(4, ((10, 21, 21, 12), (21, 10, 11, 21), (21, 11, 10, 21), (12, 21, 21, 10)))
"""The zones 1 and 2 are the closest, then 0 and 3."""


def lists(*rows: str, zones: int = FOUR.count) -> list[Bools]:
    """By resource the hints of each row."""
    told = ([_hints(part) for part in row.split("|")] for row in rows)
    return [lattice(resource, zones) for resource in zip(*told, strict=True)]


def _hints(text: str) -> HintSet:
    return hint_sets.of(bits(map(int, word)) for word in text.split() if word != "-")


def written(masks: Sequence[int]) -> list[str]:
    return ["".join(map(str, members(mask))) for mask in masks]


BEST_EFFORTS = [
    # what is chosen                                hints                       mask
    ("all zones, where nothing meets",              "0 | 1",                    "0123"),
    ("all zones, where nobody can be served",       "- | -",                    "0123"),
    ("as if who cannot be served did not ask",      "- | 1 12",                 "1"),
    ("as many zones as who needs most",             "0 01 0123 | 12 23 0123",   "01"),
    ("fewer, where it cannot be so many",           "03 13 | 01 02",            "0"),
    ("more, where it cannot be fewer",              "0 23 | 1 23",              "23"),
    ("the lowest number of those",                  "0 2 3 | 123",              "2"),
]  # fmt: skip


@pytest.mark.parametrize(("hints", "mask"), [pytest.param(*row[1:], id=row[0]) for row in BEST_EFFORTS])
def test_a_best_effort_comes_to(hints: str, mask: str) -> None:
    assert written(batch_merge.best_not_preferred(lists(hints), FOUR).tolist()) == [mask]


def test_each_row_has_a_best_effort_of_its_own() -> None:
    """Some rows need no merging, others do."""
    hints = lists(*(row[1] for row in BEST_EFFORTS))

    chosen = batch_merge.best_not_preferred(hints, FOUR)
    assert written(chosen.tolist()) == [row[2] for row in BEST_EFFORTS]


def test_fewer_zones_come_before_more_by_however_many() -> None:
    hints = lists("6 0123 | 345 0123", zones=8)

    assert written(batch_merge.best_not_preferred(hints, NumaInfo(8)).tolist()) == ["3"]


def test_the_closest_are_chosen_where_distances_count() -> None:
    hints = lists("01 03 12 0123 | 0 01 03 12 0123", "01 03 0123 | 0 0123")

    assert written(batch_merge.best_not_preferred(hints, FOUR).tolist()) == ["01", "01"]
    assert written(batch_merge.best_not_preferred(hints, NEAR).tolist()) == ["12", "03"]
    assert written(batch_merge.preferred(lists("01 03 12 | 01 03 12", "01 03 | 03 01"), NEAR).tolist()) == [
        "12",
        "03",
    ]


def test_what_is_preferred_is_the_narrowest_set_that_all_prefer() -> None:
    hints = lists("01 2 3 | 01 3", "0 1 | 2 3", "0 1 | -")

    assert written(batch_merge.preferred(hints, FOUR).tolist()) == ["3", "", ""]


# Against the rules.


@st.composite
def merges(draw: st.DrawFn) -> tuple[NumaInfo, list[list[HintSet]]]:
    """Some zones, near to each other and far, and by resource the hints of each row."""
    zones = draw(st.integers(1, 8))
    every = hint_sets.every(zones)
    masks = st.integers(1, 2**zones - 1)
    few = st.lists(masks, max_size=4).map(hint_sets.of)
    wide = masks.map(lambda mask: hint_sets.around(mask, zones))
    anything = st.integers(0, every).map(lambda sets: sets & every)
    beside_all = few.map(lambda sets: sets | 1 << 2**zones - 1)
    resource = st.lists(few | wide | anything | beside_all, min_size=4, max_size=4)
    distances = st.tuples(*[st.tuples(*[st.sampled_from([10, 11, 21])] * zones)] * zones)
    return NumaInfo(zones, draw(st.none() | distances)), draw(st.lists(resource, min_size=1, max_size=4))


@given(merges())
def test_a_merge_is_that_of_the_rules(told: tuple[NumaInfo, list[list[HintSet]]]) -> None:
    numa, resources = told
    hints = [lattice(rows, numa.count) for rows in resources]

    rows = list(zip(*resources, strict=True))
    assert batch_merge.preferred(hints, numa).tolist() == [_preferred(row, numa) for row in rows]
    assert batch_merge.best_not_preferred(hints, numa).tolist() == [_best_effort(row, numa) for row in rows]


def _preferred(row: Sequence[HintSet], numa: NumaInfo) -> int:
    listed = [ResourceHints(f"r{at}", sets, sets) for at, sets in enumerate(row)]
    return merge(Policy.RESTRICTED, listed, numa).affinity.mask or 0


def _best_effort(row: Sequence[HintSet], numa: NumaInfo) -> int | None:
    listed = [ResourceHints(f"r{at}", sets, hint_sets.NONE) for at, sets in enumerate(row)]
    return merge(Policy.BEST_EFFORT, listed, numa).affinity.mask


def test_hints_are_left_as_they_are() -> None:
    hints = lists("- | 0", "0 0123 | 1")
    before = [resource.copy() for resource in hints]

    batch_merge.best_not_preferred(hints, FOUR)
    batch_merge.preferred(hints, FOUR)
    assert all(map(np.array_equal, hints, before))
