"""What nodes say to a pod at the moment, and that nobody is told what was true a moment ago."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cluster.policy import parse
from scorer import reasons
from scorer.judging import Judgement, by_fit
from tests.notation import node, table
from tests.scorer.conftest import EMPTY, LOOSE, SINGLE, SMALL, Raw, Scorer, on, raw, running

FOUR = "cpu=4 mem=1Gi gpu=1"
ALL = "cpu=8 mem=1Gi gpu=2"
BOTH = [{"zones": [f"node-{at}"], "amount": {"cpu": "8", "nvidia.com/gpu": "2"}} for at in (0, 1)]
ONE = BOTH[:1]

SILENT = raw(FOUR, policy=None)


async def test_nodes_are_asked_in_the_order_of_the_call(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY, "b": SMALL, "c": LOOSE})
    found = scorer.ask(raw(FOUR), "c", "a", "b")

    assert [(each.name, each.fits, each.permanent) for each in found] == [
        ("c", False, True),
        ("a", True, False),
        ("b", False, True),
    ]
    assert found[1].offer
    assert found[1].reason == ""


async def test_what_is_taken_now_is_no_permanent_refusal(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(running(on("a", raw("cpu=16 mem=1Gi gpu=4", name="full"), record=BOTH)))
    [found] = scorer.ask(raw(FOUR), "a")

    assert (found.fits, found.permanent) == (False, False)
    assert found.reason.startswith("node(s) have not got 4 cpu")


UNKNOWN_NODES = [
    # what it shows                           what they may do  the pod, and whether it fits
    ("a pod that must be aligned",            "cannot-fit",     raw(FOUR),                       False),
    ("as much as can be restricted",          "cannot-fit",     raw(FOUR, policy="restricted"),  False),
    ("a pod that tries",                      "cannot-fit",     raw(FOUR, policy="best-effort"), True),
    ("a pod that says nothing",               "cannot-fit",     SILENT,                          True),
    ("one that must, where nobody minds",     "may-fit",        raw(FOUR),                       True),
    ("one that does not, where nobody minds", "may-fit",        SILENT,                          True),
]  # fmt: skip


@pytest.mark.parametrize(("unknown", "made", "fits"), table(UNKNOWN_NODES))
@pytest.mark.parametrize("name", ["bare", "never-heard-of"])
async def test_on_a_node_that_publishes_nothing(unknown: str, made: Raw, name: str, *, fits: bool) -> None:
    scorer = Scorer(unknown=unknown)
    await scorer.know({"a": EMPTY}, unknown=["bare"])
    [found] = scorer.ask(made, name)

    assert (found.fits, found.offer) == (fits, None)
    assert found.reason == ("" if fits else reasons.UNKNOWN)


async def test_nobody_is_evicted_from_a_node_that_publishes_nothing(scorer: Scorer) -> None:
    """No eviction makes a topology appear, so the scheduler must not try one."""
    await scorer.know({"a": EMPTY}, unknown=["bare"])
    [found] = scorer.ask(raw(FOUR), "bare")

    assert found.permanent


async def test_a_namespace_asks_for_those_that_say_nothing(scorer: Scorer) -> None:
    await scorer.know({"loose": LOOSE}, unknown=["bare"], team={"default": SINGLE})

    assert scorer.fits(SILENT, "loose", "bare") == [False, False]
    assert scorer.fits(raw(FOUR, policy="best-effort"), "loose", "bare") == [True, True]


async def test_a_policy_that_changes_counts_at_once(scorer: Scorer) -> None:
    await scorer.know({"loose": LOOSE})
    before = scorer.fits(raw(FOUR), "loose")
    scorer.obey(parse(b"exemptions: {namespaces: [team]}"))

    assert [*before, *scorer.fits(raw(FOUR), "loose")] == [False, True]


# What is remembered.


async def test_the_same_answer_is_given_until_anything_changes_on_the_node(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY})
    a, b = scorer.ask(raw(FOUR), "a", "b")
    same = scorer.ask(raw(FOUR, name="twin"), "a", "b")
    scorer.see(running(on("a", raw(ALL, name="came"), record=ONE)))
    changed, unchanged = scorer.ask(raw(FOUR), "a", "b")

    assert [each is before for each, before in zip(same, (a, b), strict=True)] == [True, True]
    assert unchanged is b
    assert changed is not a


CHANGES = [
    # what happens                     before                            after
    ("a pod comes",                    [],                               ["on both"]),
    ("a pod goes",                     ["on both"],                      []),
    ("a pod is promised its zones",    ["on one"],                       ["on one", "promise"]),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), table(CHANGES))
async def test_no_answer_outlives_what_it_was_given_for(
    scorer: Scorer, before: list[str], after: list[str]
) -> None:
    await scorer.know({"a": EMPTY})
    asked = raw(ALL, name="asked")

    def arrange(words: list[str]) -> None:
        for name, record in (("on both", BOTH), ("on one", ONE)):
            if name in words:
                scorer.see(running(on("a", raw(ALL, name=name.replace(" ", "-")), record=record)))
            else:
                scorer.lose(name.replace(" ", "-"))
        if "promise" in words:
            scorer.promised(raw(ALL, name="promised"), "a")

    arrange(before)
    first = scorer.fits(asked, "a")
    arrange(after)
    fresh = Scorer()
    fresh.promises = scorer.promises

    expected = scorer.promises.offer(
        "a", scorer.subject(asked).question.demand, scorer.subject(asked).question.intent, now=scorer.time()
    )
    assert expected
    assert scorer.fits(asked, "a") == [expected.verdict.admitted] != first


async def test_a_topology_that_changes_is_asked_anew(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    answers = scorer.fits(raw(FOUR), "a")
    await scorer.know({"a": SMALL})
    answers += scorer.fits(raw(FOUR), "a")
    await scorer.know({}, unknown=["a"])
    answers += scorer.fits(raw(FOUR), "a")
    await scorer.know({"a": EMPTY})

    assert [*answers, *scorer.fits(raw(FOUR), "a")] == [True, False, False, True]


async def test_a_promise_to_a_pod_stands_in_everybodys_way_but_its_own(scorer: Scorer) -> None:
    await scorer.know({"one": node("cpu=8 mem=16Gi gpu=2", policy=SINGLE)})
    scorer.promised(raw(ALL), "one")

    assert scorer.fits(raw(ALL), "one") == [True]
    assert scorer.fits(raw(ALL, name="twin"), "one") == [False]
    assert scorer.fits(raw(ALL), "one") == [True]


async def test_to_ask_about_a_pod_that_is_there_gives_its_room_to_nobody(scorer: Scorer) -> None:
    """`kubectl get pod -o json` of a pod that runs can be ranked, and says nothing to the next pod."""
    await scorer.know({"one": node("cpu=8 mem=16Gi gpu=2", policy=SINGLE)})
    scorer.see(running(on("one", raw(ALL), record=ONE)))

    assert scorer.fits(raw(ALL), "one") == [True]
    assert scorer.fits(raw(ALL, name="twin"), "one") == [False]
    assert scorer.fits(raw(ALL), "one") == [True]


async def test_whom_a_pod_waits_for_depends_on_when_it_was_created(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.promised(raw("cpu=7 mem=1Gi", name="first", creationTimestamp="2027-01-15T07:30:00Z"), "a")

    def waits_for(minute: int) -> list[str]:
        born = f"2027-01-15T07:{minute}:00Z"
        [found] = scorer.ask(raw("cpu=2 mem=1Gi", name=f"at-{minute}", creationTimestamp=born), "a")
        assert found.offer
        return [each.name[1] for each in found.offer.waits_for]

    assert [waits_for(minute) for minute in (29, 31, 30, 31)] == [["first"], [], ["first"], []]


def test_by_fit_parts_the_nodes() -> None:
    yes, no, never = Judgement("a", None, fits=True), Judgement("b", None, fits=False, reason="x"), "c"
    found = by_fit([no, Judgement(never, None, fits=False, permanent=True, reason="y"), yes])

    assert found == (["a"], {"b": "x"}, {"c": "y"})


# A law: whatever happened, an answer is that of a scorer which has never been asked before.

STEPS = st.lists(
    st.tuples(st.sampled_from(["run", "lose", "promise", "ask", "take"]), st.integers(0, 3)), max_size=14
)
SIZES = ["cpu=2 mem=1Gi gpu=1", "cpu=8 mem=1Gi", "cpu=6 mem=1Gi gpu=2", "cpu=1 mem=1Gi"]


@given(steps=STEPS)
async def test_memory_never_shows(steps: list[tuple[str, int]]) -> None:
    scorer, topologies = Scorer(), [EMPTY, SMALL, node("cpu=8 mem=16Gi gpu=2", policy=SINGLE), LOOSE]
    await scorer.know({"a": EMPTY})
    for what, at in steps:
        made = raw(SIZES[at], name=f"p{at}")
        if what == "run":
            scorer.see(running(on("a", made)))
        elif what == "lose":
            scorer.lose(f"p{at}")
        elif what == "promise" and f"uid-of-p{at}" not in scorer.register.pods and scorer.fits(made, "a")[0]:
            scorer.promised(made, "a")
        elif what == "take":
            await scorer.know({"a": topologies[at]})
        # As a person does who ranks a pod that is there.
        scorer.ask(made, "a")
        asked = raw(SIZES[at], name="asked")
        subject = scorer.subject(asked)
        told = scorer.promises.offer(
            "a",
            subject.question.demand,
            subject.question.intent,
            created=subject.created,
            now=scorer.time(),
        )
        assert told
        assert scorer.ask(asked, "a")[0].offer == told
