"""Which victims would make room that is aligned."""

from collections.abc import Sequence

import pytest

from numalign.ledger.reservations import RELEASE_SECONDS
from numalign.runtime.cooperative import result_of
from scorer import preempting
from scorer.extender_protocol import Victims
from tests.unit.scorer.conftest import ALL, EMPTY, LOOSE, SINGLE, SMALL, Raw, Scorer, on, raw, running, uid
from tests.worlds.notation import node, table

HALF = "cpu=4 mem=1Gi gpu=1"


def placed(zone: int) -> list[Raw]:
    """The record of such a half."""
    amount = {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "1"}
    return [{"zones": [f"node-{zone}"], "amount": amount}]


@pytest.fixture
async def scorer() -> Scorer:
    """A node whose two zones are full: two halves on each, of pods v0 and v1, v2 and v3."""
    made = Scorer()
    await made.know({"a": EMPTY, "small": SMALL, "loose": LOOSE}, unknown=["bare"])
    for at in range(4):
        made.see(running(on("a", raw(HALF, name=f"v{at}"), record=placed(at // 2))))
    made.time.seconds += RELEASE_SECONDS + 1
    return made


def victims(*names: str) -> Victims:
    return Victims(tuple(map(uid, names)), 1)


def worthwhile(scorer: Scorer, made: Raw, **candidates: Victims) -> dict[str, Victims]:
    return scorer.preemption.worthwhile(scorer.subject(made), candidates)


WORTH = [
    # what it shows                         the pod                  its victims           whether it helps
    ("both of one zone",                    raw(ALL),                ("v0", "v1"),         True),
    ("one of each zone",                    raw(ALL),                ("v0", "v2"),         False),
    ("one, and half a zone is wanted",      raw(HALF),               ("v3",),              True),
    ("one, and a zone is wanted",           raw(ALL),                ("v3",),              False),
    ("more than it takes",                  raw(ALL),                ("v0", "v1", "v2"),   True),
    ("all, and no zone is large enough",    raw("cpu=12 mem=1Gi"),   ("v0", "v1", "v2", "v3"), False),
    ("nobody",                              raw(HALF),               (),                   False),
    ("nobody, and it fits",                 raw("cpu=0.5"),          (),                   True),
    ("somebody who was never here",         raw(HALF),               ("stranger",),        False),
    ("the same one twice",                  raw(ALL),                ("v0", "v0"),         False),
    ("the pod itself",                      raw(ALL, name="v0"),     ("v1",),              True),
]  # fmt: skip


@pytest.mark.parametrize(("made", "names", "helps"), table(WORTH))
async def test_to_evict(scorer: Scorer, made: Raw, names: tuple[str, ...], *, helps: bool) -> None:
    asked = victims(*names)

    assert worthwhile(scorer, made, a=asked) == ({"a": asked} if helps else {})


async def test_nodes_are_kept_in_their_order_with_their_victims_as_they_came(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY, "small": SMALL})
    candidates = {"b": victims(), "small": victims("x"), "a": victims("v2", "v3")}
    found = worthwhile(scorer, raw(ALL), **candidates)

    assert [*found.items()] == [("b", victims()), ("a", victims("v2", "v3"))]


async def test_where_nobody_knows_what_victims_hold_nobody_is_kept_from_trying(scorer: Scorer) -> None:
    """What the stranger holds is unknown, and so is what will be free without it."""
    scorer.see(running(on("a", raw(HALF, name="stranger"))))
    asked = victims("v0")

    assert worthwhile(scorer, raw(HALF), a=asked) == {"a": asked}


async def test_on_a_node_that_publishes_nothing_nobody_is_kept_from_trying(scorer: Scorer) -> None:
    asked = victims("v0")

    assert worthwhile(scorer, raw(ALL, policy=None), bare=asked) == {"bare": asked}


async def test_room_that_was_reserved_meanwhile_is_not_freed_by_others(scorer: Scorer) -> None:
    scorer.lose("v0")
    scorer.reserve(raw(HALF, name="reserved"), "a")

    assert worthwhile(scorer, raw(ALL), a=victims("v1")) == {}


async def test_nobody_is_evicted_from_a_node_that_would_not_answer_any_sooner(scorer: Scorer) -> None:
    await scorer.know({"vast": node(*["cpu=8 mem=8Gi gpu=2"] * 18, policy="single-numa-node")})
    scorer.see(running(on("vast", raw(HALF, name="v"))))

    assert worthwhile(scorer, raw(HALF), vast=victims("v")) == {}
    assert worthwhile(scorer, raw(HALF, policy="best-effort"), vast=victims("v")) == {"vast": victims("v")}


async def test_who_is_to_be_alone_may_have_those_evicted_that_are_on_its_zones() -> None:
    scorer = Scorer()
    await scorer.know({"a": EMPTY})
    for name, zone in (("first", 0), ("second", 1)):
        scorer.see(running(on("a", raw(HALF, name=name), record=placed(zone))))
    alone = raw(HALF, annotations={"numalign.io/exclusive": "zone"})

    assert [answer.permanent for answer in scorer.ask(alone, "a") if not answer.fits] == [False]
    assert worthwhile(scorer, alone, a=victims()) == {}
    assert worthwhile(scorer, alone, a=victims("first"))
    # Without it the kubelet takes the first zone, where the other one is.
    assert worthwhile(scorer, alone, a=victims("second")) == {}


# Victims that are named: nodes as kube-scheduler 1.38 sends them.

NOBODY = Victims((), 0)
PREEMPTOR = 100
QUARTER = "cpu=2 mem=1Gi"

Resident = tuple[str, str, int, int]
"""A pod on the node: its name, its request, its zone and its priority."""

QUARTERS = [(f"q{at}", QUARTER, at // 4, at) for at in range(8)]
"""Four pods on each zone, of which each has a higher priority than the one before."""


def resident(
    name: str, request: str, zone: int, priority: int, *, place: str = "a", **metadata: object
) -> Raw:
    """A pod that runs on a zone of the node."""
    cpus = request.partition("cpu=")[2].partition(" ")[0]
    amount = {"cpu": cpus, "memory": "1Gi", **({"nvidia.com/gpu": "1"} if "gpu=1" in request else {})}
    made = raw(request, name=name, spec={"priority": priority})
    made["metadata"] |= metadata
    return running(on(place, made, record=[{"zones": [f"node-{zone}"], "amount": amount}]))


async def occupied(*residents: Resident) -> Scorer:
    """A node with two empty zones, on which these pods run."""
    made = Scorer()
    await made.know({"a": EMPTY, "small": SMALL}, unknown=["bare"])
    made.see(*(resident(*each) for each in residents))
    made.time.seconds += RELEASE_SECONDS + 1
    return made


async def chosen(
    scorer: Scorer, made: Raw, *, priority: int | None = PREEMPTOR, on: str = "a"
) -> Victims | None:
    """The victims that are named on a node; None if it is left out."""
    steps = scorer.preemption.candidates(scorer.subject(made), priority, {on: NOBODY})
    return (await result_of(steps)).get(on)


TWO = [("v", HALF, 0, 5), ("w", HALF, 1, 6)]
EQUAL = [("v", HALF, 0, PREEMPTOR), ("w", HALF, 1, PREEMPTOR)]

NAMED: Sequence[tuple[str, Sequence[Resident], str, Sequence[str] | None]] = [
    # what it shows, who is there, what wants in, and who goes
    ("one zone of two", TWO, ALL, ["v"]),
    ("the other one, if that matters less", [("v", HALF, 0, 6), ("w", HALF, 1, 5)], ALL, ["w"]),
    ("two that matter little, not one that matters",
     [("v", HALF, 0, 9), ("w", HALF, 1, 1), ("x", HALF, 1, 2)], ALL, ["x", "w"]),
    ("the fewest of those", [("v", QUARTER, 0, 1), ("w", QUARTER, 0, 1), ("x", HALF, 1, 1)], ALL, ["x"]),
    ("more than are tried one by one", QUARTERS, ALL, ["q3", "q2", "q1", "q0"]),
    ("nobody, where nobody has to", TWO[:1], ALL, []),
    ("nobody of the same priority", EQUAL, ALL, None),
    ("nobody in vain", [*EQUAL, ("x", QUARTER, 0, 5)], ALL, None),
]  # fmt: skip


@pytest.mark.parametrize(("residents", "wanted", "names"), table(NAMED))
async def test_to_name(residents: Sequence[Resident], wanted: str, names: Sequence[str] | None) -> None:
    found = await chosen(await occupied(*residents), raw(wanted))

    assert found == (None if names is None else Victims(tuple(map(uid, names)), 0))


async def test_many_small_pods_go_for_a_large_one() -> None:
    scorer = Scorer()
    await scorer.know({"a": node("cpu=20 mem=64Gi gpu=2", "cpu=20 mem=64Gi gpu=2", policy=SINGLE)})
    scorer.see(*(resident(f"v{at}", "cpu=1 mem=1Gi", at % 2, 0) for at in range(40)))
    scorer.time.seconds += RELEASE_SECONDS + 1
    found = await chosen(scorer, raw("cpu=5 mem=1Gi"))

    assert found
    assert len(found.uids) == 5


async def test_nobody_is_named_for_a_pod_that_may_not_preempt() -> None:
    assert await chosen(await occupied(*TWO), raw(ALL), priority=None) is None


LIMITED: Sequence[tuple[str, str, str, Sequence[str] | None]] = [
    # the quota, of which eight are in use           limit  wants    who goes
    ("has as much left as there is room for",        "12", ALL,     ["v"]),
    ("has less left",                                "11", ALL,     ["w", "v"]),
    ("is less than the pod alone",                   "7",  ALL,     None),
    ("is the only reason",                           "8",  QUARTER, ["v"]),
]  # fmt: skip


@pytest.mark.parametrize(("limit", "wanted", "names"), table(LIMITED))
async def test_as_many_are_named_as_the_quota_wants_gone(
    limit: str, wanted: str, names: Sequence[str] | None
) -> None:
    scorer = await occupied(*TWO)
    await scorer.know({"a": EMPTY}, team={"exclusive-cpus": limit})

    found = await chosen(scorer, raw(wanted))

    assert found == (None if names is None else Victims(tuple(map(uid, names)), 0))


async def test_no_member_of_a_pod_group_is_named() -> None:
    scorer = await occupied(("w", HALF, 1, 6))
    made = resident("v", HALF, 0, 5)
    scorer.see({**made, "spec": {**made["spec"], "schedulingGroup": {"podGroupName": "gang"}}})

    assert await chosen(scorer, raw(ALL)) == victims_named("w")


async def test_no_static_pod_is_named() -> None:
    """Its kubelet runs it on, whatever happens to its mirror in the API server."""
    scorer = await occupied(("w", HALF, 1, 6))
    its_node = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "uid-of-a", "controller": True}
    scorer.see(resident("v", HALF, 0, 5, ownerReferences=[its_node]))

    assert await chosen(scorer, raw(ALL)) == victims_named("w")


async def test_who_leaves_anyway_is_not_named_and_leaves_room() -> None:
    scorer = await occupied(("w", HALF, 1, 6))
    scorer.see(resident("v", HALF, 0, 5, deletionTimestamp="2027-01-15T08:00:00Z"))

    assert await chosen(scorer, raw(ALL)) == NOBODY


@pytest.mark.parametrize("leaving", [{}, {"deletionTimestamp": "2027-01-15T08:00:00Z"}], ids=["has", "gets"])
@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
async def test_nobody_is_named_anywhere_if_another_node_has_room_or_gets_it(
    order: Sequence[str], leaving: Raw
) -> None:
    """kube-scheduler ignores a node without victims, such as one whose victims went since it last asked."""
    scorer = await occupied(*TWO)
    await scorer.know({"a": EMPTY, "b": EMPTY})
    scorer.see(resident("x", HALF, 0, 5, place="b"))
    if leaving:
        scorer.see(resident("y", HALF, 1, 5, place="b", **leaving))
    received = dict.fromkeys(order, NOBODY)

    steps = scorer.preemption.candidates(scorer.subject(raw(ALL)), PREEMPTOR, received)

    assert await result_of(steps) == {"b": NOBODY}


@pytest.mark.parametrize("gets", [False, True], ids=["has", "gets"])
async def test_nobody_whom_kube_scheduler_chose_is_evicted_while_another_node_has_room(*, gets: bool) -> None:
    scorer = await occupied(*TWO)
    await scorer.know({"a": EMPTY, "b": EMPTY})
    if gets:
        leaving = {"deletionTimestamp": "2027-01-15T08:00:00Z"}
        scorer.see(*(resident(f"x{at}", HALF, at, 5, place="b", **leaving) for at in range(2)))
    received = {"a": victims("v", "w"), "b": NOBODY}

    steps = scorer.preemption.candidates(scorer.subject(raw(ALL)), PREEMPTOR, received)

    assert await result_of(steps) == {"b": NOBODY}


@pytest.mark.parametrize("killed", ["2027-01-15T08:10:00Z", "2027-01-15T07:50:00Z"], ids=["late", "stuck"])
async def test_nobody_waits_for_a_pod_that_takes_its_time_to_leave(killed: str) -> None:
    """Its owner chooses its grace period, and may keep it by a finalizer."""
    scorer = await occupied(*TWO)
    await scorer.know({"a": EMPTY, "b": EMPTY})
    scorer.see(
        resident("x", HALF, 0, 5, place="b"), resident("y", HALF, 1, 5, place="b", deletionTimestamp=killed)
    )

    steps = scorer.preemption.candidates(scorer.subject(raw(ALL)), PREEMPTOR, {"b": NOBODY, "a": NOBODY})

    assert await result_of(steps) == {"b": NOBODY, "a": Victims((uid("v"),), 0)}


async def test_who_is_only_expected_on_a_node_is_not_named() -> None:
    """Its scheduler does not have it there yet, and would refuse all candidates."""
    scorer = await occupied(("w", HALF, 1, 6))
    scorer.reserve(raw(ALL, name="expected"), "a")

    assert await chosen(scorer, raw(ALL)) == victims_named("w")


@pytest.mark.parametrize(
    ("place", "request_", "answer"),
    [("bare", ALL, NOBODY), ("small", "cpu=12 mem=1Gi", None)],
    ids=["what holds what is unknown", "no zone is large enough"],
)
async def test_nobody_is_named_where(place: str, request_: str, answer: Victims | None) -> None:
    assert await chosen(await occupied(*TWO), raw(request_), on=place) == answer


async def test_victims_that_were_received_are_never_replaced() -> None:
    scorer, received = await occupied(*TWO), {"a": victims("stranger")}
    steps = scorer.preemption.candidates(scorer.subject(raw(ALL)), PREEMPTOR, received)

    assert await result_of(steps) == {}


async def test_a_search_ends_without_victims_rather_than_with_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preempting, "MOST_PREDICTIONS", 1)

    assert await chosen(await occupied(*QUARTERS), raw(ALL)) is None


@pytest.mark.parametrize(("most", "choices"), [(1, 50), (4, 1)], ids=["predictions", "choices"])
async def test_a_call_ends_its_search_where_it_has_cost_enough(
    most: int, choices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preempting, "MOST_IN_CALL", most)
    monkeypatch.setattr(preempting, "CHOICES_PER_PREDICTION", choices)
    scorer = await occupied(*TWO)
    await scorer.know({"a": EMPTY, "b": EMPTY})
    scorer.see(resident("x", HALF, 0, 5, place="b"), resident("y", HALF, 1, 5, place="b"))
    steps = scorer.preemption.candidates(scorer.subject(raw(ALL)), PREEMPTOR, {"a": NOBODY, "b": NOBODY})

    assert [*await result_of(steps)] == ["a"]


def victims_named(*names: str) -> Victims:
    return Victims(tuple(map(uid, names)), 0)
