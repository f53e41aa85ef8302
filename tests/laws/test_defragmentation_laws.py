"""
Laws of the advice who has to move, for whatever stands where.

Pods come to a few small nodes and some of them stay away again, so that what is free lies here and there. Who
follows the advice step by step finds that each kubelet admits whom it is told to, as its owner means it; and
on so few nodes all that could be done is tried, so nobody can do with fewer pods that are in the way, or with
cheaper ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

from hypothesis import given
from hypothesis import strategies as st

from numalign.cache import Question
from numalign.cache.scheduler_cache import SchedulerCache
from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.kubelet import admit as kubelet
from numalign.kubelet.managers_state import Assignments
from numalign.ledger.arithmetic import named, same
from numalign.ledger.model import AssignedPod, PlacementRecord, Prediction, Source, Stage
from numalign.ledger.reservations import Reservations
from numalign.model.constraints import ANYWHERE
from numalign.model.demand import Demand
from numalign.model.intent import Intent
from numalign.model.node import Node
from numalign.scheduling.defragmentation import (
    EXHAUSTIVE,
    Advice,
    Newcomer,
    Remedy,
    Resident,
    ResidentCluster,
    advise,
    cost,
)
from tests.worlds.notation import asks, means, node

NOW = 1000.0
ZONES = ["cpu=4 mem=4Gi gpu=2", "cpu=4 mem=4Gi", "cpu=3 mem=4Gi gpu=1"]
POLICIES = ["single-numa-node", "single-numa-node", "restricted", "best-effort", "none"]
SMALL, LARGE = (
    [asks(*size.split("|")) for size in sizes]
    for sizes in (
        ("cpu=1 mem=1Gi", "cpu=1 mem=1Gi", "cpu=2 mem=1Gi", "cpu=2 mem=1Gi gpu=1", "cpu=1 mem=3Gi",
         "cpu=500m mem=1Gi", "cpu=1 mem=1Gi | cpu=1 mem=1Gi"),
        ("cpu=3 mem=2Gi", "cpu=3 mem=1Gi gpu=1", "cpu=4 mem=2Gi", "cpu=2 mem=1Gi gpu=2",
         "cpu=2 mem=3Gi gpu=1", "cpu=5 mem=1Gi", "cpu=1 mem=6Gi", "cpu=2 mem=1Gi | cpu=2 mem=1Gi",
         "init cpu=3 mem=3Gi | cpu=1 mem=1Gi"),
    )
)  # fmt: skip
TIGHT = ("best-effort", "restricted", "single-numa-node")
INTENTS = [NO_INTENT, *map(means, TIGHT), means("single-numa-node", scope="pod")]
PRIORITY = 5


@dataclass(frozen=True)
class Placed:
    """A pod that a kubelet has admitted, and what it gave it."""

    resident: Resident
    demand: Demand
    intent: Intent
    node: str
    booked: Assignments
    record: PlacementRecord


@dataclass(frozen=True)
class World:
    """Nodes as their kubelets have them, the pods on them, and a pod that wants in."""

    nodes: dict[str, Node]
    placed: tuple[Placed, ...]
    demand: Demand
    intent: Intent

    def movable(self, name: str) -> list[Placed]:
        """The pods of a node that may be moved."""
        return [
            pod
            for pod in self.placed
            if pod.node == name and not pod.resident.obstacle and pod.resident.priority <= PRIORITY
        ]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Two or three nodes, filled with pods of which some have left."""
    count = draw(st.integers(2, 3))
    zones = st.lists(st.sampled_from(ZONES), min_size=2, max_size=2)
    made = st.builds(
        lambda zones, policy, scope: node(*zones, policy=policy, scope=scope),
        zones,
        st.sampled_from(POLICIES),
        st.sampled_from(["container", "pod"]),
    )
    nodes = {name: replace(draw(made), name=name) for name in (f"n{at}" for at in range(count))}
    placed: list[Placed] = []
    for at in range(draw(st.integers(6, 14))):
        name, demand = draw(st.sampled_from([*nodes])), draw(st.sampled_from([*SMALL * 3, *LARGE]))
        admission = kubelet.admit(nodes[name], demand)
        if admission.refusal:
            continue
        nodes[name] = kubelet.charge(nodes[name], admission)
        resident = Resident(
            f"pod-{at}",
            ("team", f"pod-{at}"),
            priority=draw(st.sampled_from([0, 0, 1, 1, PRIORITY, PRIORITY + 1])),
            created=draw(st.integers(0, 3)),
            obstacle=draw(st.sampled_from(["", "", "", "", "", "it is bare"])),
        )
        record = PlacementRecord(named(admission.placement.kept, nodes[name]), Source.KUBELET)
        intent = draw(st.sampled_from(INTENTS))
        placed.append(Placed(resident, demand, intent, name, admission.held, record))
    staying = draw(st.lists(st.integers(0, 3), min_size=len(placed), max_size=len(placed)))
    gone = [pod for pod, stays in zip(placed, staying, strict=True) if not stays]
    return World(
        without(nodes, gone),
        tuple(pod for pod in placed if pod not in gone),
        draw(st.sampled_from(LARGE)),
        draw(st.sampled_from(INTENTS)),
    )


def advice_for(world: World) -> Advice:
    reservations = Reservations()
    for one in world.nodes.values():
        reservations.update_node(one.emptied())
    for pod in world.placed:
        assigned = AssignedPod(
            pod.resident.uid, pod.resident.name, pod.demand, Stage.ADMITTED, record=pod.record
        )
        reservations.update_pod(pod.node, assigned)
    by_uid = {pod.resident.uid: pod for pod in world.placed}

    def newcomer(uid: str) -> Newcomer:
        pod = by_uid[uid]
        return Newcomer(uid, pod.resident.name, Question(pod.demand, pod.intent), ANYWHERE)

    cluster = ResidentCluster(
        reservations,
        SchedulerCache(reservations),
        {name: [pod.resident for pod in world.placed if pod.node == name] for name in world.nodes},
        newcomer,
        NOW,
    )
    new = Newcomer("new", ("team", "new"), Question(world.demand, world.intent), ANYWHERE)
    return advise(new, PRIORITY, cluster, [*world.nodes])


def without(nodes: dict[str, Node], gone: Sequence[Placed]) -> dict[str, Node]:
    """The nodes once their kubelets have let go of these pods."""
    after = dict(nodes)
    for pod in gone:
        after[pod.node] = kubelet.release(after[pod.node], [pod.booked])
    return after


def admitted(nodes: dict[str, Node], name: str, demand: Demand, intent: Intent) -> dict[str, Node] | None:
    """The nodes once one of them has admitted a pod as its owner means it; None if it does not."""
    if not evaluate(nodes[name], demand, intent).admitted:
        return None
    return {**nodes, name: kubelet.charge(nodes[name], kubelet.admit(nodes[name], demand))}


def gets(before: Node, demand: Demand, prediction: Prediction) -> bool:
    """Whether a kubelet gives a pod what was predicted, where that was certain."""
    placed_in = named(kubelet.admit(before, demand).placement.kept, before)
    return prediction.record is None or same(prediction.record.held, placed_in)


@given(worlds())
def test_following_the_advice_places_the_pod(world: World) -> None:
    advice = advice_for(world)
    if advice.remedy is Remedy.FITS:
        assert all(admitted(world.nodes, name, world.demand, world.intent) for name in advice.fitting)
    for plan in advice.plans:
        by_uid = {pod.resident.uid: pod for pod in world.placed}
        moving = [by_uid[move.resident.uid] for move in plan.moves]
        assert all(pod in world.movable(plan.node) for pod in moving)

        nodes: dict[str, Node] | None = without(world.nodes, moving)
        before, after = (
            [
                (move.node, pod.demand, pod.intent, move.prediction)
                for move, pod in zip(plan.moves, moving, strict=True)
                if bool(move.after) is late
            ]
            for late in (False, True)
        )
        for name, demand, intent, prediction in (
            *before, (plan.node, world.demand, world.intent, plan.prediction), *after,
        ):  # fmt: skip
            assert nodes
            assert gets(nodes[name], demand, prediction)
            nodes = admitted(nodes, name, demand, intent)
        assert nodes


@given(worlds())
def test_no_other_moves_are_fewer_or_cheaper(world: World) -> None:
    advice = advice_for(world)
    fits = any(admitted(world.nodes, name, world.demand, world.intent) for name in world.nodes)

    assert (advice.remedy is Remedy.FITS) == fits
    best = None if fits else min(solutions(world), default=None)
    if advice.proven and best:
        # Cheaper it can be: where a pod makes room for another one that moves.
        [plan] = advice.plans
        assert cost([move.resident for move in plan.moves])[:3] <= best


def solutions(world: World) -> Iterator[tuple[int, int, int]]:
    """What it costs, in every way that there is of moving up to so many pods that are all in the way.

    A node that would refuse with nothing on it is out of the question, though what stands there can help by
    chance: it may leave no zone but one for two containers.
    """
    for name, empty in world.nodes.items():
        if evaluate(empty, world.demand, world.intent).permanent:
            continue
        for size in range(1, EXHAUSTIVE + 1):
            for moved in combinations(world.movable(name), size):
                fewer = combinations(moved, size - 1)
                if any(room(world, name, some) for some in fewer) or not (nodes := room(world, name, moved)):
                    continue
                if any(placeable(nodes, order) for order in permutations(moved)):
                    yield cost([pod.resident for pod in moved])[:3]


def room(world: World, name: str, gone: Sequence[Placed]) -> dict[str, Node] | None:
    """The nodes with the new pod on one of them, once these pods have gone; None if it refuses."""
    return admitted(without(world.nodes, gone), name, world.demand, world.intent)


def placeable(nodes: dict[str, Node], order: Sequence[Placed]) -> bool:
    """Whether there are places for all of these, one after another."""
    if not order:
        return True
    pod, *others = order
    thens = (admitted(nodes, name, pod.demand, pod.intent) for name in nodes)
    return any(then and placeable(then, others) for then in thens)
