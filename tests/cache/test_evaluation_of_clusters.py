"""All nodes asked together: what is kept, what changes, and what is said of a node in either way."""

import gc
import tracemalloc
import weakref
from dataclasses import replace

import pytest

from numalign.cache import ClusterCache, Question, batch_scoring, feasibility
from numalign.cache.arrays import Bools
from numalign.cache.evaluation import Evaluation
from numalign.decision.evaluate import evaluate, evaluating
from numalign.decision.scoring import Strategy
from numalign.decision.verdict import Cause
from numalign.model import demand
from numalign.model.attributes import Attributes
from numalign.model.intent import Policy
from numalign.model.node import Node
from numalign.model.options import Options
from numalign.model.resources import Resources
from tests.batches import differences, ghosts
from tests.notation import GPU, asks, machine, means, node, options, pod, table

BINDING = "single-numa-node"
FREE = "cpu=8 mem=8Gi gpu=1"
BUSY = "cpu=8//1 mem=8Gi gpu=1//0"


def named(name: str, *zones: str, policy: str = BINDING, told: Options | None = None) -> Node:
    return replace(node(*zones, policy=policy, options=told or Options()), name=name)


def question(*containers: str, policy: str = "none", match: str = "satisfies") -> Question:
    return Question(asks(*containers), means(policy, match=match))


ONE_GPU = question("cpu=2 mem=1Gi gpu=1")
A, B, C = named("a", FREE, FREE), named("b", FREE, BUSY), named("c", BUSY, BUSY)


def ask(cache: ClusterCache, asked: Question) -> Evaluation:
    """What all nodes answer."""
    return cache.ask([], asked).evaluation


def permanent(answer: Evaluation) -> Bools:
    """Which nodes, all of them here, refuse for good."""
    refused: Bools = ~(answer.admitted | answer.able)
    return refused


def takers(cache: ClusterCache, asked: Question = ONE_GPU) -> list[str]:
    """The names of the nodes that take the pod."""
    admitted = ask(cache, asked).admitted
    return [node.name for node in cache.nodes if admitted[cache.nodes.rows([node.name])[0]]]


# Who stands where.


def test_an_empty_board_says_nothing() -> None:
    cache = ClusterCache()
    answer = ask(cache, ONE_GPU)

    assert len(cache.nodes) == 0
    assert not len(answer.admitted)
    assert not len(answer.refusals)
    assert not len(answer.scores(Strategy.MOST_ALLOCATED))


def test_a_name_that_nobody_put_has_no_row() -> None:
    cache = ClusterCache.of([A])

    assert cache.nodes.row("a") == 0
    assert cache.nodes.row("nobody") is None
    assert cache.nodes.rows(["nobody", "a"]).tolist() == [-1, 0]
    assert cache.nodes.rows([]).tolist() == []


def test_a_node_that_nobody_put_can_be_dropped_all_the_same() -> None:
    cache = ClusterCache.of([A])
    cache.nodes.drop("nobody")

    assert takers(cache) == ["a"]


@pytest.mark.parametrize("row", [-1, 0, 2, 99])
def test_a_row_without_a_node_cannot_be_asked_for_one(row: int) -> None:
    cache = ClusterCache.of([A, B])
    cache.nodes.drop("a")

    with pytest.raises(KeyError):
        cache.nodes.node(row)
    with pytest.raises(KeyError):
        ask(cache, ONE_GPU).verdict(row)


def test_a_row_of_a_node_that_is_gone_says_no_until_another_has_it() -> None:
    cache = ClusterCache.of([A, B])
    answer = ask(cache, ONE_GPU)
    assert answer.admitted.tolist() == [True, True]

    cache.nodes.drop("a")
    assert ghosts(cache, ONE_GPU, [B]) == []
    assert answer.scores(Strategy.MOST_ALLOCATED).tolist()[0] == -1

    cache.nodes.put(named("d", FREE, FREE))
    assert cache.nodes.row("d") == 0
    assert answer.admitted.tolist() == [True, True]


# What is kept.


def test_a_question_is_answered_once() -> None:
    cache = ClusterCache.of([A])

    assert ask(cache, ONE_GPU) is ask(cache, question("cpu=2 mem=1Gi gpu=1"))


def test_an_answer_is_always_about_things_as_they_stand() -> None:
    cache = ClusterCache.of([A])
    answer = ask(cache, ONE_GPU)
    assert answer.admitted.tolist() == [True]

    cache.nodes.put(named("a", BUSY, BUSY))
    assert answer.admitted.tolist() == [False]
    assert permanent(answer).tolist() == [False]
    assert answer.able.tolist() == [True]


def test_what_a_node_said_is_kept_until_it_changes() -> None:
    cache = ClusterCache.of([A])
    answer = ask(cache, ONE_GPU)
    first = answer.verdict(0)

    cache.nodes.put(A)
    assert answer.verdict(0) is first
    cache.nodes.put(named("a", FREE, BUSY))
    assert answer.verdict(0) is not first


def test_so_many_answers_are_kept_and_no_more() -> None:
    cache = ClusterCache(remembered=2)
    first, second, third = (question(f"cpu={count} mem=1Gi") for count in (1, 2, 3))
    kept = {asked: weakref.ref(ask(cache, asked)) for asked in (first, second)}

    ask(cache, first)
    ask(cache, third)
    gc.collect()

    assert kept[first]() is ask(cache, first)
    assert kept[second]() is None


@pytest.mark.parametrize("containers", [1, 20])
def test_an_answer_knows_what_it_takes(containers: int) -> None:
    cache = ClusterCache.of(replace(A, name=f"n{number}") for number in range(300))
    asked = [question(*[f"cpu=1 mem={size}Mi gpu=0"] * containers) for size in (1, 2)]

    def answered(question: Question) -> Evaluation:
        answer = ask(cache, question)
        for row in range(300):
            answer.verdict(row)
        assert len(answer.admitted) == 300
        return answer

    answered(asked[0])
    gc.collect()
    tracemalloc.start()
    try:
        answer = answered(asked[1])
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / 2 < answer.weight < 2 * taken
    ask(cache, asked[1])
    assert cache.caches()["nodes"].bytes > answer.weight


def test_more_changes_than_anybody_notes_are_not_missed() -> None:
    cache = ClusterCache.of([A, B])
    answer = ask(cache, ONE_GPU)
    assert answer.admitted.tolist() == [True, True]

    for count in range(5000):
        cache.nodes.put(named("b", *([BUSY, BUSY] if count % 2 else [FREE, BUSY])))
    assert answer.admitted.tolist() == [True, False]


# Columns and rules.


@pytest.mark.parametrize(
    ("made", "in_columns"),
    table(
        [
            ("amounts alone", A, 1),
            ("no zone", replace(A, zones=()), 0),
            ("eight zones", named("a", *[FREE] * 8), 1),
            ("more zones than sets can be kept of", named("a", *["cpu=1"] * 9), 0),
            ("an option of the CPU manager", named("a", FREE, FREE, told=options("align-by-socket")), 0),
            ("the closest zones", named("a", FREE, FREE, told=options("prefer-closest-numa-nodes")), 1),
            ("a gate", named("a", FREE, FREE, told=options("PodLevelResourceManagers")), 0),
            ("cores of different size", replace(named("a", "cpu=6", "cpu=6"), threads=4), 0),
            ("zones of different size", named("a", "cpu=8", "cpu=4"), 0),
            ("a described machine", machine("cpu=0-3", "cpu=4-7", policy=BINDING), 0),
            ("more free than there is", named("a", "cpu=8//9", "cpu=8"), 0),
            ("memory in groups", node(FREE, FREE, policy=BINDING, blocks=[(0, 1)]), 1),
        ]
    ),
)
def test_nodes_that_amounts_describe_stand_in_columns(made: Node, in_columns: int) -> None:
    cache = ClusterCache.of([made])

    assert cache.nodes.in_columns == in_columns
    assert differences(cache, ONE_GPU, [made]) == []


@pytest.mark.parametrize(("kinds", "in_columns"), [(32, 1), (33, 0), (80, 0)])
def test_a_node_of_more_resources_than_can_be_told_apart_is_asked_by_the_rules(
    kinds: int, in_columns: int
) -> None:
    names = [f"example.com/d{at:02}" for at in range(kinds)]
    made = named("a", " ".join(f"{name}=1" for name in names))
    asked = question(" ".join(f"{name}=2" for name in names), policy="restricted")
    cache = ClusterCache.of([made])

    assert cache.nodes.in_columns == in_columns
    assert differences(cache, asked, [made]) == []


def test_a_node_may_come_into_columns_and_leave_them() -> None:
    cache, odd = ClusterCache.of([A, B]), named("a", FREE, FREE, told=options("align-by-socket"))
    for made, in_columns in ((A, 2), (odd, 1), (A, 2), (odd, 1), (named("a", "cpu=8//9", FREE), 1), (A, 2)):
        cache.nodes.put(made)
        assert cache.nodes.in_columns == in_columns
        assert differences(cache, ONE_GPU, [made, B]) == []


def test_memory_that_nobody_holds_any_more_is_as_a_new_board_would_see_it() -> None:
    zones = ["cpu=8 mem=4Gi//2Gi", "cpu=8 mem=4Gi//2Gi", "cpu=8 mem=4Gi//0"]
    before = node(*zones, policy="restricted", blocks=[(0, 1)])
    after = replace(before, zones=tuple(replace(zone, assignments=0) for zone in before.zones))
    cache = ClusterCache.of([before])
    cache.nodes.put(after)

    assert differences(cache, question("cpu=1 mem=2Gi | cpu=1 mem=2Gi"), [after]) == []


def test_every_policy_has_its_columns() -> None:
    assert feasibility.ADMIT.keys() == set(Policy)


def test_every_strategy_has_its_columns() -> None:
    assert batch_scoring.STRATEGIES.keys() == set(Strategy)


# Refusals.

HUGE_POD = question("cpu=99 mem=1Gi")
GATED = options("PodLevelResourceManagers")
CROWDED = Question(
    demand.of(pod("cpu=2 mem=1Gi", "", requests="cpu=2 mem=1Gi", limits="cpu=2 mem=1Gi")), means("none")
)


def whole(name: str, *zones: str) -> Node:
    """A node that serves pods as a whole."""
    return replace(node(FREE, *zones, policy=BINDING, scope="pod", options=GATED), name=name)


CAUSES: dict[Cause, tuple[Node, Node, Question]] = {
    Cause.NODE_TOO_SMALL: (A, B, HUGE_POD),
    Cause.ZONES_TOO_SMALL: (B, C, question("cpu=9 mem=1Gi", policy=BINDING)),
    Cause.WIDTHS_DIFFER: (
        named("a", FREE, FREE, policy="restricted"),
        named("b", FREE, BUSY, policy="restricted"),
        question("cpu=9 mem=1Gi"),
    ),
    Cause.NOT_TOGETHER: (
        named("a", "cpu=8//1 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1//0"),
        named("b", "cpu=8 mem=8Gi gpu=1//0", "cpu=8//1 mem=8Gi gpu=1"),
        ONE_GPU,
    ),
    Cause.SPREAD: (
        named("a", "cpu=8 mem=8Gi//1Gi", "cpu=8//1 mem=8Gi", policy="best-effort"),
        named("b", "cpu=8 mem=8Gi//1Gi", "cpu=8//1 mem=8Gi", policy="best-effort"),
        question("cpu=2 mem=1Gi | cpu=6 mem=1Gi", policy="restricted"),
    ),
    Cause.NOT_ALLOCATED: (
        named("a", BUSY, BUSY, policy="none"),
        named("b", BUSY, BUSY, policy="none"),
        ONE_GPU,
    ),
    Cause.NOT_WHOLE_CORES: (
        named("a", FREE, FREE, told=options("full-pcpus-only")),
        named("b", FREE, BUSY, told=options("full-pcpus-only")),
        question("cpu=3 mem=1Gi"),
    ),
    Cause.NOT_EXCLUSIVE: (A, B, question("cpu=1.. mem=1Gi..", policy=f"{BINDING} cpu")),
    Cause.NOT_ALIGNED: (
        named("a", FREE, FREE, policy="none"),
        named("b", FREE, BUSY, policy="none"),
        question("cpu=1 mem=1Gi", policy="restricted"),
    ),
    Cause.NOTHING_TO_SHARE: (whole("a", FREE), whole("b", BUSY), CROWDED),
    Cause.OTHER_POLICY: (A, B, question("cpu=1 mem=1Gi", policy="restricted", match="equal")),
    Cause.NOT_ANSWERED: (
        named("a", *[FREE] * 18, policy="restricted"),
        named("b", *[FREE] * 17, BUSY, policy="restricted"),
        question("cpu=1 mem=1Gi"),
    ),
}
"""Two nodes that refuse a pod for this cause."""


def test_there_is_an_example_of_every_cause() -> None:
    assert CAUSES.keys() == set(Cause)


@pytest.mark.parametrize("cause", CAUSES)
def test_nodes_that_refuse_alike_are_said_to(cause: Cause) -> None:
    one, other, asked = CAUSES[cause]
    cache = ClusterCache.of([one, other])
    numbers, verdict = ask(cache, asked).refusals.tolist(), evaluate(one, asked.demand, asked.intent)

    assert verdict.refusal is not None
    assert verdict.refusal.cause is cause
    assert numbers[0] == numbers[1] >= 0
    assert differences(cache, asked, [one, other]) == []


def test_a_refusal_for_now_is_not_one_for_ever() -> None:
    busy, small = named("busy", BUSY, BUSY), named("small", "cpu=8 mem=8Gi gpu=0", "cpu=8 mem=8Gi gpu=0")
    cache = ClusterCache.of([busy, small, A])
    answer = ask(cache, ONE_GPU)

    assert permanent(answer).tolist() == [False, True, False]
    assert len({*answer.refusals.tolist()}) == 3
    assert answer.refusals.tolist()[2] == -1


def test_of_several_containers_the_one_that_is_spread_is_what_refuses() -> None:
    small = named("small", "cpu=4//2", "cpu=4//2", policy="best-effort")
    taken = named("taken", "cpu=4//3", "cpu=4//2", policy="best-effort")
    cache, asked = (
        ClusterCache.of([small, taken]),
        question("cpu=1 mem=1Gi | cpu=3 mem=1Gi", policy="restricted"),
    )
    refusals = [ask(cache, asked).verdict(row).refusal for row in range(2)]

    assert [refusal and (refusal.container, refusal.cause) for refusal in refusals] == [
        ("c1", Cause.ZONES_TOO_SMALL),
        ("c1", Cause.SPREAD),
    ]
    assert differences(cache, asked, [small, taken]) == []


def test_a_container_that_is_spread_parts_the_whole_pod() -> None:
    made = named("a", "cpu=4//2", "cpu=4//2", policy="best-effort")
    asked = Question(asks("cpu=1 mem=1Gi | cpu=3 mem=1Gi"), means("restricted", scope="pod"))

    assert not evaluate(made, asked.demand, asked.intent).admitted
    assert differences(ClusterCache.of([made]), asked, [made]) == []


# Who is ill.


def without_gpus(name: str, told: Node) -> Node:
    """The node while its device plugin is down."""
    zones = (
        replace(zone, allocatable=has, free=has)
        for zone in told.zones
        for has in [Resources({**zone.allocatable, GPU: 0})]
    )
    return replace(told, name=name, zones=tuple(zones), health=told.emptied())


TWO_GPUS = question("cpu=2 mem=1Gi gpu=2")


def outage(count: int, told: Node = A) -> ClusterCache:
    return ClusterCache.of([without_gpus(f"n{at}", told) for at in range(count)])


def test_a_node_that_is_ill_takes_nothing_and_refuses_nothing_for_good() -> None:
    cache = ClusterCache.of([without_gpus("ill", A), C])
    answer = ask(cache, ONE_GPU)

    assert answer.admitted.tolist() == [False, False]
    assert answer.able.tolist() == [True, True]
    assert permanent(answer).tolist() == [False, False]


def test_a_node_that_is_ill_refuses_for_good_what_it_would_refuse_in_health() -> None:
    cache = ClusterCache.of([without_gpus("ill", A), A])
    answer = ask(cache, TWO_GPUS)

    assert permanent(answer).tolist() == [True, True]
    assert answer.verdict(0).permanent
    assert str(answer.verdict(0).refusal) == str(answer.verdict(1).refusal)


def test_a_node_is_asked_anew_when_it_falls_ill_and_when_it_recovers() -> None:
    cache = ClusterCache.of([A, B])
    answer = ask(cache, TWO_GPUS)
    large = replace(named("a", "cpu=8 mem=8Gi gpu=2"), name="a")

    for told, able in ((A, False), (without_gpus("a", large), True), (large, True), (A, False)):
        cache.nodes.put(told)
        assert answer.able.tolist() == [able, False]
        assert differences(cache, TWO_GPUS, cache.nodes) == []


def test_who_comes_in_place_of_an_ill_node_is_in_health() -> None:
    cache = outage(3)
    assert ask(cache, ONE_GPU).able.all()

    cache.nodes.drop("n1")
    cache.nodes.put(replace(without_gpus("n3", A), health=None))
    assert ask(cache, ONE_GPU).able.tolist() == [True, False, True]


def test_of_ill_nodes_that_are_alike_the_rules_are_asked_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def evaluated(told: Node, *rest: object) -> object:
        asked.append(told.name)
        return evaluating(told, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("numalign.cache.evaluation.evaluating", evaluated)
    odd = named("odd", FREE, FREE, told=options("full-pcpus-only"))
    answer = ask(outage(50, odd), ONE_GPU)

    assert answer.able.all()
    assert len(asked) == 1


def test_who_may_go_to_a_node_makes_no_answer_stale() -> None:
    cache = ClusterCache.of([A, without_gpus("ill", A)])
    before = cache.nodes.changes.place, cache.nodes.facts.place

    for told in (A, without_gpus("ill", A)):
        cordoned = Attributes(cordoned=True)
        health = told.health and replace(told.health, attributes=cordoned)
        cache.nodes.put(replace(told, attributes=cordoned, health=health))
    assert (cache.nodes.changes.place, cache.nodes.facts.place) == before
