"""Which nodes of a cluster changed, and in what way."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from numalign.cache.cluster_nodes import ClusterNodes
from numalign.model.attributes import Attributes, Taint
from numalign.model.intent import Policy
from numalign.model.node import Node
from numalign.shapes import shape
from tests.worlds.notation import node, table

FREE = replace(node("cpu=8 mem=8Gi", policy="restricted"), name="n")
USED = replace(node("cpu=8/8/3 mem=8Gi", policy="restricted"), name="n")
WITH_GPUS = replace(node("cpu=8 mem=8Gi gpu=4", policy="restricted"), name="n")
ILL = replace(FREE, health=WITH_GPUS)


def tainted(key: str) -> Node:
    return replace(FREE, attributes=Attributes(taints=(Taint(key),)))


def nodes_of(*nodes: Node) -> ClusterNodes:
    made = ClusterNodes()
    for one in nodes:
        made.put(one)
    return made


def changed(made: ClusterNodes, change: Callable[[], object]) -> tuple[int, int]:
    """How many rows changed in any way, and how many in their facts."""
    logs = (made.changes, made.facts)
    places = [log.place for log in logs]
    change()
    rows = [log.since(place, below=made.height) for log, place in zip(logs, places, strict=True)]
    return tuple(-1 if rows is None else len(rows) for rows in rows)  # type: ignore[return-value]


CHANGES = [
    # what happens to a free node       what it is then                            any change, one of facts
    ("nothing",                         FREE,                                      (0, 0)),
    ("it is told anew",                 replace(FREE),                             (0, 0)),
    ("it is in use",                    USED,                                      (1, 0)),
    ("it is labelled",                  replace(FREE, label="blue"),               (0, 0)),
    ("it is tainted",                   tainted("gpu"),                            (0, 0)),
    ("it falls ill",                    ILL,                                       (1, 1)),
    ("its kubelet gets another policy", replace(FREE, policy=Policy.BEST_EFFORT),  (1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("after", "rows"), table(CHANGES))
def test_changes_are_noted_if(after: Node, rows: tuple[int, int]) -> None:
    made = nodes_of(FREE)

    assert changed(made, lambda: made.put(after)) == rows
    assert made.get("n") == after
    assert made.shape_of("n") == shape.of(after).name
    assert made.shapes.every() == {shape.of(after).name}
    assert made.classes.every() == {*filter(None, [after.label])}


def test_a_degraded_node_has_its_healthy_shape() -> None:
    assert nodes_of(ILL).shape_of("n") == nodes_of(WITH_GPUS).shape_of("n") != nodes_of(FREE).shape_of("n")


def test_cached_shape_names_are_limited() -> None:
    made = ClusterNodes(most_shape_names=3)
    for limit in range(8):
        made.put(replace(FREE, max_zones=limit))
    made.put(FREE)

    assert made.shape_of("n") == shape.of(FREE).name


def test_a_removed_node_has_changed() -> None:
    made = nodes_of(FREE, replace(FREE, name="other"))

    assert changed(made, lambda: made.drop("n")) == (1, 1)
    assert made.get("n") is None
    assert [node.name for node in made] == ["other"]
