"""Options of a kubelet, and what its version makes of them."""

import pytest

from numalign.model.options import (
    CHANGES,
    COMPARED,
    DEFAULTS,
    NEWEST,
    OLDEST,
    PRE_RELEASE,
    FeatureGate,
    KubeletChange,
    Options,
)
from tests.worlds.notation import options, table

MANAGERS = FeatureGate.POD_LEVEL_MANAGERS


def test_unknown_kubelet_is_the_newest_without_options() -> None:
    assert Options() == DEFAULTS
    assert DEFAULTS.minor is None
    assert DEFAULTS.changes == options(minor=NEWEST).changes
    assert not DEFAULTS.cpu | DEFAULTS.topology | DEFAULTS.gates


VERSIONS = [
    ("the oldest one compared", 32, 33),
    ("between changes", 34, 35),
    ("an older one is like the oldest", 20, OLDEST),
    ("one newer than the pre-release is like it", 99, PRE_RELEASE),
]


@pytest.mark.parametrize(("minor", "other"), table(VERSIONS))
def test_equal_versions_have_equal_changes(minor: int, other: int) -> None:
    assert options(minor=minor).changes == options(minor=other).changes


def test_each_change_stays_from_its_version_on() -> None:
    assert CHANGES.keys() == {*KubeletChange}
    for change, since in CHANGES.items():
        having = [minor for minor in range(OLDEST, PRE_RELEASE + 1) if change in options(minor=minor).changes]
        assert having == [*range(since, PRE_RELEASE + 1)]


def test_the_oldest_and_the_newest_version_were_compared() -> None:
    assert {OLDEST, NEWEST, PRE_RELEASE} <= COMPARED


GATES = [
    ("switched on, where it exists", "PodLevelResourceManagers", 36, True),
    ("switched on, but no such gate yet", "PodLevelResourceManagers", 35, False),
    ("not switched on", "", 36, False),
]


@pytest.mark.parametrize(("words", "minor", "on"), table(GATES))
def test_gate_needs_a_version_that_has_it(words: str, minor: int, *, on: bool) -> None:
    assert options(words, minor=minor).on(MANAGERS) is on


def test_no_release_has_the_options_of_kep_6007() -> None:
    assert options("prefer-closest-numa-nodes").unreleased == set()
    assert options("prefer-most-allocated-numa-node").unreleased == {"prefer-most-allocated-numa-node"}
    scored = options(strategy="most-allocated", weights="cpu=3")
    assert scored.unreleased == {"numa-allocation-strategy", "numa-score-weights"}
