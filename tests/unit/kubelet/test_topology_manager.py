"""The topology manager's merge, against the kubelet's own walk over all permutations."""

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import product
from operator import and_
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kubelet import bitmask, hint_sets
from numalign.kubelet.topology_manager import (
    Decision,
    Distances,
    NumaInfo,
    Permutation,
    ResourceHints,
    TopologyHint,
    merge,
)
from numalign.model.bitset import members
from numalign.model.intent import Policy

EIGHT = NumaInfo(8)


@pytest.mark.parametrize(("policy", "mask"), [(Policy.SINGLE_NUMA_NODE, None), (Policy.RESTRICTED, 0b1)])
def test_single_numa_node_stores_no_affinity_to_all_zones(policy: Policy, mask: int | None) -> None:
    one = ResourceHints("r", hint_sets.of([0b1]), hint_sets.of([0b1]))
    assert merge(policy, [one], NumaInfo(1)) == Decision(TopologyHint(mask, preferred=True), admitted=True)


def highest(_resources: Sequence[str], permutations: Iterable[Permutation]) -> int:
    return max(reduce(and_, masks) for masks in permutations)


def test_lowest_of_too_many_preferred_equals_wins() -> None:
    def chosen(count: int, width: int) -> int | None:
        masks = hint_sets.of_width(hint_sets.every(count), width)
        hints = [ResourceHints("cpu", masks, masks)]
        return merge(Policy.RESTRICTED, hints, NumaInfo(count), highest).affinity.mask

    assert (chosen(10, 5), chosen(11, 5)) == (0b1111100000, 0b11111)


def test_lowest_of_too_many_permutations_wins() -> None:
    def chosen(lists: int) -> int | None:
        hints = [ResourceHints(f"r{at}", hint_sets.every(4), hint_sets.NONE) for at in range(lists)]
        return merge(Policy.BEST_EFFORT, hints, NumaInfo(4), highest).affinity.mask

    assert (chosen(3), chosen(4)) == (0b1000, 0b1)


def test_merge_of_eight_zones_walks_no_permutations() -> None:
    """There are 255^8 of them: a walk of them never ends."""
    every = ResourceHints("r", hint_sets.every(EIGHT.count), hint_sets.NONE)
    decision = merge(Policy.BEST_EFFORT, [every] * 8, EIGHT)
    assert decision == Decision(TopologyHint(0b1, preferred=False), admitted=True)


# The kubelet's walk (mergePermutation and HintMerger.compare of policy.go), restated to compare with.

Hint = tuple[int | None, bool]


def walked(policy: Policy, lists: Sequence[Sequence[Hint]], zones: NumaInfo, shuffle: Random) -> TopologyHint:
    """What the walk over all permutations, in any order, merges the hints to."""
    full, closest = bitmask.full(zones.count), zones.distances
    lists = [list(hints) or [(None, False)] for hints in lists] or [[(None, True)]]
    if policy is Policy.SINGLE_NUMA_NODE:
        lists, closest = (
            [[hint for hint in hints if hint[1] and _is_single(hint[0])] for hints in lists],
            None,
        )
    narrowest = (min((mask.bit_count() for mask, _ in hints if mask), default=0) for hints in lists)
    limit = max(narrowest, default=0)
    permutations = list(product(*lists))
    shuffle.shuffle(permutations)
    best: TopologyHint | None = None
    for permutation in permutations:
        best = _better(best, _merged(permutation, full), limit, closest)
    best = best or TopologyHint(full, preferred=False)
    nil = policy is Policy.SINGLE_NUMA_NODE and best.mask == full
    return TopologyHint(None, preferred=best.preferred) if nil else best


def _is_single(mask: int | None) -> bool:
    return mask is None or mask.bit_count() == 1


def _merged(permutation: Sequence[Hint], full: int) -> TopologyHint:
    hints = [mask for mask, _ in permutation if mask is not None]
    mask = full
    for other in hints:
        mask &= other
    return TopologyHint(
        mask, preferred=len(set(hints)) <= 1 and all(preferred for _, preferred in permutation)
    )


def _better(
    current: TopologyHint | None, candidate: TopologyHint, limit: int, distances: Distances | None
) -> TopologyHint | None:
    if not candidate.mask:
        return current
    if not current or not current.mask:
        return candidate
    if current.preferred != candidate.preferred:
        return current if current.preferred else candidate
    mine, theirs = current.mask.bit_count(), candidate.mask.bit_count()
    if current.preferred or mine > limit:
        return _preferable(current, candidate, distances)
    if mine == limit:
        return _preferable(current, candidate, distances) if theirs == limit else current
    if theirs > limit:
        return current
    if theirs == limit or theirs > mine:
        return candidate
    return _preferable(current, candidate, distances) if theirs == mine else current


def _preferable(current: TopologyHint, candidate: TopologyHint, distances: Distances | None) -> TopologyHint:
    return min(current, candidate, key=lambda hint: _order(hint.mask or 0, distances))


def _order(mask: int, distances: Distances | None) -> tuple[int, float, int]:
    """Fewer zones, then the smaller average distance, then the smaller number."""
    zones = list(members(mask))
    pairs = [distances[one][other] for one, other in product(zones, zones)] if distances else [0]
    return mask.bit_count(), sum(pairs) / len(pairs), mask


def hint_lists(count: int) -> st.SearchStrategy[list[dict[int, bool]]]:
    hints = st.dictionaries(st.integers(1, bitmask.full(count)), st.booleans(), max_size=6)
    return st.lists(hints, max_size=3)


def distances(count: int) -> st.SearchStrategy[Distances | None]:
    row = st.tuples(*[st.sampled_from([10, 20, 21, 32])] * count)
    return st.none() | st.tuples(*[row] * count)


@given(st.data(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_merge_equals_the_walk_over_permutations(data: st.DataObject, count: int, shuffle: Random) -> None:
    drawn, zones = data.draw(hint_lists(count)), NumaInfo(count, data.draw(distances(count)))
    offers = [
        ResourceHints(f"r{at}", hint_sets.of(hints), hint_sets.of(mask for mask in hints if hints[mask]))
        for at, hints in enumerate(drawn)
    ]
    for policy in (Policy.BEST_EFFORT, Policy.RESTRICTED, Policy.SINGLE_NUMA_NODE):
        decision = merge(policy, offers, zones)
        expected = walked(policy, [list(hints.items()) for hints in drawn], zones, shuffle)
        assert decision.admitted is (policy is Policy.BEST_EFFORT or expected.preferred)
        assert not decision.admitted or decision.affinity == expected
