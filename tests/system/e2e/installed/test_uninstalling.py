"""What the guide says to uninstall leaves nothing behind."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

import pytest

from tests.system.e2e.clusters import Cluster
from tests.unit.docs.blocks import SHELL
from tests.unit.docs.guides import Guide
from tools.clusters import shipped
from tools.clusters.api_objects import Kind, Store
from tools.clusters.api_requests import Json, ask
from tools.clusters.replicas import Replicas
from tools.clusters.waiting import SELDOM

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.last]

APPLIED = "Remove what kubectl applied"


async def test_documented_uninstall_leaves_nothing(
    cluster: Cluster, shell: Callable[[str], Awaitable[tuple[int, str]]]
) -> None:
    assert await traces(cluster.store)
    async with controllers(cluster):
        for command in Guide.read("uninstall").blocks(APPLIED, SHELL):
            code, output = await shell(command)
            assert code == 0, f"{command}\n{output}"

    assert await traces(cluster.store) == []
    assert (cluster.replicas.running, cluster.controllers.running) == ([], [])


async def traces(store: Store) -> list[str]:
    """Everything in the cluster that has our name on it, or in it; the events of the API server aside."""
    found = []
    for kind in await store.kinds():
        if "list" in kind.verbs:
            items = (await ask(store.api, "GET", kind.path())).body.get("items", [])
            found += [f"{kind.plural}/{item['metadata']['name']}" for item in items if ours(item)]
    return found


def ours(item: Json) -> bool:
    metadata = item["metadata"]
    written = (
        metadata["name"],
        metadata.get("namespace", ""),
        *metadata.get("labels", {}),
        *metadata.get("annotations", {}),
    )
    return any("numalign" in text for text in written)


# ---- controllers, played: kubectl waits until a deleted Deployment has no pods and a namespace nothing


HOME = f"/api/v1/namespaces/{shipped.NAMESPACE}"


def deployment(name: str) -> Json:
    metadata = {"namespace": shipped.NAMESPACE, "name": name}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}


def programs(cluster: Cluster) -> dict[str, Replicas]:
    return {shipped.NAME: cluster.replicas, shipped.CONTROLLER: cluster.controllers}


@asynccontextmanager
async def controllers(cluster: Cluster) -> AsyncIterator[None]:
    work = asyncio.create_task(_work(cluster))
    yield
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work


async def _work(cluster: Cluster) -> None:
    while True:
        for name, everyone in programs(cluster).items():
            if (await cluster.store.read(deployment(name))).code == HTTPStatus.NOT_FOUND:
                await everyone.end()
        home = await ask(cluster.api, "GET", HOME)
        if home.body.get("metadata", {}).get("deletionTimestamp"):
            for everyone in programs(cluster).values():
                await everyone.end()
            await _emptied(cluster)
            await ask(cluster.api, "PUT", f"{HOME}/finalize", {**home.body, "spec": {"finalizers": []}})
        await asyncio.sleep(SELDOM)


async def _emptied(cluster: Cluster) -> None:
    """Everything in our namespace is deleted, as the namespace controller does before it lets it go."""
    for kind in await cluster.store.kinds():
        if kind.namespaced and "delete" in kind.verbs:
            for item in await _items(cluster, kind):
                path = kind.path(shipped.NAMESPACE, item["metadata"]["name"])
                await ask(cluster.api, "DELETE", path, gracePeriodSeconds="0")


async def _items(cluster: Cluster, kind: Kind) -> list[Json]:
    found: list[Json] = (await ask(cluster.api, "GET", kind.path(shipped.NAMESPACE))).body.get("items", [])
    return found
