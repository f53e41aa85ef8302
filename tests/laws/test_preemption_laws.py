"""
Laws of the victims that are named where kube-scheduler finds none, for whatever runs on a node.

Pods come to one small node and some of them stay away again, so that what is free lies here and there. Once
the victims are gone its kubelet admits the pod; nobody else has to go, nor anybody who matters more; and
where nobody is named, nobody's going would help.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from numalign.decision.evaluate import evaluate
from numalign.kube.decode.kubelet_reports import ObservedPlacement
from numalign.kubelet import admit as kubelet
from numalign.kubelet.managers_state import Assignments
from numalign.ledger.arithmetic import named
from numalign.ledger.reservations import RELEASE_SECONDS
from numalign.model.node import Node
from numalign.model.placement import Held
from numalign.runtime.cooperative import result_of
from scorer.extender_protocol import Victims
from tests.worlds.notation import asks, means, node
from tests.worlds.scorer import Raw, Scorer, on, raw, running, uid

PRIORITY = 5
ZONES = ["cpu=4 mem=4Gi gpu=2", "cpu=4 mem=4Gi", "cpu=3 mem=4Gi gpu=1"]
SIZES = [
    "cpu=1 mem=1Gi", "cpu=2 mem=1Gi", "cpu=2 mem=1Gi gpu=1", "cpu=1 mem=3Gi", "cpu=500m mem=1Gi",
    "cpu=1 mem=1Gi|cpu=1 mem=1Gi",
]  # fmt: skip
WANTED = [
    "cpu=3 mem=1Gi", "cpu=3 mem=2Gi gpu=1", "cpu=4 mem=2Gi", "cpu=2 mem=1Gi gpu=2", "cpu=1 mem=4Gi",
    "cpu=2 mem=1Gi|cpu=2 mem=1Gi",
]  # fmt: skip
POLICIES = ["single-numa-node", "restricted", "best-effort", "none"]


@dataclass(frozen=True)
class Resident:
    """A pod that a kubelet has admitted, and what it gave it."""

    name: str
    size: str
    priority: int
    booked: Assignments
    zones: Held


@dataclass(frozen=True)
class World:
    """A node as its kubelet has it, the pods on it, and a pod that wants in."""

    node: Node
    residents: tuple[Resident, ...]
    wanted: str
    policy: str

    def lower(self) -> list[Resident]:
        """The pods that may be evicted."""
        return [resident for resident in self.residents if resident.priority < PRIORITY]

    def admits(self, gone: Sequence[Resident]) -> bool:
        """Whether the kubelet admits the pod, as its owner means it, once these are gone."""
        after = kubelet.release(self.node, [resident.booked for resident in gone])
        return evaluate(after, asks(*self.wanted.split("|")), means(self.policy)).admitted


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Two zones, filled with pods of which some have left."""
    zones = [draw(st.sampled_from(ZONES)), draw(st.sampled_from(ZONES))]
    made = replace(node(*zones, policy=draw(st.sampled_from(POLICIES))), name="a")
    residents: list[Resident] = []
    for at in range(draw(st.integers(2, 7))):
        size = draw(st.sampled_from(SIZES))
        admission = kubelet.admit(made, asks(*size.split("|")))
        if admission.refusal:
            continue
        made = kubelet.charge(made, admission)
        priority = draw(st.sampled_from([0, 0, 1, 2, PRIORITY]))
        placed = named(admission.placement.kept, made)
        residents.append(Resident(f"pod-{at}", size, priority, admission.held, placed))
    gone = [resident for resident in residents if not draw(st.integers(0, 3))]
    return World(
        kubelet.release(made, [resident.booked for resident in gone]),
        tuple(resident for resident in residents if resident not in gone),
        draw(st.sampled_from(WANTED)),
        draw(st.sampled_from(POLICIES)),
    )


def manifest(resident: Resident) -> Raw:
    """The pod as it runs."""
    spec = {"priority": resident.priority}
    made = raw(*resident.size.split("|"), name=resident.name, policy=None, spec=spec)
    return running(on("a", made))


async def victims_of(world: World) -> Victims | None:
    """Who is named; None if the node is left out."""
    scorer = Scorer()
    observed = {uid(resident.name): ObservedPlacement(resident.zones, 0) for resident in world.residents}
    await scorer.know({"a": world.node.emptied()}, placements={"a": observed})
    scorer.see(*map(manifest, world.residents))
    await scorer.know({"a": world.node.emptied()}, placements={"a": dict(observed)})
    scorer.time.seconds += RELEASE_SECONDS + 1
    pod = scorer.subject(raw(*world.wanted.split("|"), policy=world.policy))
    return (await result_of(scorer.preemption.candidates(pod, PRIORITY, {"a": Victims((), 0)}))).get("a")


Cost = tuple[int, int, int]


def cost(gone: Sequence[Resident]) -> Cost:
    """What decides: the highest priority, how many, and all priorities."""
    return max(resident.priority for resident in gone), len(gone), sum(resident.priority for resident in gone)


@given(worlds())
def test_victims_suffice_and_no_others_are_cheaper(world: World) -> None:
    victims = asyncio.run(victims_of(world))
    if world.admits(()):
        assert victims == Victims((), 0)
        return
    lower = world.lower()
    choices = [some for size in range(1, len(lower) + 1) for some in combinations(lower, size)]
    costs = [cost(some) for some in choices if world.admits(some)]
    if victims is None:
        assert not costs
        return
    gone = [{uid(resident.name): resident for resident in lower}[name] for name in victims.uids]

    assert world.admits(gone)
    priorities = [resident.priority for resident in gone]
    assert priorities == sorted(priorities, reverse=True)
    assert cost(gone) == min(costs) or len(gone) > 3
