"""nodes: the map as text and as JSON."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from kubectl_numa.questions import ClusterView
from numalign.model.node import node_class
from tests.unit.kubectl_numa.commands.test_pods import placed
from tests.unit.kubectl_numa.objects import SINGLE
from tests.worlds.notation import table

Run = Callable[..., Result]


def test_the_map_of_the_cluster_is_drawn_class_by_class(
    run: Run, cluster_file: Path, cluster: ClusterView
) -> None:
    big, small = (node_class(each) for each in cluster.snapshot.nodes)
    result = run("nodes", "--snapshot", cluster_file)
    assert result.exit_code == 0
    assert result.stdout == (
        f"{big}\n"
        "  1 node of 2 zones, single-numa-node, scope container\n"
        "  0 idle, 1 partly used, 0 full\n"
        "          cpu                     memory\n"
        "  zone 0  ████████████░░░░ 24/32  ░░░░░░░░░░░░░░░░ 0/64Gi\n"
        "  zone 1  ░░░░░░░░░░░░░░░░ 0/32   ░░░░░░░░░░░░░░░░ 0/64Gi\n"
        "  big\n"
        "\n"
        f"{small}\n"
        "  1 node of 2 zones, single-numa-node, scope container\n"
        "  1 idle, 0 partly used, 0 full\n"
        "          cpu                   memory\n"
        "  zone 0  ░░░░░░░░░░░░░░░░ 0/8  ░░░░░░░░░░░░░░░░ 0/64Gi\n"
        "  zone 1  ░░░░░░░░░░░░░░░░ 0/8  ░░░░░░░░░░░░░░░░ 0/64Gi\n"
        "  small\n"
        "\n"
        "2 nodes of 2 classes: 1 idle, 1 partly used, 0 full\n"
        "no topology published by hidden\n"
    )


def test_every_node_on_request(run: Run, cluster_file: Path, cluster: ClusterView) -> None:
    big, small = (node_class(each) for each in cluster.snapshot.nodes)
    result = run("nodes", "--all", "--snapshot", cluster_file)
    assert result.exit_code == 0
    assert result.stdout == (
        "big  single-numa-node, scope container\n"
        "  known: counts, reported by an exporter\n"
        f"  {big}\n"
        "  not labelled\n"
        "          cpu                     memory\n"
        "  zone 0  ████████████░░░░ 24/32  ░░░░░░░░░░░░░░░░ 0/64Gi\n"
        "  zone 1  ░░░░░░░░░░░░░░░░ 0/32   ░░░░░░░░░░░░░░░░ 0/64Gi\n"
        "\n"
        "small  single-numa-node, scope container\n"
        "  known: counts, reported by an exporter\n"
        f"  {small}\n"
        "  not labelled\n"
        "          cpu                   memory\n"
        "  zone 0  ░░░░░░░░░░░░░░░░ 0/8  ░░░░░░░░░░░░░░░░ 0/64Gi\n"
        "  zone 1  ░░░░░░░░░░░░░░░░ 0/8  ░░░░░░░░░░░░░░░░ 0/64Gi\n"
        "\n"
        "no topology published by hidden\n"
    )


def test_colour_comes_only_when_asked_for(run: Run, cluster_file: Path) -> None:
    escape = "\x1b["
    assert escape not in run("nodes", "--snapshot", cluster_file).stdout
    assert escape in run("nodes", "--snapshot", cluster_file, FORCE_COLOR="1", TERM="xterm-256color").stdout
    quiet = run(
        "nodes", "--snapshot", cluster_file, FORCE_COLOR="1", NO_COLOR="1", TERM="xterm-256color"
    ).stdout
    assert f"{escape}32m" not in quiet


def test_only_the_nodes_that_are_named(run: Run, cluster_file: Path) -> None:
    listed = json.loads(run("nodes", "hidden", "small", "--snapshot", cluster_file, "-o", "json").stdout)
    assert [node["name"] for node in listed] == ["small", "hidden"]


def test_the_json_has_every_node(run: Run, cluster_file: Path) -> None:
    listed = json.loads(run("nodes", "--snapshot", cluster_file, "-o", "json").stdout)
    assert [(node["name"], node["known"], len(node["zones"])) for node in listed] == [
        ("big", "counts", 2),
        ("small", "counts", 2),
        ("hidden", "nothing", 0),
    ]
    always = {"name", "class", "label", "policy", "scope", "known", "source", "age", "zones"}
    more = {"lastSeen", "lacks", "cordoned", "ready", "taints"}
    assert all(node.keys() == always | more for node in listed)


def test_a_line_for_each_node(run: Run, cluster_file: Path, cluster: ClusterView) -> None:
    big, small = (node_class(each) for each in cluster.snapshot.nodes)

    lines = run("nodes", "--snapshot", cluster_file, "-o", "wide").stdout.splitlines()

    assert [line.split() for line in lines] == [
        [
            "NAME",
            "STATUS",
            "ZONES",
            "CPU",
            "MEMORY",
            "DEVICES",
            "POLICY",
            "SCOPE",
            "KNOWN",
            "SOURCE",
            "AGE",
            "CLASS",
        ],
        f"big partly-used 2 24/64 0/128Gi <none> {SINGLE} container counts exporter <none> {big}".split(),
        f"small idle 2 0/16 0/128Gi <none> {SINGLE} container counts exporter <none> {small}".split(),
        ["hidden", "no-topology", *["<none>"] * 10],
    ]


def test_names_as_other_commands_take_them(run: Run, cluster_file: Path) -> None:
    named = run("nodes", "--snapshot", cluster_file, "-o", "name").stdout
    assert named == "node/big\nnode/small\nnode/hidden\n"

    again = run("nodes", *named.split(), "--snapshot", cluster_file, "-o", "name").stdout
    assert again == named


@pytest.fixture
def labelled(cluster_file: Path) -> Path:
    """The cluster, its nodes with a label: `big` in pool a, the others in pool b."""
    cluster = json.loads(cluster_file.read_text())
    for each in cluster["items"]:
        if each["kind"] == "Node":
            each["metadata"]["labels"] = {"pool": "a" if each["metadata"]["name"] == "big" else "b"}
    cluster_file.write_text(json.dumps(cluster))
    return cluster_file


SELECTED = [
    # what it shows                     the selector        the nodes
    ("a label",                         "pool=a",           ["node/big"]),
    ("one of nodes without topology",   "pool notin (a)",   ["node/small", "node/hidden"]),
    ("a label that none has",           "other",            []),
]  # fmt: skip


@pytest.mark.parametrize(("selector", "nodes"), table(SELECTED))
def test_nodes_are_selected_by(run: Run, labelled: Path, selector: str, nodes: list[str]) -> None:
    result = run("nodes", "-l", selector, "--snapshot", labelled, "-o", "name")

    assert (result.exit_code, result.stdout.split()) == (0, nodes)
    assert result.stderr == ("" if nodes else f"no node matches the label selector {selector}\n")


def test_misaligned_pods_are_counted_on_request(run: Run, cluster_file: Path) -> None:
    cluster = json.loads(cluster_file.read_text())
    cluster["items"].append(placed("bad", 0, 1))
    cluster_file.write_text(json.dumps(cluster))

    assert "misaligned" not in run("nodes", "--snapshot", cluster_file).stdout
    counted = run("nodes", "--with-pods", "--snapshot", cluster_file).stdout
    assert "  0 idle, 1 partly used, 0 full, 1 misaligned\n" in counted
    assert "2 nodes of 2 classes: 1 idle, 1 partly used, 0 full, 1 misaligned\n" in counted


def test_pods_of_a_snapshot_hold_what_the_exporter_has_not_counted(run: Run, cluster_file: Path) -> None:
    cluster = json.loads(cluster_file.read_text())
    cluster["items"].append(placed("new", 1))
    cluster_file.write_text(json.dumps(cluster))

    [big, *_] = json.loads(run("nodes", "--snapshot", cluster_file, "-o", "json").stdout)
    assert [zone["free"]["cpu"] for zone in big["zones"]] == ["32", "24"]
