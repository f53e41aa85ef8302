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
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json, ask
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


@asynccontextmanager
async def controllers(cluster: Cluster) -> AsyncIterator[None]:
    work = asyncio.create_task(_work(cluster))
    yield
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work


async def _work(cluster: Cluster) -> None:
    programs = {shipped.NAME: cluster.replicas, shipped.CONTROLLER: cluster.controllers}
    while True:
        home = await ask(cluster.api, "GET", HOME)
        leaves = bool(home.body.get("metadata", {}).get("deletionTimestamp"))
        for name, everyone in programs.items():
            path = f"/apis/apps/v1/namespaces/{shipped.NAMESPACE}/deployments/{name}"
            if leaves or (await ask(cluster.api, "GET", path)).code == HTTPStatus.NOT_FOUND:
                await everyone.end()
        if leaves:
            # Everything in it is deleted, as the namespace controller does before it lets it go.
            for kind in await cluster.store.kinds():
                if kind.namespaced and {"list", "delete"} <= kind.verbs:
                    listed = await ask(cluster.api, "GET", kind.path(shipped.NAMESPACE))
                    for item in listed.body.get("items", []):
                        path = kind.path(shipped.NAMESPACE, item["metadata"]["name"])
                        await ask(cluster.api, "DELETE", path, gracePeriodSeconds="0")
            await ask(cluster.api, "PUT", f"{HOME}/finalize", {**home.body, "spec": {"finalizers": []}})
        await asyncio.sleep(SELDOM)
