"""Which zones of a node pods with an intent hold, and what counts where that is not known."""

from dataclasses import replace

import pytest

from numalign.ledger.free import free_capacity
from numalign.ledger.model import AssignedPod, NodeInfo, PlacementRecord, Source
from numalign.ledger.occupancy import nowhere_alone, sharing, with_occupants
from numalign.model.intent import Intent
from tests.unit.ledger.conftest import LAG, NOW, TWO, held, on
from tests.worlds.notation import means, node, table

RESTRICTED, ALONE = means("restricted"), means("restricted", exclusive=True)


def meaning(intent: Intent, pod: AssignedPod) -> AssignedPod:
    return replace(pod, intent=intent)


def guessed(text: str) -> AssignedPod:
    """A pod of which it was predicted without certainty what it holds."""
    return replace(on("guessed"), guess=held(text))


UNREADABLE = AssignedPod("unreadable", ("team", "unreadable"), None, on("any").stage)
HALF_KNOWN = replace(
    on("half", "cpu=1 mem=1Gi gpu=1"),
    record=PlacementRecord(held("0 cpu=1"), Source.RECORDED, frozenset({"nvidia.com/gpu"})),
)
GPUS = node("cpu=8 gpu=1", "cpu=8 gpu=1", policy="restricted")

HELD = [
    # what it shows, the pod
    #     the zones that count as occupied, and those that it has to itself
    ("it has no intent", on("a", has="0 cpu=4"), "", ""),
    ("it has an intent", meaning(RESTRICTED, on("a", has="0 cpu=4")), "0", ""),
    ("it is exclusive", meaning(ALONE, on("a", has="1 cpu=4")), "1", "1"),
    ("nothing that its intent names",
         meaning(means("restricted gpu", exclusive=True), on("a", has="0 cpu=4")), "", ""),
    ("unknown zones", meaning(ALONE, on("a")), "0 1", ""),
    ("a guess of zones", meaning(ALONE, guessed("1 cpu=4")), "0 1", "1"),
    ("known resources of its intent", meaning(replace(ALONE, resources=("cpu",)), HALF_KNOWN), "0", "0"),
    ("an unknown resource of its intent", meaning(ALONE, HALF_KNOWN), "0 1", "0"),
    ("it cannot be read", meaning(RESTRICTED, UNREADABLE), "0 1", ""),
    ("a record of an unknown zone", meaning(ALONE, on("a", has="7 cpu=4")), "0 1", ""),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "occupied", "exclusive"), table(HELD))
def test_unknown_use_counts_against_exclusive_pods_only(
    pod: AssignedPod, occupied: str, exclusive: str
) -> None:
    occupied_node = with_occupants(GPUS, [pod], exact=True)
    assert (shown(occupied_node.occupied), shown(occupied_node.exclusive)) == (occupied, exclusive)


def shown(zones: frozenset[int]) -> str:
    return " ".join(map(str, sorted(zones)))


def test_unknown_pod_on_a_single_zone_is_in_it() -> None:
    one = node("cpu=8", policy="restricted")
    occupied_node = with_occupants(one, [meaning(ALONE, on("a"))], exact=True)
    assert (shown(occupied_node.occupied), shown(occupied_node.exclusive)) == ("0", "0")


def test_uncertain_free_amounts_exclude_exclusive_pods() -> None:
    occupied_node = with_occupants(TWO, [meaning(ALONE, on("a", has="0 cpu=4"))], exact=False)
    assert (shown(occupied_node.occupied), shown(occupied_node.exclusive)) == ("0 1", "0")
    assert with_occupants(TWO, [on("a", has="0 cpu=4")], exact=False) is TWO


def test_one_occupied_zone_blocks_a_pod_of_any_zone() -> None:
    occupied_node = with_occupants(TWO, [meaning(RESTRICTED, on("a", has="0 cpu=4"))], exact=True)
    assert shown(nowhere_alone(occupied_node).occupied) == "0 1"
    assert nowhere_alone(TWO) is TWO


def test_sharing_lists_pods_with_intent_in_the_same_zones() -> None:
    alone = meaning(ALONE, on("alone", has="0 cpu=4"))
    pods = (
        alone,
        meaning(RESTRICTED, on("same", has="0,1 cpu=4")),
        meaning(RESTRICTED, on("away", has="1 cpu=4")),
        meaning(RESTRICTED, on("anywhere")),
        on("quiet", has="0 cpu=4"),
    )
    assert [pod.uid for pod in sharing(TWO, pods, alone)] == ["same"]


# What is free, and for whom.

A_ALONE = meaning(ALONE, on("a", has="0 cpu=4"))


def test_resized_request_is_not_the_admitted_one() -> None:
    before = NodeInfo(TWO, (on("a", has="0 cpu=4"),))
    was = free_capacity(before, now=NOW, lag=LAG)
    free = free_capacity(NodeInfo(TWO, (A_ALONE,)), now=NOW, lag=LAG, before=(before, was))
    assert (shown(was.node.exclusive), shown(free.node.exclusive)) == ("", "0")


def test_emptied_node_has_no_occupants() -> None:
    occupied_node = with_occupants(TWO, [A_ALONE], exact=True)
    assert occupied_node.emptied() == TWO.emptied()
    assert occupied_node.in_health() == TWO.in_health()
