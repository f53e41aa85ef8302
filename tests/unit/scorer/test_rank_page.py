"""The same order of nodes for schedulers and for people."""

import orjson
import pytest

from numalign.cache.ranking import Ranking
from numalign.cache.scheduler_cache import NotEligible
from numalign.model.constraints import Unmet
from scorer import rank_page
from tests.worlds.scorer import EMPTY, FOUR, HALF, SINGLE, SMALL, Raw, Scorer, on, raw, running


async def cluster() -> Scorer:
    """A node with a pod on it, an empty one, a small one, and one that publishes nothing."""
    made = Scorer()
    await made.know({"fuller": EMPTY, "empty": EMPTY, "small": SMALL}, unknown=["bare"])
    made.see(running(on("fuller", raw(FOUR, name="there"), record=HALF)))
    return made


async def page(scorer: Scorer, made: Raw, *names: str, age: float = 0.5) -> Raw:
    """What is told of these nodes; a pod that says nothing is ranked by what kubelets would do."""
    pod = scorer.subject(made)
    ranks = await scorer.context.ranks(names, pod)
    answers = scorer.nodes.of(names, pod)
    written = rank_page.page(
        answers, ranks, pod=pod, age=age, sources=lambda name: scorer.reservations.count_by_source((name,))
    )
    read: Raw = orjson.loads(written)
    return read


async def test_fitting_node_shows_its_placement() -> None:
    [entry] = (await page(await cluster(), raw(FOUR), "empty"))["nodes"]
    assert {key: entry[key] for key in entry if key not in {"scores", "doubts"}} == {
        "name": "empty", "fits": True, "aligned": True, "certain": True, "waitsFor": [], "sources": {},
        "basis": "observed", "known": "counts",
        "placement": [{"zones": ["node-0"], "amount": {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "1"}}],
    }  # fmt: skip
    assert len(entry["scores"]) == len(Ranking().strategies)


async def test_node_shows_the_sources_of_its_ledger() -> None:
    scorer = await cluster()
    scorer.see(
        on("fuller", raw("cpu=1 mem=1Gi", name="stranger")), on("fuller", raw("cpu=1..", name="shares"))
    )
    [entry] = (await page(scorer, raw(FOUR), "fuller"))["nodes"]
    assert entry["sources"] == {"recorded": 1, "unknown": 1}


async def test_refusing_node_shows_reason_and_shortages() -> None:
    [entry] = (await page(await cluster(), raw(FOUR), "small"))["nodes"]
    assert (entry["fits"], entry["permanent"], entry["placement"]) == (False, True, None)
    assert entry["reason"].startswith("node(s) have no NUMA zone with 4 cpu")
    assert (entry["refuser"], entry["scores"]) == ("kubelet", [0, 0])
    assert entry["because"] == (
        'container "c0": the node has at most 2 cpu in one NUMA zone (Topology Manager policy'
        ' "single-numa-node")'
    )
    assert entry["shortages"] == ["zone 0: cpu 4 requested, 2 free", "zone 1: cpu 4 requested, 2 free"]


@pytest.mark.parametrize(("policy", "fits"), [(SINGLE, False), (None, True)])
async def test_node_without_topology_shows_so(policy: str | None, *, fits: bool) -> None:
    [entry] = (await page(await cluster(), raw(FOUR, policy=policy), "bare"))["nodes"]
    assert (entry["fits"], entry["known"], "reason" in entry) == (fits, None, not fits)


async def test_page_names_the_pod_to_wait_for() -> None:
    scorer = Scorer()
    await scorer.know({"a": EMPTY})
    scorer.reserve(raw("cpu=7 mem=1Gi", name="first"), "a")
    [entry] = (await page(scorer, raw("cpu=2 mem=1Gi"), "a"))["nodes"]
    assert (entry["waitsFor"], entry["fits"]) == (["team/first"], True)


async def test_unknown_age_is_null() -> None:
    assert (await page(Scorer(), raw(FOUR), age=float("inf")))["age"] is None


CORDONED, TAINTED = NotEligible(Unmet.CORDONED, lasting=False), NotEligible(Unmet.TAINT, lasting=True)


@pytest.mark.parametrize(
    ("why", "reason"),
    [(CORDONED, "node(s) have no NUMA zone with 4 cpu"), (TAINTED, "node(s) had untolerated taints")],
)
async def test_cordoned_node_shows_its_lasting_reason(why: NotEligible, reason: str) -> None:
    scorer = await cluster()
    [entry] = scorer.nodes.of_not_eligible({"small": why}, scorer.subject(raw(FOUR)))
    assert (entry.fits, entry.permanent) == (False, True)
    assert entry.reason.startswith(reason)
