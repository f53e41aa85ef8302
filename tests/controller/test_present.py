"""What is known of the nodes at a moment, and that no class is worked out twice."""

from dataclasses import replace

import pytest

from controller import present
from controller.present import Present
from numalign.cluster.world import Snapshot
from numalign.rules.topology import Node, node_class
from tests.notation import node

SMALL, LARGE = (replace(node(*[zone] * 2), name=name) for name, zone in (("a", "cpu=8"), ("b", "cpu=64")))


def snapshot(*nodes: Node) -> Snapshot:
    return Snapshot(nodes=nodes, labels={"a": "blue", "b": None, "c": None})


async def test_the_moment_has_every_label_and_the_classes_of_what_is_known() -> None:
    made = Present()
    waiting = made.waiting_for()
    await made.take(snapshot(SMALL, LARGE))

    assert waiting
    assert made.waiting_for() is None
    assert made.now == present.moment(snapshot(SMALL, LARGE))
    assert made.now.labels == {"a": "blue", "b": None, "c": None}
    assert made.now.classes == {"a": node_class(SMALL), "b": node_class(LARGE)}


async def test_a_class_is_worked_out_once_for_each_node_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(each: Node) -> str:
        asked.append(each.name)
        return node_class(each)

    monkeypatch.setattr(present, "node_class", counted)
    made = Present()
    await made.take(snapshot(SMALL, LARGE))
    await made.take(snapshot(SMALL, LARGE))
    await made.take(snapshot(SMALL, replace(SMALL, name="b")))
    await made.take(snapshot(SMALL))

    assert asked == ["a", "b", "b"]
    assert made.now is not None
    assert made.now.classes == {"a": node_class(SMALL)}
