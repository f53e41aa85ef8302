"""A pod is bound with its zones kept for it, or it is told why not and nothing is kept."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from numalign.kube.bindings import BIND_SECONDS
from numalign.kube.errors import ClusterError, Conflict, Forbidden, NotFound, Unreachable
from numalign.kube.files.policy import parse
from numalign.ledger.model import Source, Stage
from numalign.model.intent import PLACEMENT
from numalign.model.node import CpuManager
from numalign.runtime.logs import MANY_LINES
from numalign.scheduling.binding import FEW, LOOK_SECONDS, BindOutcome
from numalign.scheduling.cpu_quota import UNCOUNTED
from numalign.scheduling.node_answers import WAITING
from tests.worlds.notation import node, table
from tests.worlds.scorer import (
    ALL,
    EMPTY,
    FOUR,
    LARGE,
    SINGLE,
    SMALL,
    Raw,
    Scorer,
    on,
    raw,
    running,
    uid,
)

ONE = node("cpu=8 mem=16Gi gpu=2", policy=SINGLE)

OLDER = "2027-01-15T07:58:00Z"
"""When a pod was created for which no other one has to wait."""

EIGHT = "cpu=8 mem=1Gi"
SEVEN, TWO = "cpu=7 mem=1Gi", "cpu=2 mem=1Gi"
"""On two zones of eight CPUs each finds another place if the other comes first."""


def outcomes(scorer: Scorer) -> dict[str, float]:
    counts = {each.value: scorer.count("binds_total", outcome=each.value) for each in BindOutcome}
    return {outcome: count for outcome, count in counts.items() if count}


def bound(scorer: Scorer) -> list[tuple[str, str]]:
    return [(each["name"], each["node"]) for each in scorer.writes.made]


@pytest.fixture
async def scorer() -> Scorer:
    made = Scorer()
    await made.know({"a": EMPTY, "b": EMPTY, "one": ONE, "small": SMALL}, unknown=["bare"])
    made.see(raw(FOUR))
    return made


def placed(amount: dict[str, str], *zones: str) -> list[dict[str, Any]]:
    return [{"zones": [*zones], "amount": amount}]


# It is bound.


async def test_bind_writes_node_and_placement_in_one_call(scorer: Scorer) -> None:
    assert await scorer.bind(raw(FOUR), "a") == ""
    [written] = scorer.writes.made
    record = json.loads(written["annotations"].pop(PLACEMENT))
    assert record == placed({"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "1"}, "node-0")
    assert written == {"namespace": "team", "name": "web", "uid": uid("web"), "node": "a", "annotations": {}}
    assert outcomes(scorer) == {"bound": 1}
    assert scorer.count("bind_seconds_count") == 1
    [line] = scorer.journal.of("bind.done")
    assert (line["pod"], line["node"]) == ("team/web", "a")


@pytest.mark.parametrize("policy", [SINGLE, None])
async def test_large_pod_is_bound_as_last_evaluated(scorer: Scorer, policy: str | None) -> None:
    large = raw(*LARGE, name="large", policy=policy)
    scorer.see(large)
    scorer.subject(large)
    assert scorer.state.pods[uid("large")].demand is None
    assert await scorer.bind(large, "a") == ""
    assert (bound(scorer), scorer.kept()) == ([("large", "a")], {"large": "a"})


async def test_large_pod_gets_no_more_than_it_requests(scorer: Scorer) -> None:
    scorer.see(raw(*LARGE, name="large"))
    scorer.subject(raw(*LARGE[:-1], ALL, name="large"))
    assert "its requests are invalid or too large" in await scorer.bind(raw(name="large"), "a")
    assert scorer.kept() == {}


async def test_reservation_lasts_from_write_to_watch(scorer: Scorer) -> None:
    during: list[dict[str, str | None]] = []
    scorer.writes.first = lambda: during.append(scorer.kept())
    await scorer.bind(raw(FOUR), "a")
    after = scorer.kept()
    scorer.see(on("a", raw(FOUR)))
    found = scorer.reservations.assigned_pod(uid("web"))
    assert (during, after, scorer.kept()) == ([{"web": "a"}], {"web": "a"}, {})
    assert found
    assert found.record
    assert (found.stage, found.record.source) == (Stage.BOUND, Source.PREDICTED)


async def test_uncertain_placement_is_not_recorded(scorer: Scorer) -> None:
    scorer.see(running(on("a", raw(FOUR, name="stranger"))))
    assert await scorer.bind(raw(FOUR), "a") == ""
    assert scorer.writes.made[0]["annotations"] == {}
    found = scorer.reservations.assigned_pod(uid("web"))
    assert found
    assert (found.record, found.guess is None) == (None, False)


@pytest.mark.parametrize(("unknown", "why"), [("cannot-fit", "publish no NUMA topology"), ("may-fit", "")])
async def test_node_without_topology_binds_without_a_record(unknown: str, why: str) -> None:
    scorer = Scorer(unknown=unknown)
    await scorer.know({}, unknown=["bare"])
    scorer.see(raw(FOUR))
    answer = await scorer.bind(raw(FOUR), "bare")
    assert (why in answer, bool(answer)) == (True, bool(why))
    assert outcomes(scorer) == {"lost" if why else "bound": 1}
    assert scorer.kept() == ({} if why else {"web": "bare"})
    assert [written["annotations"] for written in scorer.writes.made] == ([] if why else [{}])


# It is not.

Arrange = Callable[[Scorer], object]


def follows(scorer: Scorer) -> None:
    scorer.leads = False


NOT_ITS = "the pod with this uid is team/web"


@pytest.mark.parametrize(("arrange", "place", "call", "part", "outcome"), table([
    # what it shows                what happens before                                  the node, the call
    # then what is said, and how it is counted
    ("without the lease",          follows,                                             "a", {},
     "does not hold the lease",    "not_leading"),
    ("a pod that is gone",         lambda scorer: scorer.lose("web"),              "a", {},
     "no pending pod has this UID",       "unknown_pod"),
    ("a pod that runs elsewhere",  lambda scorer: scorer.see(on("b", raw(FOUR))),  "a", {},
     "is already on node b",       "bound_already"),
    ("a node that never can",      lambda _: None,                                      "small", {},
     "no NUMA zone with 4 cpu",         "lost"),
    ("zones reserved to another",
     lambda scorer: scorer.reserve(raw(ALL, name="first"), "one"),                "one", {},
     "have no NUMA zone with 4 cpu",    "lost"),
    ("another namespace",         lambda _: None, "a", {"namespace": "default"}, NOT_ITS, "unknown_pod"),
]))  # fmt: skip
async def test_a_bind_is_refused_for(  # noqa: PLR0913, PLR0917  the columns of the table
    scorer: Scorer, arrange: Arrange, place: str, call: Raw, part: str, outcome: str
) -> None:
    arrange(scorer)
    before = scorer.kept()
    why = await scorer.bind(raw(FOUR), place, **call)
    assert why.startswith("numalign: ")
    assert part in why
    assert (outcomes(scorer), bound(scorer), scorer.kept()) == ({outcome: 1}, [], before)
    [line] = scorer.journal.of("bind.refused")
    assert (line["level"], line["outcome"], line["reason"]) == ("warning", outcome, why)


async def test_repeated_refusals_are_logged_up_to_a_limit(scorer: Scorer) -> None:
    for _ in range(MANY_LINES + 5):
        await scorer.bind(raw(FOUR), "small")
    assert outcomes(scorer) == {"lost": MANY_LINES + 5}
    assert len(scorer.journal.of("bind.refused")) == MANY_LINES


@pytest.mark.parametrize(("error", "outcome", "kept"), table([
    # what the API server does   the error                      how it is counted  whether the zones are kept
    ("409",                      Conflict("is assigned"),       "bound_already",   False),
    ("404",                      NotFound("is not there"),       "unknown_pod",     False),
    ("403",                      Forbidden("you may not"),      "refused",         False),
    ("nothing",                  Unreachable("cannot be"),      "uncertain",       True),
]))  # fmt: skip
async def test_reservation_after_an_error_of_the_api_server(
    scorer: Scorer, error: ClusterError, outcome: str, *, kept: bool
) -> None:
    scorer.writes.error = error
    why = await scorer.bind(raw(FOUR), "a")
    assert why == f"numalign: {error}"
    assert outcomes(scorer) == {outcome: 1}
    assert scorer.kept() == ({"web": "a"} if kept else {})


# In turn.


async def test_slow_bind_of_another_pod_ends_the_wait() -> None:
    may_answer = asyncio.Event()

    async def refuse_first(**fields: object) -> None:
        if fields["name"] == "first":
            await may_answer.wait()
            raise Forbidden("you may not")

    first, second, third = (raw(TWO, name=name) for name in ("first", "second", "third"))
    scorer = Scorer(write=refuse_first)
    await scorer.know({"a": EMPTY})
    scorer.see(first, second, third)
    began = scorer.time()
    held_up = asyncio.ensure_future(scorer.bind(first, "a"))
    answers = await asyncio.gather(scorer.bind(second, "a"), scorer.bind(third, "a"))
    assert [why[-len(WAITING) :] for why in answers] == [WAITING, WAITING]
    assert scorer.time() - began == pytest.approx(3.0)
    assert scorer.kept() == {"first": "a"}
    may_answer.set()
    assert await held_up == "numalign: you may not"
    assert [await scorer.bind(second, "a"), scorer.binder.remembered] == ["", (0, 1)]


# Twice.


async def test_two_calls_at_once_bind_a_pod_once(scorer: Scorer) -> None:
    answers = await asyncio.gather(*(scorer.bind(raw(FOUR), place) for place in ("a", "b")))
    assert answers == ["", "numalign: another call is binding this pod at the moment"]
    assert (bound(scorer), scorer.kept()) == ([("web", "a")], {"web": "a"})
    assert outcomes(scorer) == {"bound": 1, "being_bound": 1}


async def test_just_bound_pod_is_not_bound_again(scorer: Scorer) -> None:
    """Its reservation must outlive other calls: nobody has seen the pod on its node yet."""
    first = await scorer.bind(raw(FOUR), "a")
    scorer.writes.error = Conflict("is assigned already")
    again = {await scorer.bind(raw(FOUR), place) for place in ("a", "b")}
    assert (first, scorer.kept()) == ("", {"web": "a"})
    assert again == {"numalign: the pod was bound to node a a moment ago"}
    assert outcomes(scorer) == {"bound": 1, "bound_already": 2}


async def test_unconfirmed_bind_blocks_other_nodes_until_expiry(scorer: Scorer) -> None:
    scorer.writes.error = Unreachable("cannot be reached")
    await scorer.bind(raw(FOUR), "a")
    scorer.writes.error = None
    early = await scorer.bind(raw(FOUR), "b")
    kept = scorer.kept()
    scorer.time.seconds += 60
    scorer.reservations.expire(scorer.time())
    late = await scorer.bind(raw(FOUR), "b")
    assert early == "numalign: it is not yet known whether the pod was bound to node a"
    assert (kept, late, scorer.kept()) == ({"web": "a"}, "", {"web": "b"})


async def unconfirmed(scorer: Scorer) -> tuple[Raw, Raw]:
    """A pod that may have been bound, and one that was created later and would find other zones before it."""
    first = raw(SEVEN, name="first", creationTimestamp="2027-01-15T07:59:00Z")
    second = raw(TWO, name="second", creationTimestamp="2027-01-15T07:59:01Z")
    scorer.see(first, second)
    scorer.writes.error = Unreachable("cannot be reached")
    await scorer.bind(first, "a")
    scorer.writes.error = None
    return first, second


async def test_unconfirmed_bind_delays_dependent_pods(scorer: Scorer) -> None:
    """Though it was created earlier: it may still come last."""
    first, second = await unconfirmed(scorer)
    early = await scorer.bind(second, "a")
    scorer.see(running(on("a", first)))
    late = await scorer.bind(second, "a")
    assert "are still admitting pods" in early
    assert (late, bound(scorer)) == ("", [("second", "a")])
    assert record_of(scorer) == placed({"cpu": "2", "memory": "1Gi"}, "node-1")


async def test_unconfirmed_bind_is_repeated_with_its_record(scorer: Scorer) -> None:
    first, second = await unconfirmed(scorer)
    await scorer.bind(second, "a")
    began = scorer.time()
    assert (bound(scorer), await scorer.bind(first, "a"), scorer.time()) == ([], "", began)
    assert record_of(scorer) == placed({"cpu": "7", "memory": "1Gi"}, "node-0")


# In its turn.


async def rivals(scorer: Scorer) -> Raw:
    """A pod of seven CPUs is on its way to a node, and one of two comes after it."""
    first = raw(SEVEN, name="first")
    second = raw(TWO, name="second")
    scorer.see(first, second)
    assert await scorer.bind(first, "a") == ""
    scorer.see(on("a", first))
    return second


def record_of(scorer: Scorer, at: int = -1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(scorer.writes.made[at]["annotations"][PLACEMENT])
    return found


FIRST_RUNS = running(on("a", raw(SEVEN, name="first")))


async def test_pod_waits_until_the_bound_one_is_admitted(scorer: Scorer) -> None:
    second = await rivals(scorer)
    began = scorer.time()
    scorer.time.after(1.0, lambda: scorer.see(FIRST_RUNS))
    assert await scorer.bind(second, "a") == ""
    assert 1.0 <= scorer.time() - began <= 1.0 + 2 * LOOK_SECONDS
    assert record_of(scorer) == placed({"cpu": "2", "memory": "1Gi"}, "node-1")


@pytest.mark.parametrize(
    ("containers", "created", "zone"),
    [(TWO, "2027-01-15T07:59:01Z", "node-1"), ("cpu=1 mem=1Gi", "2027-01-15T07:59:00Z", "node-0")],
    ids=["created later", "of the same zones in any order"],
)
async def test_equal_order_delays_nothing(scorer: Scorer, containers: str, created: str, zone: str) -> None:
    await rivals(scorer)
    third = raw(containers, name="third", creationTimestamp=created)
    scorer.see(third)
    began = scorer.time()
    assert await scorer.bind(third, "a") == ""
    assert scorer.time() == began
    assert [entry["zones"] for entry in record_of(scorer)] == [[zone]]


async def test_patience_ends_and_nothing_stays_reserved(scorer: Scorer) -> None:
    second = await rivals(scorer)
    began = scorer.time()
    why = await scorer.bind(second, "a")
    assert why == "numalign: a: node(s) are still admitting pods that were bound earlier (numalign)"
    assert 3.0 <= scorer.time() - began <= 3.0 + 2 * LOOK_SECONDS
    assert (bound(scorer), scorer.kept()) == ([("first", "a")], {})
    assert outcomes(scorer) == {"bound": 1, "waited": 1}


async def test_pods_of_a_node_are_bound_in_reserved_order(scorer: Scorer) -> None:
    await rivals(scorer)
    others = [raw(TWO, name=f"other-{at}") for at in range(3)]
    scorer.see(*others)
    scorer.time.after(0.5, lambda: scorer.see(FIRST_RUNS))
    for each in others:
        scorer.time.after(1.0, partial(scorer.see, running(on("a", each))))
    await asyncio.gather(*(scorer.bind(each, "a") for each in others))
    assert bound(scorer) == [(name, "a") for name in ("first", "other-0", "other-1", "other-2")]


async def test_later_reservation_delays_nothing(scorer: Scorer) -> None:
    """One CPU is left on the first zone: whoever comes first has it, and the other goes to the second."""
    scorer.see(
        running(on("a", raw(SEVEN, name="there"), record=placed({"cpu": "7", "memory": "1Gi"}, "node-0")))
    )
    before, one, other = raw("cpu=0.5", name="before"), *(raw("cpu=1 mem=1Gi", name=name) for name in "xy")
    scorer.see(before, one, other)
    began = scorer.time()
    scorer.time.after(1.0, partial(scorer.see, running(on("a", one))))
    answers = await asyncio.gather(*(scorer.bind(each, "a") for each in (before, one, other)))
    assert (answers, [name for name, _ in bound(scorer)]) == (["", "", ""], ["before", "x", "y"])
    assert 1.0 <= scorer.time() - began < 1.5
    assert record_of(scorer, 1) == placed({"cpu": "1", "memory": "1Gi"}, "node-0")
    assert record_of(scorer, 2) == placed({"cpu": "1", "memory": "1Gi"}, "node-1")


@pytest.mark.parametrize(("goes", "waited"), [(1.0, 1.0), (9.0, 3.0)], ids=["it goes", "it takes its time"])
async def test_leaving_pod_delays_a_bind_up_to_patience(scorer: Scorer, goes: float, waited: float) -> None:
    """The pod has room beside the other, and better room after it: nobody can say which its kubelet sees."""
    leaver = raw(SEVEN, name="leaver", deletionTimestamp="2027-01-15T08:00:30Z")
    scorer.see(running(on("a", leaver, record=placed({"cpu": "7"}, "node-0"))), raw(TWO, name="next"))
    scorer.time.after(goes, lambda: scorer.lose("leaver"))
    began = scorer.time()
    assert await scorer.bind(raw(TWO, name="next"), "a") == ""
    assert waited <= scorer.time() - began <= waited + 2 * LOOK_SECONDS
    recorded = [placed({"cpu": "2", "memory": "1Gi"}, "node-0")] if goes == waited else []
    assert [record_of(scorer) for each in scorer.writes.made if each["annotations"]] == recorded


THIEF = running(on("a", raw(EIGHT, name="thief"), record=placed({"cpu": "8", "memory": "1Gi"}, "node-1")))


@pytest.mark.parametrize(("happens", "part"), table([
    ("another replica leads",      follows,                          "lost the lease"),
    ("another pod takes the zone", lambda scorer: scorer.see(THIEF), "no NUMA zone with 2 cpu"),
]))  # fmt: skip
async def test_bind_fails_if_meanwhile(scorer: Scorer, happens: Callable[[Scorer], None], part: str) -> None:
    second = await rivals(scorer)
    scorer.time.after(0.5, lambda: happens(scorer))
    scorer.time.after(1.0, lambda: scorer.see(FIRST_RUNS))
    why = await scorer.bind(second, "a")
    assert part in why
    assert (bound(scorer), scorer.kept()) == ([("first", "a")], {})


async def test_pod_deleted_while_waiting_reserves_nothing(scorer: Scorer) -> None:
    second = await rivals(scorer)
    scorer.writes.error = NotFound("the pod is not there")
    scorer.time.after(0.5, lambda: scorer.lose("second"))
    scorer.time.after(1.0, lambda: scorer.see(FIRST_RUNS))
    await scorer.bind(second, "a")
    assert scorer.kept() == {}
    assert scorer.reservations.node_of(uid("second")) is None


async def test_bind_cancelled_while_waiting_reserves_nothing(scorer: Scorer) -> None:
    second = await rivals(scorer)
    waiting = asyncio.create_task(scorer.bind(second, "a"))
    for _ in range(5):
        await asyncio.sleep(0)
    during = scorer.kept()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert (during, scorer.kept(), waiting.cancelled()) == ({"second": "a"}, {}, True)
    scorer.see(FIRST_RUNS)
    assert await scorer.bind(second, "a") == ""


async def test_bind_cancelled_while_writing_stays_reserved() -> None:
    """The connection is cut, and nobody knows whether the API server has heard of it."""
    writing, never = asyncio.Event(), asyncio.Event()

    async def write(**_fields: object) -> None:
        writing.set()
        await never.wait()

    scorer = Scorer(write=write)
    await scorer.know({"a": EMPTY})
    scorer.see(raw(FOUR))
    call = asyncio.create_task(scorer.bind(raw(FOUR), "a"))
    await writing.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    assert (scorer.kept(), call.cancelled()) == ({"web": "a"}, True)


# Many at once.


@pytest.fixture
def predicted(scorer: Scorer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The node of each prediction."""
    calls, predict = list[str](), scorer.state.predict

    def noted(node: str, *call: Any, **fields: Any) -> Any:  # noqa: ANN401  as `SchedulerState.predict`
        calls.append(node)
        return predict(node, *call, **fields)

    monkeypatch.setattr(scorer.state, "predict", noted)
    return calls


async def test_binds_yield_to_other_tasks_after_each_pod(scorer: Scorer, predicted: list[str]) -> None:
    pods, at_once = [raw("cpu=1 mem=1Gi", name=f"web-{at}") for at in range(60)], [0]
    await scorer.know({f"node-{at}": EMPTY for at in range(10)})
    scorer.see(*pods)

    async def everybody_else() -> None:
        while True:
            before = len(predicted)
            await asyncio.sleep(0)
            at_once.append(len(predicted) - before)

    beside = asyncio.create_task(everybody_else())
    await asyncio.gather(*(scorer.bind(each, f"node-{at % 10}") for at, each in enumerate(pods)))
    beside.cancel()
    assert len(bound(scorer)) >= 10
    assert (max(at_once), len(predicted) >= len(pods)) == (1, True)


async def test_waiting_pod_is_predicted_again_on_change_only(scorer: Scorer, predicted: list[str]) -> None:
    second = await rivals(scorer)
    predicted.clear()
    for at in range(10):
        elsewhere = running(on("b", raw("cpu=1 mem=1Gi", name=f"other-{at}")))
        scorer.time.after(0.2 * at, partial(scorer.see, elsewhere))
    scorer.time.after(1.5, lambda: scorer.see(FIRST_RUNS))
    assert await scorer.bind(second, "a") == ""
    assert len(predicted) <= 4


@pytest.mark.full
async def test_nothing_is_remembered_of_pods_that_are_seen(scorer: Scorer) -> None:
    await scorer.know({"wide": node("cpu=999 mem=999Gi", policy=SINGLE)})
    for at in range(4 * FEW):
        web = raw("cpu=1 mem=1Gi", name=f"web-{at}", creationTimestamp=OLDER)
        scorer.see(web)
        assert await scorer.bind(web, "wide") == ""
        scorer.see(running(on("wide", web, record=record_of(scorer))))
        scorer.lose(f"web-{at}")
        assert scorer.binder.remembered[1] <= FEW + 1
        scorer.time.seconds += 15
    assert scorer.binder.remembered[0] == 0


async def test_nothing_is_begun_that_might_outlive_the_lead(scorer: Scorer) -> None:
    scorer.proved = BIND_SECONDS
    assert "does not hold the lease" in await scorer.bind(raw(FOUR), "a")
    scorer.proved = BIND_SECONDS + 0.1
    assert await scorer.bind(raw(FOUR), "a") == ""


# Quotas.


SHARED = replace(EMPTY, cpu_manager=CpuManager.NONE)


async def limited(cpus: str, *pods: Raw) -> Scorer:
    """Nodes, of which `shared` pins no CPUs, and pods of a namespace that may have so many exclusive CPUs."""
    made = Scorer()
    await made.know({"a": EMPTY, "b": EMPTY, "shared": SHARED}, team={"exclusive-cpus": cpus})
    made.see(*pods)
    return made


SIX = "cpu=6 mem=1Gi"
OTHER, FOREIGN = raw(SIX, name="other"), on("b", raw(SIX, name="other", policy=None))


async def test_bind_beyond_quota_is_refused_with_its_use() -> None:
    scorer = await limited("8", raw(SIX, name="first"), raw(SIX, name="second"))
    await scorer.bind(raw(SIX, name="first"), "a")
    assert await scorer.bind(raw(SIX, name="second"), "b") == (
        "numalign: 6 of 8 exclusive CPUs of namespace team are in use, and the pod requests 6"
    )
    assert (bound(scorer), scorer.kept()) == ([("first", "a")], {"first": "a"})
    assert outcomes(scorer) == {"bound": 1, "over_quota": 1}


@pytest.mark.parametrize(("limit", "others", "containers", "fits"), table([
    # what it shows                              limit  other pods                         containers  bound?
    ("a pod that another scheduler bound counts",  "8", [FOREIGN],                          SIX, False),
    ("one that waits uses nothing",                "8", [OTHER],                              SIX, True),
    ("one on a node that pins none does not",      "8", [on("shared", OTHER)],                SIX, True),
    ("one on an unknown node does",                "8", [on("new", OTHER)],                   SIX, False),
    ("nothing is limited to nothing",              "0", [],                       "cpu=1 mem=1Gi", False),
    ("only a fraction",                            "0", [],                   "cpu=1500m mem=1Gi", True),
]))  # fmt: skip
async def test_a_quota_limits(limit: str, others: list[Raw], containers: str, *, fits: bool) -> None:
    scorer = await limited(limit, raw(containers), *others)
    assert (await scorer.bind(raw(containers), "a") == "") is fits


async def test_disabled_namespace_has_the_quota_of_the_policy() -> None:
    scorer = Scorer()
    await scorer.know({"a": EMPTY}, team={"admission": "disabled", "exclusive-cpus": "100"})
    scorer.obey(parse(b"defaults: [{exclusiveCPUs: 4}]"))
    scorer.see(raw(SIX))
    assert "0 of 4 exclusive CPUs" in await scorer.bind(raw(SIX), "a")


@pytest.mark.parametrize("admission", ["enabled", "disabled"])
async def test_a_pod_that_cannot_be_read_evades_no_quota(admission: str) -> None:
    """An API server accepts any number of resources with an amount of 0."""
    scorer, hidden = Scorer(), raw(SIX, policy=None)
    await scorer.know({"a": EMPTY, "shared": SHARED}, team={"admission": admission})
    scorer.obey(parse(b"defaults: [{exclusiveCPUs: 4}]"))
    for amounts in hidden["spec"]["containers"][0]["resources"].values():
        amounts |= {f"example.com/none-{at}": "0" for at in range(300)}
    scorer.see(hidden)
    assert await scorer.bind(hidden, "a") == f"numalign: {UNCOUNTED}"
    assert await scorer.bind(hidden, "shared") == ""
