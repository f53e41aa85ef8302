"""What a dry run prints."""

from dataclasses import replace

from controller.dry_run import report, unnamed
from numalign.model.intent import NODE_LABEL
from numalign.model.node import node_class
from numalign.model.resources import Resources
from tests.unit.controller.conftest import classes_of
from tests.worlds.clusters import a_cluster
from tests.worlds.notation import node

SMALL, LARGE = node("cpu=8", "cpu=8"), node("cpu=64", "cpu=64")
IS_SMALL, IS_LARGE = node_class(SMALL), node_class(LARGE)


def test_every_change_and_every_degraded_node_is_listed() -> None:
    nodes = classes_of(
        {"dgx-1": None, "n": "old", "gone": "old", "a": IS_LARGE}, **{"dgx-1": SMALL, "n": LARGE, "a": LARGE}
    )
    nodes = replace(nodes, lacking={"a": Resources({"nvidia.com/gpu": 8, "rdma/hca": 1})})

    assert report(nodes).splitlines() == [
        f"dgx-1: no label -> {IS_SMALL}",
        "gone:  old      -> no label, after 300 s without topology",
        f"n:     old      -> {IS_LARGE}",
        f"a: degraded, lacks 8 nvidia.com/gpu, 1 rdma/hca; its class when healthy is {IS_LARGE}",
    ]


def test_lack_of_changes_and_names_is_counted() -> None:
    for labels, count in (
        ({}, "0 nodes are"),
        ({"a": IS_SMALL}, "1 node is"),
        ({"a": IS_SMALL, "c": None}, "1 node is"),
    ):
        assert report(classes_of(labels, a=SMALL)) == f"nothing would change ({count} labelled)"

    cluster = a_cluster(labels={"a": {NODE_LABEL: "a"}, "b": {}, "c": {NODE_LABEL: "x"}})
    assert unnamed(cluster) == "2 nodes would get the label numalign.io/node with their name"
