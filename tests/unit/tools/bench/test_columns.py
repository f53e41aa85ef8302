"""What is measured of the fleet in columns is the work that it should be."""

from dataclasses import replace

import pytest

from numalign.decision.evaluate import evaluate
from numalign.model.intent import Policy
from tools.bench import columns
from tools.bench.columns import CheckFailed, Sizes
from tools.bench.fleets import Case, Raw
from tools.bench.floor import Pass, Scores
from tools.bench.timing import Times

TINY = Sizes(
    nodes=(6,),
    usual=6,
    zones=(2,),
    needed=2,
    questions=2,
    turns=2,
    share=0.5,
    sample=2,
    rounds=1,
)
CASE = Case.alike(12, 2, Policy.SINGLE_NUMA_NODE)


def in_go(*feasible: int, scores: int = 0) -> Pass:
    """What plain Go may have said of two questions for verdicts, and two with scores."""
    sums = [Scores(scores, scores)] * 4 if scores else []
    return Pass([*feasible, *feasible], sums, Times(0.001, 0.001), [0.002])


def measured(found: Pass | None) -> Raw:
    return columns.cell(CASE, CASE.members(), TINY, found)


def by_rules() -> int:
    question = CASE.question(0)
    return sum(evaluate(node, question.demand, question.intent).admitted for node in CASE.members())


def test_a_cell_has_how_many_nodes_take_the_pod() -> None:
    assert measured(None)["feasible"] == by_rules()


def test_where_plain_go_finds_other_nodes_nothing_is_compared() -> None:
    count = by_rules()
    with pytest.raises(CheckFailed, match="nodes that take the pod, here and in Go"):
        measured(in_go(count, count + 1))


def test_where_plain_go_scores_otherwise_nothing_is_compared() -> None:
    count = by_rules()
    with pytest.raises(CheckFailed, match="scores of all nodes together, here and in Go"):
        measured(in_go(count, count, scores=1))


def mixed(sizes: Sizes) -> list[Raw]:
    found: list[Raw] = columns.measure_makes(sizes, (1, 6), None, lambda _: None)["mixed"]
    return found


def test_mixed_fleets_are_asked_by_pods_that_ask_nothing_and_by_pods_that_ask_for_one_zone() -> None:
    cells = [(cell["makes"], cell["asks"]) for cell in mixed(TINY)]
    assert cells == [(makes, asks) for makes in (1, 6) for asks in ("none", "single-numa-node")]


def test_fleets_of_the_usual_makes_are_of_every_size() -> None:
    cells = [(cell["makes"], cell["nodes"]) for cell in mixed(replace(TINY, nodes=(6, 12, 18)))]
    assert cells[::2] == [(1, 12), (6, 12), (6, 6), (6, 18)]


def test_the_table_of_mixed_fleets_has_a_row_for_each() -> None:
    head, *rows = columns.mixed_text(mixed(TINY)).splitlines()
    assert head.split()[:6] == ["makes,", "ms", "nodes", "known", "asks", "verdicts"]
    assert [row.split()[:3] for row in rows[::2]] == [["1", "6", "configured"], ["6", "6", "configured"]]


def test_the_usual_fleet_is_measured_with_its_machines_described_too() -> None:
    cells = columns.measure_makes(TINY, (1,), None, lambda _: None)["described"]
    assert [(cell["makes"], cell["known"], cell["asks"]) for cell in cells] == [
        (6, "machine", asks) for asks in ("none", "single-numa-node")
    ]


def test_a_run_has_a_cell_for_each_policy_and_one_where_more_zones_are_needed() -> None:
    said = list[str]()
    found = columns.measure(TINY, None, said.append)
    cells = [(cell["policy"], cell["needed"]) for cell in found["cells"]]
    assert cells == [*((policy, 1) for policy in Policy), (Policy.RESTRICTED, 2)]
    assert [each["zones"] for each in found["memory"]] == [2]
    assert said[0] == "columns: 6 nodes, 2 zones, 1 needed"
