"""
The rules against the kubelet itself: recordings of its own managers, one decision after another.

With the machine told, nothing may differ, with or without knowing what really happened. From amounts and the
configuration every verdict holds, but for devices that sit between zones. What counts alone are worth, by
policy, options and kind, stands in docs/agreement.md.
"""

from collections.abc import Mapping

import pytest

from tests.conformance import agreement
from tests.conformance.agreement import (
    ADMITTED,
    AFFINITY,
    AMOUNTS,
    CHANCE,
    COLUMNS,
    CPUS,
    NAIVE,
    REASON,
    Decision,
    Level,
    Tally,
)

RECORDINGS = ("kubelet-synthetic.jsonl.gz", "kubelet-trace.jsonl.gz")
DECISIONS = 5431
BETWEEN_ZONES, NO_TOPOLOGY_SHOWS = "multidev", 2

# The first test to ask replays every recording.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="session")
def decisions(tables: list[str]) -> list[Decision]:
    """Every decision of the recordings, wherever something must be shown of it."""
    levels = (Level.MACHINE, Level.UNOBSERVED, Level.CONFIGURED)
    recorded = list(agreement.recordings(*RECORDINGS))
    found = [each for one in recorded for level in levels for each in agreement.decisions(one, level)]
    for level, tally in agreement.tallied(found, agreement.everything)["all"].items():
        tables.append(f"kubelet, {level:<20}" + "".join(f"{what} {tally.cell(what)}  " for what in COLUMNS))
    return found


@pytest.fixture(scope="session")
def by_kind(decisions: list[Decision]) -> Mapping[str, Mapping[Level, Tally]]:
    return agreement.tallied(decisions, agreement.kind)


@pytest.fixture(scope="session")
def in_all(decisions: list[Decision]) -> Mapping[Level, Tally]:
    return agreement.tallied(decisions, agreement.everything)["all"]


@pytest.mark.parametrize("level", [Level.MACHINE, Level.UNOBSERVED, Level.CONFIGURED])
def test_no_decision_is_left_out(level: Level, in_all: Mapping[Level, Tally]) -> None:
    assert in_all[level].asked[ADMITTED] == DECISIONS


@pytest.mark.parametrize("what", [ADMITTED, REASON, AFFINITY, CPUS, AMOUNTS])
def test_of_a_known_machine_everything_is_as_the_kubelet_did_it(
    what: str, in_all: Mapping[Level, Tally]
) -> None:
    assert in_all[Level.MACHINE].asked[what]
    assert in_all[Level.MACHINE].missed(what) == 0


def test_devices_picked_at_random_are_few(in_all: Mapping[Level, Tally]) -> None:
    tally = in_all[Level.MACHINE]

    assert tally.agreed[CHANCE] < tally.asked[AMOUNTS] / 100


@pytest.mark.parametrize("what", [ADMITTED, REASON])
def test_no_mistake_carries_on_where_nobody_tells_what_happened(
    what: str, in_all: Mapping[Level, Tally]
) -> None:
    assert in_all[Level.UNOBSERVED].missed(what) == 0


def test_counts_and_the_configuration_give_every_verdict_but_of_devices_between_zones(
    by_kind: Mapping[str, Mapping[Level, Tally]],
) -> None:
    missed = {kind: levels[Level.CONFIGURED].missed(ADMITTED) for kind, levels in by_kind.items()}

    assert {kind for kind, count in missed.items() if count} == {BETWEEN_ZONES}
    assert missed[BETWEEN_ZONES] <= NO_TOPOLOGY_SHOWS


def test_a_wrong_verdict_had_named_its_cause(decisions: list[Decision]) -> None:
    wrong = [decision for decision in decisions if not decision.found[ADMITTED]]

    assert wrong
    assert all(decision.causes for decision in wrong)


def test_one_zone_with_enough_of_everything_says_far_less(in_all: Mapping[Level, Tally]) -> None:
    tally = in_all[Level.CONFIGURED]

    assert tally.missed(NAIVE) > 100 * tally.missed(ADMITTED)
