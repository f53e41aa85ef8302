"""
An API server whose topologies keep changing, as those of a large cluster do, for `tools.bench.churn`.

It is a separate process that does little, so that what is measured beside it has a processor. Its nodes are
those of `fleets.py`; each change gives a node other free amounts. One more node, the canary, is the only one
with a certain resource: a pod that requests it shows whether the canary's last change was seen.
"""

import asyncio
import contextlib
import multiprocessing
import random
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection

import orjson
from aiohttp import web

from numalign.model.intent import Policy
from numalign.model.node import Node
from numalign.model.resources import Resources
from tools.bench import coldstart, documents
from tools.bench.coldstart import FIRST_VERSION, NAMESPACES, Kind
from tools.bench.fleets import MODELS, Case, Make

CANARY = "example.com/canary"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
REMEMBERED = 20_000
"""Changes that a watch can still request after it was interrupted."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Command: from now on, change so many topologies each second."""

    per_second: float


@dataclass(frozen=True, slots=True)
class Canary:
    """Command: from now on, so many of the canary's devices are free. The reply is the time of its start."""

    free: int


@dataclass(frozen=True, slots=True)
class Count:
    """Query: the reply is the number of topologies that have changed so far."""


@dataclass(slots=True)
class Store:
    """The current topologies, and the watches of them."""

    case: Case
    members: Sequence[Node]
    items: list[bytes]
    version: int = FIRST_VERSION
    changed: int = 0
    watches: list[web.StreamResponse] = field(default_factory=list)
    lines: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    async def watch(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        """Stream the changes of topologies after a version; nothing else ever changes."""
        if request.path != TOPOLOGIES:
            return await coldstart.quiet(request, kind)
        answer, since = await coldstart.opened(request), int(request.query["resourceVersion"])
        await answer.write(b"".join(said for version, said in self.lines if version > since))
        self.watches.append(answer)
        await asyncio.Event().wait()
        return answer

    async def change_one(self) -> None:
        """Change the free amounts of another node."""
        self.changed += 1
        [node] = self.case.changed(self.members, 0, self.changed)
        await self.put(int(node.name.removeprefix("node-")), node)

    async def put(self, at: int, node: Node) -> None:
        """Store the topology of a node and send it to all watches."""
        self.version += 1
        self.items[at] = _topology(node, self.version)
        said = b'{"type":"MODIFIED","object":' + self.items[at] + b"}\n"
        self.lines.append((self.version, said))
        for watch in [*self.watches]:
            # A client may end its watch at any time.
            try:
                await watch.write(said)
            except ConnectionError:
                self.watches.remove(watch)


def canary(free: int) -> Node:
    """Return the only node with the canary's resource, so many of which are free."""
    make = Make(1, Policy.SINGLE_NUMA_NODE, hardware=replace(MODELS[0], more=((CANARY, 1),)))
    [zone] = make.machine(random.Random(0))  # noqa: S311 - it makes input, not secrets
    free_here = Resources({**zone.allocatable, CANARY: free})
    totals = Resources({**zone.allocatable, "pods": 110})
    return Node("canary", (replace(zone, free=free_here),), policy=make.policy, totals=totals)


def _topology(node: Node, version: int) -> bytes:
    _, topology = documents.pair(node)
    return orjson.dumps({**topology, "metadata": {"name": node.name, "resourceVersion": str(version)}})


def _node(node: Node) -> bytes:
    registered, _ = documents.pair(node)
    return orjson.dumps({**registered, "metadata": {"name": node.name, "resourceVersion": "1"}})


def play(nodes: int, makes: int, ends: Connection) -> None:
    """Serve as the API server: send its port once it listens, and follow commands until it is killed."""
    asyncio.run(_play(Case.mixed(nodes, makes, Policy.NONE), ends))


async def _play(case: Case, ends: Connection) -> None:
    members = case.members()
    every = [*members, canary(1)]
    store = Store(case, members, [_topology(node, 1) for node in every])
    namespaces = [orjson.dumps({"metadata": {"name": f"team-{at}"}}) for at in range(NAMESPACES)]
    served = {
        "/api/v1/nodes": Kind("Node", "v1", len(every), coldstart.stored([*map(_node, every)])),
        "/api/v1/namespaces": Kind("Namespace", "v1", NAMESPACES, coldstart.stored(namespaces)),
        "/api/v1/pods": Kind("Pod", "v1", 0, coldstart.stored([])),
        TOPOLOGIES: Kind(
            "NodeResourceTopology",
            "topology.node.k8s.io/v1alpha2",
            len(every),
            coldstart.stored(store.items),
        ),
    }
    ends.send(await coldstart.listen(served, store.watch))
    told: asyncio.Queue[Pace | Canary | Count] = asyncio.Queue()
    asyncio.get_running_loop().add_reader(ends.fileno(), lambda: told.put_nowait(ends.recv()))
    await _obey(store, told, ends)


async def _obey(store: Store, told: "asyncio.Queue[Pace | Canary | Count]", ends: Connection) -> None:
    changing = asyncio.create_task(_change(store, 0))
    while True:
        match await told.get():
            case Pace(per_second):
                changing.cancel()
                changing = asyncio.create_task(_change(store, per_second))
            case Canary(free):
                began = time.perf_counter()
                await store.put(len(store.members), canary(free))
                ends.send(began)
            case Count():
                ends.send(store.changed)


async def _change(store: Store, per_second: float) -> None:
    """Change one topology after another, at the rate of the clock."""
    due = time.perf_counter()
    while per_second:
        due += 1 / per_second
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        await store.change_one()


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Its port, and a line for commands; times are those of `perf_counter`, which all processes share."""

    port: int
    pid: int
    line: Connection

    def pace(self, per_second: float) -> None:
        """Change so many topologies each second from now on."""
        self.line.send(Pace(per_second))

    def set_canary(self, free: int) -> float:
        """Change the canary; return the time at which that began."""
        self.line.send(Canary(free))
        return float(self.line.recv())

    def changed(self) -> int:
        """Return the number of topologies that have changed so far."""
        self.line.send(Count())
        return int(self.line.recv())


@contextlib.contextmanager
def serving(nodes: int, makes: int) -> Iterator[ApiServer]:
    """Run such an API server, in which nothing changes without a command."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=play, args=(nodes, makes, theirs), daemon=True)
    process.start()
    try:
        yield ApiServer(ours.recv(), process.pid or 0, ours)
    finally:
        process.terminate()
        process.join(timeout=10)
