"""
The controller: writes to the cluster while it holds its lease.

Each component is a function that returns the tasks to run beside the server, and what readiness waits for
because of them. Replicas without the lease follow the cluster too and write nothing, so that the next leader
needs no more than the lease.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from certs.keeper import Certificates
from controller.duties import DUTIES
from controller.labels import LabelWriter
from controller.node_classes import Classifier
from controller.placing import Placing, background
from controller.refused.watch import FailedPodWatch
from controller.settings import ControllerSettings
from controller.shapes import ShapeWriter
from numalign.kube import kinds, live_feed
from numalign.kube.client import Api
from numalign.kube.cluster import Cluster
from numalign.kube.compose import Background, Program
from numalign.kube.decode import numatopologies
from numalign.kube.feed import count_age
from numalign.kube.lease import LeaderElector
from numalign.kube.live_feed import LiveFeed
from numalign.map.http import LIMITS, TIMEOUTS
from numalign.runtime import server
from numalign.runtime.metrics import CacheSizes
from numalign.runtime.server import BackgroundTask, Stop
from numalign.shapes import ShapeHistory
from numalign.shapes.history import LOSS_SECONDS

LEASE = "numalign-controller"

Component = Callable[["ControllerProgram", Api, LeaderElector], Background]
"""A part of the controller, given an API client and the election, which it asks before every write."""


@dataclass(frozen=True, slots=True)
class ControllerProgram(Program[ControllerSettings]):
    """
    The controller with these settings; without `components` it runs all.

    Parts that write to the cluster use `clock`, in seconds.
    """

    components: Iterable[Component] | None = None
    clock: Callable[[], float] = time.monotonic

    async def serve(self, stop: Stop) -> int:
        """
        Run until stopped; return the exit code.

        Raise `ClusterError` for a bad kubeconfig, and `BadInput` for a bad policy file.
        """
        async with self.connected() as api:
            election = self.election(api, LEASE)
            components = COMPONENTS if self.components is None else self.components
            parts = [component(self, api, election) for component in components]
            tasks = {name: task for part in parts for name, task in part.tasks.items()}
            checks = {name: check for part in parts for name, check in part.checks.items()}
            # Its only clients are users of the map.
            app = server.application(
                [], log=self.log, registry=self.registry, checks=checks, limits=LIMITS, timeouts=TIMEOUTS
            )
            for install in (install for part in parts for install in part.installs):
                install(app)
            tasks = {"election": election.run, **tasks}
            return await server.serve(app, self.settings, stop=stop, tasks=tasks, tracer=self.tracer)


def reconcile_cluster(controller: ControllerProgram, api: Api, election: LeaderElector) -> Background:
    """Return what follows the cluster: class labels, remembered shapes, and the enabled pod-related parts."""
    settings, log, registry = controller.settings, controller.log, controller.registry
    # A node is degraded for at most this long; until then its shape must be remembered, also after a restart.
    book = ShapeHistory(remember=max(settings.remember_seconds, LOSS_SECONDS), wall=time.time)
    cluster, pods, rejected = Cluster(), None, None
    recorder = controller.recorder(api, "numalign-controller")
    if settings.watches_pods:
        pods = Placing(
            api=api,
            settings=settings,
            cluster=cluster,
            election=election,
            publish=recorder.publish,
            log=log,
            registry=registry,
            clock=controller.clock,
            sleep=controller.sleep,
        )
        about_pods = background(pods, DUTIES)
    else:
        rejected = FailedPodWatch(
            settings,
            cluster,
            leading=lambda: election.leading,
            publish=recorder.publish,
            log=log,
            registry=registry,
            clock=controller.clock,
            sleep=controller.sleep,
        )
        about_pods = Background(rejected.tasks)
    feed = LiveFeed(
        api,
        cluster,
        watched=live_feed.WITH_PODS if pods else live_feed.STATIC,
        optional=live_feed.OF_SOME if pods else [numatopologies.COLLECTIONS, (kinds.FAILED_PODS,)],
        pods=pods.pods if pods else rejected,
        shape_history=book,
        log=log,
        registry=registry,
        sleep=controller.sleep,
    )
    count_age(feed, registry)
    if pods:
        pods.cache_getters.append(feed.caches)
        pods.node_checks.append(feed.state.nodes.__contains__)
    else:
        registry.register(CacheSizes((feed.caches,)))
    classifier = Classifier(cluster, remembers=lambda: shapes.read, names=settings.gates)
    shapes = ShapeWriter(
        api,
        namespace=controller.namespace(api),
        book=book,
        leading=lambda: election.leading,
        nodes_known=lambda: cluster.listed,
        log=log,
        registry=registry,
        clock=controller.clock,
        sleep=controller.sleep,
    )

    async def follow() -> None:
        # Degraded nodes are recognized only once it is known what nodes were.
        await shapes.answered()
        await feed.follow()

    tasks: dict[str, BackgroundTask] = {"shapes": shapes.run, "nodes": follow, "events": recorder.run}
    tasks |= about_pods.tasks
    if settings.label_nodes:
        labels = LabelWriter(
            api,
            nodes=lambda: classifier.current,
            age=feed.age,
            leading=lambda: election.leading,
            log=log,
            registry=registry,
            clock=controller.clock,
            sleep=controller.sleep,
        )
        tasks["classes"] = labels.run
    tasks |= controller.kubelet_configs(api, feed)
    checks = {"snapshot": lambda: feed.waiting_for() or cluster.waiting_for(), **about_pods.checks}
    return Background(tasks, checks, about_pods.installs)


def reconcile_certificate(controller: ControllerProgram, api: Api, election: LeaderElector) -> Background:
    """Return the task that creates and renews the webhook's certificate, and updates the CA bundle."""
    settings, namespace = controller.settings, controller.namespace(api)
    if settings.tls_secret is None:
        return Background()
    certificates = Certificates(
        api,
        namespace=namespace,
        secret=settings.tls_secret,
        names=settings.names_in(namespace),
        configuration=settings.webhook_configuration,
        leading=lambda: election.leading,
        log=controller.log,
        registry=controller.registry,
        days=settings.tls_days,
        sleep=controller.sleep,
    )
    return Background({"certificates": certificates.run}, {"certificates": certificates.waiting_for})


COMPONENTS: tuple[Component, ...] = (reconcile_cluster, reconcile_certificate)
"""All that the controller does."""
