"""
The merge in columns is the merge of the rules, row by row.

Hints are written as the digits of their zones, as in the tests of the rules: `0 01 | 12` are two lists, `-`
is one without any.
"""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache import batch_merge
from numalign.cache.arrays import Bools
from numalign.kubelet import hint_sets
from numalign.kubelet.hint_sets import HintSet
from numalign.kubelet.topology_manager import NumaInfo, ResourceHints, merge
from numalign.model.bitset import bits, members
from numalign.model.intent import Policy
from tests.worlds.columns import lattice

FOUR = NumaInfo(4)


def lists(*rows: str) -> list[Bools]:
    parsed = ([_hints(part) for part in row.split("|")] for row in rows)
    return [lattice(resource, FOUR.count) for resource in zip(*parsed, strict=True)]


def _hints(text: str) -> HintSet:
    return hint_sets.of(bits(map(int, word)) for word in text.split() if word != "-")


def written(masks: Sequence[int]) -> list[str]:
    return ["".join(map(str, members(mask))) for mask in masks]


BEST_EFFORTS = {
    # hints:                  the best effort
    "0 | 1": "0123",  # nothing intersects
    "- | -": "0123",  # no resource counts
    "- | 1 12": "1",  # one does not count
    "0 01 0123 | 12 23 0123": "01",  # as many zones as the widest request
    "03 13 | 01 02": "0",  # fewer, where it cannot be so many
    "0 23 | 1 23": "23",  # more, where it cannot be fewer
    "0 2 3 | 123": "2",  # the lowest number of those
}


def test_each_row_has_a_best_effort_of_its_own() -> None:
    hints = lists(*BEST_EFFORTS)
    before = [resource.copy() for resource in hints]

    assert written(batch_merge.best_not_preferred(hints, FOUR).tolist()) == [*BEST_EFFORTS.values()]
    assert all(map(np.array_equal, hints, before))


# Laws.


@st.composite
def merges(draw: st.DrawFn) -> tuple[NumaInfo, list[list[HintSet]]]:
    """Zones, some with distances, and by resource the hints of each row."""
    zones = draw(st.integers(1, 8))
    every = hint_sets.every(zones)
    masks = st.integers(1, 2**zones - 1)
    few = st.lists(masks, max_size=4).map(hint_sets.of)
    wide = masks.map(lambda mask: hint_sets.around(mask, zones))
    anything = st.integers(0, every).map(lambda sets: sets & every)
    and_all = few.map(lambda sets: sets | 1 << 2**zones - 1)
    resource = st.lists(few | wide | anything | and_all, min_size=4, max_size=4)
    distances = st.tuples(*[st.tuples(*[st.sampled_from([10, 11, 21])] * zones)] * zones)
    return NumaInfo(zones, draw(st.none() | distances)), draw(st.lists(resource, min_size=1, max_size=4))


@given(merges())
def test_a_merge_is_that_of_the_rules(drawn: tuple[NumaInfo, list[list[HintSet]]]) -> None:
    numa, resources = drawn
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
