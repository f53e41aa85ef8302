"""
Laws of "never": what some state of a node admits is not refused for ever, by any program.

States come from other pods on the node, as its kubelet admits them, and from amounts that are taken anyhow.
On small machines every state is tried.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from numalign.cache import Question
from numalign.decision.evaluate import evaluate
from numalign.decision.verdict import Verdict
from numalign.kubelet.admit import admit, charge
from numalign.model import demand as demands
from numalign.model.node import Node
from numalign.shapes.hints import unhinted
from tests.laws import fleets
from tests.laws.fleets import Case, Pick, seeded
from tools.generate.never_page import small, states

STATES = 12


def small_fleets(pick: Pick) -> Case:
    return fleets.machines(pick, fleets.SMALL)


seeds = st.integers(0, 2**32)


def verdict(node: Node, question: Question) -> Verdict:
    return evaluate(node, question.demand, question.intent)


def in_use(pick: Pick, empty: Node) -> Iterator[Node]:
    """States of a node: with more and more pods on it, and with any amounts taken."""
    for _ in range(STATES // 4):
        node = empty
        for _ in range(3):
            node = charge(node, admit(node, demands.of(fleets.pod(pick))))
            yield node
        worn = fleets.worn(pick, empty)
        if all(zone.free[name] <= zone.allocatable.get(name, 0) for zone in worn.zones for name in zone.free):
            yield worn


@pytest.mark.parametrize("build", [fleets.case, small_fleets], ids=["amounts", "machines"])
@given(seeds)
def test_what_a_state_admits_is_never_refused_for_ever(build: Callable[[Pick], Case], seed: int) -> None:
    nodes, question, _ = seeded(build, seed)
    empty = [node.in_health() for node in nodes]
    refused = [node for node in empty if verdict(node, question).permanent]

    pick = Random(seed).choice  # noqa: S311 - inputs of tests keep no secret
    assert [
        state for node in refused for state in in_use(pick, node) if verdict(state, question).admitted
    ] == []


@given(seeds)
def test_no_state_of_a_small_machine_contradicts_never(seed: int) -> None:
    node, question = small(Random(seed))  # noqa: S311 - inputs of tests keep no secret

    if verdict(node, question).permanent:
        assert [state for state in states(node) if verdict(state, question).admitted] == []


# Enforcement: what meets a level by its annotations would meet it without them, on every node.


@given(seeds)
def test_listing_fewer_resources_is_noticed_or_harmless(seed: int) -> None:
    nodes, question, _ = seeded(fleets.case, seed)
    # Levels leave aside what only a feature gate pins; and best-effort is aligned wherever it is.
    assume(question.demand.pod_level is None and question.intent.binding)
    missing = question.left_out(unhinted(nodes))
    event(
        "lists all"
        if question.intent.resources and not missing
        else "lists less"
        if missing
        else "lists none"
    )
    everything = Question(question.demand, replace(question.intent, resources=()))

    admitting = [node for node in nodes if verdict(node, question).admitted]
    weaker = [node for node in admitting if not verdict(node, everything).admitted]
    assert weaker == [] or missing
