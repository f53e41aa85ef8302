"""
How the parts of the controller are joined.

Each part is something to do in the cluster, by whoever holds the one lease: a function that takes what all
parts are made of, and gives the tasks that run beside the server and what readiness waits for because of
them. The others follow the cluster too and write nothing, so that the next one needs no more than the lease.
"""

import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from certs.keeper import Certificates
from controller import classes, present
from controller.classes import Labeller
from controller.present import Present
from controller.settings import ControllerSettings
from controller.shapes import ShapeKeeper
from numalign.kube import collect, configz, kinds
from numalign.kube.client import Api, connected
from numalign.kube.feed import count_age
from numalign.kube.files import snapshot
from numalign.kube.lease import LeaderElector
from numalign.kube.live_feed import LiveFeed
from numalign.runtime import server
from numalign.runtime.logs import Log
from numalign.runtime.server import BackgroundTask, Stop
from numalign.runtime.server_state import Check
from numalign.shapes import ShapeHistory
from numalign.shapes.history import LOSS_SECONDS

LEASE = "numalign-controller"

WATCHED = ((kinds.NODES,), kinds.TOPOLOGIES)
"""What shapes and classes of nodes depend on."""


@dataclass(frozen=True, slots=True)
class Given:
    """What every part is made of. `leading` is asked before every write."""

    settings: ControllerSettings
    api: Api
    leading: Callable[[], bool]
    log: Log
    registry: CollectorRegistry

    @property
    def namespace(self) -> str:
        """Where the controller itself is."""
        return self.settings.namespace or self.api.namespace


@dataclass(frozen=True, slots=True)
class Work:
    """What runs beside the server, and what readiness waits for because of it."""

    tasks: Mapping[str, BackgroundTask] = field(default_factory=dict)
    checks: Mapping[str, Check] = field(default_factory=dict)


Part = Callable[[Given], Work]


def nodes(given: Given) -> Work:
    """Keep what nodes are in health where all read it, and the class label of every node true."""
    settings = given.settings
    # A node is ill for so long at most; until then it must be known what it was, also after a restart.
    book = ShapeHistory(remember=max(settings.remember_seconds, LOSS_SECONDS), wall=time.time)
    feed = LiveFeed(given.api, watched=WATCHED, shape_history=book, log=given.log, registry=given.registry)
    count_age(feed, given.registry)
    current = Present(remembers=lambda: keeper.read)
    keeper = ShapeKeeper(
        given.api,
        namespace=given.namespace,
        book=book,
        leading=given.leading,
        sees=lambda: current.now is not None,
        log=given.log,
        registry=given.registry,
    )

    async def follow() -> None:
        # Before it is known what nodes were, nobody can tell which of them are ill.
        await keeper.answered()
        await feed.follow(current.take)

    tasks: dict[str, BackgroundTask] = {"shapes": keeper.run, "nodes": follow}
    if settings.label_nodes:
        tasks["classes"] = _labeller(given, feed, current).run
    if settings.kubelet_configs:
        proxy = configz.reader_for(feed.state, given.api, log=given.log, registry=given.registry)
        tasks["kubelet-configs"] = proxy.run
    return Work(tasks, {"snapshot": lambda: feed.waiting_for() or current.waiting_for()})


def _labeller(given: Given, feed: LiveFeed, current: Present) -> Labeller:
    return Labeller(
        given.api,
        moment=lambda: current.now,
        age=feed.age,
        leading=given.leading,
        log=given.log,
        registry=given.registry,
    )


def certificates(given: Given) -> Work:
    """Make the webhook's certificate, renew it, and let API servers trust it."""
    settings = given.settings
    if settings.tls_secret is None:
        return Work()
    made = Certificates(
        given.api,
        namespace=given.namespace,
        secret=settings.tls_secret,
        names=settings.names_in(given.namespace),
        configuration=settings.webhook_configuration,
        leading=given.leading,
        log=given.log,
        registry=given.registry,
        days=settings.tls_days,
    )
    return Work({"certificates": made.run}, {"certificates": made.trouble})


PARTS: tuple[Part, ...] = (nodes, certificates)
"""All that the controller does."""


@dataclass(frozen=True, slots=True)
class Program:
    """The controller that these settings describe."""

    settings: ControllerSettings
    log: Log
    registry: CollectorRegistry
    parts: Iterable[Part] = PARTS

    async def serve(self, stop: Stop) -> int:
        """Write what is due until told to stop; the exit code. Raises `ClusterError` for a bad kubeconfig."""
        async with connected(kubeconfig=self.settings.kubeconfig, context=self.settings.context) as api:
            election = self._election(api)
            given = Given(self.settings, api, lambda: election.leading, self.log, self.registry)
            works = [part(given) for part in self.parts]
            tasks = {name: task for work in works for name, task in work.tasks.items()}
            checks = {name: check for work in works for name, check in work.checks.items()}
            app = server.application([], log=self.log, registry=self.registry, checks=checks)
            return await server.serve(
                app, self.settings, stop=stop, tasks={"election": election.run, **tasks}
            )

    def _election(self, api: Api) -> LeaderElector:
        return LeaderElector(
            api,
            namespace=self.settings.namespace or api.namespace,
            name=LEASE,
            identity=socket.gethostname(),
            log=self.log,
            registry=self.registry,
        )


async def rehearse(settings: ControllerSettings) -> str:
    """Which node labels would change, as text; raises `BadInput` and `ClusterError`."""
    if settings.snapshot:
        found = snapshot.load(settings.snapshot)
    else:
        taken = await collect.collect(kubeconfig=settings.kubeconfig, context=settings.context)
        found = snapshot.of([taken])
    return classes.rehearsal(present.moment(found))
