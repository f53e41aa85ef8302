"""
The choice between equally good sets of zones by what is allocated, on many nodes at once.

Restates `kubelet.numa_scores` for answers that are preferred. All rows of a call have the same number of
zones, the same distances or none, and the same `Ties`.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.column_state import ColumnState
from numalign.cache.columns import When
from numalign.cache.layout_kinds import Trait
from numalign.kubelet.numa_scores import PERCENT, USUAL_WEIGHT, Ties
from numalign.kubelet.topology_manager import NumaInfo
from numalign.model.bitset import members
from numalign.model.options import NumaStrategy
from numalign.model.resources import CPU, MEMORY

_NONE = -1


class BatchUse(NamedTuple):
    """What each zone has of a resource, and what of that is free, (zones, rows); on which rows it counts."""

    allocatable: Ints
    free: Ints
    counted: Bools


def uses(state: ColumnState, ties: Ties, names: Iterable[str]) -> dict[str, BatchUse]:
    """Return the use of what decides: of the resources requested or, without a strategy, of the managers'."""
    empty = ColumnState(state.plan, When.EMPTY, state.rows)
    if ties.strategy is not NumaStrategy.NONE:
        return {name: BatchUse(empty.free(name), state.free(name), state.gives(name)) for name in names}
    managed = {CPU: state.has(Trait.KEEPS_CPUS), MEMORY: state.has(Trait.KEEPS_MEMORY)}
    return {name: BatchUse(empty.free(name), state.free(name), counted) for name, counted in managed.items()}


def first(sets: Ints, fits: Bools, numa: NumaInfo, ties: Ties, uses: Mapping[str, BatchUse]) -> Ints:
    """Return by row the set that a kubelet prefers among those that fit; 0 if none does.

    `fits` is (sets, rows). Of the narrowest and closest sets, each is compared with the best of those before.
    """
    order, ranks = _in_order(tuple(sets.tolist()), numa)
    sets, fits = sets[order], fits[order]
    equals = fits & (ranks[:, None] == np.where(fits, ranks[:, None], len(ranks)).min(axis=0))
    signals = _signals(sets, ties, uses)
    rows = np.arange(fits.shape[1])
    best: Ints = np.full(fits.shape[1], _NONE)
    for at, mask in enumerate(sets.tolist()):
        gain = np.sign(sum(_gain(signal[at], signal[best, rows]) for signal in signals))
        lower = (gain == 0) & (mask < sets[best])
        best[equals[at] & ((best == _NONE) | (gain > 0) | lower)] = at
    found: Ints = np.where(best == _NONE, 0, sets[best])
    return found


def _gain(signal: Ints, before: Ints) -> Ints:
    """Return 1 where a signal is higher than before, -1 where it is lower; 0 compares with no other."""
    gain: Ints = np.sign(signal - before) * ((signal != 0) & (before != 0))
    return gain


def _signals(sets: Ints, ties: Ties, uses: Mapping[str, BatchUse]) -> list[Ints]:
    """Return what decides between sets, each (sets, rows): the higher is better."""
    if ties.strategy is NumaStrategy.NONE:
        # Here an unused zone is a signal too. Without a manager nothing is allocatable, on every zone.
        return [_percent(sets, use)[0] + 1 for use in uses.values()]
    weights = dict(ties.weights)
    shape = len(sets), *np.shape(next(iter(uses.values())).counted)
    total, weight = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for name, use in uses.items():
        percent, there = _percent(sets, use)
        own = weights.get(name, USUAL_WEIGHT)
        total += own * np.maximum(percent, 1) * there
        weight += own * there
    sign = 1 if ties.strategy is NumaStrategy.MOST_ALLOCATED else -1
    return [sign * (total // np.maximum(weight, 1))]


def _percent(sets: Ints, use: BatchUse) -> tuple[Ints, Bools]:
    """Return how much of the zones of each set is allocated, and whether there is anything to allocate."""
    inside = sets[:, None] >> np.arange(len(use.allocatable)) & 1
    allocatable = inside @ use.allocatable.astype(np.int64)
    assigned = allocatable - inside @ use.free.astype(np.int64)
    there = (allocatable > 0) & use.counted
    return np.where(there, assigned * PERCENT // np.maximum(allocatable, 1), 0), there


@lru_cache(maxsize=64)
def _in_order(sets: tuple[int, ...], numa: NumaInfo) -> tuple[Rows, Ints]:
    """Return the positions of sets in the order of IterateBitMasks, and ranks, the same for equals."""
    order = sorted(range(len(sets)), key=lambda at: (sets[at].bit_count(), *members(sets[at])))
    keys = [numa.rank(sets[at])[:2] for at in order]
    by_key = {key: rank for rank, key in enumerate(sorted({*keys}))}
    return np.array(order, dtype=np.intp), np.array([by_key[key] for key in keys])
