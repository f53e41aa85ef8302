"""Which strategies rank a node, by its labels, and how people write them."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from errno import ENOENT
from os import strerror
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.batch import Batch
from numalign.cache.ranking import Ranking, Relative
from numalign.decision.scoring import Strategy
from numalign.model.constraints import Operator, Requirement
from numalign.scheduling.ranking import (
    HEAVIEST,
    MEASURES,
    BadRanking,
    Choice,
    Ranker,
    RankingRules,
    parse_rankings,
    parse_strategies,
    parse_weights,
    read_rankings,
)
from tests.worlds.columns import batch
from tests.worlds.notation import GPU, node, table

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


# A file of rankings.

FLAGS = Ranking((MOST,), {"cpu": 7})
"""What the flags say."""

EXAMPLE = b"""
strategies: [LeastNUMANodes, RelativeNUMANodes]
weights: {cpu: 2}
rankings:
- nodeSelector:
    matchLabels: {pool: gpu}
  strategies: [MostAllocated]
  weights: {nvidia.com/gpu: 3}
- nodeSelector:
    matchExpressions:
    - {key: pool, operator: NotIn, values: [gpu]}
    - {key: rack, operator: Exists}
  strategies: [LeastAllocated]
- nodeSelector:
    matchLabels: {pool: db}
  weights: {}
"""


def test_file_sets_rankings_by_node_label() -> None:
    gpu, db = (Requirement("pool", Operator.IN, frozenset({pool})) for pool in ("gpu", "db"))
    racked = (Requirement("pool", Operator.NOT_IN, frozenset({"gpu"})), Requirement("rack", Operator.EXISTS))
    usual = (FEW, Relative.NUMA_NODES)
    assert parse_rankings(EXAMPLE, default=FLAGS) == RankingRules(Ranking(usual, {"cpu": 2}), (
        Choice((gpu,), Ranking((MOST,), {GPU: 3})), Choice(racked, Ranking((LEAST,), {"cpu": 2})),
        Choice((db,), Ranking(usual, {})),
    ))  # fmt: skip


@pytest.mark.parametrize("nothing", ["{}", "rankings:", "rankings: []\nstrategies:\nweights:"])
def test_omitted_parts_default_to_the_flags(nothing: str) -> None:
    assert parse_rankings(nothing.encode(), default=FLAGS) == RankingRules(FLAGS)


def entry(text: str) -> str:
    return f"rankings: [{{nodeSelector: {{matchLabels: {{a: b}}}}, {text}}}]"


FOR_ALL = "is empty: strategies and weights for all nodes belong at the top level"


@pytest.mark.parametrize(("text", "mistakes"), table([
    # situation: (the file, every mistake in order)
    ("a key in another way", "ranking: []\nstrategy: x",
     ['ranking: unknown key; did you mean "rankings"?',
      'strategy: unknown key; did you mean "strategies"?']),
    ("parts of another shape", "rankings: {}\nstrategies: MostAllocated\nweights: 3",
     ['strategies: must be a list, not "MostAllocated"',
      "weights: must be an object, not a number",
      "rankings: must be a list, not an object"]),
    ("an entry of nothing", "rankings: [{}]",
     [f"rankings[0].nodeSelector: {FOR_ALL}",
      "rankings[0]: sets nothing for these nodes: add strategies or weights"]),
    ("an entry with another key", entry("strategies: [MostAllocated], weigths: {cpu: 1}"),
     ['rankings[0].weigths: unknown key; did you mean "weights"?']),
    ("strategies that are none", entry("strategies: [mostAllocated, '', 3, null, LeastAllocated]"),
     ['rankings[0].strategies[0]: "mostAllocated" is not a strategy; did you mean "MostAllocated"?',
      "rankings[0].strategies[1]: is empty",
      "rankings[0].strategies[2]: must be a string, not a number",
      "rankings[0].strategies[3]: is missing"]),
    ("no strategies", "strategies: []", [f"strategies: is empty: name one of {KNOWN}"]),
    ("too many strategies", f"strategies: [{KNOWN}, MostAllocated]",
     ["strategies: has 6 entries, but there are only 5 strategies"]),
    ("weights that are none", "weights: {cpu: 0, memory: 101, a: 0.5, b: true, c: '1', d: , e: {}}",
     [f"weights.{name}: {NEEDS}" for name in ("cpu", "memory", "a", "b", "c", "d", "e")]),
    ("resources that are none", "weights: {rdma/*: 1, '': 1, a b: 1, 1: 1}",
     ["weights.1: the key must be a string: put it in quotes",
      f'weights[rdma/*]: "rdma/*" {NO_NAME}',
      f'weights.: "" {NO_NAME}',
      f'weights[a b]: "a b" {NO_NAME}']),
    ("too many weights", "weights: {" + ", ".join(f"r{number}: 1" for number in range(65)) + "}",
     ["weights: has 65 entries: at most 64 are allowed"]),
    ("mistakes in different places",
     "more: 1\nweights: {cpu: 0}\nrankings: [{nodeSelector: {matchLabels: {a b: c}}, strategies: [x]}]",
     ["more: unknown key; expected one of rankings, strategies, weights",
      f"weights.cpu: {NEEDS}",
      "rankings[0].nodeSelector.matchLabels[a b]: no label can have the key 'a b'",
      f'rankings[0].strategies[0]: "x" is not a strategy; expected one of {KNOWN}']),
]))  # fmt: skip
def test_every_mistake_is_listed_with_its_place(text: str, mistakes: list[str]) -> None:
    with pytest.raises(BadRanking) as raised:
        parse_rankings(text.encode(), default=FLAGS)
    assert [str(mistake) for mistake in raised.value.mistakes] == mistakes


def test_a_mistake_in_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ranking.yaml"
    path.write_text("strategies: [x, MostAllocated]\nwaits: 1", encoding="utf-8")
    with pytest.raises(BadRanking) as raised:
        read_rankings(path, default=FLAGS)
    assert [mistake.where for mistake in raised.value.mistakes] == [
        f"{path}: waits",
        f"{path}: strategies[0]",
    ]


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadRanking, match=f"none: cannot be read: {strerror(ENOENT)}$"):
        read_rankings(tmp_path / "none", default=FLAGS)


words = st.sampled_from(
    ["rankings", "strategies", "weights", "nodeSelector", "matchLabels", "MostAllocated", "a", ""]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 101) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(words, anything, max_size=4))
def test_any_file_is_read_or_refused(content: dict[str, object]) -> None:
    with contextlib.suppress(BadRanking):
        rules = parse_rankings(orjson.dumps(content), default=FLAGS)
        rankings = [rules.default, *(choice.ranking for choice in rules.choices)]
        assert all(ranking.strategies for ranking in rankings)
        assert all(choice.requirements for choice in rules.choices)
