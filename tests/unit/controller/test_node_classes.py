"""The classes of nodes, and which labels have to change."""

import asyncio
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

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


async def classified(taken: Snapshot, *, remembers: bool = True, **fields: Any) -> NodeClasses:  # noqa: ANN401  theirs
    made = Classifier(remembers=lambda: remembers, **fields)
    assert made.waiting_for()
    await made.take(taken)
    assert made.waiting_for() is None
    assert made.current
    return made.current


async def test_classes_and_names_are_those_of_all_known_nodes() -> None:
    taken = snapshot(SMALL, LARGE)
    current = await classified(taken)
    assert current == classify(taken)
    assert (current.labels, current.classes) == (
        taken.labels,
        {"a": node_class(SMALL), "b": node_class(LARGE)},
    )

    labelled = replace(taken, node_labels={"a": {NODE_LABEL: "other"}, "b": {"pool": "gpu"}})
    assert (await classified(labelled, names=names_of)).names == {"a": "other", "b": None}
    assert (await classified(labelled, names=no_names)).names == {}


async def test_class_is_computed_once_for_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Mock(side_effect=node_class)
    monkeypatch.setattr(node_classes, "node_class", counted)
    made = Classifier(remembers=lambda: True)
    for nodes in ([SMALL, LARGE], [SMALL, LARGE], [SMALL, replace(SMALL, name="b")], [SMALL]):
        await made.take(snapshot(*nodes))

    assert [call.args[0].name for call in counted.mock_calls] == ["a", "b", "b"]


def test_every_node_gets_its_name_with_its_class() -> None:
    long = "long-" * 20
    names = {"a": "a", "b": None, "c": "x", long: None}

    assert NodeClasses({"b": None}, {"b": "x"}, names=names).changes() == (
        Change("b", None, "x"),
        Change("b", None, "b", NODE_LABEL),
        Change("c", "x", "c", NODE_LABEL),
        Change(long, None, node_label(long), NODE_LABEL),
    )


NAMES = st.sampled_from("abcdef")
CLASSES = st.sampled_from("xyz")
LABELS = st.dictionaries(NAMES, st.none() | CLASSES)
KNOWN = st.dictionaries(NAMES, CLASSES)


@given(LABELS, KNOWN, st.frozensets(NAMES))
def test_changes_are_final_and_touch_no_right_label(
    labels: dict[str, str | None], known: dict[str, str], gone: frozenset[str]
) -> None:
    made = NodeClasses(labels, known).changes(gone=gone)
    after = labels | {change.node: change.after for change in made}
    touched = {change.node for change in made}

    assert NodeClasses(after, known).changes(gone=gone) == ()
    assert all(labels[change.node] == change.before != change.after for change in made)
    assert not touched & {name for name, label in labels.items() if label == known.get(name)}
    assert not touched & (labels.keys() - known.keys() - gone)


# Degraded nodes.

HEALTHY, WITHOUT = node("cpu=8 gpu=4", "cpu=8 gpu=4"), node("cpu=8", "cpu=8")
DEGRADED = replace(WITHOUT, name="c", health=HEALTHY)


def labelled(label: str | None, made: Node, *known: Node) -> Snapshot:
    """A node `c` with a label, and the shapes of these nodes."""
    shapes = tuple(KnownShape(of(each)) for each in known)
    return Snapshot(nodes=(replace(made, name="c"),), labels={"c": label}, shapes=shapes)


IS_HEALTHY, IS_WITHOUT = node_class(HEALTHY), node_class(WITHOUT)
CLASSES_OF: list[tuple[str, Snapshot, bool, str]] = [
    # label of the node, and whether shapes are read
    ("none, degraded, read", labelled(None, DEGRADED, HEALTHY),              True,  IS_HEALTHY),
    ("unknown, not read",    labelled("blue", WITHOUT, WITHOUT),              False, "blue"),
    ("unknown, read",        labelled("blue", WITHOUT, WITHOUT),              True,  IS_WITHOUT),
    ("known, not read",      labelled(IS_HEALTHY, WITHOUT, WITHOUT, HEALTHY), False, IS_WITHOUT),
]  # fmt: skip


@pytest.mark.parametrize(("taken", "remembers", "expected"), table(CLASSES_OF))
async def test_class_of_a_node_whose_label_is(taken: Snapshot, expected: str, *, remembers: bool) -> None:
    assert (await classified(taken, remembers=remembers)).classes == {"c": expected}


async def test_shapes_read_after_a_snapshot_are_not_in_it() -> None:
    read = False
    made = Classifier(remembers=lambda: read)
    taking = asyncio.create_task(made.take(labelled("blue", WITHOUT)))
    await asyncio.sleep(0)
    read = True
    await taking

    assert made.current is not None
    assert made.current.classes == {"c": "blue"}


def test_classes_include_what_degraded_nodes_lack() -> None:
    labels = {"c": node_class(HEALTHY), "d": None}
    current = classify(Snapshot(nodes=(DEGRADED, replace(HEALTHY, name="d")), labels=labels))

    assert current.lacking == {"c": Resources({"nvidia.com/gpu": 8})}
