"""
The rules against the kubelet itself: recordings of its own managers, one decision after another.

With the machine known, nothing may differ, with or without knowing what really happened. From amounts and the
configuration every verdict holds, but for devices that sit between zones. What counts alone are worth, by
policy, option and version, is in docs/measurements/agreement.md.
"""

from collections.abc import Iterable, Mapping

import pytest

from tests.worlds.thoroughness import Thoroughness, thoroughness
from tools.generate import agreement
from tools.generate.agreement import (
    ADMITTED,
    AFFINITY,
    AMOUNTS,
    CHANCE,
    COLUMNS,
    CPUS,
    NAIVE,
    REASON,
    Admission,
    Decision,
    Level,
    Recorded,
    Tally,
)

RECORDINGS = ("kubelet-synthetic.jsonl.gz", "kubelet-trace.jsonl.gz")
BETWEEN_ZONES, NO_TOPOLOGY_SHOWS = "multidev", 2
OF_VERSIONS = tuple(sorted({path.name for path in agreement.DATA.glob("kubelet-v*.jsonl.gz")}))
FULL = thoroughness() is not Thoroughness.SAMPLE
EVERY = 1 if FULL else 5
"""Of the recordings, one scenario in so many; among them are those whose verdicts only the machine tells."""

EVERY_OF_A_VERSION = 4 if FULL else 36
"""The same for the recordings of each version; `python -m tools.generate agreement` takes all of both."""

# The first test to ask replays the recordings.
pytestmark = pytest.mark.timeout(300)


def decided(recorded: Iterable[Recorded], *levels: Level) -> list[Decision]:
    return [made for one in recorded for level in levels for made in agreement.decisions(one, level)]


@pytest.fixture(scope="module")
def recorded() -> list[Recorded]:
    return [*agreement.recordings(*RECORDINGS, every=EVERY)]


@pytest.fixture(scope="module")
def decisions(recorded: list[Recorded], tables: list[str]) -> list[Decision]:
    """Every decision of these scenarios, at the levels that are compared."""
    made = decided(recorded, Level.MACHINE, Level.UNOBSERVED, Level.CONFIGURED)
    for level, tally in agreement.tallied(made, agreement.everything)["all"].items():
        tables.append(f"kubelet, {level:<20}" + "".join(f"{what} {tally.cell(what)}  " for what in COLUMNS))
    return made


@pytest.mark.parametrize("name", OF_VERSIONS)
def test_each_version_decides_as_predicted(name: str) -> None:
    sample = agreement.recordings(name, every=EVERY_OF_A_VERSION)
    tally = agreement.tallied(decided(sample, Level.MACHINE), agreement.everything)["all"][Level.MACHINE]
    assert {what: tally.missed(what) for what in COLUMNS} == dict.fromkeys(COLUMNS, 0)
    assert all(tally.compared[what] for what in COLUMNS)


def test_each_version_and_unreleased_option_is_recorded() -> None:
    minors = [name.removeprefix("kubelet-v1.")[:2] for name in OF_VERSIONS if "+" not in name]
    overlays = {name.partition("+")[2].removesuffix(".jsonl.gz") for name in OF_VERSIONS} - {""}
    assert minors == ["32", "34", "36", "37", "38"]
    assert overlays == {"prefer-most-allocated", "numa-allocation-strategy"}


@pytest.fixture(scope="module")
def by_kind(decisions: list[Decision]) -> Mapping[str, Mapping[Level, Tally]]:
    return agreement.tallied(decisions, agreement.kind)


@pytest.fixture(scope="module")
def in_all(decisions: list[Decision]) -> Mapping[Level, Tally]:
    return agreement.tallied(decisions, agreement.everything)["all"]


@pytest.mark.full
@pytest.mark.parametrize("level", [Level.MACHINE, Level.UNOBSERVED, Level.CONFIGURED])
def test_no_decision_is_left_out(
    level: Level, recorded: list[Recorded], in_all: Mapping[Level, Tally]
) -> None:
    pods = sum(isinstance(step, Admission) for one in recorded for step in one.steps)
    assert in_all[level].compared[ADMITTED] == pods > 1000


def test_everything_agrees_on_a_known_machine(in_all: Mapping[Level, Tally]) -> None:
    for what in (ADMITTED, REASON, AFFINITY, CPUS, AMOUNTS):
        assert in_all[Level.MACHINE].compared[what]
        assert in_all[Level.MACHINE].missed(what) == 0


def test_devices_picked_at_random_are_few(in_all: Mapping[Level, Tally]) -> None:
    tally = in_all[Level.MACHINE]
    assert tally.agreed[CHANCE] < tally.compared[AMOUNTS] / 100


def test_no_error_accumulates_without_observation(in_all: Mapping[Level, Tally]) -> None:
    assert in_all[Level.UNOBSERVED].compared[ADMITTED] == in_all[Level.MACHINE].compared[ADMITTED]
    assert [in_all[Level.UNOBSERVED].missed(what) for what in (ADMITTED, REASON)] == [0, 0]


def test_counts_decide_all_but_devices_between_zones(by_kind: Mapping[str, Mapping[Level, Tally]]) -> None:
    missed = {kind: levels[Level.CONFIGURED].missed(ADMITTED) for kind, levels in by_kind.items()}
    assert {kind for kind, count in missed.items() if count} == {BETWEEN_ZONES}
    assert missed[BETWEEN_ZONES] <= NO_TOPOLOGY_SHOWS


def test_wrong_verdict_has_named_its_cause(decisions: list[Decision]) -> None:
    wrong = [decision for decision in decisions if not decision.found[ADMITTED]]
    assert wrong
    assert all(decision.causes for decision in wrong)


def test_naive_check_of_one_zone_is_far_worse(in_all: Mapping[Level, Tally]) -> None:
    tally = in_all[Level.CONFIGURED]
    assert tally.missed(NAIVE) > 100 * tally.missed(ADMITTED)
