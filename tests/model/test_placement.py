"""Where a pod lands."""

import pytest

from numalign.model.placement import Grant, Placement
from numalign.model.pod import Role
from tests.notation import GPU, bag, table, zone_ids

AMOUNTS = {
    zone_ids(0): bag("cpu=4"),
    zone_ids(2): bag("gpu=1"),
    zone_ids(0, 3): bag("mem=1Gi"),
}

TOUCHED = [
    # what it shows                            resources          zones
    ("the zones of one resource",               ["cpu"],           {0}),
    ("of several together",                     ["cpu", GPU],      {0, 2}),
    ("a block of memory touches all its zones", ["memory"],        {0, 3}),
    ("what it has nothing of",                  ["hugepages-1Gi"], set()),
    ("nothing asked about",                     [],                set()),
]  # fmt: skip


@pytest.mark.parametrize(("names", "zones"), table(TOUCHED))
def test_a_grant_touches(names: list[str], zones: set[int]) -> None:
    assert Grant("main", Role.APP, None, preferred=True, amounts=AMOUNTS).zones_of(names) == zones


def test_a_placement_touches_every_zone_that_it_keeps_something_of() -> None:
    assert Placement(kept=AMOUNTS).zones == {0, 2, 3}


def test_an_empty_placement_touches_nothing() -> None:
    assert Placement().zones == set()
