"""
Laws of the cache: for all nodes at once it answers what the rules answer for each.

Nothing is tolerated: verdicts, reasons, permanence, placements and scores are those of the rules, whichever
way a node takes through the cache, whatever was put, dropped or asked before, and beside whichever others.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

from numalign.cache import ClusterCache
from numalign.decision import wording
from numalign.decision.evaluate import evaluate
from numalign.decision.verdict import Cause
from numalign.model.intent import Policy, Scope
from numalign.model.machine import Machine
from numalign.model.node import Node
from numalign.model.options import CpuOption, FeatureGate, TopologyOption
from numalign.model.resources import ZoneId
from tests.laws.fleets import (
    HUNDREDS,
    LARGE,
    SMALL,
    Case,
    Size,
    case,
    counted,
    described,
    drawn,
    like,
    question,
    seeded,
)
from tests.worlds.columns import NodeFacts, by_cache, differences, ghosts
from tests.worlds.notation import zone_ids

seeds = st.integers(0, 2**32)
cases = drawn(case)


def fleet_of(seed: int, size: Size) -> Case:
    """A fleet that is too large to be drawn one choice at a time."""
    return seeded(lambda pick: case(pick, size=size), seed)


TRIED = settings().max_examples
HALF, FEW = settings(max_examples=max(4, TRIED // 2)), settings(max_examples=max(4, TRIED // 20))
"""For what takes long."""


# Nodes as they stand.


@given(cases)
def test_the_cache_answers_as_the_rules(fleet: Case) -> None:
    assert differences(ClusterCache.of(fleet.nodes), fleet.question, fleet.nodes, fleet.weights) == []


@given(seeds)
def test_the_cache_answers_for_many_nodes_as_the_rules(seed: int) -> None:
    fleet, others = fleet_of(seed, LARGE), (seed + 1, seed + 2)
    cache = ClusterCache.of(fleet.nodes)
    event(f"{cache.nodes.in_columns * 10 // len(cache.nodes)} of 10 nodes in columns")

    for one in (fleet.question, *(seeded(question, other) for other in others)):
        assert differences(cache, one, fleet.nodes, fleet.weights) == []


@FEW
@given(seeds)
def test_the_cache_answers_for_hundreds_as_the_rules(seed: int) -> None:
    fleet = fleet_of(seed, HUNDREDS)

    assert differences(ClusterCache.of(fleet.nodes), fleet.question, fleet.nodes, fleet.weights) == []


@given(cases, st.lists(seeds, min_size=1, max_size=3))
def test_questions_do_not_affect_each_other(fleet: Case, others: list[int]) -> None:
    cache, every = (
        ClusterCache.of(fleet.nodes),
        [fleet.question, *(seeded(question, seed) for seed in others)],
    )

    for one in (*every, *every):
        assert differences(cache, one, fleet.nodes, fleet.weights) == []


@HALF
@given(seeds)
def test_the_order_of_nodes_changes_nothing(seed: int) -> None:
    fleet = fleet_of(seed, LARGE)
    mixed = Random(seed).sample(fleet.nodes, len(fleet.nodes))  # noqa: S311 - an order keeps no secret

    assert facts_of(ClusterCache.of(mixed), fleet, fleet.nodes) == facts_of(
        ClusterCache.of(fleet.nodes), fleet, fleet.nodes
    )


@given(cases, st.sampled_from([tuple(range(1, 33)), tuple(at * at + at % 3 for at in range(32))]))
def test_other_ids_in_the_same_order_change_nothing(fleet: Case, others: tuple[int, ...]) -> None:
    new = zone_ids(*others)
    nodes = [renamed(node, dict(zip(node.ids, new, strict=False))) for node in fleet.nodes]

    before, after = (
        without_ids(facts_of(ClusterCache.of(some), fleet, some)) for some in (fleet.nodes, nodes)
    )
    assert before == after


def facts_of(cache: ClusterCache, fleet: Case, nodes: Iterable[Node]) -> dict[str, NodeFacts]:
    """What a cache says of these nodes, by name."""
    names = [node.name for node in nodes]
    return dict(zip(names, by_cache(cache.ask(names, fleet.question), fleet.weights), strict=True))


def without_ids(every: Mapping[str, NodeFacts]) -> list[tuple[object, ...]]:
    """What is said, but for the ids of zones."""
    return [
        (*one[:3], *one[4:], wording.sentence(one.verdict) if one.verdict.refusal else "")
        for one in every.values()
    ]


def renamed(node: Node, new: Mapping[ZoneId, ZoneId]) -> Node:
    zones = (
        replace(
            zone,
            id=new[zone.id],
            cells=frozenset(new[cell] for cell in zone.cells),
            costs=tuple((new[neighbour], cost) for neighbour, cost in zone.costs),
        )
        for zone in node.zones
    )
    return replace(
        node,
        zones=tuple(zones),
        machine=node.machine and machine_renamed(node.machine, new),
        occupied=frozenset(new[zone] for zone in node.occupied),
        exclusive=frozenset(new[zone] for zone in node.exclusive),
    )


def machine_renamed(described_machine: Machine, new: Mapping[ZoneId, ZoneId]) -> Machine:
    devices = (
        (
            name,
            tuple(
                replace(place, zones=tuple(new.get(zone, zone) for zone in place.zones)) for place in places
            ),
        )
        for name, places in described_machine.devices
    )
    cores = tuple(replace(core, zone=new[core.zone]) for core in described_machine.cores)
    return replace(
        described_machine,
        zones=tuple(new[zone] for zone in described_machine.zones),
        cores=cores,
        devices=tuple(devices),
    )


# Nodes that change.

NAMES = [f"n{at}" for at in range(8)]
WHICH = st.integers(0, 2)


@dataclass
class ChangingCache:
    """A cache, and the nodes that stand on it."""

    cache: ClusterCache
    nodes: dict[str, Node] = field(default_factory=dict)

    def put(self, name: str, node: Node) -> None:
        """A node comes, or is not what it was."""
        self.nodes[name] = replace(node, name=name)
        self.cache.nodes.put(self.nodes[name])

    def drop(self, name: str) -> None:
        """A node goes, if it is there."""
        self.nodes.pop(name, None)
        self.cache.nodes.drop(name)


class Changes(RuleBasedStateMachine):
    """Nodes come, change and go on a cache, and few questions are asked again and again."""

    caches: Bundle[ChangingCache] = Bundle("caches")

    @initialize(target=caches, seed=seeds, fleet=st.lists(seeds, min_size=3, max_size=3))
    def start(self, seed: int, fleet: list[int]) -> ChangingCache:
        """Nodes of three kinds, most of them of the first."""
        self.kinds = [seeded(build, seed + at) for at, build in enumerate((counted, counted, described))]
        self.questions = [seeded(question, seed) for seed in fleet]
        changing = ChangingCache(ClusterCache())
        for at, name in enumerate(NAMES):
            changing.put(name, self.node(0, seed + at))
        return changing

    def node(self, kind: int, seed: int) -> Node:
        """A node of one of the kinds, with something on it."""
        return seeded(lambda pick: like(pick, self.kinds[kind]), seed)

    @rule(
        changing=caches,
        name=st.sampled_from(NAMES),
        kind=st.sampled_from([0, 0, 0, 0, 1, 2]),
        seed=seeds,
        which=WHICH,
    )
    def put(self, changing: ChangingCache, name: str, kind: int, seed: int, which: int) -> None:
        """One node is not what it was, and somebody asks."""
        changing.put(name, self.node(kind, seed))
        self.ask(changing, which)

    @rule(changing=caches, seed=seeds)
    def put_all(self, changing: ChangingCache, seed: int) -> None:
        """Nothing is as it was."""
        for at, name in enumerate(NAMES):
            changing.put(name, self.node(0, seed + at))

    @rule(changing=caches)
    def put_again(self, changing: ChangingCache) -> None:
        """Everything is as it was."""
        for node in changing.nodes.values():
            changing.cache.nodes.put(node)

    @rule(changing=caches, name=st.sampled_from(NAMES), which=WHICH)
    def drop(self, changing: ChangingCache, name: str, which: int) -> None:
        """One node goes, and somebody asks."""
        changing.drop(name)
        self.ask(changing, which)

    @rule(changing=caches, which=WHICH, part=st.sampled_from(["admitted", "able", "zones", "refusals"]))
    def glance(self, changing: ChangingCache, which: int, part: str) -> None:
        """One thing is looked at and the rest is not, so that they are worked out at different times."""
        evaluation = changing.cache.ask([], self.questions[which]).evaluation
        assert len(getattr(evaluation, part)()) >= len(changing.nodes)

    @rule(changing=caches, which=WHICH)
    def ask(self, changing: ChangingCache, which: int) -> None:
        """The answer is what the rules say, whatever happened before."""
        nodes, fleet = list(changing.nodes.values()), self.questions[which]

        assert len(changing.cache.nodes) == len(nodes)
        assert differences(changing.cache, fleet, nodes) == []
        assert ghosts(changing.cache, fleet, nodes) == []


TestChanges = Changes.TestCase
TestChanges.settings = settings(HALF, stateful_step_count=15)


# What the laws above are tried on.


@pytest.fixture(scope="module")
def corners() -> Counter[object]:
    """Everything that distinguishes nodes and answers, and on how many nodes it was met."""
    met: Counter[object] = Counter()
    for seed in range(400):
        fleet = fleet_of(seed, SMALL)
        met["in columns"] += ClusterCache.of(fleet.nodes).nodes.in_columns
        for node in fleet.nodes:
            met.update(facts(node))
            verdict = evaluate(node, fleet.question.demand, fleet.question.intent)
            met[verdict.refusal.cause if verdict.refusal else len(verdict.placement.zones)] += 1
    return met


def facts(node: Node) -> Iterable[object]:
    options = node.options
    yield from (node.policy, node.scope, *options.cpu, *options.topology, *options.gates, "nodes")
    yield f"{len(node.zones)} zones"
    yield "machine" if node.machine else "stock" if node.stock else "counts"
    yield "groups" if any(len(zone.cells) > 1 for zone in node.zones) else "no groups"
    yield "totals" if node.totals else "no totals"
    yield "ill" if node.health else "in health"
    yield "occupied" if node.occupied else "nobody"
    yield "exclusive" if node.exclusive else "shared"


@pytest.mark.full
@pytest.mark.parametrize(
    "corner",
    [
        # Devices of a zone that does not exist are left to the rules.
        *(cause for cause in Cause if cause is not Cause.NO_SUCH_ZONE),
        *Policy,
        *Scope,
        *CpuOption,
        *TopologyOption,
        *FeatureGate,
        *range(5),
        *(f"{count} zones" for count in range(1, 9)),
        "machine",
        "stock",
        "counts",
        "groups",
        "totals",
        "ill",
        "occupied",
        "exclusive",
    ],
)
def test_every_corner_is_drawn(corner: object, corners: Counter[object]) -> None:
    assert corners[corner]


def test_most_drawn_nodes_are_in_columns_and_many_are_not(corners: Counter[object]) -> None:
    assert 0.4 < corners["in columns"] / corners["nodes"] < 0.9
