"""Nodes by class, what is noteworthy about each, and how nodes draws them."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from kubectl_numa import nodegroups
from kubectl_numa.lines import TextWriter
from kubectl_numa.nodegroups import NodeStatus, SeenNode
from kubectl_numa.questions import ClusterView
from numalign.kube.exporters import ExporterHealth, TopologySource
from numalign.model.attributes import Attributes
from numalign.model.node import Node, node_class
from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import SINGLE, running
from tests.worlds.notation import node, table

FRESH = ExporterHealth(TopologySource.AGENT, 5.0)
STALE = ExporterHealth(TopologySource.AGENT, 5000.0)

EMPTY = node("cpu=8 gpu=2", "cpu=8 gpu=2")
HALF = node("cpu=8/8/4 gpu=2", "cpu=8 gpu=2")
NO_GPUS = node("cpu=8 gpu=2/2/0", "cpu=8 gpu=2/2/0")
ONE_ZONE_FULL = node("cpu=8/8/0 gpu=2", "cpu=8 gpu=2")
CORDONED = replace(EMPTY, attributes=Attributes(cordoned=True))

STATUSES = [
    ("idle",               SeenNode(EMPTY, FRESH),                          "idle"),
    ("no devices left",    SeenNode(NO_GPUS, FRESH),                        "full"),
    ("one zone is full",   SeenNode(ONE_ZONE_FULL, FRESH),                  "partly-used"),
    ("a silent agent",     SeenNode(HALF, STALE),                           "partly-used stale"),
    ("a misaligned pod",   SeenNode(HALF, FRESH, 1),                        "partly-used misaligned"),
    ("another class label", SeenNode(replace(HALF, label="other"), FRESH),  "partly-used mislabelled"),
    ("several at once",    SeenNode(CORDONED, STALE),                       "idle stale cordoned"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "statuses"), table(STATUSES))
def test_status_of_a_node(seen: SeenNode, statuses: str) -> None:
    assert seen.statuses == tuple(map(NodeStatus, statuses.split()))


def named(each: Node, name: str, health: ExporterHealth = FRESH) -> SeenNode:
    return SeenNode(replace(each, name=name), health)


def drawn(*nodes: SeenNode, width: int = 80) -> str:
    file = io.StringIO()
    writer = TextWriter(Console(file=file, width=width))
    for each in nodegroups.by_class(nodes):
        nodegroups.draw_class(each, writer)
    return file.getvalue()


def test_a_class_is_drawn_with_the_sums_of_its_nodes() -> None:
    assert drawn(named(HALF, "a"), named(EMPTY, "b", STALE), named(NO_GPUS, "c")) == (
        f"{node_class(EMPTY)}\n"
        "  3 nodes of 2 zones, none, scope container\n"
        "  1 idle, 1 partly used, 1 full, 1 stale\n"
        "          cpu                    nvidia.com/gpu\n"
        "  zone 0  ██░░░░░░░░░░░░░░ 4/24  █████░░░░░░░░░░░ 2/6\n"
        "  zone 1  ░░░░░░░░░░░░░░░░ 0/24  █████░░░░░░░░░░░ 2/6\n"
        "  a, b, c\n"
    )


def test_largest_class_comes_first_in_few_names() -> None:
    small = node("cpu=4")
    nodes = [named(small, "s", STALE), *(named(EMPTY, f"n-{at}") for at in range(40))]
    classes = nodegroups.by_class(nodes)

    assert [each.name for each in classes] == [node_class(EMPTY), node_class(small)]
    assert "  n-0, n-1, n-2, n-3 and 36 more\n" in drawn(*classes[0].nodes)
    assert max(map(len, drawn(*classes[0].nodes, width=40).splitlines()[1:])) <= 40
    assert nodegroups.summary(nodes, classes) == (
        "41 nodes of 2 classes: 41 idle, 0 partly used, 0 full, 1 stale"
    )


@pytest.fixture
def classes(cluster: ClusterView) -> list[str]:
    return [node_class(each) for each in cluster.cluster.nodes]


def undrawn(text: str) -> list[str]:
    """The lines of a text that draw no zones."""
    return [line for line in text.splitlines() if line and not line.startswith(("          ", "  zone "))]


def test_nodes_are_drawn_by_class(cli: Cli, classes: list[str]) -> None:
    big, small = classes
    head = "  1 node of 2 zones, single-numa-node, scope container"
    text = cli.text("nodes", "--snapshot", cli.cluster())

    assert undrawn(text) == [
        *(big, head, "  0 idle, 1 partly used, 0 full", "  big"),
        *(small, head, "  1 idle, 0 partly used, 0 full", "  small"),
        "2 nodes of 2 classes: 1 idle, 1 partly used, 0 full",
        "no topology published by hidden",
    ]
    assert "  zone 0  ████████████░░░░ 24/32  ░░░░░░░░░░░░░░░░ 0/64Gi\n" in text


def test_all_draws_each_node(cli: Cli) -> None:
    text = cli.text("nodes", "--all", "--snapshot", cli.cluster())

    assert [line for line in undrawn(text) if not line.startswith("  ")] == [
        "big  single-numa-node, scope container",
        "small  single-numa-node, scope container",
        "no topology published by hidden",
    ]
    assert text.count("  zone 0  ") == 2


def test_a_table_has_a_line_for_each_node(cli: Cli, classes: list[str]) -> None:
    big, small = classes
    _, *lines = cli.text("nodes", "--snapshot", cli.cluster(), "-o", "wide").splitlines()

    assert [" ".join(line.split()) for line in lines] == [
        f"big partly-used 2 24/64 0/128Gi <none> {SINGLE} container counts exporter <none> {big}",
        f"small idle 2 0/16 0/128Gi <none> {SINGLE} container counts exporter <none> {small}",
        f"hidden no-topology{' <none>' * 10}",
    ]


def test_misaligned_pods_are_counted_on_request(cli: Cli) -> None:
    words = ("nodes", "--snapshot", cli.cluster(running("bad", 0, 1)))

    assert "misaligned" not in cli.text(*words)
    text = cli.text(*words, "--with-pods")
    assert "  0 idle, 1 partly used, 0 full, 1 misaligned\n" in text
    assert "2 nodes of 2 classes: 1 idle, 1 partly used, 0 full, 1 misaligned\n" in text


def test_pods_that_the_exporter_lacks_are_subtracted(cli: Cli) -> None:
    [big, *_] = cli.json("nodes", "--snapshot", cli.cluster(running("new", 1)))

    assert [zone["free"]["cpu"] for zone in big["zones"]] == ["32", "24"]
