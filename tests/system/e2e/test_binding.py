"""What a real API server makes of our Binding, and of our Events."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from http import HTTPStatus

import orjson
import pytest
import pytest_asyncio
from kubernetes_asyncio.client import ApiClient

from numalign.kube.bindings import bind
from numalign.kube.client import Api
from numalign.kube.errors import Conflict, NotFound
from numalign.model.intent import PLACEMENT
from tools.clusters.api_requests import Json, ask, create, pod, read

pytestmark = pytest.mark.asyncio(loop_scope="session")

KEPT = {"example.com/team": "blue"}
RECORD = {PLACEMENT: '[{"zones":["node-0"],"amount":{"cpu":"8"}}]'}


@pytest_asyncio.fixture(loop_scope="session")
async def server(api: ApiClient) -> AsyncIterator[Api]:
    yield Api(api, namespace="team")


async def made(api: ApiClient, name: str, **spec: object) -> str:
    wish = pod(name, asks={}, annotations=KEPT)
    wish["spec"] |= spec
    answer = await create(api, wish)
    assert answer.code == HTTPStatus.CREATED, answer
    uid: str = answer.body["metadata"]["uid"]
    return uid


async def bound(server: Api, name: str, *, uid: str, node: str = "large") -> None:
    await bind(server, namespace="team", name=name, uid=uid, node=node, annotations=RECORD)


async def stored(api: ApiClient, name: str) -> Json:
    return (await read(api, name)).body


async def changes(server: Api, before: Json, after: Json) -> list[Json]:
    """All that has happened to a pod between two versions of it."""
    since, until = (seen["metadata"]["resourceVersion"] for seen in (before, after))
    query = {"watch": "true", "resourceVersion": since, "timeoutSeconds": "30"}
    query["fieldSelector"] = f"metadata.name={before['metadata']['name']}"
    output = server.lines("/api/v1/namespaces/team/pods", [*query.items()], what="pods", silence=40)
    seen = list[Json]()
    async with aclosing(output) as lines:
        async for line in lines:
            seen += [orjson.loads(line)] if line else []
            if seen and seen[-1]["object"]["metadata"]["resourceVersion"] == until:
                break
    return seen


async def test_binding_writes_node_and_record_at_once(api: ApiClient, server: Api) -> None:
    uid = await made(api, "bound")
    before = await stored(api, "bound")
    await bound(server, "bound", uid=uid)
    found = await stored(api, "bound")
    assert found["spec"]["nodeName"] == "large"
    assert found["metadata"]["annotations"] == KEPT | RECORD
    assert [each["type"] for each in found["status"]["conditions"]] == ["PodScheduled"]
    [change] = await changes(server, before, found)
    assert (change["type"], change["object"]) == ("MODIFIED", {"kind": "Pod", "apiVersion": "v1"} | found)


async def test_a_pod_is_bound_once(api: ApiClient, server: Api) -> None:
    uid = await made(api, "once")
    await bound(server, "once", uid=uid)
    before = await stored(api, "once")
    for node in ("large", "small"):
        with pytest.raises(Conflict, match='already assigned to node "large"'):
            await bound(server, "once", uid=uid, node=node)
    assert await stored(api, "once") == before


async def test_other_and_gated_and_missing_pods_are_not_bound(api: ApiClient, server: Api) -> None:
    other = "6a1f6f0c-0000-4000-8000-000000000000"
    await made(api, "anew")
    with pytest.raises(Conflict, match="UID in precondition"):
        await bound(server, "anew", uid=other)
    assert "nodeName" not in (await stored(api, "anew"))["spec"]
    gated = await made(api, "gated", schedulingGates=[{"name": "example.com/gate"}])
    with pytest.raises(Conflict, match="schedulingGates"):
        await bound(server, "gated", uid=gated)
    with pytest.raises(NotFound, match="the binding of pod team/never to node large does not exist"):
        await bound(server, "never", uid=other)


async def test_a_pod_that_is_leaving_is_not_bound(api: ApiClient, server: Api) -> None:
    wish = pod("leaving", asks={}, finalizers=["example.com/last-words"])
    uid = (await create(api, wish)).body["metadata"]["uid"]
    path = "/api/v1/namespaces/team/pods/leaving"
    assert (await ask(api, "DELETE", path)).code == HTTPStatus.OK
    with pytest.raises(Conflict, match="is being deleted"):
        await bound(server, "leaving", uid=uid)
    left = await stored(api, "leaving")
    del left["metadata"]["finalizers"]
    assert (await ask(api, "PUT", path, left)).code == HTTPStatus.OK
