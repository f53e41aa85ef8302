"""CPUs and devices, zone by zone, while a pod is admitted."""

import pytest

from numalign.rules.kubelet.pool import Amounts, Pool, add, draw, pool, subtract
from numalign.rules.pod import Role
from tests.notation import table

FRESH = Pool(total=(8, 8), free=(4, 8), reusable=(0, 0))
USED = Pool(total=(8, 8), free=(2, 8), reusable=(2, 0))


def test_a_pod_starts_with_nothing_to_use_again() -> None:
    assert pool([8, 8], iter([4, 8])) == FRESH


CHARGES = [
    # what it shows                                   before taken   by            free    to use again
    ("an app takes for good",                          FRESH, (2, 0), Role.APP,     (2, 8), (0, 0)),
    ("an init container leaves all it took",           FRESH, (2, 0), Role.INIT,    (2, 8), (2, 0)),
    ("an app takes what was left before anything new", USED,  (3, 1), Role.APP,     (1, 7), (0, 0)),
    ("an app that needs less leaves the rest",         USED,  (1, 0), Role.APP,     (2, 8), (1, 0)),
    ("a sidecar stays, like an app",                   USED,  (1, 0), Role.SIDECAR, (2, 8), (1, 0)),
    ("the next init container adds to what is left",   USED,  (3, 1), Role.INIT,    (1, 7), (3, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("before", "taken", "role", "free", "again"), table(CHARGES))
def test_a_container_is_charged(
    before: Pool, taken: Amounts, role: Role, free: Amounts, again: Amounts
) -> None:
    assert before.charged(taken, role) == Pool((8, 8), free, again)


def test_a_container_could_get_what_is_free_and_what_is_left() -> None:
    assert USED.available == (4, 8)


SERVING = [
    # what it shows                     of     asked sets of zones
    ("any that has enough",              FRESH, 4,  [0b01, 0b10, 0b11]),
    ("not the one with too little",      FRESH, 5,  [0b10, 0b11]),
    ("all together",                     FRESH, 12, [0b11]),
    ("none",                             FRESH, 13, []),
    ("all must hold what is used again", USED,  4,  [0b01, 0b11]),
    ("even if it takes more zones",      USED,  8,  [0b11]),
]  # fmt: skip


@pytest.mark.parametrize(("of", "asked", "serving"), table(SERVING))
def test_sets_of_zones_that_serve(of: Pool, asked: int, serving: list[int]) -> None:
    assert of.serving(asked) == serving


DRAWN = [
    ("in turn, as far as needed", [0, 1], 6, (4, 2)),
    ("in the order told", [1, 0], 6, (0, 6)),
    ("only from zones told", [0], 6, (4, 0)),
    ("nothing asked", [0, 1], 0, (0, 0)),
]


@pytest.mark.parametrize(("zones", "asked", "taken"), table(DRAWN))
def test_amounts_are_drawn(zones: list[int], asked: int, taken: Amounts) -> None:
    assert draw((4, 8), zones, asked) == taken


def test_amounts_add_up_zone_by_zone() -> None:
    assert add((1, 2), (3, 4)) == (4, 6)
    assert subtract((3, 4), (1, 2)) == (2, 2)
