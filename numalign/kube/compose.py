"""
The common parts of all programs, so that each contains only its own.

A program has settings, a log and a metrics registry. It follows a cluster, or reads a file of one; it may
hold a lease there; and tasks run beside its server. Nothing here decides what is served or written.
"""

import asyncio
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeVar

from aiohttp import web
from prometheus_client import CollectorRegistry

from numalign.kube import client, configz
from numalign.kube.client import Api
from numalign.kube.cluster import Cluster
from numalign.kube.connection import Connection
from numalign.kube.decode import shapes
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.errors import ClusterError
from numalign.kube.events import Recorder
from numalign.kube.feed import Feed
from numalign.kube.files.file_feed import FileFeed
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.informer import Sink
from numalign.kube.kinds import Collection
from numalign.kube.lease import NO_HANDOVER, Handover, LeaderElector
from numalign.kube.live_feed import OF_SOME, LiveFeed, See
from numalign.kube.settings import ClusterSettings, ProgramSettings
from numalign.model.errors import BadInput
from numalign.runtime import logs, metrics, server, tracing
from numalign.runtime.clock import Sleep
from numalign.runtime.line_writer import standard_error
from numalign.runtime.logs import Log
from numalign.runtime.server import BackgroundTask, Stop
from numalign.runtime.server_state import Check
from numalign.runtime.tracing import Tracer
from numalign.shapes import ShapeHistory

S = TypeVar("S", bound=ProgramSettings)
C = TypeVar("C", bound=ClusterSettings)


@dataclass(frozen=True, slots=True)
class Background:
    """The tasks beside a server, and the readiness checks that they add, both by name.

    `installs` add handlers for them to the server's application.
    """

    tasks: Mapping[str, BackgroundTask] = field(default_factory=dict)
    checks: Mapping[str, Check] = field(default_factory=dict)
    installs: Sequence[Callable[[web.Application], object]] = ()


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """The source of changes: the API server behind `api`, or a file if that is None.

    `tasks` are those that keep the source itself up to date.
    """

    feed: Feed
    tasks: Mapping[str, BackgroundTask]
    api: Api | None = None

    async def load(self) -> None:
        """Read a file for the first time, so that the first request finds its content."""
        if isinstance(self.feed, FileFeed):
            await self.feed.load()


@dataclass(frozen=True, slots=True)
class Program(ABC, Generic[S]):
    """A program beside a cluster, as its settings describe it; `sleep` is how its tasks wait."""

    settings: S
    log: Log
    registry: CollectorRegistry
    sleep: Sleep = asyncio.sleep
    tracer: Tracer | None = None

    @abstractmethod
    async def serve(self, stop: Stop) -> int:
        """Run until `stop` is requested; return the exit code.

        Raise `BadInput` and `ClusterError` for errors before anything is served.
        """

    def connected(self) -> AbstractAsyncContextManager[Api]:
        """Return the API server of the settings, for an `async with`; raise `Unconfigured` there."""
        connection = Connection(self.settings.kubeconfig, self.settings.context)
        return client.connected(connection, tracer=self.tracer)

    def namespace(self, api: Api) -> str:
        """Return the program's own namespace: its lease and its certificate are stored there."""
        return self.settings.namespace or api.namespace

    def election(self, api: Api, lease: str, *, handover: Handover = NO_HANDOVER) -> LeaderElector:
        """Return this replica as a candidate for a lease."""
        return LeaderElector(
            api,
            namespace=self.namespace(api),
            name=lease,
            identity=socket.gethostname(),
            log=self.log,
            registry=self.registry,
            sleep=self.sleep,
            handover=handover,
        )

    def recorder(self, api: Api, component: str) -> Recorder:
        """Return a recorder of Events for a component."""
        return Recorder(api, component=component, log=self.log, registry=self.registry)

    def kubelet_configs(self, api: Api, feed: LiveFeed) -> dict[str, BackgroundTask]:
        """Return the task that reads the kubelets' configurations, if that is enabled."""
        if not self.settings.kubelet_configs:
            return {}
        return {
            "kubelet-configs": configz.reader_for(feed.state, api, log=self.log, registry=self.registry).run
        }


@dataclass(frozen=True, slots=True)
class ClusterProgram(Program[C]):
    """A program that answers requests from what is known of a cluster, under a policy."""

    def policy(self) -> PolicyKeeper:
        """Return the policy after its first load; raise `BadPolicy` if it is invalid."""
        policy = PolicyKeeper(self.settings.policy, log=self.log, registry=self.registry)
        policy.load()
        return policy

    @asynccontextmanager
    async def source(  # noqa: PLR0913  a policy and a cluster, and what a program follows
        self,
        policy: PolicyKeeper,
        cluster: Cluster,
        *,
        watched: Sequence[Sequence[Collection]],
        pods: Sink | None = None,
        reader: PodReader | None = None,
        see: See | None = None,
    ) -> AsyncIterator[SnapshotSource]:
        """Provide the source that the settings name; raise `Unconfigured` if there is none.

        In a cluster the `watched` kinds are followed, and optional ones. Pods go to `pods`, if given, else
        they are counted as `reader` reads them, and those of an API server are passed to `see`. The policy is
        followed too.
        """
        settings = self.settings
        follow: dict[str, BackgroundTask] = {}
        if settings.policy and settings.policy_reload_seconds:
            follow["policy"] = partial(policy.follow, every=settings.policy_reload_seconds)
        shape_history = ShapeHistory(remember=settings.remember_seconds, wall=time.time)
        if settings.snapshot:
            file = FileFeed(
                settings.snapshot,
                cluster,
                every=settings.snapshot_reload_seconds,
                log=self.log,
                registry=self.registry,
                pods=pods,
                shape_history=shape_history,
                declared=policy.declared,
                sleep=self.sleep,
            )
            yield SnapshotSource(file, follow)
            return
        async with self.connected() as api:
            live = LiveFeed(
                api,
                cluster,
                watched=watched,
                reader=reader,
                see=see,
                optional=[(shapes.collection(self.namespace(api)),), *OF_SOME],
                log=self.log,
                registry=self.registry,
                pods=pods,
                shape_history=shape_history,
                declared=policy.declared,
                sleep=self.sleep,
            )
            yield SnapshotSource(live, {**follow, **self.kubelet_configs(api, live)}, api)


def start(prog: str, settings: S, build: Callable[[S, Log, CollectorRegistry], Program[S]]) -> int:
    """Run the program `prog` until it is stopped, and return its exit code: the last call of a `main`."""
    registry = metrics.registry(program=prog)
    # What reads standard error may stand still, and no call may wait for it.
    with standard_error(registry) as writer:
        log = logs.by_lines(writer.write, level=settings.log_level, form=settings.log_format)
        program = build(settings, log, registry)
        try:
            with _tracer(prog, program) as tracer:
                return server.run(replace(program, tracer=tracer).serve, log=log)
        except BadInput as error:
            return server.refused(log, error.mistakes)
        except ClusterError as error:
            return server.refused(log, [error])


def _tracer(prog: str, program: Program[S]) -> AbstractContextManager[Tracer | None]:
    """Return the tracer of the program, for a `with`; None if its settings name no receiver."""
    settings = program.settings
    if settings.otlp_endpoint is None:
        return nullcontext()
    return tracing.exporting(
        settings.otlp_endpoint,
        ratio=settings.trace_ratio,
        program=prog,
        log=program.log,
        registry=program.registry,
    )
