"""What nodes would answer if pods had left and others had come, and the ledger stays as it is."""

import pytest

from numalign.ledger.free import free_capacity
from numalign.ledger.model import AssignedPod, NodeInfo
from numalign.ledger.rearrangement import Rearrangement, Relief, relief, short_of
from numalign.ledger.reservations import Reservations
from tests.unit.ledger.conftest import LAG, NOW, TWO, on
from tests.worlds.notation import asks, bag, free_of, means, node, table

SIX = asks("cpu=6 mem=1Gi")


def full() -> Rearrangement:
    reservations = Reservations()
    reservations.update_node(TWO)
    for zone in "01":
        reservations.update_pod(TWO.name, on(f"pod-{zone}", "cpu=4 mem=1Gi", f"{zone} cpu=4"))
    return Rearrangement(reservations, NOW)


def admits(then: Rearrangement) -> bool:
    prediction = then.predict(TWO.name, SIX)
    assert prediction
    return prediction.verdict.admitted


def test_departed_pod_frees_its_zone() -> None:
    then = full()
    assert not admits(then)
    assert admits(then.leaving(TWO.name, ["pod-1"]))
    assert not admits(then.leaving(TWO.name, ["another"]))


def test_new_pod_holds_its_predicted_zones() -> None:
    then = full().leaving(TWO.name, ["pod-1"])
    prediction = then.predict(TWO.name, SIX)
    assert prediction
    after = then.coming(TWO.name, on("new", "cpu=6 mem=1Gi"), prediction)
    free = after.free(TWO.name)
    assert free
    assert free_of(free.node, "cpu") == [4, 2]
    assert not admits(after)


def test_taken_pod_is_not_waited_for() -> None:
    then = full().leaving(TWO.name, ["pod-1"])
    four = asks("cpu=4 mem=1Gi")
    first = then.predict(TWO.name, four)
    assert first
    after = then.coming(TWO.name, on("new", "cpu=4 mem=1Gi"), first)

    waiting, settled = after.predict(TWO.name, four), after.predict_settled(TWO.name, four)

    assert waiting
    assert settled
    assert (waiting.held, waiting.reservable) == (settled.held, False)
    assert settled.reservable
    assert Rearrangement(Reservations(), NOW).predict_settled("x", SIX) is None


def test_unknown_node_has_no_rearrangement() -> None:
    then = Rearrangement(Reservations(), NOW)
    prediction = full().leaving(TWO.name, ["pod-1"]).predict(TWO.name, SIX)
    assert prediction
    assert then.leaving("x", ["a"]).coming("x", on("b"), prediction) == then
    assert (then.predict("x", SIX), then.free("x"), then.fits("x", SIX)) == (None, None, False)


TOTALS = "cpu=16 mem=8Gi pods=2"
SHORTAGES = [
    # what it shows                    the totals       who is there        the pod      what is short
    ("unknown totals",                 None,            ["cpu=15.."],       "cpu=4..",   ""),
    ("what others request counts",     TOTALS,          ["cpu=14.."],       "cpu=4..",   "cpu=2"),
    ("held or not",                    TOTALS,          ["cpu=14 mem=8Gi"], "mem=1Gi",   "mem=1Gi"),
    ("no more pods than there may be", TOTALS,          ["cpu=1..", ""],    "cpu=1..",   "pods=1"),
    ("what is not requested",          "cpu=1 mem=1Gi", ["cpu=4.."],        "mem=1Gi..", ""),
    ("a device that is not listed",    TOTALS,          [],                 "gpu=1",     ""),
]  # fmt: skip


@pytest.mark.parametrize(("totals", "others", "wanted", "short"), table(SHORTAGES))
def test_shortage_of_a_node_in_total(totals: str | None, others: list[str], wanted: str, short: str) -> None:
    pods = tuple(on(f"pod-{at}", text) for at, text in enumerate(others))
    info = NodeInfo(node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", totals=totals), pods)
    assert short_of(info, asks(wanted)) == bag(short)


# What departures of pods could free, added up; `tests/laws` compares it with the rules.

SINGLE, LOOSE = "single-numa-node", "best-effort"


def added_up(
    *pods: AssignedPod,
    wanted: str = "cpu=8 mem=1Gi",
    policy: str = SINGLE,
    totals: str | None = None,
    scope: str = "container",
) -> Relief:
    """Two zones of eight CPUs with these pods, all of which could go."""
    info = NodeInfo(node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy=policy, totals=totals, scope=scope), pods)
    free = free_capacity(info, now=NOW, lag=LAG)
    return relief(info, free, asks(*wanted.split("|")), means("none"), [pod.uid for pod in pods])


def on_zone(uid: str, zone: int, cpus: int = 4) -> AssignedPod:
    return on(uid, f"cpu={cpus} mem=1Gi", f"{zone} cpu={cpus} mem=1Gi")


A, B, C, D = on_zone("a", 0), on_zone("b", 0), on_zone("c", 1, 3), on_zone("d", 1, 1)
UNKNOWN = on("u", "cpu=4 mem=1Gi")
UNREAD = AssignedPod("x", ("team", "x"), None, A.stage)

TWICE = "cpu=5 mem=1Gi | cpu=5 mem=1Gi"
LEAST = [
    # what it shows                           the pods      the pod          policy  how many
    ("none where there is room",              [A],          "cpu=8 mem=1Gi", SINGLE, 0),
    ("one of those in one zone",              [A, C],       "cpu=8 mem=1Gi", SINGLE, 1),
    ("two that share a zone",                 [A, B, C, D], "cpu=8 mem=1Gi", SINGLE, 2),
    ("no departure makes a zone larger",      [A, B, C, D], "cpu=9 mem=1Gi", SINGLE, None),
    ("where pods may spread, the node's sum", [A, B, C, D], "cpu=9 mem=1Gi", LOOSE,  2),
    ("each container in a zone of its own",   [A, B, C, D], TWICE,           SINGLE, 2),
    ("a pod of unknown zones may be split",   [UNKNOWN, C], "cpu=8 mem=1Gi", SINGLE, 0),
    ("an unreadable pod",                     [UNREAD],     "cpu=8 mem=1Gi", SINGLE, 1),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "wanted", "policy", "least"), table(LEAST))
def test_fewest_pods_that_have_to_leave(
    pods: list[AssignedPod], wanted: str, policy: str, least: int | None
) -> None:
    assert added_up(*pods, wanted=wanted, policy=policy).least() == least


def test_pods_of_one_zone_are_tried_together() -> None:
    gain = added_up(A, B, C, D)
    pairs = [tuple(each.uid for each in chosen) for chosen in gain.choices(2)]
    assert pairs == [("a", "b"), ("c", "d")]
    assert [gain.suffices(chosen) for chosen in gain.choices(2)] == [True, True]


def test_all_pods_are_tried_where_a_pod_may_spread() -> None:
    assert len([*added_up(A, B, C, D, wanted="cpu=9 mem=1Gi", policy=LOOSE).choices(2)]) == 6


def test_pod_in_every_zone_is_examined_once() -> None:
    assert [[each.uid for each in chosen] for chosen in added_up(UNKNOWN, C).choices(1)] == [["u"], ["c"]]


def test_departure_may_end_a_shortage_of_the_node() -> None:
    sharing = on("s", "cpu=10.. mem=1Gi..")
    assert added_up(sharing, totals="cpu=16 mem=16Gi").least() == 1
    assert added_up(sharing, totals="cpu=20 mem=16Gi").leavers == ()


def test_room_for_another_pod_after_departures() -> None:
    gain = added_up(A, B, C, D)
    gone = next(gain.choices(2))
    assert gain.room_for(gone, asks("cpu=4 mem=1Gi"))
    assert not gain.room_for(gone, asks("cpu=5 mem=1Gi"))
