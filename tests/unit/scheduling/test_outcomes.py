"""What became of predictions: counted, told on the pod, and once only."""

import pytest

from numalign.kube.events import LONGEST_MESSAGE, Type
from numalign.kubelet.admission_errors import RejectionReason
from numalign.scheduling.outcomes import EVENT, REMEMBERED_SECONDS, shown
from tests.unit.scorer.conftest import EMPTY, FOUR, HALF, TEAM, Raw, Scorer, on, raw, refused, running, uid
from tests.worlds.notation import bag, table

SAID = "TopologyAffinityError"


def refusals(scorer: Scorer) -> dict[str, float]:
    """How many refusals were counted, by what had been known of the pod; 0 aside."""
    counts = {
        known: scorer.count("kubelet_refusals_total", reason=SAID, known=known)
        for known in ("reserved", "ranked")
    }
    return {known: count for known, count in counts.items() if count}


def again(scorer: Scorer) -> float:
    return scorer.count("refused_node_chosen_again_total")


def life(scorer: Scorer, made: Raw, place: str = "a") -> None:
    """A pod that waits is bound, and its kubelet refuses it."""
    scorer.see(made)
    scorer.see(on(place, made))
    scorer.see(refused(on(place, made)))


@pytest.fixture
async def scorer() -> Scorer:
    """A scorer that knows two nodes."""
    made = Scorer()
    await made.know({"a": EMPTY, "b": EMPTY})
    return made


# A refusal.


async def test_a_pod_with_reserved_zones_reads_what_was_predicted_and_what_happened(
    scorer: Scorer,
) -> None:
    scorer.see(raw(FOUR))
    assert await scorer.bind(raw(FOUR), "a") == ""
    scorer.see(on("a", raw(FOUR), record=HALF))
    scorer.see(refused(on("a", raw(FOUR), record=HALF)))

    assert refusals(scorer) == {"reserved": 1}
    [event] = scorer.teller
    assert (event.namespace, event.pod, event.uid) == (TEAM, "web", uid("web"))
    assert (event.type, event.reason) == (Type.WARNING, EVENT)
    assert event.message == (
        "numalign predicted that the pod gets 4 cpu and 1Gi memory and 1 nvidia.com/gpu from zone 0 on a;"
        " the kubelet of a rejected the pod: TopologyAffinityError: cannot be aligned"
    )
    [line] = scorer.told.of("prediction.wrong")
    assert (line["pod"], line["node"], line["message"]) == ("team/web", "a", event.message)


async def test_a_pod_that_was_only_ranked_reads_that_it_should_have_fitted(scorer: Scorer) -> None:
    scorer.ask(raw(FOUR), "a", "b")
    life(scorer, raw(FOUR))

    assert refusals(scorer) == {"ranked": 1}
    [event] = scorer.teller
    assert event.message == (
        "numalign predicted that the pod fits on a; the kubelet of a rejected the pod:"
        " TopologyAffinityError: cannot be aligned"
    )


async def test_a_long_story_is_cut(scorer: Scorer) -> None:
    scorer.ask(raw(FOUR), "a", "b")
    scorer.see(on("a", raw(FOUR)))
    made = refused(on("a", raw(FOUR)))
    scorer.see({**made, "status": {**made["status"], "message": "x" * 5000}})

    [event] = scorer.teller
    assert (len(event.message), event.message[-4:]) == (LONGEST_MESSAGE, "x...")


async def test_what_was_reserved_by_a_scorer_before_this_one_stands_on_the_pod(scorer: Scorer) -> None:
    scorer.see(on("a", raw(FOUR), record=HALF))
    scorer.see(refused(on("a", raw(FOUR), record=HALF)))

    assert refusals(scorer) == {"reserved": 1}
    assert "gets 4 cpu" in scorer.teller[0].message


async def test_a_pod_that_nobody_asked_us_about_is_none_of_our_predictions(scorer: Scorer) -> None:
    """Another scheduler sent it there."""
    life(scorer, raw(FOUR))

    assert (refusals(scorer), scorer.teller) == ({}, [])


async def test_a_pod_that_was_seen_for_the_first_time_with_its_end_is_counted_if_it_was_asked_about(
    scorer: Scorer,
) -> None:
    """A watch that breaks off may skip all that was between."""
    scorer.ask(raw(FOUR), "a")
    scorer.see(refused(on("a", raw(FOUR))))

    assert refusals(scorer) == {"ranked": 1}


@pytest.mark.parametrize("record", [None, HALF], ids=["without a record", "with a record"])
async def test_pods_that_had_failed_before_we_came_are_history(
    scorer: Scorer, record: list[dict[str, object]] | None
) -> None:
    scorer.see(refused(on("a", raw(FOUR), record=record)))

    assert (refusals(scorer), scorer.teller) == ({}, [])


async def test_a_refusal_counts_once_however_often_the_pod_is_seen(scorer: Scorer) -> None:
    scorer.ask(raw(FOUR), "a")
    life(scorer, raw(FOUR))
    scorer.see(refused(on("a", raw(FOUR)), message="the same in other words"))
    scorer.see(refused(on("a", raw(FOUR, deletionTimestamp="2027-01-15T08:00:00Z"))))

    assert (refusals(scorer), len(scorer.teller)) == ({"ranked": 1}, 1)


NO_REFUSALS = [
    # what happens         what the pod says of it
    ("it fails by itself", {"phase": "Failed", "reason": "Error", "message": "exit code 1"}),
    ("it fails silently",  {"phase": "Failed"}),
    ("it is evicted",      {"phase": "Failed", "reason": "Evicted"}),
    ("it succeeds",        {"phase": "Succeeded"}),
    ("it runs",            {"phase": "Running", "reason": SAID}),
]  # fmt: skip


@pytest.mark.parametrize("status", table(NO_REFUSALS))
async def test_what_is_no_refusal_of_a_kubelet_is_not_counted(scorer: Scorer, status: Raw) -> None:
    scorer.ask(raw(FOUR), "a")
    scorer.see(on("a", raw(FOUR)))
    scorer.see({**on("a", raw(FOUR)), "status": status})

    assert (refusals(scorer), scorer.teller) == ({}, [])


@pytest.mark.parametrize("reason", RejectionReason)
async def test_every_reason_of_a_kubelet_is_counted(scorer: Scorer, reason: RejectionReason) -> None:
    scorer.ask(raw(FOUR), "a")
    scorer.see(refused(on("a", raw(FOUR)), reason=reason.value))

    assert scorer.count("kubelet_refusals_total", reason=reason, known="ranked") == 1


# The node again.


async def first_refusal(scorer: Scorer) -> None:
    """A kubelet refuses a pod of a template."""
    scorer.ask(raw(FOUR, name="first"), "a")
    life(scorer, raw(FOUR, name="first"))
    assert again(scorer) == 0


def chosen(scorer: Scorer, made: Raw, place: str) -> None:
    """A pod is ranked, and bound."""
    scorer.ask(made, "a", "b")
    scorer.see(made)
    scorer.see(on(place, made))


async def test_a_node_that_has_just_refused_the_same_is_told_when_it_is_chosen_again(
    scorer: Scorer,
) -> None:
    await first_refusal(scorer)
    chosen(scorer, raw(FOUR, name="second"), "a")
    scorer.see(running(on("a", raw(FOUR, name="second"))))

    assert again(scorer) == 1
    assert [(event.pod, event.message) for event in scorer.teller[1:]] == [
        ("second", "node a has just rejected a pod with the same requests, and was chosen again")
    ]
    [line] = scorer.told.of("prediction.repeated")
    assert (line["pod"], line["node"]) == ("team/second", "a")


OTHERS = [
    # what it shows                    the pod                           the node  seconds later
    ("another node",                   raw(FOUR, name="second"),         "b",      0.0),
    ("a pod that asks something else", raw("cpu=2 mem=1Gi", name="two"), "a",      0.0),
    ("long after",                     raw(FOUR, name="second"),         "a",      REMEMBERED_SECONDS + 1),
]  # fmt: skip


@pytest.mark.parametrize(("made", "place", "later"), table(OTHERS))
async def test_nothing_is_told_of(scorer: Scorer, made: Raw, place: str, later: float) -> None:
    await first_refusal(scorer)
    scorer.time.seconds += later
    chosen(scorer, made, place)

    assert (again(scorer), len(scorer.teller)) == (0, 1)


async def test_who_chose_the_node_without_asking_is_not_told(scorer: Scorer) -> None:
    await first_refusal(scorer)
    scorer.see(on("a", raw(FOUR, name="second")))

    assert (again(scorer), len(scorer.teller)) == (0, 1)


def test_what_is_held_is_said_by_zones() -> None:
    held = {("node-0",): bag("cpu=4 gpu=1"), ("node-0", "node-1"): bag("mem=6Gi")}

    assert shown(held) == "4 cpu and 1 nvidia.com/gpu from zone 0, 6Gi memory from zone 0 and zone 1"
    assert shown({}) == "no exclusive resources"
