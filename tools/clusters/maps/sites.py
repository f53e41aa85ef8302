"""A map on a port of this machine, of a cluster that can change while the map is open."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import StringIO
from typing import Any

import orjson
from prometheus_client import CollectorRegistry

from numalign.kube.files import snapshot
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.pod_informer import PodInformer
from numalign.ledger.reservations import Reservations
from numalign.map import http
from numalign.map.access import LocalAccess, MapAccess
from numalign.map.events import Streams
from numalign.map.http import MapService
from numalign.map.state import MapState
from numalign.model.intent import Match
from numalign.runtime import logs, server
from numalign.runtime.server_settings import ServerSettings
from numalign.scheduling.scheduler_state import SchedulerState

Json = dict[str, Any]


@dataclass
class ShownCluster:
    """A cluster in memory; tests can add, change and remove pods."""

    objects: Sequence[Json]

    def __post_init__(self) -> None:
        self.output, self.registry = StringIO(), CollectorRegistry()
        self.log = logs.to(self.output, level="info", form="json")
        has_pods = any(each["kind"] == "Pod" for each in self.objects)
        self.state = SchedulerState(
            Reservations(),
            policy=PolicyKeeper(None, log=self.log, registry=self.registry),
            match=Match.SATISFIES,
            clock=time.monotonic,
            wall=time.time,
            # Without pods, only the reports of topologies are known.
            complete=lambda _snapshot: has_pods,
        )
        self._informer = PodInformer(
            self.state, self.state.reader, log=self.log, registry=CollectorRegistry()
        )

    async def fill(self) -> None:
        objects = [*self.objects]
        await self.state.update_snapshot(snapshot.of(objects, where="the map's cluster"))
        for each in objects:
            if each["kind"] == "Pod":
                self.put(each)

    def put(self, pod: Json) -> None:
        self._informer.put(pod)

    def remove(self, namespace: str, name: str) -> None:
        self._informer.drop((namespace, name))

    async def port(self) -> int:
        """Wait until the map is served, and return its port."""
        while True:
            for line in map(orjson.loads, self.output.getvalue().splitlines()):
                if line.get("event") == "server.listening":
                    return int(line["port"])
            await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(
    cluster: ShownCluster, access: MapAccess | None = None, *, port: int = 0
) -> AsyncIterator[str]:
    """Serve a map of this cluster, on any port by default; yield its address without a trailing slash."""
    await cluster.fill()
    log, registry = cluster.log, cluster.registry
    service = MapService(MapState(cluster.state), access or LocalAccess(), Streams(registry), log=log)
    app = server.application(
        [], log=log, registry=registry, checks={}, limits=http.LIMITS, timeouts=http.TIMEOUTS
    )
    service.install(app)
    stop = server.Stop()
    settings = ServerSettings.model_validate(
        {"bind": "127.0.0.1", "port": port, "metrics_port": 0, "insecure_http": True, "drain_seconds": 0}
    )
    task = asyncio.create_task(server.serve(app, settings, stop=stop, tasks={"map": service.follow}, grace=0))
    try:
        yield f"http://127.0.0.1:{await cluster.port()}"
    finally:
        stop.ask()
        await task
