"""nodes: the zones of each class or each node, as text and for programs."""

import pytest

from kubectl_numa.questions import ClusterView
from numalign.model.node import node_class
from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import SINGLE, running


@pytest.fixture
def classes(cluster: ClusterView) -> list[str]:
    return [node_class(each) for each in cluster.snapshot.nodes]


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
