"""
Serve the map to this machine, from a cluster that is watched or a file that is reread.

It listens only on the loopback address, and shows all that the user who runs it may read.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from kubectl_numa.clusters import ClusterSource
from kubectl_numa.lines import waiting
from numalign.kube import client, exporters, live_feed
from numalign.kube.cluster import Cluster
from numalign.kube.files.file_feed import FileFeed
from numalign.kube.files.policy import ClusterPolicy
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.live_feed import LiveFeed
from numalign.kube.pod_informer import PodInformer
from numalign.ledger.reservations import Reservations
from numalign.map import http
from numalign.map.access import LocalAccess
from numalign.map.events import Streams
from numalign.map.http import MapService
from numalign.map.state import MapState
from numalign.model.errors import BadInput, Mistake
from numalign.model.intent import Match
from numalign.runtime import server
from numalign.runtime.logs import Log
from numalign.runtime.server import BackgroundTask, Stop
from numalign.runtime.settings import ListenAddress
from numalign.scheduling.scheduler_state import SchedulerState

LOOPBACK = "127.0.0.1"
RELOAD_SECONDS = 2.0
"""Interval in seconds at which to check whether the file has changed."""

POLL_SECONDS = 0.1
"""Interval in seconds at which to check whether the cluster is known."""


@dataclass(frozen=True, slots=True)
class LocalMap:
    """A map to be served to this machine.

    `policy` is the cluster's policy. Once there is something to show, `opened` is called with the address of
    the map, in which `path` is the first page. Later errors are logged.
    """

    source: ClusterSource
    policy: ClusterPolicy
    match: Match
    port: int
    path: str
    opened: Callable[[str], object]
    log: Log

    async def serve(self, stop: Stop) -> int:
        """Serve until stopped; return the exit code. Raise `BadInput` and `ClusterError`."""
        registry, live = CollectorRegistry(), self.source.snapshot is None
        keeper = PolicyKeeper(None, log=self.log, registry=registry)
        keeper.now = self.policy
        state = SchedulerState(
            Reservations(),
            cluster=Cluster(),
            policy=keeper,
            match=self.match,
            clock=time.monotonic,
            # What is in a file was so when the newest object in it was written.
            wall=lambda: time.time() if live else exporters.newest(state.cluster, now=time.time()),
            # In a file without a single pod on a node, the pods were left out.
            complete=lambda settled: live or settled.pods > 0,
        )
        pods = PodInformer(state, state.reader, log=self.log, registry=registry)
        async with AsyncExitStack() as stack:
            address = ListenAddress(LOOPBACK, self.port, bind_name="", port_name="port")
            called = stack.enter_context(server.opened(address))
            feed: FileFeed | LiveFeed
            if self.source.snapshot is not None:
                feed = FileFeed(
                    Path(self.source.snapshot),
                    state.cluster,
                    every=RELOAD_SECONDS,
                    log=self.log,
                    registry=registry,
                    pods=pods,
                )
                await feed.load()
                if reason := feed.waiting_for():
                    raise BadInput([Mistake("--snapshot", f"nothing to show without {reason}")])
            else:
                feed = LiveFeed(
                    await stack.enter_async_context(client.connected(self.source.connection)),
                    state.cluster,
                    watched=live_feed.WITH_PODS,
                    optional=live_feed.OF_SOME,
                    pods=pods,
                    log=self.log,
                    registry=registry,
                )
            service = MapService(
                MapState(state),
                LocalAccess(),
                Streams(registry),
                log=self.log,
                waiting_for=feed.waiting_for,
            )
            app = server.application(
                [], log=self.log, registry=registry, checks={}, limits=http.LIMITS, timeouts=http.TIMEOUTS
            )
            service.install(app)

            async def announce() -> None:
                with waiting("reading the cluster") as now:
                    while (lacking := feed.waiting_for()) is not None:
                        now(f"waiting for {lacking}")
                        await asyncio.sleep(POLL_SECONDS)
                self.opened(f"http://localhost:{server.port_of(called)}{self.path}")

            tasks: dict[str, BackgroundTask] = {
                "snapshot": feed.follow,
                "cache_refresh": state.work_ahead,
                "map": service.follow,
                "announcement": announce,
            }
            return await server.answer(app, called, stop=stop, tasks=tasks)
