"""Which node is the best: by alignment, then by strategies in order, then as numbers for two schedulers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cluster.selectors import Operator, Requirement
from numalign.fleet import Question
from numalign.rules import scoring
from numalign.rules.evaluate import NO_INTENT, evaluate
from numalign.rules.scoring import Strategy
from numalign.rules.topology import Node
from scorer.ranking import (
    HEAVIEST,
    MEASURES,
    Choice,
    Judged,
    Measure,
    Ranking,
    RankingRules,
    Relative,
    Score,
    above_equals,
    absolute,
    in_order,
    parse_strategies,
    parse_weights,
    scores,
    squeezed,
)
from tests.notation import GPU, asks, means, node, table

FEW, MOST, LEAST = Strategy.LEAST_NUMA_NODES, Strategy.MOST_ALLOCATED, Strategy.LEAST_ALLOCATED
RELATIVE = Relative.NUMA_NODES

EMPTY = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy="best-effort")
"""Two zones, with everything free."""
FULLER = node("cpu=8//4 mem=8Gi gpu=4//2", "cpu=8//4 mem=8Gi gpu=4//2", policy="best-effort")
TORN = node("cpu=8//8 mem=8Gi gpu=4//0", "cpu=8//0 mem=8Gi gpu=4//4", policy="best-effort")
"""CPUs are free in one zone, and devices in the other."""
WIDE = node("cpu=16 mem=8Gi gpu=4", "cpu=16 mem=8Gi gpu=4", policy="best-effort")
LOOSE, FULL = replace(EMPTY, policy=EMPTY.policy.NONE), node("cpu=8//0 mem=8Gi gpu=4//0")
TIGHT = replace(EMPTY, policy=EMPTY.policy.SINGLE_NUMA_NODE)

POD = "cpu=4 mem=4Gi gpu=2"


def judged(nodes: Sequence[Node], pod: str, intent: str = "none", **labels: str) -> list[Judged]:
    """What nodes, named by their place, say to a pod."""
    question = Question(asks(pod), means(intent) if intent != "none" else NO_INTENT)
    return [
        Judged(f"n{at}", each, evaluate(each, question.demand, question.intent), question, labels)
        for at, each in enumerate(nodes)
    ]


def by(*strategies: Measure, **weights: int) -> RankingRules:
    return RankingRules(Ranking(strategies or Ranking().strategies, weights))


def aligned(nodes: Sequence[Node], pod: str, intent: str = "none") -> list[bool]:
    return [score.aligned for score in scores(judged(nodes, pod, intent), by())]


# Alignment.

ALIGNED = [
    # what it shows                          intent               node    pod                     aligned
    ("a node that tries and succeeds",       "none",              EMPTY,  POD,                    True),
    ("a node that tries and fails",          "none",              TORN,   POD,                    False),
    ("a node that does not try",             "none",              LOOSE,  POD,                    False),
    ("a node that must",                     "none",              TIGHT,  POD,                    True),
    ("as many zones as are needed",          "none",              EMPTY,  "cpu=9 mem=9Gi gpu=5",  True),
    ("a single zone, whatever its policy",   "none",              node("cpu=8 mem=8Gi gpu=4"), POD, True),
    ("nothing to align",                     "none",              LOOSE,  "cpu=4..",              True),
    ("an intent that is kept as restricted", "best-effort",       EMPTY,  POD,                    True),
    ("an intent that is not",                "best-effort",       TORN,   POD,                    False),
    ("an intent where nothing is aligned",   "best-effort",       LOOSE,  POD,                    False),
    ("an intent about what sits together",   "best-effort gpu",   TORN,   POD,                    True),
    ("an intent about nothing that is asked", "best-effort nic",  LOOSE,  POD,                    True),
    ("an intent, but nothing to align",      "best-effort",       LOOSE,  "cpu=4..",              True),
    ("an intent that is to be kept",         "single-numa-node",  EMPTY,  POD,                    True),
    ("an intent that a loose node keeps",    "restricted gpu",    TORN,   POD,                    True),
]  # fmt: skip


@pytest.mark.parametrize(("intent", "told", "pod", "expected"), table(ALIGNED))
def test_aligned_is(intent: str, told: Node, pod: str, *, expected: bool) -> None:
    assert aligned([told], pod, intent) == [expected]


@pytest.mark.parametrize("intent", ["restricted", "none", "best-effort"])
def test_a_node_that_refuses_aligns_nothing(intent: str) -> None:
    assert scores(judged([FULL], POD, intent), by()) == [Score("n0", (0, 0))]


# Strategies.


def test_values_stand_in_the_order_of_the_strategies() -> None:
    asked = judged([EMPTY, FULLER], POD)

    assert [score.values for score in scores(asked, by(FEW, MOST, LEAST))] == [(94, 50, 50), (94, 83, 16)]
    assert [score.values for score in scores(asked, by(LEAST, FEW))] == [(50, 94), (16, 94)]


def test_alignment_comes_before_every_strategy() -> None:
    ranked = in_order(scores(judged([TORN, EMPTY], POD), by(LEAST)))

    assert [(score.name, score.values) for score in ranked] == [("n1", (50,)), ("n0", (58,))]


def test_among_equals_the_next_strategy_decides() -> None:
    ranked = in_order(scores(judged([EMPTY, FULLER], POD), by(FEW, MOST)))

    assert [score.name for score in ranked] == ["n1", "n0"]


def test_who_refuses_comes_last_and_equals_stand_by_name() -> None:
    ranked = in_order(reversed(scores(judged([FULL, EMPTY, EMPTY], POD), by())))

    assert [score.name for score in ranked] == ["n1", "n2", "n0"]


def test_resources_weigh() -> None:
    asked = judged([EMPTY], "cpu=8 mem=1Gi gpu=1")

    assert [
        scores(asked, RankingRules(Ranking((MOST,), weights)))[0].values for weights in ({}, {GPU: 3})
    ] == [
        (45,),
        (37,),
    ]


def test_who_opted_out_is_as_well_off_on_every_node_that_takes_it() -> None:
    asked = judged([LOOSE, FULL, EMPTY], POD)

    assert scores(asked, by(FEW, RELATIVE), opted_out=True) == [
        Score("n0", (100, 100), aligned=True, admitted=True),
        Score("n1", (0, 0)),
        Score("n2", (100, 100), aligned=True, admitted=True),
    ]


COUNTED = [
    # what it shows                        nodes                        pod                     values
    ("as in Volcano",                      [EMPTY, TORN],               POD,                    [50, 0]),
    ("all alike",                          [EMPTY, EMPTY],              POD,                    [0, 0]),
    ("who refuses does not count",         [EMPTY, FULL, EMPTY],        POD,                    [0, 0, 0]),
    ("nothing pinned anywhere",            [EMPTY, LOOSE],              "cpu=4..",              [100, 100]),
    ("all of a pod's zones together",      [EMPTY, WIDE],       "cpu=8 mem=1Gi | cpu=8 mem=1Gi", [0, 50]),
    ("nobody takes it",                    [FULL],                      POD,                    [0]),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "pod", "values"), table(COUNTED))
def test_relative_to_the_others_a_node_is_worth(nodes: list[Node], pod: str, values: list[int]) -> None:
    found = scores(judged(nodes, pod), by(RELATIVE))

    assert [score.values for score in found] == [(value,) for value in values]


def test_where_a_pod_would_land_that_is_refused_does_not_count() -> None:
    found = scores(judged([EMPTY, TORN], POD, "restricted"), by(RELATIVE))

    assert [(score.values, score.admitted) for score in found] == [((0,), True), ((0,), False)]


def test_relative_and_other_strategies_mix() -> None:
    found = scores(judged([EMPTY, TORN], POD), by(MOST, RELATIVE, FEW))

    assert [score.values for score in found] == [(50, 50, 94), (41, 0, 82)]


@pytest.mark.parametrize("measure", MEASURES.values())
def test_every_strategy_gives_a_value(measure: Measure) -> None:
    (score,) = scores(judged([EMPTY], POD), by(measure))

    assert 0 <= score.values[0] <= scoring.HIGHEST


def test_every_strategy_has_a_name() -> None:
    assert {*MEASURES} == {*map(str, Strategy), *map(str, Relative)}


# Choices.

IN_POOL = (Requirement("pool", Operator.IN, frozenset({"gpu"})),)
RACKED = (Requirement("rack", Operator.EXISTS), Requirement("pool", Operator.DOES_NOT_EXIST))
RULES = RankingRules(Ranking((FEW,)), (Choice(IN_POOL, Ranking((MOST,))), Choice(RACKED, Ranking((LEAST,)))))

CHOSEN = [
    # what it shows                  labels                         ranking
    ("one that is selected",         {"pool": "gpu"},               MOST),
    ("another",                      {"rack": "7"},                 LEAST),
    ("the first of several",         {"pool": "gpu", "rack": "7"},  MOST),
    ("all requirements are to hold", {"pool": "cpu", "rack": "7"},  FEW),
    ("nothing that is selected",     {},                            FEW),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "measure"), table(CHOSEN))
def test_a_ranking_is_chosen_by_labels(labels: dict[str, str], measure: Measure) -> None:
    assert RULES.of(labels) == Ranking((measure,))


def test_the_labels_that_matter_are_known() -> None:
    assert RULES.label_keys() == {"pool", "rack"}
    assert RankingRules().label_keys() == set()


def test_nodes_of_different_rankings_are_compared_by_their_values() -> None:
    asked = [*judged([FULLER], POD, pool="gpu"), *(replace(each, name="b") for each in judged([EMPTY], POD))]

    assert [(score.name, score.values) for score in in_order(scores(asked, RULES))] == [
        ("b", (94,)),
        ("n0", (83,)),
    ]


MORE = RankingRules(Ranking((FEW,)), (Choice(IN_POOL, Ranking((FEW, MOST))),))


def test_where_fewer_strategies_decide_the_others_find_no_fault() -> None:
    asked = [*judged([EMPTY], POD, pool="gpu"), *judged([EMPTY], POD)]

    assert [score.values for score in scores(asked, MORE)] == [(94, 50), (94, 100)]


@pytest.mark.parametrize(("pod", "opted_out"), [("cpu=4..", False), (POD, True)])
def test_nodes_of_different_rankings_are_equal_to_who_asks_for_no_alignment(
    pod: str, *, opted_out: bool
) -> None:
    asked = [*judged([EMPTY], pod, pool="gpu"), *judged([EMPTY], pod)]

    assert [score.values for score in scores(asked, MORE, opted_out=opted_out)] == [(100, 100)] * 2


# Numbers for schedulers.


def kinds(count: int) -> list[Score]:
    """So many nodes, each better than the one before."""
    return [Score(f"n{at}", (at,), aligned=True, admitted=True) for at in range(count)]


REFUSED = Score("no", (0,))

SQUEEZED = [
    # what it shows                             scores                          numbers
    ("no node",                                 [],                             []),
    ("one",                                     kinds(1),                       [10]),
    ("one that refuses",                        [REFUSED],                      [0]),
    ("two",                                     kinds(2),                       [0, 10]),
    ("one, and one that refuses",               [*kinds(1), REFUSED],           [10, 0]),
    ("the worst is better than who refuses",    [*kinds(2), REFUSED],           [5, 10, 0]),
    ("who refuses is no better for its values", [*kinds(1), replace(REFUSED, values=(9,))], [10, 0]),
    ("equals",                                  [*kinds(2), *kinds(2)],         [0, 10, 0, 10]),
    ("who is not aligned is worse",
        [*kinds(1), Score("x", (99,), admitted=True)],                          [10, 0]),
    ("eleven",                                  kinds(11),                      [*range(11)]),
    ("twelve",                                  kinds(12),                      [0, 0, *range(1, 11)]),
]  # fmt: skip


@pytest.mark.parametrize(("given_", "numbers"), table(SQUEEZED))
def test_squeezed_are(given_: list[Score], numbers: list[int]) -> None:
    assert squeezed(given_) == [(score.name, number) for score, number in zip(given_, numbers, strict=True)]


ABSOLUTE = [
    # what it shows                      values, aligned                                numbers
    ("the first strategy's value",       [((94,), True), ((0,), True)],                 [94, 0.5]),
    ("one and the next",                 [((94, 100), True), ((94, 0), True)],          [94, 93.8]),
    ("what is not aligned",              [((1, 0), True), ((100, 100), False)],          [0.8, 0.2]),
]  # fmt: skip


@pytest.mark.parametrize(("told", "numbers"), table(ABSOLUTE))
def test_absolute_are(told: list[tuple[tuple[int, ...], bool]], numbers: list[float]) -> None:
    given_ = [Score("n", values, aligned=how, admitted=True) for values, how in told]

    assert [number for _, number in absolute(given_)] == pytest.approx(numbers)


def test_on_a_scale_of_a_hundred_who_refuses_has_nothing() -> None:
    assert absolute([Score("unknown"), Score("full", (0, 0))]) == [("unknown", 0), ("full", 0)]


percents = st.sampled_from([0, 1, 2, 50, 93, 94, 99, 100]) | st.integers(0, 100)
widths = st.integers(1, len(MEASURES))


def some(width: int) -> st.SearchStrategy[list[Score]]:
    """Scores of so many values each, of nodes that have names."""
    one = st.builds(
        Score,
        name=st.just(""),
        values=st.lists(percents, min_size=width, max_size=width).map(tuple),
        aligned=st.booleans(),
        admitted=st.sampled_from([True, True, False]),
    )
    refused = one.map(lambda score: score if score.admitted else replace(score, aligned=False))
    return st.lists(refused, min_size=1, max_size=40).map(
        lambda drawn: [replace(score, name=f"n{at}") for at, score in enumerate(drawn)]
    )


any_scores = widths.flatmap(some)


@given(any_scores)
def test_squeezed_numbers_are_in_range_and_the_best_has_the_highest(drawn: list[Score]) -> None:
    numbers = dict(squeezed(drawn))
    best = in_order(drawn)[0]

    assert [*numbers] == [score.name for score in drawn]
    assert {*numbers.values()} <= {*range(11)}
    assert numbers[best.name] == (10 if best.admitted else 0)


@given(any_scores)
def test_squeezed_numbers_keep_order_and_equals(drawn: list[Score]) -> None:
    numbers = dict(squeezed(drawn))

    for one in drawn:
        for other in drawn:
            if one.admitted and other.admitted:
                assert one.rank != other.rank or numbers[one.name] == numbers[other.name]
                assert one.rank <= other.rank or numbers[one.name] >= numbers[other.name]


@given(any_scores)
def test_squeezed_numbers_of_nodes_that_refuse_are_nothing_and_below_the_others(drawn: list[Score]) -> None:
    numbers = dict(squeezed(drawn))
    refusing = [score for score in drawn if not score.admitted]

    assert all(numbers[score.name] == 0 for score in refusing)
    if refusing and len({score.rank for score in drawn if score.admitted}) <= 10:
        assert all(numbers[score.name] > 0 for score in drawn if score.admitted)


@given(any_scores)
def test_while_there_is_room_what_differs_has_different_numbers(drawn: list[Score]) -> None:
    numbers = dict(squeezed(drawn))
    ranks = {score.rank: numbers[score.name] for score in drawn if score.admitted}

    if len(ranks) + any(not score.admitted for score in drawn) <= 11:
        assert len({*ranks.values()}) == len(ranks)


@given(st.integers(12, 400))
def test_beyond_that_numbers_are_shared_evenly_and_the_best_is_alone(count: int) -> None:
    shared = Counter(number for _, number in squeezed(kinds(count)))

    assert shared.pop(10) == 1
    assert {*shared} == {*range(10)}
    assert max(shared.values()) - min(shared.values()) <= 1


@given(any_scores)
def test_absolute_numbers_are_percents_in_the_same_order(drawn: list[Score]) -> None:
    numbers = dict(absolute(drawn))
    admitted = [score for score in drawn if score.admitted]

    assert all(0 <= number <= 100 for number in numbers.values())
    assert all(numbers[score.name] == 0 for score in drawn if not score.admitted)
    for one in admitted:
        for other in admitted:
            assert (one.rank > other.rank) == (numbers[one.name] > numbers[other.name])


@given(any_scores)
def test_an_absolute_number_is_nearly_the_value_of_the_first_strategy(drawn: list[Score]) -> None:
    numbers = dict(absolute(drawn))

    for score in drawn:
        if score.aligned:
            assert abs(numbers[score.name] - score.values[0]) <= 0.5
            assert len(score.values) > 1 or numbers[score.name] == max(score.values[0], 0.5)


@given(any_scores)
def test_an_absolute_number_does_not_depend_on_other_nodes(drawn: list[Score]) -> None:
    assert absolute(drawn) == [absolute([score])[0] for score in drawn]


# What people write.


def test_strategies_are_read_in_order() -> None:
    assert parse_strategies(" MostAllocated ,RelativeNUMANodes,LeastNUMANodes") == (MOST, RELATIVE, FEW)


KNOWN = "LeastNUMANodes, MostAllocated, LeastAllocated, BalancedAllocation, RelativeNUMANodes"

NO_STRATEGIES = [
    # what is wrong       text                             what is told
    ("nothing",           "",                              f"a name is missing: one of {KNOWN}"),
    ("a comma too many",  "MostAllocated,",                f"a name is missing: one of {KNOWN}"),
    ("a habit",           "leastNumaNodes",
        '"leastNumaNodes" is no strategy; "LeastNUMANodes" is meant?'),
    ("another word",      "x",                             f'"x" is no strategy; known are {KNOWN}'),
    ("one twice",         "MostAllocated,MostAllocated",   '"MostAllocated" is named twice'),
    ("all that is wrong", "Balanced,x",
        f'"Balanced" is no strategy; "BalancedAllocation" is meant?; "x" is no strategy; known are {KNOWN}'),
    ("a thousand",        "," * 999,                       "1000 strategies are named, and there are 5"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), table(NO_STRATEGIES))
def test_strategies_cannot_be_read_if(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"^") as raised:
        parse_strategies(text)

    assert str(raised.value) == told


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("nvidia.com/gpu=3,cpu=1", {"nvidia.com/gpu": 3, "cpu": 1}),
        (f" hugepages-1Gi = {HEAVIEST} ", {"hugepages-1Gi": HEAVIEST}),
        ("", {}),
        (" ", {}),
    ],
)
def test_weights_are_read(text: str, weights: dict[str, int]) -> None:
    assert parse_weights(text) == weights


NEEDS = "needs a weight, a whole number from 1 to 100"

NO_WEIGHTS = [
    # what is wrong       text               what is told
    ("no weight",         "cpu",             f'"cpu" {NEEDS}, like cpu=1'),
    ("an empty one",      "cpu=",            f'"cpu" {NEEDS}, like cpu=1'),
    ("nothing",           "cpu=0",           f'"cpu" {NEEDS}, like cpu=1'),
    ("less than nothing", "cpu=-1",          f'"cpu" {NEEDS}, like cpu=1'),
    ("too much",          "cpu=101",         f'"cpu" {NEEDS}, like cpu=1'),
    ("half of one",       "cpu=0.5",         f'"cpu" {NEEDS}, like cpu=1'),
    ("two signs",         "cpu==1",          f'"cpu" {NEEDS}, like cpu=1'),
    ("other digits",      "cpu=٣",           f'"cpu" {NEEDS}, like cpu=1'),
    ("no name",           "=1",              '"" is no name of a resource, like cpu or nvidia.com/gpu'),
    ("a pattern",         "rdma/*=1",        '"rdma/*" is no name of a resource, like cpu or nvidia.com/gpu'),
    ("one twice",         "cpu=1,cpu=2",     '"cpu" is named twice'),
    ("all that is wrong", "a b=1,cpu",
        f'"a b" is no name of a resource, like cpu or nvidia.com/gpu; "cpu" {NEEDS}, like cpu=1'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), table(NO_WEIGHTS))
def test_weights_cannot_be_read_if(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"^") as raised:
        parse_weights(text)

    assert str(raised.value) == told


def test_one_of_equals_can_be_put_before_the_others_and_before_nobody_else() -> None:
    equals = [Score(name, (50, 50), aligned=True, admitted=True) for name in ("a", "b")] + [
        Score("better", (50, 60), aligned=True, admitted=True)
    ]
    numbers = dict(squeezed(above_equals(equals, {"b"})))

    assert numbers["better"] > numbers["b"] > numbers["a"]
    assert squeezed(above_equals(equals, set())) == squeezed(equals)
