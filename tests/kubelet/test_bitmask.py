"""Sets of zones as bits."""

import pytest

from numalign.kubelet import bitmask
from numalign.model.bitset import bits, members, union
from tests.notation import table, zone_ids


def test_positions_and_ids_are_two_things() -> None:
    order = zone_ids(0, 3, 7)

    assert bitmask.ids(0b101, order) == (0, 7)
    assert bitmask.ids(0, order) == ()
    assert list(members(0b101)) == [0, 2]
    assert bits([2, 0]) == 0b101


def test_all_masks_by_number() -> None:
    assert list(bitmask.ascending(2)) == [0b01, 0b10, 0b11]
    assert bitmask.full(3) == 0b111
    assert bitmask.full(0) == 0


def test_the_total_of_every_mask_stands_at_its_number() -> None:
    assert list(bitmask.sums((1, 10, 100))) == [0, 1, 10, 11, 100, 101, 110, 111]


def test_together_masks_hold_every_zone_that_is_in_one() -> None:
    assert union([0b0011, 0b1010]) == 0b1011
    assert union([]) == 0


FEWEST = [
    # what it shows                amounts    asked zones
    ("one zone has it",             [4, 8],    8,  1),
    ("exactly all together",        [4, 8],    12, 2),
    ("the largest are taken first", [1, 1, 9], 10, 2),
    ("too little together",         [4, 8],    13, None),
    ("no zone at all",              [],        1,  None),
]  # fmt: skip


@pytest.mark.parametrize(("amounts", "asked", "zones"), table(FEWEST))
def test_the_fewest_zones_that_reach(amounts: list[int], asked: int, zones: int | None) -> None:
    assert bitmask.fewest(amounts, asked) == zones
