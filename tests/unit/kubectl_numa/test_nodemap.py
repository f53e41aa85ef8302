"""The map fits where it is shown, and its JSON holds every zone."""

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kubectl_numa import nodemap
from kubectl_numa.lines import TextWriter
from kubectl_numa.questions import ClusterView
from numalign.kube.cluster_state import Snapshot
from numalign.kube.exporters import ExporterHealth, TopologySource
from numalign.model.attributes import Attributes, Labels, Taint
from numalign.model.node import Node, node_class
from numalign.shapes import KnownShape, shape
from tests.worlds.notation import node, table, zone

FOUR = node(
    "cpu=64/62/30 mem=512Gi/504Gi/248Gi gpu=4/4/1 nic=2/2/1",
    "cpu=64/62/62 mem=512Gi/504Gi gpu=4/4/0 nic=2/2/2",
    policy="single-numa-node",
    ids=(0, 3),
)
CLASS = node_class(FOUR)
LABELLED = replace(FOUR, label=CLASS)
WELL = node(
    "cpu=64/62 mem=512Gi/504Gi gpu=6 nic=2",
    "cpu=64/62 mem=512Gi/504Gi gpu=5 nic=2",
    policy="single-numa-node",
    ids=(0, 3),
)
"""What it was before it fell ill."""


EXPORTER = ExporterHealth(TopologySource.EXPORTER)


def exporter(_node: Node) -> ExporterHealth:
    """That of every node."""
    return EXPORTER


def drawn(
    shown: Node, *, width: int = 80, encoding: str = "utf-8", health: ExporterHealth = EXPORTER
) -> list[str]:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    nodemap.draw(shown, TextWriter(Console(file=file, width=width)), health)
    file.flush()
    return raw.getvalue().decode(encoding).splitlines()


def test_a_node_in_eighty_columns() -> None:
    assert drawn(LABELLED) == [
        "node  single-numa-node, scope container",
        "  known: counts, reported by an exporter",
        f"  {CLASS}",
        "          cpu             example.com/nic  memory                nvidia.com/gpu",
        "  zone 0  ████░░░░ 32/62  ████░░░░ 1/2     ████░░░░ 256Gi/504Gi  ██████░░ 3/4",
        "  zone 3  ░░░░░░░░ 0/62   ░░░░░░░░ 0/2     ░░░░░░░░ 0/504Gi      ████████ 4/4",
    ]


def test_where_blocks_cannot_be_shown_ascii_is() -> None:
    assert drawn(LABELLED, encoding="ascii")[4] == (
        "  zone 0  ####.... 32/62  ####.... 1/2     ####.... 256Gi/504Gi  ######.. 3/4"
    )


@pytest.mark.parametrize("width", [40, 50, 60, 80, 100, 200])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, drawn(LABELLED, width=width)[3:])) <= width


def test_a_zone_that_lacks_a_resource_says_so_and_one_without_any_has_no_row() -> None:
    assert drawn(node("cpu=8 gpu=1", "cpu=8"))[6] == "  zone 1  ░░░░░░░░░░░░░░░░ 0/8  -"
    assert len(drawn(node("", ""))) == 4


@given(used=st.integers(0, 10**15), total=st.integers(1, 10**15), width=st.integers(2, 40))
def test_only_empty_looks_empty_and_only_full_looks_full(used: int, total: int, width: int) -> None:
    bar = nodemap.bar(used, total, width=width, ink=nodemap.ASCII)
    assert len(bar) == width
    assert ("#" in bar, "." in bar) == (used > 0, used < total)


def test_zones_that_no_pod_can_use_are_one_line() -> None:
    bare = tuple(zone("", at=at) for at in range(4, 7))

    assert drawn(replace(FOUR, others=bare))[-1] == "  and 3 zones without CPUs and devices: 4-6"


@pytest.mark.parametrize(
    ("used", "total", "bar"),
    table(
        [("half", 31, 62, "####...."), ("nothing there", 0, 0, "........"), ("too much", 70, 62, "########")]
    ),
)
def test_a_bar_shows_how_much_is_used(used: int, total: int, bar: str) -> None:
    assert nodemap.bar(used, total, width=8, ink=nodemap.ASCII) == bar


ILL = replace(FOUR, health=WELL)


@pytest.mark.parametrize(
    ("shown", "line"),
    table(
        [
            ("lacks devices", replace(ILL, label=node_class(ILL)), "  lacks 3 nvidia.com/gpu that it had"),
            ("is cordoned", replace(LABELLED, attributes=Attributes(cordoned=True)), "  is cordoned"),
            ("is not ready", replace(LABELLED, attributes=Attributes(ready=False)), "  is not ready"),
            ("is labelled with another class", replace(FOUR, label="another"), "  labelled another"),
            ("is labelled with no class", FOUR, "  not labelled"),
        ]
    ),
)
def test_a_node_that(shown: Node, line: str) -> None:
    assert drawn(shown)[2:4] == [f"  {node_class(shown)}", line]


@pytest.mark.parametrize(
    ("age", "told"),
    table(
        [
            ("looked just now", 3.0, "reported by its agent less than a minute ago"),
            ("has been quiet", 600.0, "reported by its agent 10 min ago"),
            ("is gone", 7500.0, "reported by its agent, silent for 2 h"),
        ]
    ),
)
def test_a_node_whose_agent(age: float, told: str) -> None:
    lines = drawn(LABELLED, health=ExporterHealth(TopologySource.AGENT, age))

    assert lines[1] == f"  known: counts, {told}"


def test_who_tells_of_a_node_is_told_to_programs() -> None:
    agent = ExporterHealth(TopologySource.AGENT, 12.7)
    entries = nodemap.to_json(Snapshot((LABELLED,), ("hidden",)), lambda _node: agent)

    assert [(entry["source"], entry["age"]) for entry in entries] == [("agent", 12), ("none", None)]


def test_what_is_wrong_with_a_node_is_told_to_programs() -> None:
    attributes = Attributes(taints=(Taint("a", "b"),), cordoned=True)
    ill = replace(ILL, label="another", attributes=attributes)
    [entry] = nodemap.to_json(Snapshot((ill,)), exporter)

    assert (entry["lacks"], entry["cordoned"], entry["ready"]) == ({"nvidia.com/gpu": "3"}, True, True)
    assert entry["taints"] == ["a=b:NoSchedule"]
    assert (entry["label"], entry["class"]) == ("another", node_class(ill))


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
    nodemap.draw_shape(known, TextWriter(Console(file=written, width=80)), now=SEEN + 2 * HOUR)
    return written.getvalue().splitlines()


def test_a_shape_without_nodes_is_drawn_like_a_node() -> None:
    assert drawn_shape(KnownShape(SHAPE, seen=SEEN)) == [
        "restricted, scope container  remembered, last seen 2 h ago",
        f"  {SHAPE.node_class}",
        "  labels pool=gpu",
        "  taints dedicated=gpu:NoSchedule",
        "          cpu                   memory",
        "  zone 0  ░░░░░░░░░░░░░░░░ 0/8  ░░░░░░░░░░░░░░░░ 0/8Gi",
    ]


@pytest.mark.parametrize(
    ("known", "said"),
    table(
        [
            ("one node", KnownShape(SHAPE, 1), "1 node present"),
            ("many nodes", KnownShape(SHAPE, 1523), "1,523 nodes present"),
            ("those that were", KnownShape(SHAPE, seen=SEEN), "remembered, last seen 2 h ago"),
            ("a declaration", KnownShape(SHAPE, declared=True), "declared"),
        ]
    ),
)
def test_a_shape_is_known_by(known: KnownShape, said: str) -> None:
    assert nodemap.how_known(known, now=SEEN + 2 * HOUR) == said


def test_shapes_without_nodes_follow_the_nodes_for_programs() -> None:
    known = (KnownShape(SHAPE, 1), KnownShape(SHAPE, seen=SEEN), KnownShape(SHAPE, declared=True))
    entries = nodemap.to_json(Snapshot((LABELLED,), ("hidden",), shapes=known), exporter)

    assert [(entry["name"], entry["known"], entry["lastSeen"]) for entry in entries] == [
        ("node", "counts", None),
        ("hidden", "nothing", None),
        (SHAPE.name, "remembered", "2026-09-21T14:13:20+00:00"),
        (SHAPE.name, "declared", None),
    ]
    assert (entries[2]["labels"], entries[2]["taints"]) == ({"pool": ["gpu"]}, ["dedicated=gpu:NoSchedule"])
    assert entries[2]["zones"][0]["free"] == {"cpu": "8", "memory": "8Gi"}


def test_the_json_lists_every_node(cluster: ClusterView) -> None:
    big, small, hidden = nodemap.to_json(cluster.snapshot, cluster.exporter)
    assert [big[key] for key in ("name", "policy", "scope", "known")] == [
        *("big", "single-numa-node", "container", "counts")
    ]
    assert big["class"] == node_class(cluster.snapshot.nodes[0])
    assert big["zones"][0] == {
        "id": 0,
        "name": "node-0",
        "capacity": {"cpu": "32", "memory": "64Gi"},
        "allocatable": {"cpu": "32", "memory": "64Gi"},
        "free": {"cpu": "8", "memory": "64Gi"},
    }
    assert small["name"] == "small"
    nothing = dict.fromkeys(("class", "label", "policy", "scope", "lastSeen", "age"))
    known = {"name": "hidden", "known": "nothing", "source": "none", "cordoned": False, "ready": True}
    assert hidden == {**nothing, **known, "lacks": {}, "taints": [], "zones": []}
