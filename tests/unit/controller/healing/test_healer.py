"""Misaligned pods are moved one by one, with a place held for the replacement, and never twice."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest

from controller.healing.eviction_limits import Rates
from controller.healing.healer import HANDOVER_SECONDS
from controller.healing.marks import EVENT as MISALIGNED
from controller.healing.marks import LANDED_SECONDS
from controller.held import reservation_of
from numalign.kube.errors import Failing, Throttled
from numalign.kube.pod_informer import UNMARKED
from numalign.model.intent import ALIGNED, PLACEMENT_OBSERVED
from tests.unit.controller.healing.conftest import (
    HEALED,
    LOOSE,
    SPREAD,
    TOGETHER,
    Cluster,
    Killed,
    lead,
    misaligned,
    nodes,
    web,
)
from tests.worlds.notation import table
from tests.worlds.scorer import TEAM, Raw, raw, uid
from tests.worlds.write_faults import UNREACHABLE

AT_ONCE = Rates(0, 0, 0)
BUDGET = Throttled("Cannot evict pod as it would violate the pod's disruption budget.")


@pytest.mark.parametrize("spec", [{}, {"schedulerName": "default-scheduler"}], ids=str)
async def test_misaligned_pod_moves_to_where_it_is_aligned(spec: dict[str, str]) -> None:
    cluster, leader = await misaligned(web("web-1", spec=spec))
    held = list[str | None]()
    place = reservation_of(uid("web-1"))
    cluster.after["evict"] = lambda: held.append(leader.state.reservations.node_of(place))
    await leader.turns(700)

    assert cluster.uids() == [uid("web-1")]
    [pod] = cluster.pods.values()
    assert pod["spec"]["nodeName"] == "b"
    assert (leader.moved("asked"), leader.moved("aligned")) == (1, 1)
    assert held == ["b"]
    assert leader.holds_nothing()

    [eviction] = cluster.evictions
    assert eviction["apiVersion"] == "policy/v1"
    assert eviction["deleteOptions"]["preconditions"] == {"uid": uid("web-1")}
    annotations = eviction["metadata"]["annotations"]
    assert annotations["requested-by"] == "numalign-controller"
    assert annotations["reason"].startswith('container "c0" holds cpu in zone 0 and zone 1')
    assert annotations["reason"].endswith("node b has room where it would be aligned")
    assert leader.reasons() == ["NUMAHealing"]


GATED = {"gate": "enabled"}
OWNERS = [
    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
    for name in "ab"
]
TWO_CONTROLLERS = raw("cpu=4 mem=1Gi", name="web-1", ownerReferences=OWNERS)
VOLCANO = web("web-1", spec={"schedulerName": "volcano"})
OTHER_SCHEDULER = {**HEALED, "scheduler": "numalign-scheduler"}
UNGATED = ["NUMANotHealed"]
STAYS: list[tuple[str, Raw, dict[str, Any], list[str], str]] = [
    # the pod, the cluster and controller, events, and words of the log or the event
    ("no node is better", web("web-1"), {"nodes": nodes("a")}, [], "another node that would align it now"),
    ("another kubelet would not align it either", web("web-1", policy="best-effort"),
     {"nodes": {"a": LOOSE, "b": LOOSE}}, [], ""),
    ("it has two controllers", TWO_CONTROLLERS, {}, [], "several controllers"),
    ("its scheduler has no gates", VOLCANO, {}, [], ""),
    ("its namespace has another scheduler", web("web-1"), {"namespaces": {TEAM: OTHER_SCHEDULER}}, [], ""),
    ("rejected pods alone heal", web("web-1"), {"namespaces": {TEAM: {**GATED, "heal": "failed"}}}, [], ""),
    ("its namespace has no gates", web("web-1"), {"namespaces": {TEAM: {"heal": "running"}}}, UNGATED,
     "numalign.io/gate: enabled"),
    ("the controller has no gates", web("web-1"), {"gates": False}, UNGATED, "--gates"),
    ("another replica leads", web("web-1"), {"leads": False}, [], ""),
]  # fmt: skip


@pytest.mark.parametrize(("made", "facts", "events", "words"), table(STAYS))
async def test_pod_stays_if(made: Raw, facts: dict[str, Any], events: list[str], words: str) -> None:
    cluster, leader = await misaligned(made, **facts)
    await leader.turns(1000)

    assert (cluster.evicted, leader.reasons()) == ([], events)
    assert len(leader.log.of("healing.ungated")) == len(events)
    texts = [event.message for event in leader.events]
    texts += [line["reason"] for line in leader.log.of("healing.skipped")]
    assert not words or words in texts[0]


async def test_annotations_of_a_pod_are_no_reason_to_evict_it() -> None:
    cluster = Cluster()
    amounts = {"node-0": {"cpu": "2", "memory": "1Gi"}, "node-1": {"cpu": "2"}}
    record = json.dumps([{"zones": [zone], "amount": amount} for zone, amount in amounts.items()])
    cluster.run(web("web-1", annotations={PLACEMENT_OBSERVED: record, ALIGNED: "false"}), "a", TOGETHER)
    cluster.placements = {}
    leader = await lead(cluster)
    await leader.turns(1000)

    assert [entry.pod.name for entry in leader.alignments.misaligned()] == ["web-1"]
    assert cluster.evicted == []


async def test_owner_loses_one_pod_at_a_time() -> None:
    cluster, leader = await misaligned("web-1", "web-2", "web-3")
    await leader.turns(1601, settle=False)
    assert len(cluster.evicted) == 1

    await leader.turns(1800)
    assert len({*cluster.uids()}) == 3
    assert min(later - earlier for (earlier, _), (later, _) in pairwise(cluster.evicted)) >= 600


async def test_budget_is_obeyed_with_growing_pauses() -> None:
    """A refusal ends the turn of its owner, and four pods may be read in a turn."""
    cluster, leader = await misaligned("web-1", "web-2", "web-3", rates=AT_ONCE)
    cluster.fails["evict"] = [BUDGET] * 3
    await leader.turns(HANDOVER_SECONDS + 2)
    assert (leader.moved("budget"), cluster.evicted, leader.holds_nothing()) == (1, [], True)

    await leader.turns(3000)
    assert (len(cluster.evicted), leader.moved("budget")) == (3, 3)


async def test_uid_of_an_owner_counts_in_its_namespace_alone() -> None:
    """Else a tenant could take the place of another, or keep its pods from being moved."""
    cluster, leader = await misaligned("web-1", nodes=nodes("abc"))
    cluster.namespaces["other"] = {}
    foreign = web("thief")
    foreign["metadata"] |= {"namespace": "other", "uid": "uid-of-thief"}
    foreign["spec"]["schedulingGates"] = [{"name": "numalign.io/placement"}]
    cluster.after["evict"] = lambda: cluster.put(foreign)
    await leader.turns(601, settle=False)

    thief = leader.state.pods["uid-of-thief"]
    assert leader.held.take(thief, leader.state.pending_pod(foreign)) is None
    assert leader.held.is_held(uid("web-1"))


@pytest.mark.parametrize("labels", [{"gate": "enabled"}, {"heal": "running"}], ids=str)
async def test_removed_label_ends_a_planned_move(labels: dict[str, str]) -> None:
    """The watch has not reported it yet."""
    cluster, leader = await misaligned("web-1")
    cluster.after["get"] = lambda: cluster.namespaces.update({TEAM: labels})
    await leader.turns(601, settle=False)

    assert (cluster.evicted, len(leader.held)) == ([], 0)
    assert leader.log.of("healing.failed") == []


@pytest.mark.parametrize("method", ["get", "get namespace"])
async def test_failed_read_is_repeated(method: str) -> None:
    cluster, leader = await misaligned("web-1")
    cluster.fails[method] = [UNREACHABLE]
    await leader.turns(602)
    assert (cluster.evicted, len(leader.log.of("healing.failed"))) == ([], 1)

    await leader.turns(100)
    assert len(cluster.evicted) == 1
    assert MISALIGNED not in leader.reasons()


async def test_turns_come_at_the_rate_of_the_cluster() -> None:
    cluster, leader = await misaligned(rates=Rates(0, 0, 0.5))
    times = list[float]()

    async def slow() -> None:
        times.append(cluster.time())
        cluster.time.seconds += 0.2
        if len(times) == 4:
            raise Killed

    leader.healer.turn = slow  # type: ignore[method-assign]
    with pytest.raises(Killed):
        await leader.healer.run()

    assert times == pytest.approx([1000, 1000.5, 1001, 1001.5])


async def test_two_budgets_stop_the_owner_with_an_event() -> None:
    cluster, leader = await misaligned("web-1")
    cluster.fails["evict"] = [Failing("This pod has more than one PodDisruptionBudget")]
    await leader.turns(5000)

    assert (cluster.evicted, leader.reasons()) == ([], ["NUMAHealingStopped"])
    assert "two PodDisruptionBudgets" in leader.events[0].message
    assert len(leader.log.of("healing.stopped")) == 1


async def test_pod_changed_since_the_read_is_read_again() -> None:
    """A kubelet writes during an eviction, too: by then an API server has counted the pod."""
    cluster, leader = await misaligned("web-1", budget=1)
    cluster.after["get"] = cluster.between = lambda: cluster.put(cluster.pods[TEAM, "web-1"])
    await leader.turns(601)
    assert (cluster.evictions, leader.holds_nothing()) == ([], True)

    await leader.turns(1, settle=False)
    assert (cluster.uids(), leader.reasons()) == ([uid("web-1")], ["NUMAHealing"])


@pytest.mark.parametrize("error", [None, UNREACHABLE], ids=["written", "unanswered"])
async def test_mark_written_during_the_read_lands_first(error: Exception | None) -> None:
    """Without an answer it may land on the API server later."""
    cluster, leader = await misaligned("web-1", rates=AT_ONCE)
    await leader.turns(HANDOVER_SECONDS)
    cluster.fails["patch"] = [error] if error else []
    await asyncio.gather(leader.turns(1), leader.marks.turn())
    assert (leader.reasons(), cluster.evicted) == ([] if error else [MISALIGNED], [])
    await leader.turns(LANDED_SECONDS - 1)
    assert cluster.evicted == []

    await leader.turns(1)
    assert len(cluster.evicted) == 1
    assert leader.state.pods[uid("new-1")].mark == UNMARKED


@pytest.mark.parametrize("done", [True, False])
async def test_eviction_without_an_answer_is_followed(*, done: bool) -> None:
    cluster, leader = await misaligned("web-1")
    cluster.interrupt("evict", UNREACHABLE, done=done)
    await leader.turns(620)
    assert leader.moved("unknown") == 1
    assert leader.held.is_held(uid("web-1")) is not done

    await leader.turns(80)
    assert len(cluster.evicted) == leader.moved("aligned") == done
    assert not leader.held.is_held(uid("web-1"))


async def test_three_useless_moves_stop_the_owner_for_a_day() -> None:
    cluster, leader = await misaligned("web-1", nodes=nodes("abc"), sits_as=SPREAD)
    await leader.turns(20_000, step=20)
    assert len(cluster.evicted) == len(leader.log.of("healing.no_improvement")) == 3
    assert leader.reasons().count("NUMAHealingStopped") == 1

    cluster.time.seconds += 86_400
    cluster.sits_as = TOGETHER
    await leader.turns(10, settle=False)
    assert len(cluster.evicted) == 4
    # A rejected replacement makes a move useless, too.
    [new] = [pod for pod in cluster.pods.values() if "deletionTimestamp" not in pod["metadata"]]
    cluster.put({**new, "spec": {**new["spec"], "nodeName": "b"}, "status": {"phase": "Failed"}})
    await leader.turns(2, settle=False)
    assert (leader.moved("misaligned"), len(leader.held)) == (4, 0)


async def test_owner_without_a_replacement_loses_one_pod() -> None:
    """As one whose uid is in pods, and that does not exist."""
    cluster, leader = await misaligned("web-1", "web-2", "web-3", recreates=False)
    await leader.turns(5000)

    assert (len(cluster.evicted), leader.moved("lost")) == (1, 1)
    assert "no replacement was created" in leader.events[-1].message
    assert leader.state.reservations.reserved() == ()


async def test_new_leader_waits_and_a_lost_lead_releases_places() -> None:
    cluster, first = await misaligned("web-1", "web-2", rates=AT_ONCE)
    await first.turns(HANDOVER_SECONDS, settle=False)
    assert cluster.evicted == []
    await first.turns(2, settle=False)
    assert (len(cluster.evicted), len(first.held)) == (1, 1)
    assert [pod.uid for pod in first.state.reservations.reserved()] == [f"heal:{uid('web-1')}"]
    first.leads = False
    await first.turns(1, settle=False)
    assert first.holds_nothing()

    first.kill()
    second = await lead(cluster)
    # The pod is being deleted, and another one waits at the gate: no pod of this owner is evicted.
    await second.turns(1000, settle=False)
    assert len(cluster.evicted) == 1
    await second.turns(1000)
    assert (sorted(cluster.uids()), len(cluster.pods)) == ([uid("web-1"), uid("web-2")], 2)


@pytest.mark.parametrize("method", ["get", "evict"])
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
async def test_leader_killed_during_a_call_loses_no_pod(method: str, *, done: bool) -> None:
    cluster, first = await misaligned("web-1")
    cluster.interrupt(method, Killed(), done=done)
    with pytest.raises(Killed):
        await first.turns(700)
    first.kill()
    second = await lead(cluster)
    await second.turns(1400)

    assert len(cluster.uids()) == len({*cluster.uids()})
    [pod] = cluster.pods.values()
    assert "deletionTimestamp" not in pod["metadata"]
    assert second.state.reservations.reserved() == ()
