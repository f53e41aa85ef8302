"""
How the parts of the webhook are joined, for a file and for a cluster.

Answering needs a catalogue and a policy, and both sources give them. What follows an API server also reads
the certificate that all replicas serve, and one by one the kubelets are asked for their configuration, where
that is allowed. Each is a task beside the server. Nothing is written anywhere: that is the controller's.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry

from certs.reader import SharedCertificate, start_pair
from numalign.kube import configz, live_feed
from numalign.kube.client import Api, connected
from numalign.kube.decode import device_classes, shapes
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.feed import Feed
from numalign.kube.files.file_feed import FileFeed
from numalign.kube.files.policy import PolicyKeeper
from numalign.kube.live_feed import LiveFeed
from numalign.model.errors import BadInput, Mistake
from numalign.runtime import server
from numalign.runtime.clock import utc_now
from numalign.runtime.logs import Log
from numalign.runtime.server import BackgroundTask, Stop
from numalign.runtime.server_state import SERVER_STATE, Check
from numalign.shapes import ShapeHistory
from webhook.handlers import application
from webhook.settings import WebhookSettings
from webhook.snapshot_holder import SnapshotHolder


@dataclass(frozen=True, slots=True)
class Work:
    """What runs beside the server, what readiness waits for because of it, and what the server is told."""

    settings: WebhookSettings
    tasks: Mapping[str, BackgroundTask] = field(default_factory=dict)
    checks: Mapping[str, Check] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Program:
    """The webhook that these settings describe; `settled` is called once, when it knows the cluster."""

    settings: WebhookSettings
    log: Log
    registry: CollectorRegistry
    settled: Callable[[], object] = lambda: None

    async def serve(self, stop: Stop) -> int:
        """Answer until told to stop; the exit code.

        Raises `BadPolicy`, `BadOrder` and `ClusterError` for what is wrong before anything is served.
        """
        settings = self.settings
        policy = PolicyKeeper(settings.policy, log=self.log, registry=self.registry)
        policy.load()
        reader = PodReader(settings.policy_match)
        if settings.snapshot:
            feed = self._file(settings.snapshot, policy)
            holder = self._holder(feed)
            # A file is there at once: whoever starts the program may ask as soon as it listens.
            await feed.load(holder.take)
            return await self._run(holder, policy, reader, lambda _: Work(settings), stop)
        async with connected(kubeconfig=settings.kubeconfig, context=settings.context) as api:
            live = self._live(api, policy, reader)
            holder = self._holder(live)
            with _folder() as folder:
                work = partial(self._work, api, live, folder)
                return await self._run(holder, policy, reader, work, stop)

    def _file(self, path: Path, policy: PolicyKeeper) -> FileFeed:
        return FileFeed(
            path,
            every=self.settings.snapshot_reload_seconds,
            log=self.log,
            registry=self.registry,
            shape_history=self._book(),
            declared=policy.declared,
        )

    def _live(self, api: Api, policy: PolicyKeeper, reader: PodReader) -> LiveFeed:
        namespace = self.settings.namespace or api.namespace
        return LiveFeed(
            api,
            watched=live_feed.WITH_PODS if self.settings.count_pods else live_feed.STATIC,
            optional=[(shapes.collection(namespace),), device_classes.COLLECTIONS],
            reader=reader,
            log=self.log,
            registry=self.registry,
            shape_history=self._book(),
            declared=policy.declared,
        )

    def _book(self) -> ShapeHistory:
        return ShapeHistory(remember=self.settings.remember_seconds, wall=time.time)

    def _holder(self, feed: Feed) -> SnapshotHolder:
        return SnapshotHolder(feed, log=self.log, registry=self.registry, settled=self.settled)

    async def _run(
        self,
        holder: SnapshotHolder,
        policy: PolicyKeeper,
        reader: PodReader,
        prepare: Callable[[web.Application], Work],
        stop: Stop,
    ) -> int:
        app = application(
            self.settings,
            holder=holder,
            policy=policy,
            reader=reader,
            log=self.log,
            registry=self.registry,
        )
        work = prepare(app)
        app[SERVER_STATE].checks.update(work.checks)
        tasks = {"catalogue": holder.follow, **work.tasks}
        if self.settings.policy and self.settings.policy_reload_seconds:
            tasks["policy"] = partial(policy.follow, every=self.settings.policy_reload_seconds)
        return await server.serve(app, work.settings, stop=stop, tasks=tasks)

    # What there is to do in a cluster.

    def _work(self, api: Api, feed: LiveFeed, folder: Path, app: web.Application) -> Work:
        tasks: dict[str, BackgroundTask] = {}
        if self.settings.kubelet_configs:
            tasks["kubelet-configs"] = configz.reader_for(
                feed.state, api, log=self.log, registry=self.registry
            ).run
        if self.settings.tls_secret is None:
            return Work(self.settings, tasks)
        certificate = self._certificate(api, folder, changed=partial(server.renew, app))
        made = {"tls_cert": folder / "tls.crt", "tls_key": folder / "tls.key"}
        return Work(
            self.settings.model_copy(update=made),
            {**tasks, "certificates": certificate.run},
            {"certificates": certificate.trouble},
        )

    def _certificate(self, api: Api, folder: Path, *, changed: Callable[[], object]) -> SharedCertificate:
        namespace = self.settings.namespace or api.namespace
        names = self.settings.names_in(namespace)
        start_pair(folder, names=names, now=utc_now())
        return SharedCertificate(
            api,
            namespace=namespace,
            secret=self.settings.tls_secret or "",
            names=names,
            folder=folder,
            log=self.log,
            changed=changed,
        )


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for as long as the program runs; raises `BadInput` where none can be made."""
    try:
        made = tempfile.TemporaryDirectory(prefix="numalign-")
    except OSError as error:
        place = f"the folder for temporary files, {tempfile.gettempdir()}"
        raise BadInput([Mistake(place, f"cannot be written: {error.strerror}")]) from error
    with made as folder:
        yield Path(folder)
