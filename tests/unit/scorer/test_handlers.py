"""The HTTP API on a real socket: schedulers of two kinds, people, and invalid calls of all kinds."""

import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from hypothesis import settings

from numalign.cache.ranking import Ranking
from numalign.cache.scheduler_cache import NotEligible
from numalign.kube.errors import Conflict, Forbidden, Unreachable
from numalign.model.constraints import Unmet
from numalign.model.errors import BadInput
from numalign.runtime.in_flight import LARGE
from numalign.scheduling import node_answers
from numalign.scheduling.scheduler_state import SEEN_SECONDS
from scorer.extender_protocol import Victims
from scorer.handlers import HANDLERS
from scorer.settings import ReserveAt
from tests.worlds.notation import node, table
from tests.worlds.scorer import (
    ALL,
    BOTH,
    EMPTY,
    FOUR,
    HALF,
    LOOSE,
    SINGLE,
    SMALL,
    Caller,
    Raw,
    Scorer,
    Writes,
    binding_call,
    on,
    raw,
    running,
    uid,
)

MIB = 2**20


NAMES = ["empty", "fuller", "full", "small", "loose", "bare"]
"""All nodes of these tests; only the first two take a pod of four CPUs that must be aligned."""

BROKEN = raw(FOUR, policy="strictly")
EARLY = ReserveAt.PRIORITIZE

RECORDED = Path(__file__).parent / "data"

OURS = [name for name in HANDLERS if not name.startswith("volcano")]
VOLCANOS = [name for name in HANDLERS if name.startswith("volcano") and "Session" not in name]


async def cluster(scorer: Scorer) -> Scorer:
    await scorer.know(
        {"empty": EMPTY, "fuller": EMPTY, "full": EMPTY, "small": SMALL, "loose": LOOSE},
        unknown=["bare"],
        team={},
    )
    scorer.see(
        running(on("fuller", raw(FOUR, name="half"), record=HALF)),
        running(on("full", raw("cpu=16 mem=1Gi gpu=4", name="all"), record=BOTH)),
    )
    return scorer


@pytest.fixture
async def scorer() -> Scorer:
    return await cluster(Scorer())


@pytest.fixture
async def early() -> Scorer:
    return await cluster(Scorer(reserve_at=ReserveAt.PRIORITIZE))


@pytest.fixture
async def caller(scorer: Scorer) -> AsyncIterator[Caller]:
    async with scorer.open() as opened:
        yield opened


# Filter.


async def test_filter_names_fitting_nodes_and_reasons(scorer: Scorer, caller: Caller) -> None:
    answer = await caller.filter(raw(FOUR), *NAMES)

    needs = "node(s) have no NUMA zone with 4 cpu, 1Gi memory and 1 nvidia.com/gpu"
    never = {
        "small": f"{needs} (numalign: single-numa-node)", "bare": node_answers.NO_TOPOLOGY,
        "loose": 'node(s) have Topology Manager policy "none" (numalign: single-numa-node)',
    }  # fmt: skip
    assert (answer["Nodes"], answer["NodeNames"], answer["Error"]) == (None, ["empty", "fuller"], "")
    assert answer["FailedNodes"] == {"full": f"{needs} free (numalign: single-numa-node)"}
    assert answer["FailedAndUnresolvableNodes"] == never
    counted = [scorer.count("filtered_nodes_total", answer=kind) for kind in ("fits", "not_now", "never")]
    assert counted == [2, 1, 3]
    assert scorer.count("scheduler_calls_total", verb="filter", result="answered") == 1
    assert scorer.count("scheduler_call_seconds_count", verb="filter") == 1


async def test_recorded_kube_scheduler_calls_are_answered(scorer: Scorer, caller: Caller) -> None:
    calls = RECORDED / "kube-scheduler-v1.34.4"
    await scorer.know({"node-a.example": EMPTY})
    scorer.see(orjson.loads((calls / "filter-names.json").read_bytes())["Pod"])
    answers = {
        path: [await caller.send(path, (calls / f"{name}.json").read_bytes()) for name in names]
        for path, names in {
            "/filter": ("filter-names", "filter-nodes"), "/prioritize": ("filter-names", "filter-nodes"),
            "/preempt": ("preempt-names", "preempt-nodes"), "/bind": ("bind",),
        }.items()
    }  # fmt: skip

    assert {status for each in answers.values() for status, _ in each} == {200}
    [(_, names), (_, nodes)] = answers["/filter"]
    assert (names["NodeNames"], names["FailedAndUnresolvableNodes"]) == (
        ["node-a.example"],
        {"node-b.example": node_answers.NO_TOPOLOGY, "node-c.example": node_answers.NO_TOPOLOGY},
    )
    assert [each["metadata"]["name"] for each in nodes["Nodes"]["items"]] == ["node-a.example"]
    assert answers["/bind"] == [(200, {"Error": ""})]
    assert scorer.kept() == {"newcomer-0": "node-a.example"}


async def test_invalid_pod_is_an_error_of_filter(caller: Caller) -> None:
    answer = await caller.filter(BROKEN, *NAMES)
    status, document = await caller.send("/prioritize", orjson.dumps({"Pod": BROKEN, "NodeNames": NAMES}))
    assert answer["Error"].startswith("numalign: metadata.annotations[numalign.io/policy]: ")
    assert (answer["NodeNames"], answer["FailedNodes"]) == (None, {})
    assert status == 422
    assert "numalign.io/policy" in document["error"]


async def test_pods_that_some_node_does_not_answer_are_counted(scorer: Scorer, caller: Caller) -> None:
    await scorer.know({"a": EMPTY, "vast": node(*["cpu=8 mem=8Gi gpu=2"] * 18, policy=SINGLE)})
    some, one = [await caller.filter(raw(FOUR), *names) for names in (["a", "vast"], ["a"])]
    assert (some["NodeNames"], [*some["FailedNodes"]], one["NodeNames"]) == (["a"], ["vast"], ["a"])
    assert scorer.count("questions_not_answered_total") == 1


# Prioritize.


async def test_scores_are_whole_numbers_from_0_to_10(caller: Caller) -> None:
    scores = await caller.prioritize(raw(FOUR), *NAMES)
    assert scores == {"fuller": 10, "empty": 5, "full": 0, "small": 0, "loose": 0, "bare": 0}
    assert {type(score) for score in scores.values()} == {int}


# Reservations of those who do not bind.


async def test_prioritize_reserves_the_best_node(early: Scorer) -> None:
    early.see(*(raw(ALL, name=name) for name in ("web", "second", "third")))
    async with early.open() as caller:
        first = await caller.prioritize(raw(ALL), "empty", "fuller")
        kept = early.kept()
        for name in ("second", "third"):
            await caller.prioritize(raw(ALL, name=name), "empty", "fuller")
        answer = await caller.filter(raw(ALL, name="fourth"), "empty", "fuller")
    assert (max(first, key=first.__getitem__), kept) == ("empty", {"web": "empty"})
    assert early.kept() == {"web": "empty", "second": "empty", "third": "fuller"}
    assert (answer["NodeNames"], {*answer["FailedNodes"]}) == ([], {"empty", "fuller"})


async def test_filter_reserves_a_single_fitting_node(early: Scorer) -> None:
    """A scheduler does not ask which of one node is the best."""
    early.see(raw(FOUR))
    async with early.open() as caller:
        await caller.filter(raw(FOUR), "empty", "fuller")
        several = early.kept()
        await caller.filter(raw(FOUR), "empty", "full")
    assert (several, early.kept()) == ({}, {"web": "empty"})


def sees(made: Raw, *, leads: bool = True) -> Callable[[Scorer], object]:
    def arrange(scorer: Scorer) -> None:
        scorer.see(made)
        scorer.leads = leads

    return arrange


GATED = {"schedulingGates": [{"name": "kueue"}]}


@pytest.mark.parametrize(("reserve_at", "arrange", "made", "names"), table([
    # what it shows           when            what happens before                    the pod    the nodes
    ("where they bind here",  ReserveAt.BIND, sees(raw(FOUR)),                       raw(FOUR), "empty full"),
    ("where another leads",   EARLY,          sees(raw(FOUR), leads=False),          raw(FOUR), "empty full"),
    ("to one on a node",      EARLY,          sees(on("b", raw(FOUR))),              raw(FOUR), "empty full"),
    ("where it fits nowhere", EARLY,          sees(raw(FOUR)),                       raw(FOUR), "full small"),
    ("to one that is not",    EARLY,          lambda _: None,                        raw(FOUR), "empty full"),
    ("behind a gate",         EARLY,          sees(raw(FOUR, spec=GATED)),           raw(FOUR), "empty full"),
    ("that is more in truth", EARLY,          sees(raw("cpu=80 mem=1Gi")),           raw(FOUR), "empty full"),
]))  # fmt: skip
async def test_nothing_is_reserved(
    reserve_at: ReserveAt, arrange: Callable[[Scorer], object], made: Raw, names: str
) -> None:
    scorer = await cluster(Scorer(reserve_at=reserve_at))
    arrange(scorer)
    async with scorer.open() as caller:
        await caller.filter(made, "empty" if "empty" in names else "full")
        await caller.prioritize(made, *names.split())
    assert scorer.kept() == {}


async def test_pod_watched_after_its_call_is_reserved(early: Scorer) -> None:
    early.time.after(SEEN_SECONDS / 2, lambda: early.see(raw(FOUR)))
    async with early.open() as caller:
        await caller.filter(raw(FOUR), "empty", "full")
    assert early.kept() == {"web": "empty"}


@pytest.mark.parametrize(("made", "nodes", "waits"), table([
    # what asks                     the pod                 how many nodes    whether it waits
    ("a short call",                raw(FOUR),              2,                True),
    ("a long call",                 raw(FOUR),              LARGE // 8,       False),
    ("one for a pod without a uid", raw(FOUR, uid=None),    2,                False),
]))  # fmt: skip
async def test_unknown_pod_delays_no_other_call(early: Scorer, made: Raw, nodes: int, *, waits: bool) -> None:
    before = early.time()
    async with early.open() as caller:
        await caller.filter(made, *(f"node-{at}" for at in range(nodes)))
    assert early.time() - before == (SEEN_SECONDS if waits else 0)


async def test_repeated_filter_reserves_half_of_the_time_at_most(early: Scorer) -> None:
    early.see(raw(FOUR))
    seen = []
    async with early.open() as caller:
        for second in range(180):
            early.time.seconds = 1000.0 + second
            early.state.expire()
            await caller.filter(raw(FOUR), "empty")
            seen.append(len(early.kept()))
    assert seen[:60] == [1] * 60
    assert sum(seen[60:]) <= 60


# Preempt.


async def test_preempt_returns_only_useful_victims(caller: Caller) -> None:
    def victims(*names: str) -> Raw:
        return {"Pods": [{"UID": uid(name)} for name in names], "NumPDBViolations": 1}

    candidates = {"full": victims("all"), "fuller": victims("half"), "small": victims("x")}
    call = {"Pod": raw(ALL), "NodeNameToVictims": None, "NodeNameToMetaVictims": candidates}
    answer = await caller.ask("/preempt", call)

    assert answer == {"NodeNameToMetaVictims": {name: candidates[name] for name in ("full", "fuller")}}


# For people.


EVERY_NODE = ["fuller", "empty", "full", "loose", "small", "bare"]


@pytest.mark.parametrize(("call", "names"), table([
    ("all nodes",  raw(FOUR),                                                EVERY_NODE),
    ("some nodes", {"pod": raw(FOUR), "nodes": ["small", "empty", "empty"]}, ["empty", "small"]),
    ("no nodes",   {"pod": raw(FOUR), "nodes": []},                          []),
]))  # fmt: skip
async def test_nodes_are_ranked_for_people(caller: Caller, call: Raw, names: list[str]) -> None:
    answer = await caller.ask("/v1/rank", call)
    assert [each["name"] for each in answer["nodes"]] == names
    assert (answer["pod"], answer["age"]) == ("team/web", 0.5)


# Volcano.


def task(made: Raw, place: str = "") -> Raw:
    metadata = made["metadata"]
    who = {"UID": metadata["uid"], "Name": metadata["name"], "Namespace": metadata["namespace"]}
    return {**who, "NodeName": place, "Pod": made}


async def predicate(caller: Caller, made: Raw, name: str) -> tuple[int, str]:
    document = await caller.ask("/volcano/predicate", {"task": task(made), "node": {"Name": name}})
    return document["code"], document["status"]


async def test_recorded_volcano_calls_are_answered(caller: Caller) -> None:
    calls = RECORDED / "volcano-v1.10.0"
    answers = [
        await caller.send(f"/volcano/{verb}", (calls / f"{verb}.json").read_bytes())
        for verb in ("predicate", "prioritize", "preemptable")
    ]
    assert [status for status, _ in answers] == [200] * 3


async def test_allocated_task_is_reserved_until_deallocated(scorer: Scorer, caller: Caller) -> None:
    scorer.see(raw(ALL))
    first = await caller.ask("/volcano/allocate", {"task": task(raw(ALL), "fuller")})
    kept = scorer.kept()
    code, _ = await predicate(caller, raw(ALL, name="second"), "fuller")
    second = await caller.ask("/volcano/allocate", {"task": task(raw(ALL, name="second"), "fuller")})
    last = await caller.ask("/volcano/deallocate", {"task": task(raw(ALL), "fuller")})
    after, _ = await predicate(caller, raw(ALL, name="second"), "fuller")
    assert (first, kept, code) == ({"errorMessage": ""}, {"web": "fuller"}, 2)
    assert second["errorMessage"].startswith("node(s) have no NUMA zone with 8 cpu")
    assert (last, scorer.kept(), after) == ({"errorMessage": ""}, {}, 0)


async def test_foreign_deallocate_frees_nothing(scorer: Scorer, caller: Caller) -> None:
    scorer.see(raw(ALL))
    scorer.reserve(raw(ALL), "fuller")
    await caller.ask("/volcano/deallocate", {"task": task(raw(ALL, namespace="other"), "fuller")})
    assert scorer.kept() == {"web": "fuller"}
    scorer.reservations.mark_unconfirmed(uid("web"))
    await caller.ask("/volcano/deallocate", {"task": task(raw(ALL), "fuller")})
    await caller.ask("/volcano/allocate", {"task": task(raw(ALL), "empty")})
    assert scorer.kept() == {"web": "fuller"}


async def test_a_task_that_runs_is_neither_reserved_nor_let_go_of(scorer: Scorer, caller: Caller) -> None:
    scorer.see(running(on("fuller", raw(FOUR))))
    await caller.ask("/volcano/allocate", {"task": task(raw(FOUR), "empty")})
    await caller.ask("/volcano/deallocate", {"task": task(raw(FOUR), "fuller")})
    assert (scorer.kept(), scorer.reservations.node_of(uid("web"))) == ({}, "fuller")


async def test_volcano_is_named_the_tasks_whose_eviction_helps(caller: Caller) -> None:
    evictees = [
        task(raw("cpu=16 mem=1Gi gpu=4", name="all"), "full"),
        task(raw("cpu=1", name="x"), "small"),
        task(raw("cpu=1", name="y")),
    ]
    some = await caller.ask("/volcano/preemptable", {"evictor": task(raw(ALL)), "evictees": evictees})
    none = await caller.ask("/volcano/preemptable", {"evictor": task(raw(ALL)), "evictees": evictees[1:]})
    assert some == {"status": 1, "victims": evictees[:1]}
    assert none == {"status": -1, "victims": []}


@pytest.mark.parametrize(("verb", "call", "part"), table([
    ("predicate",   "predicate",   {"task": task(BROKEN), "node": {"Name": "empty"}}, {"code": 1}),
    ("prioritize",  "prioritize",  {"task": task(BROKEN), "nodes": [{"Name": "a"}]},
     {"nodeScore": {}, "errorMessage": ""}),
    ("preemptable", "preemptable", {"evictor": task(BROKEN), "evictees": []}, {"status": 0, "victims": []}),
    ("allocate",    "allocate",    {"task": task(BROKEN, "empty")}, {}),
    ("no node",     "allocate",    {"task": task(raw(FOUR))},
     {"errorMessage": "numalign: an allocated task must have its node and its pod's UID"}),
    ("no uid",      "deallocate",  {"task": {**task(raw(FOUR)), "UID": ""}}, {}),
]))  # fmt: skip
async def test_volcano_reads_nothing_but_good_answers(
    scorer: Scorer, caller: Caller, verb: str, call: Raw, part: Raw
) -> None:
    document = await caller.ask(f"/volcano/{verb}", call)
    assert {key: document[key] for key in part} == part
    texts = [document[key] for key in ("status", "errorMessage") if isinstance(document.get(key), str)]
    lines = scorer.journal.of("call.unreadable")
    assert any(texts) or [line["verb"] for line in lines] == [f"volcano/{verb}"]


@pytest.mark.parametrize("verb", ["onSessionOpen", "onSessionClose"])
@pytest.mark.parametrize("body", [b"", b"{}", b'{"nodes": {}}', b"hello"])
async def test_sessions_come_and_go(caller: Caller, verb: str, body: bytes) -> None:
    status, document = await caller.send(f"/volcano/{verb}", body)
    assert (status, document) == (200, {"errorMessage": ""})


# Invalid calls.


GARBAGE = [
    # what it is                     the body
    ("not JSON",                     b"hello",                  "the body is not JSON: "),
    ("empty",                        b"",                       "the body is empty"),
    ("seven mebibytes of brackets",  b"[" * (7 * MIB),          "the body is nested deeper than"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "why"), table(GARBAGE))
async def test_invalid_call_is_refused(scorer: Scorer, caller: Caller, body: bytes, why: str) -> None:
    for path in OURS:
        status, document = await caller.send(f"/{path}", body)
        assert (path, status) == (path, 400)
        assert document["error"].startswith(why)
        assert len(document["error"]) < 1000
        bad = scorer.count("scheduler_calls_total", verb=path, result="bad")
        assert bad == 1
    after = await caller.filter(raw(FOUR), "empty")
    assert after["NodeNames"] == ["empty"]
    # Once a minute: the page of metrics counts them all.
    assert len(scorer.journal.of("call.unreadable")) == 1


@pytest.mark.parametrize("body", table([garbage[:2] for garbage in GARBAGE]))
async def test_invalid_volcano_call_gets_status_200(caller: Caller, body: bytes) -> None:
    for path in VOLCANOS:
        status, document = await caller.send(f"/{path}", body)
        assert (path, status) == (path, 200)
        assert {*document} <= {"status", "code", "nodeScore", "errorMessage", "victims"}


POD = raw(FOUR)


@pytest.mark.parametrize(("path", "call", "document"), table([
    # what it is            the path       the call                                       what is said
    ("no nodes",            "/filter",     {"Pod": POD},                                  "neither is set"),
    ("a path for a name",   "/bind",
     {"PodName": "../a", "PodNamespace": "b", "PodUID": "u", "Node": "c"},                "PodName: "),
    ("a wrong pod",         "/preempt",    {"Pod": BROKEN, "NodeNameToMetaVictims": {}},  "numalign.io"),
    ("nothing to rank",     "/v1/rank",    {"pod": BROKEN},                             "numalign.io/policy"),
]))  # fmt: skip
async def test_call_with_mistakes_is_unprocessable(
    scorer: Scorer, caller: Caller, path: str, call: Raw, document: str
) -> None:
    status, answer = await caller.send(path, orjson.dumps(call))
    assert status == 422
    assert document in answer["error"]
    assert scorer.kept() == {}


@pytest.mark.parametrize("kind", ["text/plain", "x", ""])
async def test_content_type_is_ignored(caller: Caller, kind: str) -> None:
    body = orjson.dumps({"Pod": raw(FOUR), "NodeNames": ["empty"]})
    status, answer = await caller.send("/filter", body, kind=kind)
    assert (status, answer["NodeNames"]) == (200, ["empty"])


@pytest.mark.parametrize("path", HANDLERS)
async def test_before_the_first_snapshot_calls_get_503(path: str) -> None:
    scorer = Scorer()
    async with scorer.open() as caller, caller.client.post(f"/{path}", data=b"{}") as answer:
        document = await answer.json()
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert document == {"error": "the state of the cluster is not known yet"}


@pytest.mark.parametrize(("wanted", "status"), [(True, 200), (False, 404)])
async def test_debug_state_is_served_only_if_enabled(scorer: Scorer, status: int, *, wanted: bool) -> None:
    async with scorer.open(debug_state=wanted) as caller, caller.watching.get("/debug/state") as answer:
        assert answer.status == status


# A law: whatever is called, no reservation remains that no caller was told of.

ERRORS = (None, None, None, Conflict("is bound"), Forbidden("no"), Unreachable("who knows"))
SIZES = [FOUR, ALL, "cpu=1 mem=1Gi", "cpu=0.5"] * 3
PODS = [*(raw(size, name=f"p{at}") for at, size in enumerate(SIZES)), BROKEN, raw(FOUR, uid="")]


def any_call(dice: random.Random) -> tuple[str, object]:
    made, name = dice.choice(PODS), dice.choice([*NAMES, "nobody", "../x", ""])
    nodes = {"Pod": made, "NodeNames": dice.choices(NAMES, k=dice.randrange(5))}
    other: Raw = dice.choice([{}, {"PodUID": "stranger"}, {"PodUID": ""}])
    victims = {name: {"Pods": [{"UID": uid("half")}], "NumPDBViolations": 0}}
    calls: Mapping[str, object] = {
        "filter": nodes, "prioritize": nodes, "bind": {**binding_call(made, name), **other},
        "preempt": {"Pod": made, "NodeNameToMetaVictims": victims},
        "v1/rank": {"pod": made, "nodes": dice.choice([NAMES, None, 7])},
        "volcano/predicate": {"task": task(made), "node": {"Name": name}},
        "volcano/preemptable": {"evictor": task(made), "evictees": [task(made, name)]},
        "volcano/allocate": {"task": task(made, name)}, "volcano/deallocate": {"task": task(made)},
        "volcano/prioritize": dice.choice([None, [], {"task": 7}, "x"]),
    }  # fmt: skip
    return dice.choice([*calls.items()])


@pytest.mark.full
@pytest.mark.parametrize("reserve_at", ReserveAt)
async def test_random_calls_leave_no_reservation(reserve_at: ReserveAt) -> None:
    dice, writes = random.Random(reserve_at.value), Writes()  # noqa: S311  the same calls in each run
    scorer, fresh = (
        await cluster(Scorer(reserve_at=reserve_at, writes=writes, patience=0.1)),
        await cluster(Scorer()),
    )
    scorer.see(*PODS[:10])
    for _ in range(100 * settings().max_examples):
        writes.error = dice.choice(ERRORS)
        path, document = any_call(dice)
        with contextlib.suppress(BadInput):
            orjson.loads(await HANDLERS[path](scorer.context, orjson.dumps(document)))
        scorer.time.seconds += 0.05
        scorer.reservations.expire(scorer.time())
    scorer.time.seconds += 60
    scorer.reservations.expire(scorer.time())
    assert scorer.kept() == {}
    assert [scorer.reservations.free_capacity(name, now=scorer.time()) for name in NAMES] == [
        fresh.reservations.free_capacity(name, now=scorer.time()) for name in NAMES
    ]


@pytest.mark.parametrize("path", ["filter", "bind", "volcano/predicate"])
async def test_replica_without_lease_closes_connections(scorer: Scorer, caller: Caller, path: str) -> None:
    await cluster(scorer)
    closed = []
    for scorer.leads in (True, False):
        async with caller.client.post(f"/{path}", data=b"{}") as answer:
            closed.append(answer.headers.get("Connection"))
    assert closed == [None, "close"]


# Quotas.


SIX = "cpu=6 mem=1Gi"
BEYOND = (
    "node(s) beyond the quota: 6 of 8 exclusive CPUs of namespace team are in use, and the pod requests 6"
    " (numalign)"
)


@pytest.fixture
async def used() -> Scorer:
    """A scorer of two empty nodes and one that is full, of whose namespace six of eight CPUs are in use."""
    made = Scorer()
    await made.know({"a": EMPTY, "b": EMPTY, "full": EMPTY}, team={"exclusive-cpus": "8"})
    made.see(on("full", raw(SIX, name="old")), raw(SIX, name="new"))
    return made


async def test_pod_beyond_its_quota_fits_nowhere(used: Scorer) -> None:
    async with used.open() as caller:
        answer = await caller.filter(raw(SIX, name="new"), "a", "b", "full")
    used.context.reserve(used.subject(raw(SIX, name="new")), "a")
    assert (answer["NodeNames"], answer["FailedNodes"], used.kept()) == ([], {}, {})
    assert answer["FailedAndUnresolvableNodes"] == dict.fromkeys(("a", "b", "full"), BEYOND)
    assert used.count("filtered_nodes_total", answer="over_quota") == 3


@pytest.mark.parametrize(("victim", "useful"), [("old", ["full"]), ("stranger", [])])
async def test_preemption_beyond_quota_needs_its_users(used: Scorer, victim: str, useful: list[str]) -> None:
    used.see(on("full", raw(SIX, name="stranger", namespace="others")))
    candidates = {"full": Victims((uid(victim),), 0)}
    assert [*used.preemption.worthwhile(used.subject(raw(SIX, name="new")), candidates)] == useful


async def test_volcano_checks_the_quota_before_it_allocates(used: Scorer) -> None:
    new = task(raw(SIX, name="new"), "a")
    async with used.open() as caller:
        predicate = await caller.ask("/volcano/predicate", {"task": new, "node": {"Name": "a"}})
        allocated = await caller.ask("/volcano/allocate", {"task": new})
    assert predicate == {"status": BEYOND, "code": 3}
    assert BEYOND in str(allocated)
    assert used.kept() == {}


# The same order of nodes for people.


async def busy_cluster() -> Scorer:
    """A node with a pod on it, an empty one, a small one, and one that publishes nothing."""
    made = Scorer()
    await made.know({"fuller": EMPTY, "empty": EMPTY, "small": SMALL}, unknown=["bare"])
    made.see(running(on("fuller", raw(FOUR, name="there"), record=HALF)))
    return made


async def page(scorer: Scorer, made: Raw, *names: str, age: float = 0.5) -> Raw:
    """What is told of these nodes; a pod that says nothing is ranked by what kubelets would do."""
    context = replace(scorer.context, age=lambda: age)
    answer = await HANDLERS["v1/rank"](context, orjson.dumps({"pod": made, "nodes": names}))
    read: Raw = orjson.loads(answer)
    return read


async def test_fitting_node_shows_its_placement() -> None:
    [entry] = (await page(await busy_cluster(), raw(FOUR), "empty"))["nodes"]
    assert {key: entry[key] for key in entry if key not in {"scores", "doubts"}} == {
        "name": "empty", "fits": True, "aligned": True, "certain": True, "waitsFor": [], "sources": {},
        "basis": "observed", "known": "counts",
        "placement": [{"zones": ["node-0"], "amount": {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "1"}}],
    }  # fmt: skip
    assert len(entry["scores"]) == len(Ranking().strategies)


async def test_node_shows_the_sources_of_its_ledger() -> None:
    scorer = await busy_cluster()
    scorer.see(
        on("fuller", raw("cpu=1 mem=1Gi", name="stranger")), on("fuller", raw("cpu=1..", name="shares"))
    )
    [entry] = (await page(scorer, raw(FOUR), "fuller"))["nodes"]
    assert entry["sources"] == {"recorded": 1, "unknown": 1}


async def test_refusing_node_shows_reason_and_shortages() -> None:
    [entry] = (await page(await busy_cluster(), raw(FOUR), "small"))["nodes"]
    assert (entry["fits"], entry["permanent"], entry["placement"]) == (False, True, None)
    assert entry["reason"].startswith("node(s) have no NUMA zone with 4 cpu")
    assert (entry["refuser"], entry["scores"]) == ("kubelet", [0, 0])
    assert entry["because"] == (
        'container "c0": the node has at most 2 cpu in one NUMA zone (Topology Manager policy'
        ' "single-numa-node")'
    )
    assert entry["shortages"] == ["zone 0: cpu 4 requested, 2 free", "zone 1: cpu 4 requested, 2 free"]


@pytest.mark.parametrize(("policy", "fits"), [(SINGLE, False), (None, True)])
async def test_node_without_topology_shows_so(policy: str | None, *, fits: bool) -> None:
    [entry] = (await page(await busy_cluster(), raw(FOUR, policy=policy), "bare"))["nodes"]
    assert (entry["fits"], entry["known"], "reason" in entry) == (fits, None, not fits)


async def test_page_names_the_pod_to_wait_for() -> None:
    scorer = Scorer()
    await scorer.know({"a": EMPTY})
    scorer.reserve(raw("cpu=7 mem=1Gi", name="first"), "a")
    [entry] = (await page(scorer, raw("cpu=2 mem=1Gi"), "a"))["nodes"]
    assert (entry["waitsFor"], entry["fits"]) == (["team/first"], True)


async def test_unknown_age_is_null() -> None:
    assert (await page(Scorer(), raw(FOUR), age=float("inf")))["age"] is None


CORDONED, TAINTED = NotEligible(Unmet.CORDONED, lasting=False), NotEligible(Unmet.TAINT, lasting=True)


@pytest.mark.parametrize(
    ("why", "reason"),
    [(CORDONED, "node(s) have no NUMA zone with 4 cpu"), (TAINTED, "node(s) had untolerated taints")],
)
async def test_cordoned_node_shows_its_lasting_reason(why: NotEligible, reason: str) -> None:
    scorer = await busy_cluster()
    [entry] = scorer.nodes.of_not_eligible({"small": why}, scorer.subject(raw(FOUR)))
    assert (entry.fits, entry.permanent) == (False, True)
    assert entry.reason.startswith(reason)
