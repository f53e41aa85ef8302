"""The writes of kubelets and exporters to an API server.

They are tried again while the API server is unavailable, as a kubelet does. If their object is gone
afterwards, nothing is written.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

import aiohttp
import yaml

from numalign.kube.client import Api, Patch
from numalign.kube.errors import ClusterError, Conflict, NotFound, Unreachable
from tools.clusters import shipped
from tools.clusters.sim import documents

Json = dict[str, Any]

GROUP = f"/apis/{documents.GROUP}"
TOPOLOGIES = f"{GROUP}/noderesourcetopologies"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

PATIENCE_SECONDS = 120
"""How long an API server may be unavailable."""


class ApiDesk:
    """The writes for nodes to an API server.

    Methods raise `ClusterError` if it is unavailable, or refuses a write, for `PATIENCE_SECONDS`.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    async def status(self, pod: Json, status: Json) -> None:
        """Merge a status into that of a pod; do nothing if the pod is gone."""
        await self._pod(pod, {"status": status}, "/status", how=Patch.STRATEGIC)

    async def annotate(self, pod: Json, key: str, value: str) -> None:
        """Set an annotation of a pod; do nothing if the pod is gone."""
        await self._pod(pod, {"metadata": {"annotations": {key: value}}}, "", how=Patch.MERGE)

    async def remove(self, pod: Json) -> None:
        """Delete a pod at once; a pod of the same name with another UID stays."""
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        with suppress(NotFound, Conflict):
            await self._patiently(lambda: delete(self._api, _path(pod), options))

    async def publish(self, topology: Json) -> None:
        """Write a topology in place of the node's last one."""
        name = topology["metadata"]["name"]
        path, what = f"{TOPOLOGIES}/{name}", f"topology {name}"
        try:
            await self._patiently(lambda: self._api.patch(path, topology, how=Patch.MERGE, what=what))
        except NotFound:
            with suppress(Conflict):
                await self._patiently(lambda: self._api.create(TOPOLOGIES, topology, what=what))

    async def register(self, node: Json) -> None:
        """Create a node as a kubelet does, with its status, but without taints: nothing removes them."""
        name = node["metadata"]["name"]
        path, what = f"/api/v1/nodes/{name}", f"node {name}"
        with suppress(Conflict):
            await self._patiently(lambda: self._api.create("/api/v1/nodes", node, what=what))
        for part, inner in (
            ("", {"metadata": {"labels": node["metadata"]["labels"]}, "spec": {"taints": None}}),
            ("/status", {"status": node["status"]}),
        ):
            change = partial(self._api.patch, path + part, inner, how=Patch.MERGE, what=what)
            await self._patiently(change)

    async def learn(self) -> None:
        """Install the CustomResourceDefinition of topologies if needed, and return when they are served."""
        definition = yaml.safe_load((shipped.DEPLOY / "crd" / "noderesourcetopologies.yaml").read_text())
        with suppress(Conflict):
            await self._patiently(lambda: self._api.create(CRDS, definition, what="the kind of topologies"))
        await self._patiently(self._known)

    async def _known(self) -> None:
        """Return if topologies are served and listed; raise `Unreachable` if not."""
        try:
            await self._api.get(TOPOLOGIES, what="topologies")
            served: Any = await self._api.get(GROUP, what="kinds")
        except NotFound as error:
            raise Unreachable("the API server does not serve topologies yet") from error
        if "noderesourcetopologies" not in {each["name"] for each in served["resources"]}:
            raise Unreachable("the API server does not list topologies yet")

    async def _pod(self, pod: Json, body: Json, part: str, *, how: Patch) -> None:
        metadata = {**body.get("metadata", {}), "uid": pod["metadata"]["uid"]}
        path, what = _path(pod) + part, f"pod {pod['metadata']['name']}"
        with suppress(NotFound, Conflict):
            await self._patiently(
                lambda: self._api.patch(path, {**body, "metadata": metadata}, how=how, what=what)
            )

    async def _patiently(self, write: Callable[[], Awaitable[object]]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                await write()
            except (NotFound, Conflict):
                raise
            except ClusterError:
                # A starting API server can answer any of these for a moment.
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.2)
            else:
                return


def _path(pod: Json) -> str:
    return "/api/v1/namespaces/{namespace}/pods/{name}".format_map(pod["metadata"])


async def delete(api: Api, path: str, options: Json) -> None:
    """Delete an object through the client of an `Api`. Raise `ClusterError` if that fails."""
    client = api._client  # noqa: SLF001  as the docstring says
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    ask = partial(client.call_api, header_params=headers, auth_settings=["BearerToken"])
    try:
        answer = await ask(path, "DELETE", body=options, _preload_content=False)
        said = await answer.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unreachable(f"{path} was not deleted: {error}") from error
    if answer.status not in (HTTPStatus.OK, HTTPStatus.ACCEPTED):
        failures = {HTTPStatus.NOT_FOUND: NotFound, HTTPStatus.CONFLICT: Conflict}
        failure = failures.get(answer.status, ClusterError)
        raise failure(f"{path} was not deleted: {answer.status} {said[:200]!r}")
