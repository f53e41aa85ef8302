"""Whatever fails, no gate stays and nobody is pinned to what is not reserved for him."""

import asyncio

import pytest

from controller.gates.keeper import GRACE_SECONDS, HANDOVER_SECONDS
from controller.gates.pin import PinTarget
from controller.gates.pods import PinWriter
from controller.gates.queue import LONGEST_LOOK
from numalign.kube.decode.scheduling import scheduling
from numalign.kube.errors import ClusterError, Conflict, Forbidden, InvalidObject, NotFound, Unreachable
from numalign.model.intent import PLACEMENT_GATE
from tests.unit.controller.gates.conftest import GatedCluster, gated
from tests.unit.scheduling.test_pinned_pods import pinned
from tests.worlds.notation import node, table
from tests.worlds.scorer import ALL, EMPTY, FOUR, SINGLE, SMALL, Raw, uid

NEW = "2027-01-15T08:00:00Z"


async def started(cluster: GatedCluster) -> None:
    """One node, and one pod behind the gate."""
    await cluster.know({"a": EMPTY})
    cluster.make(gated(FOUR, creationTimestamp=NEW))


REFUSALS = [
    # what the API server says      the error                   the reason    whether zones stay reserved
    ("409",                         Conflict("was changed"),    "conflict",   False),
    ("403",                         Forbidden("you may not"),   "forbidden",  False),
    ("422",                         InvalidObject("must not"),  "invalid",    False),
    ("404",                         NotFound("is gone"),        "gone",       False),
    ("nothing that can be known",   Unreachable("cannot be"),   "failed",     True),
]  # fmt: skip


@pytest.mark.parametrize(("error", "reason", "kept"), table(REFUSALS))
async def test_a_pin_that_is_refused_is_tried_again_and_only_what_may_be_done_keeps_its_zones(
    cluster: GatedCluster, error: Exception, reason: str, *, kept: bool
) -> None:
    await started(cluster)
    cluster.store.failing = error  # type: ignore[assignment]

    async with cluster.running():
        await cluster.pass_by(0.2)
        assert cluster.gates() == [PLACEMENT_GATE]
        assert cluster.scorer.kept() == ({"web": "a"} if kept else {})
        assert cluster.scorer.count("gate_failures_total", reason=reason) >= 1
        cluster.store.failing = None
        await cluster.pass_by(5)

    assert (cluster.pin(), cluster.gates(), cluster.scorer.kept()) == ("a", [], {"web": "a"})
    assert len(cluster.store.patches) == 1


async def test_a_right_that_is_missing_is_said_once(cluster: GatedCluster) -> None:
    await started(cluster)
    cluster.store.failing = Forbidden("not allowed to patch pods")

    async with cluster.running():
        await cluster.pass_by(60)

    [line] = cluster.told.of("gate.forbidden")
    assert line["error"] == "not allowed to patch pods"


async def test_what_may_have_been_written_is_written_to_the_same_node_again(cluster: GatedCluster) -> None:
    """The answer is lost, and a better node appears meanwhile."""
    await started(cluster)
    cluster.store.failing = Unreachable("cannot be reached")

    async with cluster.running():
        await cluster.pass_by(0.2)
        await cluster.know({"0": EMPTY, "a": EMPTY})
        cluster.store.failing = None
        await cluster.pass_by(5)

    assert (cluster.pin(), cluster.scorer.kept()) == ("a", {"web": "a"})


async def test_a_pin_that_landed_without_an_answer_is_not_repeated(cluster: GatedCluster) -> None:
    await started(cluster)
    answers = [Unreachable("the answer was lost")]
    patch = cluster.store.patch

    async def lossy(*told: object, **more: object) -> object:
        await patch(*told, **more)  # type: ignore[arg-type]
        if answers:
            raise answers.pop()
        return None

    cluster.store.patch = lossy  # type: ignore[method-assign]
    async with cluster.running():
        await cluster.pass_by(5)

    assert (cluster.pin(), len(cluster.store.patches), cluster.scorer.kept()) == ("a", 1, {"web": "a"})


async def test_a_pod_that_nobody_can_read_is_let_go_all_the_same(cluster: GatedCluster) -> None:
    await started(cluster)
    cluster.store.unreadable = Unreachable("an answer of more than 2097152 bytes is invalid")

    async with cluster.running():
        await cluster.pass_by(40)

    assert (cluster.gates(), cluster.pin()) == ([], None)
    [event] = cluster.events
    assert "the pod could not be read" in event.message


async def test_a_pod_that_cannot_be_read_for_a_moment_is_not_let_go_to_a_node_that_would_reject_it(
    cluster: GatedCluster,
) -> None:
    await cluster.know({"small": SMALL})
    cluster.make(gated(FOUR, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(29 - HANDOVER_SECONDS)
        cluster.store.unreadable = Unreachable("cannot be reached")
        await cluster.pass_by(4)
        gates, cluster.store.unreadable = cluster.gates(), None
        await cluster.pass_by(30)

    assert (gates, cluster.gates()) == ([PLACEMENT_GATE], [])
    assert scheduling(cluster.pod()).constraints.selective


@pytest.mark.parametrize("error", [Forbidden("not by this policy"), InvalidObject("not by this policy")])
async def test_a_gate_that_stays_because_nodes_may_not_be_excluded_is_told_of(
    cluster: GatedCluster, error: ClusterError
) -> None:
    await cluster.know({"small": SMALL})
    cluster.make(gated(FOUR, creationTimestamp=NEW))
    cluster.store.failing = error

    async with cluster.running():
        await cluster.pass_by(120)
        kept, cluster.store.failing = cluster.gates(), None
        await cluster.pass_by(LONGEST_LOOK)

    assert (kept, cluster.gates()) == ([PLACEMENT_GATE], [])
    assert cluster.reasons() == [("web", "NUMAGateKept"), ("web", "NUMAGateLifted")]
    assert "not by this policy" in cluster.events[0].message


@pytest.mark.parametrize("part", ["_parsed", "exclusion"])
async def test_an_error_of_our_own_keeps_no_gate(
    cluster: GatedCluster, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    await cluster.know({"small": SMALL})
    cluster.make(gated(FOUR, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(10)
        monkeypatch.setattr(cluster.keeper, part, None)
        await cluster.pass_by(24)

    assert cluster.gates() == []
    assert cluster.told.of("gate.internal_error")


@pytest.mark.parametrize("patience", [17.0, 35.0, 45.0])
async def test_whoever_cannot_be_read_waits_as_long_as_others(patience: float) -> None:
    """However long it is until somebody tries to read the pod again."""
    cluster = GatedCluster(patience=patience)
    await started(cluster)
    cluster.store.unreadable = Unreachable("cannot be reached")

    async with cluster.running():
        await cluster.pass_by(patience - HANDOVER_SECONDS + 3)

    assert cluster.gates() == []


@pytest.mark.full
async def test_where_every_write_takes_long_no_pod_waits_for_all_that_go_to_its_node(
    cluster: GatedCluster,
) -> None:
    await cluster.know({"a": node(*["cpu=64 mem=64Gi"] * 2, policy=SINGLE)})
    patch = cluster.store.patch

    async def slow(*told: object, **more: object) -> object:
        await cluster.time.sleep(3)
        return await patch(*told, **more)  # type: ignore[arg-type]

    cluster.store.patch = slow  # type: ignore[method-assign]
    names = [f"web-{number}" for number in range(40)]
    cluster.make(*(gated("cpu=1 mem=1Gi", name=name, creationTimestamp=NEW) for name in names))
    async with cluster.running():
        await cluster.pass_by(75)

    assert [name for name in names if cluster.gates(name)] == []


async def test_who_only_waits_for_others_on_a_node_is_let_go_later(cluster: GatedCluster) -> None:
    """No kubelet takes the first ones, so nobody can say which zones are left to those behind them."""
    await cluster.know({"a": node(*["cpu=64 mem=64Gi"] * 2, policy=SINGLE)})
    names = [f"web-{number}" for number in range(6)]
    cluster.make(*(gated("cpu=1 mem=1Gi", name=name, creationTimestamp=NEW) for name in names))

    async with cluster.running():
        await cluster.pass_by(45)
        late = [name for name in names if cluster.gates(name)]
        await cluster.pass_by(30)

    assert late
    assert [name for name in names if cluster.gates(name)] == []


async def test_a_lift_that_fails_is_tried_again(cluster: GatedCluster) -> None:
    await cluster.know({})
    cluster.make(gated(FOUR, creationTimestamp=NEW))
    cluster.store.failing = Unreachable("cannot be reached")

    async with cluster.running():
        await cluster.pass_by(40)
        assert cluster.gates()
        cluster.store.failing = None
        await cluster.pass_by(20)

    assert cluster.gates() == []
    assert cluster.told.of("gate.failed")


async def test_before_anything_is_known_of_nodes_nobody_waits_longer_than_patience(
    cluster: GatedCluster,
) -> None:
    cluster.make(gated(FOUR, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(30)

    assert cluster.gates() == []


async def test_who_does_not_lead_writes_nothing(cluster: GatedCluster) -> None:
    cluster.scorer.leads = False
    await started(cluster)

    async with cluster.running():
        await cluster.pass_by(300)

    assert (cluster.store.patches, cluster.store.reads, cluster.events) == ([], 0, [])


async def test_a_new_leader_lets_the_last_ones_pins_land_before_it_pins(cluster: GatedCluster) -> None:
    cluster.led = 0.0
    await started(cluster)

    async with cluster.running():
        await cluster.pass_by(HANDOVER_SECONDS - 1)
        assert cluster.gates()
        await cluster.pass_by(5)

    assert cluster.pin() == "a"


async def test_who_waits_for_long_already_gets_a_last_chance_from_a_new_leader(
    cluster: GatedCluster,
) -> None:
    cluster.led = 0.0
    await cluster.know({"a": EMPTY})
    fits, not_now = (gated(ALL, name=name) for name in ("fits", "huge"))
    not_now["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100"
    not_now["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "100"
    cluster.make(fits, not_now)
    cluster.time.seconds += cluster.patience

    async with cluster.running():
        await cluster.pass_by(GRACE_SECONDS + 2)

    assert (cluster.pin("fits"), cluster.gates("fits")) == ("a", [])
    assert (cluster.pin("huge"), cluster.gates("huge")) == (None, [])


async def test_a_pod_that_is_deleted_as_it_is_pinned_leaves_nothing(cluster: GatedCluster) -> None:
    await started(cluster)
    cluster.store.before = lambda: cluster.delete("web") if "web" in cluster.store.pods else None

    async with cluster.running():
        await cluster.pass_by(5)

    assert (cluster.scorer.kept(), len(cluster.queue), cluster.store.patches) == ({}, 0, [])


async def test_a_pin_that_no_scheduler_follows_is_told_and_gives_its_zones_back(
    cluster: GatedCluster,
) -> None:
    await started(cluster)
    async with cluster.running():
        await cluster.pass_by(1)
        pending = cluster.pod()
        says = "0/1 nodes are available: 1 node(s) had volume node affinity conflict"
        conditions = [{"type": "PodScheduled", "status": "False", "message": says}]
        cluster.store.put({**pending, "status": {"phase": "Pending", "conditions": conditions}})
        await cluster.pass_by(50)
        assert cluster.scorer.kept() == {"web": "a"}
        await cluster.pass_by(20)

    assert cluster.scorer.kept() == {}
    assert cluster.scorer.count("pins_not_placed_total") == 1
    [event] = [event for event in cluster.events if event.reason == "NUMAPinnedNotPlaced"]
    assert says in event.message
    assert "pinned to node a" in event.message
    assert cluster.told.of("pin.not_placed")
    assert "web" in cluster.store.pods


@pytest.mark.parametrize("written", ["2027-01-15T07:00:00Z", "2027-01-15T09:00:00Z"])
async def test_a_pin_of_another_replica_is_followed_from_when_it_is_seen_whatever_its_clock(
    cluster: GatedCluster, written: str
) -> None:
    cluster.led = 0.0
    await cluster.know({"b": EMPTY})
    cluster.make(gated(FOUR), pinned("a", when=written))

    async with cluster.running():
        await cluster.pass_by(cluster.pin_patience - 2)
        early = cluster.scorer.count("pins_not_placed_total")
        await cluster.pass_by(4)

    assert (early, cluster.scorer.count("pins_not_placed_total")) == (0, 1)


async def test_a_defect_in_one_pod_holds_up_no_other(
    cluster: GatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.know({"a": EMPTY})
    prepare = PinWriter.prepare

    def broken(pins: PinWriter, of: str, raw: Raw, target: PinTarget) -> None:
        if of == uid("bad"):
            raise ValueError("a defect")
        prepare(pins, of, raw, target)

    monkeypatch.setattr(PinWriter, "prepare", broken)
    cluster.make(*(gated(FOUR, name=name, creationTimestamp=NEW) for name in ("bad", "good")))

    async with cluster.running():
        await cluster.pass_by(2)
        assert (cluster.pin("good"), cluster.gates("bad")) == ("a", [PLACEMENT_GATE])
        await cluster.pass_by(40)

    assert cluster.gates("bad") == []
    assert cluster.told.of("gate.internal_error")
    assert asyncio.get_running_loop().is_running()


async def test_nobody_is_pinned_to_a_node_that_was_just_deleted(cluster: GatedCluster) -> None:
    await started(cluster)
    cluster.gone.add("a")

    async with cluster.running():
        await cluster.pass_by(5)
        assert (cluster.gates(), cluster.scorer.kept()) == ([PLACEMENT_GATE], {})
        await cluster.know({"b": EMPTY})
        await cluster.pass_by(8)

    assert cluster.pin() == "b"
