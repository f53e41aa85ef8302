"""The map fits where it is shown, and its JSON holds every zone."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from kubectl_numa import nodemap
from kubectl_numa.lines import Paper
from kubectl_numa.questions import Cluster
from numalign.fleet import Fleet
from numalign.rules.topology import Node
from tests.notation import node, table

FOUR = node(
    "cpu=64/62/30 mem=512Gi/504Gi/248Gi gpu=4/4/1 nic=2/2/1",
    "cpu=64/62/62 mem=512Gi/504Gi gpu=4/4/0 nic=2/2/2",
    policy="single-numa-node",
    ids=(0, 3),
)
LABELLED = replace(FOUR, label="the-class")


def drawn(shown: Node, *, width: int = 80, encoding: str = "utf-8") -> list[str]:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    nodemap.draw(shown, "the-class", Paper(Console(file=file, width=width)))
    file.flush()
    return raw.getvalue().decode(encoding).splitlines()


def test_a_node_in_eighty_columns() -> None:
    assert drawn(LABELLED) == [
        "node  single-numa-node, scope container (known: counts)",
        "  the-class",
        "          cpu             example.com/nic  memory                nvidia.com/gpu",
        "  node-0  ████░░░░ 32/62  ████░░░░ 1/2     ████░░░░ 256Gi/504Gi  ██████░░ 3/4",
        "  node-3  ░░░░░░░░ 0/62   ░░░░░░░░ 0/2     ░░░░░░░░ 0/504Gi      ████████ 4/4",
    ]


def test_where_blocks_cannot_be_shown_ascii_is() -> None:
    assert drawn(LABELLED, encoding="ascii")[3] == (
        "  node-0  ####.... 32/62  ####.... 1/2     ####.... 256Gi/504Gi  ######.. 3/4"
    )


@pytest.mark.parametrize("width", [40, 50, 60, 80, 100, 200])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, drawn(LABELLED, width=width)[2:])) <= width


def test_a_zone_that_lacks_a_resource_says_so() -> None:
    assert drawn(node("cpu=8 gpu=1", "cpu=8"))[5] == "  node-1  ░░░░░░░░░░░░░░░░ 0/8  -"


def test_a_node_whose_zones_list_nothing_has_only_its_facts() -> None:
    assert drawn(replace(node("", ""), label="the-class")) == [
        "node  none, scope container (known: counts)",
        "  the-class",
    ]


@pytest.mark.parametrize(
    ("label", "said"),
    table([("another class", "another", "  labelled another"), ("no class", None, "  not labelled")]),
)
def test_a_node_whose_label_names(label: str | None, said: str) -> None:
    assert drawn(replace(FOUR, label=label))[1:3] == ["  the-class", said]


def test_the_json_tells_the_class_and_the_label() -> None:
    labelled, bare = replace(FOUR, label="another"), replace(FOUR, name="bare")
    listed = nodemap.to_json(Cluster(Fleet([labelled, bare])))

    assert [each["label"] for each in listed] == ["another", None]
    assert listed[0]["class"] == listed[1]["class"] != "another"


def test_the_json_lists_every_node(cluster: Cluster) -> None:
    big, small, hidden = nodemap.to_json(cluster)
    assert (big["name"], big["policy"], big["scope"], big["known"]) == (
        "big",
        "single-numa-node",
        "container",
        "counts",
    )
    assert big["class"] == cluster.fleet.class_of(cluster.fleet.nodes[0])
    assert big["zones"][0] == {
        "id": 0,
        "name": "node-0",
        "capacity": {"cpu": "32", "memory": "64Gi"},
        "allocatable": {"cpu": "32", "memory": "64Gi"},
        "free": {"cpu": "8", "memory": "64Gi"},
    }
    assert small["name"] == "small"
    assert hidden == {
        "name": "hidden",
        "class": None,
        "label": None,
        "policy": None,
        "scope": None,
        "known": "nothing",
        "zones": [],
    }
