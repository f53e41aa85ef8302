"""All nodes asked together: what each node says by itself, and nothing asked twice."""

import gc
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest

import pytest

from numalign.cache import ClusterCache, Question
from numalign.cache.cluster_cache import FIRST_TRIED
from numalign.decision.evaluate import evaluate
from numalign.decision.verdict import Verdict
from numalign.model.attributes import Attributes, Labels, Taint
from numalign.model.constraints import Constraints, Operator, Requirement, Tolerating, Toleration, Unmet
from numalign.model.demand import Demand
from numalign.model.intent import Policy
from numalign.model.node import Node
from numalign.model.resources import CPU, Resources
from numalign.model.steps import finished
from numalign.shapes import KnownShape, UnknownNode, keyed, shape
from tests.worlds.naming import named
from tests.worlds.notation import NIC, asks, bag, means, node, options, table

BINDING = "single-numa-node"

# Two zones of one GPU each; two of two; one that only has CPUs.
SMALL = replace(node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy=BINDING), name="small")
LARGE = replace(node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy=BINDING), name="large")
PLAIN = replace(node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy=BINDING), name="plain")


def question_of(*containers: str, policy: str = BINDING) -> Question:
    return Question(asks(*containers), means(policy))


def unknown(**totals: Resources | None) -> dict[str, UnknownNode]:
    return {name: UnknownNode(name, amounts) for name, amounts in totals.items()}


ONE_GPU = question_of("cpu=2 mem=1Gi gpu=1")
TWO_GPUS = question_of("cpu=2 mem=1Gi gpu=2")


def labelled(made: Node, label: str) -> Node:
    return replace(made, label=label)


def update(
    cache: ClusterCache, *nodes: Node, bare: Mapping[str, UnknownNode] = {}, shapes: Sequence[KnownShape] = ()
) -> ClusterCache:
    """The cache once its nodes and shapes are these."""
    for name in cache.nodes.names() - {each.name for each in nodes}:
        cache.nodes.drop(name)
    for each in nodes:
        cache.nodes.put(each)
    for name in {*cache.unknown_nodes.names(), *bare}:
        cache.unknown_nodes.update(name, bare.get(name))
    if shapes:
        cache.update_shapes(keyed(shapes))
    finished(cache.derive_shapes())
    return cache


def steps(cache: ClusterCache, question: Question) -> int:
    """In how many steps it was found out."""
    return len(list(cache.pace.in_steps(partial(cache.ever, question))))


def could(made: Node, question: Question) -> bool:
    return evaluate(made.emptied(), question.demand, question.intent).admitted


# One node.


def test_one_node_is_evaluated_by_its_name() -> None:
    busy = replace(node("cpu=8/8/0 mem=8Gi gpu=1", policy=BINDING), name="busy")
    cache = ClusterCache.of([SMALL, busy])

    assert cache.verdict("busy", ONE_GPU) == evaluate(busy, ONE_GPU.demand, ONE_GPU.intent)
    assert cache.verdict("nowhere", ONE_GPU) is None


# Nothing is asked twice, and nobody waits for long.


def looks(cache: ClusterCache, question: Question) -> int:
    return len(list(cache.pace.in_steps(partial(cache.now, question))))


OFF = node(
    "cpu=8 mem=8Gi gpu=1",
    "cpu=8 mem=8Gi gpu=1",
    policy=BINDING,
    options=options("distribute-cpus-across-numa"),
)
"""Columns do not describe it: the rules are asked."""

SPREAD = node("cpu=8 mem=8Gi gpu=1/1/0", "cpu=8 mem=8Gi gpu=1/1/0", policy=BINDING)


def many(made: Node, count: int) -> list[Node]:
    return named([made] * count)


def unlike_shapes(count: int) -> list[Node]:
    """So many nodes, no two of one shape, none of which columns describe."""
    return named(replace(OFF, max_zones=8 + number) for number in range(count))


def test_shapes_in_columns_are_evaluated_in_one_step() -> None:
    # Of many shapes it takes a step to find out which of them a pod may go to.
    sizes = named(node(f"cpu={8 + number} mem=8Gi gpu=1", policy=BINDING) for number in range(50))
    columns, alone = ClusterCache.of(sizes), ClusterCache.of(unlike_shapes(50))

    assert [steps(columns, ONE_GPU), steps(alone, ONE_GPU)] == [1 + 1, 1 + 50]
    assert steps(alone, replace(ONE_GPU, intent=means("restricted"))) == 50


def test_every_node_is_evaluated_before_a_denial() -> None:
    columns, alone = ClusterCache.of(many(SMALL, 50)), ClusterCache.of(many(OFF, 50))

    # What all states of a node have in common takes two more steps, of the shape and of nodes that are alike.
    assert [steps(columns, TWO_GPUS), steps(alone, TWO_GPUS)] == [1 + 1, (1 + 2) + (50 + 2)]
    assert [steps(columns, TWO_GPUS), steps(alone, TWO_GPUS)] == [0, 0]


@pytest.mark.parametrize("done", [1, 2, 3])
def test_a_node_may_go_while_it_is_evaluated(done: int) -> None:
    cache, question = ClusterCache.of(many(OFF, 2)), question_of(*["cpu=2 mem=1Gi"] * 2)
    names = [one.name for one in cache.nodes]
    work = cache.pace.in_steps(lambda: cache.ask(names, question).codes)
    for _ in range(done):
        next(work)

    update(cache, SMALL)
    deque(work, maxlen=0)

    assert cache.ask(["small"], question).admitted.tolist() == [True]


FOLLOWING = [
    # what happens to fifty nodes   one of them after it                   without topology  steps  valid
    ("nothing",                     OFF,                                    unknown(),       0,     True),
    ("a node is in use",            replace(OFF, zones=SPREAD.zones),       unknown(),       0,     True),
    ("a node is labelled",          labelled(OFF, "blue"),                  unknown(),       0,     False),
    ("a node changes its policy",   replace(OFF, policy=Policy.RESTRICTED), unknown(),       1,     False),
    ("a node has no topology",      OFF,                                    unknown(x=None), 0,     False),
]  # fmt: skip


@pytest.mark.parametrize(("after", "without", "count", "valid"), table(FOLLOWING))
def test_only_nodes_with_other_facts_are_evaluated_when(
    after: Node, without: dict[str, UnknownNode], count: int, *, valid: bool
) -> None:
    members = many(OFF, 50)
    cache = ClusterCache.of(members)
    before = cache.ever(ONE_GPU)
    update(cache, replace(after, name=members[0].name), *members[1:], bare=without)

    assert steps(cache, ONE_GPU) == count
    assert (cache.ever(ONE_GPU) is before) is valid


TAKEN = node("cpu=8/8/0 mem=8Gi gpu=1", policy=BINDING)


def test_room_is_searched_again_only_on_changed_nodes() -> None:
    taken = many(replace(OFF, zones=SPREAD.zones), 50)
    cache = ClusterCache.of(taken)
    first, second = looks(cache, ONE_GPU), looks(cache, ONE_GPU)

    # Their shape is asked whether it ever could, and then all are whether they can now.
    assert first > 50
    assert second <= FIRST_TRIED
    # Of another node under its name it takes a step whether it ever could, one for its shape, one for now.
    update(cache, replace(taken[0], zones=TAKEN.zones), *taken[1:])
    assert [looks(cache, ONE_GPU), cache.now(ONE_GPU)] == [3, False]
    update(cache, replace(taken[0], zones=OFF.zones), *taken[1:])
    assert [looks(cache, ONE_GPU) <= FIRST_TRIED, cache.now(ONE_GPU)] == [True, True]


# Bounds.


FEW = 16
"""Questions that are remembered here."""


class Traced(Demand):
    """A demand whose end can be seen: unlike a slotted one it has room for weak references."""


def traced(question: Question) -> Question:
    demand = question.demand
    return replace(question, demand=Traced(demand.qos, demand.steps, demand.whole, demand.total))


def unlike(count: int) -> Iterable[Question]:
    """So many questions, each another one, to all of which a small node says no at once."""
    totals = (Resources({CPU: 10**6 + number}) for number in range(count))
    return (replace(ONE_GPU, demand=replace(ONE_GPU.demand, total=total)) for total in totals)


def test_the_least_recent_question_is_dropped_first() -> None:
    cache, other = update(ClusterCache(remembered=FEW), SMALL), question_of("cpu=3 mem=1Gi")
    kept = {each: cache.ever(each) for each in (ONE_GPU, other)}
    for each in (ONE_GPU, *unlike(FEW - 1)):
        cache.ever(each)

    assert cache.ever(ONE_GPU) is kept[ONE_GPU]
    assert cache.ever(other) is not kept[other]


def test_room_is_found_after_answers_were_dropped() -> None:
    cache = update(ClusterCache(remembered=FEW), SMALL)
    cache.now(ONE_GPU)
    for each in unlike(FEW):
        cache.ever(ONE_GPU)
        cache.now(each)

    assert cache.now(ONE_GPU)


@pytest.mark.full
@pytest.mark.parametrize("ask", [ClusterCache.ever, ClusterCache.now, ClusterCache.why_not])
def test_memory_is_bounded_for(ask: Callable[[ClusterCache, Question], object]) -> None:
    cache = update(ClusterCache(remembered=FEW), SMALL)
    first = traced(question_of("cpu=99 mem=1Gi"))
    gone = weakref.ref(first.demand)
    ask(cache, first)
    del first
    for each in unlike(FEW):
        ask(cache, each)
    gc.collect()

    assert gone() is None


def test_large_answers_in_work_do_not_evict_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numalign.lru.MOST_LARGE", 1)
    every = [question_of(*[f"cpu=1m mem={at + more}Mi" for at in range(1, 90)]) for more in range(3)]
    assert all(question.large for question in every)
    zones = (f"cpu=8 mem={size}Gi" for size in range(8, 408))
    nodes = named(node(zone, zone, policy="single-numa-node") for zone in zones)

    def starts(*questions: Question) -> int:
        """How often answers to these begin, if they take turns."""
        cache, begun = ClusterCache.of(nodes), list[Question]()

        def room(question: Question) -> bool:
            begun.append(question)
            return cache.now(question)

        deque(zip_longest(*(cache.pace.in_steps(partial(room, each)) for each in questions)), maxlen=0)
        return len(begun)

    assert starts(*every) == sum(map(starts, every))


def test_room_is_searched_only_on_able_nodes() -> None:
    small = node("cpu=2 mem=4Gi", policy="restricted", options=options("full-pcpus-only"))
    large = replace(OFF, name="large", zones=TAKEN.zones)
    cache, question = ClusterCache.of([*many(small, 50), large]), question_of("cpu=4 mem=1Gi")
    steps(cache, question)

    assert 0 < looks(cache, question) < 5
    assert not cache.now(question)


# What is kept of pods that fit nowhere.


def never(gpus: int) -> Question:
    return question_of(f"cpu=2 mem=1Gi gpu={gpus}")


def verdicts() -> list[Verdict]:
    return [each for each in gc.get_objects() if issubclass(type(each), Verdict)]


TEXTS = 16


def test_sentences_are_cached_instead_of_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of many is answered without the verdicts of shapes."""
    monkeypatch.setattr("numalign.cache.cluster_cache.SHAPE_VERDICTS", 2 * TEXTS)
    strangers, cache, other = verdicts(), ClusterCache.of([SMALL, LARGE]), ClusterCache.of([SMALL, LARGE])
    assert not cache.now(never(10))
    for gpus in range(10, 10 + 2 * TEXTS):
        assert cache.why_not(never(gpus))
    gc.collect()

    assert 0 < len(verdicts()) - len(strangers) <= TEXTS * len(cache.classes)
    for floor in (Policy.NONE, Policy.RESTRICTED):
        assert cache.why_not(never(10), floor=floor) == other.why_not(never(10), floor=floor)


# Shapes, and where pods may go.


def placed(made: Node, *taints: str, name: str = "n", **labels: str) -> Node:
    marks = Attributes(Labels(labels), tuple(map(Taint, taints)))
    return replace(made, name=name, attributes=marks)


def known_shape(made: Node, *, seen: float | None = None) -> KnownShape:
    return KnownShape(shape.of(made), seen=seen)


def selecting(key: str, *values: str) -> Constraints:
    return Constraints((Requirement(key, Operator.IN, frozenset(values)),))


GONE, DECLARED = known_shape(LARGE, seen=7.0), KnownShape(shape.of(LARGE), declared=True)
LATER = known_shape(placed(LARGE, "dedicated"), seen=9.0)
HOPES = [
    # what it shows                      nodes             shapes                             able, fallback
    ("one that is here is enough",       [LARGE],          [],                                (1, None)),
    ("the last one has gone",            [SMALL],          [GONE],                            (0, GONE)),
    ("none was ever here",               [SMALL],          [DECLARED],                        (0, DECLARED)),
    ("memory before declaration",        [SMALL],          [DECLARED, GONE],                  (0, GONE)),
    ("the one that was here last",       [],               [LATER, GONE],                     (0, LATER)),
]  # fmt: skip


@pytest.mark.parametrize(("members", "shapes", "expected"), table(HOPES))
def test_a_fallback_is_a_shape_that_could_take_the_pod(
    members: list[Node], shapes: list[KnownShape], expected: tuple[int, KnownShape | None]
) -> None:
    survey = ClusterCache.of(members, shapes).ever(TWO_GPUS)

    assert (survey.able, survey.fallback) == expected


TOLERANT = Constraints(tolerations=(Toleration("dedicated", Tolerating.EXISTS),))
ANY_POOL = Constraints()


def test_bare_nodes_are_large_enough_and_eligible() -> None:
    hidden = unknown(large=bag("cpu=8 mem=8Gi gpu=4"), small=bag("cpu=8 mem=8Gi"), untold=None)
    tainted = UnknownNode("tainted", None, Attributes(taints=(Taint("dedicated"),)))
    cache = ClusterCache.of([SMALL], unknown=hidden | {"tainted": tainted})

    assert [cache.ever(TWO_GPUS, each).bare for each in (ANY_POOL, TOLERANT)] == [2, 3]
    assert cache.unknown == 4


NICS = question_of("cpu=1 mem=1Gi nic=1")
HAD_NICS, LISTS_NICS = known_shape(node("cpu=1 nic=1")), unknown(x=bag("cpu=1 nic=0"))
UNLISTED = [
    # what is known              nodes                  shapes      bare        unlisted
    ("none of it anywhere",      [SMALL],               [],         {},         (NIC,)),
    ("none left of it",          [node("cpu=8 nic=0")], [],         {},         ()),
    ("a shape had some",         [SMALL],               [HAD_NICS], {},         ()),
    ("one without topology",     [SMALL],               [],         LISTS_NICS, ()),
]  # fmt: skip


@pytest.mark.parametrize(("members", "shapes", "hidden", "unlisted"), table(UNLISTED))
def test_unlisted_resources_are_named(
    members: list[Node], shapes: list[KnownShape], hidden: dict[str, UnknownNode], unlisted: tuple[str, ...]
) -> None:
    cache = ClusterCache.of(members, shapes, hidden)

    assert cache.ever(NICS).unlisted == unlisted
    assert cache.listed.isdisjoint(unlisted)


def test_a_cache_is_informed_if_any_shape_is_known() -> None:
    empty, bare = ClusterCache(), ClusterCache.of([], unknown=unknown(x=None))

    assert [empty.informed, bare.informed] == [False, False]
    assert ClusterCache.of([SMALL]).informed
    assert ClusterCache.of([], [GONE]).informed


def test_groups_have_verdicts_and_eligible_nodes() -> None:
    tainted = placed(SMALL, "dedicated", pool="a", name="tainted")
    here = [placed(SMALL, pool="a", name="one"), placed(SMALL, pool="b", name="two"), tainted]
    cache = ClusterCache.of(here, [known_shape(PLAIN, seen=3.0)])

    groups = {each.known.shape.name: each for each in cache.groups(TWO_GPUS, selecting("pool", "a"))}

    own, other, gone = (groups[shape.of(each).name] for each in (here[0], tainted, PLAIN))
    assert (own.nodes, own.kept_away) == (1, {Unmet.AFFINITY: 1})
    assert (other.nodes, other.kept_away) == (0, {Unmet.TAINT: 1})
    assert (gone.nodes, gone.kept_away, gone.known) == (0, {}, known_shape(PLAIN, seen=3.0))
    assert own.verdict == evaluate(shape.of(SMALL).node, TWO_GPUS.demand, TWO_GPUS.intent)


def test_a_sentence_counts_nodes_that_are_not_eligible() -> None:
    cache = ClusterCache.of([placed(SMALL, name="one"), placed(LARGE, "dedicated", name="two")])

    text = cache.why_not(TWO_GPUS, ANY_POOL)

    assert text.startswith('no node can align container "c0" as single-numa-node (0 of 2 nodes)')
    assert str(Unmet.TAINT).removeprefix("had") in text
