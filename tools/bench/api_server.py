"""
An API server with a cluster as large as real ones are, whose topologies can change, as a process of its own.

    python -m tools.bench.api_server PORT NODES MAKES PODS

It does little, so that what is measured beside it has a processor. Its nodes are those of `fleets`, as long
as real Nodes; pods are of a few hundred workloads, as long as real pods. Only topologies change: `POST /pace`
sets how many change each second. One more node, the canary, is the only one with a certain resource;
`POST /canary` sets how many of it are free, and answers with the time of the change. `GET /changed` counts.
"""

import asyncio
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus

import orjson
from aiohttp import web

from numalign.model.intent import Policy
from numalign.model.node import Node
from numalign.model.resources import Resources
from tools.bench import cluster, fleets
from tools.bench.fleets import MODELS, Case, Make, Raw
from tools.clusters.http_calls import LOOPBACK, Door, once
from tools.clusters.processes import free_port
from tools.clusters.programs import ApiServer, Site, answers, soon

CANARY = "example.com/canary"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
NAMESPACES, WORKLOADS = 200, 200
FIRST_VERSION = 1000
REMEMBERED = 20_000
"""Changes that a watch can still request after it was interrupted."""
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


@dataclass(slots=True)
class Store:
    """The current topologies, and the watches of them."""

    case: Case
    members: Sequence[Node]
    items: list[bytes]
    version: int = FIRST_VERSION
    changed: int = 0
    per_second: float = 0
    watches: list[web.StreamResponse] = field(default_factory=list)
    lines: "deque[tuple[int, bytes]]" = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    async def change(self) -> None:
        """Change the free amounts of one node after another, at the rate of the clock."""
        due = time.perf_counter()
        while True:
            if not self.per_second:
                await asyncio.sleep(0.01)
                due = time.perf_counter()
                continue
            due += 1 / self.per_second
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            self.changed += 1
            [node] = self.case.changed(self.members, 0, self.changed)
            await self.put(int(node.name.removeprefix("node-")), node)

    async def put(self, at: int, node: Node) -> None:
        """Store the topology of a node and send it to all watches."""
        self.version += 1
        self.items[at] = _topology(node, self.version)
        line = b'{"type":"MODIFIED","object":' + self.items[at] + b"}\n"
        self.lines.append((self.version, line))
        for watch in [*self.watches]:
            # A client may end its watch at any time.
            try:
                await watch.write(line)
            except ConnectionError:
                self.watches.remove(watch)

    async def set_canary(self, request: web.Request) -> web.Response:
        """Change the canary; answer with the time at which that began, which all processes share."""
        began = time.perf_counter()
        await self.put(len(self.members), canary(int(await request.text())))
        return web.Response(text=str(began))

    async def set_pace(self, request: web.Request) -> web.Response:
        """Change so many topologies each second from now on."""
        self.per_second = float(await request.text())
        return web.Response()

    async def count(self, _request: web.Request) -> web.Response:
        """Answer with the number of topologies that have changed so far."""
        return web.Response(text=str(self.changed))

    async def watch(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        """Stream the changes of topologies after a version, or bookmarks of other kinds."""
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        if request.path == TOPOLOGIES:
            since = int(request.query["resourceVersion"])
            await answer.write(b"".join(line for version, line in self.lines if version > since))
            self.watches.append(answer)
        while True:
            await answer.write(kind.bookmark())
            await asyncio.sleep(BOOKMARK_SECONDS)


def canary(free: int) -> Node:
    """Return the only node with the canary's resource, so many of which are free."""
    make = Make(1, Policy.SINGLE_NUMA_NODE, hardware=replace(MODELS[0], more=((CANARY, 1),)))
    [zone] = make.machine(random.Random(0))  # noqa: S311 - it makes input, not secrets
    totals = Resources({**zone.allocatable, "pods": 110})
    free_here = Resources({**zone.allocatable, CANARY: free})
    return Node("canary", (replace(zone, free=free_here),), policy=make.policy, totals=totals)


def _topology(node: Node, version: int) -> bytes:
    made = fleets.topology(node)
    return orjson.dumps({**made, "metadata": {"name": node.name, "resourceVersion": str(version)}})


def kinds(store: Store, pods: int) -> Mapping[str, Kind]:
    """Return what is served, by path."""
    every = [*store.members, canary(1)]
    registered = [orjson.dumps(node)[:-1] for node in list(fleets.objects(every))[::2]]
    namespaces = [orjson.dumps({"metadata": {"name": f"team-{at}"}}) for at in range(NAMESPACES)]
    workloads = [orjson.dumps(_running(each)) for each in cluster.templates(WORKLOADS)]

    def stored_pods(start: int, end: int) -> list[bytes]:
        return [
            workloads[number % WORKLOADS]
            .replace(b"NAMESPACE-OF-POD", b"team-%d" % (number % NAMESPACES))
            .replace(b"NAME-OF-POD", b"workload-%d-%06d" % (number % WORKLOADS, number))
            .replace(b"NODE-OF-POD", b"node-%05d" % (number % len(store.members)))
            for number in range(start, end)
        ]

    def stored_nodes(start: int, end: int) -> list[bytes]:
        return [
            each.replace(b'"status":{', b'"status":' + _STATUS, 1) + b"}" for each in registered[start:end]
        ]

    return {
        "/api/v1/nodes": Kind("Node", "v1", len(every), stored_nodes),
        "/api/v1/namespaces": Kind("Namespace", "v1", NAMESPACES, lambda start, end: namespaces[start:end]),
        "/api/v1/pods": Kind("Pod", "v1", pods, stored_pods),
        TOPOLOGIES: Kind(
            "NodeResourceTopology",
            "topology.node.k8s.io/v1alpha2",
            len(every),
            lambda start, end: store.items[start:end],
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


def _images() -> Iterator[Raw]:
    """Yield images with names and digests as long as real ones; they make up most of a Node."""
    for at in range(70):
        name = f"registry.example.com/platform/component-{at}/with-a-long-name"
        names = [f"{name}@sha256:{at:064x}", f"{name}:v1.{at}.0-{'x' * 150}"]
        yield {"names": names, "sizeBytes": 100_000_000 + at}


_STATUS = orjson.dumps({"images": list(_images())})[:-1] + b","


async def _serve(port: int, case: Case, pods: int) -> None:
    members = case.members()
    store = Store(case, members, [_topology(node, 1) for node in [*members, canary(1)]])
    served = kinds(store, pods)

    async def answer(request: web.Request) -> web.StreamResponse:
        kind = served.get(request.path)
        if kind is None:
            return web.Response(status=HTTPStatus.NOT_FOUND, text="404 page not found\n")
        if request.query.get("watch"):
            return await store.watch(request, kind)
        start, limit = (int(request.query.get(key, 0)) for key in ("continue", "limit"))
        return web.Response(body=kind.page(start, limit), content_type="application/json")

    app = web.Application()
    app.router.add_post("/canary", store.set_canary)
    app.router.add_post("/pace", store.set_pace)
    app.router.add_get("/changed", store.count)
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, port).start()
    await store.change()


async def started(here: Site, *, nodes: int, makes: int, pods: int = 0) -> ApiServer:
    """Start such an API server at a site."""
    port = free_port()
    words = (sys.executable, "-m", "tools.bench.api_server", *map(str, (port, nodes, makes, pods)))
    child = await here.children.start(*words, name="apiserver")
    door = Door(port)
    await soon(partial(answers, door, "/changed"), what="listening", child=child)
    return ApiServer(child, door, here.kubeconfig(port))


async def told(server: ApiServer, path: str, value: float) -> str:
    """Set the pace or the canary; return the answer."""
    return (await once(server.door, "POST", path, str(value).encode())).body.decode()


async def changed(server: ApiServer) -> int:
    """Return the number of topologies that have changed so far."""
    return int((await once(server.door, "GET", "/changed")).body)


if __name__ == "__main__":
    port, nodes, makes, pods = map(int, sys.argv[1:])
    asyncio.run(_serve(port, Case.mixed(nodes, makes, Policy.NONE), pods))
