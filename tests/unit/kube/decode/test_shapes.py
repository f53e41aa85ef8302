"""Shapes as texts in a ConfigMap and in a policy."""

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import yaml

from numalign.kube.decode import shapes
from numalign.kube.decode.parts import Part
from numalign.kube.decode.shapes import LOSSES, MOST_BYTES, MOST_LOSSES, MOST_SHAPES
from numalign.model.attributes import Attributes, Labels, Taint
from numalign.model.node import CpuManager, Known, MemoryManager, Node
from numalign.model.options import CpuOption, FeatureGate, Options, TopologyOption
from numalign.model.resources import Resources
from numalign.shapes import KnownShape, LabelValues, LeftOut, RememberedShapes, Shape, shape
from numalign.shapes.shape import MOST_LABELS
from tests.worlds.notation import GPU, NIC, machine, node, options, table

SEEN = 1_790_000_000.0
ZONES = ("cpu=32/30 mem=64Gi gpu=4 huge=0", "cpu=32 mem=63Gi gpu=4 huge=0")
GPU_NODE = node(*ZONES, policy="single-numa-node", totals="cpu=62 gpu=8 pods=110", costs={(0, 1): 20})
CPU_OPTIONS = frozenset({CpuOption.FULL_PCPUS_ONLY, CpuOption.DISTRIBUTE_ACROSS_NUMA})
ALL_OPTIONS = Options(CPU_OPTIONS, frozenset(TopologyOption), frozenset(FeatureGate), 36)

NOVEL = options(minor=38, strategy="least-allocated", weights="cpu=3 gpu=0", unknown="prefer-blue")
INERT = Options(unreleased=frozenset({"numa-allocation-strategy", "prefer-most-allocated-numa-node"}))


def shape_of(node_: Node, *, taints: tuple[Taint, ...] = (), **labels: str) -> Shape:
    return shape.of(replace(node_, attributes=Attributes(Labels(labels), taints)))


def configured(node_: Node) -> Node:
    return replace(node_, known=Known.CONFIGURED)


def remembered(*node_: Shape) -> RememberedShapes:
    return RememberedShapes(tuple(KnownShape(each, seen=SEEN) for each in node_))


SHAPES = [
    # what it shows                        the shape
    ("zones and amounts",                  shape_of(GPU_NODE)),
    ("labels and taints",
     shape_of(GPU_NODE, taints=(Taint("a", "b"), Taint("c")), pool="gpu", x="")),
    ("a scope, and many zones",
     shape_of(node(*ZONES, policy="restricted", scope="pod", max_zones=12))),
    ("nothing of the node as a whole",     shape_of(node(*ZONES))),
    ("zones that are numbered with gaps",  shape_of(node(*ZONES, ids=(0, 3)))),
    ("managers that zones do not show",
     shape_of(configured(node("cpu=4", cpu_manager=CpuManager.NONE, memory_manager=MemoryManager.NONE)))),
    ("options of the kubelet",
     shape_of(configured(node(*ZONES, policy="restricted", options=ALL_OPTIONS, threads=2)))),
    ("options that no release has, and one that is not known",
     shape_of(configured(node(*ZONES, policy="restricted", options=NOVEL)))),
    ("options that change nothing",        shape_of(configured(node(*ZONES, options=INERT)))),
    ("devices of uncertain zones",
     shape_of(replace(node("cpu=4", "cpu=4"), uncertain=frozenset({"x.io/a", "x.io/b"})))),
    ("uncertain CPUs of a kubelet with options",
     shape_of(replace(configured(node("gpu=4", options=ALL_OPTIONS)), uncertain=frozenset({"cpu"})))),
    ("odd amounts",                        shape_of(node("cpu=1500m/1499m mem=12345 gpu=0"))),
    ("a label that not all have",
     Shape(shape_of(GPU_NODE).node, labels={"rack": LabelValues(frozenset("ab"), always=False)})),
    ("any value",                     Shape(shape_of(GPU_NODE).node, labels={"host": LabelValues(None)})),
    ("unknown labels",         Shape(shape_of(GPU_NODE).node, other_labels=True)),
]  # fmt: skip


@pytest.mark.parametrize("made", table(SHAPES))
def test_a_remembered_shape_is_read_as_it_was_written(made: Shape) -> None:
    memory = remembered(made)
    read, mistakes = shapes.decode({"data": shapes.encode(memory)})
    assert mistakes == ()
    assert read == memory
    assert read.shapes[0].shape.name == made.name


def test_a_described_machine_is_remembered_by_amounts() -> None:
    described = machine("cpu=0-3 mem=8Gi", "cpu=4-7", threads=2, reserved="0", devices="gpu=0,01")
    made = shape_of(replace(described, threads=2))
    read, mistakes = shapes.decode({"data": shapes.encode(remembered(made))})
    assert mistakes == ()
    assert read == remembered(shape_of(shape.without_machine(made.node)))


@pytest.mark.parametrize("made", table(SHAPES))
def test_an_exported_shape_can_be_declared(made: Shape) -> None:
    text = yaml.safe_dump(shapes.exported([KnownShape(made, nodes=3)]))
    listed = Part(yaml.safe_load(text), "shapes")
    [read] = shapes.declared(listed)
    assert listed.mistakes == []
    assert read == made


def test_losses_are_remembered_to_the_second() -> None:
    data = shapes.encode(RememberedShapes(losses={"a": SEEN + 0.75}))
    assert data == {LOSSES: '{"a":"2026-09-21T14:13:20Z"}'}
    assert shapes.decode({"data": data}) == (RememberedShapes(losses={"a": SEEN}), ())


ZONE = {"name": "node-0", "type": "Node", "resources": []}


@pytest.mark.parametrize(("written", "mistakes"), table([
    ("a kubelet that does not start",
        [{"zones": [ZONE], "kubelet": {"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}}],
        [("shapes[0].kubelet.cpuManagerPolicyOptions: the kubelet would not start: "
                "the CPU manager's policy none takes no options, not full-pcpus-only")]),
    ("more zones than are read", [{"zones": [ZONE] * 65}],
        ["shapes[0].zones: 65 zones of type Node are more than the 64 that are allowed"]),
    ("more shapes than are read", [{}] * (MOST_SHAPES + 1),
        [f"shapes: {MOST_SHAPES + 1} shapes are more than the {MOST_SHAPES} that are allowed"]),
]))  # fmt: skip
def test_mistakes_have_their_places(written: object, mistakes: list[str]) -> None:
    listed = Part(written, "shapes")
    shapes.declared(listed)
    assert [str(message).partition("\n")[0] for message in listed.mistakes] == mistakes


GOOD = shapes.encode(remembered(shape_of(GPU_NODE)))


UNREADABLE = LeftOut(math.inf)
"""What cannot be read may be anything, seen at any time."""


@pytest.mark.parametrize(("key", "text", "message"), table([
    # what it shows           key      text                       mistake
    ("a depth of thousands",  "x",     "[" * 100_000,             "data.x: is nested deeper than"),
    ("no losses",             LOSSES,  "[1]",                     "data.losses: must be an object"),
    ("a loss at no time",     LOSSES,  '{"a": "now"}',            'data.losses.a: "now" is not a time'),
]))  # fmt: skip
def test_a_broken_entry_leaves_the_others(key: str, text: object, message: str) -> None:
    read, [mistake_found] = shapes.decode({"data": {**GOOD, key: text}})
    missing = None if key == LOSSES else UNREADABLE
    assert read == replace(remembered(shape_of(GPU_NODE)), left_out=missing)
    assert str(mistake_found).startswith(message)


@pytest.mark.parametrize("hostile", table([
    # what it shows             the ConfigMap
    ("data that is a list",     {"data": ["x"]}),
    ("more keys than are read", {"data": dict.fromkeys(map(str, range(MOST_SHAPES + 3)), "{}")}),
    ("more than is read",       {"data": {"x": "y" * (shapes.MOST_BYTES_READ + 1)}}),
]))  # fmt: skip
def test_an_unreadable_config_map_is_empty(hostile: object) -> None:
    read, mistakes = shapes.decode(hostile)
    assert read == RememberedShapes(left_out=UNREADABLE)
    assert len(mistakes) == 1


def test_the_shapes_of_a_large_cluster_fit() -> None:
    losses = {f"node-{at:05}.example.internal": SEEN for at in range(15_000)}
    data = shapes.encode(RememberedShapes(tuple(many_shapes(60)), losses))
    size = sum(len(key) + len(text) for key, text in data.items())
    assert len(data) == 61
    assert size < MOST_BYTES * 7 // 8


def many_shapes(count: int) -> Iterator[KnownShape]:
    """Eight zones and six resources, and sixty labels, some of which are different on every node."""
    zone, values = (
        "cpu=32/31 mem=251Gi/250Gi gpu=1 nic=1 huge=0 huge2m=0",
        [f"value-{each}" for each in range(8)],
    )
    labels = {f"feature.node.kubernetes.io/cpu-feature-{key:02}": LabelValues(frozenset({"true"}))
        for key in range(50)}  # fmt: skip
    labels |= {f"topology.example.com/level-{key}": LabelValues(frozenset(values)) for key in range(6)}
    labels |= {f"example.com/host-{key}": LabelValues(None) for key in range(4)}
    for at in range(count):
        made = node(*[zone] * 8, policy="single-numa-node", totals="cpu=248 gpu=8 nic=8", max_zones=8 + at,
            threads=2)  # fmt: skip
        yield KnownShape(Shape(shape.bare(made), (Taint("dedicated", "gpu"),), labels), seen=SEEN + at)


@pytest.mark.full
def test_the_oldest_of_too_many_shapes_are_left_out() -> None:
    made = [*many_shapes(300)]
    data = shapes.encode(RememberedShapes(tuple(made)))
    assert sum(len(key.encode()) + len(text.encode()) for key, text in data.items()) <= MOST_BYTES
    read, _ = shapes.decode({"data": data})
    count = len(read.shapes)
    assert 60 < count < 300
    assert {each.shape.name for each in read.shapes} == {each.shape.name for each in made[-count:]}
    assert read.left_out == LeftOut(SEEN + 299 - count, frozenset({GPU, NIC}))


def test_too_long_labels_of_a_shape_are_left_out() -> None:
    labels = {f"{'a' * 250}/{at:063}": LabelValues(frozenset({"v" * 63})) for at in range(MOST_LABELS)}
    made = replace(shape_of(GPU_NODE), labels=labels)
    data = shapes.encode(RememberedShapes((KnownShape(made, seen=SEEN, only_node="n"),)))
    [read] = shapes.decode({"data": data})[0].shapes
    assert read.shape == replace(made, labels={}, other_labels=True)
    assert read.only_node == "n"
    assert len(data[made.name]) <= shapes.MOST_BYTES_OF_SHAPE


def test_a_shape_with_too_long_names_is_left_out() -> None:
    names = {f"{'x' * 240}.example.com/{at:03}": 1 for at in range(200)}
    long = replace(GPU_NODE, totals=Resources({**(GPU_NODE.totals or {}), **names}))
    made = remembered(shape_of(long), shape_of(replace(GPU_NODE, max_zones=9)))
    read, mistakes = shapes.decode({"data": shapes.encode(made)})
    assert (read.shapes, mistakes) == (made.shapes[1:], ())
    assert read.left_out == LeftOut(SEEN)


def test_the_longest_of_too_many_losses_stay() -> None:
    losses = {f"node-{at}": SEEN + at for at in range(MOST_LOSSES + 10)}
    read, _ = shapes.decode({"data": shapes.encode(RememberedShapes(losses=losses))})
    assert read.losses == dict([*losses.items()][:MOST_LOSSES])
    long = {f"{at:0250}": SEEN for at in range(MOST_LOSSES)}
    assert 0 < len(shapes.encode(RememberedShapes(losses=long))[LOSSES]) <= shapes.MOST_BYTES_OF_LOSSES
