"""Reports of an agent are read as they were written, and mistakes in them."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.decode import kubelet_reports as reports
from numalign.kube.decode.kubelet_config import KubeletConfiguration
from numalign.kube.decode.kubelet_reports import BadReport, MachineReport, ObservedPlacement
from numalign.kube.decode.machines import DescribedMachine, ZoneMemory
from numalign.kube.decode.nrt import MOST_ZONES
from numalign.model.bitset import bits
from numalign.model.intent import Policy
from numalign.model.machine import MOST_CPUS, Core, DevicePlace, all_places
from numalign.model.node import CpuManager
from numalign.model.resources import Resources, ZoneId
from tests.worlds.notation import table, zone_ids
from tests.worlds.objects import GIB, Json, mistakes

KUBELET = {"version": "v1.34.4", "cpuManagerPolicy": "static", "topologyManagerPolicy": "restricted"}


def zone(number: int = 0, **fields: object) -> Json:
    first = 2 * number
    return {"id": number, "socket": 0, "cores": [[first], [first + 1]], "memory": GIB, **fields}


def report(*zones: Json, kubelet: object = KUBELET, **fields: object) -> Json:
    return {"version": 1, "kubelet": kubelet, "machine": {"zones": list(zones) or [zone()], **fields}}


def pods(**by_uid: object) -> Json:
    return {"version": 1, "pods": by_uid}


def machine_mistakes(written: object) -> list[str]:
    return mistakes(BadReport, reports.read_machine, text_of(written), "n")


def placement_mistakes(written: object) -> list[str]:
    return mistakes(BadReport, reports.read_placements, text_of(written))


def text_of(written: object) -> str:
    return written if isinstance(written, str) else json.dumps(written)


@pytest.mark.parametrize(("written", "messages"), table([
    ("no text", 7, ["must be a string, not a number"]),
    ("nothing", "", ["is not JSON"]),
    ("a later version", '{"version": 2, "new": {}}', ["version: 2 is not a supported version: expected 1"]),
]))  # fmt: skip
def test_what_is_no_report(written: object, messages: list[str]) -> None:
    machine = mistakes(BadReport, reports.read_machine, written, "n")
    for found_messages in (machine, mistakes(BadReport, reports.read_placements, written)):
        assert [line[: len(start)] for line, start in zip(found_messages, messages, strict=False)] == messages


@pytest.mark.parametrize(("written", "messages"), table([
    ("more zones than are read", report(*map(zone, range(MOST_ZONES + 1))),
        ["machine.zones: has 65 entries: at most 64 are allowed"]),
    ("more places than are read", report(devices={"x/a": [{}] * reports.MOST_PLACES, "x/b": [{}]}),
        ["machine.devices: has 1025 places: at most 1024 are allowed"]),
    ("counts that cannot be",
        report(zone(0), zone(1), devices={"x/gpu": [{"zones": [0], "total": 1, "healthy": 2},
            {"zones": [0, 1], "total": reports.MOST_DEVICES + 1, "healthy": -1},
            {"zones": [7], "total": 1, "healthy": 1}]}),
        ["machine.devices[x/gpu][0]: 2 healthy devices are more than the total of 1",
            "machine.devices[x/gpu][1].total: 1000001 devices are more than the 1000000 that are allowed",
            "machine.devices[x/gpu][1].healthy: must be at least 0, not -1",
            "machine.devices[x/gpu][2].zones[0]: there is no zone 7 on this machine"]),
    ("a place twice", report(zone(0), zone(1), devices={"x/gpu": [{"zones": [1, 0], "total": 1, "healthy": 1},
            {"zones": [0, 1], "total": 1, "healthy": 1}]}),
        ["machine.devices[x/gpu][1]: these zones are also listed at machine.devices[x/gpu][0]"]),
]))  # fmt: skip
def test_mistakes_of_a_machine_have_their_places(written: Json, messages: list[str]) -> None:
    assert machine_mistakes(written) == messages


@pytest.mark.parametrize(("written", "messages"), table([
    ("what is wrong with several pods",
        pods(a={"held": [{"zones": ["x", "x"], "amount": {"cpu": "-1"}}], "cpus": "3-1"},
            b={"hold": []}, c=[]),
        ['pods.a.held[0].zones[1]: "x" is listed twice',
            'pods.a.held[0].amount.cpu: "-1" is negative: an amount is zero or more',
            'pods.a.cpus: "3-1" is not a CPU ID or range, as in 0-3,8',
            "pods.b.hold: is not a known field: expected one of held, cpus",
            "pods.b.held: is missing",
            "pods.c: must be an object, not a list",
            "pods.c.held: is missing"]),
    ("CPUs beyond all", pods(a={"held": [], "cpus": "8192"}),
        ['pods.a.cpus: "8192" is not a CPU ID or range, as in 0-3,8']),
    ("a uid that is none", pods(**{"a b": {"held": []}}),
        ['pods[a b]: "a b" is not a UID: at most 128 ASCII characters without spaces are allowed']),
]))  # fmt: skip
def test_mistakes_of_placements_have_their_places(written: Json, messages: list[str]) -> None:
    assert placement_mistakes(written) == messages


def test_too_long_texts_are_not_parsed() -> None:
    # Of two bytes each, so that characters are half as many.
    long, longer = (
        "ä" * (reports.LONGEST_MACHINE // 2 + 1),
        "[" * (reports.LONGEST_PLACEMENTS + 1),
    )
    assert machine_mistakes(long) == ["has 98306 bytes: at most 98304 are allowed"]
    assert placement_mistakes(longer) == ["has 131073 bytes: at most 131072 are allowed"]


@st.composite
def machines_(draw: st.DrawFn) -> DescribedMachine:
    """Machines as they are read: zones, and the cores in them, in order."""
    ids = zone_ids(*sorted(draw(st.sets(st.integers(0, 1023), min_size=1, max_size=4))))
    cpus = iter(draw(st.permutations(range(24))))
    cores = [
        Core(zone, draw(st.integers(0, 2)), draw(st.integers(0, 3)), bits([next(cpus), next(cpus)]))
        for zone in ids
        for _ in range(draw(st.integers(0, 3)))
    ] or [Core(ids[0], 0, 0, bits([8191]))]
    distances = draw(st.sampled_from([(), tuple(range(10, 10 + len(ids)))]))
    huge = draw(st.sampled_from([Resources(), Resources({"hugepages-2Mi": 0, "hugepages-1Gi": GIB})]))
    reserved = draw(st.none() | st.integers(0, GIB))
    at = st.frozensets(st.sampled_from(ids)).map(lambda zones: tuple(sorted(zones)))
    counts = st.integers(1, 9).flatmap(lambda most: st.tuples(st.just(most), st.integers(0, most)))
    places = st.dictionaries(at, counts, max_size=4).map(
        lambda counted: all_places(ids, (DevicePlace(zones, *counts) for zones, counts in counted.items()))
    )
    return DescribedMachine(
        tuple(ZoneMemory(zone, 4 * GIB, reserved, huge, distances) for zone in ids),
        tuple(cores),
        reserved=draw(st.sampled_from([None, cores[0].threads])),
        devices=tuple(sorted(draw(st.dictionaries(st.sampled_from(["x/a", "x/b"]), places)).items())),
    )


@given(machines_())
def test_a_machine_is_read_as_it_was_written(machine: DescribedMachine) -> None:
    read = reports.read_machine(reports.write_machine(machine, KUBELET), "n")
    configuration = KubeletConfiguration("n", policy=Policy.RESTRICTED, cpu_manager=CpuManager.STATIC)
    assert read == MachineReport(machine, configuration, "v1.34.4")


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "x/gpu"]), st.integers(0, 2**62)).map(Resources)
ZONES = st.frozensets(st.sampled_from(["node-0", "node-1", "é"])).map(lambda names: tuple(sorted(names)))
PLACED = st.builds(
    ObservedPlacement, st.dictionaries(ZONES, AMOUNTS, max_size=4), st.integers(0, 2**MOST_CPUS - 1)
)
UIDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)


@given(st.dictionaries(UIDS, PLACED, max_size=3))
def test_placements_are_read_as_they_were_written(placed: Mapping[str, ObservedPlacement]) -> None:
    try:
        text = reports.write_placements(placed)
    except BadReport:
        # Every other CPU of thousands, several times over.
        assert len(placed) > 1
        return
    assert reports.read_placements(text) == placed


@pytest.mark.parametrize(("pod", "messages"), table([
    ("a zone under the name of KAI", {"held": [{"zone": "a", "amount": {"cpu": "1"}}]}, []),
    ("an amount that is null", {"held": [{"zones": ["a"], "amount": {"cpu": None}}]}, []),
]))  # fmt: skip
def test_unusual_placements(pod: Json, messages: list[str]) -> None:
    text = json.dumps(pods(u=pod))
    found_messages = placement_mistakes(text) if messages else []
    assert found_messages == [f"pods.u.{mistake}" for mistake in messages]
    assert messages or "u" in reports.read_placements(text)


def test_the_largest_machine_of_linux_fits() -> None:
    cores = tuple(
        Core(ZoneId(at // 64), at // 128, at // 8, bits([at, at + MOST_CPUS // 2])) for at in range(4096)
    )
    banks = tuple(
        ZoneMemory(ZoneId(at), 2**40, None, Resources(), tuple(range(100, 164))) for at in range(64)
    )
    text = reports.write_machine(DescribedMachine(banks, cores, reserved=bits(range(64))), KUBELET)
    assert len(text) <= reports.LONGEST_MACHINE
    assert len(reports.read_machine(text, "n").machine.cores) == 4096


def test_unreadable_reports_are_not_written() -> None:
    bank = ZoneMemory(ZoneId(0), GIB, None, Resources(), ())
    cores = tuple(Core(ZoneId(0), 0, at, bits([at])) for at in range(MOST_CPUS))
    large = tuple((f"x/{'d' * 200}{at}", (DevicePlace(zone_ids(0), 1, 1),)) for at in range(400))
    [reason] = mistakes(
        BadReport, reports.write_machine, DescribedMachine((bank,), cores, devices=large), KUBELET
    )
    assert reason.endswith("bytes: at most 98304 are allowed")
    assert mistakes(BadReport, reports.write_machine, DescribedMachine((bank,), ()), KUBELET) == [
        "machine.zones: contain no CPU: a machine has at least one core"
    ]
    many = {f"{at:040}": ObservedPlacement({}, bits(range(0, 200, 2))) for at in range(1000)}
    assert mistakes(BadReport, reports.write_placements, many)[0].endswith(
        "bytes: at most 131072 are allowed"
    )
