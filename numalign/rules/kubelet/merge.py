"""
The topology manager's merge: many hints in, one affinity out.

The kubelet walks every permutation of hints (pkg/kubelet/cm/topologymanager/policy.go, mergePermutation and
HintMerger.compare), which is 255^k on eight zones. The outcome depends on two sets only, and both have a
closed form:

* the preferred results are the masks that every list prefers;
* the other results are all intersections of one mask from each list. Which ones exist is counted by an
  AND-convolution over the lattice of masks, k * 2^n * n steps instead of (2^n)^k.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from numalign.rules.intent import Policy
from numalign.rules.kubelet import masks
from numalign.rules.kubelet.masks import Mask


class Offer(NamedTuple):
    """One resource's hints: the masks that could serve it and those that it prefers among them.

    An offer without masks is the kubelet's empty list: the resource cannot be served. A manager that has no
    opinion makes no offer at all.
    """

    resource: str
    possible: tuple[Mask, ...]
    preferred: frozenset[Mask]


Distances = tuple[tuple[int, ...], ...]
"""From each zone to each, by position."""


@dataclass(frozen=True, slots=True)
class Zones:
    """How many zones there are, and how far apart where the kubelet prefers the closest."""

    count: int
    distances: Distances | None = None

    def best(self, candidates: Iterable[Mask]) -> Mask:
        """The kubelet's choice among equals: fewest zones, then the closest, then the smaller number."""
        if self.distances is None:
            return masks.narrowest(candidates)
        return min(candidates, key=self.rank)

    def rank(self, mask: Mask) -> tuple[int, int, Mask]:
        """By what the kubelet compares two sets of zones: the smaller is the better."""
        return mask.bit_count(), self._spread(mask) if self.distances else 0, mask

    def _spread(self, mask: Mask) -> int:
        """All distances within a mask, each zone's to itself included (CalculateAverageFor, undivided)."""
        inside, far = list(masks.members(mask)), self.distances or ()
        return sum(far[here][there] for here in inside for there in inside)


class Merged(NamedTuple):
    """The merged hint: `mask` None means that no affinity is stored."""

    mask: Mask | None
    preferred: bool


class Decision(NamedTuple):
    """What the topology manager makes of a container: its affinity, and whether it lets it in."""

    affinity: Merged
    admitted: bool


def offer(resource: str, possible: Sequence[Mask], width: int) -> Offer:
    """An offer that prefers the masks of one width, as all managers do by default."""
    return Offer(resource, tuple(possible), masks.of_width(possible, width))


def impossible(resource: str) -> Offer:
    """The offer of a resource that no mask can serve."""
    return Offer(resource, (), frozenset())


def decide(policy: Policy, offers: Sequence[Offer], zones: Zones) -> Decision:
    """Merge the offers for a node with these zones and let the policy judge the outcome."""
    return _POLICIES[policy](offers, zones)


def _none(_offers: Sequence[Offer], _zones: Zones) -> Decision:
    return Decision(Merged(None, preferred=False), admitted=True)


def _best_effort(offers: Sequence[Offer], zones: Zones) -> Decision:
    merged = _preferred(offers, zones)
    return Decision(merged or Merged(_best_of(offers, zones), preferred=False), admitted=True)


def _restricted(offers: Sequence[Offer], zones: Zones) -> Decision:
    return _only(_preferred(offers, zones))


def _single_numa_node(offers: Sequence[Offer], zones: Zones) -> Decision:
    """Only hints of one zone count, however far apart zones are; an affinity to all is stored as none."""
    merged = _preferred([_of_one_zone(offer) for offer in offers], Zones(zones.count))
    everything = masks.full(zones.count)
    return _only(Merged(None, preferred=True) if merged and merged.mask == everything else merged)


def _only(preferred: Merged | None) -> Decision:
    """Let in what all resources prefer; of a refused container no affinity is kept."""
    if preferred is None:
        return Decision(Merged(None, preferred=False), admitted=False)
    return Decision(preferred, admitted=True)


def _of_one_zone(offer: Offer) -> Offer:
    ones = tuple(mask for mask in offer.possible if mask in offer.preferred and mask.bit_count() == 1)
    return Offer(offer.resource, ones, frozenset(ones))


def _preferred(offers: Sequence[Offer], zones: Zones) -> Merged | None:
    """The narrowest mask that every resource prefers; all zones where none has an opinion."""
    if not offers:
        return Merged(masks.full(zones.count), preferred=True)
    common = frozenset.intersection(*(offer.preferred for offer in offers))
    return Merged(zones.best(common), preferred=True) if common else None


def _best_of(offers: Sequence[Offer], zones: Zones) -> Mask:
    """HintMerger.compare for what is not preferred: of that width, else the widest below, else above."""
    limit, everything = _narrowest_width(offers), masks.full(zones.count)
    if not zones.distances and _first_is_reached(offers, masks.full(limit), everything):
        return masks.full(limit)
    reachable = _intersections(offers, zones.count)
    if not reachable:
        return everything
    below = [mask for mask in reachable if mask.bit_count() <= limit]
    width = max(map(int.bit_count, below)) if below else min(map(int.bit_count, reachable))
    return zones.best(mask for mask in reachable if mask.bit_count() == width)


def _first_is_reached(offers: Sequence[Offer], first: Mask, everything: Mask) -> bool:
    """Whether some list holds the mask with the lowest number of its width, and all hold all zones.

    Beside lists that hold all zones a hint stays as it is.
    """
    if not all(everything in offer.possible for offer in offers):
        return False
    return any(first in offer.possible for offer in offers)


def _narrowest_width(offers: Sequence[Offer]) -> int:
    """BestNonPreferredAffinityCount: the widest of the lists' narrowest hints."""
    return max((min(map(int.bit_count, offer.possible)) for offer in offers if offer.possible), default=0)


def _intersections(offers: Sequence[Offer], count: int) -> list[Mask]:
    """Every mask but the empty one that is the intersection of one hint from each list, by number."""
    lists = [offer.possible for offer in offers if offer.possible]
    if not lists:
        return [masks.full(count)]
    ways = [1] * (1 << count)
    for possible in lists:
        holds = [0] * (1 << count)
        for mask in possible:
            holds[mask] = 1
        ways = list(map(operator.mul, ways, _over_supersets(holds, count, operator.add)))
    ways = _over_supersets(ways, count, operator.sub)
    return [mask for mask in masks.ascending(count) if ways[mask]]


def _over_supersets(table: list[int], count: int, join: Callable[[int, int], int]) -> list[int]:
    """Fold into each mask all masks around it (the zeta transform over supersets; by `sub`, its inverse).

    Each round folds the lowest bit and rotates it to the top, so that the rounds together keep the order.
    """
    for _ in range(count):
        without, within = table[0::2], table[1::2]
        table = [*map(join, without, within), *within]
    return table


_POLICIES: Mapping[Policy, Callable[[Sequence[Offer], Zones], Decision]] = MappingProxyType(
    {
        Policy.NONE: _none,
        Policy.BEST_EFFORT: _best_effort,
        Policy.RESTRICTED: _restricted,
        Policy.SINGLE_NUMA_NODE: _single_numa_node,
    }
)
