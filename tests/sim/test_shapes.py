"""Shapes are data; what follows from them must agree with itself."""

from pathlib import Path

import pytest

from harness.sim import documents
from harness.sim.shapes import GIB, SHAPES, Policy, Shape, SimNode
from numalign.model.errors import BadInput


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_zones_of_a_shape_add_up_to_its_node(shape: Shape) -> None:
    zones = [shape.allocatable()] * shape.zones
    whole = documents.allocatable(shape)
    assert {name: sum(zone[name] for zone in zones) for name in zones[0]}.items() <= whole.items()


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_machine_of_a_shape_has_the_cpus_devices_and_memory_it_says(shape: Shape) -> None:
    machine = shape.machine()
    cpus = [cpu for zone in machine["zones"] for [cpu] in zone["cores"]]
    kept = machine["reservedSystemCPUs"].split(",")
    assert len(set(cpus)) - len(set(kept)) == shape.cpus * shape.zones
    assert {name: len(each) for name, each in machine["devices"].items()} == {
        name: count * shape.zones for name, count in shape.devices.items()
    }
    assert [zone["memory"] - zone["reservedMemory"] for zone in machine["zones"]] == [
        shape.gib * GIB
    ] * shape.zones


def test_of_eight_zones_no_more_than_two_resources_are_aligned() -> None:
    wide = [shape for shape in SHAPES.values() if shape.zones > 4]
    assert wide
    assert all(len(shape.allocatable()) <= 2 for shape in wide)


def test_a_node_takes_a_shape_of_ones_own() -> None:
    own = Shape(zones=4, cpus=2, gib=1)
    assert SimNode("n", own).make is own


@pytest.mark.parametrize(
    ("shape", "policy", "said"),
    [
        pytest.param("smal", "none", "shape: 'smal' is none of two-by-four", id="shape"),
        pytest.param("small", "single", "policy: 'single' is none of single-numa-node", id="policy"),
    ],
)
def test_a_node_that_cannot_be_is_refused(shape: str, policy: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        SimNode("n", shape, policy)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(BadInput) as refused:
        SimNode("n", "smal", "single")
    assert len(refused.value.mistakes) == 2


def test_the_readme_names_every_shape_and_policy() -> None:
    told = (Path(__file__).parents[2] / "harness" / "sim" / "README.md").read_text()
    assert [name for name in (*SHAPES, *Policy) if f"`{name}`" not in told] == []
