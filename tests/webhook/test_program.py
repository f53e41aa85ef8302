"""The webhook as it runs in a cluster, its parts joined: in this process, against an API server in it too."""

import asyncio
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from cryptography import x509
from prometheus_client import CollectorRegistry

from numalign.cluster.api import Unconfigured
from numalign.rules.errors import BadInput
from numalign.runtime.server import Stop
from numalign.runtime.settings import load
from tests.fake_api import FakeApi
from tests.notation import node, table
from tests.webhook import conftest
from tests.webhook.conftest import Raw, Told, raw, request
from webhook.program import Program, rehearse
from webhook.settings import WebhookSettings

SINGLE = "single-numa-node"
SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy=SINGLE)
LARGE = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy=SINGLE)
TWO_GPUS = raw("cpu=2 mem=1Gi gpu=2", policy=SINGLE)

KEPT = "/api/v1/namespaces/numalign-system/secrets/own"


@dataclass
class Running:
    """A webhook that runs, and what it said."""

    told: Told
    stop: Stop
    task: asyncio.Task[int]
    scheme: str

    async def until(self, happened: Callable[[], Awaitable[object]]) -> None:
        """Wait for something that can only be looked at; fails after ten seconds."""
        for _ in range(500):
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

    async def ask(self, made: Raw) -> Raw:
        """The response to a review of a pod that is created."""
        [listening] = self.told.of("server.listening")
        where = f"{self.scheme}://127.0.0.1:{listening['port']}/mutate"
        body, kind = orjson.dumps(request(made)), {"Content-Type": "application/json"}
        async with (
            aiohttp.ClientSession(headers=kind) as session,
            session.post(where, ssl=False, data=body) as answer,
        ):
            response: Raw = (await answer.json())["response"]
            return response


@dataclass
class Bench:
    """Starts webhooks."""

    folder: Path
    api: FakeApi
    told: Told = field(default_factory=Told)
    settled: list[str] = field(default_factory=list)

    def settings(self, *argv: str) -> WebhookSettings:
        """Settings that lead to the API server, on any free port of this machine."""
        kubeconfig = self.api.kubeconfig(self.folder / "kubeconfig", namespace="numalign-system")
        here = ["--bind", "127.0.0.1", "--port", "0", "--metrics-port", "0", "--drain-seconds", "0"]
        return load(
            WebhookSettings, argv=["--kubeconfig", str(kubeconfig), *here, *argv], environ={}
        ).settings

    @asynccontextmanager
    async def running(self, *argv: str) -> AsyncIterator[Running]:
        """A webhook with these flags; ended in order, with exit code 0."""
        stop, settings = Stop(), self.settings(*argv)
        program = Program(
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
        for kind in ("Mutating", "Validating"):
            api.put(
                {
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": f"{kind}WebhookConfiguration",
                    "metadata": {"name": "zz-numalign"},
                    "webhooks": [{"name": "pods.numalign.io", "clientConfig": {"url": "https://127.0.0.1"}}],
                }
            )
        yield Bench(tmp_path, api)


def label(api: FakeApi, name: str) -> str | None:
    found = api.get(f"/api/v1/nodes/{name}")
    assert found
    labelled: str | None = found["metadata"].get("labels", {}).get("numalign.io/class")
    return labelled


async def test_it_follows_the_cluster_and_labels_its_nodes(bench: Bench) -> None:
    async with bench.running("--insecure-http") as webhook:
        await webhook.until(webhook.ready)

        async def labelled() -> bool:
            return all(label(bench.api, name) for name in ("small", "large"))

        await webhook.until(labelled)
        before = await webhook.ask(TWO_GPUS)
        bench.api.delete("/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/small")

        async def forgotten() -> bool:
            return "patch" not in await webhook.ask(TWO_GPUS)

        await webhook.until(forgotten)

    assert "patch" in before
    assert bench.settled == ["settled"]
    lease = bench.api.get("/apis/coordination.k8s.io/v1/namespaces/numalign-system/leases/numalign-webhook")
    assert lease
    assert lease["spec"]["holderIdentity"] == ""


async def test_it_labels_nothing_where_it_is_told_so(bench: Bench) -> None:
    async with bench.running("--insecure-http", "--label-nodes=false") as webhook:
        await webhook.until(webhook.ready)
        await webhook.ask(TWO_GPUS)

    assert [asked.method for asked in bench.api.requests if asked.method != "GET"] == []


@pytest.mark.parametrize(("flag", "watched"), [("true", True), ("false", False)])
async def test_pods_are_watched_only_to_count_them(bench: Bench, flag: str, watched: object) -> None:
    async with bench.running("--insecure-http", f"--count-pods={flag}") as webhook:
        await webhook.until(webhook.ready)
        await asyncio.sleep(0.05)

    assert any(asked.path == "/api/v1/pods" for asked in bench.api.requests) is watched


async def test_it_makes_a_certificate_that_callers_trust_before_it_is_ready(bench: Bench) -> None:
    flags = ("--tls-secret", "own", "--tls-names", "127.0.0.1", "--label-nodes=false")
    async with bench.running(*flags) as webhook:
        await webhook.until(webhook.ready)
        [listening] = bench.told.of("server.listening")
        secret = bench.api.get(KEPT)
        assert secret

        pem = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", listening["port"]))
        served = x509.load_pem_x509_certificate(pem.encode())

    kept = x509.load_pem_x509_certificate(b64decode(secret["data"]["tls.crt"]))
    assert served.serial_number == kept.serial_number
    found = bench.api.get("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/zz-numalign")
    assert found
    assert found["webhooks"][0]["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]


async def test_without_an_api_server_it_waits_and_says_so(bench: Bench) -> None:
    flags = ("--tls-secret", "own", "--tls-names", "127.0.0.1")
    settings = bench.settings(*flags)
    await bench.api.stop()
    stop = Stop()
    task = asyncio.create_task(Program(settings, bench.told.log, CollectorRegistry()).serve(stop))
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
    assert "cannot be asked" in said["waiting_for"]["certificates"]
    assert said["waiting_for"]["snapshot"]


async def test_a_broken_policy_stops_it_before_anything_is_served(bench: Bench) -> None:
    path = bench.folder / "policy.yaml"
    path.write_text("defaults:\n- enforce: strictly\n  warm: none\n")
    chosen = bench.settings("--insecure-http", "--policy", str(path))
    program = Program(chosen, bench.told.log, CollectorRegistry())

    with pytest.raises(BadInput) as raised:
        await program.serve(Stop())
    assert len(raised.value.mistakes) == 2
    assert bench.told.of("server.listening") == []


async def test_a_missing_kubeconfig_stops_it(bench: Bench, tmp_path: Path) -> None:
    chosen = bench.settings("--insecure-http").model_copy(update={"kubeconfig": str(tmp_path / "none")})

    with pytest.raises(Unconfigured, match="there is no kubeconfig"):
        await Program(chosen, bench.told.log, CollectorRegistry()).serve(Stop())


async def test_a_rehearsal_tells_what_would_change_and_changes_nothing(bench: Bench) -> None:
    said = await rehearse(bench.settings("--dry-run"))

    assert [line.split(":")[0] for line in said.splitlines()] == ["large", "small"]
    assert [asked.method for asked in bench.api.requests if asked.method != "GET"] == []


async def test_a_rehearsal_of_a_snapshot_needs_no_api_server(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_bytes(orjson.dumps(conftest.snapshot({"small": SMALL})))
    chosen = load(WebhookSettings, argv=["--dry-run", "--snapshot", str(path)], environ={}).settings

    assert (await rehearse(chosen)).startswith("small: no label -> 2x8cpu-1gpu-single-numa-node")


# What goes wrong in a cluster, as it is seen from outside.

NODES = "/api/v1/nodes"
TOPOLOGIES = "/apis/topology.node.k8s.io/{version}/noderesourcetopologies"
NEWER, OLDER = (TOPOLOGIES.format(version=version) for version in ("v1alpha2", "v1alpha1"))
LEASES = "/apis/coordination.k8s.io/v1/namespaces/numalign-system/leases"
LEASE = f"{LEASES}/numalign-webhook"
CALLERS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/zz-numalign"

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
        bench.api.delete(f"{NEWER}/small")
        await bench.api.start()

        async def forgotten() -> bool:
            return "patch" not in await webhook.ask(TWO_GPUS)

        await webhook.until(forgotten)

    assert "patch" in before
    assert bench.settled == ["settled"]
    assert (meanwhile, ready) == (before, True)


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
    assert [label(bench.api, name) for name in ("small", "large")] == [None, None]


UNKNOWN, DENIED = HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN
WATCH = {UNKNOWN: "watch.unauthorized", DENIED: "watch.forbidden"}
LABEL = {UNKNOWN: "class.failed", DENIED: "class.forbidden"}
PROXY = {UNKNOWN: "kubelet_config.unanswered", DENIED: "kubelet_config.forbidden"}
FAILED, FAILING, UNPUBLISHED = (
    dict.fromkeys((UNKNOWN, DENIED), event)
    for event in ("lease.failed", "certificates.failing", "certificates.unpublished")
)

Where = str | tuple[str, str]

CLOSED: list[tuple[str, tuple[str, ...], Where, dict[HTTPStatus, str], bool]] = [
    # what is closed the flags  where                          what is said  whether it gets ready
    ("nodes",        PLAIN,     NODES,                         WATCH,        False),
    ("namespaces",   PLAIN,     "/api/v1/namespaces",          WATCH,        False),
    ("topologies",   PLAIN,     NEWER,                         WATCH,        False),
    ("pods",         PLAIN,     "/api/v1/pods",                WATCH,        True),
    ("the lease",    PLAIN,     LEASE,                         FAILED,       True),
    ("a new lease",  PLAIN,     ("POST", LEASES),              FAILED,       True),
    ("labels",       PLAIN,     ("PATCH", f"{NODES}/small"),   LABEL,        True),
    ("the Secret",   OWN,       KEPT,                          FAILING,      False),
    ("a new Secret", OWN,       ("POST", KEPT[:-4]),           FAILING,      False),
    ("our webhooks", OWN,       CALLERS,                       UNPUBLISHED,  True),
    ("their bundle", OWN,       ("PATCH", CALLERS),            UNPUBLISHED,  True),
    ("kubelets",     KUBELETS,  f"{NODES}/small/proxy/configz", PROXY,       True),
]  # fmt: skip


@pytest.mark.parametrize("status", [UNKNOWN, DENIED], ids=["401", "403"])
@pytest.mark.parametrize(("flags", "where", "events", "ready"), table(CLOSED))
async def test_a_closed_door_is_said_and_keeps_from_readiness_only_what_answers_need(  # noqa: PLR0913  a table
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
    program = Program(bench.settings("--insecure-http"), bench.told.log, CollectorRegistry())

    with pytest.raises(BadInput, match="cannot be written: No such file or directory"):
        await program.serve(Stop())
