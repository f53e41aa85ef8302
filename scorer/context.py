"""What the handlers of all schedulers share."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram

from numalign.cache.ranking import Ranks
from numalign.runtime import tracing
from numalign.runtime.clock import Sleep
from numalign.runtime.cooperative import answered_for, aside
from numalign.runtime.in_flight import LARGE
from numalign.runtime.logs import QuietLog
from numalign.runtime.metrics import PREFIX, not_answered
from numalign.scheduling.binding import Binder
from numalign.scheduling.node_answers import NodeAnswers
from numalign.scheduling.pod_groups import PodGroups
from numalign.scheduling.ranking import Ranker
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState
from scorer.extender_protocol import Calls
from scorer.preempting import Preemption
from scorer.settings import ReserveAt


def add_to_trace(namespace: str, pod: str, **more: str) -> None:
    """Add the pod of a call to its trace, if there is one."""
    if span := tracing.current():
        span.add({"k8s.namespace.name": namespace, "k8s.pod.name": pod, **more})


ANSWERS = ("fits", "not_now", "never")
"""How a node can answer a filter call."""

OVER_QUOTA = "over_quota"
"""How all nodes answer a call for a pod that waits for the quota of its namespace."""

_BUCKETS = (
    *(0.0001, 0.0002, 0.0003, 0.0004, 0.0005, 0.0006, 0.0007, 0.0008, 0.001, 0.0015, 0.002, 0.003, 0.004),
    *(0.005, 0.007, 0.01, 0.015, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)


@dataclass(frozen=True, slots=True)
class CallMetrics:
    """The metrics of calls; `nodes` by their answer."""

    calls: Counter
    nodes: Mapping[str, Counter]
    not_answered: Counter
    seconds: Histogram

    @classmethod
    def of(cls, registry: CollectorRegistry) -> "CallMetrics":
        """Return metrics in this registry."""
        nodes = Counter(
            f"{PREFIX}filtered_nodes",
            "Nodes in filter calls, by answer.",
            ["answer"],
            registry=registry,
        )
        return cls(
            Counter(
                f"{PREFIX}scheduler_calls",
                "Calls of schedulers, by verb and result.",
                ["verb", "result"],
                registry=registry,
            ),
            {answer: nodes.labels(answer) for answer in (*ANSWERS, OVER_QUOTA)},
            not_answered(registry),
            Histogram(
                f"{PREFIX}scheduler_call_seconds",
                "Seconds from the complete request to the answer.",
                ["verb"],
                buckets=_BUCKETS,
                registry=registry,
            ),
        )


@dataclass(frozen=True, slots=True)
class CallContext:
    """
    What the handlers need to answer calls.

    `leading` returns whether this replica may reserve zones, `another_leads` whether another one should be
    called.
    """

    state: SchedulerState
    nodes: NodeAnswers
    groups: PodGroups
    binder: Binder
    preemption: Preemption
    ranker: Ranker
    metrics: CallMetrics
    reserve_at: ReserveAt
    leading: Callable[[], bool]
    clock: Callable[[], float]
    age: Callable[[], float]
    quiet_log: QuietLog
    sleep: Sleep = asyncio.sleep
    another_leads: Callable[[], bool] = lambda: False
    calls: Calls = field(default_factory=Calls)

    def pending_pod(self, pod: Mapping[str, object]) -> PendingPod:
        """Return the pod of a call, and add it to the trace; raise `BadInput` with every mistake in it."""
        pending = self.state.pending_pod(pod)
        # The caller may have invented it.
        known = pending.namespace in self.state.cluster.namespaces
        answered_for(pending.namespace if known else "")
        add_to_trace(pending.namespace, pending.name)
        return pending

    async def ranks(self, names: Sequence[str], pod: PendingPod) -> Ranks:
        """Return the ranks of these nodes for a pod, by their position in the call."""

        def ranks() -> Ranks:
            batch = self.nodes.batch(names, pod)
            return self.ranker.ranks(batch, self.state.labels, opted_out=pod.opted_out)

        return await self.nodes.evaluate(ranks)

    async def seen(self, pod: PendingPod, body: bytes) -> None:
        """
        Wait a moment for a pod that its scheduler may have seen earlier than this program.

        A call with a long body does not wait, because others wait for it; nor one for a pod without a UID.
        """
        if pod.uid and self.leading() and len(body) <= LARGE:
            await aside(self.state.seen(pod.uid, sleep=self.sleep))

    def take(self, pod: PendingPod, node: str) -> bool:
        """
        Count on a node for a pod, because it is the best one.

        Reserve it, if that is not done at bind; otherwise only note it for the pod's group, and return
        whether that was done.
        """
        if self.reserve_at is ReserveAt.PRIORITIZE:
            self.reserve(pod, node)
            return False
        return self.groups.place(pod, node)

    def reserve(self, pod: PendingPod, node: str) -> None:
        """
        Reserve the predicted placement on a node for a pod that the scheduler binds.

        What a caller says of the pod does not count, only what the API server has. The reservation moves with
        the scheduler's choice.
        """
        known = self.state.reservable(pod) if self.leading() else None
        if known is None or self.state.over_quota(known, node=node):
            return
        [answer] = self.nodes.of([node], known)
        if answer.fits and (since := self.state.reserved_since(pod.uid)) is not None:
            self.state.reservations.reserve(node, known.assigned_pod(now=since), answer.prediction)
