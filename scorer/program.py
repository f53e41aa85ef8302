"""
The scorer: a server that answers schedulers, from a cluster or from a file.

Only one replica may reserve zones. So in a cluster only the holder of a Lease is ready, and a Service routes
schedulers to it alone; the others follow the cluster and wait, so that the next leader needs no more than the
Lease. A file is for inspection: nothing is bound.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import Gauge

from numalign.cache import Question
from numalign.cache.ranking import Ranking
from numalign.kube import bindings, live_feed
from numalign.kube.bindings import BIND_SECONDS, BindsInFlight
from numalign.kube.client import Api
from numalign.kube.cluster import Cluster
from numalign.kube.compose import Background, ClusterProgram
from numalign.kube.exporter_metrics import ExporterMetrics
from numalign.kube.feed import Feed, count_age
from numalign.kube.lease import Handover
from numalign.kube.pod_informer import PodInformer
from numalign.ledger.model import Basis
from numalign.ledger.reservations import NOTIFICATION_SECONDS, Reservations
from numalign.model.steps import Steps
from numalign.runtime import server
from numalign.runtime.clock import Sleep
from numalign.runtime.cooperative import result_of
from numalign.runtime.logs import Log, QuietLog
from numalign.runtime.metrics import PREFIX, CacheSizes, EvaluatedNodes
from numalign.runtime.server import BackgroundTask, Stop
from numalign.scheduling import binding
from numalign.scheduling.binding import Binder, Write
from numalign.scheduling.node_answers import NodeAnswers
from numalign.scheduling.outcomes import Disbelief, Outcomes, Predictions, PublishEvent
from numalign.scheduling.pod_groups import PodGroups
from numalign.scheduling.ranking import Ranker, RankingRules, parse_strategies, parse_weights, read_rankings
from numalign.scheduling.scheduler_state import AT_ONCE, PendingPod, SchedulerState
from scorer.handlers import CallContext, CallMetrics, application
from scorer.preempting import Preemption
from scorer.settings import ReserveAt, ScorerSettings

LEASE = "numalign-scorer"

REPEAT_SECONDS = 1.0
"""Interval in seconds at which unused reservations are expired, and records and predictions are checked."""


WARMING_SECONDS = 3.0
"""Seconds after which no more answers are computed ahead."""

MOST_QUESTIONS = 32
"""Most questions that are answered ahead: the most frequent ones of pending pods."""

POLL_SECONDS = 0.05
"""Interval in seconds at which to check whether the cluster is known."""


@dataclass(frozen=True, slots=True)
class Replica:
    """What this process is among its replicas: how it writes bindings and events, and whether it leads.

    `acts_for` returns for how many seconds it certainly leads, see `LeaderElector`; `another_leads` returns
    whether another replica should be called. With a file it never leads, and there is no pod for an event.
    """

    write: Write | None = None
    publish: PublishEvent = lambda _event: None
    acts_for: Callable[[], float] = lambda: 0.0
    another_leads: Callable[[], bool] = lambda: False
    background: Background = field(default_factory=Background)


@dataclass(frozen=True, slots=True)
class ScorerProgram(ClusterProgram[ScorerSettings]):
    """The scorer with these settings."""

    async def serve(self, stop: Stop) -> int:
        """Serve until stopped; return the exit code.

        Raise `BadInput` and `ClusterError` for errors before anything is served.
        """
        settings = self.settings
        strategies, weights = parse_strategies(settings.strategies), parse_weights(settings.weights)
        default, file = Ranking(strategies, weights), settings.ranking
        rules = read_rankings(file, default=default) if file else RankingRules(default)
        policy, cluster = self.policy(), Cluster()
        state = SchedulerState(
            Reservations(lag=settings.topology_lag_seconds, kept=settings.reservation_seconds),
            cluster=cluster,
            policy=policy,
            match=settings.policy_match,
            clock=time.monotonic,
            wall=time.time,
            # In a file without a single pod on a node, the pods were left out.
            complete=lambda settled: settled.pods > 0 or not settings.snapshot,
            follows=not settings.snapshot,
        )
        pods = PodInformer(state, state.reader, log=self.log, registry=self.registry)
        async with self.source(policy, cluster, watched=live_feed.WITH_PODS, pods=pods) as source:
            replica = self._replica(source.api) if source.api else Replica()
            await source.load()
            feed, reservations, background = source.feed, state.reservations, replica.background
            outcomes = Outcomes(state, publish=replica.publish, log=self.log, registry=self.registry)
            predictions = Predictions(state, publish=replica.publish, log=self.log, registry=self.registry)
            state.watchers = (outcomes.update_pod, predictions.update_pod)
            self._count(reservations, feed)
            context = self._context(state, feed, rules, replica)
            observers = (pods.caches, outcomes.caches, predictions.caches)
            caches = (state.caches, feed.caches, *observers, context.calls.caches, context.groups.caches)
            self.registry.register(CacheSizes(caches))
            self.registry.register(EvaluatedNodes(state.cache.evaluated))
            self.registry.register(ExporterMetrics(state.cluster, time.time))

            def lacking() -> str | None:
                """Return what readiness is waiting for: the whole cluster, and all pods."""
                return feed.waiting_for() or state.cluster.waiting_for()

            def expire() -> None:
                """Release the reservations whose pods were not seen bound."""
                for pod in state.expire():
                    self.log.warning("reservation.expired", pod="/".join(pod.name))

            warming = Warming(context, lacking, self.log, time.monotonic, self.sleep)
            app = application(
                settings,
                context,
                log=self.log,
                registry=self.registry,
                checks={"snapshot": lacking, "answers": warming.waiting_for, **background.checks},
                state=partial(_debug_state, state, feed),
            )
            tasks: dict[str, BackgroundTask] = {
                "snapshot": feed.follow,
                "reservations": partial(_repeat, expire),
                "records": partial(_repeat, Disbelief(reservations, log=self.log).look),
                "predictions": partial(_repeat, predictions.look),
                "cache_refresh": state.work_ahead,
                "answers": warming.run,
                **source.tasks,
                **background.tasks,
            }
            return await server.serve(app, settings, stop=stop, tasks=tasks, tracer=self.tracer)

    def _context(
        self, state: SchedulerState, feed: Feed, rules: RankingRules, replica: Replica
    ) -> CallContext:
        settings = self.settings
        binder = Binder(
            state=state,
            write=replica.write,
            acts_for=replica.acts_for,
            patience=settings.bind_wait_seconds,
            unknown=settings.unknown_nodes,
            log=self.log,
            metrics=binding.BindMetrics.of(self.registry),
            clock=time.monotonic,
        )
        return CallContext(
            state,
            NodeAnswers(state, unknown=settings.unknown_nodes, clock=time.monotonic),
            PodGroups(state),
            binder,
            Preemption(state),
            Ranker(rules),
            CallMetrics(self.registry),
            reserve_at=settings.reserve_at,
            leading=lambda: replica.acts_for() > 0,
            another_leads=replica.another_leads,
            age=feed.age,
            quiet_log=QuietLog(self.log),
        )

    def _replica(self, api: Api) -> Replica:
        flights = BindsInFlight(partial(bindings.bind, api))
        handover = Handover(NOTIFICATION_SECONDS, BIND_SECONDS + NOTIFICATION_SECONDS, flights.landed)
        election = self.election(api, LEASE, handover=handover)
        recorder = self.recorder(api, "numalign-scorer")

        def waiting_for() -> str | None:
            if election.leading:
                return None if election.acts_for() else "calls of the previous leader to end"
            return f"the lease {LEASE}, which another replica holds"

        return Replica(
            flights if self.settings.reserve_at is ReserveAt.BIND else None,
            recorder.publish,
            election.acts_for,
            lambda: not election.leading,
            Background({"election": election.run, "events": recorder.run}, {"lease": waiting_for}),
        )

    def _count(self, reservations: Reservations, feed: Feed) -> None:
        count_age(feed, self.registry)
        gauge = partial(Gauge, registry=self.registry)
        gauge(f"{PREFIX}reservations", "Pods with reserved zones that are not bound yet.").set_function(
            lambda: len(reservations.reserved())
        )
        gauge(
            f"{PREFIX}doubtful_records",
            ("Pods whose record is not used because another pod left after their kubelet admitted them."),
        ).set_function(lambda: sum(pod.doubtful for pod in reservations.counted_pods()))
        gauge(
            f"{PREFIX}disbelieved_records",
            "Pods whose record or agent report claims resources that they cannot hold.",
        ).set_function(reservations.count_refuted)
        nodes = gauge(
            f"{PREFIX}ledger_nodes",
            "Nodes, by the basis of their free amounts, of those evaluated since they changed.",
            ["basis"],
        )
        for basis in Basis:
            nodes.labels(basis).set_function(partial(lambda key: reservations.count_by_basis()[key], basis))


@dataclass(eq=False)
class Warming:
    """
    Computes answers before the first call, once nothing is `lacking`. Times are seconds of `clock`.

    When a replica starts, schedulers first ask about pods that are already pending, and nothing is computed
    by then: neither what is free on thousands of nodes, nor how they answer about a pod. So this is done
    before the replica is ready, within a time limit; the rest is computed when it is asked for, as usual.
    """

    context: CallContext
    lacking: Callable[[], str | None]
    log: Log
    clock: Callable[[], float]
    sleep: Sleep = asyncio.sleep
    _done: bool = field(init=False, default=False)

    def waiting_for(self) -> str | None:
        """Return what readiness waits for because of this; None while something else is lacking."""
        return None if self._done or self.lacking() is not None else "the evaluation of pending pods"

    async def run(self) -> None:
        """Compute how the nodes answer about pending pods; an error does not keep others from asking."""
        while self.lacking() is not None:
            await self.sleep(POLL_SECONDS)
        try:
            await self._warm(until=self.clock() + WARMING_SECONDS)
        except Exception as error:  # noqa: BLE001  no pod in a cluster may end the program again and again
            self.log.failed("warming.failed", error)
        self._done = True

    async def _warm(self, *, until: float) -> None:
        state = self.context.state
        for _ in state.cache.work_ahead(AT_ONCE, self.clock):
            await self.sleep(0)
            if self.clock() >= until:
                return
        names = tuple(state.node_names())
        for pod in await result_of(self._examples()):
            if self.clock() >= until:
                return
            await self.context.ranks(names, pod)
            await self.context.nodes.evaluate(partial(self.context.nodes.filtered, names, pod))

    def _examples(self) -> Steps[Iterable[PendingPod]]:
        """Return one pending pod for each question, the most frequent question first; one pod per step."""
        state, examples, counts = self.context.state, dict[Question, PendingPod](), Counter[Question]()
        for seen in [*state.pods.values()]:
            pod = None if seen.node or seen.ended or seen.leaving else state.waiting(seen.uid)
            if pod:
                examples.setdefault(pod.question, pod)
                counts[pod.question] += 1
            yield
        return [examples[question] for question, _ in counts.most_common(MOST_QUESTIONS)]


async def _repeat(call: Callable[[], None]) -> None:
    while True:
        call()
        await asyncio.sleep(REPEAT_SECONDS)


def _debug_state(state: SchedulerState, feed: Feed) -> Mapping[str, object]:
    age, reservations, unknown = feed.age(), state.reservations, state.cluster.unknown
    return {
        "age": age if math.isfinite(age) else None,
        "nodes": len(state.cluster.states) - len(unknown),
        "unknown": list(unknown),
        "pods": len(state.pods),
        "basis": reservations.count_by_basis(),
        "sources": reservations.count_by_source(reservations.node_names()),
        "disbelieved": ["/".join(pod.name) for _, pod in reservations.refuted()],
        "doubtful": ["/".join(pod.name) for pod in reservations.counted_pods() if pod.doubtful],
        "reserved": {"/".join(pod.name): reservations.node_of(pod.uid) for pod in reservations.reserved()},
    }
