"""A node and a shape as text and as JSON, and a policy that declares shapes."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kubectl_numa import nodemap
from kubectl_numa.lines import TextWriter
from kubectl_numa.questions import ClusterView
from numalign.kube.exporters import ExporterHealth, TopologySource
from numalign.model.attributes import Attributes, Labels, Taint
from numalign.model.node import Node, node_class
from numalign.shapes import KnownShape, shape
from tests.unit.kubectl_numa.conftest import Cli
from tests.worlds import objects
from tests.worlds.notation import node, table, zone

FOUR = node(
    "cpu=64/62/30 mem=512Gi/504Gi/248Gi gpu=4/4/1 nic=2/2/1",
    "cpu=64/62/62 mem=512Gi/504Gi gpu=4/4/0 nic=2/2/2",
    policy="single-numa-node",
    ids=(0, 3),
)
CLASS = node_class(FOUR)
LABELLED = replace(FOUR, label=CLASS)
HEALTHY = node(*(f"cpu=64/62 mem=512Gi/504Gi gpu={gpus} nic=2" for gpus in (6, 5)), ids=(0, 3))
ILL = replace(FOUR, health=replace(HEALTHY, policy=FOUR.policy))
EXPORTER = ExporterHealth(TopologySource.EXPORTER)


def drawn(
    shown: Node, *, width: int = 80, encoding: str = "utf-8", health: ExporterHealth = EXPORTER
) -> list[str]:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    nodemap.draw(shown, TextWriter(Console(file=file, width=width)), health)
    file.flush()
    return raw.getvalue().decode(encoding).splitlines()


def test_a_node_is_drawn_in_eighty_columns() -> None:
    assert drawn(LABELLED) == [
        "node  single-numa-node, scope container",
        "  known: counts, reported by an exporter",
        f"  {CLASS}",
        "          cpu             example.com/nic  memory                nvidia.com/gpu",
        "  zone 0  ████░░░░ 32/62  ████░░░░ 1/2     ████░░░░ 256Gi/504Gi  ██████░░ 3/4",
        "  zone 3  ░░░░░░░░ 0/62   ░░░░░░░░ 0/2     ░░░░░░░░ 0/504Gi      ████████ 4/4",
    ]
    assert drawn(LABELLED, encoding="ascii")[4] == (
        "  zone 0  ####.... 32/62  ####.... 1/2     ####.... 256Gi/504Gi  ######.. 3/4"
    )
    assert [width for width in (40, 60, 200) if max(map(len, drawn(LABELLED, width=width)[3:])) > width] == []


def agent(age: float) -> ExporterHealth:
    return ExporterHealth(TopologySource.AGENT, age)


CORDONED = replace(LABELLED, attributes=Attributes(cordoned=True))
LINES = [
    # the node, the health of its exporter, the number of a line, and the line
    ("lacks devices", replace(ILL, label=node_class(ILL)), EXPORTER, 3,
        "  lacks 3 nvidia.com/gpu that it had"),
    ("cordoned", CORDONED, EXPORTER, 3, "  is cordoned"),
    ("not ready", replace(LABELLED, attributes=Attributes(ready=False)), EXPORTER, 3, "  is not ready"),
    ("another class label", replace(FOUR, label="another"), EXPORTER, 3, "  labelled another"),
    ("no class label", FOUR, EXPORTER, 3, "  not labelled"),
    ("an agent just now", LABELLED, agent(3), 1,
        "  known: counts, reported by its agent less than a minute ago"),
    ("a quiet agent", LABELLED, agent(600), 1, "  known: counts, reported by its agent 10 min ago"),
    ("a silent agent", LABELLED, agent(7500), 1, "  known: counts, reported by its agent, silent for 2 h"),
    ("a zone without a resource", node("cpu=8 gpu=1", "cpu=8"), EXPORTER, 6,
        "  zone 1  ░░░░░░░░░░░░░░░░ 0/8  -"),
    ("zones without resources", node("", ""), EXPORTER, -1, "  not labelled"),
    ("zones that no pod can use", replace(FOUR, others=tuple(zone("", at=at) for at in range(4, 7))),
        EXPORTER,
        -1, "  and 3 zones without CPUs and devices: 4-6"),
]  # fmt: skip


@pytest.mark.parametrize(("shown", "health", "at", "line"), table(LINES))
def test_a_line_of_a_node(shown: Node, health: ExporterHealth, at: int, line: str) -> None:
    assert drawn(shown, health=health)[at] == line


@given(used=st.integers(0, 10**15), total=st.integers(1, 10**15), width=st.integers(2, 40))
def test_only_empty_bars_look_empty_and_only_full_full(used: int, total: int, width: int) -> None:
    bar = nodemap.bar(used, total, width=width, ink=nodemap.ASCII)

    assert len(bar) == width
    assert ("#" in bar, "." in bar) == (used > 0, used < total)


def test_a_bar_shows_the_used_share() -> None:
    uses = [(31, 62), (0, 0), (70, 62)]
    bars = [nodemap.bar(used, total, width=8, ink=nodemap.ASCII) for used, total in uses]

    assert bars == ["####....", "........", "########"]


SHAPE = shape.of(
    replace(
        node("cpu=8 mem=8Gi", policy="restricted"),
        attributes=Attributes(Labels({"pool": "gpu"}), (Taint("dedicated", "gpu"),)),
    )
)
SEEN = 1_790_000_000.0
REMEMBERED, DECLARED = KnownShape(SHAPE, seen=SEEN), KnownShape(SHAPE, declared=True)


def test_a_shape_is_drawn_like_a_node() -> None:
    file = io.StringIO()
    nodemap.draw_shape(REMEMBERED, TextWriter(Console(file=file, width=80)), now=SEEN + 7200)

    assert file.getvalue().splitlines() == [
        "restricted, scope container  remembered, last seen 2 h ago",
        f"  {SHAPE.node_class}",
        "  labels pool=gpu",
        "  taints dedicated=gpu:NoSchedule",
        "          cpu                   memory",
        "  zone 0  ░░░░░░░░░░░░░░░░ 0/8  ░░░░░░░░░░░░░░░░ 0/8Gi",
    ]


def test_a_shape_is_present_remembered_or_declared() -> None:
    kinds = (KnownShape(SHAPE, 1), KnownShape(SHAPE, 1523), DECLARED)

    assert [nodemap.how_known(kind, now=SEEN) for kind in kinds] == [
        "1 node present",
        "1,523 nodes present",
        "declared",
    ]


def test_json_has_nodes_then_shapes(cluster: ClusterView) -> None:
    shapes = (KnownShape(SHAPE, 1), REMEMBERED, DECLARED)
    attributes = Attributes(taints=(Taint("a", "b"),), cordoned=True)
    ill = replace(ILL, name="ill", label="another", attributes=attributes)
    big = cluster.cluster.nodes[0]
    sick, large, hidden, remembered, declared = nodemap.to_json(
        nodemap.ListedNodes((ill, big), ("hidden",), shapes),
        lambda shown: agent(12.7) if shown.name == "ill" else EXPORTER,
    )

    keys = ("name", "policy", "scope", "known", "class", "source")

    assert (sick["lacks"], sick["cordoned"], sick["ready"]) == ({"nvidia.com/gpu": "3"}, True, True)
    assert (sick["taints"], sick["label"], sick["class"]) == (["a=b:NoSchedule"], "another", node_class(ill))
    assert (sick["source"], sick["age"]) == ("agent", 12)
    facts = ["big", "single-numa-node", "container", "counts", node_class(big), "exporter"]
    assert [large[key] for key in keys] == facts
    whole = {"cpu": "32", "memory": "64Gi"}
    amounts = {"capacity": whole, "allocatable": whole, "free": {"cpu": "8", "memory": "64Gi"}}
    assert large["zones"][0] == {"id": 0, "name": "node-0", **amounts}
    nothing = dict.fromkeys(("class", "label", "policy", "scope", "lastSeen", "age"))
    unknown = {"name": "hidden", "known": "nothing", "source": "none", "cordoned": False, "ready": True}
    assert hidden == {**nothing, **unknown, "lacks": {}, "taints": [], "zones": []}
    assert (remembered["name"], remembered["known"]) == (SHAPE.name, "remembered")
    assert (remembered["lastSeen"], declared["lastSeen"]) == ("2026-09-21T14:13:20+00:00", None)
    assert (declared["name"], declared["known"]) == (SHAPE.name, "declared")
    assert (remembered["labels"], remembered["taints"]) == ({"pool": ["gpu"]}, ["dedicated=gpu:NoSchedule"])
    assert remembered["zones"][0]["free"] == {"cpu": "8", "memory": "8Gi"}


def exported(cli: Cli, path: Path) -> Path:
    """Write a policy that declares the shapes of a snapshot."""
    return cli.write("policy.yaml", cli.text("shapes", "export", "--snapshot", path))


def test_shapes_are_listed_with_their_nodes(cli: Cli) -> None:
    words = ("shapes", "--snapshot", cli.cluster())
    listed, page = cli.json(*words), cli.text(*words)

    assert [(each["known"], each["nodes"], each["lastSeen"]) for each in listed] == [("present", 1, None)] * 2
    assert all(each["name"].startswith(each["class"]) for each in listed)
    assert page.count("single-numa-node, scope container  1 node present\n") == 2
    assert "  zone 0  ░░░░░░░░░░░░░░░░ 0/32  ░░░░░░░░░░░░░░░░ 0/64Gi\n" in page


def test_exported_shapes_can_be_declared(cli: Cli) -> None:
    present = cli.json("shapes", "--snapshot", cli.cluster())
    policy = exported(cli, cli.cluster())
    declared = cli.json("shapes", "--snapshot", cli.cluster(items=[objects.node("bare")]), "--policy", policy)

    assert [each["known"] for each in declared] == ["declared"] * 2
    assert [(each["name"], each["zones"]) for each in declared] == [
        (each["name"], each["zones"]) for each in present
    ]


def test_an_export_goes_into_a_file(cli: Cli) -> None:
    path = cli.folder / "shapes.yaml"
    result = cli("shapes", "export", "-o", path, "--snapshot", cli.cluster())

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"{path}: 2 shapes\n")
    assert len(yaml.load(path.read_text(), yaml.CSafeLoader)["shapes"]) == 2


def test_declared_shapes_follow_the_nodes(cli: Cli) -> None:
    declared = yaml.load(exported(cli, cli.cluster()).read_text(), yaml.CSafeLoader)["shapes"][0]
    declared["attributes"] = [{"name": "topologyManagerPolicy", "value": "restricted"}]
    policy = cli.write("policy.yaml", {"shapes": [declared]})
    words = ("nodes", "--snapshot", cli.cluster(), "--policy", policy)

    assert [each["known"] for each in cli.json(*words)] == ["counts", "counts", "nothing", "declared"]
    assert "restricted, scope container  declared\n" in cli.text(*words)
