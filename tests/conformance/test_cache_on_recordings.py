"""
The cache against the rules, on every state that real kubelets were recorded in.

A state is the node as the rules know it before a recorded decision, and it takes the place of the one before
on the board. Decisions in a row ask with different intents, so that these are judged on real states as well.
"""

import itertools
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import settings

from numalign.cache import ClusterCache, Question
from numalign.decision.evaluate import NO_INTENT
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.node import Node
from tests.batches import differences
from tests.conformance import agreement
from tests.conformance.agreement import Level, Recorded

RECORDINGS = tuple(sorted(path.name for path in agreement.DATA.glob("kubelet-*.jsonl.gz")))
EVERY = 1 if settings.get_current_profile_name() == "thorough" else 16
"""Of the recordings one scenario in so many; `make laws` takes them all."""

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


@cache
def scenarios(name: str) -> tuple[Recorded, ...]:
    """Those that are looked at; to read them takes longer than to judge them."""
    return tuple(itertools.islice(agreement.recordings(name), None, None, EVERY))


def states(recorded: Recorded, level: Level) -> Iterator[tuple[Node, Question]]:
    """The node before each decision, as it is known at a level, and what is asked of it."""
    pairs = zip(agreement.answers(recorded, level), itertools.cycle(INTENTS))
    return ((answer.node, Question(pod.demand, intent)) for (pod, answer), intent in pairs)


@pytest.mark.parametrize("level", [Level.MACHINE, Level.CONFIGURED, Level.COUNTS])
@pytest.mark.parametrize("name", RECORDINGS)
def test_in_every_recorded_state_the_cache_answers_what_the_rules_answer(name: str, level: Level) -> None:
    in_columns = 0
    for recorded in scenarios(name):
        cluster = ClusterCache()
        for node, question in states(recorded, level):
            cluster.nodes.put(node)
            in_columns += cluster.nodes.in_columns
            assert differences(cluster, question, [node]) == [], recorded.node["name"]

    assert (in_columns > 0) is (level is not Level.MACHINE)
