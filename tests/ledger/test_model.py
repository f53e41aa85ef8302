"""
What is free on a node, by what is known of its pods: read it to learn what a topology is worth.

A pod is written as it asks, and what it holds as the zones that give it: `0 cpu=4; 0,1 mem=6Gi`. Whole CPUs
free in each zone stand as a list.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from numalign.ledger.claims import exclusive, holds
from numalign.ledger.free import free_capacity
from numalign.ledger.model import (
    AssignedPod,
    Basis,
    FingerprintReader,
    FreeCapacity,
    NodeInfo,
    PlacementRecord,
    PodName,
    Prediction,
    Source,
    Stage,
)
from numalign.ledger.ordering import at_risk, doubted, predict
from numalign.model.intent import Policy
from numalign.model.node import CpuManager, Node
from numalign.model.placement import Held
from tests.notation import asks, bag, free_of, means, node, table

NOW, LAG = 1000.0, 60.0
LONG_AGO, JUST_NOW = NOW - 500, NOW - 1

TWO = node("cpu=8", "cpu=8", policy="single-numa-node")
FULL = node("cpu=8//0", "cpu=8//0", policy="single-numa-node")
BUSY = node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy="single-numa-node")
HALF = node("cpu=8//4", "cpu=8//8", policy="single-numa-node")


def held(text: str) -> Held:
    """What a pod holds, written `0 cpu=4; 0,1 mem=6Gi`."""
    parts = [part.split(maxsplit=1) for part in text.split(";") if part.strip()]
    return {tuple(f"node-{zone}" for zone in zones.split(",")): bag(amounts) for zones, amounts in parts}


def on(  # noqa: PLR0913  one keyword for each fact of a pod
    uid: str,
    containers: str = "cpu=4 mem=1Gi",
    has: str | None = None,
    *,
    stage: Stage = Stage.ADMITTED,
    source: Source = Source.RECORDED,
    since: float = LONG_AGO,
    created: int = 0,
    turn: int = 0,
    name: str = "",
    terminating: bool = False,
) -> AssignedPod:
    """A pod that has been on its node for long; `has` is what is recorded of it, if anything is."""
    return AssignedPod(
        uid,
        ("team", name or uid),
        asks(*containers.split("|")),
        stage,
        since=since,
        created=created,
        record=None if has is None else PlacementRecord(held(has), source),
        turn=turn,
        terminating=terminating,
    )


def unreadable(uid: str, *, since: float = LONG_AGO) -> AssignedPod:
    """A pod of which it cannot be read what it asks for."""
    return AssignedPod(uid, ("team", uid), None, Stage.ADMITTED, since=since)


def of(*names: str) -> FingerprintReader:
    """A fingerprint of these pods, that nothing else has."""
    pods = frozenset(("team", name) for name in names)

    def told(
        _node: Node, certain: Sequence[AssignedPod], perhaps: Sequence[AssignedPod]
    ) -> frozenset[PodName] | None:
        sure = {each.name for each in certain}
        return pods if sure <= pods <= sure | {each.name for each in perhaps} else None

    return told


def stands(account: NodeInfo, *, now: float = NOW) -> FreeCapacity:
    return free_capacity(account, now=now, lag=LAG)


def offered(account: NodeInfo, containers: str, *, created: int = 10) -> Prediction:
    return predict(account, asks(*containers.split("|")), created=created, now=NOW, lag=LAG)


A, B = on("a", has="0 cpu=4"), on("b", has="1 cpu=2", containers="cpu=2 mem=1Gi")
STRANGER = on("stranger")
CAME = on("came", has="1 cpu=4", since=JUST_NOW)
SHARES = on("shares", "cpu=4.. mem=1Gi..")


@dataclass(frozen=True)
class Known:
    """What is known of a node, in a row of a table."""

    published: Node
    pods: Sequence[AssignedPod] = ()
    left: Sequence[AssignedPod] = ()
    told: FingerprintReader | None = None

    @property
    def account(self) -> NodeInfo:
        """The same as the ledger has it."""
        pods, left = (
            tuple(each.counted_on(self.published) for each in some) for some in (self.pods, self.left)
        )
        return NodeInfo(self.published, tuple(pods), tuple(left), self.told)


OBSERVED, ANCHORED, REPORTED = Basis.OBSERVED, Basis.ANCHORED, Basis.REPORTED

BASES = [
    # what it shows, what is known
    #     basis, sure, free
    ("nobody is there, whatever the topology still says", Known(FULL),
         OBSERVED, True, [8, 8]),
    ("every pod has a record", Known(FULL, [A, B]),
         OBSERVED, True, [4, 6]),
    ("a pod on its way counts as one that is there", Known(TWO, [A, replace(B, stage=Stage.RESERVED)]),
         OBSERVED, True, [4, 6]),
    ("a pod with nothing of its own needs no record", Known(FULL, [A, SHARES]),
         OBSERVED, True, [4, 8]),
    ("a pod that is given nothing has an empty record", Known(FULL, [on("a", "cpu=500m mem=1Gi", has="")]),
         OBSERVED, True, [8, 8]),
    ("a tiny pod that claims its node closes it to nobody",
         Known(HALF, [A, on("tiny", "cpu=100m mem=1Gi", has="0 cpu=8; 1 cpu=8")]),
         OBSERVED, True, [4, 8]),
    ("a huge pod that claims nothing leaves a full node full",
         Known(FULL, [on("huge", "cpu=8 mem=1Gi", has=""), on("other", "cpu=8 mem=1Gi", has="0 cpu=8")]),
         REPORTED, False, [0, 0]),
    ("nor does one that claims a little, while no topology accounts for it",
         Known(TWO, [on("huge", "cpu=8 mem=1Gi", has="0 cpu=1", since=JUST_NOW)]),
         REPORTED, False, [0, 0]),
    ("what a record leaves out may be anywhere, and what it tells counts",
         Known(BUSY, [on("kai", "cpu=4 mem=5Gi", has="0 cpu=4", since=JUST_NOW)]),
         REPORTED, False, [4, 8]),
    ("no record, but a fingerprint of all pods", Known(HALF, [STRANGER], told=of("stranger")),
         ANCHORED, True, [4, 8]),
    ("who came since is taken off", Known(HALF, [STRANGER, CAME], told=of("stranger")),
         ANCHORED, True, [4, 4]),
    ("and in full everywhere, if nobody knows where",
         Known(HALF, [STRANGER, on("new", "cpu=3 mem=1Gi", since=JUST_NOW)], told=of("stranger")),
         ANCHORED, False, [1, 5]),
    ("who is accounted for is not taken off twice",
         Known(HALF, [STRANGER, CAME], told=of("stranger", "came")),
         ANCHORED, True, [4, 8]),
    ("who left since is given back", Known(HALF, [STRANGER], [A], of("stranger", "a")),
         ANCHORED, True, [8, 8]),
    ("unless nobody knows what it held", Known(HALF, [STRANGER], [on("a")], of("stranger", "a")),
         ANCHORED, False, [4, 8]),
    ("who left before is not given back", Known(HALF, [STRANGER], [A], of("stranger")),
         ANCHORED, True, [4, 8]),
    ("given back is never more than there is",
         Known(HALF, [STRANGER], [A, on("c", has="0 cpu=4")], of("stranger", "a", "c")),
         ANCHORED, True, [8, 8]),
    ("who came takes of what was given back",
         Known(FULL, [STRANGER, on("new", "cpu=3 mem=1Gi")], [A], of("stranger", "a")),
         ANCHORED, False, [1, 0]),
    ("one of two with the same name is there: it counts, and the other's room is not free",
         Known(HALF, [STRANGER, on("new", has="1 cpu=4", name="a")], [A], of("stranger", "a")),
         ANCHORED, False, [4, 4]),
    ("no fingerprint", Known(HALF, [STRANGER]),
         REPORTED, False, [4, 8]),
    ("a fingerprint of pods that nobody knows", Known(HALF, [STRANGER], told=of("stranger", "ghost")),
         REPORTED, False, [4, 8]),
    ("what came within the lag may not be in it", Known(HALF, [STRANGER, CAME]),
         REPORTED, False, [4, 4]),
    ("nor what is on its way, however long",
         Known(HALF, [STRANGER, on("b", has="1 cpu=4", stage=Stage.BOUND)]),
         REPORTED, False, [4, 4]),
    ("what came before is in it", Known(HALF, [STRANGER, on("b", has="1 cpu=4", since=NOW - LAG)]),
         REPORTED, False, [4, 8]),
    ("what left is not free before the topology says so", Known(FULL, [STRANGER], [A]),
         REPORTED, False, [4, 4]),
    ("what is given out at the most tells as well what is free",
         Known(FULL, [on("a", "cpu=1 mem=1Gi"), on("b", "cpu=2 mem=1Gi", has="0 cpu=2")]),
         REPORTED, False, [5, 7]),
    ("nothing is built on where a pod may have come",
         Known(HALF, [replace(CAME, record=None, guess=held("1 cpu=4"))]),
         REPORTED, False, [4, 4]),
    ("nobody knows what an unreadable pod asks: nothing is free",
         Known(TWO, [unreadable("x", since=JUST_NOW)]),
         REPORTED, False, [0, 0]),
    ("until the topology accounts for it", Known(HALF, [unreadable("x")]),
         REPORTED, False, [4, 8]),
    ("a record that names a zone that is not there is void, all of it",
         Known(HALF, [on("a", has="0 cpu=2; 7 cpu=2", since=JUST_NOW)]),
         REPORTED, False, [4, 4]),
    ("more is recorded than there is",
         Known(TWO, [A, on("b", "cpu=6 mem=1Gi", has="0 cpu=6", since=JUST_NOW)]),
         REPORTED, False, [2, 8]),
    ("a topology of exactly these pods has less to give", Known(HALF, [on("a", has="1 cpu=4")], told=of("a")),
         ANCHORED, True, [4, 8]),
    ("one of others says nothing of them",
         Known(HALF, [on("a", has="1 cpu=4"), B], [STRANGER], of("a", "b", "stranger")),
         OBSERVED, True, [8, 2]),
    ("one with more to give does not see what init containers keep",
         Known(TWO, [on("a", "init cpu=4 mem=1Gi | cpu=1 mem=1Gi", has="0 cpu=4")], told=of("a")),
         OBSERVED, True, [4, 8]),
    ("nor does one that is built on",
         Known(HALF, [on("x", "init cpu=4 mem=1Gi | cpu=1 mem=1Gi"), STRANGER], told=of("x", "stranger")),
         ANCHORED, False, [0, 4]),
    ("nor one that lags", Known(HALF, [on("x", "init cpu=4 mem=1Gi | cpu=1 mem=1Gi"), STRANGER]),
         REPORTED, False, [0, 4]),
    ("what init containers kept is not given back, for it was never taken off",
         Known(HALF, [STRANGER], [on("a", "init cpu=4 mem=1Gi | cpu=1 mem=1Gi", has="0 cpu=4")],
               of("stranger", "a")),
         ANCHORED, False, [4, 8]),
]  # fmt: skip


@pytest.mark.parametrize(("known", "basis", "sure", "free"), table(BASES))
def test_what_is_free_rests_on_the_best_that_is_known(
    known: Known,
    basis: Basis,
    sure: bool,  # noqa: FBT001  a column of the table
    free: list[int],
) -> None:
    found = stands(known.account)

    assert (found.basis, found.exact, free_of(found.node, "cpu")) == (basis, sure, free)


MOMENTS = [row[1].account for row in BASES]


@pytest.mark.parametrize("account", [*MOMENTS, *(replace(each, complete=False) for each in MOMENTS)])
def test_it_is_no_matter_what_was_known_before(account: NodeInfo) -> None:
    others = [
        replace(
            account,
            assigned_pods=tuple(replace(each, demand=SHARES.demand) for each in account.assigned_pods),
        ),
        replace(
            account, assigned_pods=tuple(replace(each, record=B.record) for each in account.assigned_pods)
        ),
        replace(account, node=node("cpu=9", "cpu=9", policy="single-numa-node")),
        replace(account, fingerprint=None),
    ]
    earlier = [(each, stands(each)) for each in [*MOMENTS, *others]]

    found = [free_capacity(account, now=NOW, lag=LAG, before=each) for each in earlier]
    assert found == [stands(account)] * len(earlier)


def test_of_pods_that_come_to_another_stage_nothing_is_counted_anew() -> None:
    account = Known(FULL, [A, B]).account
    before = account, stands(account)
    bound = replace(account, assigned_pods=(A, replace(B, stage=Stage.BOUND)))

    found = free_capacity(bound, now=NOW, lag=LAG, before=before)
    assert found.node is before[1].node
    assert found == stands(bound)


def test_a_file_that_tells_of_no_pods_leaves_the_topology_as_the_only_word() -> None:
    told_of_none = replace(Known(FULL, [STRANGER]).account, complete=False)

    assert free_of(stands(told_of_none).node, "cpu") == [0, 0]


def test_managers_that_are_off_give_nothing_out() -> None:
    told = replace(TWO, cpu_manager=CpuManager.NONE)

    assert not holds(told, asks("cpu=4 mem=1Gi"))
    assert stands(NodeInfo(told, (STRANGER,))).basis is Basis.OBSERVED


EXCLUSIVE = [
    # what it shows               pod                                   counts
    ("CPUs of its own",            "cpu=2 mem=1Gi",                      True),
    ("memory of its own",          "cpu=500m mem=1Gi",                   True),
    ("a device of the node",       "cpu=1.. gpu=1",                      True),
    ("a device of other nodes",    "cpu=1.. nic=1",                      False),
    ("nothing of its own",         "cpu=2.. mem=1Gi..",                  False),
    ("only before its start",      "init gpu=1 | cpu=1..",               False),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "counts"), table(EXCLUSIVE))
def test_exporters_count_pods_by_what_their_running_containers_have(containers: str, *, counts: bool) -> None:
    assert exclusive(node("cpu=8 gpu=1"), asks(*containers.split("|"))) is counts


# Memory over several zones.

WIDE = node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy="restricted")
BLOCK = on("block", "cpu=1 mem=12Gi", has="0 cpu=1; 0,1 mem=12Gi")


def test_a_block_over_two_zones_is_drawn_from_the_first_and_makes_them_a_group() -> None:
    found = stands(NodeInfo(WIDE, (BLOCK,)))

    assert free_of(found.node, "mem") == [0, 4, 8]
    assert [set(zone.cells) for zone in found.node.zones] == [{0, 1}, {0, 1}, set()]


def test_no_topology_tells_of_groups_but_records_do() -> None:
    published = node(
        "cpu=8//7 mem=8Gi//0", "cpu=8 mem=8Gi//4Gi", "cpu=8//4 mem=8Gi//7Gi", policy="restricted"
    )
    account = NodeInfo(published, (BLOCK, STRANGER), fingerprint=of("block", "stranger"))
    found = stands(account)

    assert found.basis is Basis.ANCHORED
    assert [set(zone.cells) for zone in found.node.zones] == [{0, 1}, {0, 1}, {2}]
    # Zone 1 serves nobody alone, and zone 2, where the stranger may have memory, nobody beside others.
    assert offered(account, "cpu=6 mem=4Gi").verdict.refusal
    assert offered(account, "cpu=2 mem=1Gi").held == held("2 cpu=2 mem=1Gi")


def test_of_a_pod_that_may_hold_a_group_it_is_not_known_which_zones_serve_others() -> None:
    published = node("cpu=8 mem=8Gi//0", "cpu=8 mem=8Gi//4Gi", "cpu=8 mem=8Gi", policy="restricted")
    somewhere = on("somewhere", "cpu=1 mem=12Gi")
    strict = NodeInfo(published, (somewhere,), fingerprint=of("somewhere"))
    lenient = replace(strict, node=replace(published, policy=Policy.BEST_EFFORT))

    assert free_of(stands(strict).node, "mem") == [0, 0, 0]
    # Whoever is content with a whole group gets something of it.
    assert free_of(stands(lenient).node, "mem") == [0, 4, 8]
    assert not stands(lenient).exact


# Pods on their way.

PAIR = node("cpu=4", "cpu=4", policy="single-numa-node")


def coming(uid: str, has: str, *, created: int = 10, cpu: int = 4, turn: int = 1) -> AssignedPod:
    """A pod that its kubelet has not taken yet."""
    return on(uid, f"cpu={cpu} mem=1Gi", has=has, stage=Stage.BOUND, created=created, turn=turn)


ORDERS = [
    # what it shows, pods on their way
    #     the pod, those that it waits for
    ("created before: it is taken before", [coming("a", "0 cpu=4", created=9)],
         "cpu=4", ""),
    ("created after: it may be taken after", [coming("a", "0 cpu=3", cpu=3, created=11)],
         "cpu=4", "a"),
    ("created in the same second", [coming("a", "0 cpu=3", cpu=3)],
         "cpu=4", "a"),
    ("the very same once more", [coming("a", "0 cpu=4")],
         "cpu=4", "a"),
    ("both come to the same zones in any order", [coming("a", "0 cpu=2", cpu=2)],
         "cpu=1", ""),
    ("some before and some after",
         [coming("a", "0 cpu=3", cpu=3, created=9), coming("b", "0 cpu=1", cpu=1, created=11)],
         "cpu=1", "b"),
    ("three that do not mind", [coming(uid, "0 cpu=1", cpu=1) for uid in "abc"],
         "cpu=1", ""),
    ("more than can be tried", [coming(uid, "0 cpu=1", cpu=1) for uid in "abcd"],
         "cpu=2", "a b c d"),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "containers", "waits"), table(ORDERS))
def test_a_pod_waits_for_those_that_may_be_taken_after_it(
    pods: Sequence[AssignedPod], containers: str, waits: str
) -> None:
    wide = replace(PAIR, zones=TWO.zones) if len(pods) > 2 else PAIR
    found = offered(NodeInfo(wide, tuple(pods)), f"{containers} mem=1Gi")

    assert found.verdict.admitted
    assert [each.uid for each in found.waits_for] == waits.split()
    assert found.reservable is not bool(waits)


def test_nobody_waits_who_gets_nothing_of_its_own() -> None:
    assert offered(NodeInfo(PAIR, (coming("a", "0 cpu=3", cpu=3),)), "cpu=4..").reservable


def test_a_pod_waits_where_it_is_not_known_what_others_hold() -> None:
    beside = (STRANGER, replace(coming("a", "", cpu=1), record=None, guess=held("0 cpu=1")))

    assert [each.uid for each in offered(NodeInfo(TWO, beside), "cpu=1 mem=1Gi").waits_for] == ["a"]


def test_nobody_waits_for_a_pod_that_somebody_else_sent() -> None:
    """What it may hold counts in full on every zone, so whichever is first, there is room."""
    unsent = replace(STRANGER, stage=Stage.BOUND, created=11)
    found = offered(NodeInfo(TWO, (unsent,)), "cpu=4 mem=1Gi")

    assert found.reservable
    assert not offered(NodeInfo(TWO, (unsent,)), "cpu=5 mem=1Gi").verdict.admitted


def test_an_offer_says_what_the_pod_would_hold() -> None:
    account = NodeInfo(TWO, (on("a", "cpu=6 mem=1Gi", has="0 cpu=6"),))
    found = offered(account, "cpu=4 mem=1Gi")

    assert (found.held, found.basis) == (held("1 cpu=4"), Basis.OBSERVED)
    assert found.record == PlacementRecord(held("1 cpu=4"), Source.PREDICTED)
    assert free_of(found.node, "cpu") == [2, 8]


def test_what_does_not_rest_on_certainty_is_not_recorded() -> None:
    found = offered(NodeInfo(HALF, (STRANGER,)), "cpu=4 mem=1Gi")

    assert found.reservable
    assert (found.held, found.record) == (held("0 cpu=4"), None)


def test_what_the_kubelet_chooses_at_random_is_not_recorded() -> None:
    pools = node("cpu=8 gpu=1", "cpu=8 gpu=1", policy="none")

    assert offered(NodeInfo(pools), "cpu=1.. gpu=2").record
    assert offered(NodeInfo(pools), "cpu=1.. gpu=1").record is None


def test_a_node_refuses_now_or_for_ever() -> None:
    taken = NodeInfo(PAIR, (on("a", has="0 cpu=4"), on("b", has="1 cpu=4")))
    now, ever = (offered(taken, f"cpu={cpus} mem=1Gi") for cpus in (2, 5))

    assert not now.reservable
    assert (now.verdict.permanent, ever.verdict.permanent) == (False, True)
    assert (now.held, now.record) == (None, None)


def test_the_intent_of_a_pod_counts_beside_the_policy_of_the_node() -> None:
    spread = NodeInfo(replace(PAIR, policy=Policy.BEST_EFFORT), (on("a", "cpu=2 mem=1Gi", has="0 cpu=2"),))
    wanted = asks("cpu=6 mem=1Gi")

    assert predict(spread, wanted, now=NOW, lag=LAG).reservable
    assert not predict(spread, wanted, means("single-numa-node cpu"), now=NOW, lag=LAG).verdict.admitted


# Pods that leave.


def test_a_pod_comes_elsewhere_if_a_leaving_one_is_gone_by_then() -> None:
    leaves = replace(A, terminating=True)
    found = offered(NodeInfo(PAIR, (leaves,)), "cpu=4 mem=1Gi")

    assert (found.verdict.admitted, found.reservable) == (True, False)
    assert [each.uid for each in found.terminating] == ["a"]
    assert (found.held, found.record) == (held("1 cpu=4"), None)


def test_a_leaving_pod_is_no_matter_to_who_comes_to_the_same_zones_anyway() -> None:
    leaves = on("a", has="1 cpu=4", terminating=True)

    assert offered(NodeInfo(PAIR, (leaves,)), "cpu=4 mem=1Gi").record


def test_an_account_without_a_pod_is_as_if_it_had_never_come() -> None:
    account = NodeInfo(TWO, (A, B))

    assert account.without(["a"]) == NodeInfo(TWO, (B,))
    assert account.after(["a", "nobody"]) == NodeInfo(TWO, (B,), (A,))


LATE = on("late", has="1 cpu=4", since=NOW - 5, turn=2)
LEAVER = on("leaver", has="0 cpu=4")

DOUBTS = [
    # what it shows, pods beside the leaver
    #     doubted
    ("it may have found the room", [LATE], "late"),
    ("though it is still on its way", [replace(LATE, stage=Stage.BOUND)], "late"),
    ("or only promised", [replace(LATE, stage=Stage.RESERVED)], "late"),
    ("it was taken long before", [replace(LATE, since=NOW - 11)], ""),
    ("it was seen what it holds", [on("late", has="1 cpu=4", source=Source.OBSERVED, since=NOW - 5)], ""),
    ("nothing was believed of it anyway", [replace(LATE, record=None)], ""),
    ("it holds nothing of its own", [on("late", "cpu=4..", has="", since=NOW - 5)], ""),
    ("who came after one that is doubted is doubted too",
         [replace(LATE, created=1),
          on("next", "cpu=1 mem=1Gi", has="2 cpu=1", since=NOW - 4, turn=3, created=2)],
         "late next"),
    ("who came before it is not",
         [on("first", "cpu=4 mem=1Gi gpu=1", has="1 cpu=4 gpu=1", since=NOW - 6, turn=1),
          on("late", "cpu=4 mem=1Gi", has="2 cpu=4", since=NOW - 5, turn=2, created=1)],
         "late"),
    ("in whatever order they may have come",
         [on("late", "cpu=4 mem=1Gi", has="2 cpu=4", since=NOW - 5, turn=2),
          on("first", "cpu=4 mem=1Gi gpu=1", has="1 cpu=4 gpu=1", since=NOW - 6, turn=1)],
         "first late"),
    ("beside one of which nobody knows what it holds", [STRANGER, LATE], "late"),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "uids"), table(DOUBTS))
def test_when_a_pod_leaves_it_is_doubted_where_those_are_that_came_last(
    pods: Sequence[AssignedPod], uids: str
) -> None:
    three = node("cpu=4", "cpu=4 gpu=1", "cpu=4", policy="single-numa-node")
    account = NodeInfo(three, (LEAVER, *pods))

    assert doubted(account, "leaver", now=NOW, within=10.0) == tuple(uids.split())


ADRIFT = replace(on("adrift", "cpu=1 mem=1Gi", has="0 cpu=1", stage=Stage.RESERVED, turn=1), unconfirmed=True)
BESIDE = on("late", has="1 cpu=4", since=NOW - 5, turn=2, created=1)


@pytest.mark.parametrize(
    ("adrift", "uids"),
    [
        (replace(ADRIFT, unconfirmed=False), ""),
        (ADRIFT, "adrift late"),
        (replace(ADRIFT, stage=Stage.BOUND), "adrift late"),
    ],
)
def test_whoever_is_adrift_may_not_have_kept_others_from_the_room_of_a_leaver(
    adrift: AssignedPod, uids: str
) -> None:
    """It may come after them, or never."""
    gone = on("leaver", "cpu=1 mem=1Gi", has="0 cpu=1")
    account = NodeInfo(node("cpu=4", "cpu=4", policy="single-numa-node"), (gone, adrift, BESIDE))

    assert doubted(account, "leaver", now=NOW, within=10.0) == tuple(uids.split())


def test_one_that_is_adrift_is_no_matter_to_who_comes_to_the_same_zones_anyway() -> None:
    gone, before = on("leaver", "cpu=1 mem=1Gi", has="0 cpu=1"), on("before", has="0 cpu=4")
    account = NodeInfo(
        node("cpu=8", "cpu=4", policy="single-numa-node"),
        (gone, before, ADRIFT, on("late", "cpu=2 mem=1Gi", has="0 cpu=2", since=NOW - 5, turn=2, created=1)),
    )

    assert doubted(account, "leaver", now=NOW, within=10.0) == ()


def test_a_leaver_whose_room_helps_nobody_leaves_no_doubt() -> None:
    behind = on("leaver", has="1 cpu=4")
    account = NodeInfo(PAIR, (behind, on("late", has="0 cpu=4", since=NOW - 5)))

    assert doubted(account, "leaver", now=NOW, within=10.0) == ()


@pytest.mark.parametrize("leaver", [on("leaver", "cpu=4..", has=""), on("other", has="0 cpu=4")])
def test_nobody_doubts_for_a_leaver_that_held_nothing_here(leaver: AssignedPod) -> None:
    assert doubted(NodeInfo(PAIR, (leaver, LATE)), "leaver", now=NOW, within=10.0) == ()


# What nobody has heard of yet.

UNEVEN = node("cpu=4 gpu=1", "cpu=3", "cpu=3 gpu=1", policy="single-numa-node")
HOLDER = on("holder", "cpu=1.. mem=1Gi.. gpu=1", has="0 gpu=1")
ON_ITS_WAY = on("early", "cpu=1 mem=1Gi gpu=1", has="2 cpu=1 gpu=1", stage=Stage.BOUND, created=1, turn=1)


def risked(account: NodeInfo, containers: str, *, now: float = NOW) -> list[str]:
    return [each.uid for each in at_risk(account, asks(containers), now=now, within=2.0)]


def test_a_pod_waits_where_an_end_that_nobody_has_heard_of_would_have_it_refused() -> None:
    account = NodeInfo(UNEVEN, (HOLDER, ON_ITS_WAY))
    assert offered(account, "cpu=4 mem=1Gi").reservable
    assert risked(account, "cpu=4 mem=1Gi") == ["early"]


def test_what_fits_whoever_has_left_by_now_does_not_wait() -> None:
    assert risked(NodeInfo(UNEVEN, (HOLDER, ON_ITS_WAY)), "cpu=3 mem=1Gi") == []


def test_a_pod_with_nothing_of_its_own_is_never_at_risk() -> None:
    assert risked(NodeInfo(UNEVEN, (HOLDER, ON_ITS_WAY)), "cpu=4.. mem=1Gi..") == []


def test_the_risk_is_over_once_the_news_would_have_come() -> None:
    late = replace(ON_ITS_WAY, stage=Stage.ADMITTED, since=NOW - 1.0)
    account = NodeInfo(UNEVEN, (HOLDER, late))
    assert (risked(account, "cpu=4 mem=1Gi"), risked(account, "cpu=4 mem=1Gi", now=NOW + 1.1)) == (
        ["early"],
        [],
    )


def test_where_exporters_saw_what_a_pod_holds_there_is_no_risk() -> None:
    seen = on("early", "cpu=1 mem=1Gi gpu=1", has="2 cpu=1 gpu=1", source=Source.OBSERVED, since=JUST_NOW)
    assert risked(NodeInfo(UNEVEN, (HOLDER, seen)), "cpu=4 mem=1Gi") == []


# What takes too long to try is taken for not known.

SIXTEEN = node(*["cpu=400 mem=64Gi"] * 16, policy="restricted", max_zones=16)
CROWD = " | ".join(["cpu=1 mem=1Mi"] * 100)


def on_its_way(uid: str, containers: str, has: str) -> AssignedPod:
    return on(uid, containers, has=has, stage=Stage.BOUND, created=1, turn=1)


@pytest.mark.parametrize(("beside", "waits"), [(1, []), (25, ["crowd"])])
def test_the_more_pods_may_have_left_the_sooner_a_large_one_waits(beside: int, waits: list[str]) -> None:
    asked = [f"cpu=1 mem={1 + at}Mi" for at in range(beside)]
    holders = [on(f"h{at}", asks_for, has=f"2 {asks_for}") for at, asks_for in enumerate(asked)]
    crowd = on_its_way("crowd", CROWD, "0 cpu=100 mem=100Mi")

    assert risked(NodeInfo(SIXTEEN, (*holders, crowd)), CROWD) == waits


def test_of_pods_that_would_leave_the_same_behind_one_is_tried() -> None:
    holders = [on(f"h{at}", "cpu=1 mem=1Mi", has="2 cpu=1 mem=1Mi") for at in range(25)]
    crowd = on_its_way("crowd", CROWD, "0 cpu=100 mem=100Mi")

    assert risked(NodeInfo(SIXTEEN, (*holders, crowd)), CROWD) == []
    # Which of them a fingerprint stands for matters, so each is another.
    told = NodeInfo(SIXTEEN, (*holders, crowd), fingerprint=lambda _node, _sure, _perhaps: None)
    assert risked(told, CROWD) == ["crowd"]


def test_pods_alike_that_hold_other_zones_are_tried_each() -> None:
    three = node("cpu=4 gpu=1", "cpu=3 gpu=1", "cpu=3 gpu=1", policy="single-numa-node")
    harmless = on("harmless", "cpu=1.. mem=1Gi.. gpu=1", has="1 gpu=1")

    assert risked(NodeInfo(three, (harmless, HOLDER, ON_ITS_WAY)), "cpu=4 mem=1Gi") == ["early"]


TRIED = [
    # what it shows                  the pods                     what each is promised   for whom it waits
    ("small ones come to the same",  "cpu=1 mem=1Mi",             "0 cpu=1 mem=1Mi",      0),
    ("of large ones nobody tries",   CROWD,                       "0 cpu=100 mem=100Mi",  3),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "has", "waits"), table(TRIED))
def test_every_order_is_tried_unless_that_takes_too_long(containers: str, has: str, waits: int) -> None:
    pods = tuple(on_its_way(uid, containers, has) for uid in ("one", "other", "third"))

    assert len(offered(NodeInfo(SIXTEEN, pods), containers, created=1).waits_for) == waits
