"""
The cluster with its pods, for the parts of the controller that decide about pods.

They answer from one `SchedulerState`, as the scorer does from its own: what one part reserves, all others
count. Where no part is switched on nobody watches pods here, and nobody needs the right to.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import CollectorRegistry

from controller.held import HeldPlaces
from controller.settings import ControllerSettings
from numalign.kube.client import Api
from numalign.kube.cluster_state import Snapshot
from numalign.kube.compose import Background
from numalign.kube.decode.recreated import RecreatedScheduling
from numalign.kube.events import Event
from numalign.kube.files.policy_keeper import PolicyKeeper
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

LOOK_SECONDS = 1.0
"""How often reservations are looked through for those whose pod was not seen bound."""


@dataclass(frozen=True, slots=True)
class Placing:
    """What parts that decide about pods have in common.

    `election` says at every moment whether this replica leads and for how long it may act: it is asked before
    every write. `tell` writes an event some time soon. `clock` is in seconds, `wall` since 1970. `refusals`
    are the nodes that have just refused pods, `held` places for pods that are not there yet, and `remembered`
    gives caches whose sizes are shown. `heard` say whether a node is there, by the last that was heard.
    """

    api: Api
    settings: ControllerSettings
    state: SchedulerState
    pods: PodInformer
    nodes: NodeAnswers
    fit: NodeFit
    ranker: Ranker
    policy: PolicyKeeper
    election: LeaderElector
    tell: Callable[[Event], None]
    log: Log
    registry: CollectorRegistry
    clock: Callable[[], float]
    wall: Callable[[], float]
    sleep: Sleep
    refusals: RecentRefusals
    held: HeldPlaces
    watchers: list[Watcher] = field(default_factory=list)
    remembered: list[Callable[[], Caches]] = field(default_factory=list)
    heard: list[Callable[[str], bool]] = field(default_factory=list)

    def has_node(self, name: str) -> bool:
        """Whether a node is there by the last that was heard, which no snapshot may show yet."""
        return all(there(name) for there in self.heard)

    def leading(self) -> bool:
        """Whether this replica may write."""
        return self.election.leading

    def caches(self) -> Caches:
        """What is remembered, by its name in metrics."""
        every = (self.state.caches, self.pods.caches, self.refusals.caches, *self.remembered)
        return {name: cache for caches in every for name, cache in caches().items()}

    def watch(self, watcher: Watcher) -> None:
        """Call with every change of a pod from now on, before the ledger has it."""
        self.watchers.append(watcher)
        self.state.watchers = tuple(self.watchers)

    async def take(self, snapshot: Snapshot) -> None:
        """Take what the nodes and namespaces are now."""
        await self.state.update_snapshot(snapshot)

    def waiting_for(self) -> str | None:
        """What readiness lacks."""
        return None if self.state.snapshot else "the first complete state of the cluster"

    async def follow_policy(self) -> None:
        """Keep the policy file in force as it is now; never returns."""
        await self.policy.follow(every=self.settings.policy_reload_seconds)


PodDuty = Callable[[Placing], Background]
"""Something that the controller does about pods; nothing where its setting is off."""


def placing(  # noqa: PLR0913  what every part of a process is given
    api: Api,
    settings: ControllerSettings,
    *,
    election: LeaderElector,
    tell: Callable[[Event], None],
    log: Log,
    registry: CollectorRegistry,
    clock: Callable[[], float],
    sleep: Sleep,
) -> Placing:
    """The cluster with its pods, of which nothing is known yet; raises `BadPolicy`."""
    policy = PolicyKeeper(settings.policy, log=log, registry=registry)
    policy.load()
    state = SchedulerState(
        Reservations(kept=settings.pin_patience_seconds),
        policy=policy,
        match=settings.policy_match,
        clock=clock,
        wall=time.time,
    )
    refusals = RecentRefusals(clock=clock, wall=time.time)
    nodes, fit = NodeAnswers(state, unknown=settings.unknown_nodes, clock=clock), NodeFit(state)
    shared = Placing(
        api,
        settings,
        state,
        PodInformer(
            state,
            state.reader,
            recreated=RecreatedScheduling() if settings.policy_reports else None,
            log=log,
            registry=registry,
        ),
        nodes,
        fit,
        Ranker(RankingRules()),
        policy,
        election,
        tell,
        log,
        registry,
        clock,
        time.time,
        sleep,
        refusals,
        HeldPlaces(state, nodes, clock),
    )
    shared.watch(refusals.update_pod)
    shared.watch(fit.update_pod)
    return shared


def background(placing: Placing, parts: Iterable[PodDuty]) -> Background:
    """The tasks of these parts beside what they share, and what readiness waits for."""
    tasks: dict[str, BackgroundTask] = {
        "reservations": partial(_expire, placing),
        "standings": placing.state.work_ahead,
    }
    if placing.settings.policy and placing.settings.policy_reload_seconds:
        tasks["policy"] = placing.follow_policy
    checks: dict[str, Check] = {"pods": placing.waiting_for}
    made = [part(placing) for part in parts]
    for more in made:
        tasks |= more.tasks
        checks |= more.checks
    placing.registry.register(CacheSizes((placing.caches,)))
    return Background(tasks, checks, [install for more in made for install in more.installs])


async def _expire(placing: Placing) -> None:
    """Give up reservations whose pod was not seen in time; never returns."""
    while True:
        for pod in placing.state.expire():
            placing.log.warning("reservation.expired", pod="/".join(pod.name))
        await placing.sleep(LOOK_SECONDS)
