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
from tests.notation import node
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
        where = f"{self.scheme}://127.0.0.1:{listening['port']}{path}"
        async with aiohttp.ClientSession() as session, session.get(where, ssl=False) as answer:
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

    def settings(self, *argv: str) -> WebhookSettings:
        """Settings that lead to the API server, on any free port of this machine."""
        kubeconfig = self.api.kubeconfig(self.folder / "kubeconfig", namespace="numalign-system")
        here = ["--bind", "127.0.0.1", "--port", "0", "--drain-seconds", "0"]
        return load(
            WebhookSettings, argv=["--kubeconfig", str(kubeconfig), *here, *argv], environ={}
        ).settings

    @asynccontextmanager
    async def running(self, *argv: str) -> AsyncIterator[Running]:
        """A webhook with these flags; ended in order, with exit code 0."""
        stop, settings = Stop(), self.settings(*argv)
        task = asyncio.create_task(Program(settings, self.told.log, CollectorRegistry()).serve(stop))
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


async def test_names_that_no_certificate_can_have_stop_it(bench: Bench) -> None:
    chosen = bench.settings("--tls-secret", "own", "--tls-names", "not a name")

    with pytest.raises(BadInput, match="not a name"):
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
