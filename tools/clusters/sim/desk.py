"""Writes to an API server that may be unavailable for a moment, as kubelets and exporters make them."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from numalign.kube.client import Api, Patch
from numalign.kube.errors import ClusterError, Conflict, NotFound, Unreachable
from tools.clusters import shipped

Json = dict[str, Any]

GROUP = "/apis/topology.node.k8s.io/v1alpha2"
TOPOLOGIES = f"{GROUP}/noderesourcetopologies"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

PATIENCE_SECONDS = 120
"""How long an API server may be unavailable."""


async def patiently(write: Callable[[], Awaitable[object]]) -> None:
    """Write, as soon as that is possible; do nothing if the object is gone, or there already.

    Raise `ClusterError` if the API server is unavailable, or refuses, for `PATIENCE_SECONDS`.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            await write()
        except (NotFound, Conflict):
            return
        except ClusterError:
            # A starting API server can answer anything for a moment.
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
        else:
            return


async def register(api: Api, node: Json) -> None:
    """Create a node as a kubelet does, with its status, but without taints: nothing removes them."""
    name = node["metadata"]["name"]
    path, what = f"/api/v1/nodes/{name}", f"node {name}"
    labels = {"metadata": {"labels": node["metadata"]["labels"]}, "spec": {"taints": None}}
    change = partial(api.patch, how=Patch.MERGE, what=what)
    await patiently(lambda: api.create("/api/v1/nodes", node, what=what))
    await patiently(lambda: change(path, labels))
    await patiently(lambda: change(f"{path}/status", {"status": node["status"]}))


async def publish(api: Api, topology: Json) -> None:
    """Write a topology in place of the node's last one."""
    name = topology["metadata"]["name"]
    owner = [("fieldManager", "exporter"), ("force", "true")]
    change = partial(api.patch, f"{TOPOLOGIES}/{name}", topology, owner, how=Patch.APPLY)
    await patiently(partial(change, what=f"topology {name}"))


async def learn(api: Api) -> None:
    """Install the CustomResourceDefinition of topologies if needed, and return when they are served."""
    [definition] = shipped.documents(shipped.DEPLOY / "crd" / "noderesourcetopologies.yaml")

    async def served() -> None:
        try:
            await api.get(TOPOLOGIES, what="topologies")
            kinds: Any = await api.get(GROUP, what="kinds")
        except NotFound as error:
            raise Unreachable("the API server does not serve topologies yet") from error
        if "noderesourcetopologies" not in {each["name"] for each in kinds["resources"]}:
            raise Unreachable("the API server does not list topologies yet")

    await patiently(lambda: api.create(CRDS, definition, what="the kind of topologies"))
    await patiently(served)
