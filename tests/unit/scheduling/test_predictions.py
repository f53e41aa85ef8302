"""What pods were predicted to get, beside what the agent of their node shows: counted, and told once."""

from collections.abc import Mapping, Sequence

import pytest

from numalign.kube.decode.kubelet_reports import ObservedPlacement
from numalign.kube.events import Type
from numalign.scheduling.outcomes import EVENT
from numalign.scheduling.predictions import PATIENCE_SECONDS, PredictionResult
from tests.worlds.notation import bag, node, table
from tests.worlds.scorer import FOUR, HALF, TEAM, Raw, Scorer, on, raw, refused, running, uid

PLACE = node("cpu=8 mem=16Gi gpu=2", "cpu=8 mem=16Gi gpu=2", policy="single-numa-node")
NOTHING = ObservedPlacement({}, 0)
AS_PREDICTED = ObservedPlacement({("node-0",): bag("cpu=4 mem=1Gi gpu=1")}, 0)
ELSEWHERE = ObservedPlacement({("node-1",): bag("cpu=4 mem=1Gi gpu=1")}, 0)
LESS = ObservedPlacement({("node-0",): bag("cpu=4 mem=1Gi")}, 0)


def results(scorer: Scorer) -> dict[str, float]:
    """How many predictions were counted, by what became of them; 0 aside."""
    counts = {result.value: scorer.count("predictions_total", result=result) for result in PredictionResult}
    return {result: count for result, count in counts.items() if count}


async def show(scorer: Scorer, **pods: ObservedPlacement) -> None:
    """The agent of the one node shows these pods, and somebody looks."""
    observed = {uid(name): placement for name, placement in pods.items()}
    await scorer.know({"a": PLACE}, placements={"a": {"uid-of-another": NOTHING, **observed}})
    scorer.predictions.look()


@pytest.fixture
async def scorer() -> Scorer:
    made = Scorer()
    await show(made)
    return made


async def bound(scorer: Scorer, made: Raw, *, record: Sequence[Mapping[str, object]] | None = None) -> None:
    scorer.see(made)
    assert await scorer.bind(made, "a") == ""
    scorer.see(on("a", made, record=record))
    scorer.predictions.look()


HERE, THERE = on("a", raw(FOUR)), on("a", raw(FOUR), record=HALF)
SHOWN = {"web": AS_PREDICTED}


@pytest.mark.parametrize(("before", "pods", "shown", "counts"), table([
    # what it shows                        before   what is seen        shown then, counted
    ("it gets what was predicted",         "bound", [],                 SHOWN, {"agreed": 1}),
    ("another scheduler bound it",         "ranked", [raw(FOUR), HERE],  SHOWN, {"unpredicted": 1}),
    ("its kubelet refuses it",             "bound", [refused(THERE)],   {},    {"refused": 1}),
    ("nobody asked about it here",         "",      [HERE],             SHOWN, {}),
    ("it ran before this process came",    "",      [running(THERE)],   SHOWN, {}),
    ("it never came to a node",            "",      [raw(FOUR)],        {},    {}),
]))  # fmt: skip
async def test_predictions_are_counted_where(
    scorer: Scorer,
    before: str,
    pods: list[Raw],
    shown: Mapping[str, ObservedPlacement],
    counts: dict[str, int],
) -> None:
    if before == "bound":
        await bound(scorer, raw(FOUR), record=HALF)
    elif before == "ranked":
        scorer.ask(raw(FOUR), "a")
    assert results(scorer) == {}
    scorer.see(*pods)
    await show(scorer, **shown)
    assert (results(scorer), len(scorer.teller)) == (counts, counts.get("refused", 0))


async def test_other_placement_is_counted_and_an_event(scorer: Scorer) -> None:
    await bound(scorer, raw(FOUR), record=HALF)
    await show(scorer, web=ELSEWHERE)
    assert results(scorer) == {"differed": 1}
    [event] = scorer.teller
    assert (event.namespace, event.pod, event.uid) == (TEAM, "web", uid("web"))
    assert (event.type, event.reason) == (Type.WARNING, EVENT)
    assert event.message == (
        "numalign predicted that the pod gets 4 cpu and 1Gi memory and 1 nvidia.com/gpu from zone 0 on a;"
        " the kubelet of a allocated 4 cpu and 1Gi memory and 1 nvidia.com/gpu from zone 1"
    )
    [line] = scorer.journal.of("prediction.wrong")
    assert (line["pod"], line["node"], line["message"]) == ("team/web", "a", event.message)


async def test_placement_is_counted_once(scorer: Scorer) -> None:
    await bound(scorer, raw(FOUR), record=HALF)
    for placement in (ELSEWHERE, LESS, ELSEWHERE):
        await show(scorer, web=placement)
    scorer.see(running(on("a", raw(FOUR), record=HALF)))
    await show(scorer, web=AS_PREDICTED)
    assert (results(scorer), len(scorer.teller)) == ({"differed": 1}, 1)


async def test_placement_not_observed_in_time_is_counted(scorer: Scorer) -> None:
    await bound(scorer, raw(FOUR), record=HALF)
    scorer.time.seconds += PATIENCE_SECONDS - 1
    scorer.predictions.look()
    assert results(scorer) == {}
    scorer.time.seconds += 1
    scorer.predictions.look()
    await show(scorer, web=AS_PREDICTED)
    assert results(scorer) == {"unobserved": 1}


async def test_a_pod_that_gets_nothing_of_its_own_is_not_counted(scorer: Scorer) -> None:
    shares = raw("cpu=1.. mem=1Gi..", policy=None)
    scorer.ask(shares, "a")
    await bound(scorer, shares, record=[])
    await show(scorer, web=NOTHING)
    assert results(scorer) == {}


async def test_without_an_agent_nothing_is_counted(scorer: Scorer) -> None:
    await scorer.know({"a": PLACE})
    await bound(scorer, raw(FOUR), record=HALF)
    scorer.time.seconds += PATIENCE_SECONDS
    scorer.predictions.look()
    assert (results(scorer), len(scorer.predictions.caches()["unobserved"])) == ({}, 0)
