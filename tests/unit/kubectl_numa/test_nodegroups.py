"""Nodes class by class: what is said of many at once."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from kubectl_numa import nodegroups
from kubectl_numa.lines import TextWriter
from kubectl_numa.nodegroups import NodeStatus, SeenNode
from numalign.kube.exporters import ExporterHealth, TopologySource
from numalign.model.attributes import Attributes
from numalign.model.node import Node, node_class
from tests.worlds.notation import node, table

FRESH = ExporterHealth(TopologySource.AGENT, 5.0)
STALE = ExporterHealth(TopologySource.AGENT, 5000.0)

PARTLY = NodeStatus.PARTLY_USED

EMPTY = node("cpu=8 gpu=2", "cpu=8 gpu=2")
HALF = node("cpu=8/8/4 gpu=2", "cpu=8 gpu=2")
NO_GPUS = node("cpu=8 gpu=2/2/0", "cpu=8 gpu=2/2/0")
ONE_ZONE_FULL = node("cpu=8/8/0 gpu=2", "cpu=8 gpu=2")
LABELLED = replace(HALF, label="another-class")
CORDONED = replace(EMPTY, attributes=Attributes(cordoned=True))

STATUSES = [
    # what it shows                          the node                           what is said of it
    ("nothing is taken",                     SeenNode(EMPTY, FRESH),            (NodeStatus.IDLE,)),
    ("something is taken",                   SeenNode(HALF, FRESH),             (PARTLY,)),
    ("no zone has devices left",             SeenNode(NO_GPUS, FRESH),          (NodeStatus.FULL,)),
    ("one zone is full and the other not",   SeenNode(ONE_ZONE_FULL, FRESH),    (PARTLY,)),
    ("its agent is silent",                  SeenNode(HALF, STALE),             (PARTLY, NodeStatus.STALE)),
    ("a pod is misaligned",                  SeenNode(HALF, FRESH, 1), (PARTLY, NodeStatus.MISALIGNED)),
    ("pods were looked at",                  SeenNode(HALF, FRESH, 0),          (PARTLY,)),
    ("another class stands on it",           SeenNode(LABELLED, FRESH),
     (PARTLY, NodeStatus.MISLABELLED)),
    ("several at once", SeenNode(CORDONED, STALE),
     (NodeStatus.IDLE, NodeStatus.STALE, NodeStatus.CORDONED)),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "statuses"), table(STATUSES))
def test_what_is_said_of_a_node(seen: SeenNode, statuses: tuple[NodeStatus, ...]) -> None:
    assert seen.statuses == statuses


def named(each: Node, name: str, health: ExporterHealth = FRESH) -> SeenNode:
    return SeenNode(replace(each, name=name), health)


def drawn(*nodes: SeenNode, width: int = 80) -> str:
    file = io.StringIO()
    writer = TextWriter(Console(file=file, width=width))
    for each in nodegroups.by_class(nodes):
        nodegroups.draw_class(each, writer)
    return file.getvalue()


def test_a_class_is_drawn_with_what_its_nodes_have_together() -> None:
    page = drawn(named(HALF, "a"), named(EMPTY, "b", STALE), named(NO_GPUS, "c"))

    assert page == (
        f"{node_class(EMPTY)}\n"
        "  3 nodes of 2 zones, none, scope container\n"
        "  1 idle, 1 partly used, 1 full, 1 stale\n"
        "          cpu                    nvidia.com/gpu\n"
        "  zone 0  ██░░░░░░░░░░░░░░ 4/24  █████░░░░░░░░░░░ 2/6\n"
        "  zone 1  ░░░░░░░░░░░░░░░░ 0/24  █████░░░░░░░░░░░ 2/6\n"
        "  a, b, c\n"
    )


def test_the_class_of_most_nodes_comes_first_and_names_stay_few() -> None:
    small = node("cpu=4")
    classes = nodegroups.by_class([named(small, "s"), *(named(EMPTY, f"n-{at}") for at in range(40))])

    assert [each.name for each in classes] == [node_class(EMPTY), node_class(small)]
    page = drawn(*classes[0].nodes)
    assert "  n-0, n-1, n-2, n-3 and 36 more\n" in page


def test_everything_fits_into_forty_columns() -> None:
    lines = drawn(*(named(EMPTY, f"node-{at}") for at in range(40)), width=40).splitlines()

    assert max(map(len, lines[1:])) <= 40


def test_all_of_them_in_a_line() -> None:
    seen = [named(EMPTY, "a"), named(node("cpu=4"), "b", STALE)]

    assert (
        nodegroups.summary(seen, nodegroups.by_class(seen))
        == "2 nodes of 2 classes: 2 idle, 0 partly used, 0 full, 1 stale"
    )
