"""What a node lacks that is ill."""

from dataclasses import replace

import pytest

from numalign.rules.resources import Resources
from numalign.rules.topology import Node
from numalign.shapes.health import lacking
from tests.notation import node, table

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
        ]
    ),
)
def test_what_a_node_lacks(made: Node, expected: dict[str, int]) -> None:
    assert lacking(made) == Resources(expected)
