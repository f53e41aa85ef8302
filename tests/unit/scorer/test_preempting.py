"""Which victims would make room that is aligned."""

from collections.abc import Mapping, Sequence

import pytest

from numalign.ledger.reservations import RELEASE_SECONDS
from numalign.runtime.cooperative import result_of
from scorer import preempting
from scorer.extender_protocol import Victims
from tests.worlds.notation import node, table
from tests.worlds.scorer import ALL, EMPTY, SMALL, Raw, Scorer, on, raw, running, uid

HALF = "cpu=4 mem=1Gi gpu=1"
NO_VICTIMS = Victims((), 0)
PREEMPTOR = 100

Resident = tuple[str, str, int, int]
"""A pod on the node: its name, its request, its zone and its priority."""


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
    made = Scorer()
    await made.know({"a": EMPTY, "small": SMALL}, unknown=["bare"])
    made.see(*(resident(*each) for each in residents))
    made.time.seconds += RELEASE_SECONDS + 1
    return made


@pytest.fixture
async def scorer() -> Scorer:
    """A node whose two zones are full: two halves on each, of pods v0 and v1, v2 and v3."""
    return await occupied(*((f"v{at}", HALF, at // 2, 0) for at in range(4)))


def victims(*names: str, violations: int = 1) -> Victims:
    return Victims(tuple(map(uid, names)), violations)


def named(*names: str) -> Victims:
    return victims(*names, violations=0)


def worthwhile(scorer: Scorer, made: Raw, **candidates: Victims) -> dict[str, Victims]:
    return scorer.preemption.worthwhile(scorer.subject(made), candidates)


@pytest.mark.parametrize(("made", "names", "helps"), table([
    # what it shows                         the pod                  its victims           whether it helps
    ("both of one zone",                    raw(ALL),                ("v0", "v1"),         True),
    ("one of each zone",                    raw(ALL),                ("v0", "v2"),         False),
    ("all, and no zone is large enough",    raw("cpu=12 mem=1Gi"),   ("v0", "v1", "v2", "v3"), False),
    ("nobody",                              raw(HALF),               (),                   False),
    ("somebody who was never here",         raw(HALF),               ("stranger",),        False),
    ("the pod itself",                      raw(ALL, name="v0"),     ("v1",),              True),
]))  # fmt: skip
async def test_to_evict(scorer: Scorer, made: Raw, names: tuple[str, ...], *, helps: bool) -> None:
    candidates_of = victims(*names)
    assert worthwhile(scorer, made, a=candidates_of) == ({"a": candidates_of} if helps else {})


async def test_unknown_holdings_keep_all_victims(scorer: Scorer) -> None:
    """What the stranger holds is unknown, and so is what will be free without it."""
    scorer.see(running(on("a", raw(HALF, name="stranger"))))
    candidates_of = victims("v0")
    assert worthwhile(scorer, raw(HALF), a=candidates_of) == {"a": candidates_of}


async def test_node_that_is_not_evaluated_is_dropped(scorer: Scorer) -> None:
    await scorer.know({"vast": node(*["cpu=8 mem=8Gi gpu=2"] * 18, policy="single-numa-node")})
    scorer.see(running(on("vast", raw(HALF, name="v"))))
    assert worthwhile(scorer, raw(HALF), vast=victims("v")) == {}
    assert worthwhile(scorer, raw(HALF, policy="best-effort"), vast=victims("v")) == {"vast": victims("v")}


async def test_exclusive_pod_may_evict_from_its_zones() -> None:
    scorer = await occupied(("first", HALF, 0, 0), ("second", HALF, 1, 0))
    alone = raw(HALF, annotations={"numalign.io/exclusive": "zone"})
    assert [answer.permanent for answer in scorer.ask(alone, "a") if not answer.fits] == [False]
    assert worthwhile(scorer, alone, a=victims()) == {}
    assert worthwhile(scorer, alone, a=victims("first"))
    # Without it the kubelet takes the first zone, where the other one is.
    assert worthwhile(scorer, alone, a=victims("second")) == {}


# Victims that are named: nodes as kube-scheduler 1.38 sends them.

QUARTER = "cpu=2 mem=1Gi"
QUARTERS = [(f"q{at}", QUARTER, at // 4, at) for at in range(8)]
"""Four pods on each zone, of which each has a higher priority than the one before."""


async def answer(
    scorer: Scorer, made: Raw, received: Mapping[str, Victims], priority: int | None = PREEMPTOR
) -> Mapping[str, Victims]:
    return await result_of(scorer.preemption.candidates(scorer.subject(made), priority, received))


async def chosen(
    scorer: Scorer, made: Raw, *, priority: int | None = PREEMPTOR, on: str = "a"
) -> Victims | None:
    """The victims that are named on a node; None if it is left out."""
    return (await answer(scorer, made, {on: NO_VICTIMS}, priority)).get(on)


TWO = [("v", HALF, 0, 5), ("w", HALF, 1, 6)]
EQUAL = [("v", HALF, 0, PREEMPTOR), ("w", HALF, 1, PREEMPTOR)]


@pytest.mark.parametrize(("residents", "names"), table([
    # what it shows, who is there, and who goes for a pod that wants a zone; see `tests/laws`
    ("two that matter little, not one that matters",
     [("v", HALF, 0, 9), ("w", HALF, 1, 1), ("x", HALF, 1, 2)], ["x", "w"]),
    ("more than are tried one by one", QUARTERS, ["q3", "q2", "q1", "q0"]),
    ("nobody in vain", [*EQUAL, ("x", QUARTER, 0, 5)], None),
]))  # fmt: skip
async def test_to_name(residents: Sequence[Resident], names: Sequence[str] | None) -> None:
    found = await chosen(await occupied(*residents), raw(ALL))
    assert found == (None if names is None else named(*names))


async def test_pod_that_never_preempts_gets_no_victims() -> None:
    assert await chosen(await occupied(*TWO), raw(ALL), priority=None) is None


@pytest.mark.parametrize(("limit", "wanted", "names"), table([
    # the quota, of which eight are in use           limit  wants    who goes
    ("has as much left as there is room for",        "12", ALL,     ["v"]),
    ("has less left",                                "11", ALL,     ["w", "v"]),
    ("is the only reason",                           "8",  QUARTER, ["v"]),
]))  # fmt: skip
async def test_as_many_are_named_as_the_quota_wants_gone(limit: str, wanted: str, names: list[str]) -> None:
    scorer = await occupied(*TWO)
    await scorer.know({"a": EMPTY}, team={"exclusive-cpus": limit})
    assert await chosen(scorer, raw(wanted)) == named(*names)


async def test_no_member_of_a_pod_group_is_named() -> None:
    scorer = await occupied(("w", HALF, 1, 6))
    made = resident("v", HALF, 0, 5)
    scorer.see({**made, "spec": {**made["spec"], "schedulingGroup": {"podGroupName": "gang"}}})
    assert await chosen(scorer, raw(ALL)) == named("w")


async def test_leaving_pod_counts_as_free_and_is_no_victim() -> None:
    scorer = await occupied(("w", HALF, 1, 6))
    scorer.see(resident("v", HALF, 0, 5, deletionTimestamp="2027-01-15T08:00:00Z"))
    assert await chosen(scorer, raw(ALL)) == NO_VICTIMS


SOON = "2027-01-15T08:00:00Z"


async def two_nodes(*residents: Raw) -> Scorer:
    """Two nodes: `a` is full of pods that may go, and on `b` are these."""
    scorer = await occupied(*TWO)
    await scorer.know({"a": EMPTY, "b": EMPTY})
    scorer.see(*residents)
    return scorer


def there(name: str, zone: int, killed: str = "") -> Raw:
    leaving = {"deletionTimestamp": killed} if killed else {}
    return resident(name, HALF, zone, 5, place="b", **leaving)


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize(("residents", "received"), table([
    # what is on the other node        its pods                               victims received for this one
    ("one zone is free",               [there("x", 0)],                       NO_VICTIMS),
    ("one zone gets free",             [there("x", 0), there("y", 1, SOON)],  NO_VICTIMS),
    ("it is empty",                    [],                                    victims("v", "w")),
    ("it gets empty",                  [there("x", 0, SOON), there("y", 1, SOON)], victims("v", "w")),
]))  # fmt: skip
async def test_another_fitting_node_prevents_victims(
    residents: list[Raw], received: Victims, order: Sequence[str]
) -> None:
    """kube-scheduler ignores a node without victims, such as one whose victims went since it last asked."""
    calls = {name: {"a": received, "b": NO_VICTIMS}[name] for name in order}
    assert await answer(await two_nodes(*residents), raw(ALL), calls) == {"b": NO_VICTIMS}


@pytest.mark.parametrize("killed", ["2027-01-15T08:10:00Z", "2027-01-15T07:50:00Z"], ids=["late", "stuck"])
async def test_slow_termination_is_not_awaited(killed: str) -> None:
    """Its owner chooses its grace period, and may keep it by a finalizer."""
    scorer = await two_nodes(there("x", 0), there("y", 1, killed))
    assert await answer(scorer, raw(ALL), {"b": NO_VICTIMS, "a": NO_VICTIMS}) == {
        "b": NO_VICTIMS,
        "a": named("v"),
    }


async def test_reserved_pod_is_no_victim() -> None:
    """Its scheduler does not have it there yet, and would refuse all candidates."""
    scorer = await occupied(("w", HALF, 1, 6))
    scorer.reserve(raw(ALL, name="expected"), "a")
    assert await chosen(scorer, raw(ALL)) == named("w")


async def test_victims_that_were_received_are_never_replaced() -> None:
    assert await answer(await occupied(*TWO), raw(ALL), {"a": victims("stranger")}) == {}


async def test_search_with_too_many_predictions_finds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preempting, "MOST_PREDICTIONS", 1)
    assert await chosen(await occupied(*QUARTERS), raw(ALL)) is None


@pytest.mark.parametrize(("most", "choices"), [(1, 50), (4, 1)], ids=["predictions", "choices"])
async def test_search_ends_at_its_limit(most: int, choices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preempting, "MOST_IN_CALL", most)
    monkeypatch.setattr(preempting, "CHOICES_PER_PREDICTION", choices)
    scorer = await two_nodes(there("x", 0), there("y", 1))
    assert [*await answer(scorer, raw(ALL), {"a": NO_VICTIMS, "b": NO_VICTIMS})] == ["a"]


@pytest.mark.parametrize(
    ("place", "wanted", "expected"),
    [("bare", ALL, NO_VICTIMS), ("small", "cpu=12 mem=1Gi", None)],
    ids=["unknown holdings", "too small a node"],
)
async def test_no_victims_are_chosen_for(place: str, wanted: str, expected: Victims | None) -> None:
    assert await chosen(await occupied(*TWO), raw(wanted), on=place) == expected
