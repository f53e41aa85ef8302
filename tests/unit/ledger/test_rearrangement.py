"""What nodes would answer if pods had left and others had come, and that the ledger never hears of it."""

import pytest

from numalign.ledger.model import NodeInfo
from numalign.ledger.rearrangement import Rearrangement, short_of
from numalign.ledger.reservations import Reservations
from tests.unit.ledger.conftest import NOW, TWO, on
from tests.worlds.notation import asks, bag, free_of, node, table

SIX = asks("cpu=6 mem=1Gi")


def full() -> Rearrangement:
    """A node whose two zones have half their CPUs given out each."""
    reservations = Reservations()
    reservations.update_node(TWO)
    for zone in "01":
        reservations.update_pod(TWO.name, on(f"pod-{zone}", "cpu=4 mem=1Gi", f"{zone} cpu=4"))
    return Rearrangement(reservations, NOW)


def admits(then: Rearrangement) -> bool:
    """Whether the node would take a pod of six CPUs in one zone."""
    prediction = then.predict(TWO.name, SIX)
    assert prediction
    return prediction.verdict.admitted


def test_who_has_left_gives_back_what_it_held() -> None:
    then = full()
    assert not admits(then)
    assert admits(then.leaving(TWO.name, ["pod-1"]))
    assert not admits(then.leaving(TWO.name, ["somebody else"]))


def test_who_has_come_holds_what_was_predicted() -> None:
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


def test_returning_pod_differs_from_a_departed_one() -> None:
    then = full().leaving(TWO.name, ["pod-1"])
    prediction = then.predict(TWO.name, asks("cpu=4 mem=1Gi"))
    assert prediction
    back = then.coming(TWO.name, on("pod-1", "cpu=4 mem=1Gi"), prediction)
    free = back.free(TWO.name)

    assert free
    assert free_of(free.node, "cpu") == [0, 8]


def test_the_ledger_hears_of_nothing() -> None:
    then = full()
    before = then.reservations.node_info(TWO.name)
    assert then.leaving(TWO.name, ["pod-0", "pod-1"]).info(TWO.name) != before
    assert then.reservations.node_info(TWO.name) is before


def test_unknown_node_has_no_rearrangement() -> None:
    then = Rearrangement(Reservations(), NOW)
    prediction = full().leaving(TWO.name, ["pod-1"]).predict(TWO.name, SIX)

    assert prediction
    assert then.leaving("x", ["a"]).coming("x", on("b"), prediction) == then
    assert (then.predict("x", SIX), then.free("x"), then.fits("x", SIX)) == (None, None, False)


TOTALS = "cpu=16 mem=8Gi pods=2"
SHORTAGES = [
    # what it shows                     the totals        who is there         the pod           what is short
    ("nobody tells the totals",         None,             ["cpu=15.."],        "cpu=4..",        ""),
    ("enough of all",                   TOTALS,           ["cpu=12.."],        "cpu=4..",        ""),
    ("what others request counts",      TOTALS,           ["cpu=14.."],        "cpu=4..",        "cpu=2"),
    ("held or not",                     TOTALS,           ["cpu=14 mem=8Gi"],  "mem=1Gi",        "mem=1Gi"),
    ("no more pods than there may be",  TOTALS,           ["cpu=1..", ""],     "cpu=1..",        "pods=1"),
    ("what is not asked for",           "cpu=1 mem=1Gi",  ["cpu=4.."],         "mem=1Gi..",      ""),
    ("of a device that nobody lists",   TOTALS,           [],                  "gpu=1",          ""),
]  # fmt: skip


@pytest.mark.parametrize(("totals", "there", "wanted", "short"), table(SHORTAGES))
def test_what_a_node_as_a_whole_lacks(totals: str | None, there: list[str], wanted: str, short: str) -> None:
    pods = tuple(on(f"pod-{at}", asked) for at, asked in enumerate(there))
    info = NodeInfo(node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", totals=totals), pods)

    assert short_of(info, asks(wanted)) == bag(short)
