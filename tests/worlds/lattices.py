"""Sets of zones of the rules as columns hold them, and back again."""

from collections.abc import Sequence

import numpy as np

from numalign.cache.arrays import Bools
from numalign.kubelet import hint_sets
from numalign.kubelet.hint_sets import HintSet


def lattice(rows: Sequence[HintSet], zones: int) -> Bools:
    """The sets of each row: (2^zones, rows)."""
    by_set = [[bool(sets >> mask & 1) for sets in rows] for mask in range(1 << zones)]
    return np.array(by_set, dtype=np.bool_)


def hint_sets_of(sets: Bools) -> list[HintSet]:
    """The sets of each row as one number."""
    return [hint_sets.of(np.flatnonzero(row).tolist()) for row in sets.T]
