"""
The topology manager's merge: many hints in, one affinity out.

The kubelet walks every permutation of hints (pkg/kubelet/cm/topologymanager/policy.go, mergePermutation and
HintMerger.compare), which is 255^k on eight zones. The outcome depends on two sets only, and both have a
closed form:

* the preferred results are the masks that every list prefers;
* the other results are all intersections of one mask from each list. Which ones exist is counted by an
  AND-convolution over the lattice of masks, k * 2^n * n steps instead of (2^n)^k (`hints.intersections`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    """One resource's hints: the masks that could serve it and those that it prefers among them.

    An offer without masks is the kubelet's empty list: the resource cannot be served. A manager that has no
    opinion makes no offer at all.
    """

    resource: str
    possible: HintSet
    preferred: HintSet


Distances = tuple[tuple[int, ...], ...]
"""From each zone to each, by position."""


@dataclass(frozen=True, slots=True)
class NumaInfo:
    """How many zones there are, and how far apart where the kubelet prefers the closest."""

    count: int
    distances: Distances | None = None

    def best(self, candidates: HintSet) -> Mask:
        """The kubelet's choice among equals: fewest zones, then the closest, then the smaller number."""
        narrow = hint_sets.narrowest(candidates)
        first = hint_sets.lowest(narrow)
        if self.distances is None or narrow == 1 << first:
            return first
        return min(hint_sets.listed(narrow), key=_spreads(self.distances).__getitem__)

    def rank(self, mask: Mask) -> tuple[int, int, Mask]:
        """By what the kubelet compares two sets of zones: the smaller is the better."""
        return mask.bit_count(), _spreads(self.distances)[mask] if self.distances else 0, mask


@lru_cache(maxsize=16)
def _spreads(distances: Distances) -> Sequence[int]:
    """All distances within each mask, each zone's to itself included (CalculateAverageFor, undivided)."""
    spreads = [0]
    for zone, row in enumerate(distances):
        both = tuple([there + distances[at][zone] for at, there in enumerate(row[:zone])])
        spreads += [
            spread + more + row[zone] for spread, more in zip(spreads, bitmask.sums(both), strict=True)
        ]
    return spreads


class TopologyHint(NamedTuple):
    """The merged hint: `mask` None means that no affinity is stored."""

    mask: Mask | None
    preferred: bool


class Decision(NamedTuple):
    """What the topology manager makes of a container: its affinity, and whether it lets it in."""

    affinity: TopologyHint
    admitted: bool


def hints_preferring(resource: str, possible: HintSet, width: int) -> ResourceHints:
    """An offer that prefers the masks of one width, as all managers do by default."""
    return ResourceHints(resource, possible, hint_sets.of_width(possible, width))


def impossible(resource: str) -> ResourceHints:
    """The offer of a resource that no mask can serve."""
    return ResourceHints(resource, hint_sets.NONE, hint_sets.NONE)


def merge(policy: Policy, hints: Sequence[ResourceHints], zones: NumaInfo) -> Decision:
    """Merge the hints for a node with these zones and let the policy judge the outcome."""
    return finished(merging(policy, hints, zones))


def merging(policy: Policy, hints: Sequence[ResourceHints], zones: NumaInfo) -> Steps[Decision]:
    """The same step by step: a policy that aligns at best merges list after list."""
    if policy is Policy.BEST_EFFORT:
        return (yield from _best_effort(hints, zones))
    return _POLICIES[policy](hints, zones)


def _none(_offers: Sequence[ResourceHints], _zones: NumaInfo) -> Decision:
    return Decision(TopologyHint(None, preferred=False), admitted=True)


def _best_effort(hints: Sequence[ResourceHints], zones: NumaInfo) -> Steps[Decision]:
    merged = _preferred(hints, zones)
    if merged is None:
        best = yield from _best_of(hints, zones)
        merged = TopologyHint(best, preferred=False)
    return Decision(merged, admitted=True)


def _restricted(hints: Sequence[ResourceHints], zones: NumaInfo) -> Decision:
    return _only(_preferred(hints, zones))


def _single_numa_node(hints: Sequence[ResourceHints], zones: NumaInfo) -> Decision:
    """Only hints of one zone count, however far apart zones are; an affinity to all is stored as none."""
    merged = _preferred([_of_one_zone(one) for one in hints], NumaInfo(zones.count))
    everything = bitmask.full(zones.count)
    return _only(TopologyHint(None, preferred=True) if merged and merged.mask == everything else merged)


def _only(preferred: TopologyHint | None) -> Decision:
    """Let in what all resources prefer; of a refused container no affinity is kept."""
    if preferred is None:
        return Decision(TopologyHint(None, preferred=False), admitted=False)
    return Decision(preferred, admitted=True)


def _of_one_zone(hints: ResourceHints) -> ResourceHints:
    ones = hint_sets.of_width(hints.possible & hints.preferred, 1)
    return ResourceHints(hints.resource, ones, ones)


def _preferred(hints: Sequence[ResourceHints], zones: NumaInfo) -> TopologyHint | None:
    """The narrowest mask that every resource prefers; all zones where none has an opinion."""
    if not hints:
        return TopologyHint(bitmask.full(zones.count), preferred=True)
    common = reduce(and_, (one.preferred for one in hints))
    return TopologyHint(zones.best(common), preferred=True) if common else None


def _best_of(hints: Sequence[ResourceHints], zones: NumaInfo) -> Steps[Mask]:
    """HintMerger.compare for what is not preferred: of that width, else the widest below, else above."""
    lists, everything = [one.possible for one in hints if one.possible], bitmask.full(zones.count)
    limit = max((hint_sets.narrowest_width(possible, 0) for possible in lists), default=0)
    if not zones.distances and _first_is_reached(lists, bitmask.full(limit), everything):
        return bitmask.full(limit)
    reachable = yield from _intersections(lists, zones.count)
    for width in (*range(limit, 0, -1), *range(limit + 1, zones.count + 1)):
        if found := hint_sets.of_width(reachable, width):
            return zones.best(found)
    return everything


def _first_is_reached(lists: Sequence[HintSet], first: Mask, everything: Mask) -> bool:
    """Whether some list holds the mask with the lowest number of its width, and all hold all zones.

    Beside lists that hold all zones a hint stays as it is.
    """
    if not all(possible >> everything & 1 for possible in lists):
        return False
    return any(possible >> first & 1 for possible in lists)


def _intersections(lists: Sequence[HintSet], count: int) -> Steps[HintSet]:
    """Every mask but the empty one that is the intersection of one hint from each list."""
    if not lists:
        return 1 << bitmask.full(count)
    found, *others = lists
    for other in others:
        yield
        found = hint_sets.intersections(found, other, count)
    return found


_POLICIES: Mapping[Policy, Callable[[Sequence[ResourceHints], NumaInfo], Decision]] = MappingProxyType(
    {
        Policy.NONE: _none,
        Policy.RESTRICTED: _restricted,
        Policy.SINGLE_NUMA_NODE: _single_numa_node,
    }
)
