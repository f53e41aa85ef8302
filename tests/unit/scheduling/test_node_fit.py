"""A node has room for a pod as a whole as kube-scheduler counts it, with what is reserved."""

import pytest

from numalign.model.resources import Resources
from numalign.scheduling.node_fit import NodeFit
from numalign.shapes.unknown_node import UnknownNode
from tests.unit.scorer.conftest import (
    ALL,
    FOUR,
    LARGE,
    SINGLE,
    Raw,
    Scorer,
    on,
    raw,
    refused,
    running,
    snapshot,
    uid,
)
from tests.worlds.notation import node, table

TOTALS = "cpu=10 mem=20Gi gpu=4"
ROOMY = node("cpu=8 mem=16Gi gpu=2", "cpu=8 mem=16Gi gpu=2", policy=SINGLE, totals=TOTALS)
"""More by zone than the node as a whole gives out."""


@pytest.fixture
async def fit(scorer: Scorer) -> NodeFit:
    """One node that is told of as a whole, and one that is not."""
    await scorer.know({"a": ROOMY, "untold": node("cpu=8 mem=16Gi gpu=2", policy=SINGLE)})
    made = NodeFit(scorer.state)
    scorer.state.watchers = (*scorer.state.watchers, made.update_pod)
    return made


def fits(fit: NodeFit, scorer: Scorer, made: Raw, name: str = "a") -> bool:
    return fit.fits(name, scorer.subject(made).demand)


ASKS: list[tuple[str, list[str], bool]] = [
    # what it asks                     its containers                                  whether it fits
    ("all there is",                   ["cpu=10 mem=20Gi gpu=4"],                      True),
    ("a core too many",                ["cpu=11 mem=1Gi"],                             False),
    ("memory too much",                ["cpu=1 mem=21Gi"],                             False),
    ("a device too many",              ["cpu=1 mem=1Gi gpu=5"],                        False),
    ("what no node has",               ["cpu=1 mem=1Gi nic=1"],                        False),
    ("nothing at all",                 [""],                                           True),
    ("two containers too many",        ["cpu=6 mem=1Gi", "cpu=5 mem=1Gi"],             False),
    ("an init container that is over", ["init cpu=9 mem=1Gi", "cpu=5 mem=1Gi"],        True),
    ("an init container too large",    ["init cpu=11 mem=1Gi", "cpu=5 mem=1Gi"],       False),
    ("a sidecar that stays",           ["sidecar cpu=6 mem=1Gi", "cpu=5 mem=1Gi"],     False),
    ("limits, which do not count",     ["cpu=5..40 mem=1Gi"],                          True),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "right"), table(ASKS))
async def test_on_an_empty_node(fit: NodeFit, scorer: Scorer, containers: list[str], *, right: bool) -> None:
    assert fits(fit, scorer, raw(*containers, policy=None)) is right


async def test_overhead_counts_too(fit: NodeFit, scorer: Scorer) -> None:
    asked = raw("cpu=10 mem=1Gi", spec={"overhead": {"cpu": "100m"}})
    assert not fits(fit, scorer, asked)


async def test_pods_count_from_their_reservation_to_their_end(fit: NodeFit, scorer: Scorer) -> None:
    first, second = raw(ALL, name="first"), raw(FOUR, name="second")
    assert fits(fit, scorer, second)
    scorer.reserve(first, "a")
    assert not fits(fit, scorer, second)
    scorer.see(on("a", first))
    assert not fits(fit, scorer, second)
    scorer.see(running(on("a", first)))
    assert not fits(fit, scorer, second)
    scorer.see(refused(on("a", first)))
    assert fits(fit, scorer, second)


async def test_a_pod_that_is_deleted_counts_no_more(fit: NodeFit, scorer: Scorer) -> None:
    scorer.see(running(on("a", raw(ALL, name="first"))))
    assert not fits(fit, scorer, raw(FOUR))
    scorer.lose("first")
    assert fits(fit, scorer, raw(FOUR))


async def test_a_pod_that_asks_nothing_of_anybody_counts_all_the_same(fit: NodeFit, scorer: Scorer) -> None:
    scorer.see(on("a", raw("cpu=8 mem=1Gi", name="stranger", policy=None)))
    assert not fits(fit, scorer, raw(FOUR))


async def test_a_pod_that_was_resized_counts_as_it_is_now(fit: NodeFit, scorer: Scorer) -> None:
    small = running(on("a", raw("cpu=1.5 mem=1Gi", name="grows", policy=None)))
    scorer.see(small)
    assert fits(fit, scorer, raw("cpu=8 mem=1Gi"))
    scorer.see(running(on("a", raw("cpu=2.5 mem=1Gi", name="grows", policy=None))))
    assert not fits(fit, scorer, raw("cpu=8 mem=1Gi"))


async def test_a_pod_that_is_too_large_to_keep_counts_as_it_requests(fit: NodeFit, scorer: Scorer) -> None:
    scorer.see(running(on("a", raw(*LARGE, name="large"))))
    assert fits(fit, scorer, raw("cpu=5 mem=1Gi"))
    assert not fits(fit, scorer, raw("cpu=6 mem=1Gi"))


async def test_a_node_takes_no_more_pods_than_it_says(scorer: Scorer) -> None:
    full = node("cpu=8 mem=16Gi", policy=SINGLE, totals="cpu=8 mem=16Gi pods=2")
    await scorer.know({"a": full})
    fit = NodeFit(scorer.state)
    scorer.see(on("a", raw("", name="one", policy=None)))
    assert fits(fit, scorer, raw(""))
    scorer.see(on("a", raw("", name="two", policy=None)))
    assert not fits(fit, scorer, raw(""))


async def test_of_whom_nothing_is_told_it_is_taken_for_granted(fit: NodeFit, scorer: Scorer) -> None:
    assert fits(fit, scorer, raw("cpu=500 mem=1Gi"), "untold")
    assert fits(fit, scorer, raw("cpu=500 mem=1Gi"), "nowhere")


async def test_a_node_without_topology_counts_by_what_its_node_says(scorer: Scorer) -> None:
    told = snapshot({}, unknown=["bare"])
    bare = {"bare": UnknownNode("bare", Resources({"cpu": 4000}))}
    object.__setattr__(told, "bare", bare)
    await scorer.state.update_snapshot(told)
    fit = NodeFit(scorer.state)
    assert fits(fit, scorer, raw("cpu=4", policy=None), "bare")
    assert not fits(fit, scorer, raw("cpu=5", policy=None), "bare")


async def test_what_dra_serves_is_no_business_of_this_rule(scorer: Scorer) -> None:
    bare = node("cpu=8 mem=16Gi", policy=SINGLE, totals="cpu=8 mem=16Gi")
    await scorer.know({"a": bare}, served=["nvidia.com/gpu"])
    assert fits(NodeFit(scorer.state), scorer, raw(FOUR))
    assert not scorer.reservations.is_reserved(uid("web"))
