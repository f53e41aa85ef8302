"""What is believed of the agent beside a kubelet: all that can be so on its node."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from numalign.ledger.model import PlacementRecord, Source
from numalign.ledger.observations import RELEASED, given_away, possible_reports
from numalign.model.machine import read_list
from numalign.model.node import CpuManager, MemoryManager, Node
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


def told(has: str, cpus: str = "") -> PlacementRecord:
    """What an agent says of a pod."""
    return PlacementRecord(held(has), Source.KUBELET, cpus=read_list(cpus))


def is_believed(place: Node, **pods: PlacementRecord) -> Mapping[str, PlacementRecord]:
    return possible_reports(place, pods)


POSSIBLE = [
    # what it shows                                what is said
    ("CPUs and memory of a zone",                  told("0 cpu=2 mem=1Gi", "1,9")),
    ("CPUs of two zones, memory on both",          told("0 cpu=2; 1 cpu=1; 0,1 mem=12Gi", "1,9,4")),
    ("nothing",                                    told("")),
    ("a device between zones",                     told("0,1 nic=1")),
    ("a device of which nobody knows where it is", told("- nic=1")),
    ("a device that is ill, which its pod keeps",  told("0 gpu=2")),
    ("all that there is",                          told("0 cpu=6 mem=10Gi; 1 cpu=8 mem=10Gi", "1-7,9-15")),
]  # fmt: skip


@pytest.mark.parametrize("record", table(POSSIBLE))
def test_what_can_be_is_believed_as_it_is(record: PlacementRecord) -> None:
    assert is_believed(TWO, a=record) == {"a": record}


IMPOSSIBLE = [
    # what it shows                              what is said
    ("a zone that is not there",                 told("7 mem=1Gi")),
    ("a CPU that is not there",                  told("0 cpu=1", "77")),
    ("a CPU that is kept for the system",        told("0 cpu=1", "8")),
    ("a CPU of another zone",                    told("0 cpu=1", "4")),
    ("fewer CPUs than ids",                      told("0 cpu=1", "1,9")),
    ("ids without CPUs",                         told("0 mem=1Gi", "1")),
    ("CPUs without ids",                         told("0 cpu=1")),
    ("CPUs that lie on two zones at once",       told("0,1 cpu=2", "1,4")),
    ("more memory than its zone has",            told("0 mem=11Gi")),
    ("a device between zones that have none so", told("0,1 gpu=1")),
    ("more devices than there ever were",        told("1 gpu=2")),
]  # fmt: skip


@pytest.mark.parametrize("record", table(IMPOSSIBLE))
def test_impossible_observation_is_dropped_alone(record: PlacementRecord) -> None:
    other = told("1 cpu=1", "5")

    assert is_believed(TWO, a=record, b=other) == {"b": other}


def test_observations_beyond_capacity_are_all_dropped() -> None:
    half = told("0 mem=6Gi")

    assert is_believed(TWO, a=half) == {"a": half}
    assert is_believed(TWO, a=half, b=half, c=told("1 mem=1Gi")) == {}


def test_what_no_manager_gives_out_is_left_out() -> None:
    lone = machine("cpu=0-3 mem=10Gi", reserved="0", memory_manager=MemoryManager.NONE)

    assert is_believed(lone, a=told("0 cpu=1 mem=1Gi gpu=1", "1")) == {"a": told("0 cpu=1", "1")}


def test_ids_are_no_matter_where_the_cpu_manager_is_off() -> None:
    off = machine("cpu=0-3 mem=10Gi", reserved="0", cpu_manager=CpuManager.NONE)

    assert is_believed(off, a=told("0 mem=1Gi", "99")).keys() == {"a"}


def test_where_the_machine_is_not_known_ids_say_nothing() -> None:
    found = is_believed(COUNTS, a=told("0 cpu=2 mem=1Gi", "77,78"), b=told("0 cpu=7", "1-7"))

    assert found == {"a": PlacementRecord(held("0 cpu=2 mem=1Gi"), Source.KUBELET)}


GIVEN_AWAY = [
    # what it shows                   what it had              what another has         is it given away?
    ("other CPUs",                    told("0 cpu=1", "1"),    told("0 cpu=1", "2"),    False),
    ("the same CPU",                  told("0 cpu=1", "1"),    told("0 cpu=2", "1-2"),  True),
    ("memory that there is for both", told("0 mem=5Gi"),       told("0 mem=5Gi"),       False),
    ("memory that there is once",     told("0 mem=6Gi"),       told("0 mem=5Gi"),       True),
    ("the only device",               told("1 gpu=1"),         told("1 gpu=1"),         True),
    ("a device of a zone that is gone", told("9 gpu=1"),       told("1 gpu=1"),         False),
    ("more than there is by now",     told("0 cpu=7", "1-7"),  told("1 gpu=1"),         True),
    ("nothing",                       RELEASED,                told("1 gpu=1"),         False),
]  # fmt: skip


@pytest.mark.parametrize(("had", "other", "given"), table(GIVEN_AWAY))
def test_what_others_have_by_now_a_pod_has_no_more(
    had: PlacementRecord, other: PlacementRecord, *, given: bool
) -> None:
    assert given_away(TWO, {"a": had, "b": RELEASED}, [other]) == ({"a"} if given else set())


def test_what_several_have_together_is_given_away_as_well() -> None:
    others = [told("0 mem=2Gi"), told("0 mem=3Gi")]

    assert given_away(TWO, {"a": told("0 mem=5Gi"), "b": told("0 mem=6Gi")}, others) == {"b"}


class Walked(tuple[Any, ...]):  # noqa: SLOT001  a tuple can have none but empty ones
    """A tuple that counts how often somebody goes through it."""

    walks = 0

    def __iter__(self) -> Iterator[Any]:
        """Go through it once more."""
        self.walks += 1
        return super().__iter__()


def test_device_zones_are_read_once_for_all_pods() -> None:
    """Whoever has taken over a node can have its agent name a thousand of both."""
    assert TWO.machine
    walked = Walked(TWO.machine.devices)
    place = replace(TWO, machine=replace(TWO.machine, devices=walked))
    before = walked.walks
    pods = {str(number): told("1 gpu=1" if number == 0 else "1 gpu=2") for number in range(100)}

    assert possible_reports(place, pods).keys() == {"0"}
    assert walked.walks == before + 1
