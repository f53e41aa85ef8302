"""
One cell of the scheduling rate: a queue of pods, a scheduler that starts, and when each pod is bound.

All programs are real: etcd, kube-apiserver, kube-scheduler, the scorer of numalign. Nodes exist only as
objects, and their kubelets do only what a binder waits for: as soon as a pod is bound, they write into its
status that it runs. They do so in every cell, with or without an extender. Half of the nodes have two zones,
the other half eight zones with one GPU each, and there is room for far more pods than arrive.

Each way with the scorer of numalign has a counterpart with an extender that does nothing, and one without an
extender. The difference from the first is the cost of numalign; the difference between the two is the cost of
the protocol.
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
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

import aiohttp
import orjson
import yaml

from numalign.kube.client import Api
from tools.bench.calls import MERGE, Json, processor_seconds
from tools.bench.site import SCORER, Site, control_plane
from tools.clusters import fleets, shipped
from tools.clusters.api_objects import namespace
from tools.clusters.api_requests import INTENT, ask
from tools.clusters.controlplane import schedulers
from tools.clusters.controlplane.planes import Plane
from tools.clusters.controlplane.schedulers import Extender
from tools.clusters.fleets import Shape
from tools.clusters.gotools import BrokenError, Workshop
from tools.clusters.http_calls import Door, once
from tools.clusters.processes import Child, Children, free_port
from tools.clusters.programs import READY, answers, samples, soon
from tools.clusters.sim.desk import TOPOLOGIES, learn
from tools.clusters.sim.documents import stamp
from tools.clusters.sim.shapes import GPU
from tools.clusters.waiting import SELDOM, seconds_until

NAMESPACE = "default"
SHAPES = (
    Shape(zones=2, cpus=64, gib=512, devices={GPU: 4}, policy="single-numa-node"),
    Shape(zones=8, cpus=16, gib=128, devices={GPU: 1}, policy="restricted"),
)
TEMPLATES = ((4, 16, 1), (8, 32, 1), (2, 8, 1), (12, 48, 2))
"""CPUs, GiB of memory and GPUs of pods, in turn."""

ADMIN, KUBELETS, EMPTY, EXTENDER = "admin", "kubelets", "empty-extender", "extender"
# Access rights are not measured.
USERS = {**schedulers.USERS, **dict.fromkeys((ADMIN, KUBELETS, SCORER, EMPTY), "system:masters")}

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
PATIENCE_SECONDS = 300
AT_ONCE = 16
"""Concurrent writes, of the client that creates pods and nodes, and of the kubelets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A way to schedule; `empty` and `none` name the cells to compare it with.

    `verbs` are those that are called, which decides who binds. If the extender is `apart`, it has a processor
    for itself, as on a separate host.
    """

    title: str
    extender: Literal["", "empty", "numalign"] = ""
    verbs: Sequence[str] = ("filter", "prioritize")
    apart: bool = False
    empty: str = ""
    none: str = ""

    def configuration(self, kubeconfig: Path, url: str) -> dict[str, Any]:
        """Return a KubeSchedulerConfiguration, without extenders if there is none to call."""
        extender = Extender(url=url, verbs=self.verbs) if self.extender else None
        return schedulers.configuration(kubeconfig, extender=extender)


_BIND = ("filter", "prioritize", "bind")
_RANK = ("filter", "prioritize", "preempt")
_empty = partial(Cell, extender="empty", none="none")
_ours = partial(Cell, extender="numalign", verbs=(*_BIND, "preempt"), none="none")
_OWN = "on a processor of its own"

_SHARED: Mapping[str, Cell] = {
    "none": Cell(title="no extender"),
    "empty": _empty(title="empty: filter, prioritize"),
    "numalign-rank": _ours(title="numalign, --reserve-at prioritize", verbs=_RANK, empty="empty"),
    "empty-bind": _empty(title="empty: filter, prioritize, bind", verbs=_BIND),
    "numalign-bind": _ours(title="numalign, --reserve-at bind (default)", empty="empty-bind"),
}
CELLS: Mapping[str, Cell] = {
    **_SHARED,
    **{
        f"{name}-apart": replace(
            cell,
            title=f"{cell.title}, {_OWN}" if cell.extender else f"{cell.title}, on the other processors",
            apart=True,
            empty=cell.empty and f"{cell.empty}-apart",
            none=cell.none and f"{cell.none}-apart",
        )
        for name, cell in _SHARED.items()
    },
}
"""Cells that are compared run one after another, as conditions change."""


def nodes(number: int) -> Iterator[tuple[Json, Json]]:
    """Yield so many nodes, each with its topology."""
    for index in range(number):
        name, shape = f"node-{index:05}", SHAPES[index % len(SHAPES)]
        yield fleets.node(name, shape), fleets.topology(name, shape)


def pods(number: int) -> Iterator[Json]:
    """Yield so many Guaranteed pods."""
    for index in range(number):
        cpus, gib, gpus = TEMPLATES[index % len(TEMPLATES)]
        amounts = {"cpu": str(cpus), "memory": f"{gib}Gi", GPU: str(gpus)}
        resources = {"requests": amounts, "limits": amounts}
        metadata = {"name": f"pod-{index:05}", "namespace": NAMESPACE, "annotations": dict(INTENT)}
        container = {"name": "main", "image": "registry.example/main", "resources": resources}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


@dataclass(frozen=True, slots=True)
class Run:
    """Pods bound per second, from the first to the last, and processor milliseconds per pod by program."""

    rate: float
    cpu: Mapping[str, float]


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
    cpu: list[Mapping[str, float]] = field(default_factory=list)
    _waiting: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def follow(self, version: str) -> None:
        """Follow pods from a version of their list on, and start those that get a node."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._take())
            while True:
                # An API server ends the watch of a client that is slow for a moment.
                query = {"watch": "true", "resourceVersion": version}
                async with self.session.get(PODS, params=query) as answer:
                    async for line in answer.content:
                        pod = orjson.loads(line)["object"]
                        self._note(pod)
                        version = pod["metadata"]["resourceVersion"]

    def _note(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        if "nodeName" not in pod["spec"] or name in self.bound or self.enough.is_set():
            return
        self.bound[name] = time.monotonic()
        self._waiting.put_nowait(name)
        if len(self.bound) in {1, self.expected}:
            self.cpu.append(self.used())
        if len(self.bound) == self.expected:
            self.enough.set()

    async def _take(self) -> None:
        while True:
            path = f"{PODS}/{await self._waiting.get()}/status"
            running = orjson.dumps({"status": {"phase": "Running", "startTime": stamp()}})
            headers = {"Content-Type": MERGE}
            async with self.session.patch(path, data=running, headers=headers) as answer:
                # Failures are raised; the content of a response is not needed.
                await answer.read()

    def run(self) -> Run:
        """Return the results, once enough pods are bound."""
        times, (before, *_, after) = [*self.bound.values()], self.cpu
        pods = len(times) - 1
        cpu = {name: 1000 * (seconds - before.get(name, 0)) / pods for name, seconds in after.items()}
        return Run(pods / (times[-1] - times[0]), cpu)


@dataclass(frozen=True, slots=True)
class SchedulingSite:
    """A control plane with nodes, and the program of the empty extender."""

    site: Site
    kubelets: aiohttp.ClientSession
    empty: Path
    nodes: int
    pods: int

    async def measure(self, name: str) -> Run:
        """Run one of `CELLS`; raise `RuntimeError` if pods are left without a node."""
        cell = CELLS[name]
        version = await self._queue()
        try:
            async with self._extender(cell) as url:
                with _apart(self.site.children) if cell.apart else nullcontext():
                    kubelets = Kubelets(self.kubelets, self.pods, self._used)
                    following = asyncio.create_task(kubelets.follow(version))
                    try:
                        async with self._scheduler(cell, url):
                            await _all_bound(kubelets, following, name)
                            return kubelets.run()
                    finally:
                        following.cancel()
                        await asyncio.wait([following])
        finally:
            await self._clear()

    async def _queue(self) -> str:
        """Create every pod, without a scheduler; return the version of their list."""
        await _in_parallel(partial(self._create, PODS, pod) for pod in pods(self.pods))
        listed = await ask(self.site.store.api, "GET", PODS, limit="1")
        version: str = listed.body["metadata"]["resourceVersion"]
        return version

    async def _create(self, path: str, document: Json) -> None:
        answer = await ask(self.site.store.api, "POST", path, document)
        if answer.code != HTTPStatus.CREATED:
            raise RuntimeError(f"{document['metadata']['name']} was not created: {answer}")

    async def fill(self) -> None:
        """Create the definition of topologies, the namespace of numalign, and nodes with their topologies."""
        await learn(Api(self.site.store.api, namespace=NAMESPACE))
        await self.site.store.apply(namespace(shipped.NAMESPACE, {}))
        await _in_parallel(
            partial(self._create, path, document)
            for pair in nodes(self.nodes)
            for path, document in zip(("/api/v1/nodes", TOPOLOGIES), pair, strict=True)
        )

    async def _clear(self) -> None:
        """Delete all pods, and all events."""
        for path in (PODS, EVENTS):
            await ask(self.site.store.api, "DELETE", path, gracePeriodSeconds="0")
        left = partial(self.site.store.list, "v1", "Pod")
        await seconds_until(left, lambda pods: not pods, what="no pod was left", within=60, every=SELDOM)

    def _used(self) -> dict[str, float]:
        """Return the processor seconds of each running program so far; this one plays the kubelets."""
        running = filter(Child.running, self.site.children.started)
        return {child.name: processor_seconds(child.process.pid) for child in running}

    @asynccontextmanager
    async def _scheduler(self, cell: Cell, url: str) -> AsyncIterator[None]:
        kubeconfig = self.site.kubeconfig(schedulers.USER)
        file = kubeconfig.with_name("scheduler.yaml")
        file.write_text(yaml.safe_dump(cell.configuration(kubeconfig, url)))
        running = await schedulers.start(
            self.site.children,
            str(self.site.plane.binaries / "kube-scheduler"),
            f"--config={file}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={file.parent}",
            name="kube-scheduler",
        )
        yield
        await running.child.end()

    @asynccontextmanager
    async def _extender(self, cell: Cell) -> AsyncIterator[str]:
        """Run the extender of a cell, if it has one, and yield its URL; its start is not measured."""
        if not cell.extender:
            yield ""
            return
        port, metrics_port = free_port(), free_port()
        about = Door(port if cell.extender == "empty" else metrics_port)
        commands: Mapping[str, Sequence[object]] = {
            "empty": (
                *(self.empty, "-port", port, "-token", EMPTY),
                *("-server", self.site.plane.url, "-ca", self.site.plane.ca),
            ),
            # It has a Lease, so that it is ready and may bind.
            "numalign": (
                *(sys.executable, "-m", "scorer", "--bind", "127.0.0.1", "--insecure-http"),
                *("--port", port, "--metrics-port", metrics_port, "--drain-seconds", "0"),
                *("--namespace", shipped.NAMESPACE, "--kubeconfig", self.site.kubeconfig(SCORER)),
                *("--reserve-at", "bind" if "bind" in cell.verbs else "prioritize"),
            ),
        }
        child = await self.site.children.start(*map(str, commands[cell.extender]), name=EXTENDER)
        await soon(partial(answers, about, READY), what="the extender was ready", child=child)

        async def knows() -> bool:
            found = samples((await once(about, "GET", "/metrics")).body.decode())
            known = sum(value for name, value in found.items() if name.startswith("numalign_ledger_nodes{"))
            return known >= self.nodes

        if cell.extender == "numalign":
            await soon(knows, what="all nodes were in its ledger", child=child)
        yield f"http://127.0.0.1:{port}"
        # It releases its Lease, so that the next one need not wait for it.
        await child.stop()


async def _all_bound(kubelets: Kubelets, following: asyncio.Task[None], name: str) -> None:
    enough = asyncio.create_task(kubelets.enough.wait())
    await asyncio.wait((enough, following), timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    if enough.cancel():
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
async def site(*, nodes: int, pods: int) -> AsyncIterator[SchedulingSite]:
    """Run a control plane with so many nodes."""
    # New nodes are tainted until a controller has seen them, and there is none here.
    flags = ("--disable-admission-plugins=TaintNodesByCondition",)
    empty = _built()
    with tempfile.TemporaryDirectory(prefix="numalign-bench-") as made:
        folder = Path(made)
        async with (
            control_plane(folder, users=USERS, flags=flags, client=ADMIN) as plane,
            _session(plane.plane) as kubelets,
        ):
            ready = SchedulingSite(plane, kubelets, empty, nodes, pods)
            await ready.fill()
            yield ready


def _session(plane: Plane) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        plane.url,
        connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=plane.ca)),
        headers={"Authorization": f"Bearer {KUBELETS}"},
        timeout=aiohttp.ClientTimeout(sock_read=PATIENCE_SECONDS),
        raise_for_status=True,
    )


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


def _built() -> Path:
    """Return the empty extender, built with Go if necessary; raise `UnavailableError` without Go."""
    shop = Workshop(EMPTY, Path(__file__).with_name("empty_extender"))
    digest = hashlib.sha256((shop.folder / "main.go").read_bytes()).hexdigest()[:12]
    program = shop.cache(digest, EMPTY)
    if not program.exists():
        go = shop.compiler(program)
        command = [go, "build", "-trimpath", "-o", str(program), "."]
        # Go itself reports errors on standard error.
        if subprocess.run(command, cwd=shop.folder, check=False).returncode:  # noqa: S603 - our own program
            raise BrokenError(f"go could not build {shop.folder}")
    return program
