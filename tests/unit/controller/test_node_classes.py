"""The classes of nodes, and which labels have to change."""

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import node_classes
from controller.node_classes import Classifier, LabelChange, NodeClasses, classify
from numalign.kube.cluster import NO_NODE, Cluster, NodeChanged, NodeState, Settled
from numalign.model.intent import NODE_LABEL
from numalign.model.node import Node, node_class, node_label
from numalign.model.resources import Resources
from numalign.shapes import KnownShape
from numalign.shapes.shape import of
from tests.worlds.clusters import a_cluster, become
from tests.worlds.notation import node, table

SMALL, LARGE = (replace(node(*[zone] * 2), name=name) for name, zone in (("a", "cpu=8"), ("b", "cpu=64")))


def cluster(*nodes: Node, **more: Any) -> Cluster:  # noqa: ANN401  those of `a_cluster`
    return a_cluster(nodes, classes={"a": "blue", "b": None, "c": None}, **more)


def classified(taken: Cluster, *, remembers: bool = True, names: bool = False) -> NodeClasses:
    current = Classifier(taken, remembers=lambda: remembers, names=names).current
    assert current
    return current


def test_classes_and_names_are_those_of_all_known_nodes() -> None:
    taken = cluster(SMALL, LARGE, labels={"a": {NODE_LABEL: "other"}, "b": {"pool": "gpu"}})
    current = classified(taken)
    assert current == classify(taken)
    assert current.labels == {"a": "blue", "b": None, "c": None}
    assert current.classes == {"a": node_class(SMALL), "b": node_class(LARGE)}

    assert classified(taken, names=True).names == {"a": "other", "b": None}
    assert current.names == {}


def test_nothing_is_known_before_the_whole_cluster_is() -> None:
    taken = Cluster()
    classifier = Classifier(taken, remembers=lambda: True)
    taken.apply(NodeChanged("a", NO_NODE, NodeState(SMALL)))
    assert classifier.current is None


def test_class_is_computed_once_for_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Mock(side_effect=node_class)
    monkeypatch.setattr(node_classes, "node_class", counted)
    taken = Cluster()
    classifier = Classifier(taken, remembers=lambda: True)
    for nodes in ([SMALL, LARGE], [SMALL, LARGE], [SMALL, replace(SMALL, name="b")], [SMALL]):
        become(taken, cluster(*nodes))
        kept = classifier.current
        assert classifier.current is kept

    assert [call.args[0].name for call in counted.mock_calls] == ["a", "b", "b"]


def test_every_node_gets_its_name_with_its_class() -> None:
    long = "long-" * 20
    names = {"a": "a", "b": None, "c": "x", long: None}

    assert NodeClasses({"b": None}, {"b": "x"}, names=names).changes() == (
        LabelChange("b", None, "x"),
        LabelChange("b", None, "b", NODE_LABEL),
        LabelChange("c", "x", "c", NODE_LABEL),
        LabelChange(long, None, node_label(long), NODE_LABEL),
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


def labelled(label: str | None, made: Node, *known: Node) -> Cluster:
    """A node `c` with a label, and the shapes of these nodes."""
    shapes = [KnownShape(of(each)) for each in known]
    return a_cluster([replace(made, name="c")], classes={"c": label}, shapes=shapes)


IS_HEALTHY, IS_WITHOUT = node_class(HEALTHY), node_class(WITHOUT)
CLASSES_OF: list[tuple[str, Cluster, bool, str]] = [
    # label of the node, and whether shapes are read
    ("none, degraded, read", labelled(None, DEGRADED, HEALTHY),              True,  IS_HEALTHY),
    ("unknown, not read",    labelled("blue", WITHOUT, WITHOUT),              False, "blue"),
    ("unknown, read",        labelled("blue", WITHOUT, WITHOUT),              True,  IS_WITHOUT),
    ("known, not read",      labelled(IS_HEALTHY, WITHOUT, WITHOUT, HEALTHY), False, IS_WITHOUT),
]  # fmt: skip


@pytest.mark.parametrize(("taken", "remembers", "expected"), table(CLASSES_OF))
def test_class_of_a_node_whose_label_is(taken: Cluster, expected: str, *, remembers: bool) -> None:
    assert classified(taken, remembers=remembers).classes == {"c": expected}


def test_shapes_read_since_the_last_change_do_not_count() -> None:
    read, taken = False, labelled("blue", WITHOUT)
    classifier = Classifier(taken, remembers=lambda: read)
    read = True
    assert classifier.current
    assert classifier.current.classes == {"c": "blue"}
    taken.apply(Settled())
    assert classifier.current.classes == {"c": IS_WITHOUT}


def test_classes_include_what_degraded_nodes_lack() -> None:
    labels = {"c": node_class(HEALTHY), "d": None}
    current = classify(a_cluster([DEGRADED, replace(HEALTHY, name="d")], classes=labels))

    assert current.lacking == {"c": Resources({"nvidia.com/gpu": 8})}
