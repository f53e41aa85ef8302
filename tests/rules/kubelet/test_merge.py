"""
The topology manager's merge: first as a table, then against the kubelet's own walk over all permutations.

Hints are written as the digits of their zones, with p for preferred: `0p 1p 01 | 01p` are two lists of hints,
`-` is a list without any (impossible), and an empty text means that nobody cares.
"""

from collections.abc import Sequence
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.rules.intent import Policy
from numalign.rules.kubelet import masks
from numalign.rules.kubelet.merge import Decision, Merged, Offer, decide, offer
from tests.notation import table

ZONES = 8


def offers_of(text: str) -> list[Offer]:
    return [_offer(at, part.split()) for at, part in enumerate(text.split("|")) if part.strip()]


def _offer(at: int, words: list[str]) -> Offer:
    hints = {_mask(word): word.endswith("p") for word in words if word != "-"}
    return Offer(f"r{at}", tuple(hints), frozenset(mask for mask, preferred in hints.items() if preferred))


def _mask(word: str) -> int:
    return masks.of(int(digit) for digit in word.removesuffix("p"))


def written(decision: Decision) -> str:
    """An affinity as it is written in the tables; `nil` if none is stored, `all` for all zones."""
    if not decision.admitted:
        return "no"
    mask = decision.affinity.mask
    zones = "nil" if mask is None else "".join(map(str, masks.members(mask)))
    zones = "all" if mask == masks.full(ZONES) else zones
    return zones + "p" * decision.affinity.preferred


# Most of it restates policy_test.go of the kubelet's topology manager.
MERGED = [
    # what it shows                            hints                best-effort restricted single-numa-node
    ("nobody cares",                            "",                  "allp", "allp", "nilp"),
    ("one resource, one zone",                  "0p 1p 01",          "0p",   "0p",   "0p"),
    ("two resources agree on a zone",           "0p | 0p",           "0p",   "0p",   "0p"),
    ("the lowest zone that both like",          "0p 1p | 1p 2p",     "1p",   "1p",   "1p"),
    ("fewer zones before lower ones",           "01p 2p | 01p 2p",   "2p",   "2p",   "2p"),
    ("preferred means the same set of zones",   "01p 02p | 01p 02p", "01p",  "01p",  "no"),
    ("one resource is impossible",              "-",                 "all",  "no",   "no"),
    ("the impossible leaves the other's zones", "- | 1p",            "1",    "no",   "no"),
    ("different zones",                         "0p | 1p",           "all",  "no",   "no"),
    ("an overlap is not the same set",          "0p | 01p",          "0",    "no",   "no"),
    ("the same set, but one does not like it",  "0p | 0",            "0",    "no",   "no"),
    ("each wants another number of zones",      "01p | 0p 1p 01",    "01",   "no",   "no"),
    ("as wide as the widest of the narrowest",  "0123 01 | 03",      "03",   "no",   "no"),
    ("the lowest of that width",                "0123 01 | 12 23",   "12",   "no",   "no"),
    ("else the widest below it",                "012p | 13p",        "1",    "no",   "no"),
    ("else the narrowest above it",             "0p 1234 | 5p 1234", "1234", "no",   "no"),
    ("all zones, where all want them",          "01234567p",         "allp", "allp", "no"),
]  # fmt: skip


@pytest.mark.parametrize(("hints", "best_effort", "restricted", "single"), table(MERGED))
def test_hints_merge(hints: str, best_effort: str, restricted: str, single: str) -> None:
    offers = offers_of(hints)

    assert written(decide(Policy.BEST_EFFORT, offers, ZONES)) == best_effort
    assert written(decide(Policy.RESTRICTED, offers, ZONES)) == restricted
    assert written(decide(Policy.SINGLE_NUMA_NODE, offers, ZONES)) == single
    assert written(decide(Policy.NONE, offers, ZONES)) == "nil"


def test_on_a_single_zone_no_affinity_is_stored_by_single_numa_node() -> None:
    [one] = offers_of("0p")

    assert decide(Policy.SINGLE_NUMA_NODE, [one], 1) == Decision(Merged(None, preferred=True), admitted=True)
    assert decide(Policy.RESTRICTED, [one], 1) == Decision(Merged(0b1, preferred=True), admitted=True)


def test_a_refused_container_keeps_no_affinity() -> None:
    refused = Decision(Merged(None, preferred=False), admitted=False)

    assert decide(Policy.RESTRICTED, offers_of("0p | 1p"), ZONES) == refused


def test_an_offer_prefers_the_masks_of_one_width() -> None:
    assert offer("cpu", [0b01, 0b10, 0b11], 1) == Offer("cpu", (0b01, 0b10, 0b11), frozenset({0b01, 0b10}))
    assert offer("cpu", [0b11], 1) == Offer("cpu", (0b11,), frozenset())


@pytest.mark.parametrize("policy", Policy)
def test_every_policy_decides(policy: Policy) -> None:
    assert decide(policy, [], 2).admitted


def test_eight_zones_and_eight_resources_are_no_walk_over_permutations() -> None:
    """There are 255^8 of them: whoever walks them never ends."""
    every = Offer("r", tuple(masks.ascending(ZONES)), frozenset())

    assert written(decide(Policy.BEST_EFFORT, [every] * 8, ZONES)) == "0"


# The kubelet's walk (mergePermutation and HintMerger.compare of policy.go), restated to compare with.

Hint = tuple[int | None, bool]


def walked(policy: Policy, lists: Sequence[Sequence[Hint]], count: int, shuffle: Random) -> Merged:
    """What the walk over all permutations, in any order, merges the hints to."""
    full = masks.full(count)
    lists = [list(hints) or [(None, False)] for hints in lists] or [[(None, True)]]
    if policy is Policy.SINGLE_NUMA_NODE:
        lists = [[hint for hint in hints if hint[1] and _is_single(hint[0])] for hints in lists]
    narrowest = (min((mask.bit_count() for mask, _ in hints if mask), default=0) for hints in lists)
    limit = max(narrowest, default=0)
    permutations = list(product(*lists))
    shuffle.shuffle(permutations)
    best: Merged | None = None
    for permutation in permutations:
        best = _better(best, _merged(permutation, full), limit)
    best = best or Merged(full, preferred=False)
    nil = policy is Policy.SINGLE_NUMA_NODE and best.mask == full
    return Merged(None, preferred=best.preferred) if nil else best


def _is_single(mask: int | None) -> bool:
    return mask is None or mask.bit_count() == 1


def _merged(permutation: Sequence[Hint], full: int) -> Merged:
    told = [mask for mask, _ in permutation if mask is not None]
    mask = full
    for other in told:
        mask &= other
    return Merged(mask, preferred=len(set(told)) <= 1 and all(preferred for _, preferred in permutation))


def _better(current: Merged | None, candidate: Merged, limit: int) -> Merged | None:
    if not candidate.mask:
        return current
    if not current or not current.mask:
        return candidate
    if current.preferred != candidate.preferred:
        return current if current.preferred else candidate
    mine, theirs = current.mask.bit_count(), candidate.mask.bit_count()
    if current.preferred or mine > limit:
        return _narrower(current, candidate)
    if mine == limit:
        return _narrower(current, candidate) if theirs == limit else current
    if theirs > limit:
        return current
    if theirs == limit or theirs > mine:
        return candidate
    return _narrower(current, candidate) if theirs == mine else current


def _narrower(current: Merged, candidate: Merged) -> Merged:
    return min(current, candidate, key=lambda hint: masks_key(hint.mask))


def masks_key(mask: int | None) -> tuple[int, int]:
    return ((mask or 0).bit_count(), mask or 0)


def hint_lists(count: int) -> st.SearchStrategy[list[dict[int, bool]]]:
    hints = st.dictionaries(st.integers(1, masks.full(count)), st.booleans(), max_size=6)
    return st.lists(hints, max_size=3)


@given(st.data(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_the_merge_is_what_the_walk_over_all_permutations_finds(
    data: st.DataObject, count: int, shuffle: Random
) -> None:
    drawn = data.draw(hint_lists(count))
    offers = [
        Offer(f"r{at}", tuple(sorted(hints)), frozenset(mask for mask in hints if hints[mask]))
        for at, hints in enumerate(drawn)
    ]
    for policy in (Policy.BEST_EFFORT, Policy.RESTRICTED, Policy.SINGLE_NUMA_NODE):
        found = decide(policy, offers, count)
        expected = walked(policy, [list(hints.items()) for hints in drawn], count, shuffle)
        assert found.admitted is (policy is Policy.BEST_EFFORT or expected.preferred)
        assert not found.admitted or found.affinity == expected
