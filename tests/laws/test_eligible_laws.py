"""Laws of who may go where: of all nodes at once it is said what the rules say of each."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from numalign.cache.eligibility import NO_NODE, NUMBERS, Eligibility, counted
from numalign.cache.node_table import NodeTable
from numalign.model.constraints import Constraints, unmet_ever, unmet_now
from numalign.model.node import Node
from tests.laws.fleets import seeded
from tests.laws.places import attributes, constraints
from tests.worlds.notation import node

seeds = st.integers(0, 2**32)

NAMES = [f"n{at}" for at in range(6)]
PLAIN = node("cpu=8 gpu=4", policy="restricted")


def node_with(name: str, seed: int) -> Node:
    return replace(PLAIN, name=name, attributes=seeded(attributes, seed))


def constraints_of(seed: int) -> Constraints:
    return seeded(lambda pick: constraints(pick, NAMES), seed)


def by_rules(nodes: NodeTable, one: Constraints) -> list[tuple[int, int]]:
    """By row what the rules say for good and for now, in numbers."""
    results = {
        row: tuple(NUMBERS[ask(one, one_node.name, one_node.attributes)] for ask in (unmet_ever, unmet_now))
        for one_node in nodes
        if (row := nodes.row(one_node.name)) is not None
    }
    return [results.get(row, (NO_NODE, NO_NODE)) for row in range(nodes.height)]  # type: ignore[misc]


def by_columns(eligible: Eligibility, one: Constraints) -> list[tuple[int, int]]:
    """The same of all nodes at once."""
    return list(zip(eligible.unmet_ever(one).tolist(), eligible.unmet_now(one).tolist(), strict=True))


@given(st.lists(seeds, max_size=12), st.lists(seeds, min_size=1, max_size=4))
def test_eligibility_is_that_of_the_rules(nodes: list[int], pods: list[int]) -> None:
    made = NodeTable()
    for at, seed in enumerate(nodes):
        made.put(node_with(f"n{at}", seed))
    eligible = Eligibility(made)

    for one in map(constraints_of, pods):
        assert by_columns(eligible, one) == by_rules(made, one)


@given(st.lists(seeds, min_size=3, max_size=12), seeds)
def test_each_node_counts_once_by_its_first_reason(nodes: list[int], pod: int) -> None:
    made, one = NodeTable(), constraints_of(pod)
    for at, seed in enumerate(nodes):
        made.put(node_with(f"n{at}", seed))

    results = [unmet_now(one, one_node.name, one_node.attributes) for one_node in made]
    unmet = Eligibility(made).unmet_now(one)
    assert counted(unmet) == dict(Counter(filter(None, results)))
    assert counted(unmet, made.rows(["n2", "n0"])) == dict(Counter(filter(None, [results[2], results[0]])))


class Changes(RuleBasedStateMachine):
    """Nodes come, change and go, and few constraints are asked again and again."""

    @initialize(seed=seeds, pods=st.lists(seeds, min_size=3, max_size=3))
    def start(self, seed: int, pods: list[int]) -> None:
        """Some nodes, and nobody has asked yet."""
        self.nodes, self.pods = NodeTable(), [constraints_of(seed) for seed in pods]
        self.eligible = Eligibility(self.nodes)
        for at, name in enumerate(NAMES[:4]):
            self.nodes.put(node_with(name, seed + at))

    @rule(name=st.sampled_from(NAMES), seed=seeds)
    def put(self, name: str, seed: int) -> None:
        """One node comes, or others may go there than before."""
        self.nodes.put(node_with(name, seed))

    @rule(name=st.sampled_from(NAMES))
    def drop(self, name: str) -> None:
        """One node goes."""
        self.nodes.drop(name)

    @rule(seed=seeds)
    def put_all(self, seed: int) -> None:
        """Nothing is as it was."""
        for at, name in enumerate(NAMES):
            self.nodes.put(node_with(name, seed + at))

    @rule(which=st.integers(0, 2))
    def glance(self, which: int) -> None:
        """Somebody asks one of two things, so that they are found out at different times."""
        assert len(self.eligible.now(self.pods[which])) == self.nodes.height

    @invariant()
    def results_are_those_of_the_rules(self) -> None:
        """Of the first of them after every step, of the others only when they are asked."""
        for one in self.pods[:1]:
            assert by_columns(self.eligible, one) == by_rules(self.nodes, one)


TestChanges = Changes.TestCase
