"""
How the parts of the scorer are joined, for a file and for a cluster.

Whoever makes promises must be the only one who does. So in a cluster only the holder of a Lease is ready, and
a Service leads schedulers to it alone; the others follow the cluster and wait, so that the next one needs no
more than the Lease. A file is for looking: there is nobody to bind for.
"""

import asyncio
import math
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from prometheus_client import CollectorRegistry, Gauge

from numalign.kube import bindings, configz, live_feed
from numalign.kube.bindings import BIND_SECONDS, BindsInFlight
from numalign.kube.client import Api, connected
from numalign.kube.cluster_state import Snapshot
from numalign.kube.decode import device_classes, shapes
from numalign.kube.events import Event, Recorder
from numalign.kube.feed import Feed, count_age
from numalign.kube.files.file_feed import FileFeed
from numalign.kube.files.policy import PolicyKeeper
from numalign.kube.lease import Handover, LeaderElector
from numalign.kube.live_feed import LiveFeed
from numalign.kube.pod_informer import PodInformer
from numalign.ledger.model import Basis
from numalign.ledger.reservations import NEWS_SECONDS, Reservations
from numalign.runtime import server
from numalign.runtime.logs import Log, QuietLog
from numalign.runtime.metrics import PREFIX, CacheSizes
from numalign.runtime.server import BackgroundTask, Stop
from numalign.runtime.server_state import Check
from numalign.shapes import ShapeHistory
from scorer import binding, ranking, ranking_file
from scorer.binding import Binder, Write
from scorer.context import CallMetrics, Context
from scorer.disbelief import Disbelief
from scorer.handlers import application
from scorer.judging import Judge
from scorer.outcomes import Outcomes, Tell
from scorer.preempting import Preemption
from scorer.ranking import Ranker, Ranking, RankingRules
from scorer.scheduler_state import SchedulerState
from scorer.settings import PromiseAt, ScorerSettings

LEASE = "numalign-scorer"

LOOK_SECONDS = 1.0
"""How often promises are looked through for those that nobody came for, and pods for false records."""


class Leads(Protocol):
    """Whether this replica leads, or whether another should, at this moment."""

    def __call__(self) -> bool:
        """Never waits."""


def _never() -> bool:
    return False


def _no_time() -> float:
    return 0.0


def _tell_nobody(_event: Event) -> None:
    """A file has no pods that anybody could be told about."""


@dataclass(frozen=True, slots=True)
class Work:
    """What comes with a cluster: who writes binds and events, who leads, and what runs beside the server.

    `acts_for` is for how many seconds this replica leads for sure, see `LeaderElector`.
    """

    write: Write | None = None
    tell: Tell = _tell_nobody
    acts_for: Callable[[], float] = _no_time
    leading: Leads = _never
    elsewhere: Leads = _never
    tasks: Mapping[str, BackgroundTask] = field(default_factory=dict)
    checks: Mapping[str, Check] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Program:
    """The scorer that these settings describe."""

    settings: ScorerSettings
    log: Log
    registry: CollectorRegistry

    async def serve(self, stop: Stop) -> int:
        """Answer until told to stop; the exit code.

        Raises `BadInput` and `ClusterError` for what is wrong before anything is served.
        """
        settings = self.settings
        rules = _rules(settings)
        policy = PolicyKeeper(settings.policy, log=self.log, registry=self.registry)
        policy.load()
        register = self._register(policy)
        pods = PodInformer(register, register.reader, log=self.log, registry=self.registry)
        if settings.snapshot:
            feed = self._file(settings.snapshot, pods, policy)
            # A file is there at once: whoever starts the program may ask as soon as it listens.
            await feed.load(register.update_snapshot)
            return await self._run(register, pods, feed, rules, policy, work=Work(), stop=stop)
        async with connected(kubeconfig=settings.kubeconfig, context=settings.context) as api:
            live = self._live(api, pods, policy)
            work = self._work(api, live)
            return await self._run(register, pods, live, rules, policy, work=work, stop=stop)

    def _file(self, path: Path, pods: PodInformer, policy: PolicyKeeper) -> FileFeed:
        return FileFeed(
            path,
            every=self.settings.snapshot_reload_seconds,
            log=self.log,
            registry=self.registry,
            pods=pods,
            shape_history=self._book(),
            declared=policy.declared,
        )

    def _live(self, api: Api, pods: PodInformer, policy: PolicyKeeper) -> LiveFeed:
        namespace = self.settings.namespace or api.namespace
        return LiveFeed(
            api,
            watched=live_feed.WITH_PODS,
            optional=[(shapes.collection(namespace),), device_classes.COLLECTIONS],
            log=self.log,
            registry=self.registry,
            pods=pods,
            shape_history=self._book(),
            declared=policy.declared,
        )

    def _book(self) -> ShapeHistory:
        return ShapeHistory(remember=self.settings.remember_seconds, wall=time.time)

    def _register(self, policy: PolicyKeeper) -> SchedulerState:
        reservations = Reservations(
            lag=self.settings.topology_lag_seconds, kept=self.settings.promise_seconds
        )
        return SchedulerState(
            reservations,
            policy=policy,
            match=self.settings.policy_match,
            clock=time.monotonic,
            wall=time.time,
            complete=_with_pods if self.settings.snapshot else _always,
        )

    async def _run(  # noqa: PLR0913  what the parts are made of
        self,
        register: SchedulerState,
        pods: PodInformer,
        feed: Feed,
        rules: RankingRules,
        policy: PolicyKeeper,
        *,
        work: Work,
        stop: Stop,
    ) -> int:
        settings = self.settings
        outcomes = Outcomes(
            register, tell=work.tell, log=self.log, registry=self.registry, clock=time.monotonic
        )
        register.watch = outcomes.update_pod
        self._count(register, feed)
        context = self._context(register, feed, rules, work)
        owners = (register.caches, pods.caches, outcomes.caches, context.calls.caches, context.places.caches)
        self.registry.register(CacheSizes(owners))
        app = application(
            settings,
            context,
            log=self.log,
            registry=self.registry,
            checks={"snapshot": partial(_waiting_for, register, feed), **work.checks},
            state=partial(_state, register, feed),
        )
        tasks: dict[str, BackgroundTask] = {
            "snapshot": partial(feed.follow, register.update_snapshot),
            "promises": partial(self._expire, register.reservations),
            "records": partial(self._tell_of_records, register.reservations),
            "standings": register.work_ahead,
            **work.tasks,
        }
        if settings.policy and settings.policy_reload_seconds:
            tasks["policy"] = partial(policy.follow, every=settings.policy_reload_seconds)
        return await server.serve(app, settings, stop=stop, tasks=tasks)

    def _context(self, register: SchedulerState, feed: Feed, rules: RankingRules, work: Work) -> Context:
        binder = Binder(
            register,
            write=work.write,
            acts_for=work.acts_for,
            patience=self.settings.bind_wait_seconds,
            unknown=self.settings.unknown_nodes,
            log=self.log,
            metrics=binding.BindMetrics.of(self.registry),
            clock=time.monotonic,
        )
        return Context(
            register,
            Judge(register, unknown=self.settings.unknown_nodes, clock=time.monotonic),
            binder,
            Preemption(register),
            Ranker(rules),
            CallMetrics.of(self.registry),
            promise=self.settings.promise,
            leading=work.leading,
            elsewhere=work.elsewhere,
            clock=time.monotonic,
            age=feed.age,
            quiet_log=QuietLog(self.log),
        )

    # What there is to do in a cluster.

    def _work(self, api: Api, feed: LiveFeed) -> Work:
        settings = self.settings
        flights = BindsInFlight(partial(bindings.bind, api))
        election = LeaderElector(
            api,
            namespace=settings.namespace or api.namespace,
            name=LEASE,
            identity=socket.gethostname(),
            log=self.log,
            registry=self.registry,
            handover=Handover(NEWS_SECONDS, BIND_SECONDS + NEWS_SECONDS, flights.landed),
        )
        recorder = Recorder(api, component="numalign-scorer", log=self.log, registry=self.registry)
        tasks: dict[str, BackgroundTask] = {"election": election.run, "events": recorder.run}
        if settings.kubelet_configs:
            tasks["kubelet-configs"] = configz.reader_for(
                feed.state, api, log=self.log, registry=self.registry
            ).run
        return Work(
            flights if settings.promise is PromiseAt.BIND else None,
            recorder.tell,
            election.acts_for,
            lambda: election.acts_for() > 0,
            lambda: not election.leading,
            tasks,
            {"lease": partial(_waiting_for_lease, election)},
        )

    async def _expire(self, reservations: Reservations) -> None:
        """Look for promises that nobody came for; never returns."""
        while True:
            for each in reservations.expire(time.monotonic()):
                self.log.warning("promise.expired", pod="/".join(each.name))
            await asyncio.sleep(LOOK_SECONDS)

    async def _tell_of_records(self, reservations: Reservations) -> None:
        """Look for records that are not believed; never returns."""
        disbelief = Disbelief(reservations, log=self.log)
        while True:
            disbelief.look()
            await asyncio.sleep(LOOK_SECONDS)

    def _count(self, register: SchedulerState, feed: Feed) -> None:
        gauge = partial(Gauge, registry=self.registry)
        count_age(feed, self.registry)
        promised = gauge(f"{PREFIX}promises", "Pods that were promised zones and are not seen bound yet.")
        promised.set_function(lambda: len(register.reservations.reserved()))
        doubtful = gauge(
            f"{PREFIX}doubtful_records",
            "Pods whose record is not believed, for a pod left as their kubelet took them in.",
        )
        doubtful.set_function(lambda: sum(each.doubtful for each in register.reservations.assigned_pods()))
        disbelieved = gauge(
            f"{PREFIX}disbelieved_records",
            "Pods whose record says what they cannot hold on their node; where that lies counts as unknown.",
        )
        disbelieved.set_function(register.reservations.count_refuted)
        nodes = gauge(
            f"{PREFIX}ledger_nodes",
            "Nodes by what their free amounts rest on, of those that were asked since they changed.",
            ["basis"],
        )
        for basis in Basis:
            nodes.labels(basis).set_function(partial(_standing_on, register, basis))


def _always(_found: Snapshot) -> bool:
    """An API server tells of every pod."""
    return True


def _with_pods(found: Snapshot) -> bool:
    """A file without a single pod tells of none."""
    return found.pods > 0


def _rules(settings: ScorerSettings) -> RankingRules:
    """How nodes are ranked; raises `BadInput` for a file that is wrong."""
    default = Ranking(ranking.parse_strategies(settings.strategies), ranking.parse_weights(settings.weights))
    return ranking_file.read(settings.ranking, default=default) if settings.ranking else RankingRules(default)


def _standing_on(register: SchedulerState, basis: Basis) -> float:
    return register.reservations.count_by_basis()[basis]


def _waiting_for(register: SchedulerState, feed: Feed) -> str | None:
    """What readiness lacks: a first snapshot, and all pods."""
    return feed.waiting_for() or (None if register.snapshot else "the first snapshot to be put together")


def _waiting_for_lease(election: LeaderElector) -> str | None:
    if election.leading:
        return None if election.acts_for() else "what the last holder of the lease began to be over"
    return f"the lease {LEASE}, which another replica holds"


def _state(register: SchedulerState, feed: Feed) -> Mapping[str, object]:
    found, age = register.snapshot, feed.age()
    promised = register.reservations.reserved()
    return {
        "age": age if math.isfinite(age) else None,
        "nodes": len(found.nodes) if found else 0,
        "unknown": list(found.unknown) if found else [],
        "pods": len(register.pods),
        "basis": register.reservations.count_by_basis(),
        "disbelieved": ["/".join(each.name) for _, each in register.reservations.refuted()],
        "doubtful": ["/".join(each.name) for each in register.reservations.assigned_pods() if each.doubtful],
        "promised": {"/".join(each.name): register.reservations.node_of(each.uid) for each in promised},
    }
