"""What is known of the nodes at a moment, and that no class is worked out twice."""

import asyncio
from dataclasses import replace

import pytest

from controller import present
from controller.present import Present
from numalign.kube.cluster_state import Snapshot
from numalign.model.node import Node, node_class
from numalign.model.resources import Resources
from numalign.shapes import KnownShape
from numalign.shapes.shape import of
from tests.notation import node, table

SMALL, LARGE = (replace(node(*[zone] * 2), name=name) for name, zone in (("a", "cpu=8"), ("b", "cpu=64")))


def snapshot(*nodes: Node) -> Snapshot:
    return Snapshot(nodes=nodes, labels={"a": "blue", "b": None, "c": None})


async def test_the_moment_has_every_label_and_the_classes_of_what_is_known() -> None:
    made = Present(remembers=lambda: True)
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
    made = Present(remembers=lambda: True)
    await made.take(snapshot(SMALL, LARGE))
    await made.take(snapshot(SMALL, LARGE))
    await made.take(snapshot(SMALL, replace(SMALL, name="b")))
    await made.take(snapshot(SMALL))

    assert asked == ["a", "b", "b"]
    assert made.now is not None
    assert made.now.classes == {"a": node_class(SMALL)}


# Nodes that are ill.

WELL, WITHOUT = node("cpu=8 gpu=4", "cpu=8 gpu=4"), node("cpu=8", "cpu=8")
ILL = replace(WITHOUT, name="c", health=WELL)
GPUS = "nvidia.com/gpu"


def known(*nodes: Node) -> tuple[KnownShape, ...]:
    """The shapes of these."""
    return tuple(KnownShape(of(each)) for each in nodes)


async def test_a_node_that_is_ill_has_the_class_that_it_has_in_health() -> None:
    made = Present(remembers=lambda: True)
    await made.take(Snapshot(nodes=(ILL,), labels={"c": node_class(WELL)}, shapes=known(WELL)))

    assert made.now is not None
    assert made.now.classes == {"c": node_class(WELL)}


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
    made = Present(remembers=lambda: remembers)
    await made.take(Snapshot(nodes=(replace(WITHOUT, name="c"),), labels={"c": "blue"}, shapes=shapes))

    assert made.now is not None
    assert made.now.classes == {"c": expected}


async def test_before_it_was_read_what_nodes_were_all_others_are_classed() -> None:
    """Those without a label, and those of a class that is known: it can be seen that they are not ill."""
    made = Present(remembers=lambda: False)
    nodes = (replace(WITHOUT, name="new"), replace(WITHOUT, name="rebuilt"))
    labels = {"new": None, "rebuilt": node_class(WELL)}
    await made.take(Snapshot(nodes=nodes, labels=labels, shapes=known(WITHOUT, WELL)))

    assert made.now is not None
    assert made.now.classes == dict.fromkeys(("new", "rebuilt"), node_class(WITHOUT))


async def test_what_is_read_after_a_snapshot_was_made_is_not_in_it() -> None:
    read = False
    made = Present(remembers=lambda: read)
    taking = asyncio.create_task(
        made.take(Snapshot(nodes=(replace(WITHOUT, name="c"),), labels={"c": "blue"}))
    )
    await asyncio.sleep(0)
    read = True
    await taking

    assert made.now is not None
    assert made.now.classes == {"c": "blue"}


def test_the_moment_of_a_rehearsal_says_who_is_ill() -> None:
    found = Snapshot(nodes=(ILL, replace(WELL, name="d")), labels={"c": node_class(WELL), "d": None})

    assert present.moment(found).ill == {"c": Resources({GPUS: 8})}
