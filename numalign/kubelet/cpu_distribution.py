"""
How many CPUs each zone gives under distribute-cpus-across-numa (takeByTopologyNUMADistributed).

The CPU manager tries one zone, then every two, every three, and so on, and takes those that leave the machine
most balanced (kubernetes, pkg/kubelet/cm/cpumanager/cpu_assignment.go). Amounts are enough to compute how
many; packing inside each zone chooses the CPUs.

Two quirks of the kubelet are kept. It stores the best zones in memory that it overwrites while it tries the
next ones, which shows with more than four zones. And it can loop forever over half a core.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice


@dataclass(frozen=True, slots=True)
class Distribution:
    """The same share from each zone, then `groups` more groups, in turn from those of `remainder`.

    Zones are given by their position (bestCombo and bestRemainder). `balance` is the standard deviation of
    the free CPUs of all zones afterwards: the smaller the better.
    """

    zones: tuple[int, ...]
    share: int
    groups: int
    remainder: tuple[int, ...]
    balance: float


_ENDLESS = -math.inf
"""The balance of what the kubelet cannot finish: there are enough CPUs, but not as whole groups."""


def distribution(room: Sequence[int], count: int, *, group: int, groups_per_zone: int) -> Distribution | None:
    """Return how to take `count` CPUs, a multiple of `group`, from zones with this much room.

    `groups_per_zone` is the machine's average, rounded up. Return None if no zones can share the amount,
    which is then packed. Where the kubelet's own quirks spoil the result, it has fewer CPUs than requested.
    """
    # The smallest number of zones for which any set will do is the last one that is tried.
    width = _width(room, count, group, groups_per_zone)
    if width is None:
        return None
    best: Distribution | None = None
    own, latest = _own_entries(width), dict[tuple[int, ...], tuple[int, ...]]()
    for zones in combinations(range(len(room)), width):
        # What the kubelet stores shares memory with every later set that begins the same.
        latest[zones[:own]] = zones
        # Nothing is better than a balance of 0, so the kubelet stops, but only after the next set is built.
        if best and not best.balance:
            break
        candidate = _candidate(room, zones, count, group)
        # Strictly better: of equals the first set wins, in the order of sortAvailableNUMANodes.
        if candidate and (best is None or candidate.balance < best.balance):
            best = candidate
    return best and replace(best, zones=latest[best.zones[:own]])


def choices(room: Sequence[int], count: int, *, group: int, groups_per_zone: int) -> int:
    """Return how many ways are compared at most: sets of zones, and for each its subsets that give more."""
    width = _width(room, count, group, groups_per_zone)
    if width is None:
        return 0
    even = count % (width * group) == 0
    return math.comb(len(room), width) << (0 if even else width)


def turns(remaining: Sequence[int], zones: Sequence[int], groups: int, group: int) -> list[int]:
    """Return the zones that give one group each, in turn; fewer than `groups` if they have no more."""
    given = (zone for gone in range(groups) for zone in zones if remaining[zone] // group > gone)
    return list(islice(given, groups))


def _width(room: Sequence[int], count: int, group: int, groups_per_zone: int) -> int | None:
    """Return how many zones share the amount: the first number for which the largest zones can.

    The range is that of rangeNUMANodesNeededToSatisfy.
    """
    groups, most = count // group, sorted(room, reverse=True)
    widths = range(-(-groups // groups_per_zone), min(groups, len(room)) + 1)
    return next((width for width in widths if _share(most, tuple(range(width)), count, group)), None)


def _candidate(room: Sequence[int], zones: tuple[int, ...], count: int, group: int) -> Distribution | None:
    """Return the best distribution over these zones; None if they cannot share the amount."""
    shared = _share(room, zones, count, group)
    if shared is None:
        return None
    share, groups, remaining = shared
    able = tuple(zone for zone in zones if remaining[zone] >= group) if groups else ()
    balances = {remainder: _balance(remaining, remainder, groups, group) for remainder in _subsets(able)}
    # min keeps the first of equals, as the kubelet does; larger subsets come first.
    best = min(balances, key=balances.__getitem__)
    remainder = _remembered(best, able) if balances[best] > _ENDLESS else ()
    return Distribution(zones, share, groups, remainder, balances[best])


def _share(
    room: Sequence[int], zones: tuple[int, ...], count: int, group: int
) -> tuple[int, int, list[int]] | None:
    """Return the share of each zone, the number of groups still missing, and what is left in all zones."""
    # Rounded down twice, so that every zone gives whole groups; the rest is striped afterwards.
    share = count // len(zones) // group * group
    groups = (count - share * len(zones)) // group
    remaining = list(room)
    for zone in zones:
        remaining[zone] -= share
    # Zones must have the groups as such: two halves of a core in two zones are not a core.
    enough = min(remaining) >= 0 and sum(remaining[zone] // group for zone in zones) >= groups
    return (share, groups, remaining) if enough else None


def _balance(remaining: Sequence[int], remainder: Sequence[int], groups: int, group: int) -> float:
    """Return the imbalance of the zones after the remaining groups; infinite if there are too few CPUs."""
    amounts, given = list(remaining), turns(remaining, remainder, groups, group)
    if len(given) < groups:
        # The kubelet counts CPUs here but takes groups, so it can find enough and never finish.
        return math.inf if sum(remaining[zone] for zone in remainder) < groups * group else _ENDLESS
    for zone in given:
        amounts[zone] -= group
    # Zones outside the set count as well: the machine is to be balanced, not what is taken.
    mean = _thousandths(sum(amounts) / len(amounts))
    return _thousandths(math.sqrt(sum([(amount - mean) ** 2 for amount in amounts]) / len(amounts)))


def _subsets(zones: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Return all non-empty subsets, the large ones first; of no zones, one empty subset."""
    sizes = range(len(zones), 0, -1) if zones else (0,)
    return chain.from_iterable(combinations(zones, size) for size in sizes)


def _remembered(chosen: tuple[int, ...], zones: tuple[int, ...]) -> tuple[int, ...]:
    """Return a subset as it reads after the last one of its size was tried."""
    own = chosen[: _own_entries(len(chosen))]
    return (*own, *zones[len(zones) - len(chosen) + len(own) :])


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
