"""The scorer beside a cluster or a file: in this process, against an API server in it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import orjson
import pytest
from prometheus_client import CollectorRegistry

from numalign.cache.ranking import Ranks
from numalign.model.intent import PLACEMENT
from numalign.runtime.settings import load
from numalign.scheduling.outcomes import EVENT
from numalign.scheduling.scheduler_state import PendingPod
from scorer.handlers import CallContext
from scorer.program import LEASE, MOST_QUESTIONS, WARMING_SECONDS, ScorerProgram, Warming
from scorer.settings import ScorerSettings
from tests.worlds import faster
from tests.worlds.scorer import (
    BOTH,
    EMPTY,
    FOUR,
    HALF,
    LOOSE,
    SINGLE,
    SMALL,
    Raw,
    Scorer,
    binding_call,
    documents,
    on,
    raw,
    running,
)
from tests.worlds.served import LOCAL, PLAIN, Launcher, Served
from tools.clusters.fake_api import FakeApi

PODS = "/api/v1/namespaces/team/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/numalign-system/leases"
EVENTS = "/api/v1/namespaces/team/events"


@dataclass
class Running(Served):
    async def metric(self, name: str) -> float:
        _, page = await self.text("/metrics")
        [line] = (line for line in page.splitlines() if line.startswith(f"numalign_{name} "))
        return float(line.split()[-1])

    async def closes_connections(self) -> bool:
        async with aiohttp.ClientSession() as session, session.post(self.url("/filter")) as answer:
            return answer.headers.get("Connection") == "close"

    async def fit(self, pod: Raw, *names: str) -> list[str]:
        fit: list[str] = (await self.ask("/filter", {"Pod": pod, "NodeNames": names}))["NodeNames"]
        return fit

    async def until_fit(self, pod: Raw, *names: str, of: Sequence[str]) -> None:

        async def fit() -> bool:
            return await self.fit(pod, *of) == [*names]

        await self.until(fit)

    async def bind(self, pod: Raw, node: str) -> str:
        return str((await self.ask("/bind", binding_call(pod, node)))["Error"])


@dataclass
class Bench(Launcher):
    def running(self, *argv: str) -> AbstractAsyncContextManager[Running]:
        cluster = () if "--snapshot" in argv else self.kubeconfig()
        settings = load(ScorerSettings, argv=[*LOCAL, *PLAIN, *cluster, *argv], environ={}).settings
        program = ScorerProgram(settings, self.journal.log, CollectorRegistry(), sleep=faster.sleep)
        return Running.running(program, self.journal)

    def pod(self, made: Raw) -> Raw:
        return self.api.put(made)

    def found(self, name: str) -> Raw:
        found = self.api.get(f"{PODS}/{name}")
        assert found
        return found

    def snapshot(self, *pods: Raw) -> str:
        """Write a snapshot file of two nodes and these pods in one step, and return its path."""
        items = [*documents({"a": EMPTY, "b": EMPTY, "loose": LOOSE}, team={}), *pods]
        text = orjson.dumps({"apiVersion": "v1", "kind": "List", "items": items}).decode()
        return str(Path(self.file("cluster.new", text)).replace(self.folder / "cluster.json"))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with FakeApi() as api:
        for each in documents({"a": EMPTY, "b": EMPTY, "small": SMALL, "loose": LOOSE}, team={}):
            api.put(each)
        yield Bench(tmp_path, api)


# In a cluster.


async def test_pod_is_bound_and_its_rejection_becomes_an_event(bench: Bench) -> None:
    made = bench.pod(raw(FOUR))
    async with bench.running() as scorer:
        await scorer.until(scorer.ready)
        fit = await scorer.fit(made, "a", "small", "loose", "nobody")
        scores = await scorer.ask("/prioritize", {"Pod": made, "NodeNames": fit})
        why = await scorer.bind(made, "a")
        bound = bench.found("web")
        again = await scorer.bind(made, "b")

        bench.pod(
            {**bound, "status": {"phase": "Failed", "reason": "TopologyAffinityError", "message": "no"}}
        )

        async def published() -> bool:
            return bool(bench.api.all(EVENTS))

        await scorer.until(published)

    assert (fit, scores, why) == (["a"], [{"Host": "a", "Score": 10}], "")
    assert bound["spec"]["nodeName"] == "a"
    assert orjson.loads(bound["metadata"]["annotations"][PLACEMENT]) == HALF
    assert again.startswith("numalign: the pod ")
    assert len(bench.api.received("POST", f"{PODS}/web/binding")) == 1
    [event] = bench.api.all(EVENTS)
    assert (event["reason"], event["involvedObject"]["uid"]) == (EVENT, made["metadata"]["uid"])
    assert "gets 4 cpu and 1Gi memory and 1 nvidia.com/gpu from zone 0 on a; the kubelet" in event["message"]


async def test_replica_without_lease_answers_but_does_not_bind(bench: Bench) -> None:
    until = "2100-01-01T00:00:00.000000Z"
    held = {"holderIdentity": "another", "leaseDurationSeconds": 15, "renewTime": until}
    metadata = {"name": LEASE, "namespace": "numalign-system"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": held}
    bench.api.put(lease)
    made = bench.pod(raw(FOUR))
    async with bench.running() as scorer:

        async def knows() -> bool:
            waiting = (await scorer.get("/readyz"))[1]["waiting_for"]
            return {*waiting} == {"lease"}

        await scorer.until(knows)
        status, body = await scorer.get("/readyz")
        fit, why = await scorer.fit(made, "a", "small"), await scorer.bind(made, "a")
        away = await scorer.closes_connections()

    assert (status, {*body["waiting_for"]}, away) == (503, {"lease"}, True)
    assert LEASE in body["waiting_for"]["lease"]
    assert (fit, why) == (["a"], "numalign: this replica does not hold the lease, so it binds no pods")
    assert bench.api.received("POST", f"{PODS}/web/binding") == []


async def test_scorer_that_does_not_bind_reserves_at_prioritize(bench: Bench) -> None:
    made = bench.pod(raw(FOUR))
    async with bench.running("--reserve-at", "prioritize", "--debug-state") as scorer:
        await scorer.until(scorer.ready)
        await scorer.ask("/prioritize", {"Pod": made, "NodeNames": ["a", "b"]})
        _, state = await scorer.get("/debug/state")
        why = await scorer.bind(made, "a")
        bench.pod(on("b", made))

        async def follows() -> bool:
            return await scorer.metric("reservations") == 0

        await scorer.until(follows)

    assert (state["reserved"], state["nodes"], state["pods"]) == ({"team/web": "a"}, 4, 1)
    assert state["sources"] == {"predicted": 1}
    assert why == "numalign: this replica does not hold the lease, so it binds no pods"
    assert bench.api.received("POST", f"{PODS}/web/binding") == []


async def test_unused_reservation_expires(bench: Bench) -> None:
    made = bench.pod(raw(FOUR))
    async with bench.running("--reserve-at", "prioritize", "--reservation-seconds", "0.1") as scorer:
        await scorer.until(scorer.ready)
        await scorer.ask("/prioritize", {"Pod": made, "NodeNames": ["a"]})
        await scorer.logged("reservation.expired")
        kept = await scorer.metric("reservations")
    [line] = bench.journal.of("reservation.expired")
    assert (line["pod"], kept) == ("team/web", 0)


# Files of settings.


async def test_policy_file_is_followed(bench: Bench) -> None:
    selector = "{matchLabels: {kubernetes.io/metadata.name: team}}"
    policy_text = f"defaults:\n- namespaceSelector: {selector}\n  default: {SINGLE}\n"
    path, made = bench.file("policy.yaml", policy_text), bench.pod(raw(FOUR, policy=None))
    async with bench.running("--policy", path, "--policy-reload-seconds", "0.02") as scorer:
        await scorer.until(scorer.ready)
        before = await scorer.fit(made, "a", "loose")
        bench.file("policy.yaml", "exemptions: {namespaces: [team]}\n")
        await scorer.until_fit(made, "a", "loose", of=("a", "loose"))
    assert before == ["a"]


async def test_ranking_file_decides_the_scores(bench: Bench) -> None:
    selector = "{matchLabels: {pool: b}}"
    text = f"rankings:\n- nodeSelector: {selector}\n  strategies: [LeastNUMANodes, LeastAllocated]\n"
    path = bench.snapshot(raw(FOUR))
    async with bench.running("--ranking", bench.file("ranking.yaml", text), "--snapshot", path) as scorer:
        page = await scorer.ask("/v1/rank", {"pod": raw(FOUR), "nodes": ["a", "b"]})
    values = {each["name"]: each["scores"] for each in page["nodes"]}
    assert values["a"][0] == values["b"][0]
    assert values["a"][1] < values["b"][1]
    assert values["a"][1] + values["b"][1] in {99, 100}


# With a file.


async def test_snapshot_file_is_followed_and_binds_nothing(bench: Bench) -> None:
    full = running(on("b", raw("cpu=16 mem=1Gi gpu=4", name="full"), record=BOTH))
    path = bench.snapshot(full, raw(FOUR))
    async with bench.running("--snapshot", path, "--snapshot-reload-seconds", "0.02") as scorer:
        ready = await scorer.ready()
        fit = await scorer.fit(raw(FOUR), "a", "b", "loose")
        scores = await scorer.ask("/prioritize", {"Pod": raw(FOUR), "NodeNames": ["a", "b"]})
        page = await scorer.ask("/v1/rank", raw(FOUR))
        why = await scorer.bind(raw(FOUR), "a")
        bench.snapshot()
        await scorer.until_fit(raw(FOUR), "a", "b", of=("a", "b"))
        later = await scorer.ask("/v1/rank", raw(FOUR))
    # A snapshot without pods trusts its topologies.
    assert (page["nodes"][0]["basis"], later["nodes"][0]["basis"]) == ("observed", "reported")
    assert (ready, fit) == (True, ["a"])
    assert scores == [{"Host": "a", "Score": 10}, {"Host": "b", "Score": 0}]
    assert [each["name"] for each in page["nodes"]] == ["a", "b", "loose"]
    assert why == "numalign: this replica does not hold the lease, so it binds no pods"


async def test_missing_snapshot_file_delays_readiness(bench: Bench) -> None:
    path = bench.folder / "cluster.json"
    async with bench.running("--snapshot", str(path), "--snapshot-reload-seconds", "0.02") as scorer:
        status, body = await scorer.get("/readyz")
        bench.snapshot(raw(FOUR))
        await scorer.until(scorer.ready)
    assert (status, body["waiting_for"]) == (503, {"snapshot": f"a valid snapshot at {path}"})


# The program itself: started as people start it.


async def test_metrics_count_cache_entries_and_exporters(bench: Bench) -> None:
    bench.pod(raw("cpu=2 mem=1Gi", name="waiting"))
    made = bench.pod(raw(FOUR))
    caches = "asked readings questions nodes askings records unreadable refused calls"
    async with bench.running() as scorer:
        await scorer.until(scorer.ready)
        before = await scorer.metric('cache_entries{cache="nodes"}')
        await scorer.fit(made, "n1")
        sizes = {name: await scorer.metric(f'cache_entries{{cache="{name}"}}') for name in caches.split()}
        exporters = await scorer.metric('topology_nodes{source="exporter"}')
    assert (before, sizes["nodes"], sizes["asked"], sizes["calls"], exporters) == (2, 2, 1, 0, 4)


# Answers before the first call.

NODES = {"a": EMPTY, "b": EMPTY}
EIGHT = "cpu=8 mem=1Gi gpu=1"


@dataclass
class Started:
    """A scorer that has just read its cluster, and what is worked out before it is ready."""

    scorer: Scorer = field(default_factory=Scorer)
    lacks: str | None = None

    def __post_init__(self) -> None:
        journal, time = self.scorer.journal, self.scorer.time
        self.warming = Warming(self.scorer.context, lambda: self.lacks, journal.log, time, sleep=time.sleep)

    @property
    def answers(self) -> int:
        return len(self.scorer.state.cache.caches()["nodes"])


@pytest.fixture
async def started() -> Started:
    made = Started()
    await made.scorer.know(NODES)
    return made


async def test_bound_or_ended_pod_is_not_evaluated(started: Started) -> None:
    ended = {**raw(FOUR, name="ended"), "status": {"phase": "Failed"}}
    leaving = raw(FOUR, name="leaving", deletionTimestamp="2027-01-15T08:00:00Z")
    started.scorer.see(on("a", raw(FOUR)), ended, leaving)
    await started.warming.run()
    assert started.answers == 0


async def test_most_frequent_questions_are_evaluated_first(started: Started) -> None:
    others = [raw(f"cpu=1 mem={1 + number}Mi", name=f"other-{number}") for number in range(MOST_QUESTIONS)]
    started.scorer.see(*others, raw(FOUR, name="one"), raw(FOUR, name="two"))
    await started.warming.run()
    assert started.answers == MOST_QUESTIONS
    assert started.scorer.fits(raw(FOUR), "a", "b") == [True, True]
    assert started.answers == MOST_QUESTIONS


async def test_evaluation_starts_with_the_first_snapshot(started: Started) -> None:
    started.lacks = "the first snapshot"
    started.scorer.see(raw(FOUR))
    seen: list[tuple[int, str | None]] = []

    def come() -> None:
        seen.append((started.answers, started.warming.waiting_for()))
        started.lacks = None
        seen.append((started.answers, started.warming.waiting_for()))

    started.scorer.time.after(5, come)
    await started.warming.run()

    assert seen == [(0, None), (0, "the evaluation of pending pods")]
    assert (started.answers, started.warming.waiting_for()) == (1, None)


async def test_an_error_does_not_delay_readiness(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(CallContext, "ranks")
    started.scorer.see(raw(FOUR))
    await started.warming.run()
    assert len(started.scorer.journal.of("warming.failed")) == 1
    assert started.warming.waiting_for() is None


async def test_evaluation_stops_at_its_time_limit(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    started.scorer.see(raw(FOUR, name="one"), raw(EIGHT, name="two"))
    ranks = CallContext.ranks

    async def slow(context: CallContext, names: Sequence[str], pod: PendingPod) -> Ranks:
        started.scorer.time.seconds += WARMING_SECONDS
        return await ranks(context, names, pod)

    monkeypatch.setattr(CallContext, "ranks", slow)
    await started.warming.run()

    assert (started.answers, started.warming.waiting_for()) == (1, None)
