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
from functools import partial
from http import HTTPStatus
from typing import Any

import aiohttp
from cryptography import x509

from tools.clusters.api_requests import Json
from tools.clusters.processes import Child, Children, free_port, until
from tools.clusters.wires import Wire, wire

PROBE_SECONDS = 0.1
PORTS = ("port", "metrics-port")
ONLY_METRICS = PORTS[1:]
"""The ports of a program that serves no calls."""
PATIENCE = aiohttp.ClientTimeout(total=5)


class Replica:
    """A process that is probed as by a kubelet.

    `url` is its address for calls, `telling` that for probes, metrics and its state. `log` is its output, and
    `lost` counts how often it became unready.
    """

    def __init__(
        self,
        children: Children,
        *,
        name: str,
        command: Sequence[str],
        scheme: str = "https",
        ports: Sequence[str] = PORTS,
    ) -> None:
        self.name = name
        self.log = children.logs / name
        free = {each: free_port() for each in PORTS}
        self.port, self.metrics_port = free.values()
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        # Versions without a port for metrics serve probes and metrics at the port for calls.
        apart = PORTS[1] in ports
        self.telling = f"http://127.0.0.1:{self.metrics_port}" if apart else self.url
        self.ready = False
        self.lost = 0
        told = [f"--{each}={free[each]}" for each in ports]
        self._start = partial(children.start, *command, *told, name=name)

    async def start(self) -> None:
        """Start the process, and return at once."""
        self.child: Child = await self._start()

    async def probe(self, session: aiohttp.ClientSession) -> None:
        """Ask the process whether it is ready for calls, and remember the answer."""
        before, self.ready = self.ready, await self._says_ready(session)
        self.lost += before and not self.ready

    async def is_ready(self) -> bool:
        """Return whether it was ready at the last probe."""
        return self.ready

    async def _says_ready(self, session: aiohttp.ClientSession) -> bool:
        with suppress(aiohttp.ClientError, TimeoutError):
            async with session.get(f"{self.telling}/readyz", ssl=False) as answer:
                return answer.status == HTTPStatus.OK
        return False

    async def serial(self) -> int:
        """Return the serial number of the certificate for new connections."""
        shown = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", self.port))
        return x509.load_pem_x509_certificate(shown.encode()).serial_number

    async def validated(self, wish: Json, *, namespace: str) -> Json:
        """Return the `response` of this replica to the validation of a pod's creation."""
        return await self._reviewed("/validate", wish, namespace)

    async def mutated(self, wish: Json, *, namespace: str) -> list[Json]:
        """Return the operations of JSON Patch by which this replica changes such a pod."""
        said = await self._reviewed("/mutate", wish, namespace)
        operations: list[Json] = json.loads(b64decode(said.get("patch", "")) or "[]")
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
        async with (
            aiohttp.ClientSession(timeout=PATIENCE) as session,
            session.post(f"{self.url}{path}", json=review, ssl=False) as answer,
        ):
            said: Json = (await answer.json())["response"]
            return said

    async def metrics(self) -> str:
        """Return its page of metrics, as Prometheus would read it."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.telling}/metrics", ssl=False) as answer,
        ):
            return await answer.text()

    async def state(self) -> dict[str, Any]:
        """Return its state, if it is configured to serve that."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.telling}/debug/state", ssl=False) as answer,
        ):
            found: dict[str, Any] = await answer.json()
            return found

    async def metric(self, name: str) -> float:
        """Return the value of a metric without labels; fail if there is none."""
        said = await self.metrics()
        found = re.search(rf"^{name} (\S+)$", said, re.MULTILINE)
        assert found, f"{self.name} has no metric {name}"
        return float(found[1])


class Replicas:
    """The running replicas, and their common address."""

    def __init__(  # noqa: PLR0913  the parameters of a process, and the address
        self,
        children: Children,
        *,
        command: Sequence[str],
        service: Wire,
        name: str = "replica",
        scheme: str = "https",
        ports: Sequence[str] = PORTS,
    ) -> None:
        self.running: list[Replica] = []
        self.service = service
        self.url = f"{scheme}://127.0.0.1:{service.port}"
        self._new = partial(Replica, children, command=command, scheme=scheme, ports=ports)
        self._name = name
        self._started = 0
        self._turns = 0

    def next(self) -> int | None:
        """Return the port for the next connection; None if no replica is ready."""
        ready = [replica.port for replica in self.running if replica.ready]
        self._turns += 1
        return ready[self._turns % len(ready)] if ready else None

    async def add(self) -> Replica:
        """Start another replica, and return at once: if they elect a leader, only one is ready at a time."""
        self._started += 1
        replica = self._new(name=f"{self._name}-{self._started}")
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
        async with aiohttp.ClientSession(timeout=PATIENCE) as session:
            while True:
                await asyncio.gather(*(replica.probe(session) for replica in self.running))
                await asyncio.sleep(PROBE_SECONDS)


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
        everyone = Replicas(children, command=command, service=service, name=name, scheme=scheme, ports=ports)
        service.where = everyone.next
        probing = asyncio.create_task(everyone.probe())
        try:
            yield everyone
        finally:
            probing.cancel()
            with suppress(asyncio.CancelledError):
                await probing
            await asyncio.gather(*(each.child.end() for each in everyone.running))
