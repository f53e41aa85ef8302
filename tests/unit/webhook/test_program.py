"""The webhook beside a cluster: in this process, against an API server in it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from errno import ENOENT
from functools import partial
from http import HTTPStatus
from os import strerror
from pathlib import Path

import orjson
import pytest
from cryptography import x509
from prometheus_client import CollectorRegistry

from certs import authority, secret
from certs.secret import PairState
from numalign.model.errors import BadInput
from numalign.model.node import Node
from numalign.runtime.clock import utc_now
from numalign.runtime.server import Stop
from numalign.runtime.settings import load
from tests.worlds import faster
from tests.worlds import webhook as world
from tests.worlds.notation import node
from tests.worlds.served import LOCAL, PLAIN, Launcher, Served
from tests.worlds.webhook import TEAM, Raw, raw, request
from tools.clusters.fake_api import FakeApi
from webhook.program import WebhookProgram
from webhook.settings import WebhookSettings

SINGLE = "single-numa-node"
SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy=SINGLE)
LARGE = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy=SINGLE)
TINY = node("cpu=2 mem=1Gi gpu=1", policy=SINGLE)
TWO_GPUS = raw("cpu=2 mem=1Gi gpu=2", policy=SINGLE)
EIGHT_GPUS = raw("cpu=2 mem=1Gi gpu=8", policy=SINGLE)

OWN = ("--tls-secret", "own", "--tls-names", "127.0.0.1")
PAIR = authority.issue(names=["127.0.0.1"], days=1, now=utc_now())
SHARED = secret.render(PairState(PAIR), namespace="numalign-system", name="own")


class Running(Served):
    async def review(self, made: Raw, path: str = "mutate", **changes: object) -> Raw:
        response: Raw = (await self.ask(f"/{path}", request(made, **changes)))["response"]
        return response


@dataclass
class Bench(Launcher):
    settled: list[str] = field(default_factory=list)

    def program(self, *argv: str) -> WebhookProgram:
        settings = load(WebhookSettings, argv=[*self.kubeconfig(), *LOCAL, *argv], environ={}).settings
        settled = partial(self.settled.append, "settled")
        return WebhookProgram(settings, self.journal.log, CollectorRegistry(), faster.sleep, settled=settled)

    def running(self, *argv: str) -> AbstractAsyncContextManager[Running]:
        return Running.running(self.program(*argv), self.journal)

    @asynccontextmanager
    async def ready(self, *argv: str) -> AsyncIterator[Running]:
        async with self.running(*argv) as webhook:
            await webhook.until(webhook.ready)
            yield webhook

    def put(self, members: Mapping[str, Node], **namespaces: Mapping[str, str]) -> None:
        for each in world.snapshot(members, namespaces=namespaces)["items"]:
            self.api.put(each)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with FakeApi() as api:
        made = Bench(tmp_path, api)
        made.put({"small": SMALL, "large": LARGE}, team={})
        yield made


async def test_webhook_writes_nothing_to_the_cluster(bench: Bench) -> None:
    bench.api.put(SHARED)
    async with bench.ready(*OWN, "--kubelet-configs=true"):
        pass
    assert {call.method for call in bench.api.requests} == {"GET"}
    assert LEASES not in {call.path.rpartition("/")[0] for call in bench.api.requests}


@pytest.mark.parametrize(("flag", "watched"), [("true", True), ("false", False)])
async def test_pods_are_watched_if_they_are_counted(bench: Bench, flag: str, watched: object) -> None:
    async with bench.ready(*PLAIN, f"--count-pods={flag}"):
        await asyncio.sleep(0.05)
    assert any(call.path == "/api/v1/pods" for call in bench.api.requests) is watched


async def test_admitted_pod_uses_quota_until_deleted(bench: Bench) -> None:
    policy = bench.file("policy.yaml", "overQuota: deny")
    bench.put({}, team={"exclusive-cpus": "8"})

    def pod(name: str, cpus: int) -> Raw:
        made = raw(f"cpu={cpus} mem=1Gi")
        return {**made, "metadata": {"name": name, "namespace": TEAM, "uid": f"uid-of-{name}"}}

    async with bench.ready(*PLAIN, "--policy", policy) as webhook:

        async def admits(cpus: int) -> bool:
            answer = await webhook.review(pod("tried", cpus), "validate", dryRun=True)
            return bool(answer["allowed"])

        async def five_are_used() -> bool:
            return not await admits(4)

        admitted = pod("admitted", 4)
        assert (await webhook.review(admitted, "validate"))["allowed"]
        assert (await admits(4), await admits(5)) == (True, False)
        bench.api.put(admitted)
        bench.api.put(pod("other", 1))
        await webhook.until(five_are_used)
        assert await admits(3)
        for name in ("admitted", "other"):
            bench.api.delete(f"/api/v1/namespaces/{TEAM}/pods/{name}")
        await webhook.until(lambda: admits(8))


async def test_certificate_of_the_secret_is_served_once_created(bench: Bench) -> None:
    async with bench.running(*OWN) as webhook:

        async def missed() -> bool:
            page = (await webhook.get("/readyz"))[1]
            return "numalign-controller has not created it yet" in page["waiting_for"].get("certificates", "")

        await webhook.until(missed)
        bench.api.put(SHARED)
        await webhook.until(webhook.ready)
        [listening] = bench.journal.of("server.listening")
        pem = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", listening["port"]))

    served, stored = map(x509.load_pem_x509_certificate, (pem.encode(), PAIR.cert_pem))
    assert served.serial_number == stored.serial_number


@pytest.mark.parametrize("audited", [True, False], ids=["the audit log", "the temporary folder"])
async def test_unwritable_path_prevents_the_start(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, audited: bool
) -> None:
    missing = str(bench.folder / "none" / "audit.log")
    if not audited:
        monkeypatch.setattr("tempfile.tempdir", missing)

    with pytest.raises(BadInput, match=f"cannot be written: {strerror(ENOENT)}"):
        await bench.program(*PLAIN, *(["--audit-log", missing] if audited else [])).serve(Stop())
    assert bench.journal.of("server.listening") == []


# What goes wrong in a cluster.

LEASES = "/apis/coordination.k8s.io/v1/namespaces/numalign-system/leases"


async def test_reviews_are_answered_while_the_api_server_is_down(bench: Bench) -> None:
    async with bench.ready(*PLAIN) as webhook:
        before = await webhook.review(TWO_GPUS)
        await bench.api.stop()

        async def noticed() -> bool:
            kinds = {line["kind"] for line in bench.journal.of("watch.unreachable")}
            return kinds >= {"Node", "NodeResourceTopology", "Namespace"}

        await webhook.until(noticed)
        meanwhile, ready = await webhook.review(TWO_GPUS), await webhook.ready()
        bench.put({"tiny": TINY})
        await bench.api.start()

        async def updated() -> bool:
            return bool((await webhook.review(TWO_GPUS))["patch"] != before["patch"])

        await webhook.until(updated)

    assert bench.settled == ["settled"]
    assert (meanwhile, ready) == (before, True)


OPTED_OUT = raw("cpu=2 mem=1Gi gpu=1", policy="none")


@asynccontextmanager
async def without_watch(bench: Bench) -> AsyncIterator[Running]:
    """A webhook, and a namespace that enforces, which no watch reports."""
    async with bench.ready(*PLAIN) as webhook:
        bench.api.silent = True
        bench.put({}, strict={"enforce": SINGLE, "default": SINGLE})
        yield webhook
        bench.api.silent = False


async def test_namespace_unknown_to_the_watch_is_fetched(bench: Bench) -> None:
    job = {"kind": {"group": "batch", "version": "v1", "kind": "Job"}}
    template = {"spec": {"template": OPTED_OUT}}
    async with without_watch(bench) as webhook:
        denied = await webhook.review(OPTED_OUT, "validate", namespace="strict")
        patched = await webhook.review(raw("cpu=2 mem=1Gi gpu=2"), namespace="strict")
        warned = await webhook.review(template, "validate-workloads", namespace="strict", **job)
    assert not denied["allowed"]
    assert "single-numa-node" in denied["status"]["message"]
    assert "patch" in patched
    assert "its pods will be denied" in str(warned["warnings"])


async def test_unreadable_namespace_leaves_the_failure_policy(bench: Bench) -> None:
    async with without_watch(bench) as webhook:
        bench.api.failures["/api/v1/namespaces/strict"] = HTTPStatus.FORBIDDEN
        status, _ = await webhook.post("/validate", request(OPTED_OUT, namespace="strict"))
    assert status == HTTPStatus.SERVICE_UNAVAILABLE
    assert "strict" in bench.journal.of("namespace.unread")[0]["error"]


async def test_denial_is_audited_and_a_rejecting_node_avoided(bench: Bench) -> None:
    file, owner = bench.folder / "audit.log", {"kind": "ReplicaSet", "name": "web", "controller": True}
    owned = {**owner, "apiVersion": "apps/v1", "uid": "u1"}
    made = {**TWO_GPUS, "metadata": {**TWO_GPUS["metadata"], "ownerReferences": [owned]}}
    failure = {"phase": "Failed", "reason": "TopologyAffinityError", "startTime": utc_now().isoformat()}
    metadata = {**made["metadata"], "name": "web-x", "namespace": TEAM}
    failed = {**made, "metadata": metadata, "spec": {**made["spec"], "nodeName": "large"}, "status": failure}
    async with bench.ready(*PLAIN, "--audit-log", str(file)) as webhook:
        await webhook.review(EIGHT_GPUS, "validate")
        assert "avoided" not in (await webhook.review(made))["auditAnnotations"]
        bench.api.put(failed)

        async def avoided() -> bool:
            return bool((await webhook.review(made))["auditAnnotations"].get("avoided") == "large")

        await webhook.until(avoided)

    [line] = file.read_text().splitlines()
    refused = orjson.loads(line)
    assert (refused["state"], refused["webhook"], refused["nodes"]) == ("never", "validate", 2)
