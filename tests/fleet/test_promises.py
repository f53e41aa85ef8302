"""What nodes have promised, from the first question to the last pod that leaves."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from numalign.fleet.promises import KEPT_SECONDS, LAG_SECONDS, RELEASE_SECONDS, Promises
from numalign.rules.attributes import Attributes
from numalign.rules.ledger import (
    MOST_RECENT,
    Account,
    Basis,
    Offer,
    PodName,
    Record,
    Resident,
    Source,
    Stage,
    Standing,
    Told,
)
from numalign.rules.placement import Held
from numalign.rules.topology import Node
from tests.notation import asks, bag, free_of, node, table

NOW = 1000.0
PAIR = replace(node("cpu=4", "cpu=4", policy="single-numa-node"), name="pair")
OTHER = replace(PAIR, name="other")
FULL = replace(node("cpu=4//0", "cpu=4//0", policy="single-numa-node"), name="pair")


def held(zone: int, cpus: int) -> Held:
    return {(f"node-{zone}",): bag(f"cpu={cpus}")}


def pod(
    uid: str, cpus: int = 4, *, stage: Stage = Stage.PROMISED, created: int = 0, since: float = NOW
) -> Resident:
    """A pod that nothing is recorded of."""
    return Resident(uid, ("team", uid), asks(f"cpu={cpus} mem=1Gi"), stage, since=since, created=created)


def on(uid: str, zone: int, cpus: int = 4, *, since: float = NOW) -> Resident:
    """A pod that its kubelet has taken, and of which it is recorded what it holds."""
    record = Record(held(zone, cpus), Source.RECORDED)
    return replace(pod(uid, cpus, stage=Stage.ADMITTED, since=since), record=record)


def of(*names: str) -> Told:
    """A fingerprint of these pods, that nothing else has."""
    pods = frozenset(("team", name) for name in names)

    def told(
        _node: Node, certain: Sequence[Resident], perhaps: Sequence[Resident]
    ) -> frozenset[PodName] | None:
        sure = {each.name for each in certain}
        return pods if sure <= pods <= sure | {each.name for each in perhaps} else None

    return told


def ledger(*nodes: Node) -> Promises:
    promises = Promises()
    for each in nodes or (PAIR, OTHER):
        promises.report(each)
    return promises


def free(promises: Promises, name: str = "pair", *, now: float = NOW) -> list[int]:
    """Whole CPUs free in each zone."""
    found = promises.standing(name, now=now)
    assert found
    return free_of(found.node, "cpu")


def basis(promises: Promises, *, now: float = NOW) -> Basis:
    found = promises.standing("pair", now=now)
    assert found
    return found.basis


def asked(
    promises: Promises, resident: Resident, place: str = "pair", *, beside: Sequence[str] = ()
) -> Offer:
    found = promises.offer(
        place, asks(_written(resident)), created=resident.created, now=resident.since, beside=beside
    )
    assert found
    return found


def _written(resident: Resident) -> str:
    assert resident.demand
    return f"cpu={resident.demand.steps[0].cpu // 1000} mem=1Gi"


def keep(promises: Promises, resident: Resident, place: str = "pair") -> Offer:
    """Promise a pod what a node offers to it."""
    found = asked(promises, resident, place)
    promises.promise(place, resident, found)
    return found


def known(promises: Promises, uid: str) -> Resident:
    found = promises.resident(uid)
    assert found
    return found


def agree(promises: Promises) -> bool:
    """Whether all ways of asking where pods are say the same."""
    residents = {each.uid: each for each in promises.residents()}
    promised = {each.uid for each in promises.promised()}
    return all(
        promises.place_of(uid) and promises.resident(uid) == each for uid, each in residents.items()
    ) and promised == {uid for uid, each in residents.items() if each.stage is Stage.PROMISED}


# Promises.


def test_what_is_promised_is_not_offered_again() -> None:
    promises = ledger()
    keep(promises, pod("a", created=1))

    assert free(promises) == [0, 4]
    assert asked(promises, pod("b", created=2)).place == held(1, 4)
    keep(promises, pod("b", created=2))
    assert not asked(promises, pod("c", created=3)).verdict.admitted
    assert free(promises, "other") == [4, 4]


def test_a_promise_that_is_withdrawn_is_as_if_it_had_never_been_made() -> None:
    promises = ledger()
    keep(promises, pod("a"))
    promises.withdraw("a")

    assert (free(promises), promises.place_of("a"), promises.promised()) == ([4, 4], None, ())
    assert agree(promises)


def test_what_is_on_a_node_cannot_be_withdrawn() -> None:
    promises = ledger()
    promises.put("pair", on("a", 0))
    promises.withdraw("a")

    assert free(promises) == [0, 4]


def test_a_second_promise_takes_the_place_of_the_first() -> None:
    promises = ledger()
    keep(promises, pod("a"))
    keep(promises, pod("a"), "other")

    assert (free(promises), free(promises, "other")) == ([4, 4], [0, 4])
    assert promises.place_of("a") == "other"
    assert agree(promises)


def test_a_promise_expires_when_its_pod_is_not_seen_in_time() -> None:
    promises = ledger()
    keep(promises, pod("a"))
    keep(promises, pod("b", since=NOW + 1))

    assert promises.expire(NOW + KEPT_SECONDS - 0.1) == ()
    assert [each.uid for each in promises.expire(NOW + KEPT_SECONDS)] == ["a"]
    assert (promises.place_of("a"), promises.place_of("b")) == (None, "pair")


def test_a_promise_to_a_pod_that_was_seen_does_not_expire() -> None:
    promises = ledger()
    keep(promises, pod("a"))
    promises.put("pair", pod("a", stage=Stage.BOUND))

    assert promises.expire(NOW + 10 * KEPT_SECONDS) == ()
    assert free(promises) == [0, 4]


def test_a_node_without_a_topology_offers_nothing_and_can_be_promised() -> None:
    promises = ledger()
    promises.promise("dark", pod("a"), None)

    assert promises.offer("dark", asks("cpu=1 mem=1Gi"), now=NOW) is None
    assert (promises.standing("dark", now=NOW), promises.account("dark")) == (None, None)
    assert promises.place_of("a") == "dark"
    # Once it is known, the pod holds nobody knows what.
    promises.report(replace(PAIR, name="dark"))
    assert free(promises, "dark") == [0, 0]


def test_a_promise_is_amended_by_what_the_node_offers_later() -> None:
    promises = ledger()
    promises.put("pair", on("gone", 0))
    keep(promises, pod("a"))
    promises.drop("gone", now=NOW)
    assert known(promises, "a").record is None

    promises.amend("a", asked(promises, pod("a"), beside=promises.since("a")))
    assert known(promises, "a").record == Record(held(0, 4), Source.PREDICTED)
    assert not known(promises, "a").doubtful


def test_only_a_promise_is_amended() -> None:
    promises = ledger()
    offer = asked(promises, pod("a"))
    promises.put("pair", on("a", 1))
    promises.amend("a", offer)
    promises.amend("nobody", offer)

    assert (free(promises), promises.place_of("nobody")) == ([4, 0], None)


def test_those_after_a_pod_are_those_that_were_promised_the_node_later() -> None:
    promises = ledger()
    for uid in "abc":
        keep(promises, pod(uid, 1))
    keep(promises, pod("elsewhere", 1), "other")
    promises.put("pair", on("foreign", 1, 1))

    assert (promises.since("a"), promises.since("b")) == (("a", "b", "c"), ("b", "c"))
    assert promises.since("nobody") == ()


def test_a_pod_is_asked_about_beside_those_after_it_as_if_they_were_not_there() -> None:
    promises = ledger()
    for uid in "ab":
        keep(promises, pod(uid))

    assert asked(promises, pod("a"), beside=promises.since("a")).place == held(0, 4)
    # Nor does the promise of a pod stand in its own way; who is elsewhere is no matter here.
    assert asked(promises, pod("b"), beside=("b", "nobody")).place == held(1, 4)
    keep(promises, pod("c"), "other")
    assert not asked(promises, pod("d"), beside=("c",)).verdict.admitted


def test_a_victim_is_credited_once() -> None:
    promises = ledger(FULL)
    promises.report(FULL, of("a", "b", "stranger"))
    promises.put("pair", on("a", 0))
    promises.put("pair", on("b", 1, 2))
    promises.put("pair", pod("stranger", 2, stage=Stage.ADMITTED))
    once = asked(promises, pod("preemptor", created=1), beside=("a",))
    twice = asked(promises, pod("preemptor", created=1), beside=("a", "a"))

    assert once.basis is Basis.ANCHORED
    assert free_of(once.node, "cpu") == free_of(twice.node, "cpu") == [4, 0]
    promises.drop("a", now=NOW + 100)
    promises.drop("a", now=NOW + 100)
    assert free(promises) == [4, 0]
    promises.report(replace(PAIR, zones=node("cpu=4", "cpu=4//0").zones), of("b", "stranger"))
    assert free(promises) == [4, 0]


def test_nobodys_place_depends_on_a_pod_of_which_it_is_uncertain_whether_it_was_bound() -> None:
    promises = ledger()
    keep(promises, pod("a", created=1))
    later = pod("b", created=2)
    assert asked(promises, later).stands

    promises.set_adrift("a")
    assert [each.uid for each in asked(promises, later).waits_for] == ["a"]
    promises.put("pair", replace(pod("a", created=1, stage=Stage.BOUND)))
    assert asked(promises, later).stands
    # In which order it came, beside those that were bound meanwhile, is not known even then.
    assert known(promises, "a").adrift


def test_only_of_a_promise_it_can_be_uncertain() -> None:
    promises = ledger()
    promises.put("pair", on("a", 0))
    promises.set_adrift("a")
    promises.set_adrift("nobody")

    assert known(promises, "a") == on("a", 0)


# Pods that are seen.


def test_a_promise_follows_its_pod() -> None:
    promises = ledger()
    keep(promises, pod("a"))
    promises.put("pair", pod("a", stage=Stage.BOUND, since=NOW + 1))
    promises.put("pair", pod("a", stage=Stage.ADMITTED, since=NOW + 2))
    found = known(promises, "a")

    assert (found.stage, found.since, found.turn) == (Stage.ADMITTED, NOW + 2, 1)
    assert found.record == Record(held(0, 4), Source.PREDICTED)
    assert promises.promised() == ()


def test_what_is_better_known_counts() -> None:
    promises = ledger()
    keep(promises, pod("a"))
    promises.put("pair", replace(on("a", 1), record=Record(held(1, 4), Source.OBSERVED)))

    assert free(promises) == [4, 0]


def test_a_pod_comes_to_its_stage_only_once() -> None:
    promises = ledger()
    promises.put("pair", on("a", 0))
    before = promises.standing("pair", now=NOW)
    promises.put("pair", on("a", 0, since=NOW + 5))

    assert known(promises, "a").since == NOW
    # Nothing changed, so nothing is worked out again.
    assert promises.standing("pair", now=NOW) is before


def test_a_pod_that_was_promised_one_node_and_bound_to_another_counts_there_alone() -> None:
    promises = ledger()
    keep(promises, pod("a"))
    promises.put("other", on("a", 1))

    assert (free(promises), free(promises, "other")) == ([4, 4], [4, 0])
    assert promises.place_of("a") == "other"
    assert agree(promises)


def test_a_pod_on_its_way_that_ends_holds_nothing() -> None:
    promises = ledger()
    keep(promises, pod("a"))
    promises.drop("a", now=NOW)
    promises.drop("a", now=NOW)
    promises.drop("nobody", now=NOW)

    assert (free(promises), list(promises.residents()), promises.promised()) == ([4, 4], [], ())


def test_so_many_that_left_last_may_still_be_in_a_topology() -> None:
    promises = ledger(FULL)
    promises.put("pair", pod("stranger", stage=Stage.ADMITTED))
    gone = [f"gone-{at}" for at in range(MOST_RECENT + 1)]
    for uid in gone:
        promises.put("pair", on(uid, 0, 1))
        promises.drop(uid, now=NOW)
    account = promises.account("pair")

    assert account
    assert [each.uid for each in account.left] == gone[1:]


def test_a_pod_that_comes_back_has_not_left() -> None:
    promises = ledger()
    promises.put("pair", on("a", 0))
    promises.drop("a", now=NOW)
    promises.put("pair", on("a", 0))
    account = promises.account("pair")

    assert account
    assert (account.left, [each.uid for each in account.residents]) == ((), ["a"])


# Doubt.


def doubtful() -> Promises:
    """A pod was promised zone 1 beside one on zone 0, and that one left when it came."""
    promises = ledger()
    promises.put("pair", on("leaver", 0, since=NOW - 100))
    keep(promises, pod("late", created=1))
    promises.put("pair", replace(on("late", 1, since=NOW - 1), created=1))
    promises.drop("leaver", now=NOW)
    return promises


def test_a_pod_that_may_have_found_the_room_of_a_leaver_is_not_believed() -> None:
    promises = doubtful()
    found = known(promises, "late")

    assert (found.record, found.guess, found.doubtful) == (None, held(1, 4), True)
    assert basis(promises) is Basis.REPORTED
    assert free(promises) == [0, 0]


def test_a_pod_that_was_only_promised_may_have_come_and_gone() -> None:
    """Of one that was bound and ended while nobody could watch, nothing is heard but its end."""
    promises = ledger()
    keep(promises, pod("brief", created=1))
    keep(promises, pod("late", created=2))
    promises.put("pair", replace(on("late", 1, since=NOW - 1), created=2))
    promises.drop("brief", now=NOW)

    assert known(promises, "late").doubtful


def test_what_was_recorded_of_it_stays_in_doubt() -> None:
    promises = doubtful()
    promises.put("pair", replace(on("late", 1), leaving=True))

    assert known(promises, "late").record is None


def test_what_is_seen_ends_the_doubt() -> None:
    promises = doubtful()
    promises.put("pair", replace(on("late", 0), record=Record(held(0, 4), Source.OBSERVED)))

    assert (basis(promises), free(promises)) == (Basis.OBSERVED, [0, 4])


def test_a_pod_that_came_long_before_is_believed() -> None:
    promises = ledger()
    promises.put("pair", on("leaver", 0, since=NOW - 100))
    promises.put("pair", on("settled", 1, since=NOW - RELEASE_SECONDS - 1))
    promises.drop("leaver", now=NOW)

    assert (basis(promises), free(promises)) == (Basis.OBSERVED, [4, 0])


def test_on_a_node_without_a_topology_there_is_nothing_to_doubt() -> None:
    promises = Promises()
    promises.put("dark", on("leaver", 0))
    promises.put("dark", on("late", 1))
    promises.drop("leaver", now=NOW)

    assert known(promises, "late").record


# Topologies.


def test_a_lagging_topology_accounts_for_a_pod_in_the_end() -> None:
    promises = ledger(replace(PAIR, zones=node("cpu=4//1", "cpu=4").zones))
    promises.put("pair", pod("stranger", 3, stage=Stage.ADMITTED))

    assert free(promises) == [1, 1]
    assert free(promises, now=NOW + LAG_SECONDS - 0.1) == [1, 1]
    assert free(promises, now=NOW + LAG_SECONDS) == [1, 4]


def test_what_is_worked_out_is_kept_until_something_changes() -> None:
    promises = ledger()
    first = promises.standing("pair", now=NOW)

    assert promises.standing("pair", now=NOW + 10_000) is first
    promises.report(PAIR)
    assert promises.standing("pair", now=NOW) is first
    promises.put("other", on("a", 0))
    assert promises.standing("pair", now=NOW) is first
    promises.put("pair", on("b", 0))
    assert promises.standing("pair", now=NOW) is not first


def test_what_is_worked_out_is_kept_when_a_node_is_labelled_and_cordoned() -> None:
    promises, heard = ledger(), list[str]()
    promises.put("pair", on("a", 0))
    first = promises.standing("pair", now=NOW)
    promises.listen(heard.append)

    cordoned = replace(PAIR, label="a-class", attributes=Attributes(cordoned=True))
    promises.report(cordoned)
    after = promises.standing("pair", now=NOW)
    assert first
    assert after
    assert after == replace(first, node=replace(first.node, label="a-class", attributes=cordoned.attributes))
    assert all(one is other for one, other in zip(after.node.zones, first.node.zones, strict=True))
    assert heard == ["pair"]
    assert _account(promises).node is cordoned

    promises.put("pair", replace(on("b", 1), stage=Stage.BOUND))
    assert free(promises) == [0, 0]


def _account(promises: Promises) -> Account:
    found = promises.account("pair")
    assert found
    return found


def test_what_is_free_on_a_node_that_falls_ill_is_worked_out_anew() -> None:
    promises = ledger()
    promises.put("pair", on("a", 0))
    assert free(promises) == [0, 4]

    lacking = replace(node("cpu=4", "cpu=3", policy="single-numa-node"), name="pair", health=PAIR)
    promises.report(lacking)
    assert free(promises) == [0, 3]
    assert _standing(promises).node.health is PAIR

    promises.report(PAIR)
    assert free(promises) == [0, 4]
    assert _standing(promises).node.health is None


def _standing(promises: Promises) -> Standing:
    found = promises.standing("pair", now=NOW)
    assert found
    return found


def test_whoever_listens_is_told_of_which_node_nothing_holds_any_more() -> None:
    promises, heard = ledger(), list[str]()
    promises.listen(heard.append)

    def told() -> list[str]:
        found, heard[:] = sorted({*heard}), []
        return found

    promises.report(PAIR)
    assert told() == []
    promises.report(FULL)
    assert told() == ["pair"]
    promises.report(FULL, of("a"))
    assert told() == ["pair"]
    promises.put("pair", on("a", 0))
    assert told() == ["pair"]
    promises.put("pair", on("a", 0))
    assert told() == []
    promises.put("other", on("a", 0))
    assert told() == ["other", "pair"]
    promises.drop("a", now=NOW)
    assert told() == ["other"]
    promises.told_of_all(complete=True)
    assert told() == []
    promises.told_of_all(complete=False)
    assert told() == ["other", "pair"]
    promises.unreport(["other"])
    assert told() == ["other"]


def test_whoever_listens_is_told_of_a_node_where_a_pod_is_no_longer_believed() -> None:
    promises, heard = ledger(), list[str]()
    promises.put("pair", on("old", 0, since=NOW - 100))
    promises.put("pair", on("late", 1))
    promises.listen(heard.append)
    promises.leaving("old", now=NOW)

    assert heard == ["pair"]


def test_a_standing_that_time_alone_changes_says_when() -> None:
    promises = ledger()
    promises.put("pair", pod("a", stage=Stage.ADMITTED))
    assert (promises.until("pair"), promises.until("nobody")) == (math.inf, math.inf)

    promises.standing("pair", now=NOW)
    promises.standing("other", now=NOW)
    assert (promises.until("pair"), promises.until("other")) == (NOW + LAG_SECONDS, math.inf)


def test_a_new_fingerprint_says_something_new_of_the_same_amounts() -> None:
    promises = ledger()
    promises.put("pair", pod("stranger", stage=Stage.ADMITTED))
    assert basis(promises) is Basis.REPORTED

    promises.report(PAIR, of("stranger"))
    assert basis(promises) is Basis.ANCHORED


def test_a_node_that_loses_its_topology_keeps_its_pods() -> None:
    promises = ledger()
    promises.put("pair", on("a", 0))
    promises.unreport(["pair", "other", "nobody"])

    assert promises.standing("pair", now=NOW) is None
    assert list(promises.reported()) == []
    promises.report(PAIR)
    assert (free(promises), list(promises.reported())) == ([0, 4], ["pair"])


def test_where_pods_are_not_told_of_the_topology_is_the_only_word() -> None:
    promises = ledger(FULL)
    assert free(promises) == [4, 4]

    promises.told_of_all(complete=False)
    assert (basis(promises), free(promises)) == (Basis.REPORTED, [0, 0])
    promises.told_of_all(complete=True)
    assert (basis(promises), free(promises)) == (Basis.OBSERVED, [4, 4])


def test_it_is_visible_on_what_nodes_stand() -> None:
    promises = ledger()
    promises.put("other", pod("stranger", stage=Stage.ADMITTED))
    assert promises.bases() == dict.fromkeys(Basis, 0)

    for name in ("pair", "other"):
        promises.standing(name, now=NOW)
    assert promises.bases() == {Basis.OBSERVED: 1, Basis.ANCHORED: 0, Basis.REPORTED: 1}


STAGES = [(str(stage), stage) for stage in Stage]


@pytest.mark.parametrize("stage", table(STAGES))
def test_nothing_is_left_of_a_node_that_is_gone_with_its_pods(stage: Stage) -> None:
    promises = Promises()
    if stage is Stage.PROMISED:
        promises.promise("dark", pod("a"), None)
    else:
        promises.put("dark", pod("a", stage=stage))
    promises.drop("a", now=NOW)
    promises.report(replace(PAIR, name="dark"))
    account = promises.account("dark")

    # Not even the pods that left.
    assert account
    assert (account.residents, account.left) == ((), ())


def test_a_promise_that_moves_is_guessed_where_its_pod_is() -> None:
    promises = ledger()
    keep(promises, pod("a"), "pair")
    promises.put("other", pod("a", stage=Stage.BOUND))

    moved = known(promises, "a")
    assert (moved.record, moved.guess) == (None, held(0, 4))
    assert (free(promises, "pair"), promises.place_of("a")) == ([4, 4], "other")


def test_from_its_deletion_on_a_pod_is_believed_by_nobody_that_came_late() -> None:
    promises = ledger()
    promises.put("pair", on("old", 0, since=NOW - 100))
    keep(promises, pod("late"))
    promises.put("pair", pod("late", stage=Stage.ADMITTED))
    before = known(promises, "late").doubtful, basis(promises)
    promises.leaving("old", now=NOW + 1)

    assert (before, (known(promises, "late").doubtful, basis(promises))) == (
        (False, Basis.OBSERVED),
        (True, Basis.REPORTED),
    )


def test_nothing_is_at_risk_on_a_node_that_nobody_knows() -> None:
    assert ledger().at_risk("nowhere", asks("cpu=1 mem=1Gi"), now=NOW) == ()


def test_a_pod_is_at_risk_for_those_that_came_before_it_alone() -> None:
    promises = ledger(
        replace(node("cpu=4 gpu=1", "cpu=3", "cpu=3 gpu=1", policy="single-numa-node"), name="pair")
    )
    record = Record({("node-0",): bag("gpu=1")}, Source.RECORDED)
    holder = Resident("holder", ("team", "holder"), asks("gpu=1"), Stage.ADMITTED, since=0, record=record)
    promises.put("pair", holder)
    early = Resident("early", ("team", "early"), asks("cpu=1 mem=1Gi gpu=1"), Stage.PROMISED, since=NOW)
    found = promises.offer("pair", asks("cpu=1 mem=1Gi gpu=1"), now=NOW)
    promises.promise("pair", early, found)

    asked_now = asks("cpu=4 mem=1Gi")
    assert [each.uid for each in promises.at_risk("pair", asked_now, now=NOW)] == ["early"]
    assert promises.at_risk("pair", asked_now, now=NOW, beside=["early"]) == ()
