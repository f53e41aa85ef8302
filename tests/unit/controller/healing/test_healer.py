"""Misaligned pods are moved one by one, with a place held for what comes, and never twice."""

import asyncio
import json

import pytest

from controller.healing.eviction_limits import Rates
from controller.healing.healer import HANDOVER_SECONDS
from controller.healing.marks import EVENT as MISALIGNED
from controller.healing.marks import LANDED_SECONDS
from numalign.kube.errors import Conflict, Failing, Forbidden, Throttled, Unreachable
from numalign.kube.pod_informer import UNMARKED
from numalign.model.intent import ALIGNED, PLACEMENT_OBSERVED
from tests.unit.controller.healing.conftest import (
    HEALED,
    SPREAD,
    TOGETHER,
    Cluster,
    Killed,
    Leader,
    a_cluster,
    web,
)
from tests.worlds.scorer import TEAM, uid


async def spread(cluster: Cluster, *names: str, owner: str = "web") -> None:
    """Pods that sit in two zones of the first node."""
    for name in names:
        await cluster.runs(web(name, owner), "a", SPREAD)


async def a_leader(cluster: Cluster, **facts: object) -> Leader:
    leader = Leader(cluster, **facts)  # type: ignore[arg-type]
    await cluster.publish()
    return leader


async def test_a_misaligned_pod_is_moved_to_where_its_replacement_is_aligned() -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)

    await leader.turns(700)

    assert [pod for _, pod in cluster.evicted] == [uid("web-1")]
    [(_, moved)] = cluster.pods.items()
    assert moved["spec"]["nodeName"] == "b"
    assert leader.count("numalign_healing_moves_total", outcome="asked") == 1
    assert leader.count("numalign_healing_moves_total", outcome="aligned") == 1
    assert len(leader.held) == 0
    assert leader.state.reservations.reserved() == ()


async def test_who_asks_says_why_and_of_which_pod() -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)

    await leader.turns(601)

    [eviction] = cluster.asked
    assert eviction["apiVersion"] == "policy/v1"
    assert eviction["deleteOptions"]["preconditions"] == {"uid": uid("web-1")}
    annotations = eviction["metadata"]["annotations"]
    assert annotations["requested-by"] == "numalign-controller"
    assert annotations["reason"].startswith('container "c0" holds cpu in zone 0 and zone 1')
    assert annotations["reason"].endswith("node b has room where it would be aligned")
    assert leader.reasons() == ["NUMAHealing"]


async def test_buckets_are_empty_at_the_beginning() -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)

    await leader.turns(600)
    assert cluster.evicted == []

    await leader.turns(1)
    assert len(cluster.evicted) == 1


async def test_a_place_is_held_before_a_pod_is_asked_to_go() -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)
    held = list[str | None]()
    cluster.after["evict"] = lambda: held.append(leader.held.node_of(uid("web-1")))

    await leader.turns(601, settle=False)

    assert held == ["b"]
    assert [pod.uid for pod in leader.state.reservations.reserved()] == [f"heal:{uid('web-1')}"]


async def test_nobody_is_moved_where_no_node_is_better() -> None:
    cluster = await a_cluster("a")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)

    await leader.turns(1000)

    assert cluster.evicted == []
    assert "another node that would align it now" in leader.told.of("healing.skipped")[0]["reason"]


async def test_a_wish_that_no_other_kubelet_would_meet_moves_nobody() -> None:
    cluster = await a_cluster("a", "b")
    cluster.nodes["b"] = cluster.nodes["a"]
    await cluster.runs(web("web-1", policy="best-effort"), "a", SPREAD)
    leader = await a_leader(cluster)

    await leader.turns(1000)

    assert cluster.evicted == []


async def test_one_pod_of_an_owner_at_a_time() -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1", "web-2", "web-3")
    leader = await a_leader(cluster)

    await leader.turns(601, settle=False)
    await leader.turns(1000, settle=False)
    assert len(cluster.evicted) == 1

    await leader.turns(1800)
    assert len({pod for _, pod in cluster.evicted}) == 3
    gaps = [
        later - earlier
        for (earlier, _), (later, _) in zip(cluster.evicted, cluster.evicted[1:], strict=False)
    ]
    assert min(gaps) >= 600


async def test_the_rate_of_the_cluster_holds_whatever_there_is_to_do() -> None:
    cluster = await a_cluster("a", *(f"n{at}" for at in range(40)))
    for at in range(60):
        cluster.nodes[f"s{at}"] = cluster.nodes["a"]
        await cluster.runs(web(f"web-{at}", f"owner-{at}"), f"s{at}", SPREAD)
    leader = await a_leader(cluster)

    await leader.turns(600 + 6 * 30)

    assert [at - 1000 for at, _ in cluster.evicted] == [*range(601, 781, 6)]


async def test_a_budget_is_obeyed_and_asked_later_and_later() -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)
    cluster.fails["evict"] = [
        Throttled("Cannot evict pod as it would violate the pod's disruption budget.")
    ] * 3

    await leader.turns(602)
    assert leader.count("numalign_healing_moves_total", outcome="budget") == 1
    assert len(leader.held) == 0
    assert leader.state.reservations.reserved() == ()

    await leader.turns(3000)
    assert len(cluster.evicted) == 1
    assert leader.count("numalign_healing_moves_total", outcome="budget") == 3


async def test_after_a_refusal_no_other_pod_of_the_owner_is_asked_for_in_the_same_turn() -> None:
    """Each refusal doubles the pause, and four pods may be read in a turn."""
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1", "web-2", "web-3")
    leader = await a_leader(cluster, rates=Rates(0, 0, 0))
    cluster.fails["evict"] = [Throttled("Cannot evict pod as it would violate the pod's disruption budget.")]

    await leader.turns(int(HANDOVER_SECONDS) + 2, settle=False)

    assert leader.count("numalign_healing_moves_total", outcome="budget") == 1
    assert cluster.evicted == []


async def test_two_budgets_are_told_and_that_is_all() -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)
    cluster.fails["evict"] = [
        Failing("This pod has more than one PodDisruptionBudget, which is not supported")
    ]

    await leader.turns(5000)

    assert cluster.evicted == []
    assert leader.reasons() == ["NUMAHealingStopped"]
    assert "two PodDisruptionBudgets" in leader.events[0].message
    assert len(leader.told.of("healing.stopped")) == 1


async def test_who_may_not_evict_is_told_so_once() -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)
    cluster.fails["evict"] = [Forbidden("no")] * 100

    await leader.turns(6000)

    assert len(leader.told.of("healing.forbidden")) == 1
    assert leader.state.reservations.reserved() == ()


async def test_a_pod_that_changed_since_it_was_read_is_looked_at_anew() -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)
    cluster.after["get"] = lambda: cluster.put(cluster.pods[TEAM, "web-1"])

    await leader.turns(601)
    assert cluster.evicted == []
    assert cluster.asked == []
    assert leader.state.reservations.reserved() == ()

    await leader.turns(1)
    assert len(cluster.evicted) == 1


async def test_a_write_to_the_pod_while_it_is_evicted_does_not_use_up_its_budget() -> None:
    """As a kubelet's: an API server has counted the pod by then, and would count it once more."""
    cluster = await a_cluster("a", "b", budget=1)
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)
    cluster.between = lambda: cluster.put(cluster.pods[TEAM, "web-1"])

    await leader.turns(601, settle=False)

    assert [pod for _, pod in cluster.evicted] == [uid("web-1")]
    assert leader.reasons() == ["NUMAHealing"]


async def test_a_pod_that_was_marked_is_evicted_once_the_mark_has_landed() -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster, rates=Rates(0, 0, 0))
    await leader.turns(HANDOVER_SECONDS)
    await leader.marks.turn()

    await leader.turns(LANDED_SECONDS - 1)
    assert cluster.evicted == []

    await leader.turns(1)
    assert len(cluster.evicted) == 1
    assert leader.state.pods[uid("new-1")].mark == UNMARKED


@pytest.mark.parametrize("error", [None, Unreachable("nobody answers")], ids=["written", "unanswered"])
async def test_a_mark_that_is_written_while_the_pod_is_read_goes_first(error: Exception | None) -> None:
    """Without an answer it may land on the API server later."""
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster, rates=Rates(0, 0, 0))
    await leader.turns(HANDOVER_SECONDS)
    cluster.fails["patch"] = [error] if error else []

    await asyncio.gather(leader.turns(1), leader.marks.turn())
    assert leader.reasons() == ([] if error else [MISALIGNED])
    assert cluster.evicted == []

    await leader.turns(LANDED_SECONDS)
    assert len(cluster.evicted) == 1


async def test_an_eviction_without_an_answer_is_followed_all_the_same() -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)

    def lost() -> None:
        raise Unreachable("nobody answers")

    cluster.after["evict"] = lost
    await leader.turns(700)

    assert len(cluster.evicted) == 1
    assert leader.count("numalign_healing_moves_total", outcome="unknown") == 1
    assert leader.count("numalign_healing_moves_total", outcome="aligned") == 1


async def test_an_eviction_that_never_came_there_lets_go_of_the_place() -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)
    cluster.fails["evict"] = [Unreachable("nobody answers")]

    await leader.turns(620)
    assert leader.held.is_held(uid("web-1"))

    await leader.turns(20)
    assert not leader.held.is_held(uid("web-1"))
    assert cluster.evicted == []


async def test_three_tries_in_vain_are_enough() -> None:
    cluster = await a_cluster("a", "b", "c")
    cluster.sits_as = SPREAD
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)

    await leader.turns(20_000, step=20)

    assert len(cluster.evicted) == 3
    assert leader.reasons().count("NUMAHealingStopped") == 1
    assert len(leader.told.of("healing.no_improvement")) == 3


async def test_after_a_day_it_is_tried_again() -> None:
    cluster = await a_cluster("a", "b", "c")
    cluster.sits_as = SPREAD
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)
    await leader.turns(6000, step=10)
    assert len(cluster.evicted) == 3

    cluster.time.seconds += 86_400
    cluster.sits_as = TOGETHER
    await leader.turns(10)

    assert len(cluster.evicted) == 4


async def test_an_owner_that_makes_nothing_anew_loses_one_pod_and_no_more() -> None:
    """As one whose uid stands in pods, and that is not there."""
    cluster = await a_cluster("a", "b")
    cluster.makes_anew = False
    await spread(cluster, "web-1", "web-2", "web-3")
    leader = await a_leader(cluster)

    await leader.turns(5000)

    assert len(cluster.evicted) == 1
    assert "no replacement was created" in leader.events[-1].message
    assert leader.count("numalign_healing_moves_total", outcome="lost") == 1
    assert leader.state.reservations.reserved() == ()


async def test_a_uid_of_an_owner_counts_in_its_own_namespace_alone() -> None:
    """Else a tenant could take what is held for another, or keep its pods from being moved."""
    cluster = await a_cluster("a", "b", "c")
    cluster.namespaces["other"] = {}
    await spread(cluster, "web-1")
    foreign = web("thief")
    foreign["metadata"] |= {"namespace": "other", "uid": "uid-of-thief"}
    foreign["spec"]["schedulingGates"] = [{"name": "numalign.io/placement"}]
    leader = await a_leader(cluster)
    cluster.after["evict"] = lambda: cluster.put(foreign)

    await leader.turns(601, settle=False)
    thief = leader.state.pods["uid-of-thief"]

    assert leader.held.take(thief, leader.state.pending_pod(foreign)) is None
    assert leader.held.is_held(uid("web-1"))


async def test_pods_with_two_controllers_stay() -> None:
    cluster = await a_cluster("a", "b")
    made = web("web-1")
    second = {**made["metadata"]["ownerReferences"][0], "name": "other", "uid": "uid-of-other"}
    made["metadata"]["ownerReferences"].append(second)
    await cluster.runs(made, "a", SPREAD)
    leader = await a_leader(cluster)

    await leader.turns(1000)

    assert cluster.evicted == []
    assert "several controllers" in leader.told.of("healing.skipped")[0]["reason"]


async def test_what_stands_on_the_pod_is_no_ground_to_end_it() -> None:
    cluster = await a_cluster("a", "b")
    amounts = {"node-0": {"cpu": "2", "memory": "1Gi"}, "node-1": {"cpu": "2"}}
    record = json.dumps([{"zones": [zone], "amount": amount} for zone, amount in amounts.items()])
    forged = web("web-1", annotations={PLACEMENT_OBSERVED: record, ALIGNED: "false"})
    await cluster.runs(forged, "a", TOGETHER)
    cluster.placements = {}
    leader = await a_leader(cluster)

    await leader.turns(1000)

    assert [entry.pod.name for entry in leader.alignments.misaligned()] == ["web-1"]
    assert cluster.evicted == []


@pytest.mark.parametrize(
    "labels",
    [{}, {"gate": "enabled"}, {"gate": "enabled", "heal": "failed"}, {"gate": "enabled", "heal": "none"}],
)
async def test_namespaces_that_do_not_say_so_are_left_alone(labels: dict[str, str]) -> None:
    cluster = await a_cluster("a", "b", namespaces={TEAM: labels})
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)

    await leader.turns(1000)

    assert cluster.evicted == []
    assert leader.events == []


@pytest.mark.parametrize("labels", [{}, {"gate": "enabled"}, {"heal": "running"}])
async def test_a_label_that_is_removed_while_a_move_is_planned_ends_it(labels: dict[str, str]) -> None:
    """The watch has not shown it yet."""
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)
    cluster.after["get"] = lambda: cluster.namespaces.update({TEAM: labels})

    await leader.turns(601, settle=False)

    assert (cluster.evicted, len(leader.held)) == ([], 0)
    assert leader.told.of("healing.failed") == []


@pytest.mark.parametrize(
    ("labels", "gates", "words"),
    [
        ({"heal": "running"}, True, "numalign.io/gate: enabled"),
        ({"heal": "running", "gate": "enabled"}, False, "--gates"),
    ],
    ids=["a namespace without gates", "a controller without gates"],
)
async def test_without_gates_nothing_is_moved_and_that_is_told_once(
    labels: dict[str, str], *, gates: bool, words: str
) -> None:
    cluster = await a_cluster("a", "b", namespaces={TEAM: labels})
    await spread(cluster, "web-1", "web-2")
    leader = await a_leader(cluster, gates=gates)

    await leader.turns(1000)

    assert cluster.evicted == []
    assert leader.reasons() == ["NUMANotHealed"]
    assert words in leader.events[0].message
    assert len(leader.told.of("healing.ungated")) == 1


async def test_who_does_not_lead_moves_nobody() -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster, leads=False)

    await leader.turns(1000)

    assert cluster.evicted == []


async def test_who_no_longer_leads_holds_nothing() -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)
    await leader.turns(601, settle=False)
    assert len(leader.held) == 1

    leader.leads = False
    await leader.turns(1)

    assert len(leader.held) == 0
    assert leader.state.reservations.reserved() == ()


STEPS = ["get", "evict"]


@pytest.mark.parametrize("method", STEPS)
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
async def test_a_leader_killed_in_the_middle_of_a_step(method: str, *, done: bool) -> None:
    """Before a call is heard, or after it was done and before its answer: no pod is lost, none goes twice."""
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    first = await a_leader(cluster)

    def killed() -> None:
        raise Killed

    if done:
        cluster.after[method] = killed
    else:
        cluster.fails[method] = [Killed()]
    with pytest.raises(Killed):
        await first.turns(700)
    first.kill()
    second = await a_leader(cluster)
    await second.turns(1400)

    uids = [pod for _, pod in cluster.evicted]
    assert len(uids) == len(set(uids))
    assert len(cluster.pods) == 1
    [pod] = cluster.pods.values()
    assert "deletionTimestamp" not in pod["metadata"]
    assert second.state.reservations.reserved() == ()


@pytest.mark.parametrize("seconds", [601, 602, 603])
async def test_a_leader_killed_while_its_replacement_comes(seconds: int) -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1", "web-2")
    first = await a_leader(cluster)
    await first.turns(seconds, settle=False)
    assert len(cluster.evicted) == 1
    first.kill()

    second = await a_leader(cluster)
    # The pod is on its way out still, and another waits at the gate: nobody of this owner is asked to go.
    await second.turns(1000, settle=False)
    assert len(cluster.evicted) == 1

    await second.turns(1000)
    uids = [pod for _, pod in cluster.evicted]
    assert sorted(uids) == [uid("web-1"), uid("web-2")]
    assert len(cluster.pods) == 2


async def test_a_new_leader_waits_until_what_was_begun_has_landed() -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster, rates=Rates(0, 0, 0))

    await leader.turns(HANDOVER_SECONDS)
    assert cluster.evicted == []

    await leader.turns(2)
    assert len(cluster.evicted) == 1


async def test_a_replacement_that_its_kubelet_refuses_was_in_vain() -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)
    await leader.turns(601, settle=False)
    [new] = [pod for pod in cluster.pods.values() if pod["metadata"]["name"].startswith("new")]

    cluster.put({**new, "spec": {**new["spec"], "nodeName": "b"}, "status": {"phase": "Failed"}})
    await leader.turns(2, settle=False)

    assert leader.count("numalign_healing_moves_total", outcome="misaligned") == 1
    assert len(leader.held) == 0


@pytest.mark.parametrize("error", [Unreachable, Conflict])
@pytest.mark.parametrize("method", ["get", "get namespace"])
async def test_a_pod_that_cannot_be_read_is_read_later(error: type[Exception], method: str) -> None:
    cluster = await a_cluster("a", "b")
    await spread(cluster, "web-1")
    leader = await a_leader(cluster)
    cluster.fails[method] = [error("nobody answers")]

    await leader.turns(602)
    assert cluster.evicted == []
    assert len(leader.told.of("healing.failed")) == 1

    await leader.turns(100)
    assert len(cluster.evicted) == 1
    assert MISALIGNED not in leader.reasons()


async def test_it_looks_as_often_as_the_rate_asks_for_however_long_that_takes() -> None:
    cluster = await a_cluster("a", "b")
    leader = await a_leader(cluster, rates=Rates(0, 0, 0.5))
    looked = list[float]()

    async def slow() -> None:
        looked.append(cluster.time())
        cluster.time.seconds += 0.2
        if len(looked) == 4:
            raise Killed

    leader.healer.turn = slow  # type: ignore[method-assign]
    with pytest.raises(Killed):
        await leader.healer.run()

    assert looked == pytest.approx([1000, 1000.5, 1001, 1001.5])


async def test_a_pod_whose_replacement_no_gate_would_hold_back_stays() -> None:
    cluster = await a_cluster("a", "b")
    await cluster.runs(web("web-1", spec={"schedulerName": "volcano"}), "a", SPREAD)
    leader = await a_leader(cluster)

    await leader.turns(1000)
    assert cluster.evicted == []

    cluster.namespaces[TEAM] = {**HEALED, "scheduler": "numalign-scheduler"}
    await spread(cluster, "web-2", owner="other")
    await cluster.publish()
    await leader.turns(1000)
    assert cluster.evicted == []


async def test_the_default_scheduler_is_no_other() -> None:
    cluster = await a_cluster("a", "b")
    await cluster.runs(web("web-1", spec={"schedulerName": "default-scheduler"}), "a", SPREAD)
    leader = await a_leader(cluster)

    await leader.turns(700)

    assert len(cluster.evicted) == 1
