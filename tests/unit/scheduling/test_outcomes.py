"""What became of predictions: counted, told on the pod, and once only."""

from collections.abc import Mapping, Sequence

import pytest

from numalign.kube.decode.kubelet_reports import ObservedPlacement
from numalign.kube.events import LONGEST_MESSAGE, Type
from numalign.scheduling.outcomes import (
    EVENT,
    IN_A_LINE,
    PATIENCE_SECONDS,
    REMEMBERED_SECONDS,
    Disbelief,
    PredictionResult,
    shown,
)
from tests.worlds.notation import bag, node, table
from tests.worlds.scorer import EMPTY, FOUR, HALF, SINGLE, TEAM, Raw, Scorer, on, raw, refused, running, uid

REASON = "TopologyAffinityError"


def refusals(scorer: Scorer) -> dict[str, float]:
    """How many refusals were counted, by what had been known of the pod; 0 aside."""
    counts = {
        known: scorer.count("kubelet_refusals_total", reason=REASON, known=known)
        for known in ("reserved", "ranked")
    }
    return {known: count for known, count in counts.items() if count}


def again(scorer: Scorer) -> float:
    return scorer.count("refused_node_chosen_again_total")


@pytest.fixture
async def scorer() -> Scorer:
    made = Scorer()
    await made.know({"a": EMPTY, "b": EMPTY})
    return made


# A refusal.


async def test_rejection_of_a_reserved_pod_is_an_event(scorer: Scorer) -> None:
    scorer.see(raw(FOUR))
    assert await scorer.bind(raw(FOUR), "a") == ""
    scorer.see(there := on("a", raw(FOUR), record=HALF), refused(there))
    assert refusals(scorer) == {"reserved": 1}
    [event] = scorer.teller
    assert (event.namespace, event.pod, event.uid) == (TEAM, "web", uid("web"))
    assert (event.type, event.reason) == (Type.WARNING, EVENT)
    assert event.message == (
        "numalign predicted that the pod gets 4 cpu and 1Gi memory and 1 nvidia.com/gpu from zone 0 on a;"
        " the kubelet of a rejected the pod: TopologyAffinityError: cannot be aligned"
    )
    [line] = scorer.journal.of("prediction.wrong")
    assert (line["pod"], line["node"], line["message"]) == ("team/web", "a", event.message)


HERE = on("a", raw(FOUR))
REJECTED, LEAVING = refused(HERE), refused(on("a", raw(FOUR, deletionTimestamp="2027-01-15T08:00:00Z")))
IN_OTHER_WORDS = refused(HERE, message="the same in other words")
BROKEN = {**HERE, "status": {"phase": "Failed", "reason": "Error", "message": "exit code 1"}}
RUNS = {**HERE, "status": {"phase": "Running", "reason": REASON}}


@pytest.mark.parametrize(("ranked", "pods", "count"), table([
    # what happens                             ranked  what is seen                           counted
    ("another scheduler sent it there",        False, [raw(FOUR), HERE, REJECTED],            0),
    ("a watch skipped all between",            True,  [REJECTED],                             1),
    ("it had failed before we came",           False, [REJECTED],                             0),
    ("it had, with a record",                  False, [refused(on("a", raw(FOUR), record=HALF))], 0),
    ("it is told again and again",             True,
        [raw(FOUR), HERE, REJECTED, IN_OTHER_WORDS, LEAVING],                                 1),
    ("it fails by itself",                     True,  [HERE, BROKEN],                         0),
    ("it runs",                                True,  [HERE, RUNS],                           0),
]))  # fmt: skip
async def test_rejections_of_ranked_pods_are_counted_once(
    scorer: Scorer, pods: list[Raw], count: int, *, ranked: bool
) -> None:
    if ranked:
        scorer.ask(raw(FOUR), "a")
    scorer.see(*pods)
    assert (refusals(scorer), len(scorer.teller)) == ({"ranked": 1} if count else {}, count)


# The node again.


async def first_refusal(scorer: Scorer) -> None:
    scorer.ask(first := raw(FOUR, name="first"), "a")
    scorer.see(first, on("a", first), refused(on("a", first)))
    assert again(scorer) == 0


def chosen(scorer: Scorer, made: Raw, place: str) -> None:
    scorer.ask(made, "a", "b")
    scorer.see(made, on(place, made))


async def test_rejecting_node_chosen_again_is_an_event(scorer: Scorer) -> None:
    await first_refusal(scorer)
    chosen(scorer, raw(FOUR, name="second"), "a")
    scorer.see(running(on("a", raw(FOUR, name="second"))))
    assert again(scorer) == 1
    assert [(event.pod, event.message) for event in scorer.teller[1:]] == [
        ("second", "node a has just rejected a pod with the same requests, and was chosen again")
    ]
    [line] = scorer.journal.of("prediction.repeated")
    assert (line["pod"], line["node"]) == ("team/second", "a")


@pytest.mark.parametrize(("made", "place", "later"), table([
    # what it shows                    the pod                           the node  seconds later
    ("another node",                   raw(FOUR, name="second"),         "b",      0.0),
    ("a pod that asks something else", raw("cpu=2 mem=1Gi", name="two"), "a",      0.0),
    ("long after",                     raw(FOUR, name="second"),         "a",      REMEMBERED_SECONDS + 1),
]))  # fmt: skip
async def test_repeated_choice_is_no_event_for(scorer: Scorer, made: Raw, place: str, later: float) -> None:
    await first_refusal(scorer)
    scorer.time.seconds += later
    chosen(scorer, made, place)
    assert (again(scorer), len(scorer.teller)) == (0, 1)


def test_placement_is_written_by_zone() -> None:
    held = {("node-0",): bag("cpu=4 gpu=1"), ("node-0", "node-1"): bag("mem=6Gi")}
    assert shown(held) == "4 cpu and 1 nvidia.com/gpu from zone 0, 6Gi memory from zone 0 and zone 1"
    assert shown({}) == "no exclusive resources"


async def test_long_event_is_cut(scorer: Scorer) -> None:
    scorer.ask(raw(FOUR), "a", "b")
    scorer.see(on("a", raw(FOUR)))
    made = refused(on("a", raw(FOUR)))
    scorer.see({**made, "status": {**made["status"], "message": "x" * 5000}})
    [event] = scorer.teller
    assert (len(event.message), event.message[-4:]) == (LONGEST_MESSAGE, "x...")


# Predictions beside what the agent of their node reports.

PLACE = node("cpu=8 mem=16Gi gpu=2", "cpu=8 mem=16Gi gpu=2", policy="single-numa-node")
NOTHING = ObservedPlacement({}, 0)
AS_PREDICTED = ObservedPlacement({("node-0",): bag("cpu=4 mem=1Gi gpu=1")}, 0)
ELSEWHERE = ObservedPlacement({("node-1",): bag("cpu=4 mem=1Gi gpu=1")}, 0)
LESS = ObservedPlacement({("node-0",): bag("cpu=4 mem=1Gi")}, 0)


def results(with_agent: Scorer) -> dict[str, float]:
    """How many predictions were counted, by what became of them; 0 aside."""
    counts = {
        result.value: with_agent.count("predictions_total", result=result) for result in PredictionResult
    }
    return {result: count for result, count in counts.items() if count}


async def show(with_agent: Scorer, **pods: ObservedPlacement) -> None:
    """The agent of the one node shows these pods, and somebody looks."""
    observed = {uid(name): placement for name, placement in pods.items()}
    await with_agent.know({"a": PLACE}, placements={"a": {"uid-of-another": NOTHING, **observed}})
    with_agent.predictions.look()


@pytest.fixture
async def with_agent() -> Scorer:
    made = Scorer()
    await show(made)
    return made


async def bound(
    with_agent: Scorer, made: Raw, *, record: Sequence[Mapping[str, object]] | None = None
) -> None:
    with_agent.see(made)
    assert await with_agent.bind(made, "a") == ""
    with_agent.see(on("a", made, record=record))
    with_agent.predictions.look()


THERE = on("a", raw(FOUR), record=HALF)
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
    with_agent: Scorer,
    before: str,
    pods: list[Raw],
    shown: Mapping[str, ObservedPlacement],
    counts: dict[str, int],
) -> None:
    if before == "bound":
        await bound(with_agent, raw(FOUR), record=HALF)
    elif before == "ranked":
        with_agent.ask(raw(FOUR), "a")
    assert results(with_agent) == {}
    with_agent.see(*pods)
    await show(with_agent, **shown)
    assert (results(with_agent), len(with_agent.teller)) == (counts, counts.get("refused", 0))


async def test_other_placement_is_counted_and_an_event(with_agent: Scorer) -> None:
    await bound(with_agent, raw(FOUR), record=HALF)
    await show(with_agent, web=ELSEWHERE)
    assert results(with_agent) == {"differed": 1}
    [event] = with_agent.teller
    assert (event.namespace, event.pod, event.uid) == (TEAM, "web", uid("web"))
    assert (event.type, event.reason) == (Type.WARNING, EVENT)
    assert event.message == (
        "numalign predicted that the pod gets 4 cpu and 1Gi memory and 1 nvidia.com/gpu from zone 0 on a;"
        " the kubelet of a allocated 4 cpu and 1Gi memory and 1 nvidia.com/gpu from zone 1"
    )
    [line] = with_agent.journal.of("prediction.wrong")
    assert (line["pod"], line["node"], line["message"]) == ("team/web", "a", event.message)


async def test_placement_is_counted_once(with_agent: Scorer) -> None:
    await bound(with_agent, raw(FOUR), record=HALF)
    for placement in (ELSEWHERE, LESS, ELSEWHERE):
        await show(with_agent, web=placement)
    with_agent.see(running(on("a", raw(FOUR), record=HALF)))
    await show(with_agent, web=AS_PREDICTED)
    assert (results(with_agent), len(with_agent.teller)) == ({"differed": 1}, 1)


async def test_placement_not_observed_in_time_is_counted(with_agent: Scorer) -> None:
    await bound(with_agent, raw(FOUR), record=HALF)
    with_agent.time.seconds += PATIENCE_SECONDS - 1
    with_agent.predictions.look()
    assert results(with_agent) == {}
    with_agent.time.seconds += 1
    with_agent.predictions.look()
    await show(with_agent, web=AS_PREDICTED)
    assert results(with_agent) == {"unobserved": 1}


async def test_a_pod_that_gets_nothing_of_its_own_is_not_counted(with_agent: Scorer) -> None:
    shares = raw("cpu=1.. mem=1Gi..", policy=None)
    with_agent.ask(shares, "a")
    await bound(with_agent, shares, record=[])
    await show(with_agent, web=NOTHING)
    assert results(with_agent) == {}


async def test_without_an_agent_nothing_is_counted(with_agent: Scorer) -> None:
    await with_agent.know({"a": PLACE})
    await bound(with_agent, raw(FOUR), record=HALF)
    with_agent.time.seconds += PATIENCE_SECONDS
    with_agent.predictions.look()
    assert (results(with_agent), len(with_agent.predictions.caches()["unobserved"])) == ({}, 0)


# Records that cannot be right.

WIDE = node("cpu=64 mem=64Gi", "cpu=64 mem=64Gi", policy=SINGLE)
ALL_OF_IT = [{"zones": [f"node-{at}"], "amount": {"cpu": "64", "memory": "64Gi"}} for at in (0, 1)]
HALF_OF_IT = "cpu=64 mem=1Gi"
ALL_OF_A_ZONE = [{"zones": ["node-0"], "amount": {"cpu": "64", "memory": "1Gi"}}]


def claiming(containers: str, name: str, record: Sequence[Mapping[str, object]]) -> Raw:
    return running(on("wide", raw(containers, name=name), record=record))


@pytest.fixture
async def wide_scorer() -> Scorer:
    made = Scorer()
    await made.know({"wide": WIDE})
    return made


async def test_false_record_of_a_small_pod_blocks_nothing(wide_scorer: Scorer) -> None:
    wide_scorer.see(claiming("cpu=100m mem=100Mi", "tiny", ALL_OF_IT))
    assert wide_scorer.fits(raw(HALF_OF_IT), "wide") == [True]
    assert wide_scorer.reservations.count_refuted() == 1


async def test_disbelieved_pod_is_logged_once_while_it_is_there(wide_scorer: Scorer) -> None:
    disbelief = Disbelief(wide_scorer.reservations, log=wide_scorer.journal.log)
    wide_scorer.see(claiming(HALF_OF_IT, "liar", []), claiming(HALF_OF_IT, "honest", ALL_OF_A_ZONE))
    disbelief.look()
    wide_scorer.see(claiming(HALF_OF_IT, "liar", ALL_OF_IT))
    disbelief.look()
    [line] = wide_scorer.journal.of("record.disbelieved")
    assert (line["pods"], line["omitted"]) == (["team/liar on wide: cpu, memory"], 0)
    wide_scorer.lose("liar")
    disbelief.look()
    wide_scorer.see(claiming(HALF_OF_IT, "liar", []))
    disbelief.look()
    assert len(wide_scorer.journal.of("record.disbelieved")) == 2


async def test_a_thousand_false_records_are_a_line_at_a_time(wide_scorer: Scorer) -> None:
    disbelief = Disbelief(wide_scorer.reservations, log=wide_scorer.journal.log)
    many = IN_A_LINE + 3
    wide_scorer.see(*(claiming("cpu=1 mem=1Gi", f"liar-{at}", []) for at in range(many)))
    for _ in range(4):
        disbelief.look()
    lines = wide_scorer.journal.of("record.disbelieved")
    assert [(len(line["pods"]), line["omitted"]) for line in lines] == [(IN_A_LINE, 3), (3, 0)]
    assert len({pod for line in lines for pod in line["pods"]}) == many
