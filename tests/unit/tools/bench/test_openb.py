"""The shapes of a real cluster, as they are asked about."""

from numalign.decision.evaluate import evaluate
from numalign.model.intent import Scope
from tools.bench import openb


def test_every_shape_of_a_pod_is_asked_with_every_policy_and_scope() -> None:
    assert len({*openb.questions()}) == 151 * 4 * 2


def test_machines_are_cut_into_even_zones() -> None:
    for node in openb.nodes(600):
        assert len({zone.capacity["cpu"] for zone in node.zones}) == 1
        assert all(0 < zone.allocatable["cpu"] < zone.capacity["cpu"] for zone in node.zones)


def test_nodes_are_the_same_every_time_and_more_begin_with_fewer() -> None:
    assert openb.nodes(50) == openb.nodes(80)[:50]


def test_all_configurations_of_a_shape_come_before_the_next_shape() -> None:
    first = openb.nodes(6)
    assert len({(node.policy, node.scope) for node in first}) == 6
    assert {node.scope for node in first} == {*Scope}
    assert {len(node.zones) for node in openb.nodes(600)} == {1, 2, 4, 8}


def test_some_pods_are_taken_and_some_are_not() -> None:
    asked = list(openb.questions())[::40]
    found = {
        evaluate(node, question.demand, question.intent).admitted
        for node in openb.nodes(12)
        for question in asked
    }
    assert found == {True, False}


def test_the_rules_are_asked_about_no_more_pairs_than_there_are() -> None:
    found = openb.measure(count=12, every=200)
    assert found["questions"] == 7
    assert all(0 <= found[name]["by_rules"] <= 1 for name in openb.ASKED)
    assert openb.text(found).splitlines()[0].startswith("7 questions of 12 nodes")
