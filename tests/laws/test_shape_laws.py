"""Laws of shapes: they err on one side, whatever a cluster goes through and whoever writes down what was."""

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from numalign.decision.evaluate import evaluate
from numalign.model.attributes import Labels
from numalign.model.constraints import unmet_ever
from numalign.model.node import Node, Zone, node_class
from numalign.model.resources import MEMORY, Resources
from numalign.shapes import GrowablePools, Identity, Pool, RememberedShapes, ShapeHistory
from numalign.shapes.health import with_devices_of
from numalign.shapes.shape import Shape, of
from tests.laws.fleets import Pick, counted, fleet, ill, question, seeded, worn
from tests.laws.places import WORDS, attributes, constraints

NOW = 1e9
MACHINE = Identity("u")
seeds = st.integers(0, 2**32)


def kind(pick: Pick) -> Node:
    """A node in health, with a name."""
    return replace(counted(pick), name="n0")


def standing(pick: Pick, node: Node) -> Node:
    """The node, worn, somewhere."""
    return replace(worn(pick, node), attributes=attributes(pick))


def together(pick: Pick) -> tuple[Shape, list[Node]]:
    """A shape, and the nodes that it was made of: of one kind, each with labels and pods of its own."""
    made, taints = kind(pick), attributes(pick).taints
    nodes = [standing(pick, made) for _ in range(pick([1, 2, 3]))]
    nodes = [replace(one, attributes=replace(one.attributes, taints=taints)) for one in nodes]
    joined_shape = of(nodes[0])
    for one in nodes[1:]:
        joined_shape = joined_shape.joined(of(one))
    return joined_shape, nodes


def book_of(nodes: list[Node] | tuple[Node, ...], memory: RememberedShapes | None = None) -> ShapeHistory:
    made = ShapeHistory(wall=lambda: NOW)
    if memory:
        made.load(memory)
    for node in nodes:
        made.update_node(node, identity=MACHINE)
    return made


@given(seeds)
def test_a_restored_node_has_its_class_and_no_less(seed: int) -> None:
    healthy, fallen = seeded(lambda pick: (made := kind(pick), replace(ill(pick, made), health=None)), seed)
    joined_shape = with_devices_of(fallen, healthy)

    if joined_shape is None:
        return
    assert node_class(joined_shape) == node_class(healthy)
    for mine, now in zip(joined_shape.every_zone, fallen.every_zone, strict=True):
        assert now.allocatable.within(mine.allocatable)
        assert now.capacity.within(mine.capacity)
        assert mine.free == mine.allocatable
    assert fallen.totals is None or joined_shape.totals is None or fallen.totals.within(joined_shape.totals)


@given(seeds)
def test_a_node_that_fell_ill_is_restored_to_what_it_was(seed: int) -> None:
    healthy, fallen = seeded(lambda pick: (made := kind(pick), replace(ill(pick, made), health=None)), seed)
    made = ShapeHistory(wall=lambda: NOW)
    made.update_node(healthy, identity=MACHINE)
    joined_shape = made.update_node(fallen, identity=MACHINE)

    assert node_class(joined_shape) == node_class(healthy)
    assert joined_shape.in_health().every_zone == healthy.emptied().every_zone


@given(seeds, seeds)
def test_what_a_node_could_take_its_shape_could_take(seed: int, pod_seed: int) -> None:
    joined_shape, nodes = seeded(together, seed)
    pod = seeded(question, pod_seed)

    for one in nodes:
        if evaluate(one.in_health(), pod.demand, pod.intent).admitted:
            assert evaluate(joined_shape.node, pod.demand, pod.intent).admitted


@given(seeds, seeds)
def test_pods_of_a_node_are_eligible_for_its_shape(seed: int, pod_seed: int) -> None:
    joined_shape, nodes = seeded(together, seed)
    pod = seeded(lambda pick: constraints(pick, ["n0", "n1"]), pod_seed)

    if any(unmet_ever(pod, one.name, one.attributes) is None for one in nodes):
        assert joined_shape.unmet(pod) is None


POOLS = GrowablePools(frozenset({"pool"}), frozenset({Pool("pool", "b")}))


@given(seeds, seeds)
def test_pods_of_new_nodes_in_growable_pools_may_wait(seed: int, pod_seed: int) -> None:
    joined_shape, nodes = seeded(together, seed)
    pod = seeded(lambda pick: constraints(pick, ["n0", "n1"]), pod_seed)

    for one in nodes:
        labels = one.attributes.labels
        if labels.get("pool") not in {None, "b"}:
            values = Random(pod_seed)  # noqa: S311 - inputs of tests keep no secret
            others = {key: values.choice(WORDS) for key in labels if key != "pool"}
            new = replace(one.attributes, labels=Labels({**labels, **others}))
            unknown = POOLS.node(one.attributes)
            if unmet_ever(pod, "new", new) is None:
                assert POOLS.grown_by(joined_shape, pod)
                assert unknown
                assert POOLS.grown_by_node(unknown, pod)


@given(seeds, seeds)
def test_to_join_takes_nothing_away(seed: int, pod_seed: int) -> None:
    joined_shape, nodes = seeded(together, seed)
    pod = seeded(lambda pick: constraints(pick, ["n0", "n1"]), pod_seed)

    for one in map(of, nodes):
        assert joined_shape.joined(one) is joined_shape
        assert one.joined(joined_shape) == joined_shape
        assert joined_shape.unmet(pod) is None or one.unmet(pod) is not None
        assert one.node.totals is None or one.node.totals.within(joined_shape.node.totals or one.node.totals)


@given(seeds)
def test_remembered_shapes_restore_the_same_health(seed: int) -> None:
    def build(pick: Pick) -> tuple[tuple[Node, ...], list[Node]]:
        healthy = tuple(replace(one, health=None, machine=None, stock=None) for one in fleet(pick))
        healthy = tuple(replace(one.emptied(), attributes=attributes(pick)) for one in healthy)
        fallen = [replace(ill(pick, one), health=None, label=node_class(one)) for one in healthy]
        return healthy, fallen

    healthy, fallen = seeded(build, seed)
    before = book_of(healthy)
    seen = [before.update_node(one, identity=MACHINE) for one in fallen]
    after = book_of([], before.to_remember())

    assert [after.update_node(one, identity=MACHINE) for one in fallen] == seen
    assert {one.shape.name for one in after.shapes()} == {one.shape.name for one in before.shapes()}


@given(seeds, seeds, seeds)
def test_no_remembered_shapes_make_a_pod_denied(seed: int, hostile: int, pod_seed: int) -> None:
    nodes = seeded(lambda pick: [replace(standing(pick, kind(pick)), name=f"n{at}") for at in range(3)], seed)
    lies = seeded(lambda pick: [replace(standing(pick, one), label=None) for one in nodes], hostile)
    memory = replace(book_of(lies).to_remember(), losses={"n0": -1e12, "n1": 1e12, "n9": 0.0})
    pod = seeded(question, pod_seed)
    where = seeded(lambda pick: constraints(pick, ["n0", "n1"]), pod_seed)

    def able(book: ShapeHistory) -> set[str]:
        shapes_known = (one.shape for one in book.shapes())
        return {
            one.name
            for one in shapes_known
            if one.unmet(where) is None and evaluate(one.node, pod.demand, pod.intent).admitted
        }

    assert able(book_of(nodes)) <= able(book_of(nodes, memory))


@given(seeds)
def test_less_than_a_gib_of_memory_splits_no_class(seed: int) -> None:
    made = seeded(kind, seed)
    less = replace(made, zones=tuple(_with_less_memory(zone) for zone in made.zones))
    if node_class(less) != node_class(made):
        return

    assert of(made).joined(of(less)).node.zones == of(made).node.zones
    assert of(less).joined(of(made)).node.zones == of(made).node.zones


def _with_less_memory(zone: Zone) -> Zone:
    fallen = {name: max(0, amount - 4096 * (name == MEMORY)) for name, amount in zone.allocatable.items()}
    return replace(zone, allocatable=Resources(fallen), free=Resources(fallen))
