"""The same order of nodes for schedulers and for people."""

from typing import Any

import orjson
import pytest

from numalign.cache.ranking import Ranking, Ranks, Score
from numalign.cache.scheduler_cache import NotEligible
from numalign.decision.scoring import Strategy
from numalign.kube.decode.parts import Part
from numalign.kube.decode.selectors import requirements
from numalign.model.constraints import Unmet
from scorer import rank_page
from scorer.ranking import Choice, Ranker, RankingRules
from tests.notation import node
from tests.scorer.conftest import EMPTY, LOOSE, SINGLE, SMALL, Raw, Scorer, on, raw, running

FOUR = "cpu=4 mem=1Gi gpu=1"
HALF = [{"zones": ["node-0"], "amount": {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "1"}}]

USUAL = RankingRules()
MOST, LEAST = Ranking((Strategy.MOST_ALLOCATED,)), Ranking((Strategy.LEAST_ALLOCATED,))


async def cluster(**told: Any) -> Scorer:  # noqa: ANN401  as `snapshot`
    """A node with a pod on it, an empty one, a small one, and one that publishes nothing."""
    made = Scorer()
    await made.know({"fuller": EMPTY, "empty": EMPTY, "small": SMALL}, unknown=["bare"], **told)
    made.see(running(on("fuller", raw(FOUR, name="there"), record=HALF)))
    return made


def ranks(scorer: Scorer, made: Raw, *names: str, rules: RankingRules = USUAL) -> Ranks:
    subject = scorer.subject(made)
    batch = scorer.nodes.batch(names, subject)
    return Ranker(rules).ranks(batch, scorer.register.labels, opted_out=subject.opted_out)


def scores(scorer: Scorer, made: Raw, *names: str, rules: RankingRules = USUAL) -> list[Score]:
    found = ranks(scorer, made, *names, rules=rules)
    return [found.score(place) for place in range(len(names))]


def page(scorer: Scorer, made: Raw, *names: str) -> Raw:
    subject, found = scorer.subject(made), ranks(scorer, made, *names)
    judged = scorer.nodes.of(names, subject)
    read: Raw = orjson.loads(rank_page.page(judged, found, pod=subject, age=0.5))
    return read


# Scores.


async def test_scores_come_in_the_order_of_the_call_and_unknown_nodes_are_worth_nothing() -> None:
    names = ("bare", "empty", "small", "fuller")
    found = ranks(await cluster(), raw(FOUR, policy=None), *names)

    assert [found.score(place).admitted for place in range(4)] == [False, True, False, True]
    assert found.order(names) == [3, 1, 0, 2]


async def test_a_node_is_scored_as_it_is_before_the_pod_with_all_that_was_promised() -> None:
    scorer = await cluster()
    before = scores(scorer, raw(FOUR), "empty", rules=RankingRules(MOST))
    scorer.promised(raw(FOUR, name="other"), "empty")
    after = scores(scorer, raw(FOUR), "empty", rules=RankingRules(MOST))

    assert before[0].values < after[0].values


async def test_the_labels_of_a_node_choose_its_strategies() -> None:
    scorer = await cluster(labels={"empty": {"pool": "spare"}})
    spare = tuple(requirements(Part({"matchLabels": {"pool": "spare"}})))
    rules = RankingRules(MOST, (Choice(spare, LEAST),))

    found = scores(scorer, raw(FOUR), "empty", "fuller", rules=rules)
    assert [each.values for each in found] == [
        scores(scorer, raw(FOUR), "empty", rules=RankingRules(LEAST))[0].values,
        scores(scorer, raw(FOUR), "fuller", rules=RankingRules(MOST))[0].values,
    ]


async def test_a_pod_that_opts_out_is_as_well_off_everywhere() -> None:
    scorer = await cluster()

    assert ranks(scorer, raw(FOUR, policy="none"), "empty", "fuller").squeezed(10) == [10, 10]


async def test_a_pod_that_says_nothing_ranks_by_what_the_kubelet_would_really_do() -> None:
    scorer = Scorer()
    await scorer.know({"loose": LOOSE, "tight": EMPTY})

    found = scores(scorer, raw(FOUR, policy=None), "loose", "tight")
    assert [each.aligned for each in found] == [False, True]


# The page.


async def test_the_page_has_every_node_the_best_first() -> None:
    said = page(await cluster(), raw(FOUR), "bare", "empty", "small", "fuller")

    assert {key: said[key] for key in ("pod", "policy", "age")} == {
        "pod": "team/web",
        "policy": SINGLE,
        "age": 0.5,
    }
    assert [each["name"] for each in said["nodes"]] == ["fuller", "empty", "small", "bare"]


async def test_a_node_that_takes_the_pod_says_what_it_would_get() -> None:
    [said] = page(await cluster(), raw(FOUR), "empty")["nodes"]

    assert {key: said[key] for key in said if key not in {"scores", "doubts"}} == {
        "name": "empty",
        "fits": True,
        "aligned": True,
        "placement": [{"zones": ["node-0"], "amount": {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "1"}}],
        "certain": True,
        "waitsFor": [],
        "basis": "observed",
        "known": "counts",
    }
    assert len(said["scores"]) == len(Ranking().strategies)


async def test_a_node_that_refuses_says_why_to_people_in_more_words() -> None:
    [said] = page(await cluster(), raw(FOUR), "small")["nodes"]

    assert (said["fits"], said["permanent"], said["placement"]) == (False, True, None)
    assert said["reason"].startswith("node(s) have no zone with 4 cpu")
    assert (said["refuser"], said["scores"]) == ("kubelet", [0, 0])
    assert said["because"] == (
        'container "c0": the node has at most 2 cpu in one zone (kubelet policy "single-numa-node")'
    )
    assert said["shortages"] == ["node-0: cpu 4 asked, 2 free", "node-1: cpu 4 asked, 2 free"]


@pytest.mark.parametrize(("policy", "fits"), [(SINGLE, False), (None, True)])
async def test_a_node_that_publishes_nothing_says_so(policy: str | None, *, fits: bool) -> None:
    [said] = page(await cluster(), raw(FOUR, policy=policy), "bare")["nodes"]

    assert (said["fits"], said["known"], "reason" in said) == (fits, None, not fits)


async def test_a_page_says_whom_the_pod_would_wait_for() -> None:
    scorer = Scorer()
    await scorer.know({"a": EMPTY})
    scorer.promised(raw("cpu=7 mem=1Gi", name="first"), "a")
    [said] = page(scorer, raw("cpu=2 mem=1Gi"), "a")["nodes"]

    assert (said["waitsFor"], said["fits"]) == (["team/first"], True)


async def test_a_page_says_where_nobody_is_certain() -> None:
    scorer = Scorer()
    await scorer.know({"a": node("cpu=8 mem=16Gi gpu=2", "cpu=8 mem=16Gi gpu=2", policy="restricted")})
    scorer.see(running(on("a", raw(FOUR, name="stranger"))))
    [said] = page(scorer, raw(FOUR), "a")["nodes"]

    assert (said["certain"], said["basis"]) == (False, "reported")


async def test_an_age_that_nobody_knows_is_null() -> None:
    scorer = await cluster()
    subject = scorer.subject(raw(FOUR))
    found = ranks(scorer, raw(FOUR))

    assert orjson.loads(rank_page.page([], found, pod=subject, age=float("inf")))["age"] is None


# Nodes that the pod may not go to.

CORDONED, TAINTED = NotEligible(Unmet.CORDONED, lasting=False), NotEligible(Unmet.TAINT, lasting=True)


async def test_nodes_that_a_pod_may_not_go_to_come_last_with_why() -> None:
    scorer, pod = await cluster(), raw(FOUR)
    subject, names = scorer.subject(pod), ["empty", "bare"]
    away = {"other": TAINTED, "fuller": CORDONED, "another": NotEligible(Unmet.AFFINITY, lasting=True)}

    judged, kept = (
        scorer.nodes.of(names, subject),
        scorer.nodes.of_not_eligible(away, subject),
    )
    said = rank_page.page(judged, ranks(scorer, pod, *names), pod=subject, age=0.5, not_eligible=kept)
    [*first, another, fuller, other] = orjson.loads(said)["nodes"]
    assert [each["name"] for each in first] == names
    assert another == {
        "name": "another",
        "fits": False,
        "permanent": True,
        "reason": "node(s) didn't match the pod's node affinity/selector",
    }
    assert fuller == {
        "name": "fuller",
        "fits": False,
        "permanent": False,
        "reason": "node(s) were unschedulable",
    }
    assert (other["permanent"], other["reason"]) == (True, "node(s) had untolerated taints")


@pytest.mark.parametrize(
    ("why", "reason"),
    [(CORDONED, "node(s) have no zone with 4 cpu"), (TAINTED, "node(s) had untolerated taints")],
)
async def test_of_a_cordoned_node_that_is_too_small_it_is_told_that_it_is(
    why: NotEligible, reason: str
) -> None:
    scorer = await cluster()
    [said] = scorer.nodes.of_not_eligible({"small": why}, scorer.subject(raw(FOUR)))

    assert (said.fits, said.permanent) == (False, True)
    assert said.reason.startswith(reason)
