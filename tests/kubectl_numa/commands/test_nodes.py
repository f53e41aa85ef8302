"""nodes: the map as text and as JSON."""

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from kubectl_numa.questions import ClusterView
from numalign.model.node import node_class

Run = Callable[..., Result]


def test_the_map_of_the_cluster(run: Run, cluster_file: Path, cluster: ClusterView) -> None:
    big, small = (node_class(each) for each in cluster.snapshot.nodes)
    result = run("nodes", "--snapshot", cluster_file)
    assert result.exit_code == 0
    assert result.stdout == (
        "big  single-numa-node, scope container\n"
        "  known: counts, by an exporter\n"
        f"  {big}\n"
        "  not labelled\n"
        "          cpu                     memory\n"
        "  zone 0  ████████████░░░░ 24/32  ░░░░░░░░░░░░░░░░ 0/64Gi\n"
        "  zone 1  ░░░░░░░░░░░░░░░░ 0/32   ░░░░░░░░░░░░░░░░ 0/64Gi\n"
        "\n"
        "small  single-numa-node, scope container\n"
        "  known: counts, by an exporter\n"
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
