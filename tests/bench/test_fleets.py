"""The nodes that the fleet in columns is measured on."""

from dataclasses import replace

import pytest

from bench.fleets import Case
from numalign.decision.evaluate import evaluate
from numalign.model.intent import Policy
from numalign.model.node import Node

CASES = [
    Case(80, 2, Policy.SINGLE_NUMA_NODE),
    Case(80, 8, Policy.RESTRICTED),
    Case(80, 8, Policy.RESTRICTED, needed=4),
]


def shape(node: Node) -> Node:
    """What a node has, whatever is on it."""
    return replace(node.emptied(), name="", label=None)


def widths(case: Case) -> list[int]:
    """How many zones the pod gets on each node that takes it."""
    question = case.question(0)
    verdicts = [evaluate(node, question.demand, question.intent) for node in case.members()]
    return [len(verdict.placement.zones) for verdict in verdicts if verdict.admitted]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_about_half_of_the_nodes_take_the_pod_on_as_many_zones_as_it_needs(case: Case) -> None:
    found = widths(case)
    assert set(found) == {case.needed}
    assert 0.35 < len(found) / case.nodes < 0.65


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_node_could_take_it_when_empty(case: Case) -> None:
    question = case.question(0)
    empty = (node.emptied() for node in case.members())
    assert all(evaluate(node, question.demand, question.intent).admitted for node in empty)


def test_the_same_case_has_the_same_nodes() -> None:
    assert CASES[0].members() == CASES[0].members()


def test_no_two_nodes_are_the_same_shape() -> None:
    assert len({shape(node) for node in CASES[1].members()}) == CASES[1].nodes


def test_no_two_questions_are_the_same() -> None:
    assert len({CASES[2].question(number) for number in range(-1, 20)}) == 21


def by_name(nodes: list[Node]) -> dict[str, Node]:
    return {node.name: node for node in nodes}


def test_nodes_that_change_have_other_amounts_free_and_are_the_same_otherwise() -> None:
    before = by_name(CASES[1].members())
    changed = by_name(CASES[1].changed(list(before.values()), 0.1, turn=0))
    assert len(changed) == 8
    for name, node in changed.items():
        assert node != before[name]
        assert shape(node) == shape(before[name])
