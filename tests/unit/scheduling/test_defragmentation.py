"""Who has to move, in clusters that can be seen at a glance; `tests/laws` has any that there may be."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from numalign.cache import Question
from numalign.cache.scheduler_cache import SchedulerCache
from numalign.ledger.reservations import Reservations
from numalign.model.attributes import Attributes, Labels
from numalign.model.constraints import ANYWHERE, Constraints, Operator, Requirement
from numalign.model.node import Node
from numalign.scheduling import defragmentation as defrag
from numalign.scheduling.defragmentation import Advice, Effort, Newcomer, Plan, Remedy, Resident, advise
from tests.unit.ledger.conftest import NOW, on
from tests.worlds.notation import asks, means, node, table

SINGLE = "single-numa-node"
EXCLUSIVE = replace(means("single-numa-node"), exclusive=True)
TWO = node("cpu=8 mem=64Gi", "cpu=8 mem=64Gi", policy=SINGLE)
BARE = "nobody makes it anew"


@dataclass(frozen=True)
class Placed:
    """A pod on a node: what it asks for, in which zone, and what decides whether it moves."""

    node: str
    asks: str
    zone: str
    priority: int = 0
    created: int = 0
    obstacle: str = ""
    leaving: bool = False
    where: Constraints = ANYWHERE
    readable: bool = True


Pods = Mapping[str, Placed]


def cluster(nodes: Mapping[str, Node], pods: Pods) -> defrag.ResidentCluster:
    reservations = Reservations()
    for name, each in nodes.items():
        reservations.update_node(replace(each, name=name))
    residents: dict[str, list[Resident]] = {}
    for name, pod in pods.items():
        held = f"{pod.zone} {pod.asks}" if pod.zone else None
        reservations.update_pod(pod.node, on(name, pod.asks, held, terminating=pod.leaving))
        facts = (pod.priority, pod.created, pod.obstacle, pod.leaving)
        residents.setdefault(pod.node, []).append(Resident(name, ("team", name), *facts))

    def anew(uid: str) -> Newcomer | None:
        pod = pods[uid]
        question = Question(asks(pod.asks), means("none"))
        return Newcomer(uid, ("team", uid), question, pod.where) if pod.readable else None

    return defrag.ResidentCluster(reservations, SchedulerCache(reservations), residents, anew, NOW)


def newcomer(wanted: str = "cpu=8 mem=1Gi", *, where: Constraints = ANYWHERE) -> Newcomer:
    """A pod that wants one zone."""
    return Newcomer("new", ("team", "new"), Question(asks(*wanted.split("|")), means(SINGLE)), where)


def advised(pods: Pods, wanted: str = "cpu=8 mem=1Gi", *, priority: int = 5, plans: int = 1) -> Advice:
    nodes = {"a": TWO, "b": TWO}
    return advise(newcomer(wanted), priority, cluster(nodes, pods), [*nodes], plans=plans)


def moved(plan: Plan) -> dict[str, str]:
    """Who goes where, by name: a node and a zone."""
    return {move.resident.uid: f"{move.node} {_zone(move.prediction.held or {})}" for move in plan.moves}


def _zone(held: Mapping[tuple[str, ...], object]) -> str:
    return " ".join(zone.removeprefix("node-") for zones in held for zone in zones)


FULL_B = {
    "b0": Placed("b", "cpu=6 mem=1Gi", "0", obstacle=BARE),
    "b1": Placed("b", "cpu=1 mem=1Gi", "1", obstacle=BARE),
}


def four(node: str, zone: int, **facts: Any) -> Placed:  # noqa: ANN401 any fact of a pod
    return Placed(node, "cpu=4 mem=1Gi", str(zone), **facts)


MOVES = [
    # what it shows                         the pods                                          who goes where
    ("one pod rather than two",             {"a0": Placed("a", "cpu=2 mem=1Gi", "0"),
        "a1": Placed("a", "cpu=2 mem=1Gi", "0"), "a2": four("a", 1, priority=5), **FULL_B}, {"a2": "b 1"}),
    ("nobody of a higher priority",         {"a0": four("a", 0, priority=6), "a1": four("a", 1, priority=5),
        **FULL_B}, {"a1": "b 1"}),
    ("nobody whose pod cannot be read",     {"a0": four("a", 0, readable=False),
        "a1": four("a", 1, priority=2), **FULL_B}, {"a1": "b 1"}),
    ("two that go to two places",           {"a0": Placed("a", "cpu=3 mem=1Gi", "0"),
        "a1": Placed("a", "cpu=5 mem=1Gi", "0"), "a2": Placed("a", "cpu=1 mem=1Gi", "1", obstacle=BARE),
        "b0": Placed("b", "cpu=5 mem=1Gi", "0", obstacle=BARE), "b1": four("b", 1, obstacle=BARE)},
        {"a0": "b 0", "a1": "a 1"}),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "goes"), table(MOVES))
def test_cheapest_pod_moves_to_another_place(pods: Pods, goes: dict[str, str]) -> None:
    advice = advised(pods)
    assert (advice.remedy, advice.proven) == (Remedy.MOVES, True)
    assert moved(advice.plans[0]) == goes


def test_returning_pod_moves_after_the_new_one() -> None:
    stay = Placed("b", "cpu=6 mem=1Gi", "1", obstacle=BARE)
    pods = {"a0": four("a", 0), "a1": four("a", 1, obstacle=BARE), "b0": replace(stay, zone="0"), "b1": stay}
    [plan] = advised(pods).plans
    assert [(move.resident.uid, move.node, move.after) for move in plan.moves] == [("a0", "a", True)]


def test_cheapest_nodes_are_advised_first() -> None:
    pods = {"a0": four("a", 0, priority=1), "a1": four("a", 1, obstacle=BARE), "b0": four("b", 0),
            "b1": four("b", 1, obstacle=BARE)}  # fmt: skip
    assert [plan.node for plan in advised(pods, plans=1).plans] == ["b"]
    assert [plan.node for plan in advised(pods, plans=3).plans] == ["b", "a"]


def test_leaving_pod_is_awaited() -> None:
    advice = advised({"a0": four("a", 0, leaving=True), "a1": four("a", 1), **FULL_B})
    [plan] = advice.plans
    assert advice.remedy is Remedy.WAITS
    assert (plan.node, plan.moves, [each.uid for each in plan.leaving]) == ("a", (), ["a0"])


def test_stuck_nodes_list_their_staying_pods() -> None:
    pods = {"a0": four("a", 0, priority=6), "a1": four("a", 1, obstacle=BARE), **FULL_B,
            "b1": four("b", 1, obstacle=BARE)}  # fmt: skip
    advice = advised(pods, plans=2)
    assert (advice.remedy, advice.candidates, advice.proven) == (Remedy.STUCK, 2, True)
    assert [
        (each.node, each.unplaced, {pod.uid: pod.obstacle for pod in each.staying})
        for each in advice.hindrances
    ] == [("a", (), {"a0": "its priority 6 is above 5", "a1": BARE}), ("b", (), {"b0": BARE, "b1": BARE})]
    assert "at most 4 cpu free in one NUMA zone" in advice.hindrances[0].reason


def test_moved_pod_keeps_its_node_selector() -> None:
    labelled = Attributes(labels=Labels({"pool": "b"}))
    here = Constraints(selector=(Requirement("pool", Operator.IN, frozenset({"b"})),))
    pods = {"a0": four("a", 0, where=here), "a1": four("a", 1, priority=1), "b0": four("b", 0, obstacle=BARE),
            "b1": four("b", 1, obstacle=BARE)}  # fmt: skip
    for attributes, goes in ((labelled, {"a0": "b 0"}), (TWO.attributes, {"a1": "b 0"})):
        nodes = {"a": TWO, "b": replace(TWO, attributes=attributes)}
        [plan] = advise(newcomer(), 5, cluster(nodes, pods), [*nodes]).plans
        assert moved(plan) == goes


SHARES = Placed("a", "cpu=10.. mem=1Gi..", "")
STAYS = replace(SHARES, obstacle=BARE)


@pytest.mark.parametrize(("pods", "goes", "unplaced"), table([
    # what it shows                       the pods                      who goes where, who has no place
    ("who requests without holding moves", {"a0": SHARES},                              {"a0": "b "}, []),
    ("who must stay is in the way",        {"a0": STAYS},                               {}, []),
    ("who has no room elsewhere stays",    {"a0": SHARES, "b0": replace(STAYS, node="b")}, {}, ["a0"]),
]))  # fmt: skip
def test_node_totals_need_room_too(pods: Pods, goes: dict[str, str], unplaced: list[str]) -> None:
    """A pod that shares CPUs holds no zone, and its scheduler counts it all the same."""
    a = replace(TWO, totals=node("cpu=8", totals="cpu=16 mem=128Gi pods=10").totals)
    b = replace(a, zones=node("cpu=6 mem=64Gi", "cpu=6 mem=64Gi").zones)
    advice = advise(newcomer(), 5, cluster({"a": a, "b": b}, pods), ["a", "b"])
    assert advice.remedy is (Remedy.MOVES if goes else Remedy.STUCK)
    assert [moved(plan) for plan in advice.plans] == ([goes] if goes else [])
    if not goes:
        [stuck, *_] = advice.hindrances
        assert [each.uid for each in stuck.unplaced] == unplaced
        assert unplaced or "lacks 2 cpu" in stuck.reason


def test_many_moves_are_advised_without_proof() -> None:
    pods = {f"a{at}": Placed("a", "cpu=1 mem=1Gi", "0", created=at) for at in range(5)}
    pods |= {"a9": Placed("a", "cpu=1 mem=1Gi", "1", obstacle=BARE), **FULL_B}
    pods["a8"] = Placed("a", "cpu=1 mem=1Gi", "1", created=9)
    advice = advised(pods)
    assert (advice.remedy, advice.proven) == (Remedy.MOVES, False)
    assert sorted(moved(advice.plans[0])) == [f"a{at}" for at in range(5)]


@pytest.mark.parametrize("effort", [Effort(choices=1), Effort(predictions=1)], ids=str)
def test_limited_effort_proves_nothing(effort: Effort) -> None:
    pods = {"a0": four("a", 0), "a1": four("a", 1), **FULL_B, "b1": four("b", 1)}
    advice = advise(newcomer(), 5, cluster({"a": TWO, "b": TWO}, pods), ["a", "b"], effort=effort)
    assert not advice.proven


def test_exclusive_pod_moves_others_with_intent() -> None:
    """It is not amounts that are lacking: each zone has room for both."""
    alone = replace(newcomer("cpu=2 mem=1Gi"), question=Question(asks("cpu=2 mem=1Gi"), EXCLUSIVE))
    small = {f"a{zone}": Placed("a", "cpu=2 mem=1Gi", str(zone), priority=zone) for zone in (0, 1)}
    there = cluster({"a": TWO, "b": TWO}, {**small, **FULL_B})
    for name in (*small, "b0", "b1"):
        there.reservations.update_intent(name, means(SINGLE))
    advice = advise(alone, 5, there, ["a", "b"])
    assert (advice.remedy, advice.plans[0].node) == (Remedy.MOVES, "a")
    assert moved(advice.plans[0]).keys() == {"a0"}
