"""What became of predictions: counted, told on the pod, and once only."""

import pytest

from numalign.kube.events import LONGEST_MESSAGE, Type
from numalign.scheduling.outcomes import EVENT, REMEMBERED_SECONDS, shown
from tests.worlds.notation import bag, table
from tests.worlds.scorer import EMPTY, FOUR, HALF, TEAM, Raw, Scorer, on, raw, refused, running, uid

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
