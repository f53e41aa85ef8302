"""
An API server with a cluster as large as real ones are, as a process of its own. Nothing changes in it.

    python -m tools.bench.api_server PORT NODES MAKES PODS

It does little, so that what is measured beside it has a processor. Its nodes are those of `fleets`, as long
as real Nodes; pods are of a few hundred workloads, as long as real pods.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

import orjson
from aiohttp import web

from numalign.model.intent import Policy
from numalign.model.node import Node
from tools.bench import cluster, fleets
from tools.bench.fleets import Case, Raw
from tools.clusters.http_calls import LOOPBACK, Door
from tools.clusters.processes import free_port
from tools.clusters.programs import ApiServer, Site, answers, soon

TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
NAMESPACES, WORKLOADS = 200, 200
FIRST_VERSION = 1000
BOOKMARK_SECONDS = 10

Items = Callable[[int, int], list[bytes]]
"""Returns the objects from one number up to another, as a list contains them."""


@dataclass(frozen=True, slots=True)
class Kind:
    """All objects of a kind."""

    name: str
    api_version: str
    number: int
    items: Items

    def page(self, start: int, limit: int) -> bytes:
        """Return a page of the list of them."""
        end = min(start + limit, self.number) if limit else self.number
        following = {"continue": str(end)} if end < self.number else {}
        metadata = {"resourceVersion": str(FIRST_VERSION), **following}
        head = {"kind": f"{self.name}List", "apiVersion": self.api_version, "metadata": metadata}
        return orjson.dumps(head)[:-1] + b',"items":[' + b",".join(self.items(start, end)) + b"]}"

    def bookmark(self) -> bytes:
        """Return an event that reports no change."""
        metadata = {"resourceVersion": str(FIRST_VERSION)}
        found = {"kind": self.name, "apiVersion": self.api_version, "metadata": metadata}
        return orjson.dumps({"type": "BOOKMARK", "object": found}) + b"\n"


def kinds(members: Sequence[Node], pods: int) -> Mapping[str, Kind]:
    """Return what is served, by path."""
    registered = [orjson.dumps(node)[:-1] for node in list(fleets.objects(members))[::2]]
    published = [orjson.dumps(_stored(fleets.topology(node))) for node in members]
    namespaces = [orjson.dumps({"metadata": {"name": f"team-{at}"}}) for at in range(NAMESPACES)]
    workloads = [orjson.dumps(_running(each)) for each in cluster.templates(WORKLOADS)]

    def stored_pods(start: int, end: int) -> list[bytes]:
        return [
            workloads[number % WORKLOADS]
            .replace(b"NAMESPACE-OF-POD", b"team-%d" % (number % NAMESPACES))
            .replace(b"NAME-OF-POD", b"workload-%d-%06d" % (number % WORKLOADS, number))
            .replace(b"NODE-OF-POD", b"node-%05d" % (number % len(members)))
            for number in range(start, end)
        ]

    def stored_nodes(start: int, end: int) -> list[bytes]:
        return [
            each.replace(b'"status":{', b'"status":' + _STATUS, 1) + b"}" for each in registered[start:end]
        ]

    return {
        "/api/v1/nodes": Kind("Node", "v1", len(members), stored_nodes),
        "/api/v1/namespaces": Kind("Namespace", "v1", NAMESPACES, lambda start, end: namespaces[start:end]),
        "/api/v1/pods": Kind("Pod", "v1", pods, stored_pods),
        TOPOLOGIES: Kind(
            "NodeResourceTopology",
            "topology.node.k8s.io/v1alpha2",
            len(members),
            lambda start, end: published[start:end],
        ),
    }


def _stored(topology: Raw) -> Raw:
    return {**topology, "metadata": {**topology["metadata"], "resourceVersion": str(FIRST_VERSION)}}


def _running(made: Raw) -> Raw:
    """Return a pod as it is stored once it runs, with words in place of its name, namespace and node."""
    metadata = {**made["metadata"], "name": "NAME-OF-POD", "namespace": "NAMESPACE-OF-POD"}
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    return {
        "metadata": {**metadata, "resourceVersion": "1"},
        "spec": {**made["spec"], "nodeName": "NODE-OF-POD"},
        "status": {"phase": "Running", "conditions": conditions},
    }


def _images() -> Iterator[Raw]:
    """Yield images with names and digests as long as real ones; they make up most of a Node."""
    for at in range(70):
        name = f"registry.example.com/platform/component-{at}/with-a-long-name"
        names = [f"{name}@sha256:{at:064x}", f"{name}:v1.{at}.0-{'x' * 150}"]
        yield {"names": names, "sizeBytes": 100_000_000 + at}


_STATUS = orjson.dumps({"images": list(_images())})[:-1] + b","


async def _serve(port: int, case: Case, pods: int) -> None:
    served = kinds(case.members(), pods)

    async def answer(request: web.Request) -> web.StreamResponse:
        kind = served.get(request.path)
        if kind is None:
            return web.Response(status=HTTPStatus.NOT_FOUND, text="404 page not found\n")
        if request.query.get("watch"):
            return await _bookmarks(request, kind)
        start, limit = (int(request.query.get(key, 0)) for key in ("continue", "limit"))
        return web.Response(body=kind.page(start, limit), content_type="application/json")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, port).start()
    await asyncio.Event().wait()


async def _bookmarks(request: web.Request, kind: Kind) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": "application/json"})
    await answer.prepare(request)
    while True:
        await answer.write(kind.bookmark())
        await asyncio.sleep(BOOKMARK_SECONDS)


async def started(here: Site, *, nodes: int, makes: int, pods: int = 0) -> ApiServer:
    """Start such an API server at a site."""
    port = free_port()
    words = (sys.executable, "-m", "tools.bench.api_server", *map(str, (port, nodes, makes, pods)))
    child = await here.children.start(*words, name="apiserver")
    door = Door(port)
    await soon(partial(answers, door, "/api/v1/namespaces"), what="listening", child=child)
    return ApiServer(child, door, here.kubeconfig(port))


if __name__ == "__main__":
    port, nodes, makes, pods = map(int, sys.argv[1:])
    asyncio.run(_serve(port, Case.mixed(nodes, makes, Policy.NONE), pods))
