"""Nodes in columns follow the ledger: no answer is stale, and nothing is read twice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.batch import ADMITTED, UNKNOWN, Batch
from numalign.cache.question import Question
from numalign.cache.scheduler_cache import NotEligible, SchedulerCache
from numalign.ledger.model import AssignedPod, PlacementRecord, Source, Stage
from numalign.ledger.reservations import LAG_SECONDS, Reservations
from numalign.model.attributes import Attributes, Labels, Taint
from numalign.model.constraints import ANYWHERE, Constraints, Operator, Requirement, Unmet
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node
from numalign.shapes import UnknownNode
from tests.worlds.notation import asks, bag, node, table

NOW = 1000.0
PAIR = replace(node("cpu=4", "cpu=4", policy="single-numa-node"), name="pair")
SMALL = replace(node("cpu=2", "cpu=2", policy="single-numa-node"), name="small")
FOUR = Question(asks("cpu=4 mem=1Gi"), Intent(Policy.SINGLE_NUMA_NODE))


def pod(uid: str, cpus: int = 4, *, stage: Stage = Stage.ADMITTED) -> AssignedPod:
    """A pod that nothing is recorded of, on its node since now."""
    return AssignedPod(uid, ("team", uid), asks(f"cpu={cpus} mem=1Gi"), stage, since=NOW)


def recorded(uid: str, zone: int) -> AssignedPod:
    """A pod of which it is recorded that it has four CPUs of a zone, since long."""
    return replace(
        pod(uid), since=NOW - 100, record=PlacementRecord({(f"node-{zone}",): bag("cpu=4")}, Source.RECORDED)
    )


def cache_of(*nodes: Node) -> tuple[Reservations, SchedulerCache]:
    reservations = Reservations()
    cache = SchedulerCache(reservations)
    for one in nodes:
        reservations.update_node(one)
    return reservations, cache


def admitted(cache: SchedulerCache, *names: str, now: float = NOW) -> list[bool]:
    return [bool(taken) for taken in cache.ask(names, FOUR, now=now).admitted]


def test_answers_are_in_the_order_of_the_names() -> None:
    _, cache = cache_of(PAIR, SMALL)
    batch = cache.ask(["small", "nobody", "pair"], FOUR, now=NOW)
    small, *others = batch.codes.tolist()

    assert others == [UNKNOWN, ADMITTED]
    assert small not in others
    assert batch.refusals[small].permanent


def test_only_requested_nodes_are_read_once() -> None:
    reservations, cache = cache_of(PAIR, SMALL)
    admitted(cache, "pair")

    assert unread(cache) == [1]
    assert unread(cache) == []
    reservations.update_pod("small", recorded("a", 0))
    admitted(cache, "pair")
    assert unread(cache) == [1]


def unread(cache: SchedulerCache) -> list[int]:
    """How many nodes are still to be read, as they are read one by one."""
    return [one + 1 for one in cache.work_ahead(1, lambda: NOW)]


def test_other_nodes_are_read_ahead_in_steps() -> None:
    _, cache = cache_of(*(replace(PAIR, name=f"n{at}") for at in range(5)))

    assert list(cache.work_ahead(2, lambda: NOW)) == [3, 1, 0]
    assert list(cache.work_ahead(2, lambda: NOW)) == []


def test_reading_ahead_follows_time() -> None:
    reservations, cache = cache_of(PAIR)
    reservations.set_complete(complete=False)
    reservations.update_pod("pair", pod("stranger"))
    times = iter([NOW, NOW + LAG_SECONDS])
    first = list(cache.work_ahead(1, lambda: next(times)))
    cache.ask([], FOUR, now=NOW + LAG_SECONDS)

    assert (first, list(cache.work_ahead(1, lambda: next(times)))) == ([0], [0])


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "strange", "reserve", "drop", "report", "unreport", "ask", "wait"]),
              st.integers(0, 3)),
    max_size=20,
)  # fmt: skip


@given(steps=STEPS)
def test_a_cache_answers_as_a_new_one(steps: Sequence[tuple[str, int]]) -> None:
    reservations, cache = cache_of(PAIR)
    names, now = ["pair", "small", "nobody"], NOW
    for what, at in steps:
        place = names[at % 2]
        if what == "put":
            reservations.update_pod(place, recorded(f"p{at}", at % 2))
        elif what == "strange":
            reservations.update_pod(place, replace(pod(f"p{at}"), since=now))
        elif what == "reserve":
            offer = reservations.predict(place, FOUR.demand, now=now)
            reservations.reserve(place, replace(pod(f"q{at}", stage=Stage.RESERVED), since=now), offer)
        elif what == "drop":
            reservations.remove_pod(f"p{at}", now=now)
        elif what == "report":
            reservations.update_node(
                [PAIR, SMALL, replace(PAIR, name="small"), replace(SMALL, name="pair")][at]
            )
        elif what == "unreport":
            reservations.remove_node(place)
        elif what == "wait":
            now += at * LAG_SECONDS / 2
        else:
            assert same(
                cache.ask(names, FOUR, now=now), SchedulerCache(reservations).ask(names, FOUR, now=now)
            )
    assert same(cache.ask(names, FOUR, now=now), SchedulerCache(reservations).ask(names, FOUR, now=now))


def same(one: Batch, other: Batch) -> bool:
    refusals = [[batch.refusals.get(code, code) for code in batch.codes.tolist()] for batch in (one, other)]
    return refusals[0] == refusals[1]


# Which nodes a pod may go to, with a topology and without.

GOLD = Constraints((Requirement("tier", Operator.IN, frozenset({"gold"})),))

NODES = {
    "gold": Attributes(Labels({"tier": "gold"})),
    "silver": Attributes(Labels({"tier": "silver"})),
    "tainted": Attributes(Labels({"tier": "gold"}), (Taint("dedicated"),)),
    "cordoned": Attributes(Labels({"tier": "gold"}), cordoned=True),
    "not ready": Attributes(Labels({"tier": "gold"}), ready=False),
}
BARE = {"bare": Attributes(Labels({"tier": "silver"})), "bare gold": Attributes(Labels({"tier": "gold"}))}


def become(
    cluster: tuple[Reservations, SchedulerCache],
    nodes: Mapping[str, Attributes],
    unknown: Mapping[str, Attributes],
) -> SchedulerCache:
    reservations, cache = cluster
    for name in {*reservations.node_names()} - nodes.keys():
        reservations.remove_node(name)
    for name, attributes in nodes.items():
        reservations.update_node(replace(PAIR, name=name, attributes=attributes))
    for name in {*BARE, *unknown}:
        bare = UnknownNode(name, attributes=unknown[name]) if name in unknown else None
        cache.update_unknown(name, bare)
    return cache


CLUSTER = become(cache_of(), NODES, BARE)
NAMES = [*NODES, *BARE]


def test_nodes_are_not_eligible_for_good_or_for_now() -> None:
    assert CLUSTER.not_eligible(NAMES, GOLD, now=NOW) == {
        "silver": NotEligible(Unmet.AFFINITY, lasting=True),
        "tainted": NotEligible(Unmet.TAINT, lasting=True),
        "cordoned": NotEligible(Unmet.CORDONED, lasting=False),
        "not ready": NotEligible(Unmet.NOT_READY, lasting=False),
        "bare": NotEligible(Unmet.AFFINITY, lasting=True),
    }


def test_unknown_nodes_are_left_out() -> None:
    assert CLUSTER.not_eligible(["nobody"], GOLD, now=NOW) == {}
    assert cache_of()[1].not_eligible(["gold"], GOLD, now=NOW) == {}


def test_nodes_that_are_not_ready_are_tolerated_or_not() -> None:
    assert CLUSTER.not_eligible(["not ready"], Constraints(), now=NOW).keys() == {"not ready"}
    assert CLUSTER.not_eligible(NAMES, ANYWHERE, now=NOW) == {}


CHANGES = [
    # what happens                  the nodes then                                     from which it is kept
    ("nothing",                     ({"a": NODES["gold"]}, {}),                []),
    ("a node is relabelled",        ({"a": NODES["silver"]}, {}),              ["a"]),
    ("it loses its topology",       ({}, {"a": NODES["silver"]}),              ["a"]),
    ("it is gone",                  ({"b": NODES["silver"]}, {}),              []),
]  # fmt: skip


@pytest.mark.parametrize(("then", "names"), table(CHANGES))
def test_answers_follow_the_cluster(then: tuple[Mapping[str, Attributes], ...], names: list[str]) -> None:
    cluster = cache_of()
    assert become(cluster, {"a": NODES["gold"]}, {}).not_eligible(["a"], GOLD, now=NOW) == {}

    assert [*become(cluster, *then).not_eligible(["a"], GOLD, now=NOW)] == names
