"""What a machine is made of: CPUs by what they share, places of devices, and lists of CPUs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.model.bitset import bits, lowest, members, union
from numalign.model.machine import (
    LONGEST_LIST,
    MOST_CPUS,
    Core,
    DevicePlace,
    Machine,
    Stock,
    cpu_topology,
    device_places,
    full_stock,
    read_list,
    render_list,
)
from tests.notation import GPU, machine, table, zone_ids

ZERO, FIVE, NINE = zone_ids(0, 5, 9)

# Two sockets, the second with two zones; zone 5 has no CPU; cores in no order.
CORES = (
    Core(NINE, socket=1, cache=7, threads=bits([5])),
    Core(ZERO, socket=3, cache=9, threads=bits([1, 8])),
    Core(ZERO, socket=3, cache=2, threads=bits([0, 7])),
    Core(NINE, socket=1, cache=7, threads=bits([2, 4])),
)


def lists(sets: tuple[int, ...]) -> list[str]:
    return list(map(render_list, sets))


def test_a_layout_says_which_cpus_share_what() -> None:
    layout = cpu_topology(CORES, (ZERO, FIVE, NINE))

    assert lists(layout.zones) == ["0-1,7-8", "", "2,4-5"]
    assert lists(layout.sockets) == ["2,4-5", "0-1,7-8"], "by id"
    assert lists(layout.caches) == ["0,7", "2,4-5", "1,8"], "by id"
    assert lists(layout.cores) == ["0,7", "1,8", "2,4", "5"], "by their smallest thread"
    assert layout.sizes == (4, 0, 3)
    assert layout.zones_with_cpus == 2
    assert render_list(layout.everything) == "0-2,4-5,7-8"


def test_threads_of_a_core_are_an_average_rounded_down() -> None:
    assert cpu_topology(CORES, (ZERO, FIVE, NINE)).threads_per_core == 1
    assert cpu_topology(CORES[1:3], (ZERO,)).threads_per_core == 2
    assert cpu_topology((), (ZERO,)).threads_per_core == 0


def test_a_machine_knows_its_layout_and_is_compared_by_what_it_is_made_of() -> None:
    one, other = (Machine((ZERO, NINE), cores) for cores in (CORES, CORES[:3]))

    assert one.topology == cpu_topology(CORES, (ZERO, NINE))
    assert one == Machine((ZERO, NINE), CORES)
    assert one != other


DEVICES = [
    # what it shows                         devices        places, with all and the healthy devices
    ("every zone is a place",                "gpu=0,0",     "0:2/2 1:0/0"),
    ("an unhealthy device is there",         "gpu=0,0x",    "0:2/1 1:0/0"),
    ("one between zones, after the zones",   "gpu=01,0",    "0:1/1 1:0/0 01:1/1"),
    ("one of which nobody knows, before it", "gpu=01,-,-x", "0:0/0 1:0/0 :2/1 01:1/1"),
]  # fmt: skip


@pytest.mark.parametrize(("devices", "expected"), table(DEVICES))
def test_devices_that_sit_alike_share_a_place(devices: str, expected: str) -> None:
    described = machine("cpu=0-1", "cpu=2-3", devices=devices).machine

    assert described
    assert " ".join(map(written, dict(described.devices)[GPU])) == expected


def written(place: DevicePlace) -> str:
    return f"{''.join(map(str, place.zones))}:{place.total}/{place.healthy}"


def test_places_stand_by_their_zones() -> None:
    between = [(frozenset(zone_ids(*zones)), True) for zones in [(5, 9), (0, 9), (0, 5, 9), ()]]
    found = device_places((ZERO, FIVE, NINE), between)

    assert [place.zones for place in found] == [(0,), (5,), (9,), (), (0, 5, 9), (0, 9), (5, 9)]


def test_a_new_node_has_all_but_what_is_reserved_and_what_is_broken() -> None:
    node = machine("cpu=0-3", "cpu=4-7", reserved="0,4", free="1", devices="gpu=0,0x,1*,01")
    everything = Stock(read_list("1-3,5-7"), ((GPU, (1, 1, 1)),))

    assert node.machine
    assert full_stock(node.machine) == everything
    assert node.stock == Stock(read_list("1"), ((GPU, (1, 0, 1)),))
    assert node.emptied().stock == everything


LISTS = [
    ("single ids", "0,2,4", [0, 2, 4]),
    ("a range", "4-6", [4, 5, 6]),
    ("both", "0-1,5,7-8", [0, 1, 5, 7, 8]),
    ("none", "", []),
]


@pytest.mark.parametrize(("text", "held"), table(LISTS))
def test_lists_of_cpus_are_read_and_written(text: str, held: list[int]) -> None:
    assert list(members(read_list(text))) == held
    assert render_list(bits(held)) == text


LOOSE = [
    ("in any order", "5,0-1", "0-1,5"),
    ("with spaces", " 0 , 2-3 ", "0,2-3"),
    ("one id twice", "1,0-2", "0-2"),
    ("the last id there is", f"{MOST_CPUS - 1}", f"{MOST_CPUS - 1}"),
    ("nothing but spaces", "  ", ""),
]


@pytest.mark.parametrize(("text", "plain"), table(LOOSE))
def test_lists_of_cpus_may_be_written_loosely(text: str, plain: str) -> None:
    assert render_list(read_list(text)) == plain


@pytest.mark.parametrize("wrong", ["x", "-1", "1-", "3-1", "0-1-2", "0x1", f"{MOST_CPUS}", "999999", "1..2"])
def test_what_is_no_list_of_cpus_is_named(wrong: str) -> None:
    with pytest.raises(ValueError, match=f'"{wrong}" is no CPU id'):
        read_list(f"0,{wrong},2")


def test_an_empty_part_of_a_list_is_a_mistake() -> None:
    with pytest.raises(ValueError, match='"" is no CPU id'):
        read_list("0,,2")


def test_the_lowest_cpus_of_a_set() -> None:
    held = read_list("1,3-5")

    assert [render_list(lowest(held, count)) for count in (0, 1, 3, 4)] == ["", "1", "1,3-4", "1,3-5"]
    assert lowest(held, 9) == held


def test_a_union_holds_what_any_set_holds() -> None:
    assert union([0b0011, 0b0110]) == 0b0111
    assert union([]) == 0


@given(st.sets(st.integers(0, 200)))
def test_a_set_of_cpus_survives_its_text(held: set[int]) -> None:
    assert list(members(read_list(render_list(bits(held))))) == sorted(held)


def test_a_list_longer_than_any_is_not_read() -> None:
    odd = ",".join(map(str, range(1, MOST_CPUS, 2)))
    assert len(odd) < LONGEST_LIST
    assert read_list(odd).bit_count() == MOST_CPUS // 2

    with pytest.raises(ValueError, match="100000 characters is longer than any: at most 65536"):
        read_list("0-8191," * 14285 + "0-819")


def test_a_long_text_that_is_no_list_is_told_shortly() -> None:
    with pytest.raises(ValueError, match="is no CPU id") as caught:
        read_list("x" * LONGEST_LIST)

    assert len(str(caught.value)) < 150
