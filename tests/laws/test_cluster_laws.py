"""
Laws of a cluster: what could ever be is what the rules say of shapes, what fits now what they say of nodes.

There are nodes in health and ill ones, labels, taints and conditions, shapes of which no node is here, and
nodes without topology. Nothing is tolerated, whatever the cluster was before.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import NamedTuple

from hypothesis import event, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from numalign.cache import ClusterCache, Question
from numalign.cache.eligibility import NO_NODE, NUMBERS, Eligibility, counted
from numalign.cache.node_table import NodeTable
from numalign.decision.evaluate import evaluate
from numalign.model.constraints import ANYWHERE, Constraints, unmet_ever, unmet_now
from numalign.model.node import Node, node_class
from numalign.shapes import GrowablePools, KnownShape, Pool, Shape, UnknownNode, keyed, shape
from tests.laws.fleets import OFTEN, SELDOM, SOMETIMES, Pick, fleet, question, seeded
from tests.laws.places import attributes, constraints
from tests.worlds import notation

HALF = settings(max_examples=max(3, settings().max_examples // 2))


class KnownCluster(NamedTuple):
    """All that is known of a cluster."""

    nodes: tuple[Node, ...]
    shapes: tuple[KnownShape, ...]
    bare: Mapping[str, UnknownNode]


class PendingPod(NamedTuple):
    """What a pod asks, and where it may go."""

    question: Question
    constraints: Constraints


def known_cluster(pick: Pick) -> KnownCluster:
    """A cluster of a few nodes; of some shapes there are no nodes any more, or not yet."""
    members = fleet(pick)
    classes = [*map(node_class, members), "a-class", None]
    nodes = tuple(_somewhere(pick, node, classes) for node in members) if pick([*OFTEN, True]) else ()
    others = [_somewhere(pick, node, classes) for node in fleet(pick)] if pick(OFTEN) else []
    shape_known = [replace(_known(pick, node)) for node in others]
    bare = [UnknownNode(f"bare{at}", node.totals, attributes(pick)) for at, node in enumerate(others)]
    return KnownCluster(
        nodes, tuple(shape_known), {node.name: node for node in bare} if pick(SOMETIMES) else {}
    )


def _somewhere(pick: Pick, node: Node, classes: Sequence[str | None]) -> Node:
    own = node_class(node) if pick(OFTEN) else pick(classes)
    return replace(node, attributes=attributes(pick), label=own)


def _known(pick: Pick, node: Node) -> KnownShape:
    return KnownShape(shape.of(node), seen=pick([1.0, 2.0])) if pick(OFTEN) else _declared(node)


def _declared(node: Node) -> KnownShape:
    return KnownShape(shape.of(node), declared=True)


def pending_pod(pick: Pick, names: list[str]) -> PendingPod:
    """What one pod asks."""
    return PendingPod(question(pick), ANYWHERE if pick(SELDOM) else constraints(pick, names))


def cache_of(made: KnownCluster) -> ClusterCache:
    """The cache of a cluster; shapes of nodes that are here are read off these."""
    return ClusterCache.of(made.nodes, _once(made), made.bare, pools=POOLS)


def _once(made: KnownCluster) -> tuple[KnownShape, ...]:
    """What is known beside nodes, each shape once; whoever remembers knows all that nodes here show, too."""
    present = _shapes_here(made)
    expected: dict[str, KnownShape] = {}
    for shape_known in (one for one in made.shapes if not one.declared):
        own = expected.get(shape_known.shape.name, shape_known)
        joined = reduce(
            Shape.joined, (shape_known.shape, *present.get(shape_known.shape.name, ())), own.shape
        )
        expected[joined.name] = replace(shape_known, shape=joined)
    return (*expected.values(), *(one for one in made.shapes if one.declared))


def _shapes_here(made: KnownCluster) -> dict[str, list[Shape]]:
    present: dict[str, list[Shape]] = {}
    for node in made.nodes:
        own = shape.of(node)
        present.setdefault(own.name, []).append(own)
    return present


def could(node: Node, pod: Question) -> bool:
    """Whether a node takes a pod as it is, or cannot say."""
    return not evaluate(node, pod.demand, pod.intent).refused


def could_ever(node: Node, question: Question) -> bool:
    """Whether some state of a node takes a pod, or it cannot say."""
    return not evaluate(node.in_health(), question.demand, question.intent).permanent


POOLS = GrowablePools(frozenset({"pool"}), frozenset({Pool("pool", "b")}))


class Plain(NamedTuple):
    """What follows from the rules, shape by shape and node by node."""

    able: int
    feasible: set[str]
    every: set[str]
    fallback: bool
    grows: bool
    unmatched: bool
    now: bool


def plain(made: KnownCluster, pod: PendingPod) -> Plain:
    """What the rules come to, asked one by one."""
    given_ones = _once(made)
    remembered = {one.shape.name for one in given_ones if not one.declared}
    present = _shapes_here(made)
    read = [KnownShape(reduce(Shape.joined, own)) for name, own in present.items() if name not in remembered]
    shapes = [one.shape for one in (*given_ones, *read)]
    takes = [could_ever(one.node, pod.question) for one in shapes]
    reached = [one.unmet(pod.constraints) is None for one in shapes]
    able = {
        one.name
        for one, shape_known, yes in zip(shapes, (*given_ones, *read), takes, strict=True)
        if yes and not shape_known.declared
    }
    takers = [node for node in made.nodes if shape.of(node).name in able]
    feasible = {one.node_class for one, yes in zip(shapes, takes, strict=True) if yes}
    if not any(yes and may for yes, may in zip(takes, reached, strict=True)):
        takers += [node for node in made.nodes if node not in takers and could_ever(node, pod.question)]
        feasible |= set(map(node_class, takers))
    bare = (unmet_ever(pod.constraints, one.name, one.attributes) for one in made.bare.values())
    count = sum(unmet_ever(pod.constraints, node.name, node.attributes) is None for node in takers)
    names = {shape.of(node).name for node in takers}
    hopes = [one for one, yes in zip(shapes, takes, strict=True) if yes or one.name in names]
    unmatched = not any(reached) and all(bare)
    every = {one.node_class for one in shapes}
    fallback = not (count or unmatched) and any(not one.unmet_by_new(pod.constraints) for one in hopes)
    grown = [POOLS.named(pod.constraints)]
    grown += [POOLS.grown_by(one.shape, pod.constraints) for one in (*given_ones, *read) if not one.declared]
    pool_nodes = filter(None, (POOLS.node(one.attributes) for one in made.bare.values()))
    grown += [POOLS.grown_by_node(one, pod.constraints) for one in pool_nodes]
    return Plain(
        able=count,
        feasible=feasible | (every & {node.label for node in takers}),
        every=every,
        fallback=fallback,
        grows=not (count or fallback) and any(grown),
        unmatched=unmatched,
        now=any(
            could(node, pod.question)
            for node in takers
            if unmet_now(pod.constraints, node.name, node.attributes) is None
        ),
    )


def answered(made: ClusterCache, pod: PendingPod) -> Plain:
    """What a cache answers."""
    survey = made.ever(*pod)
    feasible = set(survey.feasible)
    return Plain(
        able=survey.able,
        feasible=feasible,
        every=feasible | {*survey.infeasible},
        fallback=survey.fallback is not None,
        grows=survey.may_grow is not None,
        unmatched=survey.unmatched,
        now=bool(survey.able) and made.now(*pod),
    )


seeds = st.integers(0, 2**32)


@given(seeds, st.lists(seeds, min_size=1, max_size=3))
def test_a_cluster_answers_as_the_rules(seed: int, pods: list[int]) -> None:
    made = seeded(known_cluster, seed)
    names = [node.name for node in made.nodes]
    every = [seeded(lambda pick: pending_pod(pick, names), pod) for pod in pods]
    cluster = cache_of(made)

    for pod in (*every, *every):
        expected = plain(made, pod)
        event("able" if expected.able else "fallback" if expected.fallback else "never")
        assert answered(cluster, pod) == expected


@HALF
@given(st.lists(seeds, min_size=2, max_size=4), seeds)
def test_a_changed_cluster_answers_as_a_new_one(states: list[int], seed: int) -> None:
    clusters = [seeded(known_cluster, state) for state in states]
    mixed = [*clusters, _mixed(clusters[0], clusters[1])]
    pods = [seeded(lambda pick: pending_pod(pick, ["n0", "n1"]), seed + at) for at in range(3)]
    cluster = ClusterCache()

    for made in (*mixed, mixed[0]):
        # Others ask, and wait for what they asked, while the cluster is on its way to be another one.
        waiting = [cluster.pace.in_steps(partial(cluster.now, *pod)) for pod in pods]
        for step, _ in enumerate(becoming(cluster, made)):
            next(waiting[step % 3], None)
            answered(cluster, pods[step % 3])
        for work in waiting:
            deque(work, maxlen=0)
        fresh = cache_of(made)
        assert [answered(cluster, pod) for pod in pods] == [answered(fresh, pod) for pod in pods]


def becoming(cache: ClusterCache, made: KnownCluster) -> Iterator[None]:
    """Change a cache into that of another cluster, change by change."""
    shapes = keyed(_once(made))
    gone = dict.fromkeys(keyed(known for _, known in cache.shapes()))
    cache.update_shapes({**gone, **shapes}, pools=POOLS)
    yield
    for node in made.nodes:
        cache.nodes.put(node)
        yield
    for name in {*cache.unknown_nodes.names(), *made.bare}:
        cache.unknown_nodes.update(name, made.bare.get(name))
        yield
    for name in cache.nodes.names() - {node.name for node in made.nodes}:
        cache.nodes.drop(name)
        yield


def _mixed(one: KnownCluster, other: KnownCluster) -> KnownCluster:
    """Some nodes of one cluster, with the attributes that those of the other have."""
    nodes = tuple(
        replace(node, attributes=like.attributes) for node, like in zip(one.nodes, other.nodes, strict=False)
    )
    return KnownCluster(nodes, other.shapes, one.bare)


@given(seeds, seeds)
def test_an_outage_changes_nothing_of_what_could_ever_be(seed: int, pod: int) -> None:
    made = seeded(known_cluster, seed)
    cured = tuple(_cured(node) for node in made.nodes)
    pending = seeded(lambda pick: pending_pod(pick, [node.name for node in made.nodes]), pod)

    ill, healthy = (cache_of(made._replace(nodes=nodes)).ever(*pending) for nodes in (made.nodes, cured))

    assert ill == healthy


def _cured(node: Node) -> Node:
    """The node in health."""
    return replace(
        node.in_health(), name=node.name, label=node.label, attributes=node.attributes, health=None
    )


@given(seeds, seeds)
def test_what_a_present_node_could_take_is_possible(seed: int, pod: int) -> None:
    made = seeded(known_cluster, seed)
    pending = seeded(lambda pick: pending_pod(pick, [node.name for node in made.nodes]), pod)
    able = [
        node
        for node in made.nodes
        if unmet_ever(pending.constraints, node.name, node.attributes) is None
        and could_ever(node, pending.question)
    ]

    survey = cache_of(made).ever(*pending)

    assert not able or survey.able or survey.fallback


# Who may go where: of all nodes at once it is said what the rules say of each.

NAMES = [f"n{at}" for at in range(6)]
PLAIN = notation.node("cpu=8 gpu=4", policy="restricted")


def node_with(name: str, seed: int) -> Node:
    return replace(PLAIN, name=name, attributes=seeded(attributes, seed))


def constraints_of(seed: int) -> Constraints:
    return seeded(lambda pick: constraints(pick, NAMES), seed)


def unmet_by_rules(nodes: NodeTable, one: Constraints) -> list[tuple[int, int]]:
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
        assert by_columns(eligible, one) == unmet_by_rules(made, one)


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
            assert by_columns(self.eligible, one) == unmet_by_rules(self.nodes, one)


TestChanges = Changes.TestCase
