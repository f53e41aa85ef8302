"""
The cluster with its pods, for the parts of the controller that decide about pods.

They share one `SchedulerState`, as the parts of the scorer share theirs: what one part reserves counts for
all others. If no part is enabled, the controller watches only pods that failed (`controller.refused.watch`).
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import CollectorRegistry

from controller.held import HeldPlaces
from controller.settings import ControllerSettings
from numalign.kube import late_namespaces
from numalign.kube.client import Api
from numalign.kube.cluster import Cluster
from numalign.kube.compose import Background
from numalign.kube.decode.recreated import RecreatedScheduling
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.events import Event
from numalign.kube.exporter_metrics import ExporterMetrics
from numalign.kube.files.policy import ClusterPolicy
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.late_namespaces import NamespaceReader
from numalign.kube.lease import LeaderElector
from numalign.kube.pod_informer import PodInformer
from numalign.ledger.reservations import Reservations
from numalign.lru import Caches
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import Log
from numalign.runtime.metrics import CacheSizes
from numalign.runtime.server import BackgroundTask
from numalign.runtime.server_state import Check
from numalign.scheduling.node_answers import NodeAnswers
from numalign.scheduling.node_fit import NodeFit
from numalign.scheduling.ranking import Ranker, RankingRules
from numalign.scheduling.recent_refusals import RecentRefusals
from numalign.scheduling.scheduler_state import SchedulerState, Watcher

EXPIRE_SECONDS = 1.0
"""Interval in seconds at which reservations of pods that were not seen bound are expired."""


@dataclass(eq=False, kw_only=True)
class Placing:
    """
    What the parts that decide about pods share, of which nothing is known at first; raise `BadPolicy`.

    `election` reports whether this replica leads and for how long it may act: ask it before every write.
    `publish` queues an event. `clock` is in seconds, `wall` in seconds since 1970. `refusals` has the nodes
    that recently rejected pods, `held` the places for pods that do not exist yet, and `cache_getters` return
    caches whose sizes are exported. `node_checks` report whether a node exists, by the last watch event.
    """

    api: Api
    settings: ControllerSettings
    cluster: Cluster
    election: LeaderElector
    publish: Callable[[Event], None]
    log: Log
    registry: CollectorRegistry
    clock: Callable[[], float]
    sleep: Sleep
    wall: Callable[[], float] = time.time
    cache_getters: list[Callable[[], Caches]] = field(default_factory=list)
    node_checks: list[Callable[[str], bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings, clock = self.settings, self.clock
        self.policy = PolicyKeeper(settings.policy, log=self.log, registry=self.registry)
        self.policy.load()
        self.state = state = SchedulerState(
            Reservations(kept=settings.pin_patience_seconds),
            cluster=self.cluster,
            policy=self.policy,
            match=settings.policy_match,
            clock=clock,
            wall=self.wall,
            follows=True,
        )
        recreated = RecreatedScheduling() if settings.policy_reports else None
        self.pods = PodInformer(
            state, state.reader, recreated=recreated, log=self.log, registry=self.registry
        )
        self.nodes = NodeAnswers(state, unknown=settings.unknown_nodes, clock=clock)
        self.fit, self.ranker = NodeFit(state), Ranker(RankingRules())
        self.refusals = RecentRefusals(clock=clock, wall=self.wall)
        self.held = HeldPlaces(state, self.nodes, clock)
        self.registry.register(ExporterMetrics(self.cluster, self.wall))
        self.watch(self.refusals.update_pod)
        self.watch(self.fit.update_pod)

    def has_node(self, name: str) -> bool:
        """Return whether a node exists by the last watch event, which may be newer than what is published."""
        return all(there(name) for there in self.node_checks)

    def leading(self) -> bool:
        """Return whether this replica may write."""
        return self.election.leading

    def caches(self) -> Caches:
        """Return all caches, by their names in metrics."""
        every = (self.state.caches, self.pods.caches, self.refusals.caches, *self.cache_getters)
        return {name: cache for caches in every for name, cache in caches().items()}

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` with every change of a pod from now on, before the ledger gets it."""
        self.state.watchers = (*self.state.watchers, watcher)

    def waiting_for(self) -> str | None:
        """Return what readiness is waiting for."""
        return self.state.cluster.waiting_for()

    def effective_policy(self) -> EffectivePolicy:
        """Return the current policy; before the cluster is known no namespace has rules."""
        return EffectivePolicy.of(self.state.cluster, self.policy.now)


PodDuty = Callable[[Placing], Background]
"""A pod-related part of the controller; it returns nothing to run if its setting is off."""


async def current_policy(api: NamespaceReader, cluster: ClusterPolicy, namespace: str) -> EffectivePolicy:
    """
    Return the policy of one namespace by its stored labels; raise `ClusterError`.

    It is read right before a pod there is deleted or evicted: the watch may be slightly outdated, and a plan
    takes many calls, so a label that was removed meanwhile counts.
    """
    facts = await late_namespaces.read(api, namespace)
    return EffectivePolicy(cluster, {namespace: facts.rules}, {namespace: facts.labels})


def background(placing: Placing, parts: Iterable[PodDuty]) -> Background:
    """Return the tasks of these parts and of what they share, and what readiness waits for."""

    async def expire() -> None:
        """Release reservations whose pods were not seen bound in time; never returns."""
        while True:
            for pod in placing.state.expire():
                placing.log.warning("reservation.expired", pod="/".join(pod.name))
            await placing.sleep(EXPIRE_SECONDS)

    tasks: dict[str, BackgroundTask] = {"reservations": expire, "cache_refresh": placing.state.work_ahead}
    if placing.settings.policy and placing.settings.policy_reload_seconds:
        every = placing.settings.policy_reload_seconds
        tasks["policy"] = partial(placing.policy.follow, every=every)
    checks: dict[str, Check] = {"pods": placing.waiting_for}
    made = [part(placing) for part in parts]
    for more in made:
        tasks |= more.tasks
        checks |= more.checks
    placing.registry.register(CacheSizes((placing.caches,)))
    return Background(tasks, checks, [install for more in made for install in more.installs])
