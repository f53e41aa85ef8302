"""The same order of nodes for schedulers and for people."""

import orjson
import pytest

from numalign.cache.ranking import Ranking
from numalign.cache.scheduler_cache import NotEligible
from numalign.model.constraints import Unmet
from scorer import rank_page
from tests.unit.scorer.conftest import EMPTY, FOUR, HALF, SINGLE, SMALL, Raw, Scorer, on, raw, running
from tests.worlds.notation import node


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
        answers,
        ranks,
        pod=pod,
        age=age,
        sources=lambda name: scorer.reservations.count_by_source((name,)),
    )
    read: Raw = orjson.loads(written)
    return read


async def test_the_page_has_every_node_the_best_first() -> None:
    said = await page(await cluster(), raw(FOUR), "bare", "empty", "small", "fuller")

    assert {key: said[key] for key in ("pod", "policy", "age")} == {
        "pod": "team/web",
        "policy": SINGLE,
        "age": 0.5,
    }
    assert [each["name"] for each in said["nodes"]] == ["fuller", "empty", "small", "bare"]


async def test_a_node_that_takes_the_pod_says_what_it_would_get() -> None:
    [said] = (await page(await cluster(), raw(FOUR), "empty"))["nodes"]

    assert {key: said[key] for key in said if key not in {"scores", "doubts"}} == {
        "name": "empty",
        "fits": True,
        "aligned": True,
        "placement": [{"zones": ["node-0"], "amount": {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "1"}}],
        "certain": True,
        "waitsFor": [],
        "basis": "observed",
        "sources": {},
        "known": "counts",
    }
    assert len(said["scores"]) == len(Ranking().strategies)


async def test_a_node_says_how_it_is_known_what_its_pods_hold() -> None:
    scorer = await cluster()
    scorer.see(
        on("fuller", raw("cpu=1 mem=1Gi", name="stranger")), on("fuller", raw("cpu=1..", name="shares"))
    )
    [said] = (await page(scorer, raw(FOUR), "fuller"))["nodes"]

    assert said["sources"] == {"recorded": 1, "unknown": 1}


async def test_a_node_that_refuses_says_why_to_people_in_more_words() -> None:
    [said] = (await page(await cluster(), raw(FOUR), "small"))["nodes"]

    assert (said["fits"], said["permanent"], said["placement"]) == (False, True, None)
    assert said["reason"].startswith("node(s) have no NUMA zone with 4 cpu")
    assert (said["refuser"], said["scores"]) == ("kubelet", [0, 0])
    assert said["because"] == (
        'container "c0": the node has at most 2 cpu in one NUMA zone (Topology Manager policy'
        ' "single-numa-node")'
    )
    assert said["shortages"] == ["zone 0: cpu 4 requested, 2 free", "zone 1: cpu 4 requested, 2 free"]


@pytest.mark.parametrize(("policy", "fits"), [(SINGLE, False), (None, True)])
async def test_a_node_that_publishes_nothing_says_so(policy: str | None, *, fits: bool) -> None:
    [said] = (await page(await cluster(), raw(FOUR, policy=policy), "bare"))["nodes"]

    assert (said["fits"], said["known"], "reason" in said) == (fits, None, not fits)


async def test_a_page_says_whom_the_pod_would_wait_for() -> None:
    scorer = Scorer()
    await scorer.know({"a": EMPTY})
    scorer.reserve(raw("cpu=7 mem=1Gi", name="first"), "a")
    [said] = (await page(scorer, raw("cpu=2 mem=1Gi"), "a"))["nodes"]

    assert (said["waitsFor"], said["fits"]) == (["team/first"], True)


async def test_a_page_says_where_nobody_is_certain() -> None:
    scorer = Scorer()
    await scorer.know({"a": node("cpu=8 mem=16Gi gpu=2", "cpu=8 mem=16Gi gpu=2", policy="restricted")})
    scorer.see(running(on("a", raw(FOUR, name="stranger"))))
    [said] = (await page(scorer, raw(FOUR), "a"))["nodes"]

    assert (said["certain"], said["basis"]) == (False, "reported")


async def test_an_age_that_nobody_knows_is_null() -> None:
    assert (await page(Scorer(), raw(FOUR), age=float("inf")))["age"] is None


CORDONED, TAINTED = NotEligible(Unmet.CORDONED, lasting=False), NotEligible(Unmet.TAINT, lasting=True)


@pytest.mark.parametrize(
    ("why", "reason"),
    [(CORDONED, "node(s) have no NUMA zone with 4 cpu"), (TAINTED, "node(s) had untolerated taints")],
)
async def test_of_a_cordoned_node_that_is_too_small_it_is_told_that_it_is(
    why: NotEligible, reason: str
) -> None:
    scorer = await cluster()
    [said] = scorer.nodes.of_not_eligible({"small": why}, scorer.subject(raw(FOUR)))

    assert (said.fits, said.permanent) == (False, True)
    assert said.reason.startswith(reason)
