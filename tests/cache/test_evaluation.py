"""What nodes say to one question is worked out once, and again where something changed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from numalign.cache import Question
from numalign.cache.arrays import Bools
from numalign.cache.evaluation import Evaluation
from numalign.cache.node_table import NodeTable
from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.decision.scoring import Strategy
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node
from numalign.model.resources import MEMORY
from tests.in_columns import left, named
from tests.notation import GPU, asks, machine, means, node

ZONE = "cpu=8 mem=8Gi gpu=2"
ROOMY = node(ZONE, ZONE, policy="single-numa-node")
BUSY = left(ROOMY, "gpu=1", "gpu=0")
SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy="single-numa-node")
ODD = machine("cpu=0-7 mem=8Gi", "cpu=8-15 mem=8Gi", devices="gpu=0,0,1", policy="single-numa-node")
ODD_BUSY = machine("cpu=0-7 mem=8Gi", "cpu=8-15 mem=8Gi", devices="gpu=0*,0,1", policy="single-numa-node")
ODD_SMALL = machine("cpu=0-7 mem=8Gi", "cpu=8-15 mem=8Gi", devices="gpu=0,1", policy="single-numa-node")

MOST, FEWEST = Strategy.MOST_ALLOCATED, Strategy.LEAST_NUMA_NODES

KEPT = 4096
"""So many verdicts are kept."""


class Watched(NodeTable):
    """Tables that remember which nodes somebody looked at."""

    def __init__(self, *nodes: Node) -> None:
        super().__init__()
        self.looked_at: list[str] = []
        for one in nodes:
            self.put(one)

    def node(self, row: int) -> Node:
        """As it is."""
        found = super().node(row)
        self.looked_at.append(found.name)
        return found

    def looked(self) -> list[str]:
        """At which nodes somebody looked since the last time."""
        found, self.looked_at = self.looked_at, []
        return found


def answer(nodes: NodeTable, pod: str = "cpu=1 mem=1Gi gpu=2", intent: Intent = NO_INTENT) -> Evaluation:
    return Evaluation(nodes, Question(asks(pod), intent))


def permanent(answer: Evaluation) -> Bools:
    """Which nodes, all of them here, refuse for good."""
    refused: Bools = ~(answer.admitted | answer.able)
    return refused


def watched(*nodes: Node) -> tuple[Watched, Evaluation]:
    tables = Watched(*named(nodes))
    return tables, answer(tables)


# What it says.


def test_of_every_node_it_is_told() -> None:
    _, found = watched(ROOMY, BUSY, SMALL, ODD, ODD_BUSY, ODD_SMALL)

    assert found.admitted.tolist() == [True, False, False, True, False, False]
    assert found.able.tolist() == [True, True, False, True, True, False]
    assert permanent(found).tolist() == [False, False, True, False, False, True]
    assert found.aligned.tolist() == [True, False, False, True, False, False]
    assert found.zones.tolist() == [1, -1, -1, 1, -1, -1]
    assert found.scores(FEWEST).tolist() == [94, -1, -1, 94, -1, -1]
    assert (found.refusals >= 0).tolist() == [False, True, True, False, True, True]


def test_the_kinds_of_numbers_are_as_announced() -> None:
    _, found = watched(ROOMY, ODD)
    numbers = (found.zones, found.scores(MOST), found.refusals)

    assert found.admitted.dtype == permanent(found).dtype == np.bool_
    assert [each.dtype.name for each in numbers] == ["int16", "int16", "int32"]


def test_rows_of_nodes_that_are_gone_say_no() -> None:
    tables, found = watched(ROOMY, ODD, ROOMY)
    assert found.admitted.all()
    for name in ("n0", "n1"):
        tables.drop(name)

    for bools in (found.admitted, found.able, found.aligned):
        assert bools.tolist() == [False, False, True]
    for numbers in (found.zones, found.scores(FEWEST)):
        assert (numbers >= 0).tolist() == [False, False, True]
    assert found.refusals.tolist() == [-1] * 3


def test_without_nodes_there_is_nothing_to_say() -> None:
    _, found = watched()

    arrays = (found.admitted, found.able, permanent(found), found.aligned, found.zones, found.refusals)
    assert [len(each) for each in (*arrays, found.scores(MOST))] == [0] * 7


def test_where_the_pod_would_come_to_is_what_the_rules_say() -> None:
    tables, found = watched(ROOMY, ODD)

    assert found.placement(0) == evaluate(tables.node(0), asks("cpu=1 mem=1Gi gpu=2")).placement
    assert found.placement(1).zones == {0}


def test_of_a_row_without_a_node_there_is_no_verdict() -> None:
    tables, found = watched(ROOMY)
    tables.drop("n0")

    with pytest.raises(KeyError):
        found.verdict(0)


def test_only_the_rules_know_where_a_pod_lands_by_chance() -> None:
    none = node(ZONE, ZONE, ZONE, policy="none")
    tables = Watched(*named([none, left(none, "gpu=1", "gpu=1", "gpu=1"), left(none, *["gpu=0"] * 3)]))
    found = answer(tables, "gpu=3")

    assert found.zones.tolist() == [2, 3, -1]
    assert found.scores(FEWEST).tolist() == [82, 70, -1]
    assert found.aligned.tolist() == [False] * 3


def test_a_pod_comes_to_where_there_is_room_as_things_stand() -> None:
    best = replace(ROOMY, policy=Policy.BEST_EFFORT)
    apart = left(best, "cpu=0", "gpu=0")
    tables = Watched(*named([left(best, "gpu=1", "cpu=4"), apart]))
    found = answer(tables)

    assert found.scores(MOST).tolist()[0] == (25 + 12 + 100) // 3
    assert found.zones.tolist() == [1, 2]
    assert found.aligned.tolist() == [True, False]
    assert found.able.tolist() == [True, True]


def test_a_promise_is_the_pods_own() -> None:
    tables = Watched(*named([replace(ROOMY, policy=Policy.BEST_EFFORT), ROOMY]))

    assert answer(tables, "gpu=3", means("single-numa-node")).admitted.tolist() == [False, False]
    assert answer(tables, "gpu=3").admitted.tolist() == [True, False]
    assert answer(tables, "gpu=3", means("best-effort")).aligned.tolist() == [True, False]


# Why nodes refuse.


def test_who_refuses_alike_has_one_number() -> None:
    tables, found = watched(BUSY, BUSY, SMALL, ODD_BUSY, ODD_BUSY, ROOMY, ODD_SMALL)
    said = found.refusals.tolist()

    assert (said[0], said[3]) == (said[1], said[4])
    assert len({said[0], said[2], said[3], said[6]}) >= 3
    assert said[5] == -1
    assert tables.in_columns == 4


def test_a_refusal_for_now_and_one_for_good_have_two_numbers() -> None:
    full = left(SMALL, "gpu=0", "gpu=0")
    tables = Watched(*named([full, SMALL]))

    for pod, numbers in (("gpu=1", 1), ("gpu=2", 1)):
        found = answer(tables, pod)
        assert len({*found.refusals.tolist()} - {-1}) == numbers
    assert permanent(answer(tables, "gpu=1")).tolist() == [False, False]
    assert permanent(answer(tables, "gpu=2")).tolist() == [True, True]


def test_odd_nodes_with_the_same_words_have_one_number_and_with_others_another() -> None:
    two = machine("cpu=0-7 mem=8Gi", "cpu=8-15 mem=8Gi", devices="gpu=0,1", policy="restricted")
    _, found = watched(ODD_SMALL, ODD_SMALL, two, ODD_BUSY)
    said = found.refusals.tolist()

    assert said[0] == said[1]
    assert said[3] not in said[:2]


def test_numbers_stay_while_nodes_come_and_go() -> None:
    tables, found = watched(*[BUSY] * 4, *[SMALL] * 4)
    before = found.refusals.tolist()
    tables.put(replace(SMALL, name="n0"))
    after = found.refusals.tolist()

    assert after == [before[4], *before[1:]]


# What is worked out again.


def _alike(found: Evaluation) -> list[int]:
    """By row the first one of which the same is said."""
    said = found.refusals.tolist()
    return [said.index(number) for number in said]


LOOKS: dict[str, Callable[[Evaluation], list[Any]]] = {
    "admitted": lambda found: found.admitted.tolist(),
    "able": lambda found: found.able.tolist(),
    "aligned": lambda found: found.aligned.tolist(),
    "width": lambda found: found.zones.tolist(),
    "said": _alike,
    "scores": lambda found: found.scores(MOST).tolist(),
}
looks = pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)


@looks
def test_what_is_known_is_not_asked_again(look: Callable[[Evaluation], list[Any]]) -> None:
    tables, found = watched(*[ODD] * 4, *[ODD_SMALL] * 4, *[ODD_BUSY] * 4)
    look(found)
    tables.looked()

    look(found)
    assert tables.looked() == []


@looks
def test_only_nodes_that_changed_are_asked_again(look: Callable[[Evaluation], list[Any]]) -> None:
    tables, found = watched(*[ODD] * 4, *[ODD_SMALL] * 4, *[ODD_BUSY] * 4)
    look(found)
    tables.looked()
    for name, one in (("n3", ODD_BUSY), ("n8", ODD), ("n6", ODD_BUSY)):
        tables.put(replace(one, name=name))
    after = look(found)

    assert {*tables.looked()} <= {"n3", "n6", "n8"}
    assert after == look(answer(tables))


@looks
def test_columns_that_changed_are_read_again(look: Callable[[Evaluation], list[Any]]) -> None:
    tables, found = watched(*[ROOMY] * 6, *[SMALL] * 6, *[BUSY] * 6)
    look(found)
    tables.looked()
    for name, one in (("n1", BUSY), ("n7", ROOMY), ("n14", ROOMY), ("n15", SMALL)):
        tables.put(replace(one, name=name))
    after = look(found)

    assert tables.looked() == []
    assert after == look(answer(tables))


def test_whether_a_node_could_ever_take_it_is_not_asked_again_for_what_is_free() -> None:
    tables, found = watched(*[ODD] * 4, *[ODD_SMALL] * 4)
    assert found.able.tolist() == [True] * 4 + [False] * 4
    tables.looked()
    tables.put(replace(ODD_BUSY, name="n0"))
    tables.put(replace(ODD_SMALL, name="n1"))

    assert found.able.tolist() == [True, False, True, True] + [False] * 4
    assert {*tables.looked()} == {"n1"}


def test_nodes_in_columns_are_not_looked_at_but_for_one_of_a_layout() -> None:
    tables, found = watched(*[ROOMY] * 5, *[replace(ROOMY, max_zones=16)] * 5)

    assert found.admitted.all()
    assert found.aligned.all()
    assert (found.zones == 1).all()
    assert (found.scores(MOST) > 0).all()
    assert len(tables.looked()) == 2


def test_a_layout_that_comes_later_is_planned_then() -> None:
    tables, found = watched(*[ROOMY] * 5)
    assert found.admitted.tolist() == [True] * 5
    tables.put(replace(ROOMY, name="n5", max_zones=16))

    assert found.admitted.tolist() == [True] * 6
    assert found.scores(FEWEST).tolist() == [94] * 5 + [97]


def test_scores_are_kept_by_strategy_and_weights() -> None:
    _, found = watched(ROOMY, ROOMY)

    assert found.scores(FEWEST).tolist() == [94, 94]
    assert found.scores(MOST).tolist() == [(12 + 12 + 100) // 3] * 2
    assert found.scores(MOST, {GPU: 7, MEMORY: 2}).tolist() == [(12 + 2 * 12 + 7 * 100) // 10] * 2
    assert found.scores(MOST, {MEMORY: 2, GPU: 7}).tolist() == [73, 73]


# Verdicts of single nodes.


def test_a_verdict_is_kept_while_its_node_stands() -> None:
    tables, found = watched(ODD, ROOMY)
    first = found.verdict(0)
    assert found.verdict(0) is first

    tables.put(replace(ODD, name="n1"))
    assert found.verdict(0) is first
    tables.put(replace(ODD_BUSY, name="n0"))
    assert not found.verdict(0).admitted


def test_only_so_many_verdicts_are_kept() -> None:
    tables = NodeTable()
    bare = node()
    for at in range(KEPT + 1):
        tables.put(replace(bare, name=f"n{at}"))
    found = answer(tables)
    first = found.verdict(0)
    for row in range(1, KEPT):
        found.verdict(row)
    assert found.verdict(0) is first

    found.verdict(KEPT)
    assert found.verdict(0) is not first
    assert found.verdict(0) == first
