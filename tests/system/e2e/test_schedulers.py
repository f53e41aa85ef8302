"""The scheduler that the other tests rely on: it schedules, and it asks who it was told to ask."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from kubernetes_asyncio.client.api_client import ApiClient

from certs import authority
from tools.clusters import fleets
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json, ask, create, pod
from tools.clusters.controlplane import schedulers
from tools.clusters.controlplane.planes import BINARIES, Place, Plane
from tools.clusters.controlplane.schedulers import Extender, configuration, scheduler
from tools.clusters.fleets import Shape
from tools.clusters.processes import Children
from tools.clusters.waiting import SELDOM, seconds_until

pytestmark = pytest.mark.asyncio(loop_scope="session")

NODES = ("left", "right")
SHAPE = Shape(zones=2, cpus=8, gib=32, devices={})


@dataclass(slots=True)
class Choosy:
    """An extender that takes `wants` only, and binds as it is told."""

    api: ApiClient
    wants: str
    url: str = ""
    asked: Counter[str] = field(default_factory=Counter)

    async def answer(self, request: web.Request) -> web.Response:
        """One verb, by its own name."""
        verb = request.match_info["verb"]
        self.asked[verb] += 1
        return web.json_response(await getattr(self, f"_{verb}")(await request.json()))

    async def _filter(self, asked: Json) -> Json:
        others = [name for name in asked["NodeNames"] if name != self.wants]
        return {"NodeNames": [self.wants], "FailedNodes": dict.fromkeys(others, "not the one")}

    async def _bind(self, asked: Json) -> Json:
        path = f"/api/v1/namespaces/{asked['PodNamespace']}/pods/{asked['PodName']}/binding"
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": asked["PodName"], "uid": asked["PodUID"], "annotations": {"by": "choosy"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": asked["Node"]},
        }
        answer = await ask(self.api, "POST", path, binding)
        return {"Error": "" if answer.code == HTTPStatus.CREATED else str(answer)}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster(
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
    children: Children,
    pair: authority.Files,
) -> AsyncIterator[tuple[Plane, ApiClient]]:
    """A plane of its own with two nodes: the pods of other tests are not to be scheduled."""
    place = Place(pytestconfig.stash[BINARIES], tmp_path_factory.mktemp("scheduled"), pair)
    if not (place.binaries / "kube-scheduler").is_file():
        pytest.skip(f"{place.binaries} has no kube-scheduler")
    plane = Plane(children, place, users={"admin": "system:masters", **schedulers.USERS})
    await plane.start()
    async with plane.client("admin") as api:
        store = Store(api)
        for name in NODES:
            await store.replace(fleets.node(name, SHAPE))
            # Whoever writes it again takes off the taint that a new node gets.
            await store.replace(fleets.node(name, SHAPE))
        yield plane, api
    await plane.end()


@pytest_asyncio.fixture(loop_scope="session")
async def choosy(cluster: tuple[Plane, ApiClient]) -> AsyncIterator[Choosy]:
    extender = Choosy(cluster[1], wants="right")
    app = web.Application()
    app.router.add_post("/{verb}", extender.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    extender.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield extender
    await runner.cleanup()


async def bound(api: ApiClient, name: str, *, scheduler_name: str) -> Json:
    """Such a pod, once it has a node."""
    wish = pod(name, asks={"cpu": "1", "memory": "1Gi"})
    wish["spec"]["schedulerName"] = scheduler_name
    created = await create(api, wish, namespace="default")
    assert created.code == HTTPStatus.CREATED, created.body

    async def look() -> Json:
        return (await ask(api, "GET", f"/api/v1/namespaces/default/pods/{name}")).body

    await seconds_until(
        look, lambda seen: "nodeName" in seen["spec"], what=f"{name} had a node", within=60, every=SELDOM
    )
    return await look()


async def test_a_scheduler_without_an_extender_binds_by_itself(
    children: Children, cluster: tuple[Plane, ApiClient]
) -> None:
    plane, api = cluster
    async with scheduler(children, plane, name="stock"):
        seen = await bound(api, "plain", scheduler_name="stock")
    assert seen["spec"]["nodeName"] in NODES


async def test_extender_gets_each_configured_verb(
    children: Children, cluster: tuple[Plane, ApiClient], choosy: Choosy
) -> None:
    plane, api = cluster
    told = Extender(url=choosy.url, verbs=("filter", "bind"))
    async with scheduler(children, plane, extender=told, name="extended"):
        seen = await bound(api, "chosen", scheduler_name="extended")
    assert seen["spec"]["nodeName"] == "right"
    assert seen["metadata"]["annotations"] == {"by": "choosy"}
    assert choosy.asked == {"filter": 1, "bind": 1}


async def test_an_https_extender_is_trusted_by_its_authority() -> None:
    told = Extender(url="https://127.0.0.1:1", ca=Path("/ca"), managed=("nvidia.com/gpu",))
    [described] = configuration(Path("/kubeconfig"), extender=told)["extenders"]
    assert described["enableHTTPS"]
    assert described["tlsConfig"] == {"caFile": "/ca"}
    assert described["managedResources"] == [{"name": "nvidia.com/gpu", "ignoredByScheduler": False}]
