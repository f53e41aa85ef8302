"""What a dry run prints."""

from dataclasses import replace

import pytest

from controller.dry_run import report, unnamed
from numalign.kube.cluster_state import Snapshot
from numalign.model.intent import NODE_LABEL
from numalign.model.node import node_class
from numalign.model.resources import Resources
from tests.unit.controller.conftest import classes_of
from tests.worlds.notation import node

SMALL, LARGE = node("cpu=8", "cpu=8"), node("cpu=64", "cpu=64")
IS_SMALL, IS_LARGE = node_class(SMALL), node_class(LARGE)


def test_every_change_is_listed() -> None:
    nodes = classes_of({"dgx-1": None, "n": "old", "gone": "old"}, **{"dgx-1": SMALL, "n": LARGE})

    assert report(nodes).splitlines() == [
        f"dgx-1: no label -> {IS_SMALL}",
        "gone:  old      -> no label, after 300 s without topology",
        f"n:     old      -> {IS_LARGE}",
    ]


def test_nodes_that_would_get_their_name_are_counted() -> None:
    snapshot = Snapshot(node_labels={"a": {NODE_LABEL: "a"}, "b": {}, "c": {NODE_LABEL: "x"}})

    assert unnamed(snapshot) == "2 nodes would get the label numalign.io/node with their name"


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ({}, "nothing would change (0 nodes are labelled)"),
        ({"a": IS_SMALL}, "nothing would change (1 node is labelled)"),
        ({"a": IS_SMALL, "b": IS_SMALL, "c": None}, "nothing would change (2 nodes are labelled)"),
    ],
)
def test_lack_of_changes_is_printed(labels: dict[str, str | None], text: str) -> None:
    assert report(classes_of(labels, a=SMALL, b=SMALL)) == text


def test_degraded_node_is_listed_and_keeps_its_label() -> None:
    lacks = {"a": Resources({"nvidia.com/gpu": 8, "rdma/hca": 1})}
    nodes = replace(classes_of({"a": IS_LARGE, "b": None}, a=LARGE, b=SMALL), lacking=lacks)

    assert report(nodes).splitlines() == [
        f"b: no label -> {IS_SMALL}",
        f"a: degraded, lacks 8 nvidia.com/gpu, 1 rdma/hca; its class when healthy is {IS_LARGE}",
    ]
