"""Whom a pod waits for, who is doubtful when another leaves, and who may be rejected for late news."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from numalign.decision.evaluate import NO_INTENT
from numalign.decision.verdict import Cause
from numalign.ledger.model import AssignedPod, NodeInfo, Source, Stage
from numalign.ledger.ordering import at_risk, doubted, predict
from numalign.model.intent import Intent
from numalign.model.node import Node
from tests.unit.ledger.conftest import HALF, JUST_NOW, LAG, NOW, STRANGER, TWO, held, on, predicted
from tests.worlds.notation import asks, means, node, table

# Pods on their way.

PAIR = node("cpu=4", "cpu=4", policy="single-numa-node")


def coming(uid: str, has: str, *, created: int = 10, cpu: int = 4, turn: int = 1) -> AssignedPod:
    """A pod that its kubelet has not taken yet."""
    return on(uid, f"cpu={cpu} mem=1Gi", has=has, stage=Stage.BOUND, created=created, turn=turn)


ORDERS = [
    # what it shows, pods on their way
    #     the pod, those that it waits for
    ("created before", [coming("a", "0 cpu=4", created=9)], "cpu=4", ""),
    ("created after", [coming("a", "0 cpu=3", cpu=3, created=11)], "cpu=4", "a"),
    ("created in the same second", [coming("a", "0 cpu=3", cpu=3)], "cpu=4", "a"),
    ("the same zones in any order", [coming("a", "0 cpu=2", cpu=2)], "cpu=1", ""),
    ("some before and some after",
         [coming("a", "0 cpu=3", cpu=3, created=9), coming("b", "0 cpu=1", cpu=1, created=11)], "cpu=1", "b"),
    ("three in any order", [coming(uid, "0 cpu=1", cpu=1) for uid in "abc"], "cpu=1", ""),
    ("more than can be tried", [coming(uid, "0 cpu=1", cpu=1) for uid in "abcd"], "cpu=2", "a b c d"),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "containers", "waits"), table(ORDERS))
def test_pod_waits_for_those_that_may_be_admitted_later(
    pods: Sequence[AssignedPod], containers: str, waits: str
) -> None:
    wide = replace(PAIR, zones=TWO.zones) if len(pods) > 2 else PAIR
    prediction = predicted(NodeInfo(wide, tuple(pods)), f"{containers} mem=1Gi")
    assert prediction.verdict.admitted
    assert [each.uid for each in prediction.waits_for] == waits.split()
    assert prediction.reservable is not bool(waits)


def test_pod_without_exclusive_resources_never_waits() -> None:
    assert predicted(NodeInfo(PAIR, (coming("a", "0 cpu=3", cpu=3),)), "cpu=4..").reservable


def test_pod_waits_beside_pods_of_unknown_zones() -> None:
    others = (STRANGER, replace(coming("a", "", cpu=1), record=None, guess=held("0 cpu=1")))
    assert [each.uid for each in predicted(NodeInfo(TWO, others), "cpu=1 mem=1Gi").waits_for] == ["a"]


def test_pod_of_another_scheduler_is_not_waited_for() -> None:
    """What it may hold counts in full on every zone, so whichever is first, there is room."""
    unsent = replace(STRANGER, stage=Stage.BOUND, created=11)
    prediction = predicted(NodeInfo(TWO, (unsent,)), "cpu=4 mem=1Gi")
    assert prediction.reservable
    assert not predicted(NodeInfo(TWO, (unsent,)), "cpu=5 mem=1Gi").verdict.admitted


def test_uncertain_prediction_is_not_recorded() -> None:
    prediction = predicted(NodeInfo(HALF, (STRANGER,)), "cpu=4 mem=1Gi")
    assert prediction.reservable
    assert (prediction.held, prediction.record) == (held("0 cpu=4"), None)


def test_random_choice_of_the_kubelet_is_not_recorded() -> None:
    pools = node("cpu=8 gpu=1", "cpu=8 gpu=1", policy="none")
    assert predicted(NodeInfo(pools), "cpu=1.. gpu=2").record
    assert predicted(NodeInfo(pools), "cpu=1.. gpu=1").record is None


# Pods that leave.


def test_pod_waits_if_a_departure_changes_its_zones() -> None:
    leaves = on("a", has="0 cpu=4", terminating=True)
    prediction = predicted(NodeInfo(PAIR, (leaves,)), "cpu=4 mem=1Gi")
    assert (prediction.verdict.admitted, prediction.reservable) == (True, False)
    assert [each.uid for each in prediction.terminating] == ["a"]
    assert (prediction.held, prediction.record) == (held("1 cpu=4"), None)
    same = on("a", has="1 cpu=4", terminating=True)
    assert predicted(NodeInfo(PAIR, (same,)), "cpu=4 mem=1Gi").record


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
    ("it may use the room", THREE, [LEAVER, LATE], "late"),
    ("it is still on its way", THREE, [LEAVER, replace(LATE, stage=Stage.BOUND)], "late"),
    ("it was taken long before", THREE, [LEAVER, replace(LATE, since=NOW - 11)], ""),
    ("its zones were observed", THREE,
         [LEAVER, on("late", has="1 cpu=4", source=Source.OBSERVED, since=NOW - 5)], ""),
    ("it holds nothing of its own", THREE, [LEAVER, on("late", "cpu=4..", has="", since=NOW - 5)], ""),
    ("a pod after a doubtful one", THREE,
         [LEAVER, replace(LATE, created=1),
          on("next", "cpu=1 mem=1Gi", has="2 cpu=1", since=NOW - 4, turn=3, created=2)],
         "late next"),
    ("a pod before it", THREE,
         [LEAVER, on("first", "cpu=4 mem=1Gi gpu=1", has="1 cpu=4 gpu=1", since=NOW - 6, turn=1),
          on("late", "cpu=4 mem=1Gi", has="2 cpu=4", since=NOW - 5, turn=2, created=1)],
         "late"),
    ("in any order of arrival", THREE,
         [LEAVER, on("late", "cpu=4 mem=1Gi", has="2 cpu=4", since=NOW - 5, turn=2),
          on("first", "cpu=4 mem=1Gi gpu=1", has="1 cpu=4 gpu=1", since=NOW - 6, turn=1)],
         "first late"),
    ("beside a pod of unknown zones", THREE, [LEAVER, STRANGER, LATE], "late"),
    ("an earlier pod kept it from the room", PAIR,
         [SMALL_LEAVER, replace(UNCONFIRMED, unconfirmed=False), BESIDE], ""),
    ("an unconfirmed pod may come later, or never", PAIR,
         [SMALL_LEAVER, UNCONFIRMED, BESIDE], "unconfirmed late"),
    ("which changes no zones",
         node("cpu=8", "cpu=4", policy="single-numa-node"),
         [SMALL_LEAVER, on("before", has="0 cpu=4"), UNCONFIRMED,
          on("late", "cpu=2 mem=1Gi", has="0 cpu=2", since=NOW - 5, turn=2, created=1)], ""),
    ("the room is of no use", PAIR,
         [on("leaver", has="1 cpu=4"), on("late", has="0 cpu=4", since=NOW - 5)], ""),
    ("the leaver held nothing of its own", PAIR, [on("leaver", "cpu=4..", has=""), LATE], ""),
]  # fmt: skip


@pytest.mark.parametrize(("host", "pods", "uids"), table(DOUBTS))
def test_leaving_pod_makes_the_last_arrivals_uncertain(
    host: Node, pods: Sequence[AssignedPod], uids: str
) -> None:
    info = NodeInfo(host, tuple(pods))
    assert doubted(info, "leaver", now=NOW, within=10.0) == tuple(uids.split())


# News that is late.

UNEVEN = node("cpu=4 gpu=1", "cpu=3", "cpu=3 gpu=1", policy="single-numa-node")
HOLDER = on("holder", "cpu=1.. mem=1Gi.. gpu=1", has="0 gpu=1")
ON_ITS_WAY = on("early", "cpu=1 mem=1Gi gpu=1", has="2 cpu=1 gpu=1", stage=Stage.BOUND, created=1, turn=1)


def risked(info: NodeInfo, containers: str, intent: Intent = NO_INTENT) -> list[str]:
    return [pod.uid for pod in at_risk(info, asks(containers), intent, now=NOW, within=2.0)]


RISKS = [
    # what it shows, the pods on the node, the pod
    #     whom it waits for
    ("an end that is not known yet", (HOLDER, ON_ITS_WAY), "cpu=4 mem=1Gi", ["early"]),
    ("it fits after any departure", (HOLDER, ON_ITS_WAY), "cpu=3 mem=1Gi", []),
    ("it gets nothing of its own", (HOLDER, ON_ITS_WAY), "cpu=4.. mem=1Gi..", []),
    ("the news may still come", (HOLDER, replace(ON_ITS_WAY, stage=Stage.ADMITTED, since=NOW - 1.0)),
         "cpu=4 mem=1Gi", ["early"]),
    ("the news would have come", (HOLDER, replace(ON_ITS_WAY, stage=Stage.ADMITTED, since=NOW - 2.1)),
         "cpu=4 mem=1Gi", []),
    ("an exporter saw the other",
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


def test_exclusive_pod_waits_for_pods_of_uncertain_zones() -> None:
    assert risked(NodeInfo(UNEVEN, (HOLDER, ON_ITS_WAY)), "cpu=3 mem=1Gi", EXCLUSIVE) == ["early"]
    assert risked(NodeInfo(UNEVEN, (ON_ITS_WAY,)), "cpu=3 mem=1Gi", EXCLUSIVE) == []


def test_equal_pods_in_other_zones_are_tried_each() -> None:
    three = node("cpu=4 gpu=1", "cpu=3 gpu=1", "cpu=3 gpu=1", policy="single-numa-node")
    harmless = on("harmless", "cpu=1.. mem=1Gi.. gpu=1", has="1 gpu=1")
    assert risked(NodeInfo(three, (harmless, HOLDER, ON_ITS_WAY)), "cpu=4 mem=1Gi") == ["early"]


# Exclusive pods.

EXCLUSIVE, SHARED = means("single-numa-node", exclusive=True), means("single-numa-node")
MANY_LEAVERS = tuple(
    on(f"leaver-{at}", "cpu=1 mem=1Gi", has=f"{at // 2} cpu=1", terminating=True) for at in range(4)
)
TERMINATING = on("leaver", "cpu=2 mem=1Gi", has="0 cpu=2", terminating=True)
SHARING = replace(on("sharing", "cpu=2 mem=1Gi", has="0 cpu=2"), intent=SHARED)
KEEPING = replace(on("keeping", "cpu=1 mem=1Gi", has="0 cpu=1"), intent=EXCLUSIVE)

BY_THEN = [
    # what it shows, the pods on the node, the pod
    #     why not
    ("it is alone after any departure", (TERMINATING,), "cpu=4 mem=1Gi", EXCLUSIVE, None),
    ("it would share a zone after a departure", (TERMINATING, SHARING), "cpu=2 mem=1Gi", EXCLUSIVE,
         Cause.NOT_ALONE),
    ("it may share a zone", (TERMINATING, SHARING), "cpu=2 mem=1Gi", SHARED, None),
    ("it would come to an exclusive pod", (TERMINATING, KEEPING), "cpu=2 mem=1Gi", SHARED, Cause.NOT_SHARED),
    ("too many departures for an exclusive pod", (*MANY_LEAVERS, SHARING), "cpu=2 mem=1Gi", EXCLUSIVE,
         Cause.NOT_ALONE),
    ("too many departures for another pod", (*MANY_LEAVERS, KEEPING), "cpu=2 mem=1Gi", SHARED, None),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "containers", "intent", "why"), table(BY_THEN))
def test_zones_after_departures_count(
    pods: tuple[AssignedPod, ...], containers: str, intent: Intent, why: Cause | None
) -> None:
    verdict = predict(NodeInfo(PAIR, pods), asks(containers), intent, now=NOW, lag=LAG).verdict
    assert (verdict.refusal and verdict.refusal.cause) == why
    assert not verdict.permanent


# Work limits.

SIXTEEN = node(*["cpu=400 mem=64Gi"] * 16, policy="restricted", max_zones=16)
CROWD = " | ".join(["cpu=1 mem=1Mi"] * 100)


def on_its_way(uid: str, containers: str, has: str) -> AssignedPod:
    return on(uid, containers, has=has, stage=Stage.BOUND, created=1, turn=1)


@pytest.mark.parametrize(("others", "waits"), [(1, []), (25, ["crowd"])])
def test_more_possible_departures_make_large_pods_wait(others: int, waits: list[str]) -> None:
    amounts = [f"cpu=1 mem={1 + at}Mi" for at in range(others)]
    holders = [on(f"h{at}", text, has=f"2 {text}") for at, text in enumerate(amounts)]
    crowd = on_its_way("crowd", CROWD, "0 cpu=100 mem=100Mi")
    assert risked(NodeInfo(SIXTEEN, (*holders, crowd)), CROWD) == waits


def test_equal_departures_are_tried_once() -> None:
    holders = [on(f"h{at}", "cpu=1 mem=1Mi", has="2 cpu=1 mem=1Mi") for at in range(25)]
    crowd = on_its_way("crowd", CROWD, "0 cpu=100 mem=100Mi")
    assert risked(NodeInfo(SIXTEEN, (*holders, crowd)), CROWD) == []
    # Which of them a fingerprint stands for matters, so each is another.
    info = NodeInfo(SIXTEEN, (*holders, crowd), fingerprint=lambda _node, _sure, _perhaps: None)
    assert risked(info, CROWD) == ["crowd"]


TRIED = [
    # what it shows                 the pods         what each reserves     for whom it waits
    ("small ones come to the same", "cpu=1 mem=1Mi", "0 cpu=1 mem=1Mi",     0),
    ("large ones are not tried",    CROWD,           "0 cpu=100 mem=100Mi", 3),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "has", "waits"), table(TRIED))
def test_every_order_is_tried_within_the_work_limit(containers: str, has: str, waits: int) -> None:
    pods = tuple(on_its_way(uid, containers, has) for uid in ("one", "other", "third"))
    assert len(predicted(NodeInfo(SIXTEEN, pods), containers, created=1).waits_for) == waits
