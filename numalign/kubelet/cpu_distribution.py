"""
How many CPUs each zone gives under distribute-cpus-across-numa (takeByTopologyNUMADistributed).

The CPU manager tries one zone, then every two, every three, and so on, and takes those that leave the machine
most balanced (kubernetes, pkg/kubelet/cm/cpumanager/cpu_assignment.go). Amounts are enough to compute how
many; packing inside each zone chooses the CPUs.

Two quirks of the kubelet up to 1.37 are kept. It stores the best zones in memory that it overwrites while it
tries the next ones, which shows with more than four zones. And it can loop forever over half a core.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice

from numalign.model.bitset import union
from numalign.model.options import KubeletChange

_ENDLESS = -math.inf
"""The balance of what the kubelet cannot finish: there are enough CPUs, but not as whole groups."""


@dataclass(frozen=True, slots=True)
class DistributionRequest:
    """What is to be distributed: `count` CPUs, a multiple of `group`, over zones with this much `room`.

    `widths` are the numbers of zones that are tried. `sockets` are the sockets of each zone, as bits, if they
    decide: aligned by socket, from 1.37 on. `changes` are those of the kubelet's version.
    """

    room: Sequence[int]
    count: int
    group: int
    widths: range
    changes: frozenset[KubeletChange]
    sockets: Sequence[int] | None = None

    def share(self, zones: tuple[int, ...]) -> int:
        """Return the even share of some zones, in whole groups: rounded down twice."""
        return self.count // len(zones) // self.group * self.group

    def lowered(self, zones: tuple[int, ...]) -> int:
        """Return the even share, or less if a zone has less."""
        return min(self.share(zones), *(self.room[zone] // self.group * self.group for zone in zones))

    def missing(self, zones: tuple[int, ...], share: int) -> int:
        """Return how many groups are missing after each zone has given its share."""
        return (self.count - share * len(zones)) // self.group


@dataclass(frozen=True, slots=True)
class Distribution:
    """The same share from each zone, then `groups` more groups, in turn from those of `remainder`.

    Zones are given by their position (bestCombo and bestRemainder). `balance` is the standard deviation of
    the free CPUs of all zones afterwards: the smaller the better. `in_socket` says whether the zones are in
    one socket, if that matters.
    """

    zones: tuple[int, ...]
    share: int
    groups: int
    remainder: tuple[int, ...]
    balance: float
    in_socket: bool = True

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """The order of distributions; the least is the best, or the one over which the kubelet never ends."""
        return self.balance > _ENDLESS, not self.in_socket, self.balance


def distribution(request: DistributionRequest) -> Distribution | None:
    """Return how CPUs are taken, too few where the kubelet's quirks spoil it; None if they are packed."""
    # The smallest number of zones for which any set will do is the last one that is tried.
    width = _width(request)
    if width is None:
        return None
    best: Distribution | None = None
    latest = dict[tuple[int, ...], tuple[int, ...]]()
    own = width if KubeletChange.COPIED_COMBINATIONS in request.changes else _own_entries(width)
    for zones in combinations(range(len(request.room)), width):
        # What the kubelet stores shares memory with every later set that begins the same.
        latest[zones[:own]] = zones
        # Nothing is better than a balance of 0, so the kubelet stops, but only after the next set is built.
        if best and not best.balance and best.in_socket:
            break
        candidate = _candidate(request, zones)
        # Strictly better: of equals the first set wins, in the order of sortAvailableNUMANodes.
        if candidate and (best is None or candidate.rank < best.rank):
            best = candidate
    if best is None:
        return None
    zones = latest[best.zones[:own]]
    # From 1.37 on, no zone is asked for more than it has.
    lowers = KubeletChange.LOWERED_SHARE in request.changes
    share = request.lowered(zones) if lowers else request.share(zones)
    return replace(best, zones=zones, share=share, groups=request.missing(zones, share))


def choices(request: DistributionRequest) -> int:
    """Return how many ways are compared at most: sets of zones, and for each its subsets that give more."""
    width = _width(request)
    if width is None:
        return 0
    even = request.count % (width * request.group) == 0 and request.sockets is None
    return math.comb(len(request.room), width) << (0 if even else width)


def turns(remaining: Sequence[int], zones: Sequence[int], groups: int, group: int) -> list[int]:
    """Return the zones that give one group each, in turn; fewer than `groups` if they have no more."""
    given = (zone for gone in range(groups) for zone in zones if remaining[zone] // group > gone)
    return list(islice(given, groups))


def _width(request: DistributionRequest) -> int | None:
    largest = replace(request, room=sorted(request.room, reverse=True))
    return next((width for width in request.widths if _share(largest, tuple(range(width)))), None)


def _candidate(request: DistributionRequest, zones: tuple[int, ...]) -> Distribution | None:
    shared = _share(request, zones)
    if shared is None:
        return None
    share, remaining = shared
    groups = request.missing(zones, share)
    able = tuple(zone for zone in zones if remaining[zone] >= request.group) if groups else ()
    # All non-empty subsets, the large ones first; of no zones, one empty subset.
    sizes = range(len(able), 0, -1) if able else (0,)
    subsets = chain.from_iterable(combinations(able, size) for size in sizes)
    balances = {remainder: _balance(request, remaining, remainder, groups) for remainder in subsets}
    # min keeps the first of equals, as the kubelet does; larger subsets come first.
    remainder = best = min(balances, key=balances.__getitem__)
    if KubeletChange.COPIED_COMBINATIONS not in request.changes:
        # The subset as it reads after the last one of its size was tried.
        own = best[: _own_entries(len(best))]
        remainder = (*own, *able[len(able) - len(best) + len(own) :])
    finished, sockets = balances[best] > _ENDLESS, request.sockets
    in_socket = sockets is None or union(sockets[zone] for zone in zones).bit_count() <= 1
    return Distribution(zones, share, groups, remainder if finished else (), balances[best], in_socket)


def _share(request: DistributionRequest, zones: tuple[int, ...]) -> tuple[int, list[int]] | None:
    """Return the share of each zone, and what is left in all zones; None if these cannot share the amount."""
    share = request.share(zones) if request.sockets is None else request.lowered(zones)
    remaining = list(request.room)
    for zone in zones:
        remaining[zone] -= share
    # Zones must have the groups as such: two halves of a core in two zones are not a core.
    left = sum(remaining[zone] // request.group for zone in zones)
    return (share, remaining) if min(remaining) >= 0 and left >= request.missing(zones, share) else None


def _balance(
    request: DistributionRequest, remaining: Sequence[int], remainder: Sequence[int], groups: int
) -> float:
    """Return the imbalance of the zones after the remaining groups; infinite if there are too few CPUs."""
    group = request.group
    amounts, given = list(remaining), turns(remaining, remainder, groups, group)
    if len(given) < groups:
        # Up to 1.37 the kubelet counts CPUs here but takes groups, so it can find enough and never finish.
        enough = sum(remaining[zone] for zone in remainder) >= groups * group
        return _ENDLESS if enough and KubeletChange.WHOLE_GROUPS not in request.changes else math.inf
    for zone in given:
        amounts[zone] -= group
    # Zones outside the set count as well: the machine is to be balanced, not what is taken.
    mean = _thousandths(sum(amounts) / len(amounts))
    return _thousandths(math.sqrt(sum([(amount - mean) ** 2 for amount in amounts]) / len(amounts)))


def _own_entries(width: int) -> int:
    """Return how many entries of a stored subset stay unchanged.

    iterateCombinations builds subsets by appending to slices, whose memory doubles when it is used up. What
    is appended to spare memory is overwritten by the next subset with the same beginning: of four entries the
    last, of six to eight all after the fifth.
    """
    return (1 << (width - 1).bit_length() >> 1) + 1 if width else 0


def _thousandths(value: float) -> float:
    """Return the value rounded to three decimals, halves up, as Go's math.Round does."""
    thousandths, part = divmod(value * 1000, 1)
    return (thousandths + (2 * part >= 1)) / 1000
