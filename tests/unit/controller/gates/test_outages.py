"""Whatever fails, no gate stays for ever, and no pod is pinned where nothing is reserved for it."""

import pytest

from controller.gates.keeper import GRACE_SECONDS, HANDOVER_SECONDS
from controller.gates.queue import LONGEST_LOOK
from numalign.kube.decode.scheduling import scheduling
from numalign.model.intent import PLACEMENT_GATE
from tests.unit.controller.gates.conftest import PIN_PATIENCE, GatedCluster, gated
from tests.unit.scheduling.test_pinned_pods import pinned
from tests.worlds.notation import node, table
from tests.worlds.scorer import ALL, EMPTY, FOUR, SINGLE, SMALL
from tests.worlds.write_faults import CONFLICT, FORBIDDEN, INVALID, UNREACHABLE

WIDE = node(*["cpu=64 mem=64Gi"] * 2, policy=SINGLE)


REFUSALS = [
    # the answer      the error     the reason    whether zones stay reserved
    ("409",           CONFLICT,     "conflict",   False),
    ("422",           INVALID,      "invalid",    False),
    ("none",          UNREACHABLE,  "failed",     True),
]  # fmt: skip


@pytest.mark.parametrize(("error", "reason", "reserved"), table(REFUSALS))
async def test_only_a_pin_of_unknown_result_reserves_zones(
    cluster: GatedCluster, error: Exception, reason: str, *, reserved: bool
) -> None:
    """And it is tried again."""
    await cluster.know({"a": EMPTY})
    cluster.failing = error

    async with cluster.running(gated(FOUR)):
        await cluster.pass_by(0.2)
        assert cluster.gates() == [PLACEMENT_GATE]
        assert cluster.reserved() == ({"web": "a"} if reserved else {})
        assert cluster.count("gate_failures_total", reason=reason) >= 1
        # A better node appears.
        await cluster.know({"0": EMPTY, "a": EMPTY} if reserved else {"a": EMPTY})
        cluster.failing = None
        await cluster.pass_by(5)

    assert (cluster.pin(), cluster.gates(), cluster.reserved()) == ("a", [], {"web": "a"})
    assert len(cluster.patches) == 1


@pytest.mark.parametrize("patience", [17.0, 35.0])
async def test_unreadable_pod_is_let_go_after_its_patience(patience: float) -> None:
    """However long it is until the next attempt to read it."""
    cluster = GatedCluster(patience=patience)
    await cluster.know({"a": EMPTY})
    cluster.unreadable = UNREACHABLE
    await cluster.run(patience - HANDOVER_SECONDS + 3, gated(FOUR))

    assert (cluster.gates(), cluster.pin()) == ([], None)
    [event] = cluster.events
    assert "the pod could not be read" in event.message


async def test_short_outage_sends_no_pod_to_a_rejecting_kubelet(cluster: GatedCluster) -> None:
    await cluster.know({"small": SMALL})

    async with cluster.running(gated(FOUR)):
        await cluster.pass_by(29 - HANDOVER_SECONDS)
        cluster.unreadable = UNREACHABLE
        await cluster.pass_by(4)
        assert cluster.gates() == [PLACEMENT_GATE]
        cluster.unreadable = None
        await cluster.pass_by(30)

    assert cluster.gates() == []
    assert scheduling(cluster.pods["web"]).constraints.selective


LIFTED, KEPT = ("web", "NUMAGateLifted"), ("web", "NUMAGateKept")
Reasons = list[tuple[str, str]]
FAILED_LIFTS: list[tuple[str, dict[str, object], Exception, float, Reasons]] = [
    ("409 to a lift", {}, CONFLICT, 40, [LIFTED]),
    ("no answer to an exclusion", {"small": SMALL}, UNREACHABLE, 40, [LIFTED]),
    ("403 to an exclusion", {"small": SMALL}, FORBIDDEN, 120, [KEPT, LIFTED]),
]


@pytest.mark.parametrize(("nodes", "error", "seconds", "events"), table(FAILED_LIFTS))
async def test_failed_lift_is_tried_again(
    cluster: GatedCluster, nodes: dict[str, object], error: Exception, seconds: float, events: Reasons
) -> None:
    await cluster.know(nodes)
    cluster.failing = error

    async with cluster.running(gated(FOUR)):
        await cluster.pass_by(seconds)
        assert cluster.gates() == [PLACEMENT_GATE]
        cluster.failing = None
        await cluster.pass_by(LONGEST_LOOK if KEPT in events else 20)

    assert (cluster.gates(), cluster.reasons()) == ([], events)
    assert KEPT not in events or str(error) in cluster.events[0].message
    assert scheduling(cluster.pods["web"]).constraints.selective is bool(nodes)


async def test_unknown_cluster_extends_no_patience(cluster: GatedCluster) -> None:
    await cluster.run(30, gated(FOUR))

    assert cluster.gates() == []


async def test_unbound_pin_gives_its_zones_back_with_an_event(cluster: GatedCluster) -> None:
    await cluster.know({"a": EMPTY})
    reason = "0/1 nodes are available: 1 node(s) had volume node affinity conflict"
    conditions = [{"type": "PodScheduled", "status": "False", "message": reason}]
    async with cluster.running(gated(FOUR)):
        await cluster.pass_by(1)
        cluster.make({**cluster.pods["web"], "status": {"phase": "Pending", "conditions": conditions}})
        await cluster.pass_by(50)
        assert cluster.reserved() == {"web": "a"}
        await cluster.pass_by(20)

    assert (cluster.reserved(), cluster.count("pins_not_placed_total"), *cluster.pods) == ({}, 1, "web")
    [event] = [event for event in cluster.events if event.reason == "NUMAPinnedNotPlaced"]
    assert f"pinned to node a: {reason}" in event.message
    assert cluster.log.of("pin.not_placed")


async def test_pin_of_another_replica_is_followed_since_observed() -> None:
    """Whatever its clock was."""
    cluster = GatedCluster(led=0.0)
    await cluster.know({"b": EMPTY})

    async with cluster.running(gated(FOUR), pinned("a", when="2027-01-15T07:00:00Z")):
        await cluster.pass_by(PIN_PATIENCE - 2)
        assert cluster.count("pins_not_placed_total") == 0
        await cluster.pass_by(4)

    assert cluster.count("pins_not_placed_total") == 1


@pytest.mark.parametrize("part", ["_parsed", "exclusion", "pins"])
async def test_defect_of_ours_keeps_no_gate(
    cluster: GatedCluster, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    await cluster.know({"small": SMALL})

    async with cluster.running(gated(FOUR), gated("cpu=2 mem=1Gi", name="other")):
        await cluster.pass_by(10)
        monkeypatch.setattr(cluster.keeper, part, None)
        cluster.make(gated("cpu=1 mem=1Gi", name="late"))
        await cluster.pass_by(80)

    assert (cluster.gates(), cluster.gates("late"), bool(cluster.pin("other"))) == ([], [], True)
    assert cluster.log.of("gate.internal_error")


@pytest.mark.parametrize("seconds", [0, pytest.param(3, marks=pytest.mark.full)])
async def test_pod_queued_on_a_node_has_twice_the_patience(cluster: GatedCluster, seconds: float) -> None:
    """No kubelet takes the first pods, so the zones of those behind them are unknown."""
    await cluster.know({"a": WIDE})
    cluster.seconds = seconds

    async with cluster.running(
        *(gated("cpu=1 mem=1Gi", name=f"web-{at}") for at in range(40 if seconds else 6))
    ):
        await cluster.pass_by(45)
        assert seconds or cluster.waiting()
        await cluster.pass_by(30)

    assert cluster.waiting() == []


async def test_new_leader_waits_and_pins_before_it_lifts(cluster: GatedCluster) -> None:
    cluster.led, cluster.scorer.leads = 0.0, False
    await cluster.know({"a": EMPTY})

    async with cluster.running(gated(ALL, name="fits"), gated("cpu=100 mem=1Gi", name="huge")):
        await cluster.pass_by(100)
        assert (cluster.patches, cluster.reads, cluster.events) == ([], 0, [])
        cluster.scorer.leads = True
        await cluster.pass_by(HANDOVER_SECONDS - 1)
        assert cluster.waiting() == ["fits", "huge"]
        await cluster.pass_by(GRACE_SECONDS - HANDOVER_SECONDS + 3)

    assert (cluster.pin("fits"), cluster.pin("huge"), cluster.waiting()) == ("a", None, [])


async def test_pin_is_written_once_whatever_is_deleted(cluster: GatedCluster) -> None:
    await cluster.know({"a": EMPTY})
    cluster.deleted_nodes.add("a")

    async with cluster.running(gated(FOUR)):
        await cluster.pass_by(5)
        assert (cluster.gates(), cluster.reserved()) == ([PLACEMENT_GATE], {})
        # A write without an answer is done.
        cluster.unanswered = [UNREACHABLE]
        await cluster.know({"b": EMPTY})
        await cluster.pass_by(8)
        assert (cluster.pin(), len(cluster.patches), cluster.reserved()) == ("b", 1, {"web": "b"})
        cluster.delete("web")
        cluster.before_patch = lambda: cluster.delete(*cluster.pods)
        cluster.make(gated(FOUR, name="gone"))
        await cluster.pass_by(5)

    assert (cluster.reserved(), len(cluster.queue), len(cluster.patches)) == ({}, 0, 1)
