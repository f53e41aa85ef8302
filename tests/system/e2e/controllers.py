"""The few things that a cluster's controllers and kubelets would do, where none runs.

A Deployment that is deleted ends its pods; a namespace that is deleted loses all that is in it and then goes.
kubectl waits for both.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

from tests.system.e2e.clusters import Cluster
from tools.clusters import shipped
from tools.clusters.api_objects import Kind
from tools.clusters.api_requests import Json, ask
from tools.clusters.replicas import Replicas
from tools.clusters.waiting import SELDOM

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
