"""
Laws of the cache: for all nodes at once it answers what the rules answer for each.

Nothing is tolerated: verdicts, reasons, permanence, placements and scores are those of the rules, whichever
way a node takes through the cache, whatever was put, dropped or asked before, and beside whichever others.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from numalign.cache import ClusterCache
from numalign.cache.layout import MOST_ZONES
from numalign.decision.evaluate import evaluate
from numalign.decision.verdict import Cause
from numalign.model.intent import Policy, Scope
from numalign.model.node import Node
from numalign.model.options import CpuOption, FeatureGate, TopologyOption
from tests.laws import fleets
from tests.laws.fleets import Case, Size, case, drawn, question, seeded
from tests.worlds.columns import differences, ghosts

seeds = st.integers(0, 2**32)
cases = drawn(case)


def fleet_of(seed: int, size: Size) -> Case:
    """A fleet that is too large to be drawn one choice at a time."""
    return seeded(lambda pick: case(pick, size=size), seed)


TRIED = settings().max_examples
HALF, FEW = settings(max_examples=max(3, TRIED // 2)), settings(max_examples=max(2, TRIED // 20))
"""For what takes long."""


# Nodes as they stand.


@given(cases)
def test_the_cache_answers_as_the_rules(fleet: Case) -> None:
    assert differences(ClusterCache.of(fleet.nodes), fleet.question, fleet.nodes, fleet.weights) == []


@given(seeds)
def test_the_cache_answers_for_many_nodes_as_the_rules(seed: int) -> None:
    fleet, others = fleet_of(seed, fleets.LARGE), (seed + 1, seed + 2)
    cache = ClusterCache.of(fleet.nodes)
    event(f"{cache.nodes.in_columns * 10 // len(cache.nodes)} of 10 nodes in columns")

    for one in (fleet.question, *(seeded(question, other) for other in others)):
        assert differences(cache, one, fleet.nodes, fleet.weights) == []


@FEW
@given(seeds)
def test_the_cache_answers_for_hundreds_as_the_rules(seed: int) -> None:
    fleet = fleet_of(seed, fleets.HUNDREDS)

    assert differences(ClusterCache.of(fleet.nodes), fleet.question, fleet.nodes, fleet.weights) == []


@given(cases, st.lists(seeds, min_size=1, max_size=3))
def test_questions_do_not_affect_each_other(fleet: Case, others: list[int]) -> None:
    cache = ClusterCache.of(fleet.nodes)
    every = [fleet.question, *(seeded(question, seed) for seed in others)]

    for one in (*every, *every):
        assert differences(cache, one, fleet.nodes, fleet.weights) == []


# Nodes that change.

NAMES = [f"n{at}" for at in range(8)]
WHICH = st.integers(0, 2)


class Changes(RuleBasedStateMachine):
    """Nodes come, change and go in a cache, and few questions are asked again and again."""

    @initialize(seed=seeds, fleet=st.lists(seeds, min_size=3, max_size=3))
    def start(self, seed: int, fleet: list[int]) -> None:
        """Nodes of three kinds, most of them of the first."""
        builds = (fleets.counted, fleets.counted, fleets.described)
        self.kinds = [seeded(build, seed + at) for at, build in enumerate(builds)]
        self.questions = [seeded(question, seed) for seed in fleet]
        self.cache, self.nodes = ClusterCache(), dict[str, Node]()
        self.put_all(seed)

    def _put(self, name: str, kind: int, seed: int) -> None:
        node = seeded(lambda pick: fleets.like(pick, self.kinds[kind]), seed)
        self.nodes[name] = replace(node, name=name)
        self.cache.nodes.put(self.nodes[name])

    @rule(name=st.sampled_from(NAMES), kind=st.sampled_from([0, 0, 0, 0, 1, 2]), seed=seeds, which=WHICH)
    def put(self, name: str, kind: int, seed: int, which: int) -> None:
        """One node is not what it was, and somebody asks."""
        self._put(name, kind, seed)
        self.ask(which)

    @rule(seed=seeds)
    def put_all(self, seed: int) -> None:
        """Nothing is as it was."""
        for at, name in enumerate(NAMES):
            self._put(name, 0, seed + at)

    @rule()
    def put_again(self) -> None:
        """Everything is as it was."""
        for node in self.nodes.values():
            self.cache.nodes.put(node)

    @rule(name=st.sampled_from(NAMES), which=WHICH)
    def drop(self, name: str, which: int) -> None:
        """One node goes, if it is there, and somebody asks."""
        self.nodes.pop(name, None)
        self.cache.nodes.drop(name)
        self.ask(which)

    @rule(which=WHICH, part=st.sampled_from(["admitted", "able", "zones", "refusals"]))
    def glance(self, which: int, part: str) -> None:
        """One thing is looked at and the rest is not, so that they are worked out at different times."""
        evaluation = self.cache.ask([], self.questions[which]).evaluation
        assert len(getattr(evaluation, part)()) >= len(self.nodes)

    @rule(which=WHICH)
    def ask(self, which: int) -> None:
        """The answer is what the rules say, whatever happened before."""
        nodes, fleet = list(self.nodes.values()), self.questions[which]

        assert len(self.cache.nodes) == len(nodes)
        assert differences(self.cache, fleet, nodes) == []
        assert ghosts(self.cache, fleet, nodes) == []


TestChanges = Changes.TestCase
TestChanges.settings = settings(HALF, stateful_step_count=15)


# Nodes of many makes: any number of zones, policies, scopes, options and versions of the kubelet.

MANY: Size = ((32, 48), (1, 1, 2))
"""So many kinds of nodes, mostly with one node of each."""

MACHINES: Size = ((4, 8), (1, 2, 3))

SOME = settings(max_examples=max(3, TRIED // 5))


def of_many_makes(seed: int) -> Case:
    """A fleet and a question to all of it."""
    return seeded(lambda pick: case(pick, size=MANY), seed)


def some(random: Random, nodes: Sequence[Node]) -> list[Node]:
    """Some of the nodes in any order, and some of these once more."""
    few = random.sample(nodes, random.randint(1, len(nodes)))
    return few + random.sample(few, len(few) // 4)


@HALF
@given(seeds)
def test_nodes_of_many_makes_are_evaluated_as_by_the_rules(seed: int) -> None:
    fleet = of_many_makes(seed)
    cache = ClusterCache.of(fleet.nodes)

    for one in (fleet.question, seeded(question, seed + 1), fleet.question):
        assert differences(cache, one, fleet.nodes, fleet.weights) == []


@SOME
@given(seeds)
def test_the_chosen_nodes_and_their_order_change_no_answer(seed: int) -> None:
    fleet, random = of_many_makes(seed), Random(seed)  # noqa: S311 - an order keeps no secret
    cache = ClusterCache.of(fleet.nodes)

    for _ in range(4):
        assert differences(cache, fleet.question, some(random, fleet.nodes), fleet.weights) == []
    assert differences(cache, fleet.question, fleet.nodes, fleet.weights) == []


@pytest.mark.full
@SOME
@given(seeds)
def test_nodes_that_change_and_go_leave_nothing_behind(seed: int) -> None:
    fleet, random = of_many_makes(seed), Random(seed)  # noqa: S311 - which ones change is no secret
    cache, nodes = ClusterCache.of(fleet.nodes), {node.name: node for node in fleet.nodes}
    questions = [fleet.question, seeded(question, seed + 1)]

    for _ in range(6):
        for name in random.sample(sorted(nodes), 6):
            nodes[name] = replace(changed(random, nodes[name]), name=name)
            cache.nodes.put(nodes[name])
        for name in random.sample(sorted(nodes), 3):
            del nodes[name]
            cache.nodes.drop(name)
        new = replace(changed(random, nodes[min(nodes)]), name=f"new{random.random()}")
        nodes[new.name] = new
        cache.nodes.put(new)
        one, every = random.choice(questions), [*nodes.values()]
        assert differences(cache, one, some(random, every), fleet.weights) == []
    for one in questions:
        assert differences(cache, one, every, fleet.weights) == []
        assert ghosts(cache, one, every) == []


def changed(random: Random, node: Node) -> Node:
    """The node with something else on it, or another one in its place."""
    pick = random.choice
    if random.random() < 0.5 and not node.health and not (node.stock and not node.machine):
        return fleets.like(pick, node.emptied())
    return fleets.like(pick, fleets.counted(pick) if random.random() < 0.9 else fleets.described(pick))


def of_machines(seed: int) -> Case:
    """Nodes whose machines are described, and a question to all of them."""
    return seeded(lambda pick: fleets.machines(pick, MACHINES), seed)


@given(seeds)
def test_described_machines_are_evaluated_as_by_the_rules(seed: int) -> None:
    fleet = of_machines(seed)
    cache = ClusterCache.of(fleet.nodes)

    for one in (fleet.question, seeded(question, seed + 1)):
        assert differences(cache, one, fleet.nodes, fleet.weights) == []


@HALF
@given(seeds)
def test_columns_follow_free_amounts_of_machines(seed: int) -> None:
    fleet, random = of_machines(seed), Random(seed)  # noqa: S311 - which ones change is no secret
    cache, nodes = ClusterCache.of(fleet.nodes), [*fleet.nodes]

    for _ in range(3):
        nodes = [fleets.charged(random.choice, one) if random.random() < 0.5 else one for one in nodes]
        for one in nodes:
            cache.nodes.put(one)
        assert differences(cache, fleet.question, nodes, fleet.weights) == []


# What the laws above are tried on.

DRAWN = [
    # Devices of a zone that does not exist are left to the rules.
    *(cause for cause in Cause if cause is not Cause.NO_SUCH_ZONE),
    *(word for words in (Policy, Scope, CpuOption, TopologyOption, FeatureGate) for word in words),
    *range(5),
    *(f"{count} zones" for count in range(1, 9)),
    *("machine", "stock", "counts", "groups", "totals", "ill", "occupied", "exclusive"),
]


def facts(node: Node) -> Iterator[object]:
    options = node.options
    yield from (node.policy, node.scope, *options.cpu, *options.topology, *options.gates, "nodes")
    yield f"{len(node.zones)} zones"
    yield "machine" if node.machine else "stock" if node.stock else "counts"
    yield "groups" if any(len(zone.cells) > 1 for zone in node.zones) else "no groups"
    yield from (word for word in ("totals", "occupied", "exclusive") if getattr(node, word))
    yield "ill" if node.health else "in health"


@pytest.mark.full
def test_every_corner_is_drawn() -> None:
    met: Counter[object] = Counter()
    for seed in range(400):
        fleet = fleet_of(seed, fleets.SMALL)
        met["in columns"] += ClusterCache.of(fleet.nodes).nodes.in_columns
        for node in fleet.nodes:
            verdict = evaluate(node, fleet.question.demand, fleet.question.intent)
            met.update(
                [*facts(node), verdict.refusal.cause if verdict.refusal else len(verdict.placement.zones)]
            )

    assert [corner for corner in DRAWN if not met[corner]] == []
    assert 0.4 < met["in columns"] / met["nodes"] < 0.9


@pytest.mark.full
@pytest.mark.parametrize("build", [of_many_makes, of_machines])
def test_columns_answer_for_most_nodes(build: Callable[[int], Case]) -> None:
    drawn_nodes = [ClusterCache.of(build(seed).nodes).nodes for seed in range(20)]
    layouts = [
        [len({*filter(None, table.columns.layouts)}) for _, table in nodes.tables()] for nodes in drawn_nodes
    ]

    assert 0.6 < sum(nodes.in_columns for nodes in drawn_nodes) / sum(map(len, drawn_nodes)) < 0.95
    if build is of_many_makes:
        assert sum(map(sum, layouts)) / len(drawn_nodes) > 24
        assert max(map(max, filter(None, layouts))) > 12
        assert max(map(len, layouts)) == MOST_ZONES
