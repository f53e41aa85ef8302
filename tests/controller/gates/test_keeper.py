"""Pods behind the gate are pinned in their order where they have zones, and let go where they have none."""

from controller.gates.keeper import TURN_SECONDS
from numalign.model.intent import PINNED_AT, PLACEMENT
from tests.controller.gates.conftest import GatedCluster, gated
from tests.notation import node
from tests.scorer.conftest import ALL, EMPTY, FOUR, SINGLE, SMALL, uid

ONE = node("cpu=8 mem=16Gi gpu=2", policy=SINGLE)
"""One zone, for one pod of all of it."""

NEW = "2027-01-15T08:00:00Z"
"""When the tests begin."""


async def test_a_pod_is_reserved_its_zones_pinned_and_let_go_in_one_write(cluster: GatedCluster) -> None:
    await cluster.know({"a": EMPTY, "small": SMALL})
    cluster.make(gated(FOUR, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(1)

    assert (cluster.gates(), cluster.pin()) == ([], "a")
    assert cluster.scorer.kept() == {"web": "a"}
    annotations = cluster.pod()["metadata"]["annotations"]
    assert annotations[PLACEMENT].startswith('[{"zones":["node-0"]')
    assert annotations[PINNED_AT].startswith("2027-01-15T08:00:0")
    assert len(cluster.store.patches) == 1
    assert cluster.reasons() == [("web", "NUMAPinned")]
    assert cluster.scorer.count("gates_lifted_total", how="pinned") == 1


async def test_the_reservation_follows_the_pod(cluster: GatedCluster) -> None:
    await cluster.know({"a": EMPTY})
    cluster.make(gated(FOUR, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(1)
        cluster.bind("web", "a")
        assert cluster.scorer.kept() == {}
        await cluster.pass_by(90)

    held = cluster.reservations.assigned_pod(uid("web"))
    assert held
    assert held.record
    assert "NUMAPinnedNotPlaced" not in dict(cluster.reasons()).values()


async def test_a_pod_for_which_no_node_has_room_is_let_go_as_it_is(cluster: GatedCluster) -> None:
    await cluster.know({"small": SMALL})
    cluster.make(gated(FOUR, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(20)
        assert cluster.gates()
        await cluster.pass_by(12)

    assert (cluster.gates(), cluster.pin(), cluster.scorer.kept()) == ([], None, {})
    assert "affinity" not in cluster.pod()["spec"]
    [event] = cluster.events
    assert event.reason == "NUMAGateLifted"
    assert (
        "for 30 s no node had room: 0/1 nodes are available: 1 node(s) have no zone with 4 cpu"
        in event.message
    )


async def test_of_two_that_want_the_same_the_more_important_one_gets_it(cluster: GatedCluster) -> None:
    await cluster.know({"one": ONE})
    low = gated(ALL, name="low", creationTimestamp=NEW, spec={"priority": 1})
    high = gated(ALL, name="high", creationTimestamp=NEW, spec={"priority": 1000})
    cluster.make(low, high)

    async with cluster.running():
        await cluster.pass_by(TURN_SECONDS)

    assert (cluster.pin("high"), cluster.gates("high"), bool(cluster.gates("low"))) == ("one", [], True)


async def test_of_equals_the_older_one_comes_first(cluster: GatedCluster) -> None:
    await cluster.know({"one": ONE})
    cluster.make(gated(ALL, name="later", creationTimestamp=NEW), gated(ALL, name="older"))

    async with cluster.running():
        await cluster.pass_by(TURN_SECONDS)

    assert (cluster.pin("older"), bool(cluster.gates("later"))) == ("one", True)


async def test_room_that_comes_free_goes_to_who_waits(cluster: GatedCluster) -> None:
    await cluster.know({"one": ONE})
    cluster.make(gated(ALL, name="first", creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(1)
        cluster.make(gated(ALL, name="second", creationTimestamp=NEW))
        await cluster.pass_by(5)
        assert cluster.gates("second")
        cluster.delete("first")
        await cluster.pass_by(5)

    assert cluster.pin("second") == "one"
