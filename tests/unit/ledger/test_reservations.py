"""What is reserved on nodes, from the first question to the last pod that leaves."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from numalign.decision.evaluate import NO_INTENT
from numalign.ledger.free import MOST_RECENT
from numalign.ledger.model import (
    AssignedPod,
    Basis,
    FreeCapacity,
    NodeInfo,
    PlacementRecord,
    Prediction,
    Source,
    Stage,
)
from numalign.ledger.reservations import KEPT_SECONDS, LAG_SECONDS, Reservations
from numalign.model import demand
from numalign.model.attributes import Attributes
from numalign.model.intent import Scope
from numalign.model.machine import read_list, render_list
from numalign.model.node import CpuManager
from numalign.model.options import FeatureGate, Options
from numalign.model.placement import Held
from numalign.model.resources import CPU, MEMORY
from tests.unit.ledger.conftest import NOW, of
from tests.unit.ledger.conftest import held as zones
from tests.worlds import notation
from tests.worlds.notation import asks, bag, free_of, machine, node, options, table

PAIR = replace(node("cpu=4", "cpu=4", policy="single-numa-node"), name="pair")
OTHER = replace(PAIR, name="other")
FULL = replace(node("cpu=4//0", "cpu=4//0", policy="single-numa-node"), name="pair")


def held(zone: int, cpus: int) -> Held:
    return {(f"node-{zone}",): bag(f"cpu={cpus}")}


def pod(
    uid: str, cpus: int = 4, *, stage: Stage = Stage.RESERVED, created: int = 0, since: float = NOW
) -> AssignedPod:
    return AssignedPod(uid, ("team", uid), asks(f"cpu={cpus} mem=1Gi"), stage, since=since, created=created)


def running(
    uid: str, zone: int, cpus: int = 4, *, since: float = NOW, source: Source = Source.RECORDED
) -> AssignedPod:
    record = PlacementRecord(held(zone, cpus), source)
    return replace(pod(uid, cpus, stage=Stage.ADMITTED, since=since), record=record)


@pytest.fixture
def ledger() -> Reservations:
    """The ledger of two nodes that are alike, with nothing on them."""
    reservations = Reservations()
    for each in (PAIR, OTHER):
        reservations.update_node(each)
    return reservations


def capacity(ledger: Reservations, name: str = "pair", *, now: float = NOW) -> FreeCapacity:
    free = ledger.free_capacity(name, now=now)
    assert free
    return free


def cpus(ledger: Reservations, name: str = "pair", *, now: float = NOW) -> list[int]:
    return free_of(capacity(ledger, name, now=now).node, "cpu")


def info(ledger: Reservations, name: str = "pair") -> NodeInfo:
    known = ledger.node_info(name)
    assert known
    return known


def predicted(
    ledger: Reservations, new: AssignedPod, name: str = "pair", *, without: Sequence[str] = ()
) -> Prediction:
    assert new.demand
    prediction = ledger.predict(name, new.demand, created=new.created, now=new.since, without=without)
    assert prediction
    return prediction


def reserve(ledger: Reservations, new: AssignedPod, name: str = "pair") -> Prediction:
    """Reserve for a pod what the node is predicted to give it."""
    prediction = predicted(ledger, new, name)
    ledger.reserve(name, new, prediction)
    return prediction


def known(ledger: Reservations, uid: str) -> AssignedPod:
    pod = ledger.assigned_pod(uid)
    assert pod
    return pod


# Reservations.


@pytest.mark.parametrize(("strategy", "free"), [("none", [2, 2]), ("most-allocated", [4, 0])])
def test_reservation_follows_the_strategy_of_the_kubelet(strategy: str, free: list[int]) -> None:
    ledger = Reservations()
    ledger.update_node(replace(PAIR, options=options(strategy=strategy)))
    ledger.update_pod("pair", running("running", 1, 2))
    reserve(ledger, pod("a", 2, created=1))
    assert cpus(ledger) == free
    assert predicted(ledger, pod("b", 4, created=2)).verdict.admitted is (4 in free)


CALLS: list[Callable[[Reservations, str], None]] = [
    lambda ledger, uid: ledger.unreserve(uid),
    lambda ledger, uid: ledger.mark_unconfirmed(uid),
    lambda ledger, uid: ledger.update_reservation(uid, predicted(ledger, pod("b"))),
]


@pytest.mark.parametrize("call", CALLS, ids=["unreserved", "not confirmed", "updated"])
def test_running_pod_is_no_reservation(
    ledger: Reservations, call: Callable[[Reservations, str], None]
) -> None:
    ledger.update_pod("pair", running("a", 0))
    for uid in ("a", "unknown"):
        call(ledger, uid)
    assert (known(ledger, "a"), ledger.node_of("unknown")) == (running("a", 0), None)


def test_later_reservation_replaces_the_first(ledger: Reservations) -> None:
    reserve(ledger, pod("a"))
    reserve(ledger, pod("a"), "other")
    assert (cpus(ledger), cpus(ledger, "other"), ledger.node_of("a")) == ([4, 4], [0, 4], "other")
    ledger.unreserve("a")
    assert (cpus(ledger, "other"), ledger.node_of("a"), ledger.reserved()) == ([4, 4], None, ())


def test_only_reservation_of_an_unseen_pod_expires(ledger: Reservations) -> None:
    for uid, since in (("unseen", NOW), ("later", NOW + 1)):
        reserve(ledger, pod(uid, 2, since=since))
    reserve(ledger, pod("seen"), "other")
    ledger.update_pod("other", pod("seen", stage=Stage.BOUND))
    assert ledger.expire(NOW + KEPT_SECONDS - 0.1) == ()
    assert [pod.uid for pod in ledger.expire(NOW + KEPT_SECONDS)] == ["unseen"]
    assert [pod.uid for pod in ledger.expire(NOW + 10 * KEPT_SECONDS)] == ["later"]
    assert (ledger.node_of("unseen"), cpus(ledger, "other")) == (None, [0, 4])


def test_later_prediction_ends_doubt_of_a_reservation(ledger: Reservations) -> None:
    ledger.update_pod("pair", running("gone", 0))
    reserve(ledger, pod("a"))
    ledger.remove_pod("gone", now=NOW)
    assert known(ledger, "a").record is None
    later = predicted(ledger, pod("a"), without=ledger.reserved_since("a"))
    ledger.update_reservation("a", later)
    assert known(ledger, "a").record == PlacementRecord(held(0, 4), Source.PREDICTED)
    assert not known(ledger, "a").doubtful


def test_pod_is_evaluated_without_later_reservations(ledger: Reservations) -> None:
    for uid, name in (("a", "pair"), ("b", "pair"), ("c", "other")):
        reserve(ledger, pod(uid), name)
    assert [ledger.reserved_since(uid) for uid in ("a", "b", "unknown")] == [("a", "b"), ("b",), ()]
    assert predicted(ledger, pod("a"), without=("a", "b")).held == held(0, 4)
    # Nor does the reservation of a pod stand in its own way; pods of other nodes do not count.
    assert predicted(ledger, pod("b"), without=("b", "unknown")).held == held(1, 4)
    assert not predicted(ledger, pod("d"), without=("c",)).verdict.admitted


def test_victim_is_credited_once(ledger: Reservations) -> None:
    ledger.update_node(FULL, of("a", "b", "stranger"))
    ledger.update_pod("pair", running("a", 0))
    ledger.update_pod("pair", running("b", 1, 2))
    ledger.update_pod("pair", pod("stranger", 2, stage=Stage.ADMITTED))
    once, twice = (
        predicted(ledger, pod("preemptor", created=1), without=victims) for victims in (("a",), ("a", "a"))
    )

    assert once.basis is Basis.ANCHORED
    assert free_of(once.node, "cpu") == free_of(twice.node, "cpu") == [4, 0]
    for _ in range(2):
        ledger.remove_pod("a", now=NOW + 100)
    assert cpus(ledger) == [4, 0]
    ledger.update_node(replace(PAIR, zones=node("cpu=4", "cpu=4//0").zones), of("b", "stranger"))
    assert cpus(ledger) == [4, 0]


def test_others_wait_for_an_unconfirmed_bind(ledger: Reservations) -> None:
    reserve(ledger, pod("a", created=1))
    later = pod("b", created=2)
    assert predicted(ledger, later).reservable
    ledger.mark_unconfirmed("a")
    assert [pod.uid for pod in predicted(ledger, later).waits_for] == ["a"]
    ledger.update_pod("pair", pod("a", created=1, stage=Stage.BOUND))
    assert predicted(ledger, later).reservable
    # In which order it came, beside those that were bound meanwhile, is not known even then.
    assert known(ledger, "a").unconfirmed


# Pods that are seen.


def test_reservation_follows_its_pod(ledger: Reservations) -> None:
    reserve(ledger, pod("a"))
    ledger.update_pod("pair", pod("a", stage=Stage.BOUND, since=NOW + 1))
    ledger.update_pod("pair", pod("a", stage=Stage.ADMITTED, since=NOW + 2))
    admitted = known(ledger, "a")
    assert (admitted.stage, admitted.since, admitted.turn) == (Stage.ADMITTED, NOW + 2, 1)
    assert admitted.record == PlacementRecord(held(0, 4), Source.PREDICTED)
    assert ledger.reserved() == ()


def test_pod_enters_its_stage_once(ledger: Reservations) -> None:
    ledger.update_pod("pair", running("a", 0))
    before = capacity(ledger)
    ledger.update_pod("pair", running("a", 0, since=NOW + 5))
    assert known(ledger, "a").since == NOW
    # Nothing changed, so nothing is computed again.
    assert capacity(ledger) is before


def test_bound_pod_counts_only_on_its_node(ledger: Reservations) -> None:
    reserve(ledger, pod("a"))
    ledger.update_pod("other", pod("a", stage=Stage.BOUND))
    moved = known(ledger, "a")
    assert (moved.record, moved.guess, ledger.node_of("a")) == (None, held(0, 4), "other")
    assert cpus(ledger) == [4, 4]
    ledger.update_pod("other", running("a", 1))
    assert cpus(ledger, "other") == [4, 0]


@pytest.mark.parametrize("stage", Stage)
def test_ended_pod_on_a_node_without_topology_is_gone(ledger: Reservations, stage: Stage) -> None:
    if stage is Stage.RESERVED:
        ledger.reserve("dark", pod("a"), None)
    else:
        ledger.update_pod("dark", pod("a", stage=stage))
    for uid in ("a", "a", "unknown"):
        ledger.remove_pod(uid, now=NOW)
    ledger.update_node(replace(PAIR, name="dark"))
    assert info(ledger, "dark") == NodeInfo(replace(PAIR, name="dark"))
    assert ([*ledger.assigned_pods()], ledger.reserved()) == ([], ())


def test_recently_departed_pods_may_be_in_a_topology(ledger: Reservations) -> None:
    ledger.update_node(FULL)
    ledger.update_pod("pair", pod("stranger", stage=Stage.ADMITTED))
    gone = [f"gone-{at}" for at in range(MOST_RECENT + 1)]
    for uid in gone:
        ledger.update_pod("pair", running(uid, 0, 1))
        ledger.remove_pod(uid, now=NOW)
    assert [pod.uid for pod in info(ledger).departed] == gone[1:]
    ledger.update_pod("pair", running(gone[1], 0, 1))
    assert [pod.uid for pod in info(ledger).departed] == gone[2:]


# Doubt.


@pytest.fixture
def doubtful(ledger: Reservations) -> Reservations:
    """A pod had a reservation on zone 1 beside one on zone 0, and that one left when it came."""
    ledger.update_pod("pair", running("leaver", 0, since=NOW - 100))
    reserve(ledger, pod("late", created=1))
    ledger.update_pod("pair", replace(running("late", 1, since=NOW - 1), created=1))
    ledger.remove_pod("leaver", now=NOW)
    return ledger


def test_pod_that_may_use_departed_room_is_doubtful(doubtful: Reservations) -> None:
    late = known(doubtful, "late")
    assert (late.record, late.guess, late.doubtful) == (None, held(1, 4), True)
    assert (capacity(doubtful).basis, cpus(doubtful)) == (Basis.REPORTED, [0, 0])
    doubtful.update_pod("pair", replace(running("late", 1), terminating=True))
    assert known(doubtful, "late").record is None


def test_reserved_pod_may_have_come_and_gone(ledger: Reservations) -> None:
    """Of a pod that was bound and ended unwatched, only the end is known."""
    reserve(ledger, pod("brief", created=1))
    reserve(ledger, pod("late", created=2))
    ledger.update_pod("pair", replace(running("late", 1, since=NOW - 1), created=2))
    ledger.remove_pod("brief", now=NOW)
    assert known(ledger, "late").doubtful


def test_agent_report_ends_the_doubt(doubtful: Reservations) -> None:
    doubtful.update_observed("pair", {"late": report("0 cpu=4")}, now=NOW)
    assert [pod.doubtful for pod in doubtful.counted_pods()] == [False]
    assert (capacity(doubtful).basis, cpus(doubtful)) == (Basis.OBSERVED, [0, 4])


def test_deletion_makes_later_pods_doubtful(ledger: Reservations) -> None:
    news = list[str]()
    ledger.update_pod("pair", running("old", 0, since=NOW - 100))
    reserve(ledger, pod("late"))
    ledger.update_pod("pair", pod("late", stage=Stage.ADMITTED))
    assert (known(ledger, "late").doubtful, capacity(ledger).basis) == (False, Basis.OBSERVED)
    ledger.on_change(news.append)
    ledger.mark_terminating("old", now=NOW + 1)
    assert (known(ledger, "late").doubtful, capacity(ledger).basis) == (True, Basis.REPORTED)
    assert news == ["pair"]


# Topologies.


def test_topology_counts_a_pod_once_its_lag_is_over(ledger: Reservations) -> None:
    ledger.update_node(replace(PAIR, zones=node("cpu=4//1", "cpu=4").zones))
    ledger.update_pod("pair", pod("stranger", 3, stage=Stage.ADMITTED))
    assert (ledger.valid_until("pair"), ledger.valid_until("unknown")) == (math.inf, math.inf)
    assert [cpus(ledger, now=NOW + age) for age in (0, LAG_SECONDS - 0.1)] == [[1, 1]] * 2
    assert (ledger.valid_until("pair"), ledger.valid_until("other")) == (NOW + LAG_SECONDS, math.inf)
    assert cpus(ledger, now=NOW + LAG_SECONDS) == [1, 4]


def test_free_is_cached_until_the_node_changes(ledger: Reservations) -> None:
    first = capacity(ledger)
    assert capacity(ledger, now=NOW + 10_000) is first
    ledger.update_node(PAIR)
    ledger.update_pod("other", running("a", 0))
    assert capacity(ledger) is first
    ledger.update_pod("pair", running("b", 0))
    assert capacity(ledger) is not first


def test_labels_and_cordon_recompute_nothing(ledger: Reservations) -> None:
    news = list[str]()
    ledger.update_pod("pair", running("a", 0))
    first = capacity(ledger)
    ledger.on_change(news.append)
    cordoned = replace(PAIR, label="a-class", attributes=Attributes(cordoned=True))
    ledger.update_node(cordoned)
    after = capacity(ledger)

    assert after == replace(first, node=replace(first.node, label="a-class", attributes=cordoned.attributes))
    assert all(one is other for one, other in zip(after.node.zones, first.node.zones, strict=True))
    assert (news, info(ledger).node is cordoned) == (["pair"], True)
    ledger.update_pod("pair", replace(running("b", 1), stage=Stage.BOUND))
    assert cpus(ledger) == [0, 0]


def test_free_is_recomputed_when_a_device_fails(ledger: Reservations) -> None:
    ledger.update_pod("pair", running("a", 0))
    capacity(ledger)
    lacking = replace(node("cpu=4", "cpu=3", policy="single-numa-node"), name="pair", health=PAIR)
    for update, free in ((lacking, [0, 3]), (PAIR, [0, 4])):
        ledger.update_node(update)
        assert (cpus(ledger), capacity(ledger).node.health) == (free, update.health)


CHANGES: list[tuple[Callable[[Reservations], None], list[str]]] = [
    (lambda ledger: ledger.update_node(PAIR), []),
    (lambda ledger: ledger.update_node(FULL), ["pair"]),
    (lambda ledger: ledger.update_node(FULL, of("a")), ["pair"]),
    (lambda ledger: ledger.update_pod("pair", running("a", 0)), ["pair"]),
    (lambda ledger: ledger.update_pod("pair", running("a", 0)), []),
    (lambda ledger: ledger.update_pod("other", running("a", 0)), ["other", "pair"]),
    (lambda ledger: ledger.remove_pod("a", now=NOW), ["other"]),
    (lambda ledger: ledger.set_complete(complete=True), []),
    (lambda ledger: ledger.set_complete(complete=False), ["other", "pair"]),
    (lambda ledger: ledger.remove_node("other"), ["other"]),
]


def test_listener_gets_only_changed_nodes(ledger: Reservations) -> None:
    news = set[str]()
    ledger.on_change(news.add)
    for change, names in CHANGES:
        change(ledger)
        assert sorted(news) == names
        news.clear()


def test_new_fingerprint_of_equal_amounts_counts(ledger: Reservations) -> None:
    ledger.update_pod("pair", pod("stranger", stage=Stage.ADMITTED))
    assert capacity(ledger).basis is Basis.REPORTED
    ledger.update_node(PAIR, of("stranger"))
    assert capacity(ledger).basis is Basis.ANCHORED
    capacity(ledger, "other")
    assert ledger.count_by_basis() == {Basis.OBSERVED: 1, Basis.ANCHORED: 1, Basis.REPORTED: 0}


def test_without_a_watch_of_pods_the_topology_counts(ledger: Reservations) -> None:
    ledger.update_node(FULL)
    for complete, basis, free in ((True, Basis.OBSERVED, [4, 4]), (False, Basis.REPORTED, [0, 0])) * 2:
        ledger.set_complete(complete=complete)
        assert (capacity(ledger).basis, cpus(ledger)) == (basis, free)


def test_pod_is_at_risk_only_from_earlier_pods(ledger: Reservations) -> None:
    uneven = node("cpu=4 gpu=1", "cpu=3", "cpu=3 gpu=1", policy="single-numa-node")
    ledger.update_node(replace(uneven, name="pair"))
    record = PlacementRecord({("node-0",): bag("gpu=1")}, Source.RECORDED)
    holder = AssignedPod("holder", ("team", "holder"), asks("gpu=1"), Stage.ADMITTED, since=0, record=record)
    ledger.update_pod("pair", holder)
    reserve(ledger, replace(pod("early"), demand=asks("cpu=1 mem=1Gi gpu=1")))
    new = asks("cpu=4 mem=1Gi")
    assert [pod.uid for pod in ledger.at_risk("pair", new, NO_INTENT, now=NOW)] == ["early"]
    assert ledger.at_risk("pair", new, NO_INTENT, now=NOW, without=["early"]) == ()
    assert ledger.at_risk("unknown", new, NO_INTENT, now=NOW) == ()


# Reports of the agent beside a kubelet.

MACHINE = replace(
    machine("cpu=0-3 mem=9Gi", "cpu=4-7 mem=9Gi", reserved="0", policy="single-numa-node"), name="m"
)
"""A node whose machine is known, on which CPU 0 is reserved for the system."""


def report(text: str, cpus: str = "") -> PlacementRecord:
    return PlacementRecord(zones(text), Source.KUBELET, cpus=read_list(cpus))


def bound(uid: str, text: str = "cpu=2 mem=1Gi") -> AssignedPod:
    """A pod that another scheduler bound a moment ago, so that its zones are not known."""
    return AssignedPod(uid, ("team", uid), asks(text), Stage.BOUND, since=NOW)


def observing(**reports: PlacementRecord) -> Reservations:
    """A ledger of the machine, on which these pods are bound and reported."""
    ledger = Reservations()
    ledger.update_node(MACHINE)
    for uid in reports:
        ledger.update_pod("m", bound(uid))
    ledger.update_observed("m", reports, now=NOW)
    return ledger


def counted(ledger: Reservations, uid: str) -> AssignedPod:
    return next(pod for pod in info(ledger, "m").assigned_pods if pod.uid == uid)


def free_ids(ledger: Reservations) -> str:
    """The ids of CPUs that are free; `?` where they are not known."""
    stock = capacity(ledger, "m").node.stock
    return render_list(stock.cpus) if stock else "?"


def delete(ledger: Reservations) -> None:
    ledger.update_pod("m", replace(bound("a"), terminating=True))


A, B = report("0 cpu=2 mem=1Gi", "1,3"), report("1 cpu=2 mem=1Gi", "4-5")


def test_pod_holds_what_the_agent_reports() -> None:
    ledger = observing(a=A)
    assert (counted(ledger, "a").stage, counted(ledger, "a").record) == (Stage.ADMITTED, A)
    assert (capacity(ledger, "m").basis, capacity(ledger, "m").exact) == (Basis.OBSERVED, True)
    assert (free_ids(ledger), ledger.observed("a")) == ("2,4-7", A)
    assert ledger.count_by_source(["m"]) == {"kubelet": 1}
    delete(ledger)
    assert free_ids(ledger) == "2,4-7"


def test_agent_report_counts_for_any_request() -> None:
    """The pod was resized since, or served in a way that is not implemented here."""
    ledger = observing()
    for new in (bound("resized"), bound("shares", "cpu=1.. mem=1Gi.."), replace(bound("odd"), demand=None)):
        ledger.update_pod("m", new)
    reports = {
        "resized": report("0 cpu=3 mem=1Gi", "1-3"),
        "shares": report("1 cpu=1", "4"),
        "odd": report("1 cpu=1", "7"),
    }
    ledger.update_observed("m", reports, now=NOW)
    assert (capacity(ledger, "m").basis, free_ids(ledger)) == (Basis.OBSERVED, "5-6")

    ledger.update_observed("m", {**reports, "resized": report("0 cpu=1 mem=1Gi", "1")}, now=NOW)
    assert free_ids(ledger) == "2-3,5-6"


def test_report_of_a_pod_of_another_node_is_void(ledger: Reservations) -> None:
    ledger.update_pod("pair", running("a", 0))
    for name in ("other", "unknown"):
        ledger.update_observed(name, {"a": A}, now=NOW)
    assert (ledger.observed("a"), cpus(ledger), ledger.is_observed("unknown")) == (None, [0, 4], False)


def nothing(_: Reservations) -> None:
    pass


LATER = [
    # what it shows                          what changes, what is reported then, CPUs that are free
    ("a pod that is left out", nothing, {"b": B}, "2,6-7"),
    ("a deleted pod", delete, {"b": B}, "1-3,6-7"),
    ("another pod has its CPUs", nothing, {"b": report("0 cpu=2 mem=1Gi", "2-3")}, "1,4-7"),
    ("another pod has its memory", nothing, {"b": report("0 cpu=1 mem=9Gi", "2")}, "1,3-7"),
    ("it holds nothing", nothing, {"a": report(""), "b": B}, "1-3,6-7"),
    ("it has left", lambda ledger: ledger.remove_pod("a", now=NOW), {"b": B}, "1-3,6-7"),
    ("no pod is reported", nothing, {}, "2,6-7"),
    ("the agent has gone", nothing, None, "2,6-7"),
    ("the agent has gone, the pod is deleted", delete, None, "2,6-7"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "then", "free"), table(LATER))
def test_pod_missing_from_reports_keeps_its_claim(
    change: Callable[[Reservations], None], then: Mapping[str, PlacementRecord] | None, free: str
) -> None:
    ledger = observing(a=A, b=B)
    change(ledger)
    ledger.update_observed("m", then, now=NOW)
    assert (capacity(ledger, "m").basis, free_ids(ledger)) == (Basis.OBSERVED, free)


def test_impossible_report_falls_back_to_the_annotation() -> None:
    ledger = observing()
    recorded = PlacementRecord(zones("0 cpu=2 mem=1Gi"), Source.RECORDED)
    ledger.update_pod("m", replace(bound("a"), record=recorded))
    ledger.update_observed("m", {"a": report("0 cpu=2 mem=1Gi", "0-1")}, now=NOW)
    assert counted(ledger, "a").record == recorded
    assert [(name, pod.uid, pod.refuted) for name, pod in ledger.refuted()] == [
        ("m", "a", frozenset({CPU, MEMORY}))
    ]

    ledger.update_observed("m", {"a": A}, now=NOW)
    assert (counted(ledger, "a").record, ledger.count_refuted()) == (A, 0)
    delete(ledger)
    ledger.update_observed("m", {"a": report("9 cpu=2", "1,3")}, now=NOW)
    assert (counted(ledger, "a").record, ledger.count_refuted()) == (A, 1)


def test_report_is_checked_against_the_node_as_it_is() -> None:
    ledger = observing(a=A)
    smaller = machine("cpu=0-1 mem=9Gi", "cpu=4-7 mem=9Gi", reserved="0", policy="single-numa-node")
    ledger.update_node(replace(smaller, name="m"))
    assert (ledger.observed("a"), ledger.count_refuted()) == (None, 1)
    ledger.update_node(MACHINE)
    assert (ledger.observed("a"), ledger.count_refuted()) == (A, 0)
    ledger.remove_node("m")
    assert not ledger.is_observed("m")
    ledger.update_node(MACHINE)
    assert free_ids(ledger) == "2,4-7"


def test_listener_gets_only_changed_reports() -> None:
    ledger, news = observing(a=A), list[str]()
    ledger.on_change(news.append)
    for reports in ({"a": A}, {"a": A, "new": B}, {"a": B, "new": B}, {"a": B, "new": B}):
        ledger.update_observed("m", reports, now=NOW)
    assert news == ["m"]


def test_prediction_for_a_machine_has_its_cpus() -> None:
    """So the choice of its kubelet is known before it is made, for several pods on their way."""
    ledger = observing(a=A)
    first, second = (reserve(ledger, pod(uid, 2, created=at), "m").record for at, uid in enumerate("bc"))
    assert first
    assert second
    assert [record.cpus and render_list(record.cpus) for record in (first, second)] == ["4-5", "6-7"]
    assert free_ids(ledger) == "2"
    annotated = replace(first, source=Source.RECORDED, cpus=None)
    ledger.update_pod("m", replace(bound("b"), record=annotated))
    assert known(ledger, "b").record == replace(annotated, cpus=read_list("4-5"))


def test_predicted_cpus_of_another_pod_are_replaced() -> None:
    ledger = observing()
    prediction = reserve(ledger, pod("b", 2), "m")
    ledger.update_pod("m", bound("a"))
    ledger.update_observed("m", {"a": report("0 cpu=1 mem=1Gi", "2")}, now=NOW)
    assert prediction.record == replace(report("0 cpu=2 mem=1Gi", "1-2"), source=Source.PREDICTED)
    assert (capacity(ledger, "m").exact, free_ids(ledger)) == (True, "4-7")


def test_machine_with_an_unreported_pod_counts_amounts() -> None:
    ledger = observing(a=A)
    ledger.update_pod("m", bound("new"))
    assert (capacity(ledger, "m").basis, free_ids(ledger)) == (Basis.REPORTED, "?")
    assert cpus(ledger, "m") == [0, 2]
    ledger.update_observed("m", {"a": A, "new": B}, now=NOW)
    assert (capacity(ledger, "m").basis, free_ids(ledger)) == (Basis.OBSERVED, "2,6-7")


# Quotas of exclusive CPUs.


def test_exclusive_cpus_count_bound_and_reserved_pods(ledger: Reservations) -> None:
    ledger.update_pod("pair", running("a", 0, 2))
    ledger.reserve("pair", pod("b", 3), None)
    ledger.update_pod("unknown", replace(pod("c", 4, stage=Stage.BOUND), name=("other", "c")))
    ledger.update_pod("pair", replace(pod("d", stage=Stage.BOUND), demand=None))
    ledger.reserve("pair", pod("e", 3), None)
    ledger.reserve("pair", replace(pod("to-come", 4), awaited=True), None)
    assert [ledger.exclusive_cpus(name) for name in ("team", "other")] == [8, 4]
    assert ledger.exclusive_cpus("team", without=["a", "a", "b", "c"]) == 3
    ledger.unreserve("b")
    ledger.remove_pod("a", now=NOW)
    assert ledger.exclusive_cpus("team") == 3


def test_node_that_pins_no_cpus_counts_none(ledger: Reservations) -> None:
    none = replace(PAIR, cpu_manager=CpuManager.NONE)
    ledger.update_pod("pair", running("a", 0, 2))
    for update, count in ((none, 0), (replace(none, uncertain=frozenset({CPU})), 2), (none, 0), (PAIR, 2)):
        ledger.update_node(update)
        assert ledger.exclusive_cpus("team") == count
    ledger.update_node(none)
    ledger.remove_node("pair")
    assert ledger.exclusive_cpus("team") == 2


def test_equal_uid_in_another_namespace_counts_apart(ledger: Reservations) -> None:
    """Files may have both."""
    ledger.update_pod("pair", running("a", 0, 2))
    ledger.update_pod("other", replace(running("a", 0, 3), name=("else", "a")))
    assert [ledger.exclusive_cpus(name) for name in ("team", "else")] == [0, 3]
    ledger.remove_pod("a", now=NOW)
    assert [ledger.exclusive_cpus(name) for name in ("team", "else")] == [0, 0]


def test_pod_level_cpus_count_where_they_are_pinned(ledger: Reservations) -> None:
    level = "cpu=4 mem=1Gi"
    whole = demand.of(notation.pod("cpu=1 mem=1Gi", requests=level, limits=level))
    ledger.update_pod("pair", replace(pod("a", stage=Stage.BOUND), demand=whole))
    assert ledger.exclusive_cpus("team") == 0
    pinning = Options(gates=frozenset({FeatureGate.POD_LEVEL_MANAGERS}))
    ledger.update_node(replace(PAIR, options=pinning, scope=Scope.POD))
    assert ledger.exclusive_cpus("team") == 4
