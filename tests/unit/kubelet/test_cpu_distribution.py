"""How many CPUs each zone gives, compared with the kubelet's own walk in memory like its own."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kubelet import cpu_distribution
from numalign.kubelet.cpu_distribution import DistributionRequest
from numalign.kubelet.cpu_manager import LEAST_SHARING, LEAST_SPLIT
from numalign.model.options import KubeletChange
from tests.worlds.notation import options, table


def request(
    room: Sequence[int], count: int, *, group: int = 1, per_zone: int = 3, minor: int = 36
) -> DistributionRequest:
    """CPUs over these zones, as a version of the kubelet distributes them."""
    groups = count // group
    widths = range(math.ceil(groups / per_zone), min(groups, len(room)) + 1)
    return DistributionRequest(room, count, group, widths, options(minor=minor).changes)


def test_unevenness_has_three_decimals() -> None:
    plan = cpu_distribution.distribution(request([2, 3, 3], 1))
    assert plan
    assert plan.zones == (1,)
    assert plan.balance == 0.471


SOCKETS = [
    # what it shows                              version  zones   what each gives
    ("up to 1.36 sockets do not decide",         36,      (0, 2), (4, 4)),
    ("one socket comes before a better balance", 37,      (0, 1), (2, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("minor", "zones", "shares"), table(SOCKETS))
def test_sockets_decide_from_1_37_on(minor: int, zones: tuple[int, ...], shares: tuple[int, ...]) -> None:
    by_socket = [0b01, 0b01, 0b10, 0b10] if minor >= 37 else None
    wanted = request([6, 2, 6, 2], 8, per_zone=4, minor=minor)
    plan = cpu_distribution.distribution(replace(wanted, sockets=by_socket))
    assert plan
    assert (plan.zones, (plan.share,) * 2) == (zones, shares)


# The walk itself, without any of the short cuts.


class Slice:
    """Go's slice: a view of memory that it may share with others, until that is used up."""

    def __init__(self, memory: list[int], length: int) -> None:
        self.memory, self.length = memory, length

    def append(self, value: int) -> "Slice":
        full = self.length == len(self.memory)
        memory = self.memory + [0] * max(1, self.length) if full else self.memory
        memory[self.length] = value
        return Slice(memory, self.length + 1)

    def read(self) -> tuple[int, ...]:
        return tuple(self.memory[: self.length])


NOTHING = Slice([], 0)


class EndlessError(Exception):
    """The walk does not come to an end."""


def combined(zones: Sequence[int], size: int, start: int = 0, chosen: Slice = NOTHING) -> Iterator[Slice]:
    if not size:
        yield chosen
        return
    for at in range(start, len(zones) - size + 1):
        yield from combined(zones, size - 1, at + 1, chosen.append(zones[at]))


def subsets(wanted: DistributionRequest, zones: Sequence[int], size: int) -> Iterator[Slice]:
    for chosen in combined(zones, size):
        copied = KubeletChange.COPIED_COMBINATIONS in wanted.changes
        yield Slice(list(chosen.read()), chosen.length) if copied else chosen


def deviation(amounts: Sequence[int]) -> float:
    mean = math.floor(sum(amounts) / len(amounts) * 1000 + 0.5) / 1000
    variance = sum((amount - mean) ** 2 for amount in amounts) / len(amounts)
    return math.floor(math.sqrt(variance) * 1000 + 0.5) / 1000


def without(left: Sequence[int], zones: Sequence[int], rest: int, group: int) -> list[int]:
    after = list(left)
    while rest:
        able = [zone for zone in zones if after[zone] >= group]
        if not able:
            raise EndlessError
        for zone in able[: rest // group]:
            after[zone] -= group
            rest -= group
    return after


def best_extra(
    wanted: DistributionRequest, left: list[int], zones: Sequence[int], rest: int
) -> tuple[float, Slice]:
    if not rest:
        return deviation(left), NOTHING
    able, best, kept = [zone for zone in zones if left[zone] >= wanted.group], math.inf, NOTHING
    unit = wanted.group if KubeletChange.WHOLE_GROUPS in wanted.changes else 1
    for size in range(len(able), 0, -1):
        for subset in subsets(wanted, able, size):
            if sum(left[zone] // unit * unit for zone in subset.read()) >= rest:
                balance = deviation(without(left, subset.read(), rest, wanted.group))
                best, kept = (balance, subset) if balance < best else (best, kept)
    return best, kept


def even(wanted: DistributionRequest, width: int) -> int:
    return wanted.count // width // wanted.group * wanted.group


def lowered(wanted: DistributionRequest, zones: Sequence[int]) -> int:
    return min(
        [even(wanted, len(zones)), *(wanted.room[zone] // wanted.group * wanted.group for zone in zones)]
    )


def walked_width(wanted: DistributionRequest, width: int) -> tuple[Slice, Slice] | None:
    best, kept, kept_in_one = math.inf, None, False
    for chosen in subsets(wanted, range(len(wanted.room)), width):
        if not best and (wanted.sockets is None or kept_in_one):
            break
        zones = chosen.read()
        share = even(wanted, width) if wanted.sockets is None else lowered(wanted, zones)
        enough = sum(wanted.room[zone] // wanted.group for zone in zones) * wanted.group >= wanted.count
        if not enough or any(wanted.room[zone] < share for zone in zones):
            continue
        left = [amount - share * (zone in zones) for zone, amount in enumerate(wanted.room)]
        balance, extra = best_extra(wanted, left, zones, wanted.count - share * width)
        in_one = wanted.sockets is not None and len({wanted.sockets[zone] for zone in zones}) == 1
        if in_one if in_one != kept_in_one else balance < best:
            best, kept, kept_in_one = balance, (chosen, extra), in_one
    return kept


Walked = tuple[tuple[int, ...], tuple[int, ...], int]
"""The zones, those that give the remainder, and the share of each."""


def walked(wanted: DistributionRequest) -> Walked | None:
    for width in wanted.widths:
        kept = walked_width(wanted, width)
        if kept:
            zones, extra = (each.read() for each in kept)
            lowers = KubeletChange.LOWERED_SHARE in wanted.changes
            return zones, extra, lowered(wanted, zones) if lowers else even(wanted, width)
    return None


@st.composite
def requests(draw: st.DrawFn) -> DistributionRequest:
    """Any zones, on any sockets, by any version."""
    room = draw(st.lists(st.integers(1, 9), min_size=1, max_size=8))
    groups, group = draw(st.integers(1, 40)), draw(st.sampled_from((1, 2, 4)))
    minor = draw(st.sampled_from((36, 37, 38)))
    one_of = st.lists(st.sampled_from((1, 2, 4)), min_size=len(room), max_size=len(room))
    sockets = draw(st.none() | one_of) if minor >= 37 else None
    per_zone = draw(st.integers(1, 9))
    drawn = request(room, groups * group, group=group, per_zone=per_zone, minor=minor)
    return replace(drawn, sockets=sockets)


@given(requests())
def test_plan_equals_the_walk_over_combinations(wanted: DistributionRequest) -> None:
    plan = cpu_distribution.distribution(wanted)
    try:
        expected = walked(wanted)
    except EndlessError:
        assert plan
        assert plan.balance == -math.inf
    else:
        assert (plan and (plan.zones, plan.remainder, plan.share)) == expected


def test_endless_search_needs_four_zones_and_partial_groups() -> None:
    endless = [
        room
        for count in range(1, 6)
        for room in combinations_with_replacement(range(1, 6), count)
        for groups in range(1, sum(room) // 2 + 1)
        if (plan := cpu_distribution.distribution(request(room, 2 * groups, group=2)))
        and plan.balance == -math.inf
    ]
    assert min(map(len, endless)) == LEAST_SHARING
    assert min(sum(free % 2 for free in room) for room in endless) == LEAST_SPLIT
