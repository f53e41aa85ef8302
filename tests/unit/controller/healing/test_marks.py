"""What stands on pods about how they sit is written when it is wrong, and believed by nobody."""

from controller.healing.eviction_limits import Rates
from controller.healing.healer import HANDOVER_SECONDS
from controller.healing.marks import EVENT, FIRST_WAIT, PER_TURN
from controller.healing.moves import UNANSWERED_SECONDS
from controller.healing.owners import PodMove
from numalign.kube.errors import Conflict, Forbidden, Unreachable
from numalign.kube.events import Type
from numalign.model.intent import ALIGNED, ALIGNED_WHY
from tests.unit.controller.healing.conftest import SPREAD, TOGETHER, Cluster, Leader, a_cluster, web
from tests.worlds.scorer import TEAM, uid


async def a_leader(cluster: Cluster, **facts: object) -> Leader:
    leader = Leader(cluster, **facts)  # type: ignore[arg-type]
    await cluster.publish()
    return leader


def annotations(cluster: Cluster, name: str) -> dict[str, str]:
    """What stands on a pod about how it sits."""
    written = cluster.pods[TEAM, name]["metadata"]["annotations"]
    return {key: written[key] for key in (ALIGNED, ALIGNED_WHY) if key in written}


WHY = 'container "c0" holds cpu in zone 0 and zone 1: 2 NUMA zones, and single-numa-node allows one'


async def test_a_misaligned_pod_says_so_and_why() -> None:
    cluster = await a_cluster("a")
    await cluster.runs(web("web-1"), "a", SPREAD)
    leader = await a_leader(cluster)

    await leader.marks.turn()

    assert annotations(cluster, "web-1") == {ALIGNED: "false", ALIGNED_WHY: WHY}
    [event] = leader.events
    assert (event.reason, event.type, event.message) == (EVENT, Type.WARNING, WHY)
    assert leader.count("numalign_misaligned_pods", namespace=TEAM) == 1


async def test_a_wish_unmet_is_no_warning() -> None:
    cluster = await a_cluster("a")
    await cluster.runs(web("web-1", policy="best-effort"), "a", SPREAD)
    leader = await a_leader(cluster)

    await leader.marks.turn()

    assert [event.type for event in leader.events] == [Type.NORMAL]


async def test_it_is_written_once_and_told_once() -> None:
    cluster = await a_cluster("a")
    await cluster.runs(web("web-1"), "a", SPREAD)
    leader = await a_leader(cluster)

    for _ in range(5):
        cluster.time.seconds += 100
        await leader.marks.turn()

    assert leader.count("numalign_alignment_marks_total", result="written") == 1
    assert len(leader.events) == 1


async def test_aligned_again_both_go() -> None:
    cluster = await a_cluster("a")
    await cluster.runs(web("web-1"), "a", SPREAD)
    leader = await a_leader(cluster)
    await leader.marks.turn()

    cluster.observe(uid("web-1"), "a", TOGETHER)
    await cluster.publish()
    cluster.time.seconds += FIRST_WAIT
    await leader.marks.turn()

    assert annotations(cluster, "web-1") == {}
    assert leader.count("numalign_misaligned_pods", namespace=TEAM) == 0


async def test_what_was_forged_on_an_aligned_pod_goes() -> None:
    cluster = await a_cluster("a")
    await cluster.runs(web("web-1", annotations={ALIGNED: "false", ALIGNED_WHY: "x" * 10_000}), "a", TOGETHER)
    leader = await a_leader(cluster)

    await leader.marks.turn()

    assert annotations(cluster, "web-1") == {}
    assert leader.events == []


async def test_of_a_pod_that_nobody_observed_nothing_changes() -> None:
    cluster = await a_cluster("a")
    await cluster.runs(web("web-1", annotations={ALIGNED: "false"}), "a", SPREAD)
    cluster.placements = {}
    leader = await a_leader(cluster)

    await leader.marks.turn()

    assert annotations(cluster, "web-1") == {ALIGNED: "false"}


async def test_who_writes_it_back_waits_longer_and_longer() -> None:
    cluster = await a_cluster("a")
    await cluster.runs(web("web-1"), "a", SPREAD)
    leader = await a_leader(cluster)

    for _ in range(3600):
        cluster.time.seconds += 1
        await leader.marks.turn()
        made = cluster.pods[TEAM, "web-1"]
        kept = {key: text for key, text in made["metadata"]["annotations"].items() if key != ALIGNED}
        if ALIGNED in made["metadata"]["annotations"]:
            cluster.put({**made, "metadata": {**made["metadata"], "annotations": kept}})

    assert 5 <= leader.count("numalign_alignment_marks_total", result="written") <= 8


async def test_many_are_written_slowly() -> None:
    cluster = await a_cluster("a")
    for at in range(25):
        cluster.nodes[f"n{at}"] = cluster.nodes["a"]
        await cluster.runs(web(f"web-{at}"), f"n{at}", SPREAD)
    leader = await a_leader(cluster)

    counts = list[float]()
    for _ in range(3):
        await leader.marks.turn()
        counts.append(leader.count("numalign_alignment_marks_total", result="written"))

    assert counts == [PER_TURN, 2 * PER_TURN, 25]


async def test_who_does_not_lead_writes_nothing() -> None:
    cluster = await a_cluster("a")
    await cluster.runs(web("web-1"), "a", SPREAD)
    leader = await a_leader(cluster, leads=False)

    await leader.marks.turn()

    assert annotations(cluster, "web-1") == {}
    assert leader.count("numalign_misaligned_pods", namespace=TEAM) == 1


async def test_a_right_that_is_missing_is_told_once() -> None:
    cluster = await a_cluster("a")
    await cluster.runs(web("web-1"), "a", SPREAD)
    leader = await a_leader(cluster)
    cluster.fails["patch"] = [Forbidden("you may not")] * 5

    for _ in range(400):
        cluster.time.seconds += 1
        await leader.marks.turn()

    assert len(leader.told.of("mark.forbidden")) == 1
    assert leader.count("numalign_alignment_marks_total", result="forbidden") >= 3


async def test_what_fails_is_tried_again() -> None:
    cluster = await a_cluster("a")
    await cluster.runs(web("web-1"), "a", SPREAD)
    leader = await a_leader(cluster)
    cluster.fails["patch"] = [Unreachable("nobody answers")]

    await leader.marks.turn()
    assert len(leader.told.of("mark.failed")) == 1

    cluster.time.seconds += FIRST_WAIT
    await leader.marks.turn()
    assert annotations(cluster, "web-1")[ALIGNED] == "false"


async def test_another_pod_of_that_name_is_not_written_to() -> None:
    cluster = await a_cluster("a")
    await cluster.runs(web("web-1"), "a", SPREAD)
    leader = await a_leader(cluster)
    cluster.fails["patch"] = [Conflict("another uid")]

    await leader.marks.turn()

    assert leader.count("numalign_alignment_marks_total", result="gone") == 1
    assert leader.events == []


async def test_a_pod_is_not_written_to_while_its_eviction_may_be_under_way() -> None:
    cluster = await a_cluster("a", "b")
    await cluster.runs(web("web-1"), "a", SPREAD)
    leader = await a_leader(cluster, rates=Rates(0, 0, 0))
    cluster.fails["evict"] = [Unreachable("nobody answers")]
    await leader.turns(HANDOVER_SECONDS + 1)
    assert leader.count("numalign_healing_moves_total", outcome="unknown") == 1

    await leader.marks.turn()
    assert annotations(cluster, "web-1") == {}

    await leader.turns(UNANSWERED_SECONDS)
    await leader.marks.turn()
    assert annotations(cluster, "web-1")[ALIGNED] == "false"


async def test_a_pod_whose_eviction_begins_while_others_are_written_to_is_left_out() -> None:
    cluster = await a_cluster("a", "b")
    for at in range(3):
        cluster.nodes[f"n{at}"] = cluster.nodes["a"]
        await cluster.runs(web(f"web-{at}", f"owner-{at}"), f"n{at}", SPREAD)
    leader, began = await a_leader(cluster), list[PodMove]()
    cluster.after["patch"] = lambda: began.append(leader.moves.begin(leader.state.pods[uid("web-1")], "b"))

    await leader.marks.turn()

    assert [name for at in range(3) if annotations(cluster, name := f"web-{at}")] == ["web-0", "web-2"]


async def test_a_namespace_that_is_not_known_has_no_series_of_its_own() -> None:
    cluster = await a_cluster("a", namespaces={})
    await cluster.runs(web("web-1"), "a", SPREAD)
    leader = await a_leader(cluster)

    await leader.marks.turn()

    assert leader.count("numalign_misaligned_pods", namespace="") == 1
    assert leader.count("numalign_misaligned_pods", namespace=TEAM) == 0


async def test_what_a_namespace_asks_counts_for_pods_that_run() -> None:
    cluster = await a_cluster("a", namespaces={TEAM: {}})
    await cluster.runs(web("web-1", policy=""), "a", SPREAD)
    made = cluster.pods[TEAM, "web-1"]
    made["metadata"]["annotations"] = {}
    cluster.put(made)
    leader = await a_leader(cluster)
    await leader.marks.turn()
    assert annotations(cluster, "web-1") == {}

    cluster.namespaces[TEAM] = {"default": "restricted"}
    await cluster.publish()
    await leader.marks.turn()

    assert annotations(cluster, "web-1")[ALIGNED] == "false"
