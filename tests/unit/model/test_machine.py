"""What a machine is made of: CPUs by what they share, places of devices, and lists of CPUs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.model.bitset import bits, members
from numalign.model.machine import LONGEST_LIST, MOST_CPUS, DevicePlace, read_list, render_list
from numalign.model.node import Node
from tests.worlds.notation import GPU, machine, table

DEVICES = [
    # what it shows                        devices        places, with all and the healthy devices
    ("every zone is a place",              "gpu=0,0",     "0:2/2 1:0/0"),
    ("an unhealthy device is there",       "gpu=0,0x",    "0:2/1 1:0/0"),
    ("one between zones, after the zones", "gpu=01,0",    "0:1/1 1:0/0 01:1/1"),
    ("one without a zone, before it",      "gpu=01,-,-x", "0:0/0 1:0/0 :2/1 01:1/1"),
]  # fmt: skip


@pytest.mark.parametrize(("devices", "expected"), table(DEVICES))
def test_devices_of_equal_zones_share_a_place(devices: str, expected: str) -> None:
    described = machine("cpu=0-1", "cpu=2-3", devices=devices).machine
    assert described
    assert " ".join(map(written, dict(described.devices)[GPU])) == expected


def written(place: DevicePlace) -> str:
    return f"{''.join(map(str, place.zones))}:{place.total}/{place.healthy}"


EVEN = [
    # what it shows         zones                              more facts              even
    ("all alike",           ("cpu=0-3", "cpu=4-7"),            {},                     True),
    ("zones differ",        ("cpu=0-3", "cpu=4-5"),            {"sockets": (0, 0)},    False),
    ("sockets differ",      ("cpu=0-1", "cpu=2-3", "cpu=4-5"), {"sockets": (0, 0, 1)}, False),
    ("cores differ",        ("cpu=0-4", "cpu=5-9"),            {"threads": 2},         False),
    ("a zone without CPUs", ("cpu=0-3", "mem=1Gi", "cpu=4-7"), {},                     True),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "fields", "even"), table(EVEN))
def test_even_machine_has_equal_zones_sockets_and_cores(
    zones: tuple[str, ...], fields: dict[str, Any], *, even: bool
) -> None:
    described = machine(*zones, **fields).machine
    assert described
    assert described.topology.even is even


PAIRS = [
    # what it shows              the machine                                       CPUs       firsts
    ("threads far apart",        machine("cpu=0-3", "cpu=4-7", threads=2),         "0-2,5,7", [0, 5]),
    ("threads of zones in turn", machine("cpu=0,2,4,6", "cpu=1,3,5,7", threads=2), "0-5",     [0, 1]),
    ("cores of different width", machine("cpu=0-1", "cpu=2-5", threads=2),         "0-5",     [0, 2, 3]),
    ("half of each core",        machine("cpu=0-3", threads=2),                    "0,1",     []),
    ("cores of one thread",      machine("cpu=0-3"),                               "0-3",     []),
]  # fmt: skip


@pytest.mark.parametrize(("one", "cpus", "firsts"), table(PAIRS))
def test_whole_cores_are_found_by_first_threads(one: Node, cpus: str, firsts: list[int]) -> None:
    assert one.machine
    assert [*members(one.machine.topology.whole_pairs(read_list(cpus)))] == firsts


LOOSE = [
    ("in any order", "5,0-1", "0-1,5"),
    ("one id twice", "1,0-2", "0-2"),
    ("the last id there is", f"{MOST_CPUS - 1}", f"{MOST_CPUS - 1}"),
]


@pytest.mark.parametrize(("text", "plain"), table(LOOSE))
def test_lists_of_cpus_may_be_written_loosely(text: str, plain: str) -> None:
    assert render_list(read_list(text)) == plain


@pytest.mark.parametrize("wrong", ["", "x", "-1", "1-", "3-1", "0-1-2", "0x1", f"{MOST_CPUS}", "1..2"])
def test_invalid_part_of_a_cpu_list_is_named(wrong: str) -> None:
    with pytest.raises(ValueError, match=f'"{wrong}" is not a CPU ID'):
        read_list(f"0,{wrong},2")


@given(st.sets(st.integers(0, 200)))
def test_cpu_set_survives_its_text(ids: set[int]) -> None:
    assert list(members(read_list(render_list(bits(ids))))) == sorted(ids)


def test_cpu_list_beyond_the_longest_is_not_read() -> None:
    odd = ",".join(map(str, range(1, MOST_CPUS, 2)))
    assert len(odd) < LONGEST_LIST
    assert read_list(odd).bit_count() == MOST_CPUS // 2
    with pytest.raises(ValueError, match="100000 characters is too long: at most 65536"):
        read_list("0-8191," * 14285 + "0-819")


def test_invalid_cpu_list_is_quoted_in_part() -> None:
    with pytest.raises(ValueError, match="is not a CPU ID") as caught:
        read_list("x" * LONGEST_LIST)
    assert len(str(caught.value)) < 150
