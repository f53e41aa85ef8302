"""What is reserved on nodes, from the first question to the last pod that leaves."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

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
from numalign.ledger.reservations import KEPT_SECONDS, LAG_SECONDS, RELEASE_SECONDS, Reservations
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
    """A pod that nothing is recorded of."""
    return AssignedPod(uid, ("team", uid), asks(f"cpu={cpus} mem=1Gi"), stage, since=since, created=created)


def on(uid: str, zone: int, cpus: int = 4, *, since: float = NOW) -> AssignedPod:
    """A pod that its kubelet has taken, and of which it is recorded what it holds."""
    record = PlacementRecord(held(zone, cpus), Source.RECORDED)
    return replace(pod(uid, cpus, stage=Stage.ADMITTED, since=since), record=record)


@pytest.fixture
def reservations() -> Reservations:
    """Those of two nodes that are alike, with nothing on them."""
    made = Reservations()
    for known in (PAIR, OTHER):
        made.update_node(known)
    return made


def capacity(reservations: Reservations, name: str = "pair", *, now: float = NOW) -> FreeCapacity:
    found = reservations.free_capacity(name, now=now)
    assert found
    return found


def free(reservations: Reservations, name: str = "pair", *, now: float = NOW) -> list[int]:
    """Whole CPUs free in each zone."""
    return free_of(capacity(reservations, name, now=now).node, "cpu")


def info(reservations: Reservations, name: str = "pair") -> NodeInfo:
    found = reservations.node_info(name)
    assert found
    return found


def asked(
    reservations: Reservations, assigned_pod: AssignedPod, name: str = "pair", *, without: Sequence[str] = ()
) -> Prediction:
    assert assigned_pod.demand
    created, now = assigned_pod.created, assigned_pod.since
    found = reservations.predict(name, assigned_pod.demand, created=created, now=now, without=without)
    assert found
    return found


def keep(reservations: Reservations, assigned_pod: AssignedPod, place: str = "pair") -> Prediction:
    """Reserve for a pod what a node is predicted to give it."""
    found = asked(reservations, assigned_pod, place)
    reservations.reserve(place, assigned_pod, found)
    return found


def known(reservations: Reservations, uid: str) -> AssignedPod:
    found = reservations.assigned_pod(uid)
    assert found
    return found


def agree(reservations: Reservations) -> bool:
    """Whether all ways of asking where pods are say the same."""
    assigned_pods = {each.uid: each for each in reservations.assigned_pods()}
    reserved = {each.uid for each in reservations.reserved()}
    return all(
        reservations.node_of(uid) and reservations.assigned_pod(uid) == each
        for uid, each in assigned_pods.items()
    ) and reserved == {uid for uid, each in assigned_pods.items() if each.stage is Stage.RESERVED}


# Reservations.


def test_what_is_reserved_is_not_free_for_others(reservations: Reservations) -> None:
    keep(reservations, pod("a", created=1))

    assert free(reservations) == [0, 4]
    assert asked(reservations, pod("b", created=2)).held == held(1, 4)
    keep(reservations, pod("b", created=2))
    assert not asked(reservations, pod("c", created=3)).verdict.admitted
    assert free(reservations, "other") == [4, 4]


@pytest.mark.parametrize(
    ("strategy", "left", "wide"),
    [("none", [2, 2], False), ("most-allocated", [4, 0], True), ("least-allocated", [2, 2], False)],
)
def test_what_is_reserved_follows_the_choice_of_the_kubelet(
    strategy: str,
    left: list[int],
    wide: bool,  # noqa: FBT001  a column of the table
) -> None:
    reservations = Reservations()
    reservations.update_node(replace(PAIR, options=options(strategy=strategy)))
    reservations.update_pod("pair", on("running", 1, 2))
    keep(reservations, pod("a", 2, created=1))

    assert free(reservations) == left
    assert asked(reservations, pod("b", 4, created=2)).verdict.admitted is wide


def test_removed_reservation_leaves_no_trace(reservations: Reservations) -> None:
    keep(reservations, pod("a"))
    reservations.unreserve("a")

    assert (free(reservations), reservations.node_of("a"), reservations.reserved()) == ([4, 4], None, ())
    assert agree(reservations)


@pytest.mark.parametrize(
    "call",
    [
        lambda reservations, uid: reservations.unreserve(uid),
        lambda reservations, uid: reservations.mark_unconfirmed(uid),
        lambda reservations, uid: reservations.update_reservation(uid, asked(reservations, pod("b"))),
    ],
    ids=["unreserved", "not confirmed", "updated"],
)
def test_only_a_reservation_is(reservations: Reservations, call: Callable[[Reservations, str], None]) -> None:
    reservations.update_pod("pair", on("a", 0))
    call(reservations, "a")
    call(reservations, "nobody")

    assert (known(reservations, "a"), reservations.node_of("nobody")) == (on("a", 0), None)


def test_a_second_reservation_takes_the_place_of_the_first(reservations: Reservations) -> None:
    keep(reservations, pod("a"))
    keep(reservations, pod("a"), "other")

    assert (free(reservations), free(reservations, "other")) == ([4, 4], [0, 4])
    assert reservations.node_of("a") == "other"
    assert agree(reservations)


def test_reservation_of_an_unseen_pod_expires(reservations: Reservations) -> None:
    keep(reservations, pod("a"))
    keep(reservations, pod("b", since=NOW + 1))

    assert reservations.expire(NOW + KEPT_SECONDS - 0.1) == ()
    assert [each.uid for each in reservations.expire(NOW + KEPT_SECONDS)] == ["a"]
    assert (reservations.node_of("a"), reservations.node_of("b")) == (None, "pair")


def test_reservation_of_a_seen_pod_does_not_expire(reservations: Reservations) -> None:
    keep(reservations, pod("a"))
    reservations.update_pod("pair", pod("a", stage=Stage.BOUND))

    assert reservations.expire(NOW + 10 * KEPT_SECONDS) == ()
    assert free(reservations) == [0, 4]


def test_node_without_topology_can_be_reserved(reservations: Reservations) -> None:
    reservations.reserve("dark", pod("a"), None)

    assert reservations.predict("dark", asks("cpu=1 mem=1Gi"), now=NOW) is None
    assert (reservations.free_capacity("dark", now=NOW), reservations.node_info("dark")) == (None, None)
    assert reservations.node_of("a") == "dark"
    # Once it is known, the pod holds nobody knows what.
    reservations.update_node(replace(PAIR, name="dark"))
    assert free(reservations, "dark") == [0, 0]


def test_a_reservation_is_updated_by_a_later_prediction(reservations: Reservations) -> None:
    reservations.update_pod("pair", on("gone", 0))
    keep(reservations, pod("a"))
    reservations.remove_pod("gone", now=NOW)
    assert known(reservations, "a").record is None

    reservations.update_reservation(
        "a", asked(reservations, pod("a"), without=reservations.reserved_since("a"))
    )
    assert known(reservations, "a").record == PlacementRecord(held(0, 4), Source.PREDICTED)
    assert not known(reservations, "a").doubtful


def test_later_pods_are_those_reserved_later_on_the_node(reservations: Reservations) -> None:
    for uid in "abc":
        keep(reservations, pod(uid, 1))
    keep(reservations, pod("elsewhere", 1), "other")
    reservations.update_pod("pair", on("foreign", 1, 1))

    assert (reservations.reserved_since("a"), reservations.reserved_since("b")) == (
        ("a", "b", "c"),
        ("b", "c"),
    )
    assert reservations.reserved_since("nobody") == ()


def test_pod_is_evaluated_without_later_pods(
    reservations: Reservations,
) -> None:
    for uid in "ab":
        keep(reservations, pod(uid))

    assert asked(reservations, pod("a"), without=reservations.reserved_since("a")).held == held(0, 4)
    # Nor does the reservation of a pod stand in its own way; who is elsewhere is no matter here.
    assert asked(reservations, pod("b"), without=("b", "nobody")).held == held(1, 4)
    keep(reservations, pod("c"), "other")
    assert not asked(reservations, pod("d"), without=("c",)).verdict.admitted


def test_a_victim_is_credited_once(reservations: Reservations) -> None:
    reservations.update_node(FULL)
    reservations.update_node(FULL, of("a", "b", "stranger"))
    reservations.update_pod("pair", on("a", 0))
    reservations.update_pod("pair", on("b", 1, 2))
    reservations.update_pod("pair", pod("stranger", 2, stage=Stage.ADMITTED))
    once = asked(reservations, pod("preemptor", created=1), without=("a",))
    twice = asked(reservations, pod("preemptor", created=1), without=("a", "a"))

    assert once.basis is Basis.ANCHORED
    assert free_of(once.node, "cpu") == free_of(twice.node, "cpu") == [4, 0]
    reservations.remove_pod("a", now=NOW + 100)
    reservations.remove_pod("a", now=NOW + 100)
    assert free(reservations) == [4, 0]
    reservations.update_node(replace(PAIR, zones=node("cpu=4", "cpu=4//0").zones), of("b", "stranger"))
    assert free(reservations) == [4, 0]


def test_uncertain_bind_moves_no_other_prediction(
    reservations: Reservations,
) -> None:
    keep(reservations, pod("a", created=1))
    later = pod("b", created=2)
    assert asked(reservations, later).reservable

    reservations.mark_unconfirmed("a")
    assert [each.uid for each in asked(reservations, later).waits_for] == ["a"]
    reservations.update_pod("pair", replace(pod("a", created=1, stage=Stage.BOUND)))
    assert asked(reservations, later).reservable
    # In which order it came, beside those that were bound meanwhile, is not known even then.
    assert known(reservations, "a").unconfirmed


# Pods that are seen.


def test_a_reservation_follows_its_pod(reservations: Reservations) -> None:
    keep(reservations, pod("a"))
    reservations.update_pod("pair", pod("a", stage=Stage.BOUND, since=NOW + 1))
    reservations.update_pod("pair", pod("a", stage=Stage.ADMITTED, since=NOW + 2))
    found = known(reservations, "a")

    assert (found.stage, found.since, found.turn) == (Stage.ADMITTED, NOW + 2, 1)
    assert found.record == PlacementRecord(held(0, 4), Source.PREDICTED)
    assert reservations.reserved() == ()


def test_what_is_better_known_counts(reservations: Reservations) -> None:
    keep(reservations, pod("a"))
    reservations.update_pod("pair", replace(on("a", 1), record=PlacementRecord(held(1, 4), Source.OBSERVED)))

    assert free(reservations) == [4, 0]


def test_a_pod_comes_to_its_stage_only_once(reservations: Reservations) -> None:
    reservations.update_pod("pair", on("a", 0))
    before = capacity(reservations)
    reservations.update_pod("pair", on("a", 0, since=NOW + 5))

    assert known(reservations, "a").since == NOW
    # Nothing changed, so nothing is worked out again.
    assert capacity(reservations) is before


def test_bound_pod_counts_only_where_it_is_bound(
    reservations: Reservations,
) -> None:
    keep(reservations, pod("a"))
    reservations.update_pod("other", on("a", 1))

    assert (free(reservations), free(reservations, "other")) == ([4, 4], [4, 0])
    assert reservations.node_of("a") == "other"
    assert agree(reservations)


def test_a_pod_on_its_way_that_ends_holds_nothing(reservations: Reservations) -> None:
    keep(reservations, pod("a"))
    reservations.remove_pod("a", now=NOW)
    reservations.remove_pod("a", now=NOW)
    reservations.remove_pod("nobody", now=NOW)

    assert (free(reservations), list(reservations.assigned_pods()), reservations.reserved()) == (
        [4, 4],
        [],
        (),
    )


def test_so_many_that_left_last_may_still_be_in_a_topology(reservations: Reservations) -> None:
    reservations.update_node(FULL)
    reservations.update_pod("pair", pod("stranger", stage=Stage.ADMITTED))
    gone = [f"gone-{at}" for at in range(MOST_RECENT + 1)]
    for uid in gone:
        reservations.update_pod("pair", on(uid, 0, 1))
        reservations.remove_pod(uid, now=NOW)

    assert [left.uid for left in info(reservations).departed] == gone[1:]


def test_a_pod_that_comes_back_has_not_left(reservations: Reservations) -> None:
    reservations.update_pod("pair", on("a", 0))
    reservations.remove_pod("a", now=NOW)
    reservations.update_pod("pair", on("a", 0))

    assert (info(reservations).departed, info(reservations).assigned_pods) == ((), (on("a", 0),))


# Doubt.


@pytest.fixture
def doubtful(reservations: Reservations) -> Reservations:
    """A pod had a reservation on zone 1 beside one on zone 0, and that one left when it came."""
    reservations.update_pod("pair", on("leaver", 0, since=NOW - 100))
    keep(reservations, pod("late", created=1))
    reservations.update_pod("pair", replace(on("late", 1, since=NOW - 1), created=1))
    reservations.remove_pod("leaver", now=NOW)
    return reservations


def test_pod_that_may_reuse_departed_room_is_doubted(doubtful: Reservations) -> None:
    found = known(doubtful, "late")

    assert (found.record, found.guess, found.doubtful) == (None, held(1, 4), True)
    assert capacity(doubtful).basis is Basis.REPORTED
    assert free(doubtful) == [0, 0]


def test_reserved_pod_may_have_come_and_gone(reservations: Reservations) -> None:
    """Of one that was bound and ended while nobody could watch, nothing is heard but its end."""
    keep(reservations, pod("brief", created=1))
    keep(reservations, pod("late", created=2))
    reservations.update_pod("pair", replace(on("late", 1, since=NOW - 1), created=2))
    reservations.remove_pod("brief", now=NOW)

    assert known(reservations, "late").doubtful


def test_what_was_recorded_of_it_stays_in_doubt(doubtful: Reservations) -> None:
    doubtful.update_pod("pair", replace(on("late", 1), terminating=True))

    assert known(doubtful, "late").record is None


def test_what_is_seen_ends_the_doubt(doubtful: Reservations) -> None:
    doubtful.update_pod("pair", replace(on("late", 0), record=PlacementRecord(held(0, 4), Source.OBSERVED)))

    assert (capacity(doubtful).basis, free(doubtful)) == (Basis.OBSERVED, [0, 4])


def test_a_pod_that_came_long_before_is_believed(reservations: Reservations) -> None:
    reservations.update_pod("pair", on("leaver", 0, since=NOW - 100))
    reservations.update_pod("pair", on("settled", 1, since=NOW - RELEASE_SECONDS - 1))
    reservations.remove_pod("leaver", now=NOW)

    assert (capacity(reservations).basis, free(reservations)) == (Basis.OBSERVED, [4, 0])


def test_node_without_topology_has_no_doubts() -> None:
    reservations = Reservations()
    reservations.update_pod("dark", on("leaver", 0))
    reservations.update_pod("dark", on("late", 1))
    reservations.remove_pod("leaver", now=NOW)

    assert known(reservations, "late").record


# Topologies.


def test_a_lagging_topology_accounts_for_a_pod_in_the_end(reservations: Reservations) -> None:
    reservations.update_node(replace(PAIR, zones=node("cpu=4//1", "cpu=4").zones))
    reservations.update_pod("pair", pod("stranger", 3, stage=Stage.ADMITTED))

    assert free(reservations) == [1, 1]
    assert free(reservations, now=NOW + LAG_SECONDS - 0.1) == [1, 1]
    assert free(reservations, now=NOW + LAG_SECONDS) == [1, 4]


def test_what_is_worked_out_is_kept_until_something_changes(reservations: Reservations) -> None:
    first = capacity(reservations)

    assert capacity(reservations, now=NOW + 10_000) is first
    reservations.update_node(PAIR)
    assert capacity(reservations) is first
    reservations.update_pod("other", on("a", 0))
    assert capacity(reservations) is first
    reservations.update_pod("pair", on("b", 0))
    assert capacity(reservations) is not first


def test_labels_and_cordon_recompute_nothing(reservations: Reservations) -> None:
    heard = list[str]()
    reservations.update_pod("pair", on("a", 0))
    first = capacity(reservations)
    reservations.on_change(heard.append)

    cordoned = replace(PAIR, label="a-class", attributes=Attributes(cordoned=True))
    reservations.update_node(cordoned)
    after = capacity(reservations)
    assert after == replace(first, node=replace(first.node, label="a-class", attributes=cordoned.attributes))
    assert all(one is other for one, other in zip(after.node.zones, first.node.zones, strict=True))
    assert heard == ["pair"]
    assert info(reservations).node is cordoned

    reservations.update_pod("pair", replace(on("b", 1), stage=Stage.BOUND))
    assert free(reservations) == [0, 0]


def test_free_is_recomputed_when_a_device_fails(reservations: Reservations) -> None:
    reservations.update_pod("pair", on("a", 0))
    assert free(reservations) == [0, 4]

    lacking = replace(node("cpu=4", "cpu=3", policy="single-numa-node"), name="pair", health=PAIR)
    reservations.update_node(lacking)
    assert free(reservations) == [0, 3]
    assert capacity(reservations).node.health is PAIR

    reservations.update_node(PAIR)
    assert free(reservations) == [0, 4]
    assert capacity(reservations).node.health is None


CHANGES: list[tuple[Callable[[Reservations], None], list[str]]] = [
    (lambda reservations: reservations.update_node(PAIR), []),
    (lambda reservations: reservations.update_node(FULL), ["pair"]),
    (lambda reservations: reservations.update_node(FULL, of("a")), ["pair"]),
    (lambda reservations: reservations.update_pod("pair", on("a", 0)), ["pair"]),
    (lambda reservations: reservations.update_pod("pair", on("a", 0)), []),
    (lambda reservations: reservations.update_pod("other", on("a", 0)), ["other", "pair"]),
    (lambda reservations: reservations.remove_pod("a", now=NOW), ["other"]),
    (lambda reservations: reservations.set_complete(complete=True), []),
    (lambda reservations: reservations.set_complete(complete=False), ["other", "pair"]),
    (lambda reservations: reservations.remove_nodes(["other"]), ["other"]),
]


def test_listener_gets_a_node_that_lost_its_last_pod(reservations: Reservations) -> None:
    heard = set[str]()
    reservations.on_change(heard.add)
    for change, names in CHANGES:
        change(reservations)
        assert sorted(heard) == names
        heard.clear()


def test_listener_gets_a_node_with_a_new_doubt(
    reservations: Reservations,
) -> None:
    heard = list[str]()
    reservations.update_pod("pair", on("old", 0, since=NOW - 100))
    reservations.update_pod("pair", on("late", 1))
    reservations.on_change(heard.append)
    reservations.mark_terminating("old", now=NOW)

    assert heard == ["pair"]


def test_change_by_time_alone_has_its_due_time(reservations: Reservations) -> None:
    reservations.update_pod("pair", pod("a", stage=Stage.ADMITTED))
    assert (reservations.valid_until("pair"), reservations.valid_until("nobody")) == (math.inf, math.inf)

    reservations.free_capacity("pair", now=NOW)
    reservations.free_capacity("other", now=NOW)
    assert (reservations.valid_until("pair"), reservations.valid_until("other")) == (
        NOW + LAG_SECONDS,
        math.inf,
    )


def test_new_fingerprint_of_equal_amounts_is_news(reservations: Reservations) -> None:
    reservations.update_pod("pair", pod("stranger", stage=Stage.ADMITTED))
    assert capacity(reservations).basis is Basis.REPORTED

    reservations.update_node(PAIR, of("stranger"))
    assert capacity(reservations).basis is Basis.ANCHORED


def test_a_node_that_loses_its_topology_keeps_its_pods(reservations: Reservations) -> None:
    reservations.update_pod("pair", on("a", 0))
    reservations.remove_nodes(["pair", "other", "nobody"])

    assert reservations.free_capacity("pair", now=NOW) is None
    assert list(reservations.node_names()) == []
    reservations.update_node(PAIR)
    assert (free(reservations), list(reservations.node_names())) == ([0, 4], ["pair"])


def test_unwatched_pods_leave_only_the_topology(reservations: Reservations) -> None:
    reservations.update_node(FULL)
    assert free(reservations) == [4, 4]

    reservations.set_complete(complete=False)
    assert (capacity(reservations).basis, free(reservations)) == (Basis.REPORTED, [0, 0])
    reservations.set_complete(complete=True)
    assert (capacity(reservations).basis, free(reservations)) == (Basis.OBSERVED, [4, 4])


def test_nodes_are_counted_by_what_their_capacity_rests_on(reservations: Reservations) -> None:
    reservations.update_pod("other", pod("stranger", stage=Stage.ADMITTED))
    assert reservations.count_by_basis() == dict.fromkeys(Basis, 0)

    for name in ("pair", "other"):
        reservations.free_capacity(name, now=NOW)
    assert reservations.count_by_basis() == {Basis.OBSERVED: 1, Basis.ANCHORED: 0, Basis.REPORTED: 1}


STAGES = [(str(stage), stage) for stage in Stage]


@pytest.mark.parametrize("stage", table(STAGES))
def test_removed_node_leaves_nothing(stage: Stage) -> None:
    reservations = Reservations()
    if stage is Stage.RESERVED:
        reservations.reserve("dark", pod("a"), None)
    else:
        reservations.update_pod("dark", pod("a", stage=stage))
    reservations.remove_pod("a", now=NOW)
    reservations.update_node(replace(PAIR, name="dark"))

    # Not even the pods that left.
    assert info(reservations, "dark") == NodeInfo(replace(PAIR, name="dark"))


def test_moved_reservation_follows_its_pod(reservations: Reservations) -> None:
    keep(reservations, pod("a"), "pair")
    reservations.update_pod("other", pod("a", stage=Stage.BOUND))

    moved = known(reservations, "a")
    assert (moved.record, moved.guess) == (None, held(0, 4))
    assert (free(reservations, "pair"), reservations.node_of("a")) == ([4, 4], "other")


def test_deleted_pod_is_not_counted_for_later_pods(reservations: Reservations) -> None:
    reservations.update_pod("pair", on("old", 0, since=NOW - 100))
    keep(reservations, pod("late"))
    reservations.update_pod("pair", pod("late", stage=Stage.ADMITTED))
    before = known(reservations, "late").doubtful, capacity(reservations).basis
    reservations.mark_terminating("old", now=NOW + 1)

    assert (before, (known(reservations, "late").doubtful, capacity(reservations).basis)) == (
        (False, Basis.OBSERVED),
        (True, Basis.REPORTED),
    )


def test_unknown_node_puts_nothing_at_risk() -> None:
    assert Reservations().at_risk("nowhere", asks("cpu=1 mem=1Gi"), now=NOW) == ()


def test_pod_is_at_risk_only_from_earlier_pods(reservations: Reservations) -> None:
    uneven = node("cpu=4 gpu=1", "cpu=3", "cpu=3 gpu=1", policy="single-numa-node")
    reservations.update_node(replace(uneven, name="pair"))
    record = PlacementRecord({("node-0",): bag("gpu=1")}, Source.RECORDED)
    holder = AssignedPod("holder", ("team", "holder"), asks("gpu=1"), Stage.ADMITTED, since=0, record=record)
    reservations.update_pod("pair", holder)
    early = AssignedPod("early", ("team", "early"), asks("cpu=1 mem=1Gi gpu=1"), Stage.RESERVED, since=NOW)
    found = reservations.predict("pair", asks("cpu=1 mem=1Gi gpu=1"), now=NOW)
    reservations.reserve("pair", early, found)

    asked_now = asks("cpu=4 mem=1Gi")
    assert [each.uid for each in reservations.at_risk("pair", asked_now, now=NOW)] == ["early"]
    assert reservations.at_risk("pair", asked_now, now=NOW, without=["early"]) == ()


# What the agent beside a kubelet says.

MADE = replace(
    machine("cpu=0-3 mem=9Gi", "cpu=4-7 mem=9Gi", reserved="0", policy="single-numa-node"), name="made"
)
"""A node whose machine is known, on which CPU 0 is kept for the system."""


def said(text: str, cpus: str = "") -> PlacementRecord:
    return PlacementRecord(zones(text), Source.KUBELET, cpus=read_list(cpus))


def bound(uid: str, text: str = "cpu=2 mem=1Gi") -> AssignedPod:
    """A pod that another scheduler bound a moment ago: nobody knows what it will hold."""
    return AssignedPod(uid, ("team", uid), asks(text), Stage.BOUND, since=NOW)


def observing(**told: PlacementRecord) -> Reservations:
    """A ledger of the one machine, where some pods are bound and the agent says this."""
    made = Reservations()
    made.update_node(MADE)
    for uid in told:
        made.update_pod("made", bound(uid))
    made.update_observed("made", told, now=NOW)
    return made


def counted(reservations: Reservations, uid: str) -> AssignedPod:
    return next(pod for pod in info(reservations, "made").assigned_pods if pod.uid == uid)


def cpus_left(reservations: Reservations) -> str:
    """The ids of CPUs that are free; `?` where they are not known."""
    stock = capacity(reservations, "made").node.stock
    return render_list(stock.cpus) if stock else "?"


A, B = said("0 cpu=2 mem=1Gi", "1,3"), said("1 cpu=2 mem=1Gi", "4-5")


def test_pod_in_an_agent_report_holds_what_it_lists() -> None:
    found = observing(a=A)

    assert (counted(found, "a").stage, counted(found, "a").record) == (Stage.ADMITTED, A)
    assert (capacity(found, "made").basis, capacity(found, "made").exact) == (Basis.OBSERVED, True)
    assert cpus_left(found) == "2,4-7"
    assert found.observed("a") == A
    assert found.count_by_source(["made"]) == {"kubelet": 1}


def test_agent_report_precedes_the_pod_annotation() -> None:
    found = observing()
    liar = PlacementRecord(zones("0 cpu=2 mem=1Gi"), Source.OBSERVED)
    found.update_pod("made", replace(bound("a"), record=liar))
    found.update_observed("made", {"a": B}, now=NOW)

    assert counted(found, "a").record == B


def test_agent_report_counts_for_any_request() -> None:
    """It was resized since, or served in a way that nobody has restated."""
    found = observing()
    found.update_pod("made", bound("resized"))
    found.update_pod("made", bound("shares", "cpu=1.. mem=1Gi.."))
    found.update_pod("made", replace(bound("unreadable"), demand=None))
    found.update_observed(
        "made",
        {
            "resized": said("0 cpu=3 mem=1Gi", "1-3"),
            "shares": said("1 cpu=1", "4"),
            "unreadable": said("1 cpu=1", "7"),
        },
        now=NOW,
    )

    assert (capacity(found, "made").basis, cpus_left(found)) == (Basis.OBSERVED, "5-6")
    found.update_observed("made", {**found_of(found), "resized": said("0 cpu=1 mem=1Gi", "1")}, now=NOW)
    assert cpus_left(found) == "2-3,5-6"


def found_of(reservations: Reservations) -> dict[str, PlacementRecord]:
    """What the agent says by now."""
    uids = [pod.uid for pod in reservations.assigned_pods()]
    return {uid: record for uid in uids if (record := reservations.observed(uid))}


def test_what_comes_before_the_pod_counts_once_it_is_there() -> None:
    found = observing()
    found.update_observed("made", {"a": A}, now=NOW)
    assert cpus_left(found) == "1-7"

    found.update_pod("made", bound("a"))
    assert (counted(found, "a").record, cpus_left(found)) == (A, "2,4-7")


def test_an_agent_is_not_believed_of_pods_of_other_nodes() -> None:
    found = observing()
    found.update_node(PAIR)
    found.update_pod("pair", on("a", 0))
    found.update_observed("made", {"a": A}, now=NOW)

    assert (found.observed("a"), free(found)) == (None, [0, 4])


def test_unknown_node_is_not_stored() -> None:
    found = Reservations()
    found.update_observed("made", {"a": A}, now=NOW)

    assert (found.is_observed("made"), found.observed("a")) == (False, None)


LEFT_OUT = [
    # what it shows                             what changes, what is said then,   what is left
    ("nothing else is known of it", lambda _: None, {"b": B}, "2,6-7"),
    ("it was deleted, and its kubelet is done with it",
     lambda made: made.update_pod("made", replace(bound("a"), terminating=True)), {"b": B}, "1-3,6-7"),
    ("another pod has its CPUs",
     lambda _: None, {"b": said("0 cpu=2 mem=1Gi", "2-3")}, "1,4-7"),
    ("another pod has its memory",
     lambda _: None, {"b": said("0 cpu=1 mem=9Gi", "2")}, "1,3-7"),
    ("the agent says that it holds nothing", lambda _: None, {"a": said(""), "b": B}, "1-3,6-7"),
    ("it has left", lambda made: made.remove_pod("a", now=NOW), {"b": B}, "1-3,6-7"),
    ("the agent says of no pod anything", lambda _: None, {}, "2,6-7"),
    ("the agent has gone", lambda _: None, None, "2,6-7"),
    ("the agent has gone, and then it was deleted",
     lambda made: made.update_pod("made", replace(bound("a"), terminating=True)), None, "2,6-7"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "then", "left"), table(LEFT_OUT))
def test_pod_missing_from_reports_keeps_its_claim(
    change: Callable[[Reservations], None], then: Mapping[str, PlacementRecord] | None, left: str
) -> None:
    found = observing(a=A, b=B)
    change(found)
    found.update_observed("made", then, now=NOW)

    assert (capacity(found, "made").basis, cpus_left(found)) == (Basis.OBSERVED, left)


def test_what_is_left_out_and_deleted_later_is_gone_then() -> None:
    found = observing(a=A, b=B)
    found.update_observed("made", {"b": B}, now=NOW)
    found.update_pod("made", replace(bound("a"), terminating=True))

    assert cpus_left(found) == "1-3,6-7"


def test_a_deleted_pod_that_the_agent_shows_holds_all_of_it() -> None:
    found = observing(a=A)
    found.update_pod("made", replace(bound("a"), terminating=True))

    assert cpus_left(found) == "2,4-7"


def test_nothing_of_a_pod_is_remembered_beyond_its_end() -> None:
    found = observing(a=A)
    found.update_observed("made", {}, now=NOW)
    found.remove_pod("a", now=NOW)
    found.update_pod("made", bound("a"))

    assert counted(found, "a").record is None


def test_impossible_report_falls_back_to_the_annotation() -> None:
    found = observing()
    recorded = PlacementRecord(zones("0 cpu=2 mem=1Gi"), Source.RECORDED)
    found.update_pod("made", replace(bound("a"), record=recorded))
    found.update_observed("made", {"a": said("0 cpu=2 mem=1Gi", "0-1")}, now=NOW)

    assert counted(found, "a").record == recorded
    assert [(name, pod.uid, pod.refuted) for name, pod in found.refuted()] == [
        ("made", "a", frozenset({CPU, MEMORY}))
    ]
    found.update_observed("made", {"a": A}, now=NOW)
    assert (counted(found, "a").record, found.count_refuted()) == (A, 0)


def test_invalid_report_keeps_the_last_claim() -> None:
    found = observing(a=A)
    found.update_pod("made", replace(bound("a"), terminating=True))
    found.update_observed("made", {"a": said("9 cpu=2", "1,3")}, now=NOW)

    assert (counted(found, "a").record, found.count_refuted()) == (A, 1)


def test_it_is_judged_by_the_node_as_it_is() -> None:
    found = observing(a=A)
    smaller = machine("cpu=0-1 mem=9Gi", "cpu=4-7 mem=9Gi", reserved="0", policy="single-numa-node")
    found.update_node(replace(smaller, name="made"))

    assert (found.observed("a"), found.count_refuted()) == (None, 1)
    found.update_node(MADE)
    assert (found.observed("a"), found.count_refuted()) == (A, 0)


def test_returning_node_has_its_pods() -> None:
    found = observing(a=A)
    found.remove_nodes(["made"])
    assert not found.is_observed("made")
    found.update_node(MADE)

    assert cpus_left(found) == "2,4-7"


def test_what_the_agent_shows_ends_the_doubt_of_a_pod(doubtful: Reservations) -> None:
    doubtful.update_observed("pair", {"late": said("0 cpu=4")}, now=NOW)

    assert [pod.doubtful for pod in doubtful.counted_pods()] == [False]
    assert (capacity(doubtful).basis, free(doubtful)) == (Basis.OBSERVED, [0, 4])


def test_agent_report_has_no_doubt() -> None:
    found = observing(leaver=A, late=B)
    found.remove_pod("leaver", now=NOW + 1)

    assert (capacity(found, "made").basis, cpus_left(found)) == (Basis.OBSERVED, "1-3,6-7")


def test_listener_gets_only_changed_nodes() -> None:
    found = observing(a=A)
    told = list[str]()
    found.on_change(told.append)
    for news in ({"a": A}, {"a": A, "stranger": B}, {"a": B, "stranger": B}, {"a": B, "stranger": B}):
        found.update_observed("made", news, now=NOW)

    assert told == ["made"]


def test_what_is_predicted_of_a_machine_has_its_cpus() -> None:
    """So the choice of its kubelet is known before it is made, for several pods on their way."""
    found = observing(a=A)
    records = [keep(found, pod(uid, 2, created=at), "made").record for at, uid in enumerate("bc", start=1)]

    assert [record and record.cpus and render_list(record.cpus) for record in records] == ["4-5", "6-7"]
    assert cpus_left(found) == "2"


def test_bound_pod_keeps_its_predicted_cpus() -> None:
    found = observing(a=A)
    prediction = keep(found, pod("b", 2), "made")
    assert prediction.record
    written = replace(prediction.record, source=Source.RECORDED, cpus=None)
    found.update_pod("made", replace(bound("b"), record=written))

    assert known(found, "b").record == replace(written, cpus=read_list("4-5"))


def test_predicted_cpus_of_another_pod_are_replaced() -> None:
    found = observing()
    prediction = keep(found, pod("b", 2), "made")
    found.update_pod("made", bound("a"))
    found.update_observed("made", {"a": said("0 cpu=1 mem=1Gi", "2")}, now=NOW)

    assert prediction.record == replace(said("0 cpu=2 mem=1Gi", "1-2"), source=Source.PREDICTED)
    assert (capacity(found, "made").exact, cpus_left(found)) == (True, "4-7")


def test_machine_without_reports_counts_in_amounts() -> None:
    found = observing(a=A)
    found.update_pod("made", bound("new"))

    assert (capacity(found, "made").basis, cpus_left(found)) == (Basis.REPORTED, "?")
    assert free_of(capacity(found, "made").node, "cpu") == [0, 2]
    found.update_observed("made", {"a": A, "new": B}, now=NOW)
    assert (capacity(found, "made").basis, cpus_left(found)) == (Basis.OBSERVED, "2,6-7")


def test_exclusive_cpus_count_bound_and_reserved_pods(reservations: Reservations) -> None:
    reservations.update_pod("pair", on("a", 0, 2))
    reservations.reserve("pair", pod("b", 3), None)
    reservations.update_pod("unknown", replace(pod("c", 4, stage=Stage.BOUND), name=("other", "c")))
    reservations.update_pod("pair", replace(pod("d", stage=Stage.BOUND), demand=None))

    reservations.reserve("pair", pod("e", 3), None)
    reservations.reserve("pair", replace(pod("to-come", 4), awaited=True), None)

    assert reservations.exclusive_cpus("team") == 8
    assert reservations.exclusive_cpus("team", without=["a", "a", "b", "c"]) == 3
    assert reservations.exclusive_cpus("other") == 4

    reservations.unreserve("b")
    reservations.remove_pod("a", now=NOW)

    assert reservations.exclusive_cpus("team") == 3


def test_a_node_that_pins_no_cpus_counts_none_until_it_does(reservations: Reservations) -> None:
    none = replace(PAIR, cpu_manager=CpuManager.NONE)
    reservations.update_pod("pair", on("a", 0, 2))
    reservations.update_node(none)
    assert reservations.exclusive_cpus("team") == 0
    reservations.update_node(replace(none, uncertain=frozenset({CPU})))
    assert reservations.exclusive_cpus("team") == 2
    reservations.update_node(none)
    assert reservations.exclusive_cpus("team") == 0
    reservations.remove_nodes(["pair"])
    assert reservations.exclusive_cpus("team") == 2
    reservations.update_node(none)
    reservations.update_node(PAIR)
    assert reservations.exclusive_cpus("team") == 2


def test_equal_uid_in_another_namespace_counts_apart(reservations: Reservations) -> None:
    """As files may say."""
    reservations.update_pod("pair", on("a", 0, 2))
    reservations.update_pod("other", replace(on("a", 0, 3), name=("else", "a")))
    assert [reservations.exclusive_cpus(each) for each in ("team", "else")] == [0, 3]

    reservations.remove_pod("a", now=NOW)
    assert [reservations.exclusive_cpus(each) for each in ("team", "else")] == [0, 0]


def test_pod_level_cpus_count_where_they_are_pinned(
    reservations: Reservations,
) -> None:
    level = "cpu=4 mem=1Gi"
    asked = demand.of(notation.pod("cpu=1 mem=1Gi", requests=level, limits=level))
    reservations.update_pod("pair", replace(pod("a", stage=Stage.BOUND), demand=asked))
    assert reservations.exclusive_cpus("team") == 0

    pinning = Options(gates=frozenset({FeatureGate.POD_LEVEL_MANAGERS}))
    reservations.update_node(replace(PAIR, options=pinning, scope=Scope.POD))

    assert reservations.exclusive_cpus("team") == 4
