"""By which names nodes go, row by row."""

from dataclasses import replace

import numpy as np
import pytest

from numalign.fleet.classes import Classes
from numalign.rules.topology import Node, node_class
from tests.notation import node

SMALL, LARGE = node("cpu=4 mem=8Gi"), node("cpu=64 mem=8Gi")


def classes(*nodes: Node) -> Classes:
    made = Classes()
    for row, each in enumerate(nodes):
        made.put(row, each)
        made.label(row, each)
    return made


def labelled(made: Node, label: str) -> Node:
    return replace(made, label=label)


def among(made: Classes, *rows: int) -> set[str]:
    chosen = np.zeros(1 + max(rows, default=0), dtype=np.bool_)
    chosen[list(rows)] = True
    return {*made.among(chosen)}


def test_a_node_goes_by_its_facts_and_by_its_label() -> None:
    made = classes(SMALL, labelled(LARGE, "blue"))

    assert made.every() == tuple(sorted([node_class(SMALL), node_class(LARGE), "blue"]))
    assert [made.of(0), made.of(1)] == [node_class(SMALL), node_class(LARGE)]
    assert among(made, 0) == {node_class(SMALL)}
    assert among(made, 1) == {node_class(LARGE), "blue"}


def test_a_label_that_is_taken_away_is_no_name_any_more() -> None:
    made = classes(labelled(SMALL, "blue"))
    made.label(0, SMALL)

    assert made.every() == (node_class(SMALL),)


def test_a_node_that_has_gone_goes_by_no_name() -> None:
    made = classes(SMALL, LARGE)
    made.drop(0)

    assert made.every() == (node_class(LARGE),)
    assert among(made, 0) == set()


def test_no_rows_have_no_names() -> None:
    assert among(classes(SMALL)) == set()
    assert {*Classes().among(np.zeros(0, dtype=np.bool_))} == set()
    assert Classes().every() == ()


def test_each_class_is_told_with_one_of_its_nodes_and_their_number() -> None:
    made = classes(SMALL, LARGE, labelled(SMALL, "blue"))

    told = {
        name: (row in rows, count)
        for (name, row, count), rows in zip(made.members(), ({0, 2}, {1}), strict=True)
    }

    assert told == {node_class(SMALL): (True, 2), node_class(LARGE): (True, 1)}


def test_of_no_nodes_there_are_no_classes() -> None:
    assert list(Classes().members()) == []


def test_there_may_be_very_many() -> None:
    made = classes(*(labelled(SMALL, f"label-{number}") for number in range(100)))

    assert len(made.every()) == 101


def test_a_copy_changes_apart() -> None:
    made = classes(SMALL)
    other = made.copy()
    other.put(0, LARGE)

    assert (made.every(), other.every()) == ((node_class(SMALL),), (node_class(LARGE),))


@pytest.mark.parametrize("gone", [10, 3000])
def test_names_that_no_node_goes_by_are_forgotten_in_time(gone: int) -> None:
    made = classes(SMALL, labelled(LARGE, "blue"))
    for number in range(gone):
        made.label(0, labelled(SMALL, f"label-{number}"))
    told = made.every()

    other = made.copy()

    assert other.every() == told
    assert [other.of(0), other.of(1)] == [node_class(SMALL), node_class(LARGE)]
    assert len(other.copy()) < 300


def test_after_everything_has_gone_there_is_nothing() -> None:
    made = classes(*(labelled(SMALL, f"label-{number}") for number in range(500)))
    for row in range(500):
        made.drop(row)

    assert made.copy().every() == ()
