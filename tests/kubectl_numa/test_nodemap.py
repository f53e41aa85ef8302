"""The map fits where it is shown, and its JSON holds every zone."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from kubectl_numa import nodemap
from kubectl_numa.lines import Paper
from kubectl_numa.questions import Cluster
from numalign.cache import Fleet
from numalign.model.attributes import Attributes, Labels, Taint
from numalign.model.node import Node
from numalign.shapes import KnownShape, shape
from tests.notation import node, table

FOUR = node(
    "cpu=64/62/30 mem=512Gi/504Gi/248Gi gpu=4/4/1 nic=2/2/1",
    "cpu=64/62/62 mem=512Gi/504Gi gpu=4/4/0 nic=2/2/2",
    policy="single-numa-node",
    ids=(0, 3),
)
LABELLED = replace(FOUR, label="the-class")
WELL = node(
    "cpu=64/62 mem=512Gi/504Gi gpu=6 nic=2",
    "cpu=64/62 mem=512Gi/504Gi gpu=5 nic=2",
    policy="single-numa-node",
    ids=(0, 3),
)
"""What it was before it fell ill."""


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
    ("told", "said"),
    table(
        [
            ("lacks devices", replace(LABELLED, health=WELL), "  lacks 3 nvidia.com/gpu that it had"),
            ("is cordoned", replace(LABELLED, attributes=Attributes(cordoned=True)), "  is cordoned"),
            ("is not ready", replace(LABELLED, attributes=Attributes(ready=False)), "  is not ready"),
        ]
    ),
)
def test_a_node_that(told: Node, said: str) -> None:
    assert drawn(told)[2] == said


def test_what_is_wrong_with_a_node_is_told_to_programs() -> None:
    ill = replace(LABELLED, health=WELL, attributes=Attributes(taints=(Taint("a", "b"),), cordoned=True))
    [told] = nodemap.to_json(Cluster(Fleet([ill])))

    assert (told["lacks"], told["cordoned"], told["ready"]) == ({"nvidia.com/gpu": "3"}, True, True)
    assert told["taints"] == ["a=b:NoSchedule"]


SHAPE = shape.of(
    replace(
        node("cpu=8 mem=8Gi", policy="restricted"),
        attributes=Attributes(Labels({"pool": "gpu"}), (Taint("dedicated", "gpu"),)),
    )
)
SEEN = 1_790_000_000.0
HOUR = 3600


def drawn_shape(known: KnownShape) -> list[str]:
    written = io.StringIO()
    nodemap.draw_shape(known, Paper(Console(file=written, width=80)), now=SEEN + 2 * HOUR)
    return written.getvalue().splitlines()


def test_a_shape_without_nodes_is_drawn_like_a_node() -> None:
    assert drawn_shape(KnownShape(SHAPE, seen=SEEN)) == [
        "restricted, scope container  remembered, last seen 2 h ago",
        f"  {SHAPE.node_class}",
        "  labels pool=gpu",
        "  taints dedicated=gpu:NoSchedule",
        "          cpu                   memory",
        "  node-0  ░░░░░░░░░░░░░░░░ 0/8  ░░░░░░░░░░░░░░░░ 0/8Gi",
    ]


@pytest.mark.parametrize(
    ("known", "said"),
    table(
        [
            ("one node", KnownShape(SHAPE, 1), "1 node is here"),
            ("many nodes", KnownShape(SHAPE, 1523), "1,523 nodes are here"),
            ("those that were", KnownShape(SHAPE, seen=SEEN), "remembered, last seen 2 h ago"),
            ("a declaration", KnownShape(SHAPE, declared=True), "declared, no node is here"),
        ]
    ),
)
def test_a_shape_is_known_by(known: KnownShape, said: str) -> None:
    assert nodemap.how_known(known, now=SEEN + 2 * HOUR) == said


def test_shapes_without_nodes_follow_the_nodes_for_programs() -> None:
    known = (KnownShape(SHAPE, 1), KnownShape(SHAPE, seen=SEEN), KnownShape(SHAPE, declared=True))
    told = nodemap.to_json(Cluster(Fleet([LABELLED]), ("hidden",), known))

    assert [(each["name"], each["known"], each["lastSeen"]) for each in told] == [
        ("node", "counts", None),
        ("hidden", "nothing", None),
        (SHAPE.name, "remembered", "2026-09-21T14:13:20+00:00"),
        (SHAPE.name, "declared", None),
    ]
    assert (told[2]["labels"], told[2]["taints"]) == ({"pool": ["gpu"]}, ["dedicated=gpu:NoSchedule"])
    assert told[2]["zones"][0]["free"] == {"cpu": "8", "memory": "8Gi"}


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
        "lastSeen": None,
        "lacks": {},
        "cordoned": False,
        "ready": True,
        "taints": [],
        "zones": [],
    }
