"""Amounts position by position."""

import pytest

from numalign.kubelet.zone_amounts import ZoneAmounts, add, draw, subtract
from tests.notation import table

DRAWN = [
    ("in turn, as far as needed", [0, 1], 6, (4, 2)),
    ("in the order told", [1, 0], 6, (0, 6)),
    ("only from positions told", [0], 6, (4, 0)),
    ("nothing asked", [0, 1], 0, (0, 0)),
]


@pytest.mark.parametrize(("positions", "asked", "taken"), table(DRAWN))
def test_amounts_are_drawn(positions: list[int], asked: int, taken: ZoneAmounts) -> None:
    assert draw((4, 8), positions, asked) == taken


def test_amounts_add_up_position_by_position() -> None:
    assert add((1, 2), (3, 4)) == (4, 6)
    assert subtract((3, 4), (1, 2)) == (2, 2)
