"""
What is free on a node, by what is known of its pods.

A pod is written as its requests, and what it holds as the zones that give it: `0 cpu=4; 0,1 mem=6Gi`. Whole
CPUs free in each zone are a list.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from numalign.ledger.claims import exclusive
from numalign.ledger.free import free_capacity, nowhere_alone, sharing, with_occupants
from numalign.ledger.model import (
    AssignedPod,
    Basis,
    FingerprintReader,
    FreeCapacity,
    NodeInfo,
    PlacementRecord,
    Source,
    Stage,
)
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node
from tests.unit.ledger.conftest import (
    HALF,
    JUST_NOW,
    LAG,
    LONG_AGO,
    NOW,
    STRANGER,
    TWO,
    held,
    of,
    on,
    predicted,
)
from tests.worlds.notation import asks, free_of, means, node, table

FULL = node("cpu=8//0", "cpu=8//0", policy="single-numa-node")
BUSY = node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy="single-numa-node")


def unreadable(uid: str, *, since: float = LONG_AGO) -> AssignedPod:
    """A pod of which it cannot be read what it asks for."""
    return AssignedPod(uid, ("team", uid), None, Stage.ADMITTED, since=since)


def free(info: NodeInfo) -> FreeCapacity:
    return free_capacity(info, now=NOW, lag=LAG)


A, B = on("a", has="0 cpu=4"), on("b", has="1 cpu=2", containers="cpu=2 mem=1Gi")
CAME = on("came", has="1 cpu=4", since=JUST_NOW)
SHARES = on("shares", "cpu=4.. mem=1Gi..")


def known(
    published: Node,
    pods: Sequence[AssignedPod] = (),
    departed: Sequence[AssignedPod] = (),
    anchor: FingerprintReader | None = None,
) -> NodeInfo:
    pods, departed = (tuple(pod.counted_on(published) for pod in some) for some in (pods, departed))
    return NodeInfo(published, pods, departed, anchor)


OBSERVED, ANCHORED, REPORTED = Basis.OBSERVED, Basis.ANCHORED, Basis.REPORTED

BASES = [
    # what it shows, what is known
    #     basis, sure, free
    ("no pods, for any topology", known(FULL), OBSERVED, True, [8, 8]),
    ("every pod has a record", known(FULL, [A, B]), OBSERVED, True, [4, 6]),
    ("a pod without exclusive resources needs no record", known(FULL, [A, SHARES]), OBSERVED, True, [4, 8]),
    ("a huge pod that claims nothing leaves a full node full",
         known(FULL, [on("huge", "cpu=8 mem=1Gi", has=""), on("other", "cpu=8 mem=1Gi", has="0 cpu=8")]),
         REPORTED, False, [0, 0]),
    ("what a record leaves out may be anywhere",
         known(BUSY, [on("kai", "cpu=4 mem=5Gi", has="0 cpu=4", since=JUST_NOW)]), REPORTED, False, [4, 8]),
    ("no record, but a fingerprint of all pods", known(HALF, [STRANGER], anchor=of("stranger")),
         ANCHORED, True, [4, 8]),
    ("a later pod is taken off", known(HALF, [STRANGER, CAME], anchor=of("stranger")),
         ANCHORED, True, [4, 4]),
    ("and in every zone, if its zones are not known",
         known(HALF, [STRANGER, on("new", "cpu=3 mem=1Gi", since=JUST_NOW)], anchor=of("stranger")),
         ANCHORED, False, [1, 5]),
    ("a pod in the fingerprint is not taken off twice",
         known(HALF, [STRANGER, CAME], anchor=of("stranger", "came")), ANCHORED, True, [4, 8]),
    ("a pod that left since is given back", known(HALF, [STRANGER], [A], of("stranger", "a")),
         ANCHORED, True, [8, 8]),
    ("unless its zones are not known", known(HALF, [STRANGER], [on("a")], of("stranger", "a")),
         ANCHORED, False, [4, 8]),
    ("a pod that left before is not given back", known(HALF, [STRANGER], [A], of("stranger")),
         ANCHORED, True, [4, 8]),
    ("no more is given back than there is",
         known(HALF, [STRANGER], [A, on("c", has="0 cpu=4")], of("stranger", "a", "c")),
         ANCHORED, True, [8, 8]),
    ("a new pod takes of what was given back",
         known(FULL, [STRANGER, on("new", "cpu=3 mem=1Gi")], [A], of("stranger", "a")),
         ANCHORED, False, [1, 0]),
    ("of two pods of one name the present one counts",
         known(HALF, [STRANGER, on("new", has="1 cpu=4", name="a")], [A], of("stranger", "a")),
         ANCHORED, False, [4, 4]),
    ("a fingerprint of unknown pods", known(HALF, [STRANGER], anchor=of("stranger", "ghost")),
         REPORTED, False, [4, 8]),
    ("a pod within the lag may not be in it", known(HALF, [STRANGER, CAME]), REPORTED, False, [4, 4]),
    ("nor a pod on its way, however long", known(HALF, [STRANGER, on("b", has="1 cpu=4", stage=Stage.BOUND)]),
         REPORTED, False, [4, 4]),
    ("an earlier pod is in it", known(HALF, [STRANGER, on("b", has="1 cpu=4", since=NOW - LAG)]),
         REPORTED, False, [4, 8]),
    ("a departed pod is free once the topology has it", known(FULL, [STRANGER], [A]),
         REPORTED, False, [4, 4]),
    ("the most that is given out limits as well",
         known(FULL, [on("a", "cpu=1 mem=1Gi"), on("b", "cpu=2 mem=1Gi", has="0 cpu=2")]),
         REPORTED, False, [5, 7]),
    ("a guess of zones counts for nothing", known(HALF, [replace(CAME, record=None, guess=held("1 cpu=4"))]),
         REPORTED, False, [4, 4]),
    ("beside a new unreadable pod nothing is free", known(TWO, [unreadable("x", since=JUST_NOW)]), REPORTED,
         False, [0, 0]),
    ("until the topology accounts for it", known(HALF, [unreadable("x")]), REPORTED, False, [4, 8]),
    ("a record of an unknown zone is void", known(HALF, [on("a", has="0 cpu=2; 7 cpu=2", since=JUST_NOW)]),
         REPORTED, False, [4, 4]),
    ("more is recorded than there is",
         known(TWO, [A, on("b", "cpu=6 mem=1Gi", has="0 cpu=6", since=JUST_NOW)]), REPORTED, False, [2, 8]),
    ("a topology of exactly these pods has less free", known(HALF, [on("a", has="1 cpu=4")], anchor=of("a")),
         ANCHORED, True, [4, 8]),
    ("a topology of other pods does not count",
         known(HALF, [on("a", has="1 cpu=4"), B], [STRANGER], of("a", "b", "stranger")),
         OBSERVED, True, [8, 2]),
    ("a topology misses what init containers keep",
         known(TWO, [on("a", "init cpu=4 mem=1Gi | cpu=1 mem=1Gi", has="0 cpu=4")], anchor=of("a")),
         OBSERVED, True, [4, 8]),
    ("also an anchored one",
         known(HALF, [on("x", "init cpu=4 mem=1Gi | cpu=1 mem=1Gi"), STRANGER], anchor=of("x", "stranger")),
         ANCHORED, False, [0, 4]),
    ("also a lagging one", known(HALF, [on("x", "init cpu=4 mem=1Gi | cpu=1 mem=1Gi"), STRANGER]),
         REPORTED, False, [0, 4]),
    ("init containers' share is not given back",
         known(HALF, [STRANGER], [on("a", "init cpu=4 mem=1Gi | cpu=1 mem=1Gi", has="0 cpu=4")],
               of("stranger", "a")),
         ANCHORED, False, [4, 8]),
]  # fmt: skip


@pytest.mark.parametrize(("info", "basis", "exact", "cpus"), table(BASES))
def test_free_is_computed_from_the_best_evidence(
    info: NodeInfo, basis: Basis, *, exact: bool, cpus: list[int]
) -> None:
    capacity = free(info)
    assert (capacity.basis, capacity.exact, free_of(capacity.node, "cpu")) == (basis, exact, cpus)


INFOS = [row[1] for row in BASES]


@pytest.mark.parametrize("info", [*INFOS, *(replace(info, complete=False) for info in INFOS)])
def test_earlier_computation_changes_no_result(info: NodeInfo) -> None:
    pods = info.assigned_pods
    others = [
        replace(info, assigned_pods=tuple(replace(pod, demand=SHARES.demand) for pod in pods)),
        replace(info, assigned_pods=tuple(replace(pod, record=B.record) for pod in pods)),
        replace(info, node=node("cpu=9", "cpu=9", policy="single-numa-node")),
        replace(info, fingerprint=None),
    ]
    earlier, expected = [(other, free(other)) for other in [*INFOS, *others]], free(info)
    for before in earlier:
        assert free_capacity(info, now=NOW, lag=LAG, before=before) == expected


def test_change_of_stage_recounts_nothing() -> None:
    info = known(FULL, [A, B])
    before = info, free(info)
    bound = replace(info, assigned_pods=(A, replace(B, stage=Stage.BOUND)))
    capacity = free_capacity(bound, now=NOW, lag=LAG, before=before)
    assert capacity.node is before[1].node
    assert capacity == free(bound)


EXCLUSIVE = [
    # what it shows             zone             pod                     counts
    ("CPUs of its own",         "cpu=8",         "cpu=2 mem=1Gi",        True),
    ("memory of its own",       "cpu=8 mem=8Gi", "cpu=500m mem=1Gi",     True),
    ("a device of the node",    "cpu=8 gpu=1",   "cpu=1.. gpu=1",        True),
    ("a device of other nodes", "cpu=8 gpu=1",   "cpu=1.. nic=1",        False),
    ("nothing of its own",      "cpu=8 mem=8Gi", "cpu=2.. mem=1Gi..",    False),
    ("only before its start",   "cpu=8 gpu=1",   "init gpu=1 | cpu=1..", False),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "containers", "counts"), table(EXCLUSIVE))
def test_exporter_counts_running_containers(zone: str, containers: str, *, counts: bool) -> None:
    assert exclusive(node(zone), asks(*containers.split("|"))) is counts


# Memory over several zones.

BLOCK = on("block", "cpu=1 mem=12Gi", has="0 cpu=1; 0,1 mem=12Gi")


def test_memory_groups_are_known_from_records() -> None:
    published = node(
        "cpu=8//7 mem=8Gi//0", "cpu=8 mem=8Gi//4Gi", "cpu=8//4 mem=8Gi//7Gi", policy="restricted"
    )
    info = NodeInfo(published, (BLOCK, STRANGER), fingerprint=of("block", "stranger"))
    capacity = free(info)
    assert capacity.basis is Basis.ANCHORED
    assert [set(zone.cells) for zone in capacity.node.zones] == [{0, 1}, {0, 1}, {2}]
    # Zone 1 serves nobody alone, and zone 2, where the stranger may have memory, nobody beside others.
    assert predicted(info, "cpu=6 mem=4Gi").verdict.refusal
    assert predicted(info, "cpu=2 mem=1Gi").held == held("2 cpu=2 mem=1Gi")


def test_possible_memory_group_makes_zones_uncertain() -> None:
    published = node("cpu=8 mem=8Gi//0", "cpu=8 mem=8Gi//4Gi", "cpu=8 mem=8Gi", policy="restricted")
    somewhere = on("somewhere", "cpu=1 mem=12Gi")
    strict = NodeInfo(published, (somewhere,), fingerprint=of("somewhere"))
    lenient = replace(strict, node=replace(published, policy=Policy.BEST_EFFORT))
    assert free_of(free(strict).node, "mem") == [0, 0, 0]
    # Whoever is content with a whole group gets something of it.
    assert free_of(free(lenient).node, "mem") == [0, 4, 8]
    assert not free(lenient).exact


def test_last_started_unseen_pod_may_be_uncounted() -> None:
    pods = tuple(replace(on(f"p{at}", since=NOW), started=10 - at) for at in range(10))
    assert free(known(HALF, pods, anchor=of(*(pod.uid for pod in pods[1:])))).basis is Basis.ANCHORED
    assert free(known(HALF, pods, anchor=of(*(pod.uid for pod in pods[:9])))).basis is Basis.REPORTED


# Which zones of a node pods with an intent hold, and what counts where that is not known.

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
