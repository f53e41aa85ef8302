"""A map on a port of this machine, of a cluster that can change while the map is open."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from io import StringIO
from typing import Any

from prometheus_client import CollectorRegistry

from numalign.kube.cluster import Cluster, differences
from numalign.kube.files import snapshot
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.pod_informer import PodInformer
from numalign.ledger.reservations import Reservations
from numalign.map import http
from numalign.map.access import LocalAccess
from numalign.map.events import Streams
from numalign.map.http import MapService
from numalign.map.state import MapState
from numalign.model.intent import Match
from numalign.runtime import logs, server
from numalign.runtime.settings import ListenAddress
from numalign.scheduling.scheduler_state import SchedulerState

Json = dict[str, Any]


class ShownCluster:
    """A cluster in memory; tests can add, change and remove pods while it is served."""

    def __init__(self, objects: Sequence[Json]) -> None:
        self.objects = objects
        self.log, self.registry = logs.to(StringIO(), level="info", form="json"), CollectorRegistry()
        self.pods = [each for each in objects if each["kind"] == "Pod"]
        self.state = SchedulerState(
            Reservations(),
            cluster=Cluster(),
            policy=PolicyKeeper(None, log=self.log, registry=self.registry),
            match=Match.SATISFIES,
            clock=time.monotonic,
            wall=time.time,
            # Without pods, only the reports of topologies are known.
            complete=lambda _settled: bool(self.pods),
        )
        informer = PodInformer(self.state, self.state.reader, log=self.log, registry=CollectorRegistry())
        self.put, self.drop = informer.put, informer.drop


@asynccontextmanager
async def serving(cluster: ShownCluster, *, port: int = 0) -> AsyncIterator[str]:
    """Serve a map of this cluster, on any port by default; yield its address without a trailing slash."""
    for change in differences(cluster.state.cluster, snapshot.of([*cluster.objects], where="the map")):
        cluster.state.cluster.apply(change)
    for pod in cluster.pods:
        cluster.put(pod)
    log, registry, stop = cluster.log, cluster.registry, server.Stop()
    service = MapService(MapState(cluster.state), LocalAccess(), Streams(registry), log=log)
    app = server.application(
        [], log=log, registry=registry, checks={}, limits=http.LIMITS, timeouts=http.TIMEOUTS
    )
    service.install(app)
    with server.opened(ListenAddress("127.0.0.1", port, bind_name="", port_name="port")) as called:
        answering = server.answer(app, called, stop=stop, tasks={"map": service.follow}, grace=0)
        task = asyncio.create_task(answering)
        try:
            yield f"http://127.0.0.1:{server.port_of(called)}"
        finally:
            stop.ask()
            await task
