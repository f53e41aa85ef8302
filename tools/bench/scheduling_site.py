"""
One cell of the scheduling rate: a queue of pods, a scheduler that starts, and when each pod is bound.

All programs are real: etcd, kube-apiserver, kube-scheduler, the scorer of numalign. Nodes exist only as
objects, and their kubelets do only what a binder waits for: as soon as a pod is bound, they write into its
status that it runs. They do so in every cell, with or without an extender.
"""

import asyncio
import hashlib
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import yaml

from certs import authority
from numalign.kube.client import Api
from tools.bench import scheduling_load
from tools.bench.scheduling_cells import CELLS, Cell, Who
from tools.bench.scheduling_load import NAMESPACE
from tools.clusters import shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import ask
from tools.clusters.controlplane import schedulers
from tools.clusters.controlplane.planes import Place, Plane
from tools.clusters.gotools import BrokenError, Workshop
from tools.clusters.processes import Child, Children, free_port, until
from tools.clusters.sim.desk import TOPOLOGIES, ApiDesk
from tools.clusters.sim.documents import stamp
from tools.clusters.waiting import SELDOM, seconds_until

Json = dict[str, Any]

ADMIN, KUBELETS = "admin", "kubelets"
SCORER = f"system:serviceaccount:{shipped.NAMESPACE}:numalign-scorer"
EMPTY = "empty-extender"
EXTENDER = "extender"
OTHERS = "others"
# Access rights are not measured.
USERS = {**schedulers.USERS, **dict.fromkeys((ADMIN, KUBELETS, SCORER, EMPTY), "system:masters")}

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
PATIENCE_SECONDS = 300
_MERGE = {"Content-Type": "application/merge-patch+json"}
KNOWN = "numalign_ledger_nodes{"
AT_ONCE = 16
"""Concurrent writes, of the client that creates pods and nodes, and of the kubelets."""


@dataclass(frozen=True, slots=True)
class Run:
    """The seconds at which pods were bound, in order, and the processor seconds of each program.

    `OTHERS` is the name for all other programs of this machine meanwhile.
    """

    bound: Sequence[float]
    used: Mapping[str, float]

    @property
    def rate(self) -> float:
        """Pods bound per second, from the first to the last."""
        return rate(self.bound)

    @property
    def steady(self) -> float:
        """The same without the first and the last tenth of the pods."""
        tenth = len(self.bound) // 10
        return rate(self.bound[tenth : len(self.bound) - tenth])

    @property
    def others(self) -> float:
        """How many processors were busy with other programs: what is left of them decides the rate."""
        return self.used.get(OTHERS, 0.0) / (self.bound[-1] - self.bound[0])

    def cpu(self) -> dict[str, float]:
        """Return milliseconds of a processor per pod, by program."""
        ours = {name: seconds for name, seconds in self.used.items() if name != OTHERS}
        return {name: 1000 * seconds / (len(self.bound) - 1) for name, seconds in ours.items()}


def rate(times: Sequence[float]) -> float:
    """Return how many per second came after the first."""
    return (len(times) - 1) / (times[-1] - times[0])


# ---- bound pods, and the kubelets that start them


@dataclass(slots=True)
class Kubelets:
    """All kubelets; they follow pods by one watch, and note when each pod gets a node.

    They access the API server through a plain session, as the processor time that they use is not what is
    measured. `enough` is set once `expected` pods are bound; `used` is called then and at the first one.
    """

    session: aiohttp.ClientSession
    expected: int
    used: Callable[[], Mapping[str, float]]
    bound: dict[str, float] = field(default_factory=dict)
    enough: asyncio.Event = field(default_factory=asyncio.Event)
    _before: Mapping[str, float] = field(default_factory=dict)
    _after: Mapping[str, float] = field(default_factory=dict)
    _waiting: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def follow(self, version: str) -> None:
        """Follow pods from a version of their list on, and start those that get a node."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._take())
            while True:
                # An API server ends the watch of a client that is slow for a moment.
                version = await self._watch(version)

    async def _watch(self, version: str) -> str:
        """Follow pods until the watch ends; return the last version that was received."""
        query = {"watch": "true", "resourceVersion": version}
        async with self.session.get(PODS, params=query) as answer:
            async for line in answer.content:
                pod = orjson.loads(line)["object"]
                self._hear(pod)
                version = pod["metadata"]["resourceVersion"]
        return version

    def _hear(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        if "nodeName" not in pod["spec"] or name in self.bound or self.enough.is_set():
            return
        self.bound[name] = time.monotonic()
        self._waiting.put_nowait(name)
        if len(self.bound) == 1:
            self._before = self.used()
        if len(self.bound) == self.expected:
            self._after = self.used()
            self.enough.set()

    async def _take(self) -> None:
        while True:
            path = f"{PODS}/{await self._waiting.get()}/status"
            taken = orjson.dumps({"status": {"phase": "Running", "startTime": stamp()}})
            async with self.session.patch(path, data=taken, headers=_MERGE) as answer:
                # Failures are raised; the content of a response is not needed.
                await answer.read()

    def run(self) -> Run:
        """Return the results, once enough pods are bound."""
        used = {name: seconds - self._before.get(name, 0) for name, seconds in self._after.items()}
        return Run([*self.bound.values()], used)


# ---- the control plane and the programs of a cell


@dataclass(frozen=True, slots=True)
class Site:
    """A control plane with nodes, and the program of the empty extender."""

    plane: Plane
    children: Children
    store: Store
    kubelets: aiohttp.ClientSession
    empty: Path
    nodes: int
    pods: int

    async def measure(self, name: str) -> Run:
        """Run one of `CELLS`; raise `RuntimeError` if pods are left without a node."""
        cell = CELLS[name]
        version = await self._queue(cell)
        try:
            async with AsyncExitStack() as stack:
                url = await stack.enter_async_context(_SERVING[cell.who](self, cell))
                if cell.apart:
                    stack.enter_context(_apart(self.children))
                kubelets = Kubelets(self.kubelets, self.pods, partial(used, self.children))
                following = await stack.enter_async_context(_at_work(kubelets, version))
                await stack.enter_async_context(self._scheduler(cell, url))
                await _all_bound(kubelets, following, name)
                return kubelets.run()
        finally:
            await self._clear()

    async def _queue(self, cell: Cell) -> str:
        """Create every pod, without a scheduler; return the version of their list."""
        await _in_parallel(
            partial(self._create, PODS, pod) for pod in scheduling_load.pods(self.pods, kind=cell.pods)
        )
        listed = await ask(self.store.api, "GET", PODS, limit="1")
        version: str = listed.body["metadata"]["resourceVersion"]
        return version

    async def _create(self, path: str, document: Json) -> None:
        answer = await ask(self.store.api, "POST", path, document)
        if answer.code != HTTPStatus.CREATED:
            raise RuntimeError(f"{document['metadata']['name']} was not created: {answer}")

    async def fill(self, nodes: int) -> None:
        """Create the definition of topologies, the namespace of numalign, and nodes with their topologies."""
        await ApiDesk(Api(self.store.api, namespace=NAMESPACE)).learn()
        await self.store.apply(namespace(shipped.NAMESPACE, {}))
        await _in_parallel(
            partial(self._create, path, document)
            for pair in scheduling_load.nodes(nodes)
            for path, document in zip(("/api/v1/nodes", TOPOLOGIES), pair, strict=True)
        )

    async def _clear(self) -> None:
        """Delete all pods, and all events."""
        for path in (PODS, EVENTS):
            await ask(self.store.api, "DELETE", path, gracePeriodSeconds="0")
        left = partial(self.store.list, "v1", "Pod")
        await seconds_until(left, lambda pods: not pods, what="no pod was left", within=60, every=SELDOM)

    def kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig with which a program authenticates as one of `USERS`."""
        folder = self.plane.folder / user.replace(":", "-")
        folder.mkdir(exist_ok=True)
        return self.plane.kubeconfig(user, folder)

    @asynccontextmanager
    async def _scheduler(self, cell: Cell, url: str) -> AsyncIterator[None]:
        kubeconfig = self.kubeconfig(schedulers.USER)
        file = kubeconfig.with_name("scheduler.yaml")
        file.write_text(yaml.safe_dump(cell.configuration(kubeconfig, url)))
        running = await schedulers.start(
            self.children,
            str(self.plane.binaries / "kube-scheduler"),
            f"--config={file}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={file.parent}",
            name="kube-scheduler",
        )
        yield
        await running.child.end()


@asynccontextmanager
async def _nobody_serves(_site: Site, _cell: Cell) -> AsyncIterator[str]:
    yield ""


@asynccontextmanager
async def _empty_serves(site: Site, _cell: Cell) -> AsyncIterator[str]:
    port = free_port()
    command = (
        *(str(site.empty), "-port", str(port), "-token", EMPTY),
        *("-server", site.plane.url, "-ca", str(site.plane.ca)),
    )
    url = f"http://127.0.0.1:{port}"
    async with _served(site, command, told=url):
        yield url


@asynccontextmanager
async def _python_serves(site: Site, _cell: Cell) -> AsyncIterator[str]:
    port, metrics_port = free_port(), free_port()
    command = (
        *(sys.executable, "-m", "tools.bench.empty_server"),
        *("--port", str(port), "--metrics-port", str(metrics_port)),
        *("--kubeconfig", str(site.kubeconfig(SCORER))),
    )
    async with _served(site, command, told=f"http://127.0.0.1:{metrics_port}"):
        yield f"http://127.0.0.1:{port}"


@asynccontextmanager
async def _numalign_serves(site: Site, cell: Cell) -> AsyncIterator[str]:
    """Run the scorer with its Lease, so that it is ready and may bind."""
    port, metrics_port = free_port(), free_port()
    told = f"http://127.0.0.1:{metrics_port}"
    command = (
        *(sys.executable, "-m", "scorer", "--bind", "127.0.0.1", "--insecure-http"),
        *("--port", str(port), "--metrics-port", str(metrics_port)),
        *("--namespace", shipped.NAMESPACE, "--kubeconfig", str(site.kubeconfig(SCORER))),
        *("--reserve-at", "bind" if "bind" in cell.verbs else "prioritize", "--drain-seconds", "0"),
    )
    async with _served(site, command, told=told):
        # The start is not measured.
        all_known = partial(_knows, told, site.nodes)
        await until(all_known, what="all nodes were in its ledger", child=site.children.started[-1])
        yield f"http://127.0.0.1:{port}"
        (site.children.logs / "extender-metrics").write_text(await _metrics(told), encoding="utf-8")


async def _metrics(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        return await answer.text()


async def _knows(url: str, nodes: int) -> bool:
    """Return whether the free resources of so many nodes have been worked out."""
    told = (line.rpartition(" ")[2] for line in (await _metrics(url)).splitlines() if line.startswith(KNOWN))
    return sum(map(float, told)) >= nodes


@asynccontextmanager
async def _served(site: Site, command: Sequence[str], *, told: str) -> AsyncIterator[None]:
    """Run an extender; start the block once the URL `told` reports that it is ready."""
    child = await site.children.start(*command, name=EXTENDER)
    await until(partial(_ready, told), what="the extender was ready", child=child)
    yield
    # It releases its Lease, so that the next one need not wait for it.
    await child.stop()


async def _ready(url: str) -> bool:
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as answer:
            return answer.status == HTTPStatus.OK
    except aiohttp.ClientConnectionError:
        return False


_SERVING = {
    Who.NOBODY: _nobody_serves,
    Who.EMPTY: _empty_serves,
    Who.PYTHON: _python_serves,
    Who.NUMALIGN: _numalign_serves,
}


@asynccontextmanager
async def _at_work(kubelets: Kubelets, version: str) -> AsyncIterator[asyncio.Task[None]]:
    """Run the kubelets during the block; the task ends only if something fails."""
    following = asyncio.create_task(kubelets.follow(version))
    try:
        yield following
    finally:
        following.cancel()
        await asyncio.wait([following])


async def _all_bound(kubelets: Kubelets, following: asyncio.Task[None], name: str) -> None:
    enough = asyncio.create_task(kubelets.enough.wait())
    await asyncio.wait((enough, following), timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    if enough.cancel():
        await asyncio.wait([enough])
        why = following.exception() if following.done() else None
        found = f"{len(kubelets.bound)} of {kubelets.expected} pods were bound"
        raise RuntimeError(f"{name}: {found} within {PATIENCE_SECONDS} s at most") from why


async def _in_parallel(writes: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Run all writes, some of them at once; the first that fails is raised."""
    rest = iter(writes)

    async def worker() -> None:
        for write in rest:
            await write()

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(worker())


@asynccontextmanager
async def site(
    *, binaries: Path, empty: Path, nodes: int, pods: int, logs: Path | None
) -> AsyncIterator[Site]:
    """Run a control plane with so many nodes; its programs log to the folder `logs`, if it is given."""
    with tempfile.TemporaryDirectory(prefix="numalign-bench-") as made:
        folder = Path(made)
        keep = logs or folder / "logs"
        keep.mkdir(parents=True, exist_ok=True)
        issued = authority.issue(names=["127.0.0.1"], days=1, now=datetime.now(UTC))
        pair = authority.write(issued, folder / "tls")
        children = Children(logs=keep)
        # New nodes are tainted until a controller has seen them, and there is none here.
        flags = ("--disable-admission-plugins=TaintNodesByCondition",)
        plane = Plane(children, Place(binaries, folder, pair), users=USERS, flags=flags)
        try:
            await plane.start()
            async with plane.client(ADMIN) as admin, _session(plane) as kubelets:
                made_ready = Site(plane, children, Store(admin), kubelets, empty, nodes, pods)
                await made_ready.fill(nodes)
                yield made_ready
        finally:
            await children.end()


def _session(plane: Plane) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        plane.url,
        connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=plane.ca)),
        headers={"Authorization": f"Bearer {KUBELETS}"},
        timeout=aiohttp.ClientTimeout(sock_read=PATIENCE_SECONDS),
        raise_for_status=True,
    )


# ---- processors


@contextmanager
def _apart(children: Children) -> Iterator[None]:
    """Give the extender the last processor for itself, and everything else the others."""
    every = os.sched_getaffinity(0)
    own = {max(every)}
    try:
        for child in filter(Child.running, children.started):
            _keep_to(child.process.pid, own if child.name == EXTENDER else every - own or every)
        # Programs that are started from now on inherit it.
        _keep_to(os.getpid(), every - own or every)
        yield
    finally:
        for pid in (os.getpid(), *(child.process.pid for child in children.started if child.running())):
            _keep_to(pid, every)


def _keep_to(pid: int, processors: AbstractSet[int]) -> None:
    """Bind all threads of a program, and those that it will start, to these processors."""
    for thread in Path("/proc", str(pid), "task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), processors)


# ---- seconds of a processor


def used(children: Children) -> dict[str, float]:
    """Return the processor seconds of each running program so far, by name; this one plays the kubelets."""
    running = {
        child.name: _ticks(f"{child.process.pid}", ticks) for child in children.started if child.running()
    }
    ours = {**running, KUBELETS: time.process_time()}
    return {**ours, OTHERS: _ticks("", busy) - sum(ours.values())}


def _ticks(folder: str, read: Callable[[str], int]) -> float:
    """Return the seconds that a `stat` below /proc reports."""
    return read(Path("/proc", folder, "stat").read_text(encoding="ascii")) / os.sysconf("SC_CLK_TCK")


def busy(stat: str) -> int:
    """Return the ticks of /proc/stat that all processors were busy (man 5 proc: all but idle and iowait)."""
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, stat.splitlines()[0].split()[1:])
    return user + nice + system + irq + softirq


def ticks(stat: str) -> int:
    """Return the ticks of /proc/PID/stat in user mode and in the kernel (man 5 proc, utime and stime)."""
    # The name of the program comes second, in parentheses, and may contain anything.
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


# ---- the empty extender


FOLDER = Path(__file__).with_name("empty_extender")
WORKSHOP = Workshop(name=EMPTY, folder=FOLDER)


def built() -> Path:
    """Return the empty extender, built with Go if necessary; raise `UnavailableError` without Go."""
    digest = hashlib.sha256((FOLDER / "main.go").read_bytes()).hexdigest()[:12]
    program = WORKSHOP.cache(digest, EMPTY)
    if not program.exists():
        go = WORKSHOP.compiler(otherwise="no Go here to build the empty extender with")
        WORKSHOP.say("building it: once, and it takes a moment")
        command = [go, "build", "-trimpath", "-o", str(program), "."]
        # Go itself reports errors on standard error.
        if subprocess.run(command, cwd=FOLDER, check=False).returncode:  # noqa: S603 - our own program
            raise BrokenError(f"go could not build {FOLDER}")
    return program
