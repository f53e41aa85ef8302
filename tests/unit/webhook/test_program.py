"""The webhook as it runs in a cluster, its parts joined: in this process, against an API server in it too."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from errno import ENOENT
from http import HTTPStatus
from os import strerror
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from cryptography import x509
from prometheus_client import CollectorRegistry

from certs import authority, secret
from certs.authority import Pair
from certs.secret import PairState
from numalign.kube.errors import Unconfigured
from numalign.model.errors import BadInput
from numalign.model.node import Node
from numalign.runtime.clock import utc_now
from numalign.runtime.server import Stop
from numalign.runtime.settings import load
from tests.unit.webhook import conftest
from tests.unit.webhook.conftest import TEAM, Raw, raw, request
from tests.worlds.log import RecordedLog
from tests.worlds.notation import node, table
from tools.clusters.fake_api import FakeApi
from webhook.program import WebhookProgram
from webhook.settings import WebhookSettings

SINGLE = "single-numa-node"
SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy=SINGLE)
LARGE = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy=SINGLE)
TINY = node("cpu=2 mem=1Gi gpu=1", policy=SINGLE)
TWO_GPUS = raw("cpu=2 mem=1Gi gpu=2", policy=SINGLE)
EIGHT_GPUS = raw("cpu=2 mem=1Gi gpu=8", policy=SINGLE)

KEPT = "/api/v1/namespaces/numalign-system/secrets/own"


def pair() -> Pair:
    return authority.issue(names=["127.0.0.1"], days=1, now=utc_now())


@dataclass
class Running:
    """A webhook that runs, and what it said."""

    told: RecordedLog
    stop: Stop
    task: asyncio.Task[int]
    scheme: str

    async def until(self, happened: Callable[[], Awaitable[object]]) -> None:
        """Wait for something that can only be looked at; fails after half a minute."""
        for _ in range(1_500):
            if self.task.done():
                pytest.fail(f"it ended with {self.task.result()}: {self.told.stream.getvalue()}")
            if await happened():
                return
            await asyncio.sleep(0.02)
        pytest.fail(f"it never happened: {self.told.stream.getvalue()}")

    async def listening(self) -> bool:
        """Whether it can be asked."""
        return bool(self.told.of("server.listening"))

    async def ready(self) -> bool:
        """Whether it says that it is ready."""
        return (await self.get("/readyz"))[0] == HTTPStatus.OK

    async def get(self, path: str) -> tuple[int, Any]:
        """Status and content of a page."""
        [listening] = self.told.of("server.listening")
        where = f"http://127.0.0.1:{listening['metrics_port']}{path}"
        async with aiohttp.ClientSession() as session, session.get(where) as answer:
            return answer.status, await answer.json()

    async def ask(self, made: Raw, path: str = "mutate", **changes: object) -> Raw:
        """The response to a review of a pod that is created."""
        status, answer = await self.post(made, path, **changes)
        assert status == HTTPStatus.OK
        response: Raw = answer["response"]
        return response

    async def post(self, made: Raw, path: str, **changes: object) -> tuple[int, Raw]:
        """The status and the document that is answered."""
        [listening] = self.told.of("server.listening")
        where = f"{self.scheme}://127.0.0.1:{listening['port']}/{path}"
        body, kind = orjson.dumps(request(made, **changes)), {"Content-Type": "application/json"}
        async with (
            aiohttp.ClientSession(headers=kind) as session,
            session.post(where, ssl=False, data=body) as answer,
        ):
            return answer.status, await answer.json()


@dataclass
class Bench:
    """Starts webhooks."""

    folder: Path
    api: FakeApi
    told: RecordedLog = field(default_factory=RecordedLog)
    settled: list[str] = field(default_factory=list)

    def settings(self, *argv: str) -> WebhookSettings:
        """Settings that lead to the API server, on any free port of this machine."""
        kubeconfig = self.api.kubeconfig(self.folder / "kubeconfig", namespace="numalign-system")
        here = ["--bind", "127.0.0.1", "--port", "0", "--metrics-port", "0", "--drain-seconds", "0"]
        return load(
            WebhookSettings, argv=["--kubeconfig", str(kubeconfig), *here, *argv], environ={}
        ).settings

    def share(self, made: Pair) -> None:
        """Put a pair where the controller does."""
        self.api.put(secret.render(PairState(made), namespace="numalign-system", name="own"))

    def add(self, name: str, made: Node) -> None:
        """One more node joins the cluster."""
        for each in conftest.snapshot({name: made})["items"]:
            self.api.put(each)

    @asynccontextmanager
    async def running(self, *argv: str) -> AsyncIterator[Running]:
        """A webhook with these flags; ended in order, with exit code 0."""
        stop, settings = Stop(), self.settings(*argv)
        program = WebhookProgram(
            settings, self.told.log, CollectorRegistry(), settled=lambda: self.settled.append("settled")
        )
        task = asyncio.create_task(program.serve(stop))
        made = Running(self.told, stop, task, "http" if settings.insecure_http else "https")
        try:
            await made.until(made.listening)
            yield made
            stop.ask()
            assert await task == 0
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """An API server with a small and a large node."""
    async with FakeApi() as api:
        for each in conftest.snapshot({"small": SMALL, "large": LARGE}, namespaces={"team": {}})["items"]:
            api.put(each)
        yield Bench(tmp_path, api)


async def test_it_writes_nothing_anywhere(bench: Bench) -> None:
    bench.share(pair())
    async with bench.running(*OWN, "--kubelet-configs=true") as webhook:
        await webhook.until(webhook.ready)
        await webhook.ask(TWO_GPUS)

    assert {asked.method for asked in bench.api.requests} == {"GET"}
    assert LEASES not in {asked.path.rpartition("/")[0] for asked in bench.api.requests}


@pytest.mark.parametrize(("flag", "watched"), [("true", True), ("false", False)])
async def test_pods_are_watched_only_to_count_them(bench: Bench, flag: str, watched: object) -> None:
    async with bench.running("--insecure-http", f"--count-pods={flag}") as webhook:
        await webhook.until(webhook.ready)
        await asyncio.sleep(0.05)

    assert any(asked.path == "/api/v1/pods" for asked in bench.api.requests) is watched


async def test_a_pod_counts_once_against_its_quota_from_when_it_is_admitted_until_it_is_gone(
    bench: Bench,
) -> None:
    policy = bench.folder / "policy.yaml"
    policy.write_text("overQuota: deny")
    for each in conftest.snapshot({}, namespaces={"team": {"exclusive-cpus": "8"}})["items"]:
        bench.api.put(each)

    def pod(name: str, cpus: int) -> Raw:
        made = raw(f"cpu={cpus} mem=1Gi")
        return {**made, "metadata": {"name": name, "namespace": TEAM, "uid": f"uid-of-{name}"}}

    async with bench.running("--insecure-http", "--policy", str(policy)) as webhook:

        async def admits(cpus: int) -> bool:
            answer = await webhook.ask(pod("tried", cpus), "validate", dryRun=True)
            return bool(answer["allowed"])

        async def five_are_used() -> bool:
            return not await admits(4)

        await webhook.until(webhook.ready)
        admitted = pod("admitted", 4)
        assert (await webhook.ask(admitted, "validate"))["allowed"]
        assert (await admits(4), await admits(5)) == (True, False)
        bench.api.put(admitted)
        bench.api.put(pod("other", 1))
        await webhook.until(five_are_used)
        assert await admits(3)
        for name in ("admitted", "other"):
            bench.api.delete(f"/api/v1/namespaces/{TEAM}/pods/{name}")
        await webhook.until(lambda: admits(8))


async def test_it_serves_the_certificate_that_stands_in_the_secret_as_soon_as_it_does(bench: Bench) -> None:
    async with bench.running(*OWN) as webhook:

        async def missed() -> bool:
            said = (await webhook.get("/readyz"))[1]
            return "numalign-controller has not created it yet" in said["waiting_for"].get("certificates", "")

        await webhook.until(missed)
        shared = pair()
        bench.share(shared)
        await webhook.until(webhook.ready)
        [listening] = bench.told.of("server.listening")
        pem = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", listening["port"]))

    served, kept = map(x509.load_pem_x509_certificate, (pem.encode(), shared.cert_pem))
    assert served.serial_number == kept.serial_number


async def test_without_an_api_server_it_waits_and_says_so(bench: Bench) -> None:
    bench.share(pair())
    settings = bench.settings(*OWN)
    await bench.api.stop()
    stop = Stop()
    task = asyncio.create_task(WebhookProgram(settings, bench.told.log, CollectorRegistry()).serve(stop))
    webhook = Running(bench.told, stop, task, "https")
    await webhook.until(webhook.listening)

    async def asked() -> bool:
        return bool(bench.told.of("certificates.failing"))

    await webhook.until(asked)
    code, said = await webhook.get("/readyz")
    await bench.api.start()
    await webhook.until(webhook.ready)
    stop.ask()

    assert (await task, code) == (0, 503)
    assert "cannot be reached" in said["waiting_for"]["certificates"]
    assert said["waiting_for"]["snapshot"]


async def test_a_broken_policy_stops_it_before_anything_is_served(bench: Bench) -> None:
    path = bench.folder / "policy.yaml"
    path.write_text("defaults:\n- enforce: strictly\n  warm: none\n")
    chosen = bench.settings("--insecure-http", "--policy", str(path))
    program = WebhookProgram(chosen, bench.told.log, CollectorRegistry())

    with pytest.raises(BadInput) as raised:
        await program.serve(Stop())
    assert len(raised.value.mistakes) == 2
    assert bench.told.of("server.listening") == []


async def test_refusals_are_written_where_the_settings_say(bench: Bench) -> None:
    file = bench.folder / "audit.log"
    async with bench.running(*PLAIN, "--audit-log", str(file)) as webhook:
        await webhook.until(webhook.ready)
        await webhook.ask(EIGHT_GPUS, "validate")
        await webhook.ask(TWO_GPUS, "validate")

    [line] = file.read_text().splitlines()
    refused = orjson.loads(line)
    assert (refused["state"], refused["webhook"], refused["nodes"]) == ("never", "validate", 2)


async def test_an_audit_log_that_cannot_be_written_stops_it(bench: Bench, tmp_path: Path) -> None:
    chosen = bench.settings("--insecure-http", "--audit-log", str(tmp_path / "none" / "audit.log"))

    with pytest.raises(BadInput, match=f"--audit-log .*: cannot be written: {strerror(ENOENT)}"):
        await WebhookProgram(chosen, bench.told.log, CollectorRegistry()).serve(Stop())
    assert bench.told.of("server.listening") == []


async def test_a_missing_kubeconfig_stops_it(bench: Bench, tmp_path: Path) -> None:
    chosen = bench.settings("--insecure-http").model_copy(update={"kubeconfig": str(tmp_path / "none")})

    with pytest.raises(Unconfigured, match="there is no kubeconfig"):
        await WebhookProgram(chosen, bench.told.log, CollectorRegistry()).serve(Stop())


# What goes wrong in a cluster, as it is seen from outside.

NODES = "/api/v1/nodes"
TOPOLOGIES = "/apis/topology.node.k8s.io/{version}/noderesourcetopologies"
NEWER, OLDER = (TOPOLOGIES.format(version=version) for version in ("v1alpha2", "v1alpha1"))
LEASES = "/apis/coordination.k8s.io/v1/namespaces/numalign-system/leases"

PLAIN = ("--insecure-http",)
OWN = ("--tls-secret", "own", "--tls-names", "127.0.0.1")
KUBELETS = (*PLAIN, "--kubelet-configs=true")


async def test_when_the_api_server_goes_answers_go_on_and_news_are_heard_when_it_is_back(
    bench: Bench,
) -> None:
    async with bench.running(*PLAIN) as webhook:
        await webhook.until(webhook.ready)
        before = await webhook.ask(TWO_GPUS)
        await bench.api.stop()

        async def noticed() -> bool:
            kinds = {line["kind"] for line in bench.told.of("watch.unreachable")}
            return kinds >= {"Node", "NodeResourceTopology", "Namespace"}

        await webhook.until(noticed)
        meanwhile, ready = await webhook.ask(TWO_GPUS), await webhook.ready()
        bench.add("tiny", TINY)
        await bench.api.start()

        async def heard() -> bool:
            return bool((await webhook.ask(TWO_GPUS))["patch"] != before["patch"])

        await webhook.until(heard)

    assert bench.settled == ["settled"]
    assert (meanwhile, ready) == (before, True)


STRICT = "/api/v1/namespaces/strict"
LAX = raw("cpu=2 mem=1Gi gpu=1")


async def strict(bench: Bench, webhook: Running) -> None:
    """A namespace that enforces comes to be, and its watch does not report it."""
    await webhook.until(webhook.ready)
    bench.api.silent = True
    labels = {"enforce": SINGLE, "default": SINGLE}
    [namespace] = conftest.snapshot({}, namespaces={"strict": labels})["items"]
    bench.api.put(namespace)


async def test_a_namespace_that_no_watch_has_reported_is_asked_for(bench: Bench) -> None:
    job = {"kind": {"group": "batch", "version": "v1", "kind": "Job"}}
    template = {"spec": {"template": raw("cpu=2 mem=1Gi gpu=1", policy="none")}}
    async with bench.running(*PLAIN) as webhook:
        await strict(bench, webhook)
        denied = await webhook.ask(raw("cpu=2 mem=1Gi gpu=1", policy="none"), "validate", namespace="strict")
        patched = await webhook.ask(raw("cpu=2 mem=1Gi gpu=2"), namespace="strict")
        warned = await webhook.ask(template, "validate-workloads", namespace="strict", **job)
        bench.api.silent = False

    assert not denied["allowed"]
    assert "single-numa-node" in denied["status"]["message"]
    assert "patch" in patched
    assert "its pods will be denied" in str(warned["warnings"])


@pytest.mark.parametrize("path", ["mutate", "validate", "validate-workloads"])
async def test_of_a_namespace_that_cannot_be_read_the_failure_policy_decides(bench: Bench, path: str) -> None:
    async with bench.running(*PLAIN) as webhook:
        await strict(bench, webhook)
        bench.api.failures[STRICT] = HTTPStatus.FORBIDDEN
        status, _ = await webhook.post(LAX, path, namespace="strict")
        bench.api.silent = False

    assert status == HTTPStatus.SERVICE_UNAVAILABLE
    assert "strict" in bench.told.of("namespace.unread")[0]["error"]


@pytest.fixture
async def mute(tmp_path: Path) -> AsyncIterator[Bench]:
    """An API server that takes every call and answers none."""
    ended = asyncio.Event()

    async def keep(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(keep, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    yield Bench(tmp_path, FakeApi(url=f"http://{host}:{port}"))
    ended.set()
    server.close()


async def test_an_api_server_that_never_answers_is_waited_for_and_does_not_hold_up_the_end(
    mute: Bench,
) -> None:
    async with mute.running(*OWN) as webhook:
        code, said = await webhook.get("/readyz")
        began = asyncio.get_running_loop().time()

    assert code == HTTPStatus.SERVICE_UNAVAILABLE
    assert said["waiting_for"].keys() == {"certificates", "snapshot"}
    assert asyncio.get_running_loop().time() - began < 5


async def test_an_api_server_that_talks_nonsense_is_waited_for(bench: Bench) -> None:
    bench.api.oddities[NODES] = b"<html>Bad gateway</html>"
    async with bench.running(*PLAIN) as webhook:

        async def told() -> bool:
            return bool(bench.told.of("watch.unreadable"))

        await webhook.until(told)
        code, said = await webhook.get("/readyz")
        bench.api.oddities.clear()
        await webhook.until(webhook.ready)

    assert code == HTTPStatus.SERVICE_UNAVAILABLE
    assert "the list of nodes is not JSON" in said["waiting_for"]["snapshot"]


async def test_a_cluster_that_serves_no_topologies_is_served_and_nothing_is_steered(bench: Bench) -> None:
    bench.api.not_served |= {NEWER, OLDER}
    async with bench.running(*PLAIN) as webhook:
        await webhook.until(webhook.ready)
        answer = await webhook.ask(TWO_GPUS)

    [line] = bench.told.of("watch.not_served")
    assert line["kind"] == "NodeResourceTopology"
    assert (answer["allowed"], "patch" in answer) == (True, False)


UNKNOWN, DENIED = HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN
WATCH = {UNKNOWN: "watch.unauthorized", DENIED: "watch.forbidden"}
PROXY = {UNKNOWN: "kubelet_config.unanswered", DENIED: "kubelet_config.forbidden"}
FAILING = dict.fromkeys((UNKNOWN, DENIED), "certificates.failing")

Where = str | tuple[str, str]

CLOSED: list[tuple[str, tuple[str, ...], Where, dict[HTTPStatus, str], bool]] = [
    # what is closed the flags  where                          what is said  whether it gets ready
    ("nodes",        PLAIN,     NODES,                         WATCH,        False),
    ("namespaces",   PLAIN,     "/api/v1/namespaces",          WATCH,        False),
    ("topologies",   PLAIN,     NEWER,                         WATCH,        False),
    ("pods",         PLAIN,     "/api/v1/pods",                WATCH,        True),
    ("the Secret",   OWN,       KEPT,                          FAILING,      False),
    ("kubelets",     KUBELETS,  f"{NODES}/small/proxy/configz", PROXY,       True),
]  # fmt: skip


@pytest.mark.parametrize("status", [UNKNOWN, DENIED], ids=["401", "403"])
@pytest.mark.parametrize(("flags", "where", "events", "ready"), table(CLOSED))
async def test_what_is_forbidden_is_logged_and_keeps_from_readiness_only_what_answers_need(  # noqa: PLR0913  a table
    bench: Bench,
    flags: tuple[str, ...],
    where: Where,
    events: dict[HTTPStatus, str],
    status: HTTPStatus,
    *,
    ready: bool,
) -> None:
    bench.api.failures[where] = status
    async with bench.running(*flags) as webhook:

        async def told() -> bool:
            return bool(bench.told.of(events[status]))

        await webhook.until(told)
        if ready:
            await webhook.until(webhook.ready)
        assert await webhook.ready() is ready


async def test_a_folder_that_cannot_be_made_stops_it(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    program = WebhookProgram(bench.settings("--insecure-http"), bench.told.log, CollectorRegistry())

    with pytest.raises(BadInput, match=f"cannot be written: {strerror(ENOENT)}"):
        await program.serve(Stop())


async def test_what_a_kubelet_refuses_its_node_is_not_sent_again(bench: Bench) -> None:
    """The webhook watches pods as an API server tells of them."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1", "controller": True}
    made = {**TWO_GPUS, "metadata": {**TWO_GPUS["metadata"], "ownerReferences": [owner]}}
    bench.add("a", LARGE)
    async with bench.running("--insecure-http") as webhook:
        await webhook.until(webhook.ready)
        assert "avoided" not in (await webhook.ask(made))["auditAnnotations"]
        failure = {"phase": "Failed", "reason": "TopologyAffinityError", "startTime": utc_now().isoformat()}
        named = {**made["metadata"], "name": "web-x", "namespace": TEAM}
        bench.api.put(
            {**made, "metadata": named, "spec": {**made["spec"], "nodeName": "a"}, "status": failure}
        )

        async def avoided() -> bool:
            return bool((await webhook.ask(made))["auditAnnotations"].get("avoided") == "a")

        await webhook.until(avoided)
