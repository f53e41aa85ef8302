"""Which classes nodes have and which labels are not true, and that no class is worked out twice."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import node_classes
from controller.node_classes import Change, Classifier, NodeClasses, classify, names_of, no_names
from numalign.kube.cluster_state import Snapshot
from numalign.model.intent import NODE_LABEL
from numalign.model.node import Node, node_class, node_label
from numalign.model.resources import Resources
from numalign.shapes import KnownShape
from numalign.shapes.shape import of
from tests.worlds.notation import node, table

SMALL, LARGE = (replace(node(*[zone] * 2), name=name) for name, zone in (("a", "cpu=8"), ("b", "cpu=64")))


def snapshot(*nodes: Node) -> Snapshot:
    return Snapshot(nodes=nodes, labels={"a": "blue", "b": None, "c": None})


async def test_every_label_is_there_and_the_class_of_every_known_node() -> None:
    made = Classifier(remembers=lambda: True)
    waiting = made.waiting_for()
    await made.take(snapshot(SMALL, LARGE))

    assert waiting
    assert made.waiting_for() is None
    assert made.current == classify(snapshot(SMALL, LARGE))
    assert made.current.labels == {"a": "blue", "b": None, "c": None}
    assert made.current.classes == {"a": node_class(SMALL), "b": node_class(LARGE)}


async def test_a_class_is_worked_out_once_for_each_node_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(each: Node) -> str:
        asked.append(each.name)
        return node_class(each)

    monkeypatch.setattr(node_classes, "node_class", counted)
    made = Classifier(remembers=lambda: True)
    await made.take(snapshot(SMALL, LARGE))
    await made.take(snapshot(SMALL, LARGE))
    await made.take(snapshot(SMALL, replace(SMALL, name="b")))
    await made.take(snapshot(SMALL))

    assert asked == ["a", "b", "b"]
    assert made.current is not None
    assert made.current.classes == {"a": node_class(SMALL)}


# What has to change.


@pytest.mark.parametrize(
    ("labels", "known", "expected"),
    table(
        [
            ("a new node gets its class", {"a": None}, {"a": "x"}, [Change("a", None, "x")]),
            ("a wrong one is set right", {"a": "y"}, {"a": "x"}, [Change("a", "y", "x")]),
            ("a right one is left alone", {"a": "x"}, {"a": "x"}, []),
            ("a topology without a node is skipped", {}, {"a": "x"}, []),
            ("a node without anything is left alone", {"a": None}, {}, []),
            ("a label without topology stays", {"a": "x"}, {}, []),
            (
                "they come by name",
                {"b": None, "a": "x"},
                {"a": "y", "b": "x"},
                [Change("a", "x", "y"), Change("b", None, "x")],
            ),
        ]
    ),
)
def test_what_changes(labels: dict[str, str | None], known: dict[str, str], expected: list[Change]) -> None:
    assert list(NodeClasses(labels, known).changes()) == expected


def test_a_topology_that_is_gone_for_good_takes_its_label_along() -> None:
    labels = {"a": "x", "b": "x", "c": None}

    assert NodeClasses(labels, {"b": "x"}).changes(gone={"a", "b", "c"}) == (Change("a", "x", None),)


NAMED = {"a": "a", "b": None, "c": "x", "long-" * 20: None}


def test_every_node_gets_its_name_beside_its_class() -> None:
    changes = NodeClasses({"b": None}, {"b": "x"}, names=NAMED).changes()

    assert changes == (
        Change("b", None, "x"),
        Change("b", None, "b", NODE_LABEL),
        Change("c", "x", "c", NODE_LABEL),
        Change("long-" * 20, None, node_label("long-" * 20), NODE_LABEL),
    )


@pytest.mark.parametrize("names", [True, False])
async def test_the_names_on_nodes_are_read_where_they_are_maintained(*, names: bool) -> None:
    made = Classifier(remembers=lambda: True, names=names_of if names else no_names)
    labels = {"a": {NODE_LABEL: "other"}, "b": {"pool": "gpu"}}
    await made.take(replace(snapshot(SMALL), node_labels=labels))

    assert made.current
    assert made.current.names == ({"a": "other", "b": None} if names else {})


NAMES = st.sampled_from("abcdef")
CLASSES = st.sampled_from("xyz")
LABELS = st.dictionaries(NAMES, st.none() | CLASSES)
KNOWN = st.dictionaries(NAMES, CLASSES)


@given(LABELS, KNOWN, st.frozensets(NAMES))
def test_what_was_changed_needs_no_change_and_no_other_node_is_touched(
    labels: dict[str, str | None], known: dict[str, str], gone: frozenset[str]
) -> None:
    made = NodeClasses(labels, known).changes(gone=gone)
    after = labels | {change.node: change.after for change in made}
    touched = {change.node for change in made}

    assert NodeClasses(after, known).changes(gone=gone) == ()
    assert all(labels[change.node] == change.before != change.after for change in made)
    assert not touched & {name for name, label in labels.items() if label == known.get(name)}
    assert not touched & (labels.keys() - known.keys() - gone)


# Nodes that are ill.

WELL, WITHOUT = node("cpu=8 gpu=4", "cpu=8 gpu=4"), node("cpu=8", "cpu=8")
ILL = replace(WITHOUT, name="c", health=WELL)
GPUS = "nvidia.com/gpu"


def known(*nodes: Node) -> tuple[KnownShape, ...]:
    """The shapes of these."""
    return tuple(KnownShape(of(each)) for each in nodes)


async def test_a_node_that_is_ill_has_the_class_that_it_has_in_health() -> None:
    made = Classifier(remembers=lambda: True)
    await made.take(Snapshot(nodes=(ILL,), labels={"c": node_class(WELL)}, shapes=known(WELL)))

    assert made.current is not None
    assert made.current.classes == {"c": node_class(WELL)}


@pytest.mark.parametrize(
    ("remembers", "shapes", "expected"),
    table(
        [
            ("what it was was never read", False, known(WITHOUT), "blue"),
            ("what it was is not remembered", True, known(WITHOUT), node_class(WITHOUT)),
        ]
    ),
)
async def test_a_label_of_a_class_that_nobody_knows_stands_until_it_was_read_what_nodes_were(
    shapes: tuple[KnownShape, ...], expected: str, *, remembers: bool
) -> None:
    made = Classifier(remembers=lambda: remembers)
    await made.take(Snapshot(nodes=(replace(WITHOUT, name="c"),), labels={"c": "blue"}, shapes=shapes))

    assert made.current is not None
    assert made.current.classes == {"c": expected}


async def test_before_it_was_read_what_nodes_were_all_others_are_classed() -> None:
    """Those without a label, and those of a class that is known: it can be seen that they are not ill."""
    made = Classifier(remembers=lambda: False)
    nodes = (replace(WITHOUT, name="new"), replace(WITHOUT, name="rebuilt"))
    labels = {"new": None, "rebuilt": node_class(WELL)}
    await made.take(Snapshot(nodes=nodes, labels=labels, shapes=known(WITHOUT, WELL)))

    assert made.current is not None
    assert made.current.classes == dict.fromkeys(("new", "rebuilt"), node_class(WITHOUT))


async def test_what_is_read_after_a_snapshot_was_made_is_not_in_it() -> None:
    read = False
    made = Classifier(remembers=lambda: read)
    taking = asyncio.create_task(
        made.take(Snapshot(nodes=(replace(WITHOUT, name="c"),), labels={"c": "blue"}))
    )
    await asyncio.sleep(0)
    read = True
    await taking

    assert made.current is not None
    assert made.current.classes == {"c": "blue"}


def test_the_classes_of_a_dry_run_have_what_the_ill_lack() -> None:
    found = Snapshot(nodes=(ILL, replace(WELL, name="d")), labels={"c": node_class(WELL), "d": None})

    assert classify(found).lacking == {"c": Resources({GPUS: 8})}
