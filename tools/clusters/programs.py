"""
The installed programs as processes, and what the kernel and the programs report of themselves.

    async with site(folder) as here:
        webhook = await here.webhook("--snapshot", file)
        await once(webhook.door, "GET", "/healthz")

No program outlives the process that started it (`tools.clusters.processes`).
"""

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from http import HTTPStatus
from pathlib import Path
from sys import executable
from typing import Any, TypeVar

import orjson
from cryptography.hazmat.primitives.asymmetric import ec

from certs import authority
from certs.authority import Files
from numalign.runtime.tls import PairFiles
from tools.clusters.certificates import certificate, key_pem
from tools.clusters.fake_api import FakeApi
from tools.clusters.http_calls import LOOPBACK, Door, once
from tools.clusters.processes import Child, Children, free_port, program

Json = dict[str, Any]
T = TypeVar("T")

WEBHOOK, SCORER, CONTROLLER = "numalign-webhook", "numalign-scorer", "numalign-controller"
AGENT = "numalign-agent"

DAY = timedelta(days=1)
KIB = 1024
MIB = 1024**2
LONGEST_START = 60
NAMESPACE = "numalign-system"
READY, HEALTH = "/readyz", "/healthz"


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes in use now, and the peak since it was last forgotten."""

    now: int
    most: int


@dataclass(frozen=True, slots=True)
class Running:
    """A running program of numalign: `door` is for calls, `about` for its metrics and its readiness."""

    child: Child
    log: Path
    door: Door
    about: Door

    @property
    def name(self) -> str:
        return self.child.name

    def memory(self) -> Memory:
        """Return its memory as the kernel counts it."""
        status = Path(f"/proc/{self.child.process.pid}/status").read_text(encoding="ascii")
        kib = dict(re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", status))
        return Memory(int(kib["VmRSS"]) * KIB, int(kib["VmHWM"]) * KIB)

    def forget_peak(self) -> None:
        """Reset the peak of memory (Documentation/filesystems/proc.rst, clear_refs)."""
        Path(f"/proc/{self.child.process.pid}/clear_refs").write_text("5", encoding="ascii")

    def events(self, event: str) -> list[Json]:
        return [line for line in events(self.log) if line["event"] == event]

    async def metrics(self) -> str:
        return (await once(self.about, "GET", "/metrics")).body.decode()

    async def metric(self, name: str) -> float:
        found = samples(await self.metrics())
        return sum(value for series, value in found.items() if series.partition("{")[0] == name)

    async def ready(self) -> bool:
        """Return whether it reports that it is ready."""
        return await answers(self.about, READY)


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A running fake API server."""

    child: Child
    door: Door
    kubeconfig: Path


@dataclass(frozen=True)
class Site:
    """Starts programs, each at most once; their logs and files are in `folder`."""

    folder: Path
    children: Children

    @cached_property
    def pair(self) -> Files:
        """The certificate and key of the programs, and the authority that issued the certificate."""
        made = authority.issue(names=[LOOPBACK], days=1, now=datetime.now(UTC))
        return authority.write(made, self.folder / "tls")

    def file(self, name: str, content: object) -> Path:
        path = self.folder / name
        path.write_bytes(orjson.dumps(content))
        return path

    async def api_server(self, objects: Sequence[Json]) -> ApiServer:
        listed = self.file("objects.json", {"items": objects})
        port = free_port()
        words = (executable, "-m", "tools.clusters.fake_api", str(listed), str(port))
        child = await self.children.start(*words, name="apiserver")
        door = Door(port)
        await soon(partial(answers, door), what="listening", child=child)
        return ApiServer(child, door, self.kubeconfig(port))

    @cached_property
    def caller(self) -> PairFiles:
        """The certificate and key of a caller; the certificate is self-signed."""
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        made = PairFiles(self.folder / "caller.crt", self.folder / "caller.key")
        made.cert.write_bytes(certificate(key, since=now - DAY, until=now + DAY))
        made.key.write_bytes(key_pem(key))
        return made

    def proven(self, program: Running) -> Running:
        """Return the same program, to be called with the certificate of `caller`."""
        trust = ssl.create_default_context(cafile=str(self.pair.ca))
        trust.load_cert_chain(self.caller.cert, self.caller.key)
        return replace(program, door=replace(program.door, tls=trust))

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

    async def agent(self) -> Running:
        """Start an agent that finds no kubelet, and return when it answers."""
        about, output = Door(free_port()), self.folder / "node.json"
        where = ("--podresources-socket", str(self.folder / "none.sock"), "--kubelet-state", str(self.folder))
        here = ("--bind", LOOPBACK, "--metrics-port", str(about.port), "--output", str(output))
        child = await self.children.start(program(AGENT), "--node-name", "node", *where, *here)
        await soon(partial(answers, about, HEALTH), what="alive", child=child)
        return Running(child, self.children.logs / AGENT, about, about)

    async def served_map(self, *flags: str) -> Running:
        """Start the controller with the map, and without labels on nodes; return when it is ready."""
        door = Door(free_port())
        served = ("--map", "--map-port", str(door.port), "--label-nodes=false")
        return await self._started(CONTROLLER, door, *served, *flags)

    async def _started(self, name: str, door: Door | None, *flags: str) -> Running:
        about = Door(free_port())
        here = ("--bind", LOOPBACK, "--metrics-port", str(about.port), "--drain-seconds", "0")
        child = await self.children.start(program(name), *here, *flags)
        made = Running(child, self.children.logs / name, door or about, about)
        await soon(made.ready, what="ready", child=child)
        return made

    def kubeconfig(self, port: int) -> Path:
        server = FakeApi(url=f"http://{LOOPBACK}:{port}")
        return server.kubeconfig(self.folder / "kubeconfig", namespace=NAMESPACE)


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


def events(log: Path) -> list[Json]:
    """Return the events in a log, without an incomplete last line."""
    lines = log.read_bytes().splitlines(keepends=True)
    return [orjson.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"\n")]


def samples(page: str) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in page.splitlines() if line and not line.startswith("#"))
    return {series: float(value) for series, _, value in lines}


async def answers(door: Door, path: str = "/api/v1/nodes") -> bool:
    """Return whether a path answers with 200."""
    try:
        return (await once(door, "GET", path)).status == HTTPStatus.OK
    except OSError:
        return False


async def soon(
    look: Callable[[], Awaitable[T]], *, what: str, child: Child, seconds: float = LONGEST_START
) -> T:
    """Return the first true result of `look`. Raise `RuntimeError` after `seconds`, or if the child ended."""
    until = time.monotonic() + seconds
    while not (seen := await look()):
        if time.monotonic() > until or not child.running():
            raise RuntimeError(f"{child.name}: {seconds:.0f} s went by, or it ended, before {what}")
        await asyncio.sleep(0.02)
    return seen
