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
    nodes = [replace(each, attributes=replace(each.attributes, taints=taints)) for each in nodes]
    found = of(nodes[0])
    for each in nodes[1:]:
        found = found.joined(of(each))
    return found, nodes


def book_of(nodes: list[Node] | tuple[Node, ...], memory: RememberedShapes | None = None) -> ShapeHistory:
    made = ShapeHistory(wall=lambda: NOW)
    if memory:
        made.load(memory)
    for node in nodes:
        made.update_node(node, identity=MACHINE)
    return made


@given(seeds)
def test_a_node_that_is_restored_has_the_class_and_no_less_of_anything(seed: int) -> None:
    healthy, fallen = seeded(lambda pick: (made := kind(pick), replace(ill(pick, made), health=None)), seed)
    found = with_devices_of(fallen, healthy)

    if found is None:
        return
    assert node_class(found) == node_class(healthy)
    for mine, now in zip(found.every_zone, fallen.every_zone, strict=True):
        assert now.allocatable.within(mine.allocatable)
        assert now.capacity.within(mine.capacity)
        assert mine.free == mine.allocatable
    assert fallen.totals is None or found.totals is None or fallen.totals.within(found.totals)


@given(seeds)
def test_a_node_that_fell_ill_is_restored_to_what_it_was(seed: int) -> None:
    healthy, fallen = seeded(lambda pick: (made := kind(pick), replace(ill(pick, made), health=None)), seed)
    made = ShapeHistory(wall=lambda: NOW)
    made.update_node(healthy, identity=MACHINE)
    found = made.update_node(fallen, identity=MACHINE)

    assert node_class(found) == node_class(healthy)
    assert found.in_health().every_zone == healthy.emptied().every_zone


@given(seeds, seeds)
def test_what_a_node_could_take_its_shape_could_take(seed: int, asked: int) -> None:
    found, nodes = seeded(together, seed)
    pod = seeded(question, asked)

    for each in nodes:
        if evaluate(each.in_health(), pod.demand, pod.intent).admitted:
            assert evaluate(found.node, pod.demand, pod.intent).admitted


@given(seeds, seeds)
def test_whoever_may_go_to_a_node_may_hope_for_its_shape(seed: int, asked: int) -> None:
    found, nodes = seeded(together, seed)
    pod = seeded(lambda pick: constraints(pick, ["n0", "n1"]), asked)

    if any(unmet_ever(pod, each.name, each.attributes) is None for each in nodes):
        assert found.unmet(pod) is None


POOLS = GrowablePools(frozenset({"pool"}), frozenset({Pool("pool", "b")}))


@given(seeds, seeds)
def test_whoever_may_go_to_a_new_node_of_a_pool_that_may_grow_may_hope_for_it(seed: int, asked: int) -> None:
    found, nodes = seeded(together, seed)
    pod = seeded(lambda pick: constraints(pick, ["n0", "n1"]), asked)

    for each in nodes:
        labels = each.attributes.labels
        if labels.get("pool") not in {None, "b"}:
            values = Random(asked)  # noqa: S311 - inputs of tests keep no secret
            others = {key: values.choice(WORDS) for key in labels if key != "pool"}
            new = replace(each.attributes, labels=Labels({**labels, **others}))
            unknown = POOLS.node(each.attributes)
            if unmet_ever(pod, "new", new) is None:
                assert POOLS.grown_by(found, pod)
                assert unknown
                assert POOLS.grown_by_node(unknown, pod)


@given(seeds, seeds)
def test_to_join_takes_nothing_away(seed: int, asked: int) -> None:
    found, nodes = seeded(together, seed)
    pod = seeded(lambda pick: constraints(pick, ["n0", "n1"]), asked)

    for each in map(of, nodes):
        assert found.joined(each) is found
        assert each.joined(found) == found
        assert found.unmet(pod) is None or each.unmet(pod) is not None
        assert each.node.totals is None or each.node.totals.within(found.node.totals or each.node.totals)


@given(seeds)
def test_what_is_remembered_gives_the_same_health_after_a_restart(seed: int) -> None:
    def build(pick: Pick) -> tuple[tuple[Node, ...], list[Node]]:
        healthy = tuple(replace(each, health=None, machine=None, stock=None) for each in fleet(pick))
        healthy = tuple(replace(each.emptied(), attributes=attributes(pick)) for each in healthy)
        fallen = [replace(ill(pick, each), health=None, label=node_class(each)) for each in healthy]
        return healthy, fallen

    healthy, fallen = seeded(build, seed)
    before = book_of(healthy)
    seen = [before.update_node(each, identity=MACHINE) for each in fallen]
    after = book_of([], before.to_remember())

    assert [after.update_node(each, identity=MACHINE) for each in fallen] == seen
    assert {each.shape.name for each in after.shapes()} == {each.shape.name for each in before.shapes()}


@given(seeds, seeds, seeds)
def test_a_memory_whoever_wrote_it_makes_nobody_refuse(seed: int, hostile: int, asked: int) -> None:
    nodes = seeded(lambda pick: [replace(standing(pick, kind(pick)), name=f"n{at}") for at in range(3)], seed)
    lies = seeded(lambda pick: [replace(standing(pick, each), label=None) for each in nodes], hostile)
    memory = replace(book_of(lies).to_remember(), losses={"n0": -1e12, "n1": 1e12, "n9": 0.0})
    pod = seeded(question, asked)
    where = seeded(lambda pick: constraints(pick, ["n0", "n1"]), asked)

    def able(book: ShapeHistory) -> set[str]:
        shapes_known = (each.shape for each in book.shapes())
        return {
            each.name
            for each in shapes_known
            if each.unmet(where) is None and evaluate(each.node, pod.demand, pod.intent).admitted
        }

    assert able(book_of(nodes)) <= able(book_of(nodes, memory))


@given(seeds)
def test_memory_below_a_gib_splits_no_class_and_is_kept_at_its_largest(seed: int) -> None:
    made = seeded(kind, seed)
    less = replace(made, zones=tuple(_with_less_memory(zone) for zone in made.zones))
    if node_class(less) != node_class(made):
        return

    assert of(made).joined(of(less)).node.zones == of(made).node.zones
    assert of(less).joined(of(made)).node.zones == of(made).node.zones


def _with_less_memory(zone: Zone) -> Zone:
    fallen = {name: max(0, amount - 4096 * (name == MEMORY)) for name, amount in zone.allocatable.items()}
    return replace(zone, allocatable=Resources(fallen), free=Resources(fallen))
