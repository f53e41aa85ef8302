"""What nodes would answer if pods had left and others had come, and the ledger stays as it is."""

import pytest

from numalign.ledger.model import NodeInfo
from numalign.ledger.rearrangement import Rearrangement, short_of
from numalign.ledger.reservations import Reservations
from tests.unit.ledger.conftest import NOW, TWO, on
from tests.worlds.notation import asks, bag, free_of, node, table

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
