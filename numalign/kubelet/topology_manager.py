"""
The topology manager's merge of the hints of many resources into one affinity.

The kubelet visits every permutation of hints (pkg/kubelet/cm/topologymanager/policy.go, mergePermutation and
HintMerger.compare), which is 255^k on eight zones. The result depends on two sets only, and both have a
closed form:

* the preferred results are the masks that every list prefers;
* the other results are all intersections of one mask from each list. An AND-convolution over the lattice of
  masks counts which ones exist, in k * 2^n * n steps instead of (2^n)^k (`hint_sets.intersections`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import product
from math import prod
from operator import and_
from typing import NamedTuple

from numalign.kubelet import bitmask, hint_sets
from numalign.kubelet.bitmask import Mask
from numalign.kubelet.hint_sets import HintSet
from numalign.model.bitset import members
from numalign.model.intent import Policy
from numalign.model.steps import Steps, finished


class ResourceHints(NamedTuple):
    """The list of hints of one resource: the masks that could serve it, and those that it prefers.

    No mask at all is the kubelet's empty list: the resource cannot be served. A resource without a preference
    ("don't care") has no `ResourceHints`.
    """

    resource: str
    possible: HintSet
    preferred: HintSet


Distances = tuple[tuple[int, ...], ...]
"""Distances from each zone to each, by position."""


@dataclass(frozen=True, slots=True)
class NumaInfo:
    """The number of zones, and their distances if the kubelet prefers the closest ones (NUMAInfo).

    `others` counts the zones that are in no hint (`hinted_zones`): only an affinity to all zones has them.
    """

    count: int
    distances: Distances | None = None
    others: int = 0

    @property
    def everything(self) -> Mask:
        """The mask of all zones; those in no hint are after the `count` first ones."""
        return bitmask.full(self.count + self.others)

    def best(self, candidates: HintSet) -> Mask:
        """Return the kubelet's choice among equals: fewest zones, then the closest, then the lower mask."""
        return hint_sets.lowest(self.equals(candidates))

    def equals(self, candidates: HintSet) -> HintSet:
        """Return the masks between which only the number decides: fewest zones, then the closest."""
        narrow = hint_sets.narrowest(candidates)
        # prefer-closest-numa-nodes compares distances among masks of one width only.
        if self.distances is None or narrow.bit_count() == 1:
            return narrow
        masks, spreads = hint_sets.listed(narrow), _spreads(self.distances)
        least = min(spreads[mask] for mask in masks)
        return hint_sets.of(mask for mask in masks if spreads[mask] == least)

    def rank(self, mask: Mask) -> tuple[int, int, Mask]:
        """Return the key by which the kubelet compares two sets of zones: the smaller is the better."""
        return mask.bit_count(), _spreads(self.distances)[mask] if self.distances else 0, mask


@lru_cache(maxsize=16)
def _spreads(distances: Distances) -> Sequence[int]:
    """Return the sum of distances within each mask, each zone's to itself included (CalculateAverageFor)."""
    # Not divided by the number of pairs: only masks of one width are compared.
    spreads = [0]
    for zone, row in enumerate(distances):
        # Distances may differ by direction, and CalculateAverageFor adds up both.
        both = tuple([distance + distances[at][zone] for at, distance in enumerate(row[:zone])])
        spreads += [
            spread + more + row[zone] for spread, more in zip(spreads, bitmask.sums(both), strict=True)
        ]
    return spreads


Permutation = tuple[Mask, ...]
"""One hint of each resource; together they are the intersection."""

TieBreak = Callable[[Sequence[str], Iterable[Permutation]], Mask]
"""Chooses between the equals (`NumaInfo.equals`) that permutations of the hints of resources merge to.

The permutations are in the kubelet's order.
"""

MOST_EQUALS = 256
"""The limit of preferred equals that are compared: all that ten zones have. Of more the lowest is taken."""

MOST_PERMUTATIONS = 4096
"""The same for permutations of other hints: all of three resources on four zones."""


class TopologyHint(NamedTuple):
    """A merged hint: `mask` is its NUMANodeAffinity, None where no affinity is stored."""

    mask: Mask | None
    preferred: bool


class Decision(NamedTuple):
    """The result of Policy.Merge for a container: its affinity, and whether it is admitted."""

    affinity: TopologyHint
    admitted: bool


def hints_preferring(resource: str, possible: HintSet, width: int) -> ResourceHints:
    """Return hints of which those of one width are preferred, as all managers do by default."""
    return ResourceHints(resource, possible, hint_sets.of_width(possible, width))


def impossible(resource: str) -> ResourceHints:
    """Return the empty list of hints, for a resource that no mask can serve."""
    return ResourceHints(resource, hint_sets.NONE, hint_sets.NONE)


def merge(
    policy: Policy, hints: Sequence[ResourceHints], numa: NumaInfo, tie_break: TieBreak | None = None
) -> Decision:
    """Merge the hints of all resources by a node's policy (Merge of policy_*.go)."""
    return finished(merging(policy, hints, numa, tie_break))


def merging(
    policy: Policy, hints: Sequence[ResourceHints], numa: NumaInfo, tie_break: TieBreak | None = None
) -> Steps[Decision]:
    """Merge as `merge` does, step by step: best-effort merges list after list."""
    if policy is Policy.BEST_EFFORT:
        return (yield from _best_effort(hints, numa, tie_break))
    if policy is Policy.RESTRICTED:
        return _restricted(hints, numa, tie_break)
    if policy is Policy.SINGLE_NUMA_NODE:
        return _single_numa_node(hints, numa, tie_break)
    # Under policy none the kubelet asks no hint provider, and stores no affinity.
    return Decision(TopologyHint(None, preferred=False), admitted=True)


def _best_effort(
    hints: Sequence[ResourceHints], numa: NumaInfo, tie_break: TieBreak | None
) -> Steps[Decision]:
    merged = _preferred(hints, numa, tie_break)
    # Not preferred is good enough here: the widths of the hints decide which one it is.
    if merged is None:
        best = yield from _best_not_preferred(hints, numa, tie_break)
        merged = TopologyHint(best, preferred=False)
    return Decision(merged, admitted=True)


def _restricted(hints: Sequence[ResourceHints], numa: NumaInfo, tie_break: TieBreak | None) -> Decision:
    # canAdmitPodResult of policy_restricted.go checks only Preferred, however wide the mask is; a refused
    # container keeps no affinity.
    merged = _preferred(hints, numa, tie_break)
    return Decision(merged or TopologyHint(None, preferred=False), admitted=merged is not None)


def _single_numa_node(hints: Sequence[ResourceHints], numa: NumaInfo, tie_break: TieBreak | None) -> Decision:
    """Count only preferred hints of one zone (filterSingleNumaHints), whatever the distances."""
    ones = [(resource, hint_sets.of_width(possible & best, 1)) for resource, possible, best in hints]
    # Distances do not decide between single zones: the comparison by distance is left to other policies.
    single = [ResourceHints(name, one, one) for name, one in ones]
    decision = _restricted(single, replace(numa, distances=None), tie_break)
    # An affinity to all zones is stored as none, which the managers read as "don't care".
    if decision.affinity.mask == numa.everything:
        return Decision(TopologyHint(None, preferred=True), admitted=True)
    return decision


def _preferred(
    hints: Sequence[ResourceHints], numa: NumaInfo, tie_break: TieBreak | None
) -> TopologyHint | None:
    """Return the narrowest mask that every resource prefers; all zones if none has a preference."""
    if not hints:
        return TopologyHint(numa.everything, preferred=True)
    # mergePermutation prefers a permutation only if all its masks are preferred and the same.
    common = reduce(and_, (resource.preferred for resource in hints))
    if not common:
        return None
    equals = numa.equals(common)
    if tie_break is None or not 1 < equals.bit_count() <= MOST_EQUALS:
        return TopologyHint(hint_sets.lowest(equals), preferred=True)
    permutations = ((mask,) * len(hints) for mask in _in_order(equals))
    return TopologyHint(tie_break([hint.resource for hint in hints], permutations), preferred=True)


def _best_not_preferred(
    hints: Sequence[ResourceHints], numa: NumaInfo, tie_break: TieBreak | None
) -> Steps[Mask]:
    """Return the choice of HintMerger.compare among hints that are not preferred.

    The best has BestNonPreferredAffinityCount zones, which is the width of the narrowest hint of the resource
    that needs most; else it is the widest below, else the narrowest above.
    """
    some = [hint for hint in hints if hint.possible]
    lists = [hint.possible for hint in some]
    # An empty list is a nil mask: it neither raises the limit nor removes a zone from the others.
    limit = max((hint_sets.narrowest_width(possible, 0) for possible in lists), default=0)
    # The lowest mask of the wanted width is often there, and no other can beat it. Merged with full masks a
    # hint is unchanged, so if all lists have that one, no merge is needed.
    first, everything = bitmask.full(limit), bitmask.full(numa.count)
    full = tie_break is None and not numa.distances and all(each >> everything & 1 for each in lists)
    if full and any(possible >> first & 1 for possible in lists):
        return first
    # Every non-empty mask that is the intersection of one hint from each list.
    reachable = lists[0] if lists else hint_sets.NONE
    for possible in lists[1:]:
        yield
        reachable = hint_sets.intersections(reachable, possible, numa.count)
    # First the limit itself, then closest to it from below, and only then anything wider.
    for width in (*range(limit, 0, -1), *range(limit + 1, numa.count + 1)):
        if alike := hint_sets.of_width(reachable, width):
            return _chosen(numa.equals(alike), some, tie_break)
    # No permutation kept a zone, so the hint stays the initial one: all zones, not preferred.
    return numa.everything


def _chosen(equals: HintSet, hints: Sequence[ResourceHints], tie_break: TieBreak | None) -> Mask:
    """Return the choice between masks that are not preferred: many permutations can merge to the same one."""
    count = prod(hint.possible.bit_count() for hint in hints)
    if tie_break is None or equals.bit_count() == 1 or count > MOST_PERMUTATIONS:
        return hint_sets.lowest(equals)
    # Of resources of one manager a Go map has the order; that of their names is as good as any.
    every = product(*(_in_order(hint.possible) for hint in hints))
    fitting = (permutation for permutation in every if equals >> reduce(and_, permutation) & 1)
    return tie_break([hint.resource for hint in hints], fitting)


def _in_order(hints: HintSet) -> list[Mask]:
    """Return the masks in the order of IterateBitMasks: by width, then by their zones."""
    return sorted(hint_sets.listed(hints), key=lambda mask: (mask.bit_count(), *members(mask)))
