"""Replicas of a program of numalign, like those of a Deployment, and the Service in front of them.

Each replica is a process with a port of its own. Like a Service, the wire in front of them leads each new
connection to a replica that reports to be ready, in turn, and leaves existing connections alone.
"""

import asyncio
import json
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiohttp
from cryptography import x509

from tools.clusters.api_requests import Json
from tools.clusters.http_calls import JSON, review, samples
from tools.clusters.processes import Child, Children, answers, free_port, until
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
        self, name: str, *, children: Children, command: Sequence[str], scheme: str, ports: Sequence[str]
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

    async def probe(self) -> None:
        """Ask the process whether it is ready for calls, and remember the answer."""
        ready = await answers(f"{self.telling}/readyz")
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
        body = review(wish, uid="8b0a4e9c-3a55-4a57-9d5f-6f0c1d1f0a11", namespace=namespace, dry=True)
        response: Json = json.loads(await _read("POST", f"{self.url}{path}", body))["response"]
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
        return samples(await self.metrics())[name]


async def _read(method: str, url: str, body: bytes | None = None) -> str:
    timeout, headers = aiohttp.ClientTimeout(total=30), {"Content-Type": JSON} if body else {}
    async with (
        aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
        session.request(method, url, data=body, ssl=False) as answer,
    ):
        return await answer.text()


@dataclass(slots=True, eq=False)
class Replicas:
    """The running replicas, and their common address, which is that of the `service`."""

    name: str
    make: Callable[[str], Replica]
    service: Wire
    url: str
    running: list[Replica] = field(default_factory=list)
    _started: int = 0
    _turns: int = 0

    def next(self) -> int | None:
        """Return the port for the next connection; None if no replica is ready."""
        ready = [replica.port for replica in self.running if replica.ready]
        self._turns += 1
        return ready[self._turns % len(ready)] if ready else None

    async def add(self) -> Replica:
        """Start another replica, and return at once: if they elect a leader, only one is ready at a time."""
        self._started += 1
        replica = self.make(f"{self.name}-{self._started}")
        await replica.start()
        self.running.append(replica)
        return replica

    async def start(self) -> Replica:
        """Start another replica, and return when it is ready."""
        replica = await self.add()
        await until(replica.is_ready, what="it was ready", child=replica.child)
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
        while True:
            await asyncio.gather(*(replica.probe() for replica in self.running))
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
    make = partial(Replica, children=children, command=command, scheme=scheme, ports=ports)
    async with wire() as service:
        everyone = Replicas(name, make, service, f"{scheme}://127.0.0.1:{service.port}")
        service.where = everyone.next
        probing = asyncio.create_task(everyone.probe())
        try:
            yield everyone
        finally:
            probing.cancel()
            with suppress(asyncio.CancelledError):
                await probing
            await asyncio.gather(*(each.child.end() for each in everyone.running))
