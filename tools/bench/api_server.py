"""
An API server with a cluster as large as real ones are, as a process of its own.

    python -m tools.bench.api_server PORT NODES MAKES PODS

It does little, so that what is measured beside it has a processor. Its nodes are those of `fleets`, as long
as real Nodes; pods are of a few hundred workloads, as long as real pods. Only topologies change: a PUT of one
is sent to all watches. One more node, the canary, is the only one with a certain resource.
"""

import asyncio
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus

import orjson
from aiohttp import web

from numalign.model.intent import Policy
from numalign.model.node import Node
from numalign.model.resources import Resources
from tools.bench import cluster, fleets
from tools.bench.fleets import Case, Make, Raw
from tools.clusters.http_calls import LOOPBACK, Door
from tools.clusters.processes import free_port
from tools.clusters.programs import ApiServer, Site, answers, soon

CANARY = "example.com/canary"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
NAMESPACES, WORKLOADS, IMAGES = 200, 200, 70
BOOKMARK_SECONDS = 10


def canary(free: int) -> Node:
    """Return the only node with the canary's resource, so many of which are free."""
    make = Make(1, Policy.SINGLE_NUMA_NODE)
    [zone] = make.machine(random.Random(0))  # noqa: S311 - it makes input, not secrets
    full, now = (Resources({**zone.allocatable, CANARY: count}) for count in (1, free))
    members = (replace(zone, capacity=full, allocatable=full, free=now),)
    return Node("canary", members, policy=make.policy, totals=Resources({**full, "pods": 110}))


@dataclass(slots=True)
class Kind:
    """The objects of a kind, each made when a list contains it, and the watches of them."""

    name: str
    api_version: str
    number: int
    item: Callable[[int], bytes]
    version: int = 1000
    watches: list[web.StreamResponse] = field(default_factory=list)

    def page(self, start: int, limit: int) -> bytes:
        """Return a page of the list of them."""
        end = min(start + limit, self.number) if limit else self.number
        following = {"continue": str(end)} if end < self.number else {}
        metadata = {"resourceVersion": str(self.version), **following}
        head = {"kind": f"{self.name}List", "apiVersion": self.api_version, "metadata": metadata}
        return orjson.dumps(head)[:-1] + b',"items":[' + b",".join(map(self.item, range(start, end))) + b"]}"

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """Send what changes from now on, and bookmarks."""
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        self.watches.append(answer)
        while True:
            found = {"kind": self.name, "apiVersion": self.api_version}
            await self.send("BOOKMARK", {**found, "metadata": {}}, answer)
            await asyncio.sleep(BOOKMARK_SECONDS)

    async def send(self, event: str, found: Raw, *watches: web.StreamResponse) -> None:
        """Send an object with the current version."""
        found["metadata"]["resourceVersion"] = str(self.version)
        for watch in watches:
            await watch.write(orjson.dumps({"type": event, "object": found}) + b"\n")


def served(nodes: int, makes: int, pods: int) -> Mapping[str, Kind]:
    """Return what is served, by path."""
    images = [
        {
            "names": [f"{name}@sha256:{at:064x}", f"{name}:v1.{at}.0-{'x' * 150}"],
            "sizeBytes": 100_000_000 + at,
        }
        for at in range(IMAGES)
        for name in (f"registry.example.com/platform/component-{at}/with-a-long-name",)
    ]
    # Images make up most of a Node.
    status = b'"status":' + orjson.dumps({"images": images})[:-1] + b","
    objects = list(
        map(orjson.dumps, fleets.objects([*Case.mixed(nodes, makes, Policy.NONE).members(), canary(1)]))
    )
    workloads = [orjson.dumps(_running(each)) for each in cluster.templates(WORKLOADS)]

    def pod(number: int) -> bytes:
        at = number % WORKLOADS
        names = (
            b"team-%d" % (number % NAMESPACES),
            b"workload-%d-%06d" % (at, number),
            b"node-%05d" % (number % nodes),
        )
        made = workloads[at]
        for word, name in zip((b"NAMESPACE-OF-POD", b"NAME-OF-POD", b"NODE-OF-POD"), names, strict=True):
            made = made.replace(word, name)
        return made

    return {
        "/api/v1/nodes": Kind(
            "Node", "v1", nodes + 1, lambda at: objects[2 * at].replace(b'"status":{', status, 1)
        ),
        "/api/v1/namespaces": Kind(
            "Namespace", "v1", NAMESPACES, lambda at: orjson.dumps({"metadata": {"name": f"team-{at}"}})
        ),
        "/api/v1/pods": Kind("Pod", "v1", pods, pod),
        TOPOLOGIES: Kind(
            "NodeResourceTopology", "topology.node.k8s.io/v1alpha2", nodes + 1, lambda at: objects[2 * at + 1]
        ),
    }


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


async def _serve(port: int, kinds: Mapping[str, Kind]) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "PUT":
            topologies = kinds[TOPOLOGIES]
            topologies.version += 1
            await topologies.send("MODIFIED", orjson.loads(await request.read()), *topologies.watches)
            return web.json_response({})
        kind = kinds.get(request.path)
        if kind is None:
            return web.Response(status=HTTPStatus.NOT_FOUND, text="404 page not found\n")
        if request.query.get("watch"):
            return await kind.watch(request)
        start, limit = (int(request.query.get(key, 0)) for key in ("continue", "limit"))
        return web.Response(body=kind.page(start, limit), content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, port).start()
    await asyncio.Event().wait()


async def started(here: Site, *, nodes: int, makes: int, pods: int = 0) -> ApiServer:
    """Start such an API server at a site."""
    port = free_port()
    words = (sys.executable, "-m", "tools.bench.api_server", *map(str, (port, nodes, makes, pods)))
    child, door = await here.children.start(*words, name="apiserver"), Door(port)
    await soon(partial(answers, door, "/api/v1/namespaces"), what="listening", child=child)
    return ApiServer(child, door, here.kubeconfig(port))


if __name__ == "__main__":
    first, *counts = map(int, sys.argv[1:])
    asyncio.run(_serve(first, served(*counts)))
