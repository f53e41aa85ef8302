"""
The merge in columns is the merge of the rules, row by row.

Hints are written as the digits of their zones, as in the tests of the rules: `0 01 | 12` are two lists, `-`
is one without any.
"""

from collections.abc import Sequence

import numpy as np

from numalign.cache import batch_merge
from numalign.cache.arrays import Bools
from numalign.kubelet import hint_sets
from numalign.kubelet.hint_sets import HintSet
from numalign.kubelet.topology_manager import NumaInfo
from numalign.model.bitset import bits, members
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
    "2 12 | 12 123": "12",  # as many, though fewer would do
}


def test_each_row_has_a_best_effort_of_its_own() -> None:
    hints = lists(*BEST_EFFORTS)
    before = [resource.copy() for resource in hints]

    assert written(batch_merge.best_not_preferred(hints, FOUR).tolist()) == [*BEST_EFFORTS.values()]
    assert all(map(np.array_equal, hints, before))
    assert written(batch_merge.preferred(hints, FOUR).tolist()) == ["", "", "", "0123", "", "23", "", "12"]
