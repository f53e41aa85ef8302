"""
An API server with a cluster as large as real ones are, as a process of its own.

    python -m tools.bench.api_server NODES MAKES PODS PORT

It does little, so that what is measured beside it has a processor. Its nodes are those of `fleets`, as long
as real Nodes; pods are of a few hundred workloads, as long as real pods. Only topologies change: a PUT of one
is sent to all watches. One more node, the canary, is the only one with a certain resource.
"""

import asyncio
import random
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus

import orjson
from aiohttp import web

from numalign.model.intent import Policy
from numalign.model.node import Node
from numalign.model.resources import Resources
from tools.bench import cluster, fleets
from tools.bench.fleets import Case, Make, Raw
from tools.clusters.fake_api import FIRST_VERSION, line
from tools.clusters.http_calls import LOOPBACK
from tools.clusters.programs import ApiServer, Site
from tools.clusters.sim import documents

CANARY = "example.com/canary"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
WORKLOADS = 200
NAMESPACES = [b"team", *(b"team-%d" % at for at in range(1, 200))]
BOOKMARK_SECONDS = 10


def canary(free: int) -> Node:
    make = Make(1, Policy.SINGLE_NUMA_NODE)
    [zone] = make.machine(random.Random(0))  # noqa: S311 - it makes input, not secrets
    full, now = (Resources({**zone.allocatable, CANARY: count}) for count in (1, free))
    members = (replace(zone, capacity=full, allocatable=full, free=now),)
    return Node("canary", members, policy=make.policy, totals=Resources({**full, "pods": 110}))


def served(nodes: int, makes: int, pods: int) -> Mapping[str, tuple[str, int, Callable[[int], bytes]]]:
    """Return kinds by path, with their number of objects, and what makes one when a list contains it."""
    every = [*Case.mixed(nodes, makes, Policy.NONE).members(), canary(1)]
    objects = [orjson.dumps(each) for each in fleets.objects(every)]
    workloads = [orjson.dumps(_running(each)) for each in cluster.templates(WORKLOADS)]
    namespaces = [b'{"metadata":{"name":"%s"}}' % name for name in NAMESPACES]
    # Images make up most of a Node.
    image = "registry.example.com/platform/component-{}/with-a-long-name".format
    names = ((f"{image(at)}@sha256:{at:064x}", f"{image(at)}:v1.{at}.0-{'x' * 150}") for at in range(70))
    images = [{"names": each, "sizeBytes": 100_000_000 + at} for at, each in enumerate(names)]
    status = b'"status":' + orjson.dumps({"images": images})[:-1] + b","

    def pod(number: int) -> bytes:
        at = number % WORKLOADS
        made = workloads[at].replace(b"NAMESPACE-OF-POD", NAMESPACES[number % len(NAMESPACES)])
        made = made.replace(b"NAME-OF-POD", b"workload-%d-%06d" % (at, number))
        return made.replace(b"NODE-OF-POD", b"node-%05d" % (number % nodes))

    return {
        "/api/v1/nodes": ("Node", nodes + 1, lambda at: objects[2 * at].replace(b'"status":{', status, 1)),
        "/api/v1/namespaces": ("Namespace", len(namespaces), namespaces.__getitem__),
        "/api/v1/pods": ("Pod", pods, pod),
        TOPOLOGIES: ("NodeResourceTopology", nodes + 1, lambda at: objects[2 * at + 1]),
    }


def _running(made: Raw) -> Raw:
    """Return a pod as it is stored once it runs, with words in place of its name, namespace and node."""
    names = {"name": "NAME-OF-POD", "namespace": "NAMESPACE-OF-POD", "resourceVersion": "1"}
    spec = {**made["spec"], "nodeName": "NODE-OF-POD"}
    return {"metadata": {**made["metadata"], **names}, "spec": spec, "status": documents.running(made)}


def main(nodes: int, makes: int, pods: int, port: int) -> None:
    kinds, watches, version = served(nodes, makes, pods), list[web.StreamResponse](), FIRST_VERSION

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal version
        if request.method == "PUT":
            version += 1
            found = orjson.loads(await request.read())
            found["metadata"]["resourceVersion"] = str(version)
            for each in watches:
                # A client may end its watch at any time.
                with suppress(ConnectionError):
                    await each.write(line("MODIFIED", found))
            return web.Response(body=b"{}")
        if request.path not in kinds:
            return web.Response(status=HTTPStatus.NOT_FOUND, text="404 page not found\n")
        kind, number, item = kinds[request.path]
        group = request.path.split("/", 2)[2].rpartition("/")[0]
        head: Raw = {"apiVersion": group, "metadata": {"resourceVersion": str(version)}}
        if request.query.get("watch"):
            watch = web.StreamResponse(headers={"Content-Type": "application/json"})
            await watch.prepare(request)
            if request.path == TOPOLOGIES:
                watches.append(watch)
            while True:
                head["metadata"]["resourceVersion"] = str(version)
                await watch.write(line("BOOKMARK", {**head, "kind": kind}))
                await asyncio.sleep(BOOKMARK_SECONDS)
        start, limit = (int(request.query.get(key, 0)) for key in ("continue", "limit"))
        end = min(start + (limit or number), number)
        if end < number:
            head["metadata"]["continue"] = str(end)
        began = orjson.dumps({**head, "kind": f"{kind}List"})[:-1]
        body = began + b',"items":[' + b",".join(map(item, range(start, end))) + b"]}"
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    web.run_app(app, host=LOOPBACK, port=port, print=None)


async def started(here: Site, *, nodes: int, makes: int, pods: int = 0) -> ApiServer:
    numbers = map(str, (nodes, makes, pods))
    return await here.served("tools.bench.api_server", *numbers, path="/api/v1/namespaces")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
