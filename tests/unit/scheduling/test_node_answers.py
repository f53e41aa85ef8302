"""What nodes say to a pod at the moment, and that nobody is told what was true a moment ago."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache import ClusterCache
from numalign.cache.ranking import Ranking
from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.decision.scoring import Strategy
from numalign.decision.verdict import Cause, Refusal, Refuser, Verdict
from numalign.ledger.model import Prediction
from numalign.ledger.ordering import predict
from numalign.ledger.reservations import LAG_SECONDS
from numalign.model.intent import Policy
from numalign.model.node import Known, Node
from numalign.model.placement import Placement
from numalign.scheduling import node_answers
from numalign.scheduling.node_answers import reason
from numalign.scheduling.ranking import Ranker, RankingRules
from numalign.scheduling.scheduler_state import PendingPod
from scorer.extender_protocol import Candidates, answer_filter
from tests.worlds.notation import asks, means, node, table
from tests.worlds.scorer import (
    BORN,
    EMPTY,
    FOUR,
    LOOSE,
    SINGLE,
    SMALL,
    Raw,
    Scorer,
    filtered,
    on,
    raw,
    running,
    uid,
)

VAST = node(*["cpu=8 mem=8Gi gpu=2"] * 18, policy=SINGLE)
"""More zones than anybody answers for."""


@pytest.mark.parametrize(("unknown", "made", "fits"), table([
    # what it shows                           what they may do  the pod, and whether it fits
    ("a pod that must be aligned",            "cannot-fit",     raw(FOUR),                       False),
    ("a pod that tries",                      "cannot-fit",     raw(FOUR, policy="best-effort"), True),
    ("a pod that says nothing",               "cannot-fit",     raw(FOUR, policy=None),          True),
    ("one that must, where nobody minds",     "may-fit",        raw(FOUR),                       True),
]))  # fmt: skip
@pytest.mark.parametrize("name", ["bare", "never-heard-of"])
async def test_on_a_node_that_publishes_nothing(unknown: str, made: Raw, name: str, *, fits: bool) -> None:
    scorer = Scorer(unknown=unknown)
    await scorer.know({"a": EMPTY}, unknown=["bare"])
    [found] = scorer.ask(made, name)
    # No eviction makes a topology appear, so the scheduler must not try one.
    assert (found.fits, found.permanent, found.prediction) == (fits, not fits, None)
    assert found.reason == ("" if fits else node_answers.NO_TOPOLOGY)


@pytest.mark.parametrize(("unknown", "fits"), [("cannot-fit", False), ("may-fit", True)])
async def test_unevaluated_node_counts_as_unknown(unknown: str, *, fits: bool) -> None:
    scorer = Scorer(unknown=unknown)
    await scorer.know({"a": EMPTY, "vast": VAST})
    known, found = scorer.ask(raw(FOUR), "a", "vast")
    assert (known.answered, found.answered) == (True, False)
    assert (found.fits, found.permanent, found.prediction) == (fits, False, None)
    assert "too many NUMA zones to evaluate in time" in found.reason


async def test_long_evaluation_is_done_in_steps(scorer: Scorer) -> None:
    large = node(*["cpu=8 mem=8Gi gpu=2"] * 12, policy=SINGLE)
    await scorer.know({"a": EMPTY, "b": large, "c": large})
    subject = scorer.subject(raw("cpu=1 mem=1Gi | cpu=1 mem=1Gi | cpu=1 mem=1Gi"))
    # Of the two large nodes, which are alike and take the pod: the containers once, and each node. And a step
    # for the columns of all others.
    filtered = partial(scorer.nodes.filtered, ["a", "b", "c"], subject)
    assert len(list(scorer.state.cache.pace.in_steps(filtered))) == 2 + 2 + 1
    assert list(scorer.state.cache.pace.in_steps(filtered)) == []


# A law: whatever happened, all nodes asked at once say what each says by itself, and what a ledger says that
# has never been asked before.

NODES = ["a", "b", "c"]
TOPOLOGIES = [EMPTY, SMALL, node("cpu=8 mem=16Gi gpu=2", policy=SINGLE), LOOSE, None]
SIZES = ["cpu=2 mem=1Gi gpu=1", "cpu=8 mem=1Gi", "cpu=6 mem=1Gi gpu=2", "cpu=1 mem=1Gi"]
NAMES = ["a", "b", "c", "bare", "never-heard-of"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["run", "leave", "lose", "reserve", "take", "wait", "ask"]),
        st.sampled_from(NODES),
        st.integers(0, 4),
    ),
    max_size=16,
)
LEAVING: dict[str, Any] = {"deletionTimestamp": BORN}


class Life:
    """A scorer, and a cluster of a few nodes that has a few pods."""

    def __init__(self) -> None:
        self.scorer = Scorer()
        self.members: dict[str, Node] = dict.fromkeys(NODES, EMPTY)

    async def step(self, what: str, place: str, at: int) -> None:
        scorer, name = self.scorer, f"p{at}"
        made = raw(SIZES[at % 4], name=name)
        place = scorer.reservations.node_of(uid(name)) or place
        if what in {"run", "leave"}:
            scorer.see(
                running(on(place, raw(SIZES[at % 4], name=name, **(LEAVING if what == "leave" else {}))))
            )
        elif what == "lose":
            scorer.lose(name)
        elif what == "reserve" and uid(name) not in scorer.state.pods and scorer.fits(made, place)[0]:
            scorer.reserve(made, place)
        elif what == "take":
            others = {each: known for each, known in self.members.items() if each != place}
            self.members = {**others, **({place: found} if (found := TOPOLOGIES[at]) else {})}
            await scorer.know(self.members, unknown=["bare"])
        elif what == "wait":
            await scorer.time.sleep(20.0 * at)


@given(steps=STEPS, ahead=st.booleans())
async def test_batch_answers_equal_single_answers(steps: list[tuple[str, str, int]], *, ahead: bool) -> None:
    life = Life()
    await life.scorer.know(life.members, unknown=["bare"])
    for what, place, at in steps:
        await life.step(what, place, at)
        # As a person does who ranks a pod that is there, or a scheduler that comes back with one.
        if ahead:
            agree(life.scorer, raw(SIZES[at % 4], name=f"p{at}"))
    for size in SIZES:
        for policy in (SINGLE, None):
            agree(life.scorer, raw(size, name="asked", policy=policy))


def agree(scorer: Scorer, made: Raw) -> None:
    call, subject = Candidates(made, tuple(NAMES)), scorer.subject(made)
    answers = scorer.nodes.of(NAMES, subject)
    fresh = [fresh_prediction(scorer, subject, name) for name in NAMES]
    assert [each.prediction for each in answers] == fresh
    assert answer_filter(call, scorer.nodes.filtered(NAMES, subject)[0]) == answer_filter(
        call, filtered(answers)
    )
    ranker, labels = Ranker(RankingRules(Ranking(tuple(Strategy)))), scorer.state.labels
    at_once = ranker.ranks(scorer.nodes.batch(NAMES, subject), labels, opted_out=subject.opted_out)
    for at, each in enumerate(fresh):
        one = ClusterCache.of([replace(each.node, name=NAMES[at])] if each else [])
        alone = ranker.ranks(one.ask([NAMES[at]], subject.question), labels, opted_out=subject.opted_out)
        assert at_once.score(at) == alone.score(0)


def fresh_prediction(scorer: Scorer, subject: PendingPod, name: str) -> Prediction | None:
    found = scorer.reservations.node_info(name)
    if found is None:
        return None
    if scorer.reservations.node_of(subject.uid) == name:
        return scorer.state.predict(name, subject, without=[subject.uid])
    demand, intent = subject.question.demand, subject.question.intent
    return predict(found, demand, intent, created=subject.created, now=scorer.time(), lag=LAG_SECONDS)


# What a scheduler prints of nodes that refuse.

FREE = node("cpu=8 mem=16Gi gpu=2", "cpu=8 mem=16Gi gpu=2", policy="single-numa-node")
TAKEN = node("cpu=8//3 mem=16Gi gpu=2", "cpu=8//3 mem=16Gi gpu=2", policy="single-numa-node")
TIGHT = node("cpu=8 mem=16Gi gpu=2", "cpu=8 mem=16Gi gpu=2", policy="restricted")
NONE = node("cpu=8 mem=16Gi gpu=2", "cpu=8 mem=16Gi gpu=2")


@pytest.mark.parametrize(("node_of_row", "pod", "intent", "expected"), table([
    # what it shows                   node   pod                     intent, then the reason
    ("what is taken now",             TAKEN, "cpu=4 mem=1Gi gpu=1",  "none",
     "have no NUMA zone with 4 cpu, 1Gi memory and 1 nvidia.com/gpu free (numalign: single-numa-node)"),
    ("as few zones as it takes",      TIGHT, "cpu=12 mem=1Gi gpu=1", "none",
     ("would use a different number of NUMA zones per resource for 12 cpu, 1Gi memory and 1 nvidia.com/gpu"
      " (numalign: restricted)")),
    ("a kubelet that aligns nothing", NONE,  "cpu=4 mem=1Gi gpu=1",  "restricted",
     'have Topology Manager policy "none" (numalign: restricted)'),
    ("CPUs that are shared",          FREE,  "cpu=1.5 mem=1Gi",      "restricted cpu",
     ('cannot pin cpu for the pod, because container "c0" requests 1500m cpu, which is not a whole number'
      " (numalign: restricted)")),
]))  # fmt: skip
def test_a_reason_follows_a_number_of_nodes(node_of_row: Node, pod: str, intent: str, expected: str) -> None:
    """As in `0/3 nodes are available: 2 node(s) have no NUMA zone with ..., 1 node(s) have less than`."""
    match = "equal" if intent.startswith("equal") else "satisfies"
    wanted = NO_INTENT if intent == "none" else means(intent.removeprefix("equal "), match=match)
    assert reason(evaluate(node_of_row, asks(pod), wanted)) == f"node(s) {expected}"


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("permanent", [True, False], ids=["ever", "now"])
def test_every_cause_has_a_sentence(cause: Cause, *, permanent: bool) -> None:
    refusal = Refusal(Refuser.KUBELET, "x", cause, Policy.RESTRICTED)
    text = reason(Verdict(refusal, permanent=permanent, placement=Placement(), known=Known.COUNTS))
    assert text.startswith("node(s) ")
    assert text.endswith(" (numalign: restricted)")


def test_admitting_verdict_has_no_reason() -> None:
    with pytest.raises(ValueError, match="is admitted"):
        reason(evaluate(FREE, asks("cpu=4 mem=1Gi")))


AMOUNTS = st.tuples(st.integers(0, 8), st.integers(0, 2))
TWO_ZONES = st.tuples(AMOUNTS, AMOUNTS)


def with_free(amounts: tuple[tuple[int, int], ...], *, policy: str) -> Node:
    return node(*(f"cpu=8//{cpus} mem=16Gi gpu=2//{gpus}" for cpus, gpus in amounts), policy=policy)


@given(
    amounts=st.lists(TWO_ZONES, min_size=2, max_size=12),
    pod=st.sampled_from(
        [
            "cpu=4 mem=1Gi gpu=1",
            "cpu=8 mem=1Gi gpu=2",
            "cpu=6 mem=1Gi | cpu=2 mem=1Gi gpu=2",
            "cpu=10 mem=1Gi",
        ]
    ),
    policy=st.sampled_from(["single-numa-node", "restricted"]),
)
def test_reason_hides_free_amounts(amounts: list[tuple[tuple[int, int], ...]], pod: str, policy: str) -> None:
    verdicts = [evaluate(with_free(each, policy=policy), asks(pod)) for each in amounts]
    refusals = [(each, each.refusal) for each in verdicts if each.refusal]
    kinds = {(refusal.cause, refusal.container, each.permanent) for each, refusal in refusals}
    assert len({reason(each) for each, _ in refusals}) <= len(kinds)
