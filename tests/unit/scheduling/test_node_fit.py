"""A node has room for a pod as a whole as kube-scheduler counts it, with what is reserved."""

import pytest

from numalign.model.resources import Resources
from numalign.scheduling.node_fit import NodeFit
from numalign.shapes import UnknownNode
from tests.worlds.clusters import a_cluster
from tests.worlds.notation import node, table
from tests.worlds.scorer import ALL, FOUR, SINGLE, Raw, Scorer, on, raw, refused, running

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


@pytest.mark.parametrize(("containers", "right"), table([
    # what it asks                     its containers                                  whether it fits
    ("all there is",                   ["cpu=10 mem=20Gi gpu=4"],                      True),
    ("memory too much",                ["cpu=1 mem=21Gi"],                             False),
    ("nothing at all",                 [""],                                           True),
    ("two containers too many",        ["cpu=6 mem=1Gi", "cpu=5 mem=1Gi"],             False),
    ("an init container that is over", ["init cpu=9 mem=1Gi", "cpu=5 mem=1Gi"],        True),
    ("limits, which do not count",     ["cpu=5..40 mem=1Gi"],                          True),
]))  # fmt: skip
async def test_on_an_empty_node(fit: NodeFit, scorer: Scorer, containers: list[str], *, right: bool) -> None:
    assert fits(fit, scorer, raw(*containers, policy=None)) is right


async def test_pods_count_from_their_reservation_to_their_end(fit: NodeFit, scorer: Scorer) -> None:
    first, second = raw(ALL, name="first"), raw(FOUR, name="second")
    answers, there = [fits(fit, scorer, second)], on("a", first)
    scorer.reserve(first, "a")
    answers.append(fits(fit, scorer, second))
    for made in (there, running(there), refused(there)):
        scorer.see(made)
        answers.append(fits(fit, scorer, second))
    assert answers == [True, False, False, False, True]


async def test_resized_pod_counts_with_its_new_request(fit: NodeFit, scorer: Scorer) -> None:
    answers = []
    for cpus in ("1.5", "2.5"):
        scorer.see(running(on("a", raw(f"cpu={cpus} mem=1Gi", name="grows", policy=None))))
        answers.append(fits(fit, scorer, raw("cpu=8 mem=1Gi")))
    assert answers == [True, False]


async def test_node_takes_no_more_pods_than_allocatable(scorer: Scorer) -> None:
    await scorer.know({"a": node("cpu=8 mem=16Gi", policy=SINGLE, totals="cpu=8 mem=16Gi pods=2")})
    fit, answers = NodeFit(scorer.state), []
    for name in ("one", "two"):
        scorer.see(on("a", raw("", name=name, policy=None)))
        answers.append(fits(fit, scorer, raw("")))
    assert answers == [True, False]


async def test_node_without_totals_fits_everything(fit: NodeFit, scorer: Scorer) -> None:
    assert fits(fit, scorer, raw("cpu=500 mem=1Gi"), "untold")
    assert fits(fit, scorer, raw("cpu=500 mem=1Gi"), "nowhere")


async def test_node_without_topology_counts_its_allocatable(scorer: Scorer) -> None:
    bare = UnknownNode("bare", Resources({"cpu": 4000}))
    await scorer.know_cluster(a_cluster(parts={"bare": {"bare": bare}}))
    fit = NodeFit(scorer.state)
    assert fits(fit, scorer, raw("cpu=4", policy=None), "bare")
    assert not fits(fit, scorer, raw("cpu=5", policy=None), "bare")
