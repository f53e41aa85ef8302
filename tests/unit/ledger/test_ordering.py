"""Whom a pod waits for, who is doubted when another leaves, and who may be refused for unheard news."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from numalign.decision.verdict import Cause
from numalign.ledger.model import AssignedPod, Basis, NodeInfo, PlacementRecord, Source, Stage
from numalign.ledger.ordering import at_risk, doubted, predict
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node
from tests.unit.ledger.conftest import HALF, JUST_NOW, LAG, NOW, STRANGER, TWO, held, on, predicted
from tests.worlds.notation import asks, free_of, means, node, table

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
    found = predicted(NodeInfo(wide, tuple(pods)), f"{containers} mem=1Gi")

    assert found.verdict.admitted
    assert [each.uid for each in found.waits_for] == waits.split()
    assert found.reservable is not bool(waits)


def test_pod_without_exclusive_resources_never_waits() -> None:
    assert predicted(NodeInfo(PAIR, (coming("a", "0 cpu=3", cpu=3),)), "cpu=4..").reservable


def test_a_pod_waits_where_it_is_not_known_what_others_hold() -> None:
    beside = (STRANGER, replace(coming("a", "", cpu=1), record=None, guess=held("0 cpu=1")))

    assert [each.uid for each in predicted(NodeInfo(TWO, beside), "cpu=1 mem=1Gi").waits_for] == ["a"]


def test_pod_of_another_scheduler_is_not_waited_for() -> None:
    """What it may hold counts in full on every zone, so whichever is first, there is room."""
    unsent = replace(STRANGER, stage=Stage.BOUND, created=11)
    found = predicted(NodeInfo(TWO, (unsent,)), "cpu=4 mem=1Gi")

    assert found.reservable
    assert not predicted(NodeInfo(TWO, (unsent,)), "cpu=5 mem=1Gi").verdict.admitted


def test_offer_has_what_the_pod_would_hold() -> None:
    account = NodeInfo(TWO, (on("a", "cpu=6 mem=1Gi", has="0 cpu=6"),))
    found = predicted(account, "cpu=4 mem=1Gi")

    assert (found.held, found.basis) == (held("1 cpu=4"), Basis.OBSERVED)
    assert found.record == PlacementRecord(held("1 cpu=4"), Source.PREDICTED)
    assert free_of(found.node, "cpu") == [2, 8]


def test_what_does_not_rest_on_certainty_is_not_recorded() -> None:
    found = predicted(NodeInfo(HALF, (STRANGER,)), "cpu=4 mem=1Gi")

    assert found.reservable
    assert (found.held, found.record) == (held("0 cpu=4"), None)


def test_what_the_kubelet_chooses_at_random_is_not_recorded() -> None:
    pools = node("cpu=8 gpu=1", "cpu=8 gpu=1", policy="none")

    assert predicted(NodeInfo(pools), "cpu=1.. gpu=2").record
    assert predicted(NodeInfo(pools), "cpu=1.. gpu=1").record is None


def test_a_node_refuses_now_or_for_ever() -> None:
    taken = NodeInfo(PAIR, (on("a", has="0 cpu=4"), on("b", has="1 cpu=4")))
    now, ever = (predicted(taken, f"cpu={cpus} mem=1Gi") for cpus in (2, 5))

    assert not now.reservable
    assert (now.verdict.permanent, ever.verdict.permanent) == (False, True)
    assert (now.held, now.record) == (None, None)


def test_intent_counts_beside_the_node_policy() -> None:
    spread = NodeInfo(replace(PAIR, policy=Policy.BEST_EFFORT), (on("a", "cpu=2 mem=1Gi", has="0 cpu=2"),))
    wanted = asks("cpu=6 mem=1Gi")

    assert predict(spread, wanted, now=NOW, lag=LAG).reservable
    assert not predict(spread, wanted, means("single-numa-node cpu"), now=NOW, lag=LAG).verdict.admitted


# Pods that leave.


def test_placement_changes_if_a_leaving_pod_is_gone() -> None:
    leaves = on("a", has="0 cpu=4", terminating=True)
    found = predicted(NodeInfo(PAIR, (leaves,)), "cpu=4 mem=1Gi")

    assert (found.verdict.admitted, found.reservable) == (True, False)
    assert [each.uid for each in found.terminating] == ["a"]
    assert (found.held, found.record) == (held("1 cpu=4"), None)


def test_leaving_pod_is_ignored_if_zones_stay_the_same() -> None:
    leaves = on("a", has="1 cpu=4", terminating=True)

    assert predicted(NodeInfo(PAIR, (leaves,)), "cpu=4 mem=1Gi").record


def test_account_without_a_pod_equals_one_never_seen() -> None:
    a, b = on("a"), on("b")
    info = NodeInfo(TWO, (a, b))

    assert info.without(["a"]) == NodeInfo(TWO, (b,))
    assert info.after(["a", "nobody"]) == NodeInfo(TWO, (b,), (a,))


LATE = on("late", has="1 cpu=4", since=NOW - 5, turn=2)
LEAVER = on("leaver", has="0 cpu=4")

UNCONFIRMED = replace(
    on("unconfirmed", "cpu=1 mem=1Gi", has="0 cpu=1", stage=Stage.RESERVED, turn=1), unconfirmed=True
)
BESIDE = on("late", has="1 cpu=4", since=NOW - 5, turn=2, created=1)
SMALL_LEAVER = on("leaver", "cpu=1 mem=1Gi", has="0 cpu=1")
THREE = node("cpu=4", "cpu=4 gpu=1", "cpu=4", policy="single-numa-node")

DOUBTS = [
    # what it shows, the node, the pods on it
    #     doubted once the leaver is gone
    ("it may have found the room", THREE, [LEAVER, LATE], "late"),
    ("though it is still on its way", THREE, [LEAVER, replace(LATE, stage=Stage.BOUND)], "late"),
    ("or only reserved", THREE, [LEAVER, replace(LATE, stage=Stage.RESERVED)], "late"),
    ("it was taken long before", THREE, [LEAVER, replace(LATE, since=NOW - 11)], ""),
    ("it was seen what it holds", THREE,
         [LEAVER, on("late", has="1 cpu=4", source=Source.OBSERVED, since=NOW - 5)], ""),
    ("nothing was believed of it anyway", THREE, [LEAVER, replace(LATE, record=None)], ""),
    ("it holds nothing of its own", THREE, [LEAVER, on("late", "cpu=4..", has="", since=NOW - 5)], ""),
    ("who came after one that is doubted is doubted too", THREE,
         [LEAVER, replace(LATE, created=1),
          on("next", "cpu=1 mem=1Gi", has="2 cpu=1", since=NOW - 4, turn=3, created=2)],
         "late next"),
    ("who came before it is not", THREE,
         [LEAVER, on("first", "cpu=4 mem=1Gi gpu=1", has="1 cpu=4 gpu=1", since=NOW - 6, turn=1),
          on("late", "cpu=4 mem=1Gi", has="2 cpu=4", since=NOW - 5, turn=2, created=1)],
         "late"),
    ("in whatever order they may have come", THREE,
         [LEAVER, on("late", "cpu=4 mem=1Gi", has="2 cpu=4", since=NOW - 5, turn=2),
          on("first", "cpu=4 mem=1Gi gpu=1", has="1 cpu=4 gpu=1", since=NOW - 6, turn=1)],
         "first late"),
    ("beside one of which nobody knows what it holds", THREE, [LEAVER, STRANGER, LATE], "late"),
    ("one before it kept it from the room", PAIR,
         [SMALL_LEAVER, replace(UNCONFIRMED, unconfirmed=False), BESIDE], ""),
    ("one that is not confirmed may come after it, or never", PAIR,
         [SMALL_LEAVER, UNCONFIRMED, BESIDE], "unconfirmed late"),
    ("even if it is bound by now", PAIR,
         [SMALL_LEAVER, replace(UNCONFIRMED, stage=Stage.BOUND), BESIDE], "unconfirmed late"),
    ("which is no matter to who comes to the same zones anyway",
         node("cpu=8", "cpu=4", policy="single-numa-node"),
         [SMALL_LEAVER, on("before", has="0 cpu=4"), UNCONFIRMED,
          on("late", "cpu=2 mem=1Gi", has="0 cpu=2", since=NOW - 5, turn=2, created=1)], ""),
    ("the room helps nobody", PAIR,
         [on("leaver", has="1 cpu=4"), on("late", has="0 cpu=4", since=NOW - 5)], ""),
    ("the leaver held nothing of its own", PAIR, [on("leaver", "cpu=4..", has=""), LATE], ""),
    ("the leaver was not here", PAIR, [on("other", has="0 cpu=4"), LATE], ""),
]  # fmt: skip


@pytest.mark.parametrize(("where", "pods", "uids"), table(DOUBTS))
def test_leaving_pod_makes_the_last_arrivals_uncertain(
    where: Node, pods: Sequence[AssignedPod], uids: str
) -> None:
    info = NodeInfo(where, tuple(pods))

    assert doubted(info, "leaver", now=NOW, within=10.0) == tuple(uids.split())


# What nobody has heard of yet.

UNEVEN = node("cpu=4 gpu=1", "cpu=3", "cpu=3 gpu=1", policy="single-numa-node")
HOLDER = on("holder", "cpu=1.. mem=1Gi.. gpu=1", has="0 gpu=1")
ON_ITS_WAY = on("early", "cpu=1 mem=1Gi gpu=1", has="2 cpu=1 gpu=1", stage=Stage.BOUND, created=1, turn=1)


def risked(info: NodeInfo, containers: str) -> list[str]:
    return [pod.uid for pod in at_risk(info, asks(containers), now=NOW, within=2.0)]


RISKS = [
    # what it shows, the pods on the node, the pod
    #     whom it waits for
    ("an end that nobody has heard of would have it refused", (HOLDER, ON_ITS_WAY), "cpu=4 mem=1Gi",
         ["early"]),
    ("whoever has left by now, it fits", (HOLDER, ON_ITS_WAY), "cpu=3 mem=1Gi", []),
    ("it gets nothing of its own", (HOLDER, ON_ITS_WAY), "cpu=4.. mem=1Gi..", []),
    ("the news may still come", (HOLDER, replace(ON_ITS_WAY, stage=Stage.ADMITTED, since=NOW - 1.0)),
         "cpu=4 mem=1Gi", ["early"]),
    ("the news would have come", (HOLDER, replace(ON_ITS_WAY, stage=Stage.ADMITTED, since=NOW - 2.1)),
         "cpu=4 mem=1Gi", []),
    ("exporters saw what the other holds",
         (HOLDER,
          on("early", "cpu=1 mem=1Gi gpu=1", has="2 cpu=1 gpu=1", source=Source.OBSERVED, since=JUST_NOW)),
         "cpu=4 mem=1Gi", []),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "containers", "waits"), table(RISKS))
def test_pod_waits_if_an_unseen_pod_would_have_it_rejected(
    pods: tuple[AssignedPod, ...], containers: str, waits: list[str]
) -> None:
    info = NodeInfo(UNEVEN, pods)

    assert predicted(info, containers).reservable
    assert risked(info, containers) == waits


def test_pods_alike_that_hold_other_zones_are_tried_each() -> None:
    three = node("cpu=4 gpu=1", "cpu=3 gpu=1", "cpu=3 gpu=1", policy="single-numa-node")
    harmless = on("harmless", "cpu=1.. mem=1Gi.. gpu=1", has="1 gpu=1")

    assert risked(NodeInfo(three, (harmless, HOLDER, ON_ITS_WAY)), "cpu=4 mem=1Gi") == ["early"]


# Pods that are to be alone.

WANTS_NOBODY, MINDS_NOBODY = means("single-numa-node", exclusive=True), means("single-numa-node")
MANY_LEAVERS = tuple(
    on(f"leaver-{at}", "cpu=1 mem=1Gi", has=f"{at // 2} cpu=1", terminating=True) for at in range(4)
)
TERMINATING = on("leaver", "cpu=2 mem=1Gi", has="0 cpu=2", terminating=True)
SHARING = replace(on("sharing", "cpu=2 mem=1Gi", has="0 cpu=2"), intent=MINDS_NOBODY)
KEEPING = replace(on("keeping", "cpu=1 mem=1Gi", has="0 cpu=1"), intent=WANTS_NOBODY)

BY_THEN = [
    # what it shows, the pods on the node, the pod
    #     why not
    ("whoever is gone, it is alone", (TERMINATING,), "cpu=4 mem=1Gi", WANTS_NOBODY,
         None),
    ("once one has left it would come beside another", (TERMINATING, SHARING), "cpu=2 mem=1Gi", WANTS_NOBODY,
         Cause.NOT_ALONE),
    ("so it would, and does not mind", (TERMINATING, SHARING), "cpu=2 mem=1Gi", MINDS_NOBODY,
         None),
    ("once one has left it would come to one that is to be alone", (TERMINATING, KEEPING),
         "cpu=2 mem=1Gi", MINDS_NOBODY,
         Cause.NOT_SHARED),
    ("so it would, and nobody asks anything of it", (TERMINATING, KEEPING), "cpu=2 mem=1Gi", means("none"),
         None),
    ("too many leave to try: nobody can say that it is alone", (*MANY_LEAVERS, SHARING), "cpu=2 mem=1Gi",
         WANTS_NOBODY,
         Cause.NOT_ALONE),
    ("too many leave to try: of one that need not be nothing is known", (*MANY_LEAVERS, KEEPING),
         "cpu=2 mem=1Gi", MINDS_NOBODY,
         None),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "containers", "intent", "why"), table(BY_THEN))
def test_zones_after_departures_count(
    pods: tuple[AssignedPod, ...], containers: str, intent: Intent, why: Cause | None
) -> None:
    verdict = predict(NodeInfo(PAIR, pods), asks(containers), intent, now=NOW, lag=LAG).verdict

    assert (verdict.refusal and verdict.refusal.cause) == why
    assert not verdict.permanent


def test_exclusive_pod_waits_for_reports_of_others() -> None:
    """If the holder had ended, the early one would sit where nobody expects it."""
    elsewhere = on("early", "cpu=3 mem=1Gi", has="1 cpu=3", stage=Stage.BOUND, created=1, turn=1)
    holder = on("holder", "cpu=4 mem=1Gi", has="0 cpu=4")
    info = NodeInfo(THREE, (holder, elsewhere))
    waits = {
        intent.exclusive: [pod.uid for pod in at_risk(info, asks("cpu=1 mem=1Gi"), intent, now=NOW, within=2)]
        for intent in (WANTS_NOBODY, MINDS_NOBODY)
    }

    assert waits == {True: ["early"], False: []}


# What takes too long to try is taken for not known.

SIXTEEN = node(*["cpu=400 mem=64Gi"] * 16, policy="restricted", max_zones=16)
CROWD = " | ".join(["cpu=1 mem=1Mi"] * 100)


def on_its_way(uid: str, containers: str, has: str) -> AssignedPod:
    return on(uid, containers, has=has, stage=Stage.BOUND, created=1, turn=1)


@pytest.mark.parametrize(("beside", "waits"), [(1, []), (25, ["crowd"])])
def test_more_possible_departures_make_large_pods_wait(beside: int, waits: list[str]) -> None:
    asked = [f"cpu=1 mem={1 + at}Mi" for at in range(beside)]
    holders = [on(f"h{at}", asks_for, has=f"2 {asks_for}") for at, asks_for in enumerate(asked)]
    crowd = on_its_way("crowd", CROWD, "0 cpu=100 mem=100Mi")

    assert risked(NodeInfo(SIXTEEN, (*holders, crowd)), CROWD) == waits


def test_equal_departures_are_tried_once() -> None:
    holders = [on(f"h{at}", "cpu=1 mem=1Mi", has="2 cpu=1 mem=1Mi") for at in range(25)]
    crowd = on_its_way("crowd", CROWD, "0 cpu=100 mem=100Mi")

    assert risked(NodeInfo(SIXTEEN, (*holders, crowd)), CROWD) == []
    # Which of them a fingerprint stands for matters, so each is another.
    told = NodeInfo(SIXTEEN, (*holders, crowd), fingerprint=lambda _node, _sure, _perhaps: None)
    assert risked(told, CROWD) == ["crowd"]


TRIED = [
    # what it shows                  the pods                     what each reserves      for whom it waits
    ("small ones come to the same",  "cpu=1 mem=1Mi",             "0 cpu=1 mem=1Mi",      0),
    ("of large ones nobody tries",   CROWD,                       "0 cpu=100 mem=100Mi",  3),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "has", "waits"), table(TRIED))
def test_every_order_is_tried_unless_that_takes_too_long(containers: str, has: str, waits: int) -> None:
    pods = tuple(on_its_way(uid, containers, has) for uid in ("one", "other", "third"))

    assert len(predicted(NodeInfo(SIXTEEN, pods), containers, created=1).waits_for) == waits
