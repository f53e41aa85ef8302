"""
The cache against the rules, on every state that real kubelets were recorded in.

A state is the node as the rules know it before a recorded decision, and it takes the place of the one before
on the board. Nodes of all recordings stand on one board, and each is asked beside some that came before it.
Decisions in a row ask with different intents, so that these are judged on real states as well.
"""

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from numalign.cache import ClusterCache, Question
from numalign.decision.evaluate import NO_INTENT
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.node import Node
from tests.worlds.columns import differences
from tests.worlds.thoroughness import Thoroughness, thoroughness
from tools.generate import agreement
from tools.generate.agreement import Level, Recorded

RECORDINGS = tuple(sorted(path.name for path in agreement.DATA.glob("kubelet-*.jsonl.gz")))
EVERY = {Thoroughness.SAMPLE: 720, Thoroughness.FULL: 24, Thoroughness.THOROUGH: 1}[thoroughness()]
"""Of the recordings one scenario in so many; `make laws` takes them all."""
STEP = 3 if thoroughness() is Thoroughness.SAMPLE else 1
"""Of its decisions one in so many, which asks with every intent in turn."""

INTENTS = (
    NO_INTENT,
    Intent(Policy.RESTRICTED),
    NO_INTENT,
    Intent(Policy.BEST_EFFORT),
    NO_INTENT,
    Intent(Policy.SINGLE_NUMA_NODE),
    Intent(Policy.RESTRICTED, scope=Scope.POD),
)

pytestmark = pytest.mark.timeout(900)


LEVELS = [Level.MACHINE, Level.CONFIGURED, Level.COUNTS]

QUESTIONS = 10
"""So many of the questions are put to all nodes."""

LEAST_SHARE = {Level.MACHINE: 0.5, Level.CONFIGURED: 0.5, Level.COUNTS: 0.75}
"""Of so many of the nodes columns answer at the least."""

BESIDE = 3
"""So many nodes are asked beside the one of which a decision was recorded."""


@cache
def scenarios(name: str) -> tuple[Recorded, ...]:
    """Those that are looked at; to read them takes longer than to judge them."""
    return tuple(agreement.recordings(name, every=EVERY))


def all_scenarios() -> Iterator[Recorded]:
    every = itertools.zip_longest(*map(scenarios, RECORDINGS))
    return (one for some in every for one in some if one)


def states(recorded: Recorded, level: Level) -> Iterator[tuple[Node, Question]]:
    """The node before each decision, as it is known at a level, and what is asked of it."""
    pairs = zip(agreement.answers(recorded, level), itertools.cycle(INTENTS))
    some = itertools.islice(pairs, 0, None, STEP)
    return ((answer.node, Question(pod.demand, intent)) for (pod, answer), intent in some)


def board(level: Level) -> Iterator[tuple[ClusterCache, list[Node], Question]]:
    """A cache that holds more and more recorded nodes, the last of them, and what is asked."""
    cluster, last = ClusterCache(), deque[Node](maxlen=BESIDE)
    for number, recorded in enumerate(all_scenarios()):
        for state, question in states(recorded, level):
            node = replace(state, name=f"n{number}")
            cluster.nodes.put(node)
            yield cluster, [node, *last], question
        last.append(node)


@cache
def together(level: Level) -> tuple[ClusterCache, list[Question]]:
    """A cache that holds all the recorded nodes, and everything that was asked."""
    boards = [*board(level)]
    return boards[-1][0], [question for *_, question in boards]


@pytest.mark.parametrize("level", LEVELS)
def test_the_cache_answers_in_recorded_states_as_the_rules(level: Level) -> None:
    for cluster, nodes, question in board(level):
        assert differences(cluster, question, nodes) == []


@pytest.mark.full
@pytest.mark.parametrize("level", LEVELS)
def test_recorded_nodes_together_are_evaluated_as_by_rules(level: Level) -> None:
    cluster, questions = together(level)
    nodes = [*cluster.nodes]
    assert len(nodes) == sum(1 for _ in all_scenarios())
    for question in questions[:: len(questions) // QUESTIONS]:
        assert differences(cluster, question, nodes) == []


@pytest.mark.parametrize("level", LEVELS)
def test_columns_answer_for_many_of_the_recorded_nodes(level: Level) -> None:
    cluster, _ = together(level)
    assert cluster.nodes.in_columns / len(cluster.nodes) > LEAST_SHARE[level]
