"""A small API server that speaks as a real one does, and kubeconfigs that lead to it."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

Json = dict[str, Any]

TOKEN = "let-me-in"  # noqa: S105  of a server that lives as long as a test
TOPOLOGIES = "/apis/topology.node.k8s.io/{version}/noderesourcetopologies"


@dataclass
class ApiServer:
    """Serves lists in pages. `failures` answers a path with a status, `oddities` with other bytes."""

    lists: dict[str, list[Json]] = field(default_factory=dict)
    failures: dict[str, HTTPStatus] = field(default_factory=dict)
    oddities: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    page: int = 500
    expire_after: int | None = None
    url: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        """What stands at a path, or a Status."""
        self.asked.append((request.path, dict(request.query)))
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return status(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        if request.path in self.failures:
            return status(self.failures[request.path], f"as told for {request.path}")
        if request.path in self.oddities:
            return web.Response(body=self.oddities[request.path], content_type="application/json")
        return self._list(request) if request.path in self.lists else self._one(request)

    def _list(self, request: web.Request) -> web.Response:
        items = self.lists[request.path]
        start = int(request.query.get("continue", 0))
        if self.expire_after is not None and start > self.expire_after:
            return status(HTTPStatus.GONE, "The provided continue parameter is too old")
        size = min(self.page, int(request.query.get("limit", len(items) or 1)))
        if "limit" not in request.query:
            size = len(items)
        end = start + size
        following = {"continue": str(end)} if end < len(items) else {}
        return web.json_response({"kind": "AnyList", "metadata": following, "items": items[start:end]})

    def _one(self, request: web.Request) -> web.Response:
        collection, _, name = request.path.rpartition("/")
        for item in self.lists.get(collection, []):
            if item["metadata"]["name"] == name:
                return web.json_response(item)
        return status(HTTPStatus.NOT_FOUND, "the server could not find the requested resource")


def status(code: HTTPStatus, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "message": message}, status=code)


@pytest.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    """Two nodes, one topology, a namespace and a pod; whoever has the token may read them."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = ApiServer(
        lists={
            "/api/v1/nodes": [named("a"), named("b")],
            TOPOLOGIES.format(version="v1alpha2"): [{**named("a"), "zones": []}],
            "/api/v1/namespaces": [named("default")],
            "/api/v1/pods": [named("p")],
        }
    )
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    async with TestServer(app) as running:
        server.url = str(running.make_url("")).rstrip("/")
        yield server


def named(name: str) -> Json:
    return {"metadata": {"name": name}}


@pytest.fixture
def kubeconfig(api: ApiServer, tmp_path: Path) -> Callable[..., str]:
    """Writes a kubeconfig that leads to the server, unless told otherwise, and gives its path."""

    def write(*, server: str = "", token: str = TOKEN, namespace: str | None = None) -> str:
        context = {"cluster": "c", "user": "u"} | ({"namespace": namespace} if namespace else {})
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server or api.url}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": context}],
            "current-context": "x",
        }
        path = tmp_path / "kubeconfig"
        path.write_bytes(orjson.dumps(content))
        return str(path)

    return write
