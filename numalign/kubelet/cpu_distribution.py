"""
How many CPUs each zone gives under distribute-cpus-across-numa.

The CPU manager tries one zone, then every two, every three, and so on, and takes those that leave the machine
most even (kubernetes, takeByTopologyNUMADistributed in pkg/kubelet/cm/cpumanager/cpu_assignment.go). Amounts
are enough to say how many; which CPUs these are is packing, inside each zone.

Two accidents of the kubelet are kept. It remembers the best zones in memory that it writes over while it
looks at the next ones; with more than four zones that can be seen. And it can wait for ever for half a core.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice


@dataclass(frozen=True, slots=True)
class Distribution:
    """The same share from each of the zones, then so many groups more, one from each `extra` zone in turn.

    Zones are named by their position. `unevenness` is how far apart they are in the end, in CPUs.
    """

    zones: tuple[int, ...]
    share: int
    groups: int
    extra: tuple[int, ...]
    unevenness: float


_ENDLESS = -math.inf
"""The unevenness of a plan that the kubelet cannot finish: there are the CPUs, but not as whole groups."""


def distribution(room: Sequence[int], count: int, *, group: int, groups_per_zone: int) -> Distribution | None:
    """How to take so many CPUs, a multiple of `group`, from zones that have this much room.

    `groups_per_zone` is the machine's average, rounded up. `None` if no zones can share the amount, which is
    then packed. Where the kubelet's own accidents spoil its plan, there is less to take than was asked for.
    """
    width = _width(room, count, group, groups_per_zone)
    return None if width is None else _best_plan(room, width, count, group)


def choices(room: Sequence[int], count: int, *, group: int, groups_per_zone: int) -> int:
    """How many ways `plan` compares at the most: sets of zones, and for each of them those that give more."""
    width = _width(room, count, group, groups_per_zone)
    if width is None:
        return 0
    even = count % (width * group) == 0
    return math.comb(len(room), width) << (0 if even else width)


def _width(room: Sequence[int], count: int, group: int, groups_per_zone: int) -> int | None:
    """How many zones share the amount: the first number of which those with most room can."""
    groups, most = count // group, sorted(room, reverse=True)
    widths = range(-(-groups // groups_per_zone), min(groups, len(room)) + 1)
    return next((width for width in widths if _share(most, tuple(range(width)), count, group)), None)


def turns(left: Sequence[int], zones: Sequence[int], groups: int, group: int) -> list[int]:
    """The zones that give one group each, in turn; fewer than so many groups if they have no more."""
    given = (zone for gone in range(groups) for zone in zones if left[zone] // group > gone)
    return list(islice(given, groups))


def _best_plan(room: Sequence[int], width: int, count: int, group: int) -> Distribution | None:
    """The plan that leaves the machine most even, among equals the first, as it is remembered in the end."""
    best: Distribution | None = None
    own, latest = _own_entries(width), dict[tuple[int, ...], tuple[int, ...]]()
    for zones in combinations(range(len(room)), width):
        latest[zones[:own]] = zones
        if best and not best.unevenness:
            break
        tried = _plan(room, zones, count, group)
        if tried and (best is None or tried.unevenness < best.unevenness):
            best = tried
    return best and replace(best, zones=latest[best.zones[:own]])


def _plan(room: Sequence[int], zones: tuple[int, ...], count: int, group: int) -> Distribution | None:
    shared = _share(room, zones, count, group)
    if shared is None:
        return None
    share, groups, left = shared
    able = tuple(zone for zone in zones if left[zone] >= group) if groups else ()
    found = {extra: _unevenness(left, extra, groups, group) for extra in _subsets(able)}
    best = min(found, key=found.__getitem__)
    extra = _remembered(best, able) if found[best] > _ENDLESS else ()
    return Distribution(zones, share, groups, extra, found[best])


def _share(
    room: Sequence[int], zones: tuple[int, ...], count: int, group: int
) -> tuple[int, int, list[int]] | None:
    """What each of these zones gives, how many groups are still missing, and what is left everywhere."""
    share = count // len(zones) // group * group
    groups = (count - share * len(zones)) // group
    left = _less(room, zones, share)
    enough = min(left) >= 0 and sum(left[zone] // group for zone in zones) >= groups
    return (share, groups, left) if enough else None


def _unevenness(left: Sequence[int], extra: Sequence[int], groups: int, group: int) -> float:
    """How far apart the zones are once the extra groups are gone; infinite if there are too few CPUs."""
    amounts, given = list(left), turns(left, extra, groups, group)
    if len(given) < groups:
        return math.inf if sum(left[zone] for zone in extra) < groups * group else _ENDLESS
    for zone in given:
        amounts[zone] -= group
    mean = _thousandths(sum(amounts) / len(amounts))
    return _thousandths(math.sqrt(sum([(amount - mean) ** 2 for amount in amounts]) / len(amounts)))


def _subsets(zones: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All that are not empty, the large ones first; of nothing, nothing."""
    sizes = range(len(zones), 0, -1) if zones else (0,)
    return chain.from_iterable(combinations(zones, size) for size in sizes)


def _remembered(chosen: tuple[int, ...], zones: tuple[int, ...]) -> tuple[int, ...]:
    """A subset as it reads after the last one of its size was looked at."""
    kept = chosen[: _own_entries(len(chosen))]
    return (*kept, *zones[len(zones) - len(chosen) + len(kept) :])


def _own_entries(width: int) -> int:
    """How many entries of a remembered subset stay what they were.

    Subsets are built by appending to slices, whose memory doubles when it is used up. What is appended where
    memory is left, the next subset with the same beginning writes over: of four entries the last, of six to
    eight all after the fifth.
    """
    return (1 << (width - 1).bit_length() >> 1) + 1 if width else 0


def _less(room: Sequence[int], zones: Iterable[int], share: int) -> list[int]:
    left = list(room)
    for zone in zones:
        left[zone] -= share
    return left


def _thousandths(value: float) -> float:
    """Rounded to three decimals, halves up, as the kubelet does it."""
    whole, part = divmod(value * 1000, 1)
    return (whole + (2 * part >= 1)) / 1000
