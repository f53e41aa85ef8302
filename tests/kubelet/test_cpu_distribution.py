"""How many CPUs each zone gives: examples, and the kubelet's own walk in memory like its own."""

import math
from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from numalign.kubelet import cpu_distribution


def test_three_groups_are_not_looked_for_in_two_zones_for_ever() -> None:
    plan = cpu_distribution.distribution([4, 4, 5, 5], 14, group=2, groups_per_zone=3)

    assert plan
    assert plan.remainder == ()
    assert plan.groups == 3


def test_unevenness_has_three_decimals() -> None:
    plan = cpu_distribution.distribution([2, 3, 3], 1, group=1, groups_per_zone=3)

    assert plan
    assert plan.zones == (1,)
    assert plan.balance == 0.471


# The walk itself, without any of the short cuts.


class Slice:
    """Go's slice: a view of memory that it may share with others, until that is used up."""

    def __init__(self, memory: list[int], length: int) -> None:
        self.memory, self.length = memory, length

    def append(self, value: int) -> "Slice":
        """One entry more, in the same memory if there is room."""
        full = self.length == len(self.memory)
        memory = self.memory + [0] * max(1, self.length) if full else self.memory
        memory[self.length] = value
        return Slice(memory, self.length + 1)

    def read(self) -> tuple[int, ...]:
        """The entries as they are now."""
        return tuple(self.memory[: self.length])


NOTHING = Slice([], 0)


class EndlessError(Exception):
    """The walk does not come to an end."""


def subsets(zones: Sequence[int], size: int, start: int = 0, held: Slice = NOTHING) -> Iterator[Slice]:
    if not size:
        yield held
        return
    for at in range(start, len(zones) - size + 1):
        yield from subsets(zones, size - 1, at + 1, held.append(zones[at]))


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


def best_extra(left: list[int], zones: Sequence[int], rest: int, group: int) -> tuple[float, Slice]:
    if not rest:
        return deviation(left), NOTHING
    able, best, kept = [zone for zone in zones if left[zone] >= group], math.inf, NOTHING
    for size in range(len(able), 0, -1):
        for subset in subsets(able, size):
            if sum(left[zone] for zone in subset.read()) >= rest:
                balance = deviation(without(left, subset.read(), rest, group))
                best, kept = (balance, subset) if balance < best else (best, kept)
    return best, kept


def walked_width(room: Sequence[int], width: int, asked: int, group: int) -> tuple[Slice, Slice] | None:
    best, kept, share = math.inf, None, asked // width // group * group
    for zones in subsets(range(len(room)), width):
        if not best:
            break
        enough = sum(room[zone] // group for zone in zones.read()) * group >= asked
        if enough and all(room[zone] >= share for zone in zones.read()):
            left = [amount - share * (zone in zones.read()) for zone, amount in enumerate(room)]
            balance, extra = best_extra(left, zones.read(), asked - share * width, group)
            best, kept = (balance, (zones, extra)) if balance < best else (best, kept)
    return kept


def walked(room: Sequence[int], groups: int, group: int, per_zone: int) -> list[tuple[int, ...]] | None:
    for width in range(math.ceil(groups / per_zone), min(groups, len(room)) + 1):
        kept = walked_width(room, width, groups * group, group)
        if kept:
            return [each.read() for each in kept]
    return None


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=8),
    st.integers(1, 40),
    st.sampled_from((1, 2, 4)),
    st.integers(1, 9),
)
def test_the_plan_is_what_the_walk_remembers(room: list[int], groups: int, group: int, per_zone: int) -> None:
    plan = cpu_distribution.distribution(room, groups * group, group=group, groups_per_zone=per_zone)

    try:
        expected = walked(room, groups, group, per_zone)
    except EndlessError:
        assert plan
        assert plan.balance == -math.inf
    else:
        assert (plan and [plan.zones, plan.remainder]) == expected
