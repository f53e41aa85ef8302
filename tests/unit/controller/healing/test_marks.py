"""The alignment annotations of pods are corrected, and no decision depends on them."""

from typing import Any

import pytest

from controller.healing.eviction_limits import Rates
from controller.healing.healer import HANDOVER_SECONDS
from controller.healing.marks import EVENT, FIRST_WAIT, PER_TURN
from controller.healing.moves import UNANSWERED_SECONDS
from controller.healing.owners import PodMove
from numalign.kube.events import Type
from numalign.model.intent import ALIGNED, ALIGNED_WHY
from tests.unit.controller.healing.conftest import SPREAD, TOGETHER, Cluster, Leader, lead, misaligned, web
from tests.worlds.notation import table
from tests.worlds.scorer import TEAM, Raw, uid
from tests.worlds.write_faults import CONFLICT, UNREACHABLE

WHY = 'container "c0" holds cpu in zone 0 and zone 1: 2 NUMA zones, and single-numa-node allows one'
FALSE = {ALIGNED: "false", ALIGNED_WHY: WHY}
WHY_BEST = f"{WHY.partition(': ')[0]}: 2 NUMA zones where one would do; best-effort allows this"
LOOSELY = web("web-1", policy="best-effort")
FORGED = web("web-1", annotations={ALIGNED: "false", ALIGNED_WHY: "x" * 10_000})


def mark(cluster: Cluster, name: str = "web-1") -> dict[str, str]:
    annotations = cluster.pods[TEAM, name]["metadata"]["annotations"]
    return {key: annotations[key] for key in (ALIGNED, ALIGNED_WHY) if key in annotations}


def written(leader: Leader, result: str = "written") -> float:
    return leader.count("alignment_marks_total", result=result)


MARKS: list[tuple[str, Raw, dict[str, str] | None, dict[str, str], list[Type]]] = [
    ("is misaligned", web("web-1"), SPREAD, FALSE, [Type.WARNING]),
    ("is misaligned, as it may be", LOOSELY, SPREAD, {**FALSE, ALIGNED_WHY: WHY_BEST}, [Type.NORMAL]),
    ("is aligned, and its mark was forged", FORGED, TOGETHER, {}, []),
    ("has no report", web("web-1", annotations={ALIGNED: "false"}), None, {ALIGNED: "false"}, []),
]


@pytest.mark.parametrize(("made", "sits", "expected", "types"), table(MARKS))
async def test_mark_of_a_pod_that(
    made: Raw, sits: dict[str, str] | None, expected: dict[str, str], types: list[Type]
) -> None:
    cluster = Cluster()
    cluster.run(made, "a", sits or SPREAD)
    if sits is None:
        cluster.placements = {}
    leader = await lead(cluster)
    for _ in range(5):
        cluster.time.seconds += 100
        await leader.marks.turn()

    assert mark(cluster) == expected
    events = [(event.reason, event.type, event.message) for event in leader.events]
    assert events == [(EVENT, each, expected[ALIGNED_WHY]) for each in types]
    assert leader.count("misaligned_pods", namespace=TEAM) == len(types)
    assert written(leader) == (sits is not None)


async def test_mark_comes_and_goes_with_the_alignment() -> None:
    cluster, leader = await misaligned(web("web-1", policy=""), namespaces={TEAM: {}})
    await leader.marks.turn()
    assert mark(cluster) == {}

    cluster.namespaces[TEAM] = {"default": "restricted"}
    await cluster.publish()
    await leader.marks.turn()
    assert mark(cluster)[ALIGNED] == "false"

    cluster.observe(uid("web-1"), "a", TOGETHER)
    await cluster.publish()
    cluster.time.seconds += FIRST_WAIT
    await leader.marks.turn()

    assert (mark(cluster), leader.count("misaligned_pods", namespace=TEAM)) == ({}, 0)


async def test_another_writer_is_corrected_ever_less_often() -> None:
    cluster, leader = await misaligned("web-1")
    for _ in range(3600):
        cluster.time.seconds += 1
        await leader.marks.turn()
        made = cluster.pods[TEAM, "web-1"]
        annotations: dict[str, Any] = made["metadata"]["annotations"]
        if annotations.pop(ALIGNED, None):
            cluster.put(made)

    assert 5 <= written(leader) <= 8


async def test_pod_under_eviction_is_not_marked() -> None:
    cluster, leader = await misaligned("web-1", rates=Rates(0, 0, 0))
    cluster.fails["evict"] = [UNREACHABLE]
    await leader.turns(HANDOVER_SECONDS + 1)
    assert leader.moved("unknown") == 1
    await leader.marks.turn()
    assert mark(cluster) == {}

    await leader.turns(UNANSWERED_SECONDS)
    await leader.marks.turn()
    assert mark(cluster) == FALSE


async def test_ten_marks_are_written_in_a_turn_beside_moves() -> None:
    cluster, moves = Cluster(), list[PodMove]()
    for at in range(25):
        cluster.nodes[f"n{at}"] = cluster.nodes["a"]
        cluster.run(web(f"web-{at}", f"owner-{at}"), f"n{at}", SPREAD)
    leader = await lead(cluster, leads=False)
    await leader.marks.turn()
    assert (written(leader), leader.count("misaligned_pods", namespace=TEAM)) == (0, 25)

    leader.leads = True
    # A move that begins between two marks goes first.
    cluster.after["patch"] = lambda: moves.append(leader.moves.begin(leader.state.pods[uid("web-1")], "b"))
    for count in (PER_TURN - 1, 2 * PER_TURN - 1, 24):
        await leader.marks.turn()
        assert written(leader) == count
    assert [at for at in range(25) if not mark(cluster, f"web-{at}")] == [1]


async def test_another_pod_of_that_name_is_not_marked() -> None:
    cluster, leader = await misaligned("web-1")
    cluster.fails["patch"] = [CONFLICT]
    await leader.marks.turn()

    assert (written(leader, "gone"), leader.events) == (1, [])
