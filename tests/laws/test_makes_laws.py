"""
Laws of a cache whose nodes are of many makes: each is answered for as if it stood there alone.

Nodes of dozens of layouts stand in one cache: any number of zones, policies, scopes, options and versions of
the kubelet, with managers and without, in any condition. What a table holds beside a node, which rows of it
are asked for, and what happened to it before must not show in an answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.cache import ClusterCache
from numalign.cache.layout import MOST_ZONES
from numalign.model.node import Node
from tests.laws.fleets import Case, Size, case, charged, counted, described, like, machines, question, seeded
from tests.worlds.columns import differences, ghosts

MANY: Size = ((32, 48), (1, 1, 2))
"""So many kinds of nodes, mostly with one node of each."""

MACHINES: Size = ((4, 8), (1, 2, 3))

seeds = st.integers(0, 2**32)
TRIED = settings().max_examples
HALF, FEW = settings(max_examples=max(4, TRIED // 2)), settings(max_examples=max(4, TRIED // 5))


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


@FEW
@given(seeds)
def test_the_chosen_nodes_and_their_order_change_no_answer(seed: int) -> None:
    fleet, random = of_many_makes(seed), Random(seed)  # noqa: S311 - an order keeps no secret
    cache = ClusterCache.of(fleet.nodes)

    for _ in range(4):
        assert differences(cache, fleet.question, some(random, fleet.nodes), fleet.weights) == []
    assert differences(cache, fleet.question, fleet.nodes, fleet.weights) == []


@pytest.mark.full
@FEW
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
        return like(pick, node.emptied())
    return like(pick, counted(pick) if random.random() < 0.9 else described(pick))


def of_machines(seed: int) -> Case:
    """Nodes whose machines are described, and a question to all of them."""
    return seeded(lambda pick: machines(pick, MACHINES), seed)


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
        nodes = [charged(random.choice, one) if random.random() < 0.5 else one for one in nodes]
        for one in nodes:
            cache.nodes.put(one)
        assert differences(cache, fleet.question, nodes, fleet.weights) == []


# What the laws above are tried on.


@pytest.mark.full
@pytest.mark.parametrize("build", [of_many_makes, of_machines])
def test_columns_answer_for_most_nodes(build: Callable[[int], Case]) -> None:
    fleets = [ClusterCache.of(build(seed).nodes).nodes for seed in range(20)]
    layouts = [
        [len({*filter(None, table.columns.layouts)}) for _, table in nodes.tables()] for nodes in fleets
    ]

    assert 0.6 < sum(nodes.in_columns for nodes in fleets) / sum(map(len, fleets)) < 0.95
    if build is of_many_makes:
        assert sum(map(sum, layouts)) / len(fleets) > 24
        assert max(map(max, filter(None, layouts))) > 12
        assert max(map(len, layouts)) == MOST_ZONES
