"""What a node lacks that is ill."""

from dataclasses import replace

import pytest

from numalign.model.node import Node
from numalign.model.resources import Resources
from numalign.shapes.health import missing_devices, with_all_devices
from tests.notation import bag, node, table

GPUS = "nvidia.com/gpu"
WELL = node("cpu=8 gpu=4", "cpu=8 gpu=4")


@pytest.mark.parametrize(
    ("made", "expected"),
    table(
        [
            ("all of its devices", replace(node("cpu=8", "cpu=8"), health=WELL), {GPUS: 8}),
            ("one of a zone", replace(node("cpu=8 gpu=3", "cpu=8 gpu=4"), health=WELL), {GPUS: 1}),
            ("as its Node says", replace(WELL, totals=Resources({GPUS: 0}), health=WELL), {GPUS: 8}),
            ("nothing, in health", WELL, {}),
            (
                "all, on zones that nobody has seen",
                replace(
                    node("cpu=8", totals="cpu=8 gpu=0"),
                    health=node("cpu=8", totals="cpu=8 gpu=4"),
                ),
                {GPUS: 4},
            ),
        ]
    ),
)
def test_what_a_node_lacks(made: Node, expected: dict[str, int]) -> None:
    assert missing_devices(made) == Resources(expected)


COMPLETED = [
    # what is told, by zones and as a whole; what is there; and the zones and the whole in health
    ("its plugin is down",        ["gpu=0"] * 2,       "gpu=0", "gpu=8", ["gpu=0"] * 2, "gpu=8"),
    ("and no zone lists devices", ["cpu=4"] * 2,       "cpu=8", "gpu=8", ["cpu=4"] * 2, "cpu=8 gpu=8"),
    ("zones ahead of the Node",   ["gpu=4"] * 2,       "cpu=8", "cpu=8", ["gpu=4"] * 2, "cpu=8 gpu=8"),
    ("more than is given out",    ["gpu=4/3"] * 2,     "gpu=6", "gpu=8", ["gpu=4"] * 2, "gpu=8"),
    ("one of each zone is ill",   ["cpu=4 gpu=3"] * 2, "gpu=6", "gpu=8", ["cpu=4"] * 2, "gpu=8"),
    ("zones written in parts",    ["cpu=4 gpu=4"],     "gpu=8", "gpu=8", ["cpu=4"],     "gpu=8"),
    ("others are in health",      ["gpu=0 nic=1"],     "nic=1", "gpu=8", ["gpu=0 nic=1"], "gpu=8 nic=1"),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "totals", "most", "expected", "given"), table(COMPLETED))
def test_what_a_node_is_in_health_by_what_its_own_objects_tell(
    zones: list[str], totals: str, most: str, expected: list[str], given: str
) -> None:
    found = with_all_devices(node(*zones, totals=totals), bag(most))

    assert found == node(*expected, totals=given)


COMPLETE = [
    # what is told                         the node                                     what is there
    ("all that there is",                  node("cpu=8 gpu=4", totals="cpu=8 gpu=4"),   "cpu=8 gpu=4"),
    ("CPUs and memory are no devices",     node("cpu=8 mem=4Gi", totals="cpu=8"),       "cpu=9 mem=5Gi"),
    ("devices that no zone lists",         node("cpu=8", totals="cpu=8 gpu=4"),         "cpu=8 gpu=4"),
    ("no Node says what may be given out", node("cpu=8 gpu=4/3"),                       "gpu=4"),
    ("no Node says what there is",         node("cpu=8 gpu=4", totals="cpu=8"),         None),
]  # fmt: skip


@pytest.mark.parametrize(("made", "most"), table(COMPLETE))
def test_a_node_that_lacks_nothing_by_what_its_own_objects_tell(made: Node, most: str | None) -> None:
    assert with_all_devices(made, None if most is None else bag(most)) is None
