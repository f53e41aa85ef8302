"""Which shapes there are, by row, and which of them changed."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from numalign.cache.shape_table import ShapeTable, deriving
from numalign.model.attributes import Attributes, Labels
from numalign.model.node import Node
from numalign.model.steps import finished
from numalign.shapes import KnownShape, LabelValues, keyed, shape
from tests.worlds.notation import node, table

LESS, MORE = (node(f"cpu=8 mem={size}Mi gpu=1", policy="restricted") for size in (8190, 8191))
"""Two nodes of one shape."""

OTHER = node("cpu=8 mem=8Gi nic=2", policy="restricted")


def known_shape(made: Node, *, nodes: int = 1) -> KnownShape:
    return KnownShape(shape.of(made), nodes)


def labelled(made: Node, **labels: str) -> Node:
    return replace(made, attributes=Attributes(labels=Labels(labels)))


def shapes(*given: KnownShape) -> ShapeTable:
    return become(ShapeTable(), given)


def become(made: ShapeTable, given: Sequence[KnownShape]) -> ShapeTable:
    after = keyed(given)
    made.update({**dict.fromkeys(keyed(known for _, known in made.known())), **after})
    return made


def changed(made: ShapeTable, change: Callable[[], object]) -> tuple[int, int]:
    """Of how many shapes anything was told, and of how many it was what could ever be."""
    places = [(log, log.place) for log in (made.all_changes, made.facts)]
    change()
    rows = [log.since(place, below=made.height) for log, place in places]
    return tuple(-1 if each is None else len(each) for each in rows)  # type: ignore[return-value]


CHANGES = [
    # what becomes of a shape       what is known then                    told, of these facts
    ("nothing",                     [known_shape(LESS)],                        (0, 0)),
    ("it has more nodes",           [known_shape(LESS, nodes=9)],               (0, 0)),
    ("its last node has gone",      [replace(known_shape(LESS), seen=5.0)],     (0, 0)),
    ("a larger node was seen",      [known_shape(MORE)],                        (1, 1)),
    ("a node has a label",          [known_shape(labelled(LESS, a="1"))],       (1, 0)),
    ("another one comes",           [known_shape(LESS), known_shape(OTHER)],          (1, 1)),
    ("it is forgotten",             [],                                   (1, 1)),
    ("it is declared, too",         [known_shape(LESS), replace(known_shape(LESS), declared=True)], (1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("after", "rows"), table(CHANGES))
def test_changes_are_noted_if(after: Sequence[KnownShape], rows: tuple[int, int]) -> None:
    made = shapes(known_shape(LESS))

    assert changed(made, lambda: become(made, after)) == rows
    assert [each for _, each in made.known()] == [*after]


def test_declared_shapes_have_rows_of_their_own() -> None:
    declared = [replace(known_shape(each), declared=True) for each in (LESS, MORE)]
    made = shapes(known_shape(LESS), *declared)

    rows = [row for row, _ in made.known()]
    assert len({*rows}) == 3
    assert made.rows_by_name()[shape.of(LESS).name] == rows[0]


def test_classes_and_resources_of_all_shapes() -> None:
    made = shapes(known_shape(LESS), known_shape(OTHER))

    assert made.classes == {shape.of(each).node_class for each in (LESS, OTHER)}
    assert made.listed == {"cpu", "memory", "nvidia.com/gpu", "example.com/nic"}


# Shapes that nodes show.


def test_a_shape_has_the_largest_node_and_all_labels() -> None:
    nodes = [labelled(LESS, zone="a"), labelled(MORE, zone="b"), labelled(LESS, zone="a")]
    name = shape.of(LESS).name

    (derived,) = finished(deriving((name, each) for each in nodes)).values()

    assert derived.nodes == 3
    assert derived.shape.node == shape.of(MORE).node
    assert derived.shape.labels == {"zone": LabelValues(frozenset({"a", "b"}))}


def test_a_degraded_node_shows_its_healthy_shape() -> None:
    ill = replace(node("cpu=8 mem=8Gi", policy="restricted"), health=LESS)

    (derived,) = finished(deriving([(shape.of(ill).name, ill)])).values()

    assert derived == known_shape(LESS)
