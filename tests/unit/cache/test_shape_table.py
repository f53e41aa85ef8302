"""Which shapes there are, by row, and which of them changed."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from numalign.cache.shape_table import ShapeTable, deriving
from numalign.model.attributes import Attributes, Labels, Taint
from numalign.model.node import Node
from numalign.model.steps import finished
from numalign.shapes import KnownShape, LabelValues, shape
from tests.worlds.notation import node, table

LESS, MORE = (node(f"cpu=8 mem={size}Mi gpu=1", policy="restricted") for size in (8190, 8191))
"""Two nodes of one shape."""

OTHER = node("cpu=8 mem=8Gi nic=2", policy="restricted")


def known(made: Node, *, nodes: int = 1) -> KnownShape:
    return KnownShape(shape.of(made), nodes)


def labelled(made: Node, **labels: str) -> Node:
    return replace(made, attributes=Attributes(labels=Labels(labels)))


def shapes(*given: KnownShape) -> ShapeTable:
    made = ShapeTable()
    made.replace_all(given)
    return made


def told(made: ShapeTable, change: Callable[[], object]) -> tuple[int, int]:
    """Of how many shapes anything was told, and of how many it was what could ever be."""
    places = [(log, log.place) for log in (made.all_changes, made.facts)]
    change()
    rows = [log.since(place, below=made.height) for log, place in places]
    return tuple(-1 if each is None else len(each) for each in rows)  # type: ignore[return-value]


CHANGES = [
    # what becomes of a shape       what is known then                    told, of these facts
    ("nothing",                     [known(LESS)],                        (0, 0)),
    ("it has more nodes",           [known(LESS, nodes=9)],               (0, 0)),
    ("its last node has gone",      [replace(known(LESS), seen=5.0)],     (0, 0)),
    ("a larger node was seen",      [known(MORE)],                        (1, 1)),
    ("a node has a label",          [known(labelled(LESS, a="1"))],       (1, 0)),
    ("another one comes",           [known(LESS), known(OTHER)],          (1, 1)),
    ("it is forgotten",             [],                                   (1, 1)),
    ("it is declared, too",         [known(LESS), replace(known(LESS), declared=True)], (1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("after", "rows"), table(CHANGES))
def test_it_is_told_what_changed_if(after: Sequence[KnownShape], rows: tuple[int, int]) -> None:
    made = shapes(known(LESS))

    assert told(made, lambda: made.replace_all(after)) == rows
    assert [each for _, each in made.known()] == [*after]


def test_shapes_of_one_name_that_were_declared_keep_their_rows_apart() -> None:
    declared = [replace(known(each), declared=True) for each in (LESS, MORE)]
    made = shapes(known(LESS), *declared)

    rows = [row for row, _ in made.known()]
    assert len({*rows}) == 3
    assert made.rows_by_name()[shape.of(LESS).name] == rows[0]


def test_what_is_told_of_them_all() -> None:
    made = shapes(known(LESS), known(OTHER))

    assert made.classes == {shape.of(each).node_class for each in (LESS, OTHER)}
    assert made.listed == {"cpu", "memory", "nvidia.com/gpu", "example.com/nic"}


# Shapes that nodes show.


def test_nodes_show_the_largest_of_them_and_all_their_labels() -> None:
    nodes = [labelled(LESS, zone="a"), labelled(MORE, zone="b"), labelled(LESS, zone="a")]
    name = shape.of(LESS).name

    (found,) = finished(deriving((name, each) for each in nodes))

    assert found.nodes == 3
    assert found.shape.node == shape.of(MORE).node
    assert found.shape.labels == {"zone": LabelValues(frozenset({"a", "b"}))}


def test_a_node_that_is_ill_shows_what_it_has_in_health() -> None:
    ill = replace(node("cpu=8 mem=8Gi", policy="restricted"), health=LESS)

    (found,) = finished(deriving([(shape.of(ill).name, ill)]))

    assert found == known(LESS)


def test_nodes_of_several_shapes_show_each_of_them() -> None:
    tainted = replace(LESS, attributes=Attributes(taints=(Taint("gpu"),)))

    found = finished(deriving((shape.of(each).name, each) for each in (LESS, tainted, OTHER)))

    assert {each.shape for each in found} == {shape.of(each) for each in (LESS, tainted, OTHER)}
    assert finished(deriving([])) == []
