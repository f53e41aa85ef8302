"""
The controller: what writes into the cluster, by whoever holds the one lease.

Each component is a function that gives the tasks that run beside the server, and what readiness waits for
because of them. Replicas without the lease follow the cluster too and write nothing, so that the next leader
needs no more than the lease.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from certs.keeper import Certificates
from controller.labels import LabelWriter
from controller.node_classes import Classifier
from controller.settings import ControllerSettings
from controller.shapes import ShapeWriter
from numalign.kube import kinds
from numalign.kube.client import Api
from numalign.kube.compose import Background, Program
from numalign.kube.decode import numatopologies
from numalign.kube.feed import count_age
from numalign.kube.live_feed import LiveFeed
from numalign.runtime import server
from numalign.runtime.server import BackgroundTask, Stop
from numalign.shapes import ShapeHistory
from numalign.shapes.history import LOSS_SECONDS

LEASE = "numalign-controller"

WATCHED = ((kinds.NODES,), kinds.TOPOLOGIES)
"""What shapes and classes of nodes depend on."""

Component = Callable[["ControllerProgram", Api, Callable[[], bool]], Background]
"""Something to do in the cluster behind an API server; whether it leads is asked before every write."""


@dataclass(frozen=True, slots=True)
class ControllerProgram(Program[ControllerSettings]):
    """The controller that these settings describe; without `components` it does all that there are.

    What writes into the cluster counts its seconds by `clock`.
    """

    components: Iterable[Component] | None = None
    clock: Callable[[], float] = time.monotonic

    async def serve(self, stop: Stop) -> int:
        """Write what is due until told to stop; the exit code. Raises `ClusterError` for a bad kubeconfig."""
        async with self.connected() as api:
            election = self.election(api, LEASE)
            components = COMPONENTS if self.components is None else self.components
            parts = [component(self, api, lambda: election.leading) for component in components]
            tasks = {name: task for part in parts for name, task in part.tasks.items()}
            checks = {name: check for part in parts for name, check in part.checks.items()}
            app = server.application([], log=self.log, registry=self.registry, checks=checks)
            tasks = {"election": election.run, **tasks}
            return await server.serve(app, self.settings, stop=stop, tasks=tasks)


def reconcile_nodes(controller: ControllerProgram, api: Api, leading: Callable[[], bool]) -> Background:
    """Keep what nodes are in health where all read it, and the class label of every node true."""
    settings, log, registry = controller.settings, controller.log, controller.registry
    # A node is ill for so long at most; until then it must be known what it was, also after a restart.
    book = ShapeHistory(remember=max(settings.remember_seconds, LOSS_SECONDS), wall=time.time)
    feed = LiveFeed(
        api,
        watched=WATCHED,
        optional=[numatopologies.COLLECTIONS],
        shape_history=book,
        log=log,
        registry=registry,
        sleep=controller.sleep,
    )
    count_age(feed, registry)
    classifier = Classifier(remembers=lambda: shapes.read)
    shapes = ShapeWriter(
        api,
        namespace=controller.namespace(api),
        book=book,
        leading=leading,
        sees=lambda: classifier.current is not None,
        log=log,
        registry=registry,
        clock=controller.clock,
        sleep=controller.sleep,
    )

    async def follow() -> None:
        # Before it is known what nodes were, nobody can tell which of them are ill.
        await shapes.answered()
        await feed.follow(classifier.take)

    tasks: dict[str, BackgroundTask] = {"shapes": shapes.run, "nodes": follow}
    if settings.label_nodes:
        labels = LabelWriter(
            api,
            nodes=lambda: classifier.current,
            age=feed.age,
            leading=leading,
            log=log,
            registry=registry,
            clock=controller.clock,
            sleep=controller.sleep,
        )
        tasks["classes"] = labels.run
    tasks |= controller.kubelet_configs(api, feed)
    return Background(tasks, {"snapshot": lambda: feed.waiting_for() or classifier.waiting_for()})


def reconcile_certificate(controller: ControllerProgram, api: Api, leading: Callable[[], bool]) -> Background:
    """Make the webhook's certificate, renew it, and let API servers trust it."""
    settings, namespace = controller.settings, controller.namespace(api)
    if settings.tls_secret is None:
        return Background()
    certificates = Certificates(
        api,
        namespace=namespace,
        secret=settings.tls_secret,
        names=settings.names_in(namespace),
        configuration=settings.webhook_configuration,
        leading=leading,
        log=controller.log,
        registry=controller.registry,
        days=settings.tls_days,
        sleep=controller.sleep,
    )
    return Background({"certificates": certificates.run}, {"certificates": certificates.trouble})


COMPONENTS: tuple[Component, ...] = (reconcile_nodes, reconcile_certificate)
"""All that the controller does."""
