"""A file of rankings: what it may say, and all that can be wrong with it."""

import contextlib
from errno import ENOENT
from os import strerror
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.ranking import Ranking, Relative
from numalign.decision.scoring import Strategy
from numalign.model.constraints import Operator, Requirement
from numalign.scheduling.ranking import Choice, RankingRules
from scorer.ranking_file import BadRanking, parse, read
from tests.worlds.notation import GPU, table

FEW, MOST, LEAST = Strategy.LEAST_NUMA_NODES, Strategy.MOST_ALLOCATED, Strategy.LEAST_ALLOCATED

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
    assert parse(EXAMPLE, default=FLAGS) == RankingRules(Ranking(usual, {"cpu": 2}), (
        Choice((gpu,), Ranking((MOST,), {GPU: 3})), Choice(racked, Ranking((LEAST,), {"cpu": 2})),
        Choice((db,), Ranking(usual, {})),
    ))  # fmt: skip


@pytest.mark.parametrize("nothing", ["{}", "rankings:", "rankings: []\nstrategies:\nweights:"])
def test_omitted_parts_default_to_the_flags(nothing: str) -> None:
    assert parse(nothing.encode(), default=FLAGS) == RankingRules(FLAGS)


def entry(text: str) -> str:
    return f"rankings: [{{nodeSelector: {{matchLabels: {{a: b}}}}, {text}}}]"


NAMES = "LeastNUMANodes, MostAllocated, LeastAllocated, BalancedAllocation, RelativeNUMANodes"
FOR_ALL = "is empty: strategies and weights for all nodes belong at the top level"
NEEDS = "needs a weight, a whole number from 1 to 100"
NO_RESOURCE = "is not a resource name, like cpu or nvidia.com/gpu"


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
    ("no strategies", "strategies: []", [f"strategies: is empty: name one of {NAMES}"]),
    ("too many strategies", f"strategies: [{NAMES}, MostAllocated]",
     ["strategies: has 6 entries, but there are only 5 strategies"]),
    ("weights that are none", "weights: {cpu: 0, memory: 101, a: 0.5, b: true, c: '1', d: , e: {}}",
     [f"weights.{name}: {NEEDS}" for name in ("cpu", "memory", "a", "b", "c", "d", "e")]),
    ("resources that are none", "weights: {rdma/*: 1, '': 1, a b: 1, 1: 1}",
     ["weights.1: the key must be a string: put it in quotes",
      f'weights[rdma/*]: "rdma/*" {NO_RESOURCE}',
      f'weights.: "" {NO_RESOURCE}',
      f'weights[a b]: "a b" {NO_RESOURCE}']),
    ("too many weights", "weights: {" + ", ".join(f"r{number}: 1" for number in range(65)) + "}",
     ["weights: has 65 entries: at most 64 are allowed"]),
    ("mistakes in different places",
     "more: 1\nweights: {cpu: 0}\nrankings: [{nodeSelector: {matchLabels: {a b: c}}, strategies: [x]}]",
     ["more: unknown key; expected one of rankings, strategies, weights",
      f"weights.cpu: {NEEDS}",
      "rankings[0].nodeSelector.matchLabels[a b]: no label can have the key 'a b'",
      f'rankings[0].strategies[0]: "x" is not a strategy; expected one of {NAMES}']),
]))  # fmt: skip
def test_every_mistake_is_listed_with_its_place(text: str, mistakes: list[str]) -> None:
    with pytest.raises(BadRanking) as raised:
        parse(text.encode(), default=FLAGS)
    assert [str(mistake) for mistake in raised.value.mistakes] == mistakes


def test_a_mistake_in_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ranking.yaml"
    path.write_text("strategies: [x, MostAllocated]\nwaits: 1", encoding="utf-8")
    with pytest.raises(BadRanking) as raised:
        read(path, default=FLAGS)
    assert [mistake.where for mistake in raised.value.mistakes] == [
        f"{path}: waits",
        f"{path}: strategies[0]",
    ]


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadRanking, match=f"none: cannot be read: {strerror(ENOENT)}$"):
        read(tmp_path / "none", default=FLAGS)


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
        rules = parse(orjson.dumps(content), default=FLAGS)
        rankings = [rules.default, *(choice.ranking for choice in rules.choices)]
        assert all(ranking.strategies for ranking in rankings)
        assert all(choice.requirements for choice in rules.choices)
