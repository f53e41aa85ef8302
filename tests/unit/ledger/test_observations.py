"""Reports of an agent are believed as far as they are possible on its node."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from numalign.ledger.model import PlacementRecord, Source
from numalign.ledger.observations import RELEASED, given_away, possible_reports
from numalign.model.machine import read_list
from numalign.model.node import CpuManager, MemoryManager
from tests.unit.ledger.conftest import held
from tests.worlds.notation import machine, node, table

TWO = machine(
    "cpu=0-3,8-11 mem=10Gi",
    "cpu=4-7,12-15 mem=10Gi",
    threads=2,
    reserved="0,8",
    devices="gpu=0,0x,1 nic=01,-",
)
COUNTS = node("cpu=8/6 mem=10Gi gpu=2", "cpu=8 mem=10Gi gpu=1")


def report(has: str, cpus: str = "") -> PlacementRecord:
    return PlacementRecord(held(has), Source.KUBELET, cpus=read_list(cpus))


POSSIBLE = [
    # what it shows                              the report
    ("CPUs and memory of a zone",                report("0 cpu=2 mem=1Gi", "1,9")),
    ("CPUs of two zones, memory on both",        report("0 cpu=2; 1 cpu=1; 0,1 mem=12Gi", "1,9,4")),
    ("a device without a zone",                  report("- nic=1")),
    ("an unhealthy device, which its pod keeps", report("0 gpu=2")),
    ("all that there is",                        report("0 cpu=6 mem=10Gi; 1 cpu=8 mem=10Gi", "1-7,9-15")),
]  # fmt: skip


@pytest.mark.parametrize("record", table(POSSIBLE))
def test_possible_report_is_believed(record: PlacementRecord) -> None:
    assert possible_reports(TWO, {"a": record}) == {"a": record}


IMPOSSIBLE = [
    # what it shows                        the report
    ("an unknown zone",                    report("7 mem=1Gi")),
    ("a CPU reserved for the system",      report("0 cpu=1", "8")),
    ("a CPU of another zone",              report("0 cpu=1", "4")),
    ("fewer CPUs than ids",                report("0 cpu=1", "1,9")),
    ("CPUs without ids",                   report("0 cpu=1")),
    ("CPUs that lie on two zones at once", report("0,1 cpu=2", "1,4")),
    ("more memory than its zone has",      report("0 mem=11Gi")),
    ("more devices than exist",            report("1 gpu=2")),
]  # fmt: skip


@pytest.mark.parametrize("record", table(IMPOSSIBLE))
def test_impossible_report_is_dropped_alone(record: PlacementRecord) -> None:
    other = report("1 cpu=1", "5")
    assert possible_reports(TWO, {"a": record, "b": other}) == {"b": other}


def test_reports_beyond_capacity_are_all_dropped() -> None:
    half = report("0 mem=6Gi")
    assert possible_reports(TWO, {"a": half}) == {"a": half}
    assert possible_reports(TWO, {"a": half, "b": half, "c": report("1 mem=1Gi")}) == {}


def test_what_no_manager_gives_out_is_dropped() -> None:
    lone = machine("cpu=0-3 mem=10Gi", reserved="0", memory_manager=MemoryManager.NONE)
    reports = possible_reports(lone, {"a": report("0 cpu=1 mem=1Gi gpu=1", "1")})
    assert reports == {"a": report("0 cpu=1", "1")}


def test_ids_are_ignored_where_the_cpu_manager_is_off() -> None:
    off = machine("cpu=0-3 mem=10Gi", reserved="0", cpu_manager=CpuManager.NONE)
    assert possible_reports(off, {"a": report("0 mem=1Gi", "99")}).keys() == {"a"}


def test_ids_are_dropped_without_a_described_machine() -> None:
    reported = {"a": report("0 cpu=2 mem=1Gi", "77,78"), "b": report("0 cpu=7", "1-7")}
    reports = possible_reports(COUNTS, reported)
    assert reports == {"a": PlacementRecord(held("0 cpu=2 mem=1Gi"), Source.KUBELET)}


GIVEN_AWAY = [
    # what it shows                     what it had               what another has          is it given away?
    ("the same CPU",                    report("0 cpu=1", "1"),   report("0 cpu=2", "1-2"), True),
    ("memory that there is once",       report("0 mem=6Gi"),      report("0 mem=5Gi"),      True),
    ("a device of a zone that is gone", report("9 gpu=1"),        report("1 gpu=1"),        False),
    ("more than there is by now",       report("0 cpu=7", "1-7"), report("1 gpu=1"),        True),
    ("nothing",                         RELEASED,                 report("1 gpu=1"),        False),
]  # fmt: skip


@pytest.mark.parametrize(("had", "other", "given"), table(GIVEN_AWAY))
def test_pod_loses_what_another_holds(had: PlacementRecord, other: PlacementRecord, *, given: bool) -> None:
    assert given_away(TWO, {"a": had, "b": RELEASED}, [other]) == ({"a"} if given else set())


def test_pod_loses_what_several_hold_together() -> None:
    others = [report("0 mem=2Gi"), report("0 mem=3Gi")]
    assert given_away(TWO, {"a": report("0 mem=5Gi"), "b": report("0 mem=6Gi")}, others) == {"b"}


class Walked(tuple[Any, ...]):  # noqa: SLOT001  a tuple can have none but empty ones
    walks = 0

    def __iter__(self) -> Iterator[Any]:
        self.walks += 1
        return super().__iter__()


def test_device_zones_are_read_once_for_all_pods() -> None:
    """A compromised node can report a thousand of both."""
    assert TWO.machine
    walked = Walked(TWO.machine.devices)
    place = replace(TWO, machine=replace(TWO.machine, devices=walked))
    before = walked.walks
    pods = {str(number): report("1 gpu=1" if number == 0 else "1 gpu=2") for number in range(100)}
    assert possible_reports(place, pods).keys() == {"0"}
    assert walked.walks == before + 1
