"""Replicas of a program of numalign, like those of a Deployment, and the Service in front of them.

Each replica is a process with a port of its own. Like a Service, the wire in front of them leads each new
connection to a replica that reports to be ready, in turn, and leaves existing connections alone.
"""

import asyncio
import json
import re
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any

import aiohttp
from cryptography import x509

from tools.clusters.api_requests import Json
from tools.clusters.processes import Child, Children, free_port, until
from tools.clusters.wires import Wire, wire

PORTS = ("port", "metrics-port")
ONLY_METRICS = PORTS[1:]
"""The ports of a program that serves no calls."""


class Replica:
    """A process that is probed as by a kubelet.

    `url` is its address for calls, `telling` that for probes, metrics and its state. `log` is its output, and
    `lost` counts how often it became unready.
    """

    def __init__(
        self, children: Children, command: Sequence[str], *, name: str, scheme: str, ports: Sequence[str]
    ) -> None:
        self.name = name
        self.log = children.logs / name
        free = {each: free_port() for each in PORTS}
        self.port, metrics_port = free.values()
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        # Versions without a port for metrics serve probes and metrics at the port for calls.
        self.telling = f"http://127.0.0.1:{metrics_port}" if PORTS[1] in ports else self.url
        self.ready = False
        self.lost = 0
        self._start = partial(
            children.start, *command, *(f"--{each}={free[each]}" for each in ports), name=name
        )

    async def start(self) -> None:
        """Start the process, and return at once."""
        self.child: Child = await self._start()

    async def probe(self, session: aiohttp.ClientSession) -> None:
        """Ask the process whether it is ready for calls, and remember the answer."""
        ready = False
        with suppress(aiohttp.ClientError, TimeoutError):
            async with session.get(f"{self.telling}/readyz", ssl=False) as answer:
                ready = answer.status == HTTPStatus.OK
        self.lost += self.ready and not ready
        self.ready = ready

    async def is_ready(self) -> bool:
        """Return whether it was ready at the last probe."""
        return self.ready

    async def serial(self) -> int:
        """Return the serial number of the certificate for new connections."""
        shown = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", self.port))
        return x509.load_pem_x509_certificate(shown.encode()).serial_number

    async def validated(self, wish: Json, *, namespace: str) -> Json:
        """Return the `response` of this replica to the validation of a pod's creation."""
        return await self._reviewed("/validate", wish, namespace)

    async def mutated(self, wish: Json, *, namespace: str) -> list[Json]:
        """Return the operations of JSON Patch by which this replica changes such a pod."""
        response = await self._reviewed("/mutate", wish, namespace)
        operations: list[Json] = json.loads(b64decode(response.get("patch", "")) or "[]")
        return operations

    async def _reviewed(self, path: str, wish: Json, namespace: str) -> Json:
        asked = {
            "uid": "8b0a4e9c-3a55-4a57-9d5f-6f0c1d1f0a11",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
            "object": wish,
            "dryRun": True,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
        response: Json = json.loads(await _read("POST", f"{self.url}{path}", review))["response"]
        return response

    async def metrics(self) -> str:
        """Return its page of metrics, as Prometheus would read it."""
        return await _read("GET", f"{self.telling}/metrics")

    async def state(self) -> dict[str, Any]:
        """Return its state, if it is configured to serve that."""
        found: dict[str, Any] = json.loads(await _read("GET", f"{self.telling}/debug/state"))
        return found

    async def metric(self, name: str) -> float:
        """Return the value of a metric without labels; fail if there is none."""
        found = re.search(rf"^{name} (\S+)$", await self.metrics(), re.MULTILINE)
        assert found, f"{self.name} has no metric {name}"
        return float(found[1])


async def _read(method: str, url: str, body: Json | None = None) -> str:
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session,
        session.request(method, url, json=body, ssl=False) as answer,
    ):
        return await answer.text()


@dataclass(slots=True, eq=False)
class Replicas:
    """The running replicas, and their common address, which is that of the `service`."""

    children: Children
    command: Sequence[str]
    service: Wire
    name: str
    scheme: str
    ports: Sequence[str]
    running: list[Replica] = field(default_factory=list)
    _started: int = 0
    _turns: int = 0

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.service.port}"

    def next(self) -> int | None:
        """Return the port for the next connection; None if no replica is ready."""
        ready = [replica.port for replica in self.running if replica.ready]
        self._turns += 1
        return ready[self._turns % len(ready)] if ready else None

    async def add(self) -> Replica:
        """Start another replica, and return at once: if they elect a leader, only one is ready at a time."""
        self._started += 1
        name = f"{self.name}-{self._started}"
        replica = Replica(self.children, self.command, name=name, scheme=self.scheme, ports=self.ports)
        await replica.start()
        self.running.append(replica)
        return replica

    async def start(self) -> Replica:
        """Start another replica, and return when it is ready."""
        replica = await self.add()
        await until(replica.is_ready, what=f"{replica.name} was ready", child=replica.child)
        return replica

    async def stop(self, replica: Replica) -> int:
        """Stop a replica as a Deployment does; it gets no calls once it is unready. Return its exit code."""
        code = await replica.child.stop()
        self.running.remove(replica)
        return code

    async def kill(self, replica: Replica) -> None:
        """Kill a replica at once, like a power failure, and remove it."""
        await replica.child.end()
        self.running.remove(replica)

    async def end(self) -> None:
        for replica in tuple(self.running):
            await self.stop(replica)

    async def probe(self) -> None:
        """Probe all replicas again and again; never returns."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
            while True:
                await asyncio.gather(*(replica.probe(session) for replica in self.running))
                await asyncio.sleep(0.1)


@asynccontextmanager
async def replicas(
    children: Children,
    *,
    command: Sequence[str],
    name: str = "replica",
    scheme: str = "https",
    ports: Sequence[str] = PORTS,
) -> AsyncIterator[Replicas]:
    """
    Yield an empty set of replicas behind an address, and probe them; kill those that still run at the end.

    The names of their logs are `name` and a number.
    """
    async with wire() as service:
        everyone = Replicas(children, command, service, name, scheme, ports)
        service.where = everyone.next
        probing = asyncio.create_task(everyone.probe())
        try:
            yield everyone
        finally:
            probing.cancel()
            with suppress(asyncio.CancelledError):
                await probing
            await asyncio.gather(*(each.child.end() for each in everyone.running))
