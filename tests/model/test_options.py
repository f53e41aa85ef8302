"""What a kubelet was told, and what its version makes of it."""

import pytest

from numalign.model.options import (
    BEHAVIOURS,
    COMPARED,
    DEFAULTS,
    NEWEST,
    OLDEST,
    CpuOption,
    FeatureGate,
    Options,
    TopologyOption,
)
from tests.notation import options, table

MANAGERS = FeatureGate.POD_LEVEL_MANAGERS


def test_a_kubelet_of_which_nobody_told_anything_is_the_newest_one_without_options() -> None:
    assert Options() == DEFAULTS
    assert DEFAULTS.minor is None
    assert DEFAULTS.behaviour == options(minor=36).behaviour
    assert not DEFAULTS.cpu | DEFAULTS.topology | DEFAULTS.gates


VERSIONS = [
    # what it shows                       minor hints where devices are, cores rounded up
    ("the oldest one compared",            32,  False, False),
    ("before cores were rounded up",       33,  False, False),
    ("since cores are rounded up",         34,  False, True),
    ("before hints were narrowed",         35,  False, True),
    ("since hints are narrowed",           36,  True,  True),
    ("an older one is like the oldest",    20,  False, False),
    ("a newer one is like the newest",     99,  True,  True),
]  # fmt: skip


@pytest.mark.parametrize(("minor", "near", "rounded"), table(VERSIONS))
def test_versions_differ(minor: int, *, near: bool, rounded: bool) -> None:
    behaviour = options(minor=minor).behaviour

    assert behaviour.hints_where_devices_are is near
    assert behaviour.rounds_cores_up is rounded


def test_the_oldest_and_the_newest_version_were_compared() -> None:
    assert {OLDEST, NEWEST} <= COMPARED <= set(BEHAVIOURS)


def test_no_version_between_the_oldest_and_the_newest_is_left_out() -> None:
    assert list(BEHAVIOURS) == list(range(OLDEST, NEWEST + 1))


GATES = [
    ("switched on, where it exists", "PodLevelResourceManagers", 36, True),
    ("switched on, and a later version", "PodLevelResourceManagers", 37, True),
    ("switched on, but no such gate yet", "PodLevelResourceManagers", 35, False),
    ("not switched on", "", 36, False),
]


@pytest.mark.parametrize(("words", "minor", "on"), table(GATES))
def test_a_gate_needs_a_version_that_knows_it(words: str, minor: int, *, on: bool) -> None:
    assert options(words, minor=minor).on(MANAGERS) is on


def test_words_are_the_kubelets_own() -> None:
    assert {*CpuOption} == {
        "full-pcpus-only",
        "distribute-cpus-across-numa",
        "align-by-socket",
        "distribute-cpus-across-cores",
        "strict-cpu-reservation",
        "prefer-align-cpus-by-uncorecache",
    }
    assert {*TopologyOption} == {"prefer-closest-numa-nodes"}
    assert {*FeatureGate} == {"PodLevelResourceManagers"}
