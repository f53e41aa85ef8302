"""
The installed programs as processes, and what they report of themselves.

    async with site(folder) as here:
        webhook = await here.webhook("--snapshot", file)
        await once(webhook.door, "GET", "/healthz")

No program outlives the process that started it (`tools.clusters.processes`).
"""

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from sys import executable
from typing import Any

import orjson

from certs.authority import Files
from tools.clusters import certificates
from tools.clusters.fake_api import FakeApi
from tools.clusters.http_calls import LOOPBACK, Door, once, samples
from tools.clusters.processes import Child, Children, Memory, answers, free_port, memory, program, until

Json = dict[str, Any]

WEBHOOK, SCORER, CONTROLLER = "numalign-webhook", "numalign-scorer", "numalign-controller"
AGENT = "numalign-agent"

MIB = 1024**2
NAMESPACE = "numalign-system"
READY, HEALTH = "/readyz", "/healthz"


@dataclass(frozen=True, slots=True)
class Running:
    """A running program of numalign: `door` is for calls, `about` for its metrics and its readiness."""

    child: Child
    door: Door
    about: Door

    @property
    def name(self) -> str:
        return self.child.name

    def memory(self) -> Memory:
        return memory(self.child.process.pid)

    def forget_peak(self) -> None:
        """Reset the peak of memory (Documentation/filesystems/proc.rst, clear_refs)."""
        Path(f"/proc/{self.child.process.pid}/clear_refs").write_text("5", encoding="ascii")

    def events(self, event: str) -> list[Json]:
        """Return the events of this kind in the log, whose last line may be incomplete."""
        lines = self.child.log.read_bytes().splitlines(keepends=True)
        found = [orjson.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"\n")]
        return [line for line in found if line["event"] == event]

    async def metrics(self) -> str:
        return (await once(self.about, "GET", "/metrics")).body.decode()

    async def metric(self, name: str) -> float:
        found = samples(await self.metrics())
        return sum(value for series, value in found.items() if series.partition("{")[0] == name)


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A running fake API server."""

    child: Child
    door: Door
    kubeconfig: Path


@dataclass(frozen=True)
class Site:
    """Starts programs; their logs and files are in `folder`."""

    folder: Path
    children: Children

    @cached_property
    def pair(self) -> Files:
        """The certificate and key of the programs, and the authority that issued the certificate."""
        return certificates.pair(self.folder / "tls")

    def file(self, name: str, content: object) -> Path:
        path = self.folder / name
        path.write_bytes(orjson.dumps(content))
        return path

    async def api_server(self, objects: Sequence[Json]) -> ApiServer:
        listed = self.file("objects.json", {"items": objects})
        return await self.served("tools.clusters.fake_api", str(listed), path="/api/v1/nodes")

    async def served(self, module: str, *arguments: str, path: str) -> ApiServer:
        """Start a module that plays the API server; its last argument is the port. Return when it answers."""
        port = free_port()
        words = (executable, "-m", module, *arguments, str(port))
        child = await self.children.start(*words, name="apiserver")
        well = partial(answers, f"http://{LOOPBACK}:{port}{path}")
        await until(well, what="it was listening", child=child)
        server = FakeApi(url=f"http://{LOOPBACK}:{port}")
        kubeconfig = server.kubeconfig(self.folder / "kubeconfig", namespace=NAMESPACE)
        return ApiServer(child, Door(port), kubeconfig)

    async def webhook(self, *flags: str) -> Running:
        door = Door(free_port(), ssl.create_default_context(cafile=str(self.pair.ca)))
        pair = ("--tls-cert", str(self.pair.cert), "--tls-key", str(self.pair.key))
        return await self._started(WEBHOOK, door, "--port", str(door.port), *pair, *flags)

    async def scorer(self, *flags: str) -> Running:
        door = Door(free_port())
        return await self._started(SCORER, door, "--port", str(door.port), "--insecure-http=true", *flags)

    async def controller(self, *flags: str) -> Running:
        """Start the controller, which serves no calls, and return when it is ready."""
        return await self._started(CONTROLLER, None, *flags)

    async def served_map(self, *flags: str) -> Running:
        """Start the controller with the map, and without labels on nodes; return when it is ready."""
        door = Door(free_port())
        served = ("--map", "--map-port", str(door.port), "--label-nodes=false")
        return await self._started(CONTROLLER, door, *served, *flags)

    async def agent(self) -> Running:
        """Start an agent that finds no kubelet, and return when it answers."""
        where = ("--podresources-socket", str(self.folder / "none.sock"), "--kubelet-state", str(self.folder))
        flags = ("--node-name", "node", *where, "--output", str(self.folder / "node.json"))
        return await self._started(AGENT, None, *flags, path=HEALTH)

    async def _started(self, name: str, door: Door | None, *flags: str, path: str = READY) -> Running:
        about = Door(free_port())
        drain = () if name == AGENT else ("--drain-seconds", "0")
        here = ("--bind", LOOPBACK, "--metrics-port", str(about.port), *drain)
        child = await self.children.start(program(name), *here, *flags)
        ready = partial(answers, f"http://{LOOPBACK}:{about.port}{path}")
        await until(ready, what="it was ready", child=child)
        return Running(child, door or about, about)


@asynccontextmanager
async def site(folder: Path) -> AsyncIterator[Site]:
    """Provide a place for programs; all are killed at the end of the block."""
    logs = folder / "logs"
    logs.mkdir(parents=True)
    children = Children(logs)
    try:
        yield Site(folder, children)
    finally:
        await children.end()
