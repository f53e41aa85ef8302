"""
Measure how long a webhook takes from its start until it is ready, and its memory afterwards.

A separate process plays the API server of a large cluster with objects as large as real ones: nodes with all
their images, pods with environment variables and managed fields. The webhook starts on that cluster. The
times are from its start until `/readyz` answers 200, and until it has read the pods too, on which no answer
depends. Memory is what the kernel counts, at the peak and after a pause. Of other programs that follow pods,
only the memory is measured.
"""

import asyncio
import contextlib
import http.client
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from multiprocessing.connection import Connection
from pathlib import Path

import orjson
from aiohttp import web

from certs import authority
from tools.bench import cluster, command_line, servers
from tools.bench.cluster import Raw
from tools.bench.figures import table
from tools.bench.servers import Server, Webhook
from tools.bench.targets import READY_S, START_MIB

LONGEST_START = 300
PODS_READ = 'numalign_watch_lists_total{kind="Pod"}'
SETTLING = 5.0
ZONES = 2
TEMPLATES = 200
NAMESPACES = 200
BOOKMARK_SECONDS = 10

FIRST_VERSION = 1000
_NAME, _NAMESPACE, _ON = "name-of-this-pod", "namespace-of-this-pod", "node-of-this-pod"

BESIDE: Mapping[str, tuple[str, ...]] = {
    "scorer": ("--insecure-http", "true"),
    "controller": ("--gates", "true", "--heal", "true"),
}
"""Other programs that follow pods, with all their features enabled."""

Items = Callable[[int, int], list[bytes]]
"""Returns the objects from one number up to another, as a list contains them."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers of nodes and pods in the cluster."""

    nodes: int
    pods: int


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
        metadata = {"resourceVersion": str(FIRST_VERSION)} | (
            {"continue": str(end)} if end < self.number else {}
        )
        head = {"kind": f"{self.name}List", "apiVersion": self.api_version, "metadata": metadata}
        return orjson.dumps(head)[:-1] + b',"items":[' + b",".join(self.items(start, end)) + b"]}"

    def bookmark(self) -> bytes:
        """Return an event that reports no change."""
        metadata = {"resourceVersion": str(FIRST_VERSION)}
        found = {"kind": self.name, "apiVersion": self.api_version, "metadata": metadata}
        return orjson.dumps({"type": "BOOKMARK", "object": found}) + b"\n"


def kinds(sizes: Sizes) -> Mapping[str, Kind]:
    """Return what is served, by path."""
    found = iter(cluster.snapshot(sizes.nodes)["items"])
    pairs = [_pair(node, topology) for node, topology in zip(found, found, strict=True)]
    nodes, topologies = ([orjson.dumps(pair[at]) for pair in pairs] for at in (0, 1))
    namespaces = [orjson.dumps({"metadata": {"name": f"team-{at}"}}) for at in range(NAMESPACES)]
    return {
        "/api/v1/nodes": Kind("Node", "v1", sizes.nodes, stored(nodes)),
        "/api/v1/namespaces": Kind("Namespace", "v1", NAMESPACES, stored(namespaces)),
        "/api/v1/pods": Kind("Pod", "v1", sizes.pods, _pods(sizes.nodes)),
        "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies": Kind(
            "NodeResourceTopology", "topology.node.k8s.io/v1alpha2", sizes.nodes, stored(topologies)
        ),
    }


def stored(items: Sequence[bytes]) -> Items:
    """Return a function that serves these objects as they are at the time of a request."""
    return lambda start, end: list(items[start:end])


def _pods(nodes: int) -> Items:
    """Return a function that serves pods of a few hundred workloads on all nodes, each with its own name."""
    templates = [orjson.dumps(_pod(each.pod)) for each in cluster.templates(TEMPLATES)]

    def items(start: int, end: int) -> list[bytes]:
        return [
            templates[number % TEMPLATES]
            .replace(_NAMESPACE.encode(), b"team-%d" % (number % NAMESPACES))
            .replace(_NAME.encode(), b"workload-%d-%06d" % (number % TEMPLATES, number))
            .replace(_ON.encode(), b"node-%05d" % (number % nodes))
            for number in range(start, end)
        ]

    return items


def _pod(made: Raw) -> Raw:
    """Return a pod as it is stored once it runs."""
    metadata = {**made["metadata"], "name": _NAME, "namespace": _NAMESPACE, "resourceVersion": "1"}
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    return {
        "metadata": metadata,
        "spec": {**made["spec"], "nodeName": _ON},
        "status": {"phase": "Running", "conditions": conditions},
    }


def _pair(node: Raw, topology: Raw) -> tuple[Raw, Raw]:
    """Return a node as large as real ones are, and its topology: two zones with four resources."""
    zones = [_zone(zone) for zone in topology["zones"][:ZONES]]
    allocatable = {
        resource["name"]: str(int(resource["allocatable"]) * ZONES) for resource in zones[0]["resources"]
    }
    metadata = {**node["metadata"], "resourceVersion": "1", "labels": _labels(node["metadata"]["name"])}
    status = {
        "allocatable": {**allocatable, "pods": "110"},
        "capacity": {**allocatable, "pods": "110"},
        "nodeInfo": {"kubeletVersion": "v1.34.0", "osImage": "Linux", "architecture": "amd64"},
        "images": [_image(at) for at in range(50)],
    }
    topology["metadata"]["resourceVersion"] = "1"
    return {"metadata": metadata, "spec": {}, "status": status}, {**topology, "zones": zones}


def _zone(zone: Raw) -> Raw:
    known = {each["name"]: each for each in zone["resources"]}
    more = (cluster.GPU, "example.com/nic", "hugepages-1Gi")
    empty = [
        {"name": name, "capacity": "4", "allocatable": "4", "available": "4"}
        for name in more
        if name not in known
    ]
    resources = [*known.values(), *empty][: len(("cpu", "memory", *more)) - 1]
    return {**zone, "costs": zone["costs"][:ZONES], "resources": resources}


def _labels(name: str) -> dict[str, str]:
    features = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{at}": "true" for at in range(120)}
    return {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "a", **features}


def _image(at: int) -> Raw:
    name = f"registry.example.com/platform/component-{at}/with-a-long-name"
    digest = f"{at:064x}"
    return {
        "names": [f"{name}@sha256:{digest}", f"{name}:v1.{at}.0-{'x' * 150}"],
        "sizeBytes": 100_000_000 + at,
    }


def play(sizes: Sizes, told: Connection) -> None:
    """Serve as the API server: send its port once it listens, and never end by itself."""
    asyncio.run(_play(kinds(sizes), told))


async def _play(served: Mapping[str, Kind], told: Connection) -> None:
    told.send(await listen(served, quiet))
    await asyncio.Event().wait()


Watched = Callable[[web.Request, Kind], Awaitable[web.StreamResponse]]
"""Responds to a watch of a kind."""


async def listen(served: Mapping[str, Kind], watched: Watched) -> int:
    """Serve lists of these kinds, and watches by `watched`; return the port."""

    async def answer(request: web.Request) -> web.StreamResponse:
        kind = served.get(request.path)
        if kind is None:
            return web.Response(status=HTTPStatus.NOT_FOUND, text="404 page not found\n")
        if request.query.get("watch"):
            return await watched(request, kind)
        start, limit = (int(request.query.get(key, 0)) for key in ("continue", "limit"))
        return web.Response(body=kind.page(start, limit), content_type="application/json")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return int(runner.addresses[0][1])


async def quiet(request: web.Request, kind: Kind) -> web.StreamResponse:
    """Stream a watch in which nothing changes."""
    answer = await opened(request)
    # A client may end its watch at any time.
    with contextlib.suppress(ConnectionResetError):
        while True:
            await answer.write(kind.bookmark())
            await asyncio.sleep(BOOKMARK_SECONDS)
    return answer


async def opened(request: web.Request) -> web.StreamResponse:
    """Return a watch that has sent no event yet."""
    answer = web.StreamResponse(headers={"Content-Type": "application/json"})
    await answer.prepare(request)
    return answer


@contextlib.contextmanager
def api_server(sizes: Sizes) -> Iterator[int]:
    """Serve such a cluster at the port that it yields."""
    context = multiprocessing.get_context("spawn")
    told, tell = context.Pipe(duplex=False)
    process = context.Process(target=play, args=(sizes, tell), daemon=True)
    process.start()
    try:
        yield told.recv()
    finally:
        process.terminate()
        process.join(timeout=10)


@contextlib.contextmanager
def started(port: int, flags: Sequence[str]) -> Iterator[Webhook]:
    """Run a webhook that follows the cluster at a port; start the block when it is ready.

    Raise `RuntimeError` with its log if it ends, or does not become ready.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        issued = authority.issue(names=["127.0.0.1"], days=1, now=datetime.now(UTC))
        files = authority.write(issued, folder / "tls")
        settings = {
            "--kubeconfig": _kubeconfig(folder / "kubeconfig", port),
            "--tls-cert": files.cert,
            "--tls-key": files.key,
            "--drain-seconds": 0,
        }
        began = time.perf_counter()
        with servers.started("webhook", settings, *flags, folder=folder) as server:
            while not _says_ready(server.metrics_port):
                if time.perf_counter() - began > LONGEST_START or server.process.poll() is not None:
                    raise RuntimeError(f"the webhook did not become ready:\n{(folder / 'log').read_text()}")
                time.sleep(0.02)
            yield Webhook(replace(server, starting=time.perf_counter() - began), files.ca)


def held(program: str, sizes: Sizes, flags: Sequence[str] = (), *, settling: float = SETTLING) -> str:
    """Return a line with the memory of one of `BESIDE` on such a cluster; without lease it writes nothing."""
    with api_server(sizes) as port, tempfile.TemporaryDirectory() as made:
        settings = {
            "--kubeconfig": _kubeconfig(Path(made) / "kubeconfig", port),
            "--namespace": "numalign-system",
            "--drain-seconds": 0,
        }
        told = (*BESIDE[program], *flags)
        with servers.started(program, settings, *told, folder=Path(made)) as server:
            _until_pods_are_read(server)
            time.sleep(settling)
            memory = server.memory()
    of = f"{program}, {sizes.nodes} nodes, {sizes.pods} pods"
    return f"{of}: {memory['most']:.0f} MiB at the peak, {memory['now']:.0f} MiB after a pause"


def _kubeconfig(path: Path, port: int) -> Path:
    content = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "none"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_bytes(orjson.dumps(content))
    return path


def _says_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()


def _until_pods_are_read(program: Webhook | Server) -> float:
    """Return the seconds from now until a whole list of the pods has been read."""
    began = time.perf_counter()
    while PODS_READ not in program.metrics():
        if time.perf_counter() - began > LONGEST_START:
            raise RuntimeError("the pods were not read")
        time.sleep(0.1)
    return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Outcome:
    """All figures, in seconds and MiB."""

    sizes: Sizes
    ready: float
    counted: float
    memory: Mapping[str, float]

    def document(self) -> Raw:
        """Return the figures for a file."""
        return {
            "nodes": self.sizes.nodes,
            "pods": self.sizes.pods,
            "ready_s": self.ready,
            "pods_read_s": self.counted,
            "rss_mib": dict(self.memory),
        }

    def __str__(self) -> str:
        """Return the table and the targets."""
        rows = [
            ("from start to ready, seconds", f"{self.ready:.1f}"),
            ("until the pods were read too", f"{self.counted:.1f}"),
            ("memory at the peak, MiB", f"{self.memory['most']:.0f}"),
            ("memory after a pause, MiB", f"{self.memory['now']:.0f}"),
        ]
        return "\n".join(
            [
                table([f"{self.sizes.nodes} nodes, {self.sizes.pods} pods", ""], rows),
                judged("ready within", "seconds", found=self.ready, aim=READY_S),
                judged("at most", "MiB", found=self.memory["most"], aim=START_MIB),
            ]
        )


def judged(what: str, unit: str, *, found: float, aim: float) -> str:
    """Return a line with a target, and whether it was met."""
    return f"target {'met' if found <= aim else 'MISSED'}: {what} {aim:.0f} {unit}; it was {found:.1f}"


def measure(sizes: Sizes, flags: Sequence[str] = (), *, settling: float = SETTLING) -> Outcome:
    """Start a webhook on such a cluster; measure when it is ready, and its memory once it has settled."""
    with api_server(sizes) as port, started(port, flags) as webhook:
        counted = _until_pods_are_read(webhook)
        time.sleep(settling)
        ready = webhook.server.starting
        return Outcome(sizes, ready, ready + counted, webhook.server.memory())


def main() -> int:
    """Measure as the flags say; return 0 however slow it was."""
    parser = command_line.parser("tools.bench.coldstart", __doc__)
    parser.add_argument("--nodes", type=int, default=5000, help="nodes of the cluster (default 5000)")
    parser.add_argument("--pods", type=int, default=50_000, help="pods of the cluster (default 50000)")
    parser.add_argument(
        "--settling",
        type=float,
        default=SETTLING,
        help="seconds to pause before the memory is measured (default 5)",
    )
    parser.add_argument(
        "--program", choices=[*BESIDE], help="measure the memory of this program, not the webhook"
    )
    parser.add_argument("flags", nargs="*", help="flags for the program, after --")
    chosen = parser.parse_args()
    if min(chosen.nodes, chosen.pods) <= 0 or chosen.settling < 0:
        parser.error("--nodes and --pods must be above zero, and --settling must not be negative")
    sizes = Sizes(chosen.nodes, chosen.pods)
    if chosen.program:
        print(held(chosen.program, sizes, chosen.flags, settling=chosen.settling))
        return 0
    outcome = measure(sizes, chosen.flags, settling=chosen.settling)
    print(outcome)
    command_line.write(outcome.document(), chosen.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
