"""The scorer as it runs in a cluster, its parts joined: in this process, against an API server in it too."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import aiohttp
import orjson
import pytest
from prometheus_client import CollectorRegistry

from numalign.kube import bindings
from numalign.kube.errors import Unconfigured
from numalign.model.errors import BadInput
from numalign.model.intent import PLACEMENT
from numalign.runtime.server import Stop
from numalign.runtime.settings import load
from numalign.scheduling.outcomes import EVENT
from scorer.program import LEASE, ScorerProgram
from scorer.settings import ScorerSettings
from tests.unit.scorer.conftest import (
    BOTH,
    EMPTY,
    FOUR,
    HALF,
    LOOSE,
    SINGLE,
    SMALL,
    Raw,
    binding_call,
    documents,
    on,
    raw,
    running,
)
from tests.worlds import faster
from tests.worlds.log import RecordedLog
from tests.worlds.notation import GPU, node, table
from tests.worlds.served import Served
from tools.clusters.fake_api import FakeApi

ROOT = Path(__file__).parents[3]


BARE = node("cpu=8 mem=16Gi", "cpu=8 mem=16Gi", policy=SINGLE)

PODS = "/api/v1/namespaces/team/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/numalign-system/leases"
EVENTS = "/api/v1/namespaces/team/events"

PORTS = ("--port", "0", "--metrics-port", "0")
HERE = ("--bind", "127.0.0.1", *PORTS, "--drain-seconds", "0", "--insecure-http")


@dataclass
class Running(Served):
    """A scorer that runs."""

    async def metric(self, name: str) -> float:
        """What the page of metrics says in the line that begins so."""
        _, page = await self.text("/metrics")
        [line] = (line for line in page.splitlines() if line.startswith(f"numalign_{name} "))
        return float(line.split()[-1])

    async def sends_away(self) -> bool:
        """Whether it closes the connection of whoever calls it."""
        async with aiohttp.ClientSession() as session, session.post(self.url("/filter")) as answer:
            return answer.headers.get("Connection") == "close"

    async def fit(self, pod: Raw, *names: str) -> list[str]:
        """The nodes that take a pod."""
        fit: list[str] = (await self.ask("/filter", {"Pod": pod, "NodeNames": names}))["NodeNames"]
        return fit

    async def until_fit(self, pod: Raw, *names: str, of: Sequence[str]) -> None:
        """Wait until these of some nodes take a pod."""

        async def fit() -> bool:
            return await self.fit(pod, *of) == [*names]

        await self.until(fit)

    async def bind(self, pod: Raw, node: str) -> str:
        """The error of a bind; empty if there is none."""
        return str((await self.ask("/bind", binding_call(pod, node)))["Error"])


@dataclass
class Bench:
    """Starts scorers."""

    folder: Path
    api: FakeApi
    told: RecordedLog = field(default_factory=RecordedLog)

    def kubeconfig(self) -> tuple[str, str]:
        """Flags that lead to the API server."""
        path = self.api.kubeconfig(self.folder / "kubeconfig", namespace="numalign-system")
        return "--kubeconfig", str(path)

    def file(self, name: str, text: str) -> str:
        """A file, and where it is."""
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def program(self, *argv: str) -> ScorerProgram:
        """A scorer with these flags."""
        settings = load(ScorerSettings, argv=[*HERE, *argv], environ={}).settings
        return ScorerProgram(settings, self.told.log, CollectorRegistry(), sleep=faster.sleep)

    @asynccontextmanager
    async def running(self, *argv: str) -> AsyncIterator[Running]:
        """A scorer with these flags; ended in order, with exit code 0."""
        flags = argv if "--snapshot" in argv else (*self.kubeconfig(), *argv)
        async with Running.running(self.program(*flags), self.told) as scorer:
            yield scorer

    def pod(self, made: Raw) -> Raw:
        """A pod is there, with the uid that the API server gives it."""
        return self.api.put(made)

    def found(self, name: str) -> Raw:
        """The pod as the API server has it."""
        found = self.api.get(f"{PODS}/{name}")
        assert found
        return found


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """An API server with nodes, and a pod that runs on one of them."""
    async with FakeApi() as api:
        for each in documents({"a": EMPTY, "b": EMPTY, "small": SMALL, "loose": LOOSE}, team={}):
            api.put(each)
        yield Bench(tmp_path, api)


# In a cluster.


async def test_a_pod_is_filtered_ranked_and_bound_and_what_became_of_it_is_told(bench: Bench) -> None:
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

        async def told() -> bool:
            return bool(bench.api.all(EVENTS))

        await scorer.until(told)

    assert (fit, scores, why) == (["a"], [{"Host": "a", "Score": 10}], "")
    assert bound["spec"]["nodeName"] == "a"
    assert orjson.loads(bound["metadata"]["annotations"][PLACEMENT]) == HALF
    assert again.startswith("numalign: the pod ")
    assert len(bench.api.asked("POST", f"{PODS}/web/binding")) == 1
    [event] = bench.api.all(EVENTS)
    assert (event["reason"], event["involvedObject"]["uid"]) == (EVENT, made["metadata"]["uid"])
    assert "gets 4 cpu and 1Gi memory and 1 nvidia.com/gpu from zone 0 on a; the kubelet" in event["message"]


async def test_what_pods_hold_is_learned_from_the_cluster_and_forgotten_with_them(bench: Bench) -> None:
    bench.pod(running(on("a", raw("cpu=16 mem=1Gi gpu=4", name="full"), record=BOTH)))
    made = bench.pod(raw(FOUR))
    async with bench.running() as scorer:
        await scorer.until(scorer.ready)
        before = await scorer.fit(made, "a", "b")
        bench.api.delete(f"{PODS}/full")
        await scorer.until_fit(made, "a", "b", of=("a", "b"))

    assert before == ["b"]


async def test_a_pod_waits_until_its_namespace_is_known(bench: Bench) -> None:
    async with bench.running() as scorer:
        await scorer.until(scorer.ready)
        bench.api.delete("/api/v1/namespaces/team")
        made = bench.pod(raw(FOUR))

        async def refused() -> bool:
            answer = await scorer.ask("/filter", {"Pod": made, "NodeNames": ["a", "loose"]})
            return "namespace team is not known yet" in answer.get("Error", "")

        await scorer.until(refused)
        [namespace] = documents({}, team={})
        bench.api.put(namespace)
        await scorer.until_fit(made, "a", of=["a", "loose"])


async def test_what_dra_serves_is_learned_from_the_cluster_and_forgotten_with_it(bench: Bench) -> None:
    plain, topology = documents({"bare": BARE})
    bench.api.put({**plain, "status": {"allocatable": {"cpu": "16", "memory": "32Gi", "pods": "110"}}})
    bench.api.put(topology)
    made, version = bench.pod(raw(FOUR)), {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    async with bench.running() as scorer:
        await scorer.until(scorer.ready)
        before = await scorer.fit(made, "a", "bare")
        bench.api.put({**version, "metadata": {"name": "gpus"}, "spec": {"extendedResourceName": GPU}})
        await scorer.until_fit(made, "a", "bare", of=("a", "bare"))
        why = await scorer.bind(made, "bare")
        bench.api.delete("/apis/resource.k8s.io/v1/deviceclasses/gpus")
        await scorer.until_fit(bench.pod(raw(FOUR, name="next")), "a", of=("a", "bare"))

    assert (before, why, bench.found("web")["spec"]["nodeName"]) == (["a"], "", "bare")


async def test_only_who_leads_is_ready_and_the_lease_is_given_up_at_the_end(bench: Bench) -> None:
    async with bench.running() as scorer:
        await scorer.until(scorer.ready)
        held = bench.api.get(f"{LEASES}/{LEASE}")
    left = bench.api.get(f"{LEASES}/{LEASE}")

    assert held
    assert left
    assert held["spec"]["holderIdentity"]
    assert left["spec"]["holderIdentity"] == ""


async def test_a_second_replica_knows_all_and_binds_nothing(bench: Bench) -> None:
    bench.api.put(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": "numalign-system"},
            "spec": {
                "holderIdentity": "another",
                "leaseDurationSeconds": 15,
                "renewTime": "2100-01-01T00:00:00.000000Z",
            },
        }
    )
    made = bench.pod(raw(FOUR))
    async with bench.running() as scorer:

        async def knows() -> bool:
            waiting = (await scorer.get("/readyz"))[1]["waiting_for"]
            return "snapshot" not in waiting

        await scorer.until(knows)
        status, said = await scorer.get("/readyz")
        fit, why = await scorer.fit(made, "a", "small"), await scorer.bind(made, "a")
        away = await scorer.sends_away()

    assert (status, {*said["waiting_for"]}, away) == (503, {"lease"}, True)
    assert LEASE in said["waiting_for"]["lease"]
    assert (fit, why) == (["a"], "numalign: this replica does not hold the lease, so it binds no pods")
    assert bench.api.asked("POST", f"{PODS}/web/binding") == []


async def test_before_all_pods_are_known_it_is_not_ready(bench: Bench) -> None:
    bench.api.failures["/api/v1/pods"] = HTTPStatus.INTERNAL_SERVER_ERROR
    async with bench.running() as scorer:

        async def leads() -> bool:
            return {*(await scorer.get("/readyz"))[1]["waiting_for"]} == {"snapshot"}

        await scorer.until(leads)
        _, said = await scorer.get("/readyz")
        bench.api.failures.clear()
        await scorer.until(scorer.ready)

    assert said["waiting_for"]["snapshot"].startswith("Pod: ")


UNKNOWN, DENIED = HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN
WATCH = {UNKNOWN: "watch.unauthorized", DENIED: "watch.forbidden"}
TRY = {UNKNOWN: "lease.failed", DENIED: "lease.failed"}

CLOSED = [
    # what is closed  where                                                          what is said
    ("nodes",         "/api/v1/nodes",                                               WATCH),
    ("namespaces",    "/api/v1/namespaces",                                          WATCH),
    ("pods",          "/api/v1/pods",                                                WATCH),
    ("topologies",    "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",  WATCH),
    ("the lease",     f"{LEASES}/{LEASE}",                                           TRY),
    ("a new lease",   ("POST", LEASES),                                              TRY),
]  # fmt: skip


@pytest.mark.parametrize("status", [UNKNOWN, DENIED], ids=["401", "403"])
@pytest.mark.parametrize(("where", "events"), table(CLOSED))
async def test_a_closed_door_is_said_and_keeps_from_readiness(
    bench: Bench,
    where: str | tuple[str, str],
    events: dict[HTTPStatus, str],
    status: HTTPStatus,
) -> None:
    bench.api.failures[where] = status
    async with bench.running() as scorer:
        await scorer.logged(events[status])

        assert not await scorer.ready()


async def test_who_may_not_bind_says_so_and_reserves_nothing(bench: Bench) -> None:
    made = bench.pod(raw(FOUR))
    bench.api.failures["POST", f"{PODS}/web/binding"] = DENIED
    async with bench.running() as scorer:
        await scorer.until(scorer.ready)
        why = await scorer.bind(made, "a")
        kept = await scorer.metric("reservations")

    assert why.startswith("numalign: not allowed to create the binding of pod team/web to node a")
    assert kept == 0


async def test_when_the_api_server_goes_a_bind_is_uncertain_and_done_when_it_is_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bindings, "BIND_SECONDS", 0.5)
    made = bench.pod(raw(FOUR))
    async with bench.running() as scorer:
        await scorer.until(scorer.ready)
        await bench.api.stop()
        why, kept = await scorer.bind(made, "a"), await scorer.metric("reservations")
        fit = await scorer.fit(made, "a", "small")
        await bench.api.start()
        await scorer.until(scorer.ready)
        again = await scorer.bind(made, "a")

    assert "cannot be reached" in why
    assert (kept, fit, again) == (1, ["a"], "")
    assert bench.found("web")["spec"]["nodeName"] == "a"


async def test_a_scorer_that_does_not_bind_reserves_as_it_ranks(bench: Bench) -> None:
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
    assert bench.api.asked("POST", f"{PODS}/web/binding") == []


async def test_a_reservation_that_nobody_comes_for_expires(bench: Bench) -> None:
    made = bench.pod(raw(FOUR))
    async with bench.running("--reserve-at", "prioritize", "--reservation-seconds", "0.1") as scorer:
        await scorer.until(scorer.ready)
        await scorer.ask("/prioritize", {"Pod": made, "NodeNames": ["a"]})
        await scorer.logged("reservation.expired")
        kept = await scorer.metric("reservations")

    [line] = bench.told.of("reservation.expired")
    assert (line["pod"], kept) == ("team/web", 0)


# What it is told.


async def test_the_policy_file_says_what_is_asked_and_is_followed(bench: Bench) -> None:
    selector = "{matchLabels: {kubernetes.io/metadata.name: team}}"
    asks = f"defaults:\n- namespaceSelector: {selector}\n  default: {SINGLE}\n"
    path, made = bench.file("policy.yaml", asks), bench.pod(raw(FOUR, policy=None))
    async with bench.running("--policy", path, "--policy-reload-seconds", "0.02") as scorer:
        await scorer.until(scorer.ready)
        before = await scorer.fit(made, "a", "loose")
        bench.file("policy.yaml", "exemptions: {namespaces: [team]}\n")
        await scorer.until_fit(made, "a", "loose", of=("a", "loose"))

    assert before == ["a"]


@pytest.mark.parametrize("source", ["a cluster", "a file"])
async def test_the_ranking_file_says_what_is_best(bench: Bench, source: str) -> None:
    selector = "{matchLabels: {pool: b}}"
    text = f"rankings:\n- nodeSelector: {selector}\n  strategies: [LeastNUMANodes, LeastAllocated]\n"
    made = bench.pod(raw(FOUR))
    flags = ("--snapshot", snapshot(bench.folder, made)) if source == "a file" else ()
    async with bench.running("--ranking", bench.file("ranking.yaml", text), *flags) as scorer:
        await scorer.until(scorer.ready)
        page = await scorer.ask("/v1/rank", {"pod": made, "nodes": ["a", "b"]})

    values = {each["name"]: each["scores"] for each in page["nodes"]}
    assert values["a"][0] == values["b"][0]
    assert values["a"][1] < values["b"][1]
    assert values["a"][1] + values["b"][1] in {99, 100}


WRONG = [
    # what is wrong          the flag     the file                                             mistakes
    ("an unknown word",      "--policy",  "defaults:\n- enforce: strictly\n  warm: none\n",    2),
    ("no YAML",              "--policy",  "{",                                                 1),
    ("an unknown strategy",  "--ranking", "strategies: [Most, Least]\n",                       2),
    ("a choice of nothing",  "--ranking", "rankings:\n- nodeSelector: {}\n  weights: {cpu: 2}\n", 1),
]  # fmt: skip


@pytest.mark.parametrize(("flag", "text", "count"), table(WRONG))
async def test_a_file_that_is_wrong_stops_it_before_anything_is_served(
    bench: Bench, flag: str, text: str, count: int
) -> None:
    program = bench.program(*bench.kubeconfig(), flag, bench.file("wrong.yaml", text))

    with pytest.raises(BadInput) as raised:
        await program.serve(Stop())
    assert len(raised.value.mistakes) == count
    assert bench.told.of("server.listening") == []


async def test_a_missing_kubeconfig_stops_it(bench: Bench) -> None:
    with pytest.raises(Unconfigured, match="there is no kubeconfig"):
        await bench.program("--kubeconfig", str(bench.folder / "none")).serve(Stop())


# With a file.


def snapshot(folder: Path, *pods: Raw) -> str:
    """A snapshot file of two nodes and these pods, and where it is."""
    items = [*documents({"a": EMPTY, "b": EMPTY, "loose": LOOSE}, team={}), *pods]
    path = folder / "cluster.json"
    written = path.with_suffix(".new")
    written.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    written.replace(path)
    return str(path)


async def test_a_file_answers_everything_and_binds_nothing(bench: Bench) -> None:
    full = running(on("b", raw("cpu=16 mem=1Gi gpu=4", name="full"), record=BOTH))
    path = snapshot(bench.folder, full, raw(FOUR))
    async with bench.running("--snapshot", path) as scorer:
        ready = await scorer.ready()
        fit = await scorer.fit(raw(FOUR), "a", "b", "loose")
        scores = await scorer.ask("/prioritize", {"Pod": raw(FOUR), "NodeNames": ["a", "b"]})
        page = await scorer.ask("/v1/rank", raw(FOUR))
        why = await scorer.bind(raw(FOUR), "a")

    assert (ready, fit) == (True, ["a"])
    assert scores == [{"Host": "a", "Score": 10}, {"Host": "b", "Score": 0}]
    assert [each["name"] for each in page["nodes"]] == ["a", "b", "loose"]
    assert page["nodes"][0]["basis"] == "observed"
    assert why == "numalign: this replica does not hold the lease, so it binds no pods"


async def test_a_file_without_pods_is_believed_in_what_its_topologies_say(bench: Bench) -> None:
    async with bench.running("--snapshot", snapshot(bench.folder)) as scorer:
        page = await scorer.ask("/v1/rank", raw(FOUR))

    assert page["nodes"][0]["basis"] == "reported"


async def test_a_file_is_followed(bench: Bench) -> None:
    full = running(on("b", raw("cpu=16 mem=1Gi gpu=4", name="full"), record=BOTH))
    path = snapshot(bench.folder, full)
    async with bench.running("--snapshot", path, "--snapshot-reload-seconds", "0.02") as scorer:
        before = await scorer.fit(raw(FOUR), "a", "b")
        snapshot(bench.folder, raw(FOUR))
        await scorer.until_fit(raw(FOUR), "a", "b", of=("a", "b"))

    assert before == ["a"]


async def test_a_file_that_is_not_there_is_waited_for(bench: Bench) -> None:
    path = bench.folder / "cluster.json"
    async with bench.running("--snapshot", str(path), "--snapshot-reload-seconds", "0.02") as scorer:
        status, said = await scorer.get("/readyz")
        snapshot(bench.folder, raw(FOUR))
        await scorer.until(scorer.ready)

    assert (status, said["waiting_for"]) == (503, {"snapshot": f"a valid snapshot at {path}"})


# The program itself: started as people start it.


async def started(*argv: object) -> Process:
    words = [sys.executable, "-m", "scorer", *map(str, argv)]
    environ = {key: value for key, value in os.environ.items() if not key.startswith("NUMALIGN_")}
    return await asyncio.create_subprocess_exec(*words, cwd=ROOT, env=environ, stdout=PIPE, stderr=PIPE)


async def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    process = await started(*HERE, "--snapshot", snapshot(tmp_path, raw(FOUR)))
    assert process.stderr
    told = orjson.loads(await process.stderr.readline())
    where, call = f"http://127.0.0.1:{told['port']}", {"Pod": raw(FOUR), "NodeNames": ["a"]}
    async with (
        aiohttp.ClientSession(where) as session,
        session.post("/filter", data=orjson.dumps(call)) as got,
    ):
        answer = await got.json()
    process.send_signal(signal.SIGTERM)
    _, rest = await process.communicate()

    assert answer["NodeNames"] == ["a"]
    assert orjson.loads(rest.splitlines()[-1])["event"] == "server.stopped"
    assert process.returncode == 0


async def test_a_file_that_is_wrong_is_told_in_the_log(tmp_path: Path) -> None:
    wrong = tmp_path / "ranking.yaml"
    wrong.write_text("strategies: [Best]\n")
    process = await started(*HERE, "--snapshot", snapshot(tmp_path), "--ranking", wrong)
    _, listed = await process.communicate()
    line = orjson.loads(listed.splitlines()[-1])

    assert (process.returncode, line["event"]) == (2, "server.start_failed")
    assert "Best" in str(line["errors"])


async def test_once_it_is_ready_pods_that_were_waiting_are_answered(bench: Bench) -> None:
    bench.pod(raw(FOUR))
    async with bench.running() as scorer:
        await scorer.until(scorer.ready)
        answers = await scorer.metric('cache_entries{cache="nodes"}')

    assert answers == 1


async def test_metrics_tell_the_size_of_all_that_is_remembered(bench: Bench) -> None:
    keys = ["asked", "readings", "questions", "nodes", "askings", "records", "unreadable", "refused", "calls"]
    async with bench.running() as scorer:
        await scorer.until(scorer.ready)
        before = await scorer.metric('cache_bytes{cache="nodes"}')
        await scorer.fit(bench.pod(raw(FOUR)), "n1")
        sizes = {name: await scorer.metric(f'cache_entries{{cache="{name}"}}') for name in keys}
        after = await scorer.metric('cache_bytes{cache="nodes"}')

    assert (before, sizes["nodes"], sizes["asked"], sizes["calls"]) == (0, 1, 1, 0)
    assert after > 1000


async def test_metrics_tell_who_tells_of_the_nodes(bench: Bench) -> None:
    async with bench.running() as scorer:
        await scorer.until(scorer.ready)
        assert await scorer.metric('topology_nodes{source="exporter"}') == 4
