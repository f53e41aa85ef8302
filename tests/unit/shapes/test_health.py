"""What an unhealthy node lacks, and its healthy shape."""

from dataclasses import replace

import pytest

from numalign.model.node import Known, Node
from numalign.model.resources import Resources
from numalign.shapes.health import missing_devices, with_all_devices, with_devices_of, with_whole_machine
from tests.worlds.notation import bag, machine, node, table

GPUS = "nvidia.com/gpu"
WELL = node("cpu=8 gpu=4", "cpu=8 gpu=4")


LACKS = [
    ("all of its devices", replace(node("cpu=8", "cpu=8"), health=WELL), {GPUS: 8}),
    ("one of a zone", replace(node("cpu=8 gpu=3", "cpu=8 gpu=4"), health=WELL), {GPUS: 1}),
    ("as its Node has it", replace(WELL, totals=Resources({GPUS: 0}), health=WELL), {GPUS: 8}),
    ("nothing, in health", WELL, {}),
    ("all, of unknown zones",
         replace(node("cpu=8", totals="cpu=8 gpu=0"), health=node("cpu=8", totals="cpu=8 gpu=4")), {GPUS: 4}),
]  # fmt: skip


@pytest.mark.parametrize(("made", "expected"), table(LACKS))
def test_missing_devices_are_those_of_the_healthy_shape(made: Node, expected: dict[str, int]) -> None:
    assert missing_devices(made) == Resources(expected)


COMPLETED = [
    # what it shows, allocatable by zones and in total; capacity; and the zones and the total in health
    ("its plugin is down",      ["gpu=0"] * 2,       "gpu=0", "gpu=8", ["gpu=0"] * 2, "gpu=8"),
    ("zones ahead of the Node", ["gpu=4"] * 2,       "cpu=8", "cpu=8", ["gpu=4"] * 2, "cpu=8 gpu=8"),
    ("more than is given out",  ["gpu=4/3"] * 2,     "gpu=6", "gpu=8", ["gpu=4"] * 2, "gpu=8"),
    ("one of each zone is ill", ["cpu=4 gpu=3"] * 2, "gpu=6", "gpu=8", ["cpu=4"] * 2, "gpu=8"),
    ("zones written in parts",  ["cpu=4 gpu=4"],     "gpu=8", "gpu=8", ["cpu=4"],     "gpu=8"),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "totals", "most", "expected", "given"), table(COMPLETED))
def test_healthy_shape_from_the_objects_of_the_node(
    zones: list[str], totals: str, most: str, expected: list[str], given: str
) -> None:
    healthy = with_all_devices(node(*zones, totals=totals), bag(most))
    assert healthy == node(*expected, totals=given)


COMPLETE = [
    # what it shows                    the node                                   capacity
    ("all devices",                    node("cpu=8 gpu=4", totals="cpu=8 gpu=4"), "cpu=8 gpu=4"),
    ("CPUs and memory are no devices", node("cpu=8 mem=4Gi", totals="cpu=8"),     "cpu=9 mem=5Gi"),
    ("devices that no zone lists",     node("cpu=8", totals="cpu=8 gpu=4"),       "cpu=8 gpu=4"),
    ("no allocatable",                 node("cpu=8 gpu=4/3"),                     "gpu=4"),
    ("no capacity",                    node("cpu=8 gpu=4", totals="cpu=8"),       None),
]  # fmt: skip


@pytest.mark.parametrize(("made", "most"), table(COMPLETE))
def test_complete_node_is_its_own_healthy_shape(made: Node, most: str | None) -> None:
    assert with_all_devices(made, None if most is None else bag(most)) is None


# Of a described machine it is known which devices are there and not in health.


def described(devices: str, totals: str | None = None) -> Node:
    made = machine("cpu=0-3", "cpu=4-7", reserved="0", devices=devices, policy="restricted")
    return made if totals is None else replace(made, totals=bag(totals))


ILL = [
    # what is unhealthy            the machine        and in health
    ("one on a zone",              "gpu=0,0x,1",      "gpu=0,0,1"),
    ("all of them",                "gpu=0x,1x nic=1", "gpu=0,1 nic=1"),
    ("one between zones",          "gpu=0,01x",       "gpu=0,01"),
    ("one, while another is used", "gpu=0*,1x",       "gpu=0,1"),
]  # fmt: skip


@pytest.mark.parametrize(("ill", "well"), table(ILL))
def test_described_machine_is_healthy_as_listed(ill: str, well: str) -> None:
    assert with_whole_machine(described(ill)) == described(well)
    assert with_whole_machine(described(ill, totals="cpu=7 gpu=0")) == described(
        well, totals=f"cpu=7 gpu={well.split(maxsplit=1)[0].count(',') + 1}"
    )


def test_complete_and_undescribed_machines_are_healthy() -> None:
    assert with_whole_machine(described("gpu=0,0*,1")) is None
    assert with_whole_machine(node("cpu=8 gpu=4/3")) is None


BACK = [
    # what it lacks                the machine   its class    the healthy machine
    ("a device, unseen",           "gpu=0,1",    "gpu=0,0,1", "gpu=0,0,1"),
    ("all devices, unseen",        "",           "gpu=0,0,1", "gpu=0,0,1"),
    ("one that is seen to be ill", "gpu=0,0x,1", "gpu=0,0,1", "gpu=0,0,1"),
    ("one between zones",          "gpu=0",      "gpu=0,01",  "gpu=0,01"),
]  # fmt: skip


@pytest.mark.parametrize(("ill", "full", "expected"), table(BACK))
def test_devices_of_the_class_are_added_in_health(ill: str, full: str, expected: str) -> None:
    assert with_devices_of(described(ill), described(full)) == described(expected)


def test_zones_alone_place_the_devices_of_a_class() -> None:
    full = replace(described("gpu=0,0,01,1"), machine=None, stock=None, known=Known.COUNTS)
    assert with_devices_of(described("gpu=0,01x"), full) == described("gpu=0,0,01,1")
    assert with_devices_of(described(""), described("gpu=0,0,1")) == described("gpu=0,0,1")


def test_more_devices_or_other_cpus_are_another_machine() -> None:
    assert with_devices_of(described("gpu=0,0,0"), described("gpu=0,0,1")) is None
    other = machine("cpu=0-3", "cpu=4-6", reserved="0", devices="gpu=0,1", policy="restricted")
    assert with_devices_of(described("gpu=0"), other) is None
    assert with_devices_of(described("gpu=0,1"), described("gpu=0,1")) is None


def test_unlisted_devices_count_for_the_whole_node() -> None:
    made = described("gpu=0,1 nic=0", totals="cpu=7 gpu=2 nic=1")
    healthy = with_all_devices(made, bag("cpu=8 gpu=3 nic=1"))
    assert healthy == described("nic=0", totals="cpu=7 gpu=3 nic=1")
    # One between zones stands in both of them, and is one.
    assert with_all_devices(described("gpu=01", totals="cpu=7 gpu=1"), bag("gpu=1")) is None


def test_devices_of_uncertain_zones_are_not_lost() -> None:
    lost = replace(node("cpu=8", "cpu=8"), uncertain=frozenset({GPUS}))
    assert with_devices_of(lost, WELL) is None
    assert with_devices_of(replace(lost, uncertain=frozenset()), WELL) == WELL
