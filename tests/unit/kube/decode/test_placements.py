"""What a pod holds, as it is written on the pod and read again."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from numalign.decision.evaluate import evaluate
from numalign.kube.decode import placements
from numalign.kube.decode.placements import (
    KAI_OBSERVED,
    KAI_PREDICTED,
    MOST_ENTRIES,
    BadRecord,
    DecodedRecord,
)
from numalign.ledger.claims import checked
from numalign.ledger.model import PlacementRecord, Source
from numalign.model.intent import PLACEMENT, PLACEMENT_OBSERVED
from numalign.model.placement import Held, ZoneSet
from numalign.model.resources import Resources
from tests.worlds.notation import GPU, asks, bag, machine, node, table, zone_ids
from tests.worlds.objects import mistakes

WIDE = node(*["cpu=64 mem=64Gi gpu=8"] * 12, policy="restricted", ids=range(0, 24, 2))
# Devices of unknown zones are on no zone.
zone_sets = st.sets(st.sampled_from([zone.id for zone in WIDE.zones]), max_size=4)
amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "hugepages-1Gi", GPU, "example.com/nic"]), st.integers(0, 2**53)
)
kept_by_zones = st.dictionaries(zone_sets.map(lambda ids: zone_ids(*sorted(ids))), amounts.map(Resources))


@given(kept_by_zones)
def test_a_record_is_read_as_it_was_written(held_by: Mapping[ZoneSet, Resources]) -> None:
    names = {zone.id: zone.name for zone in WIDE.zones}
    assert placements.read(placements.write(held_by, WIDE)) == {
        tuple(sorted(names[zone] for zone in zones)): amount for zones, amount in held_by.items()
    }


APART = machine("cpu=0-3 mem=8Gi", "cpu=4-7 mem=8Gi", devices="gpu=0,1,-,01", policy="best-effort")


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), min_size=1, max_size=3))
def test_a_predicted_record_is_plausible_when_read_again(containers: list[tuple[int, int]]) -> None:
    demand = asks(*(f"cpu={cpus} mem=1Gi gpu={gpus}" for cpus, gpus in containers))
    verdict = evaluate(APART, demand)
    assume(verdict.admitted)
    written = placements.write(verdict.placement.kept, APART)
    assert not checked(APART, demand, placements.read(written)).refuted


@given(kept_by_zones, st.data())
def test_equal_placements_are_equal_texts(held_by: Mapping[ZoneSet, Resources], data: st.DataObject) -> None:
    shuffled = dict(data.draw(st.permutations(list(held_by.items()))))
    assert placements.write(shuffled, WIDE) == placements.write(held_by, WIDE)


def entry(zones: object, **amount: object) -> dict[str, object]:
    return {"zones": zones, "amount": amount}


@pytest.mark.parametrize(("written", "expected"), table([
    # situation: (record, every mistake in order)
    ("zone and zones", [{"zone": "node-0", "zones": ["node-1"], "amount": {}}],
        ["[0].zone: cannot be combined with zones: remove one of them"]),
    ("no zone twice", [entry([]), entry([])], ["[1]: no zone is listed twice: see [0]"]),
    ("a zone twice", [entry(["a", "a"])], ['[0].zones[1]: "a" is listed twice']),
    ("the same zones twice", [entry(["a", "b"]), entry(["b", "a"])],
        ['[1]: "a", "b" is listed twice: see [0]']),
    ("too many entries", [entry([str(number)]) for number in range(MOST_ENTRIES + 1)],
        [f"has {MOST_ENTRIES + 1} entries: at most {MOST_ENTRIES} are allowed"]),
    ("too many amounts",
        [entry([str(number)], **{f"r{each}": "1" for each in range(256)}) for number in range(17)],
        ["has 4352 quantities: at most 4096 are allowed"]),
    ("mistakes in several places", [entry(["a"], cpu=True), entry(["b"], cpu="1"), entry([""])],
        ["[0].amount.cpu: True is not a quantity: write a number or a text like 4 or 500m",
            "[2].zones[0]: is empty"]),
]))  # fmt: skip
def test_mistakes_have_their_places(written: object, expected: list[str]) -> None:
    assert mistakes(BadRecord, placements.read, json.dumps(written)) == expected


@pytest.mark.parametrize("text", ["[", "[NaN]", "\ud800", "[" * 10_000, "x" * (placements.LONGEST + 1)])
def test_invalid_json_is_no_record(text: str) -> None:
    with pytest.raises(BadRecord, match=r"is not JSON|is nested|at most"):
        placements.read(text)


ONE = '[{"amount": {"cpu": "1"}, %s}]'
ALL = {KAI_PREDICTED: ONE % '"zone": "d"', PLACEMENT: ONE % '"zones": ["c"]',
    KAI_OBSERVED: ONE % '"zone": "b"', PLACEMENT_OBSERVED: ONE % '"zones": ["a"]',
    "kai.scheduler/other": "x"}  # fmt: skip


@pytest.mark.parametrize(("without", "zone", "source"), table([
    ("observed", [], "a", Source.OBSERVED),
    ("observed by KAI", [PLACEMENT_OBSERVED], "b", Source.OBSERVED),
    ("recorded", [PLACEMENT_OBSERVED, KAI_OBSERVED], "c", Source.RECORDED),
    ("predicted by KAI", [PLACEMENT_OBSERVED, KAI_OBSERVED, PLACEMENT], "d", Source.PREDICTED),
]))  # fmt: skip
def test_observed_comes_before_recorded_and_predicted(without: list[str], zone: str, source: Source) -> None:
    absent = {key: text for key, text in ALL.items() if key not in without}
    assert placements.record_of(absent) == DecodedRecord(PlacementRecord({(zone,): bag("cpu=1")}, source))
    decoded = placements.record_of(ALL | dict.fromkeys(without, "["))
    assert decoded.record == PlacementRecord({(zone,): bag("cpu=1")}, source)
    assert [each.where for each in decoded.mistakes] == [f"metadata.annotations[{key}]" for key in without]


def test_a_pod_without_annotations_has_no_record() -> None:
    assert placements.record_of({"numalign.io/policy": "restricted"}) == DecodedRecord(None, ())


@pytest.mark.parametrize(("key", "text", "why"), table([
    ("an empty list of KAI",  KAI_OBSERVED,  "[]", "is empty"),
    ("an empty prediction",   KAI_PREDICTED, "[]", "is empty"),
    ("what is no text",       PLACEMENT,     7,    "must be a string, not a number"),
]))  # fmt: skip
def test_no_record_is(key: str, text: object, why: str) -> None:
    decoded = placements.record_of({key: text})
    assert (decoded.record, [*map(str, decoded.mistakes)]) == (None, [f"metadata.annotations[{key}]: {why}"])


KAI_GROUPS = "kai.scheduler/numa-memory-groups-observed"
SPANNING = {"memoryNodes": ["node-3", "node-0"], "amount": {"memory": "6Gi"}}
LONE = {"memoryNodes": ["node-0"], "amount": {"memory": "1Gi"}}
THEIRS = json.dumps([{"zone": "node-0", "amount": {"cpu": "2", "memory": "1Gi"}}])
WITHOUT_MEMORY: Held = {("node-0",): bag("cpu=2")}
AS_PLACED: Held = {("node-0",): bag("cpu=2 mem=1Gi")}
TOGETHER: Held = {("node-0", "node-3"): bag("mem=6Gi")}


@pytest.mark.parametrize(("groups", "expected"), table([
    # what it shows                       the groups                     what the pod holds
    ("memory that spans zones",           json.dumps([SPANNING]),
     {**WITHOUT_MEMORY, **TOGETHER}),
    ("groups are all of the memory",      "[]",                          WITHOUT_MEMORY),
    ("groups that are unknown",           "null",                        AS_PLACED),
    ("only memory is in groups",          json.dumps([{**LONE, "amount": {"cpu": "9"}}]), WITHOUT_MEMORY),
]))  # fmt: skip
def test_memory_groups_replace_the_memory_of_a_placement(groups: str, expected: Held) -> None:
    assert placements.record_of({KAI_OBSERVED: THEIRS, KAI_GROUPS: groups}) == DecodedRecord(
        PlacementRecord(expected, Source.OBSERVED)
    )


def test_wrong_memory_groups_leave_the_placement() -> None:
    decoded = placements.record_of({KAI_OBSERVED: THEIRS, KAI_GROUPS: json.dumps([LONE, LONE])})
    assert decoded.record == PlacementRecord(AS_PLACED, Source.OBSERVED)
    assert [mistake.where for mistake in decoded.mistakes] == [f"metadata.annotations[{KAI_GROUPS}][1]"]
    assert placements.record_of({KAI_OBSERVED: THEIRS, KAI_GROUPS: 7}).record == decoded.record
