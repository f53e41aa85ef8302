"""Which strategies rank a node, by its labels, and how people write them."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from numalign.cache.batch import Batch
from numalign.cache.ranking import Ranking, Relative
from numalign.decision.scoring import Strategy
from numalign.model.constraints import Operator, Requirement
from numalign.scheduling.ranking import (
    HEAVIEST,
    MEASURES,
    Choice,
    Ranker,
    RankingRules,
    parse_strategies,
    parse_weights,
)
from tests.worlds.columns import batch
from tests.worlds.notation import node, table

FEW, MOST, LEAST = Strategy.LEAST_NUMA_NODES, Strategy.MOST_ALLOCATED, Strategy.LEAST_ALLOCATED


def test_every_strategy_has_a_name() -> None:
    assert {*MEASURES} == {*map(str, Strategy), *map(str, Relative)}


# Choices.

POOL = Requirement("pool", Operator.IN, frozenset({"gpu"}))
RACKED = (Requirement("rack", Operator.EXISTS), Requirement("pool", Operator.DOES_NOT_EXIST))
RULES = RankingRules(Ranking((FEW,)), (Choice((POOL,), Ranking((MOST,))), Choice(RACKED, Ranking((LEAST,)))))


@pytest.mark.parametrize(("labels", "measure"), table([
    # what it shows                  labels                         ranking
    ("one that is selected",         {"pool": "gpu"},               MOST),
    ("the first of several",         {"pool": "gpu", "rack": "7"},  MOST),
    ("all requirements are to hold", {"pool": "cpu", "rack": "7"},  FEW),
]))  # fmt: skip
def test_a_ranking_is_chosen_by_labels(labels: dict[str, str], measure: Strategy) -> None:
    assert RULES.rankings[RULES.number_of(labels)] == Ranking((measure,))


# Nodes.

HALF = node("cpu=8//4 mem=8Gi", policy="best-effort")
POD = "cpu=1 mem=1Gi"
BY_MEASURE = {FEW: (94,), MOST: (18,), LEAST: (81,)}
"""What the pod is worth there."""

Labels = Mapping[str, Mapping[str, str]]


def values(ranker: Ranker, answer: Batch, names: list[str], labels: Labels) -> list[tuple[int, ...]]:
    found = ranker.ranks(replace(answer, names=names), labels)
    return [found.score(place).values for place in range(len(names))]


def test_node_is_ranked_by_its_labels() -> None:
    labels = {"a": {"pool": "gpu"}, "b": {"rack": "7"}, "elsewhere": {"rack": "8"}}
    found = values(Ranker(RULES), batch([HALF] * 3, POD), ["b", "c", "a"], labels)
    assert found == [BY_MEASURE[measure] for measure in (LEAST, FEW, MOST)]


def test_labels_that_change_choose_anew() -> None:
    ranker, answer = Ranker(RULES), batch([HALF] * 2, POD)
    first: Labels = {"a": {"pool": "gpu"}, "b": {"pool": "gpu"}}
    second: Labels = {**first, "a": {"rack": "7"}}
    assert values(ranker, answer, ["a", "b"], first) == [BY_MEASURE[MOST]] * 2
    assert values(ranker, answer, ["a", "b"], second) == [BY_MEASURE[LEAST], BY_MEASURE[MOST]]
    assert values(ranker, answer, ["a", "b"], {}) == [BY_MEASURE[FEW]] * 2


def test_labels_are_not_looked_at_again_until_they_change() -> None:
    ranker, answer, kept = Ranker(RULES), batch([HALF], POD), {"pool": "gpu"}
    values(ranker, answer, ["a"], first := {"a": kept})
    # Nobody changes them in place, so nobody may see it.
    kept["pool"] = "cpu"
    for labels in (first, {"a": kept, "b": {"rack": "7"}}):
        assert values(ranker, answer, ["a"], labels) == [BY_MEASURE[MOST]]


def test_the_own_node_of_a_pod_is_ranked_by_its_labels_too() -> None:
    answer = batch([None, None], POD, own=(1, HALF))
    assert values(Ranker(RULES), answer, ["a", "b"], {"b": {"pool": "gpu"}}) == [(0,), BY_MEASURE[MOST]]


# What people write.


KNOWN = "LeastNUMANodes, MostAllocated, LeastAllocated, BalancedAllocation, RelativeNUMANodes"


def test_weights_are_read() -> None:
    assert parse_weights(f" nvidia.com/gpu = {HEAVIEST} ,cpu=1") == {"nvidia.com/gpu": HEAVIEST, "cpu": 1}
    assert parse_weights(" ") == {}


NEEDS = "needs a weight, a whole number from 1 to 100"
NO_NAME = "is not a resource name, like cpu or nvidia.com/gpu"


@pytest.mark.parametrize(("read", "text", "message"), table([
    # what is wrong       what reads it     text                       what is told
    ("a comma too many",  parse_strategies, "MostAllocated,",          f"a name is missing: one of {KNOWN}"),
    ("a habit",           parse_strategies, "leastNumaNodes",
        '"leastNumaNodes" is not a strategy; did you mean "LeastNUMANodes"?'),
    ("a strategy twice",  parse_strategies, "MostAllocated,MostAllocated", '"MostAllocated" is named twice'),
    ("all that is wrong", parse_strategies, "Balanced,x",
        ('"Balanced" is not a strategy; did you mean "BalancedAllocation"?; "x" is not a strategy;'
        f' expected one of {KNOWN}')),
    ("a thousand",        parse_strategies, "," * 999, "1000 strategies are listed, and only 5 exist"),
    ("no weight",         parse_weights,    "cpu",                     f'"cpu" {NEEDS}, like cpu=1'),
    ("nothing",           parse_weights,    "cpu=0",                   f'"cpu" {NEEDS}, like cpu=1'),
    ("too much",          parse_weights,    "cpu=101",                 f'"cpu" {NEEDS}, like cpu=1'),
    ("other digits",      parse_weights,    "cpu=٣",                   f'"cpu" {NEEDS}, like cpu=1'),
    ("a pattern",         parse_weights,    "rdma/*=1",                f'"rdma/*" {NO_NAME}'),
    ("a resource twice",  parse_weights,    "cpu=1,cpu=2",             '"cpu" is named twice'),
]))  # fmt: skip
def test_strategies_or_weights_are_invalid_if(read: Callable[[str], object], text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^") as raised:
        read(text)
    assert str(raised.value) == message
