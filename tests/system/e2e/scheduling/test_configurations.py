"""The scheduler configurations that are shipped, read by the real kube-scheduler.

The extender says and does what a scorer would, and notes what it is asked.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from kubernetes_asyncio.client.api_client import ApiClient

from certs import authority
from numalign.model.intent import PLACEMENT
from numalign.runtime.clock import utc_now
from tests.system.e2e.guarded import binding
from tests.system.e2e.placing import (
    DEPLOYMENTS,
    LEASES,
    SCHEDULER,
    SCORER,
    Cluster,
    Running,
    is_bound,
    scoring,
)
from tests.system.e2e.programs import kubeconfig
from tests.system.e2e.scheduling.conftest import SERVICE
from tests.system.eventually import eventually
from tools.clusters import shipped
from tools.clusters.api_requests import INTENT, ask, gpus
from tools.clusters.controlplane import audits
from tools.clusters.processes import Children

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

BY = {"bound-by": "the-scorer"}

RESERVE_AT = {"bind": "bind", "rank": "prioritize"}
"""When the scorer is to reserve zones, by the configuration of the scheduler."""


# ---- an extender that notes what it is asked


@dataclass(slots=True)
class Noting:
    """An extender to which every node is good and `right` is best; it binds.

    `asked` is each verb with the name of the pod, in order.
    """

    api: ApiClient
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        verb, body = request.match_info["verb"], await request.json()
        self.asked.append((verb, body["PodName"] if verb == "bind" else body["Pod"]["metadata"]["name"]))
        match verb:
            case "filter":
                output: object = {"NodeNames": body["NodeNames"]}
            case "prioritize":
                output = [{"Host": name, "Score": 10 * (name == "right")} for name in body["NodeNames"]]
            case "preempt":
                output = {"NodeNameToMetaVictims": body["NodeNameToMetaVictims"]}
            case _:
                path = f"/api/v1/namespaces/{body['PodNamespace']}/pods/{body['PodName']}/binding"
                bound = binding(body["PodName"], body["Node"], uid=body["PodUID"], annotations=BY)
                answer = await ask(self.api, "POST", path, bound)
                output = {"Error": "" if answer.code == HTTPStatus.CREATED else str(answer)}
        return web.json_response(output)


@asynccontextmanager
async def serving(api: ApiClient, port: int, pair: authority.Files | None = None) -> AsyncIterator[Noting]:
    """An extender that listens during the block, with TLS if it has a pair."""
    extender, context = Noting(api), None
    if pair:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair.cert, pair.key)
    app = web.Application(client_max_size=8 * 1024**2)
    app.router.add_post("/{verb}", extender.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    yield extender
    await runner.cleanup()


# ---- a second scheduler


async def test_second_scheduler_handles_only_its_pods(tidy: Cluster, second: Running) -> None:
    async with serving(tidy.api, second.port) as extender:
        await tidy.create("stranger", scheduler="default-scheduler", asks=gpus(1))
        await tidy.create("own", scheduler=second.name, asks=gpus(1))
        seen = await tidy.until_bound("own")
    assert seen["spec"]["nodeName"] == "right"
    assert seen["metadata"]["annotations"] == BY
    assert extender.asked == [("filter", "own"), ("prioritize", "own"), ("bind", "own")]
    assert not is_bound(await tidy.pod("stranger"))


async def test_pods_of_a_second_scheduler_wait_for_the_scorer(tidy: Cluster, second: Running) -> None:
    await tidy.create("patient", scheduler=second.name, asks={})
    await tidy.until_unplaced("patient", "connection refused")
    assert not is_bound(await tidy.pod("patient"))
    async with serving(tidy.api, second.port):
        assert (await tidy.until_bound("patient"))["metadata"]["annotations"] == BY


async def test_second_scheduler_calls_preempt(tidy: Cluster, second: Running) -> None:
    async with serving(tidy.api, second.port) as extender:
        for number in range(4):
            await tidy.create(f"small-{number}", scheduler=second.name, asks=gpus(4))
            await tidy.until_bound(f"small-{number}")
        await tidy.create(
            "urgent", scheduler=second.name, asks=gpus(4), priorityClassName="system-node-critical"
        )

        async def preempts() -> bool:
            return ("preempt", "urgent") in extender.asked

        await eventually(preempts, bool, "it was asked to preempt", within=30)


async def test_second_scheduler_holds_its_lease_by_its_rights(tidy: Cluster, second: Running) -> None:
    own = await ask(tidy.api, "GET", LEASES.format(shipped.NAMESPACE, second.name))
    others = await ask(tidy.api, "GET", LEASES.format("kube-system", "kube-scheduler"))
    assert own.body["spec"]["holderIdentity"]
    assert others.code == HTTPStatus.NOT_FOUND
    found = audits.uses(tidy.plane.folder, user=SCHEDULER)
    assert found
    assert [use for use in found if use.code in {401, 403} and not tidy.plane.starting(use.at)] == []


async def test_metrics_of_a_second_scheduler_are_authorized(second: Running) -> None:
    url = f"https://127.0.0.1:{second.scheduler.port}/metrics"
    async with aiohttp.ClientSession() as session:
        for headers, code in [({}, HTTPStatus.FORBIDDEN), ({"Authorization": "Bearer admin"}, HTTPStatus.OK)]:
            async with session.get(url, headers=headers, ssl=False) as answer:
                assert answer.status == code


# ---- the control plane's own


binds = pytest.mark.parametrize("own", ["bind"], indirect=True, scope="module")
ranks = pytest.mark.parametrize("own", ["rank"], indirect=True, scope="module")


@binds
async def test_only_pods_with_a_managed_resource_use_the_scorer(
    tidy: Cluster, own: Running, trusted: authority.Files
) -> None:
    async with serving(tidy.api, own.port, trusted) as extender:
        for name, asks in (("device", gpus(1)), ("plain", {})):
            await tidy.create(name, scheduler=own.name, asks=asks)
        device, plain = [await tidy.until_bound(name) for name in ("device", "plain")]
    assert (device["spec"]["nodeName"], device["metadata"]["annotations"]) == ("right", BY)
    assert plain["metadata"].get("annotations", {}) == {}
    assert extender.asked == [("filter", "device"), ("prioritize", "device"), ("bind", "device")]


@binds
async def test_scorer_pods_are_placed_without_a_scorer(tidy: Cluster, own: Running) -> None:
    await tidy.create("device", scheduler=own.name, asks=gpus(1))
    await tidy.until_unplaced("device", "connection refused")
    template = DEPLOYMENTS["numalign-scorer"]["spec"]["template"]
    await tidy.create("scorer", scheduler=own.name, asks={}, **template["spec"])
    await tidy.until_bound("scorer")
    assert not is_bound(await tidy.pod("device"))


@binds
async def test_impostor_at_the_scorer_address_is_not_trusted(
    tidy: Cluster, own: Running, tmp_path: Path
) -> None:
    issued = authority.issue(names=[SERVICE], days=1, now=utc_now())
    async with serving(tidy.api, own.port, authority.write(issued, tmp_path)) as extender:
        await tidy.create("device", scheduler=own.name, asks=gpus(1))
        await tidy.until_unplaced("device", "certificate signed by unknown authority")
    assert extender.asked == []
    assert not is_bound(await tidy.pod("device"))


@ranks
async def test_every_pod_is_ranked_and_the_scheduler_binds_it(
    tidy: Cluster, own: Running, trusted: authority.Files
) -> None:
    async with serving(tidy.api, own.port, trusted) as extender:
        await tidy.create("plain", scheduler=own.name, asks={})
        seen = await tidy.until_bound("plain")
    assert seen["spec"]["nodeName"] == "right"
    assert extender.asked == [("filter", "plain"), ("prioritize", "plain")]


@pytest.mark.parametrize("own", RESERVE_AT, indirect=True, scope="module")
async def test_scorer_reserves_at_bind_or_prioritize(
    tidy: Cluster, children: Children, own: Running, trusted: authority.Files
) -> None:
    at = {"reserve-at": RESERVE_AT[own.configuration]}
    async with scoring(children, kubeconfig(tidy.plane, SCORER), own.port, trusted, **at):
        await tidy.create("aligned", scheduler=own.name, asks=gpus(3), annotations=INTENT)
        seen = await tidy.until_bound("aligned")
    assert (PLACEMENT in seen["metadata"]["annotations"]) == (own.configuration == "bind")
