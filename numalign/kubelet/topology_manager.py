"""
The topology manager's merge of the hints of many resources into one affinity.

The kubelet visits every permutation of hints (pkg/kubelet/cm/topologymanager/policy.go, mergePermutation and
HintMerger.compare), which is 255^k on eight zones. The result depends on two sets only, and both have a
closed form:

* the preferred results are the masks that every list prefers;
* the other results are all intersections of one mask from each list. An AND-convolution over the lattice of
  masks counts which ones exist, in k * 2^n * n steps instead of (2^n)^k (`hint_sets.intersections`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from operator import and_
from types import MappingProxyType
from typing import NamedTuple

from numalign.kubelet import bitmask, hint_sets
from numalign.kubelet.bitmask import Mask
from numalign.kubelet.hint_sets import HintSet
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
        narrow = hint_sets.narrowest(candidates)
        first = hint_sets.lowest(narrow)
        # prefer-closest-numa-nodes compares distances among masks of one width only.
        if self.distances is None or narrow == 1 << first:
            return first
        return min(hint_sets.listed(narrow), key=_spreads(self.distances).__getitem__)

    def rank(self, mask: Mask) -> tuple[int, int, Mask]:
        """Return the key by which the kubelet compares two sets of zones: the smaller is the better."""
        return mask.bit_count(), _spreads(self.distances)[mask] if self.distances else 0, mask


@lru_cache(maxsize=16)
def _spreads(distances: Distances) -> Sequence[int]:
    """Return the sum of distances within each mask, each zone's to itself included (CalculateAverageFor).

    The sums are not divided by the number of pairs: only masks of one width are compared.
    """
    spreads = [0]
    for zone, row in enumerate(distances):
        # Distances may differ by direction, and CalculateAverageFor adds up both.
        both = tuple([distance + distances[at][zone] for at, distance in enumerate(row[:zone])])
        spreads += [
            spread + more + row[zone] for spread, more in zip(spreads, bitmask.sums(both), strict=True)
        ]
    return spreads


class TopologyHint(NamedTuple):
    """A merged hint: `mask` is its NUMANodeAffinity, None where no affinity is stored."""

    mask: Mask | None
    preferred: bool


class Decision(NamedTuple):
    """The result of Policy.Merge for a container: its affinity, and whether it is admitted."""

    affinity: TopologyHint
    admitted: bool


_REFUSED = Decision(TopologyHint(None, preferred=False), admitted=False)


def hints_preferring(resource: str, possible: HintSet, width: int) -> ResourceHints:
    """Return hints of which those of one width are preferred, as all managers do by default."""
    return ResourceHints(resource, possible, hint_sets.of_width(possible, width))


def impossible(resource: str) -> ResourceHints:
    """Return the empty list of hints, for a resource that no mask can serve."""
    return ResourceHints(resource, hint_sets.NONE, hint_sets.NONE)


def merge(policy: Policy, hints: Sequence[ResourceHints], numa: NumaInfo) -> Decision:
    """Merge the hints of all resources by a node's policy (Merge of policy_*.go)."""
    return finished(merging(policy, hints, numa))


def merging(policy: Policy, hints: Sequence[ResourceHints], numa: NumaInfo) -> Steps[Decision]:
    """Merge as `merge` does, step by step: best-effort merges list after list."""
    if policy is Policy.BEST_EFFORT:
        return (yield from _best_effort(hints, numa))
    return _POLICIES[policy](hints, numa)


def _best_effort(hints: Sequence[ResourceHints], numa: NumaInfo) -> Steps[Decision]:
    merged = _preferred(hints, numa)
    # Not preferred is good enough here: the widths of the hints decide which one it is.
    if merged is None:
        best = yield from _best_not_preferred(hints, numa)
        merged = TopologyHint(best, preferred=False)
    return Decision(merged, admitted=True)


def _restricted(hints: Sequence[ResourceHints], numa: NumaInfo) -> Decision:
    """Admit what all resources prefer; a refused container keeps no affinity."""
    # canAdmitPodResult of policy_restricted.go checks only Preferred, however wide the mask is.
    merged = _preferred(hints, numa)
    return Decision(merged, admitted=True) if merged else _REFUSED


def _single_numa_node(hints: Sequence[ResourceHints], numa: NumaInfo) -> Decision:
    """Count only preferred hints of one zone (filterSingleNumaHints), whatever the distances."""
    ones = [(resource, hint_sets.of_width(possible & best, 1)) for resource, possible, best in hints]
    # Distances do not decide between single zones: the comparison by distance is left to other policies.
    decision = _restricted(
        [ResourceHints(name, one, one) for name, one in ones], replace(numa, distances=None)
    )
    # An affinity to all zones is stored as none, which the managers read as "don't care".
    if decision.affinity.mask == numa.everything:
        return Decision(TopologyHint(None, preferred=True), admitted=True)
    return decision


def _preferred(hints: Sequence[ResourceHints], numa: NumaInfo) -> TopologyHint | None:
    """Return the narrowest mask that every resource prefers; all zones if none has a preference."""
    if not hints:
        return TopologyHint(numa.everything, preferred=True)
    # mergePermutation prefers a permutation only if all its masks are preferred and the same.
    common = reduce(and_, (resource.preferred for resource in hints))
    return TopologyHint(numa.best(common), preferred=True) if common else None


def _best_not_preferred(hints: Sequence[ResourceHints], numa: NumaInfo) -> Steps[Mask]:
    """Return the choice of HintMerger.compare among hints that are not preferred.

    The best has BestNonPreferredAffinityCount zones, which is the width of the narrowest hint of the resource
    that needs most; else it is the widest below, else the narrowest above.
    """
    lists = [hint.possible for hint in hints if hint.possible]
    # An empty list is a nil mask: it neither raises the limit nor removes a zone from the others.
    limit = max((hint_sets.narrowest_width(possible, 0) for possible in lists), default=0)
    # The lowest mask of the wanted width is often there, and no other can beat it.
    if not numa.distances and _first_is_reached(lists, bitmask.full(limit), bitmask.full(numa.count)):
        return bitmask.full(limit)
    reachable = (yield from _intersections(lists, numa.count)) if lists else hint_sets.NONE
    # First the limit itself, then closest to it from below, and only then anything wider.
    for width in (*range(limit, 0, -1), *range(limit + 1, numa.count + 1)):
        if alike := hint_sets.of_width(reachable, width):
            return numa.best(alike)
    # No permutation kept a zone, so the hint stays the initial one: all zones, not preferred.
    return numa.everything


def _first_is_reached(lists: Sequence[HintSet], first: Mask, everything: Mask) -> bool:
    """Return whether some list has the lowest mask of its width, and all lists have the full mask.

    Merged with full masks a hint is unchanged, so no merge is needed.
    """
    if not all(possible >> everything & 1 for possible in lists):
        return False
    return any(possible >> first & 1 for possible in lists)


def _intersections(lists: Sequence[HintSet], count: int) -> Steps[HintSet]:
    """Return every non-empty mask that is the intersection of one hint from each list."""
    merged, *others = lists
    for other in others:
        yield
        merged = hint_sets.intersections(merged, other, count)
    return merged


_POLICIES: Mapping[Policy, Callable[[Sequence[ResourceHints], NumaInfo], Decision]] = MappingProxyType(
    {
        # Under policy none the kubelet asks no hint provider, and stores no affinity.
        Policy.NONE: lambda _hints, _numa: Decision(TopologyHint(None, preferred=False), admitted=True),
        Policy.RESTRICTED: _restricted,
        Policy.SINGLE_NUMA_NODE: _single_numa_node,
    }
)
