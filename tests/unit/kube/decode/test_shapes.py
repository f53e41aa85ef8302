"""Shapes as texts: what is written is read again, and what is hostile costs nobody anything else."""

import math
import sys
from collections.abc import Iterator
from dataclasses import replace

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.decode import shapes
from numalign.kube.decode.parts import Part
from numalign.kube.decode.shapes import (
    LOSSES,
    MOST_BYTES,
    MOST_BYTES_OF_SHAPE,
    MOST_BYTES_READ,
    MOST_LOSSES,
    MOST_SHAPES,
)
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
TOLD = Options(CPU_OPTIONS, frozenset(TopologyOption), frozenset(FeatureGate), 36)

NOVEL = options(minor=38, strategy="least-allocated", weights="cpu=3 gpu=0", unknown="prefer-blue")
INERT = Options(unreleased=frozenset({"numa-allocation-strategy", "prefer-most-allocated-numa-node"}))


def shape_of(found: Node, *, taints: tuple[Taint, ...] = (), **labels: str) -> Shape:
    return shape.of(replace(found, attributes=Attributes(Labels(labels), taints)))


def configured(found: Node) -> Node:
    return replace(found, known=Known.CONFIGURED)


def remembered(*found: Shape) -> RememberedShapes:
    return RememberedShapes(tuple(KnownShape(each, seen=SEEN) for each in found))


SHAPES = [
    # what it shows                        the shape
    ("zones and amounts",                  shape_of(GPU_NODE)),
    ("labels and taints",
     shape_of(GPU_NODE, taints=(Taint("a", "b"), Taint("c")), pool="gpu", x="")),
    ("a scope, and many zones",
     shape_of(node(*ZONES, policy="restricted", scope="pod", max_zones=12))),
    ("nothing of the node as a whole",     shape_of(node(*ZONES))),
    ("zones that are numbered with gaps",  shape_of(node(*ZONES, ids=(0, 3)))),
    ("a version and threads",              shape_of(node(*ZONES, options=Options(minor=34), threads=2))),
    ("managers that zones do not show",
     shape_of(configured(node("cpu=4", cpu_manager=CpuManager.NONE, memory_manager=MemoryManager.NONE)))),
    ("options of the kubelet",
     shape_of(configured(node(*ZONES, policy="restricted", options=TOLD, threads=2)))),
    ("options that no release has, and one that is not known",
     shape_of(configured(node(*ZONES, policy="restricted", options=NOVEL)))),
    ("options that change nothing",        shape_of(configured(node(*ZONES, options=INERT)))),
    ("what was configured",                shape_of(configured(GPU_NODE))),
    ("devices of uncertain zones",
     shape_of(replace(node("cpu=4", "cpu=4"), uncertain=frozenset({"x.io/a", "x.io/b"})))),
    ("uncertain CPUs of a kubelet with options",
     shape_of(replace(configured(node("gpu=4", options=TOLD)), uncertain=frozenset({"cpu"})))),
    ("odd amounts",                        shape_of(node("cpu=1500m/1499m mem=12345 gpu=0"))),
    ("one of two values",
     Shape(shape_of(GPU_NODE).node, labels={"rack": LabelValues(frozenset("ab"), always=False)})),
    ("any value",                     Shape(shape_of(GPU_NODE).node, labels={"host": LabelValues(None)})),
    ("a label that not all have",
     Shape(shape_of(GPU_NODE).node, labels={"host": LabelValues(None, always=False)})),
    ("labels that nobody told of",         Shape(shape_of(GPU_NODE).node, other_labels=True)),
]  # fmt: skip


@pytest.mark.parametrize("known", table(SHAPES))
def test_what_is_remembered_is_read_again(known: Shape) -> None:
    memory = remembered(known)
    read, mistakes = shapes.decode({"data": shapes.encode(memory)})

    assert mistakes == ()
    assert read == memory
    assert read.shapes[0].shape.name == known.name


def test_a_machine_that_was_described_is_remembered_by_its_amounts() -> None:
    described = machine("cpu=0-3 mem=8Gi", "cpu=4-7", threads=2, reserved="0", devices="gpu=0,01")
    known = shape_of(replace(described, threads=2))
    read, mistakes = shapes.decode({"data": shapes.encode(remembered(known))})

    assert mistakes == ()
    assert read == remembered(shape_of(shape.without_machine(known.node)))


@pytest.mark.parametrize("known", table(SHAPES))
def test_what_is_exported_can_be_declared(known: Shape) -> None:
    text = yaml.safe_dump(shapes.exported([KnownShape(known, nodes=3)]))
    listed = Part(yaml.safe_load(text), "shapes")
    [read] = shapes.declared(listed)

    assert listed.mistakes == []
    assert read == known


def test_losses_are_remembered_to_the_second() -> None:
    data = shapes.encode(RememberedShapes(losses={"a": SEEN + 0.75}))

    assert data == {LOSSES: '{"a":"2026-09-21T14:13:20Z"}'}
    assert shapes.decode({"data": data}) == (RememberedShapes(losses={"a": SEEN}), ())


def test_nothing_to_remember_is_nothing_to_write() -> None:
    assert shapes.encode(RememberedShapes()) == {}
    assert shapes.decode({"metadata": {"name": shapes.NAME}}) == (RememberedShapes(), ())


DECLARED = """
- labels: {pool: gpu, rack: {values: [a, b], always: false}, host: {}}
  taints:
  - {key: dedicated, value: gpu, effect: NoSchedule}
  - {key: node.kubernetes.io/not-ready, effect: NoExecute}
  allocatable: {cpu: 62, nvidia.com/gpu: 8}
  attributes:
  - {name: topologyManagerPolicy, value: single-numa-node}
  zones:
  - {name: node-0, type: Node, resources: [{name: cpu, capacity: 32, allocatable: 31}]}
  - {name: node-1, type: Node, resources: [{name: cpu, capacity: 32, allocatable: 31}]}
"""


def test_a_declared_shape_may_have_other_labels_and_has_no_passing_taints() -> None:
    listed = Part(yaml.safe_load(DECLARED), "shapes")
    [read] = shapes.declared(listed)

    assert listed.mistakes == []
    assert read.taints == (Taint("dedicated", "gpu"),)
    assert read.other_labels
    assert read.labels == {
        "pool": LabelValues(frozenset({"gpu"})),
        "rack": LabelValues(frozenset({"a", "b"}), always=False),
        "host": LabelValues(None),
    }
    assert read.node_class.startswith("2x32cpu-single-numa-node-container-")


def test_a_declared_shape_can_say_that_it_has_no_other_labels() -> None:
    [fields] = yaml.safe_load(DECLARED)
    [read] = shapes.declared(Part([{**fields, "otherLabels": False}], "shapes"))

    assert not read.other_labels


ZONE = {"name": "node-0", "type": "Node", "resources": []}
WRONG: list[tuple[str, object, list[str]]] = [
    ("no shapes at all", {}, ["shapes: must be a list, not an object"]),
    ("no object", [1], ["shapes[0]: must be an object, not a number"]),
    ("no zones", [{}], ["shapes[0].zones: is missing"]),
    ("all mistakes of all shapes",
        [{"zone": [], "zones": [ZONE]},
            {"zones": [{**ZONE, "resources": [{"name": "cpu", "capacity": "x"}]}]}],
        ["shapes[0].zone: is not a known field: expected one of " + ", ".join(shapes.FIELDS),
            ('shapes[1].zones[0].resources[0].capacity: "x" is not a quantity: '
                "write a number with at most one suffix, like 4, 500m or 16Gi"),
            "shapes[1].zones[0].resources[0].allocatable: is missing"]),
    ("labels that none can be",
        [{"zones": [ZONE], "labels": {"a b": "c", "d": 1, "e": {"value": "f"}, "g": {"values": ["h i"]}}}],
        ["shapes[0].labels[a b]: no label can have the key 'a b'",
            "shapes[0].labels.d: must be a string, or an object with values and always, not a number",
            "shapes[0].labels.e.value: is not a known field: expected one of values, always",
            "shapes[0].labels.g: no label can have the value 'h i'"]),
    ("a kubelet that does not start",
        [{"zones": [ZONE], "kubelet": {"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}}],
        [("shapes[0].kubelet.cpuManagerPolicyOptions: the kubelet would not start: "
                "the CPU manager's policy none takes no options, not full-pcpus-only")]),
    ("more zones than are read", [{"zones": [ZONE] * 65}],
        ["shapes[0].zones: 65 zones of type Node are more than the 64 that are allowed"]),
    ("more shapes than are read", [{}] * (MOST_SHAPES + 1),
        [f"shapes: {MOST_SHAPES + 1} shapes are more than the {MOST_SHAPES} that are allowed"]),
]  # fmt: skip


@pytest.mark.parametrize(("written", "mistakes"), table(WRONG))
def test_mistakes_are_told_with_their_places(written: object, mistakes: list[str]) -> None:
    listed = Part(written, "shapes")
    shapes.declared(listed)

    assert [str(mistake).partition("\n")[0] for mistake in listed.mistakes] == mistakes


GOOD = shapes.encode(remembered(shape_of(GPU_NODE)))

BROKEN = [
    # what it shows           key      text                       what is told
    ("not JSON",              "x",     "{",                       "data.x: is not JSON"),
    ("nothing",               "x",     "",                        "data.x: is empty"),
    ("no text",               "x",     7,                         "data.x: must be a string, not a number"),
    ("no object",             "x",     "[]",                      "data.x: must be an object, not a list"),
    ("no zones",              "x",     "{}",                      "data.x.zones: is missing"),
    ("a depth of thousands",  "x",     "[" * 100_000,             "data.x: is nested deeper than"),
    ("no losses",             LOSSES,  "[1]",                     "data.losses: must be an object"),
    ("a loss at no time",     LOSSES,  '{"a": "now"}',            'data.losses.a: "now" is not a time'),
    ("a time of no time",     LOSSES,  '{"a": 1}',                "data.losses.a: must be a string"),
]  # fmt: skip


UNREADABLE = LeftOut(math.inf)
"""What cannot be read may be anything, seen at any time."""


@pytest.mark.parametrize(("key", "text", "mistake"), table(BROKEN))
def test_a_broken_entry_is_told_and_costs_only_itself(key: str, text: object, mistake: str) -> None:
    read, [told] = shapes.decode({"data": {**GOOD, key: text}})

    missing = None if key == LOSSES else UNREADABLE
    assert read == replace(remembered(shape_of(GPU_NODE)), left_out=missing)
    assert str(told).startswith(mistake)


def test_fields_that_a_newer_version_writes_are_left_alone() -> None:
    [(name, text)] = GOOD.items()
    newer = orjson.dumps({**orjson.loads(text), "colour": "red"}).decode()

    assert shapes.decode({"data": {name: newer}}) == shapes.decode({"data": GOOD})


def test_a_name_is_reckoned_and_never_believed() -> None:
    [text] = GOOD.values()
    read, mistakes = shapes.decode({"data": {"2x900gpu.00000000": text}})

    assert (read, mistakes) == (remembered(shape_of(GPU_NODE)), ())


HOSTILE = [
    # what it shows             the ConfigMap
    ("a number",                7),
    ("data that is a list",     {"data": ["x"]}),
    ("data that is a text",     {"data": "x"}),
    ("more than is read",       {"data": {"x": "y" * (MOST_BYTES_READ + 1)}}),
    ("more keys than are read", {"data": {f"x{at}": "{}" for at in range(MOST_SHAPES + 3)}}),
]  # fmt: skip


@pytest.mark.parametrize("hostile", table(HOSTILE))
def test_what_is_no_memory_is_none(hostile: object) -> None:
    read, mistakes = shapes.decode(hostile)

    assert read == RememberedShapes(left_out=UNREADABLE)
    assert len(mistakes) == 1


INNER_NAMES = ("type", "resources", "costs", "value", "key", "always", "values", "capacity")
NAMES = st.sampled_from([*shapes.FIELDS, *INNER_NAMES])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=30,
)


@given(JSON, JSON)
def test_whatever_stands_there_nothing_is_raised(entry: object, losses: object) -> None:
    data = {"x": orjson.dumps(entry).decode(), LOSSES: orjson.dumps(losses).decode()}
    read, _ = shapes.decode({"data": {**GOOD, **data}})

    assert remembered(shape_of(GPU_NODE)).shapes[0] in read.shapes


# How much there may be.


def test_the_shapes_of_a_large_cluster_fit(capsys: pytest.CaptureFixture[str]) -> None:
    losses = {f"node-{at:05}.example.internal": SEEN for at in range(15_000)}
    data = shapes.encode(RememberedShapes(tuple(many_shapes(60)), losses))
    size = sum(len(key) + len(text) for key, text in data.items())
    with capsys.disabled():
        sys.stdout.write(f"\n60 shapes with 60 labels, 15,000 nodes ill: {size:,} of {MOST_BYTES:,} bytes\n")

    assert len(data) == 61
    assert size < MOST_BYTES * 7 // 8


def many_shapes(count: int) -> Iterator[KnownShape]:
    """Eight zones and six resources, and sixty labels, some of which are different on every node."""
    zone = "cpu=32/31 mem=251Gi/250Gi gpu=1 nic=1 huge=0 huge2m=0"
    for at in range(count):
        made = node(
            *[zone] * 8, policy="single-numa-node", totals="cpu=248 gpu=8 nic=8", max_zones=8 + at, threads=2
        )
        labels = {
            f"feature.node.kubernetes.io/cpu-feature-{key:02}": LabelValues(frozenset({"true"}))
            for key in range(50)
        }
        labels |= {
            f"topology.example.com/level-{key}": LabelValues(frozenset(f"value-{each}" for each in range(8)))
            for key in range(6)
        }
        labels |= {f"example.com/host-{key}": LabelValues(None) for key in range(4)}
        yield KnownShape(Shape(shape.bare(made), (Taint("dedicated", "gpu"),), labels), seen=SEEN + at)


@pytest.mark.full
def test_of_too_many_shapes_those_that_were_seen_longest_ago_are_left_out() -> None:
    known = [*many_shapes(300)]
    data = shapes.encode(RememberedShapes(tuple(known)))

    assert sum(len(key.encode()) + len(text.encode()) for key, text in data.items()) <= MOST_BYTES
    read, _ = shapes.decode({"data": data})
    count = len(read.shapes)
    assert 60 < count < 300
    assert {each.shape.name for each in read.shapes} == {each.shape.name for each in known[-count:]}
    assert read.left_out == LeftOut(SEEN + 299 - count, frozenset({GPU, NIC}))


def test_a_shape_with_labels_that_are_too_long_is_kept_without_them() -> None:
    labels = {f"{'a' * 250}/{at:063}": LabelValues(frozenset({"v" * 63})) for at in range(MOST_LABELS)}
    made = replace(shape_of(GPU_NODE), labels=labels)
    data = shapes.encode(RememberedShapes((KnownShape(made, seen=SEEN, only_node="n"),)))

    [known] = shapes.decode({"data": data})[0].shapes
    assert known.shape == replace(made, labels={}, other_labels=True)
    assert known.only_node == "n"
    assert len(data[made.name]) <= MOST_BYTES_OF_SHAPE


def test_a_shape_with_names_that_are_too_long_is_left_out_alone() -> None:
    names = {f"{'x' * 240}.example.com/{at:03}": 1 for at in range(200)}
    long = replace(GPU_NODE, totals=Resources({**(GPU_NODE.totals or {}), **names}))
    known = remembered(shape_of(long), shape_of(replace(GPU_NODE, max_zones=9)))

    read, mistakes = shapes.decode({"data": shapes.encode(known)})

    assert (read.shapes, mistakes) == (known.shapes[1:], ())
    assert read.left_out == LeftOut(SEEN)


def test_of_too_many_losses_those_that_last_longest_are_kept() -> None:
    losses = {f"node-{at}": SEEN + at for at in range(MOST_LOSSES + 10)}
    read, _ = shapes.decode({"data": shapes.encode(RememberedShapes(losses=losses))})

    assert read.losses == dict([*losses.items()][:MOST_LOSSES])
    long = {f"{at:0250}": SEEN for at in range(MOST_LOSSES)}
    assert 0 < len(shapes.encode(RememberedShapes(losses=long))[LOSSES]) <= shapes.MOST_BYTES_OF_LOSSES
