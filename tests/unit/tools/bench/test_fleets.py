"""The nodes that the fleet in columns is measured on."""

from dataclasses import replace

import pytest

from numalign.cache import ClusterCache
from numalign.decision.evaluate import evaluate
from numalign.kubelet.cpu_manager import cpus_per_zone
from numalign.model.intent import Policy
from numalign.model.node import Known, Node
from numalign.model.resources import CPU, MILLI
from tools.bench.fleets import GPU, MOST_MAKES, Case, Make, makes

CASES = [
    Case.alike(80, 2, Policy.SINGLE_NUMA_NODE),
    Case.alike(80, 8, Policy.RESTRICTED),
    Case.alike(80, 8, Policy.RESTRICTED, needed=4),
]
MIXES = [Case.mixed(400, count, Policy.SINGLE_NUMA_NODE) for count in (6, 36, MOST_MAKES)]


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


@pytest.mark.parametrize("case", MIXES, ids=str)
def test_about_half_of_the_nodes_of_many_makes_have_a_zone_for_the_pod(case: Case) -> None:
    found = widths(case)
    assert set(found) == {1}
    assert 0.35 < len(found) / case.nodes < 0.65


def test_no_two_makes_are_the_same_and_all_of_fewer_are_among_more() -> None:
    most = makes(MOST_MAKES)
    assert len({*most}) == MOST_MAKES == 216
    assert most[:36] == makes(36)


def test_one_make_is_the_tightest_policy_on_two_zones() -> None:
    assert makes(1) == (Make(2, Policy.SINGLE_NUMA_NODE),)


@pytest.mark.parametrize(("count", "zones"), [(6, {2}), (24, {1, 2, 4, 8}), (36, {1, 2, 4, 8})])
def test_all_policies_and_scopes_come_before_more_zones(count: int, zones: set[int]) -> None:
    found = makes(count)
    assert {make.zones for make in found} == zones
    assert len({(make.policy, make.scope) for make in found}) == 6


def test_makes_stand_in_turn() -> None:
    case = MIXES[0]
    of_nodes = [(len(node.zones), node.policy, node.scope) for node in case.members()]
    assert of_nodes[:6] == of_nodes[6:12] == [(make.zones, make.policy, make.scope) for make in case.makes]


@pytest.mark.parametrize("case", [*CASES, *MIXES], ids=str)
def test_every_node_could_take_it_when_empty(case: Case) -> None:
    question = case.question(0)
    empty = (node.emptied() for node in case.members())
    assert all(evaluate(node, question.demand, question.intent).admitted for node in empty)


def test_the_same_case_has_the_same_nodes() -> None:
    assert CASES[0].members() == CASES[0].members()


def test_no_two_nodes_are_the_same_shape() -> None:
    for case in (CASES[1], MIXES[1]):
        assert len({shape(node) for node in case.members()}) == case.nodes


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


DESCRIBED = replace(Case.mixed(72, 36, Policy.NONE), known=Known.MACHINE)


def test_described_nodes_have_what_their_zones_have_left() -> None:
    for node in DESCRIBED.members():
        assert node.machine is not None
        assert node.stock is not None
        free = cpus_per_zone(node.machine.topology, node.stock.cpus)
        assert [count * MILLI for count in free] == [zone.free[CPU] for zone in node.zones]
        assert dict(node.stock.devices)[GPU] == tuple(zone.free[GPU] for zone in node.zones)


def test_all_described_nodes_stand_in_columns_and_stay_there() -> None:
    nodes = DESCRIBED.members()
    cluster = ClusterCache.of(nodes)
    for one in DESCRIBED.changed(nodes, 0.5, 1):
        cluster.nodes.put(one)

    assert cluster.nodes.unfit == {}
