"""
Answer a scheduler that sends a pod and the names of nodes: which of them fit, and how well.

Filter, prioritize and preempt only read. Their answers reflect the current state in memory, and never wait
for an API server; the final decision is made at bind.

An invalid call is answered with a status that the scheduler treats as a failure. Errors in a pod are part of
the answer, where its owner will find them. The client of Volcano's extender plugin accepts only HTTP 200, so
there mistakes in a call are part of the response, too.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram

from numalign.cache.ranking import Ranks, Score
from numalign.decision import wording
from numalign.kube.decode import placements
from numalign.model.errors import BadInput
from numalign.runtime import calls, server, tracing
from numalign.runtime.clock import Sleep
from numalign.runtime.cooperative import answered_for, aside, result_of
from numalign.runtime.in_flight import LARGE
from numalign.runtime.logs import Log, QuietLog
from numalign.runtime.metrics import PREFIX, not_answered
from numalign.runtime.server_state import Check, DebugState
from numalign.scheduling.binding import Binder
from numalign.scheduling.node_answers import NodeAnswer, NodeAnswers, over_quota
from numalign.scheduling.pod_groups import PodGroups
from numalign.scheduling.ranking import Ranker
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState
from scorer import extender_protocol
from scorer import volcano_protocol as volcano
from scorer.extender_protocol import MAX_SCORE, BadCall, Calls, Victims
from scorer.preempting import Preemption
from scorer.settings import ReserveAt, ScorerSettings
from scorer.volcano_protocol import Code, Task, Vote

ANSWERS = ("fits", "not_now", "never")
"""How a node can answer a filter call."""

OVER_QUOTA = "over_quota"
"""How all nodes answer a call for a pod that waits for the quota of its namespace."""

_BUCKETS = (
    *(0.0001, 0.0002, 0.0003, 0.0004, 0.0005, 0.0006, 0.0007, 0.0008, 0.001, 0.0015, 0.002, 0.003, 0.004),
    *(0.005, 0.007, 0.01, 0.015, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)


class CallMetrics:
    """The metrics of calls; `nodes` by their answer."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.calls = Counter(
            f"{PREFIX}scheduler_calls",
            "Calls of schedulers, by verb and result.",
            ["verb", "result"],
            registry=registry,
        )
        nodes = Counter(
            f"{PREFIX}filtered_nodes", "Nodes in filter calls, by answer.", ["answer"], registry=registry
        )
        self.nodes = {answer: nodes.labels(answer) for answer in (*ANSWERS, OVER_QUOTA)}
        self.not_answered = not_answered(registry)
        self.seconds = Histogram(
            f"{PREFIX}scheduler_call_seconds",
            "Seconds from the complete request to the answer.",
            ["verb"],
            buckets=_BUCKETS,
            registry=registry,
        )


@dataclass(frozen=True, slots=True)
class CallContext:
    """What the handlers need to answer calls.

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
        """Wait a moment for a pod that its scheduler may have seen earlier than this program.

        A call with a long body does not wait, because others wait for it; nor one for a pod without a UID.
        """
        if pod.uid and self.leading() and len(body) <= LARGE:
            await aside(self.state.seen(pod.uid, sleep=self.sleep))

    def take(self, pod: PendingPod, node: str) -> bool:
        """Reserve the best node of a pod, if that is not done at bind; else only note it for the pod's group.

        Return whether it was noted.
        """
        if self.reserve_at is ReserveAt.PRIORITIZE:
            self.reserve(pod, node)
            return False
        return self.groups.place(pod, node)

    def reserve(self, pod: PendingPod, node: str) -> None:
        """Reserve the predicted placement on a node for a pod that the scheduler binds.

        What a caller says of the pod does not count, only what the API server has. The reservation moves with
        the scheduler's choice.
        """
        known = self.state.reservable(pod) if self.leading() else None
        if known is None or self.state.over_quota(known, node=node):
            return
        [answer] = self.nodes.of([node], known)
        if answer.fits and (since := self.state.reserved_since(pod.uid)) is not None:
            self.state.reservations.reserve(node, known.assigned_pod(now=since), answer.prediction)


def add_to_trace(namespace: str, pod: str, **more: str) -> None:
    """Add the pod of a call to its trace, if there is one."""
    if span := tracing.current():
        span.add({"k8s.namespace.name": namespace, "k8s.pod.name": pod, **more})


def application(  # noqa: PLR0913  its dependencies
    settings: ScorerSettings,
    context: CallContext,
    *,
    log: Log,
    registry: CollectorRegistry,
    checks: Mapping[str, Check],
    state: DebugState,
) -> web.Application:
    """Return the scorer's routes on the common server."""
    return server.application(
        [web.post(f"/{name}", partial(_handle, context=context, name=name)) for name in HANDLERS],
        log=log,
        registry=registry,
        checks=checks,
        limits=settings.limits,
        state=state if settings.debug_state else None,
    )


async def _handle(request: web.Request, *, context: CallContext, name: str) -> web.Response:
    """Answer; close the connection if another replica should be called."""
    response = await _response(calls.body(request), context, name)
    if context.another_leads():
        # A scheduler keeps its connections: only a new one is routed to the current leader.
        response.force_close()
    return response


async def _response(body: bytes, context: CallContext, name: str) -> web.Response:
    if not context.state.listed:
        error = {"error": "the state of the cluster is not known yet"}
        return web.json_response(error, status=HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "1"})
    began = time.perf_counter()
    try:
        answer = await HANDLERS[name](context, body)
    except BadInput as error:
        context.metrics.calls.labels(name, "bad").inc()
        context.quiet_log.warning("call.unreadable", verb=name, errors=error.mistakes)
        status = error.status if isinstance(error, BadCall) else HTTPStatus.UNPROCESSABLE_ENTITY
        return web.json_response({"error": str(error)}, status=status)
    context.metrics.seconds.labels(name).observe(time.perf_counter() - began)
    context.metrics.calls.labels(name, "answered").inc()
    return web.Response(body=answer, content_type="application/json")


# Calls of kube-scheduler.


async def _filter(context: CallContext, body: bytes) -> bytes:
    call = context.calls.candidates(body)
    try:
        pod = context.pending_pod(call.pod)
    except BadInput as error:
        return extender_protocol.answer_filter_error(f"numalign: {error}")
    if context.reserve_at is ReserveAt.PRIORITIZE or extender_protocol.in_group(call.pod):
        await context.seen(pod, body)
    beyond = context.state.nodes_over_quota(pod, call.names)
    names = [name for name in call.names if name not in beyond] if beyond else call.names
    filtered, answered = await context.nodes.evaluate(partial(context.nodes.filtered, names, pod))
    if context.state.group_of(pod):
        filtered = await result_of(context.groups.filtered(pod, filtered))
    context.metrics.not_answered.inc(not answered)
    for answer, nodes in zip(ANSWERS, (filtered.fit, filtered.failed, filtered.unresolvable), strict=True):
        context.metrics.nodes[answer].inc(len(nodes))
    # With a single node left, the scheduler does not call prioritize.
    if len(filtered.fit) == 1:
        context.take(pod, *filtered.fit)
    context.metrics.nodes[OVER_QUOTA].inc(len(beyond))
    # Evicting other pods would not help there.
    over = {name: over_quota(why) for name, why in beyond.items()}
    return extender_protocol.answer_filter(call, replace(filtered, unresolvable=filtered.unresolvable | over))


async def _prioritize(context: CallContext, body: bytes) -> bytes:
    call = context.calls.candidates(body)
    pod = context.pending_pod(call.pod)
    ranks = await context.ranks(call.names, pod)
    best = ranks.best(call.names)
    if best is not None and context.take(pod, call.names[best]):
        # The other members of its group are evaluated as if it were there.
        return extender_protocol.answer_scores(
            call.names, [MAX_SCORE * (at == best) for at in range(len(call.names))]
        )
    if best is not None and context.reserve_at is ReserveAt.PRIORITIZE:
        ranks = ranks.above_equals([best])
    return extender_protocol.answer_scores(call.names, ranks.squeezed(MAX_SCORE))


async def _bind(context: CallContext, body: bytes) -> bytes:
    call = extender_protocol.read_binding(body)
    add_to_trace(call.namespace, call.name, **{"k8s.node.name": call.node})
    error = await context.binder.bind(call)
    return extender_protocol.answer_binding(error)


async def _preempt(context: CallContext, body: bytes) -> bytes:
    raw, priority, victims = extender_protocol.read_preemption(body)
    pod = context.pending_pod(raw)
    candidates = await result_of(context.preemption.candidates(pod, priority, victims))
    return extender_protocol.answer_preemption(candidates)


# Calls of users.


async def _rank(context: CallContext, body: bytes) -> bytes:
    """Return every node with its answer, the best first; those that the pod may not use are last."""
    raw, listed = extender_protocol.read_rank(body)
    pod = context.pending_pod(raw)
    names = listed if listed is not None else sorted(context.state.node_names())
    not_eligible = context.nodes.not_eligible(names, pod)
    eligible = [name for name in names if name not in not_eligible]
    ranks = await context.ranks(eligible, pod)
    answers, others = context.nodes.of(eligible, pod), context.nodes.of_not_eligible(not_eligible, pod)
    # Among nodes that do not fit, unknown ones come last: the least can be said about them.
    order = sorted(ranks.order(eligible), key=lambda position: answers[position].prediction is None)
    sources = context.state.reservations.count_by_source
    nodes = [
        *(_shown(answers[at], ranks.score(at), sources((answers[at].name,))) for at in order),
        *map(_not_fitting, sorted(others, key=lambda answer: answer.name)),
    ]
    policy = pod.question.intent.policy
    shown = {"pod": f"{pod.namespace}/{pod.name}", "policy": policy, "age": context.age(), "nodes": nodes}
    return orjson.dumps(shown, option=orjson.OPT_NON_STR_KEYS)


def _shown(answer: NodeAnswer, score: Score, sources: Mapping[str, int]) -> Mapping[str, Any]:
    prediction = answer.prediction
    shown = {"name": answer.name, "fits": True} if answer.fits else _not_fitting(answer)
    if prediction is None:
        return {**shown, "known": None}
    verdict = prediction.verdict
    return {
        **shown,
        "aligned": score.aligned,
        "scores": score.values,
        "placement": placements.render(prediction.node, verdict.placement) if verdict.admitted else None,
        "certain": prediction.record is not None,
        "waitsFor": ["/".join(pod.name) for pod in (*prediction.waits_for, *prediction.terminating)],
        "basis": prediction.basis,
        "sources": sources,
        "known": verdict.known,
        "doubts": [str(doubt) for doubt in verdict.doubts],
    }


def _not_fitting(answer: NodeAnswer) -> Mapping[str, Any]:
    shown = {"name": answer.name, "fits": False, "permanent": answer.permanent, "reason": answer.reason}
    verdict = answer.prediction.verdict if answer.prediction else None
    if verdict is None or verdict.refusal is None:
        return shown
    return {
        **shown,
        "refuser": verdict.refusal.refuser,
        "because": wording.sentence(verdict),
        "shortages": [*map(wording.shortage, verdict.refusal.shortages)],
    }


# Calls of Volcano.


async def _predicate(context: CallContext, body: bytes) -> bytes:
    task, name = volcano.read_predicate(body)
    pod = context.pending_pod(task.pod)
    if why := context.state.over_quota(pod, node=name):
        return volcano.answer_predicate(over_quota(why), Code.NEVER)
    [answer] = context.nodes.of([name], pod)
    if answer.fits:
        return volcano.answer_predicate()
    return volcano.answer_predicate(answer.reason, Code.NEVER if answer.permanent else Code.BUSY)


async def _prioritize_task(context: CallContext, body: bytes) -> bytes:
    task, names = volcano.read_prioritize(body)
    ranks = await context.ranks(names, context.pending_pod(task.pod))
    return volcano.answer_prioritize(dict(zip(names, ranks.absolute(), strict=True)))


async def _preemptable(context: CallContext, body: bytes) -> bytes:
    evictor, evictees = volcano.read_preemptable(body)
    pod = context.pending_pod(evictor.pod)
    by_node: dict[str, list[Task]] = {}
    for task in evictees:
        by_node.setdefault(task.node_name, []).append(task)
    candidates = {
        name: Victims(tuple(task.uid for task in tasks), 0) for name, tasks in by_node.items() if name
    }
    useful = context.preemption.worthwhile(pod, candidates)
    victims = [task for name in useful for task in by_node[name]]
    return volcano.answer_preemptable(Vote.PERMIT if victims else Vote.REJECT, victims)


async def _allocate(context: CallContext, body: bytes) -> bytes:
    """Reserve zones for a task that Volcano has placed in its session."""
    task = volcano.read_task(body)
    pod = context.pending_pod(task.pod)
    if not task.node_name or not pod.uid:
        return volcano.answer_task("numalign: an allocated task must have its node and its pod's UID")
    await context.seen(pod, body)
    if why := context.state.over_quota(pod, node=task.node_name):
        return volcano.answer_task(over_quota(why))
    [answer] = context.nodes.of([task.node_name], pod)
    if not answer.fits:
        return volcano.answer_task(answer.reason)
    context.reserve(pod, task.node_name)
    return volcano.answer_task()


async def _deallocate(context: CallContext, body: bytes) -> bytes:
    task, reservations = volcano.read_task(body), context.state.reservations
    assigned_pod = reservations.assigned_pod(task.uid)
    # A pod that is being pinned or bound keeps its zones, whoever calls.
    if assigned_pod and assigned_pod.name == (task.namespace, task.name) and not assigned_pod.unconfirmed:
        reservations.unreserve(task.uid)
    return volcano.answer_task()


async def _session(_context: CallContext, _body: bytes) -> bytes:
    """Answer the start or end of a session; the state here does not depend on it."""
    return volcano.answer_task()


_VOLCANO: Mapping[str, Callable[[CallContext, bytes], Awaitable[bytes]]] = MappingProxyType(
    {
        "predicate": _predicate,
        "prioritize": _prioritize_task,
        "preemptable": _preemptable,
        "allocate": _allocate,
        "deallocate": _deallocate,
        "onSessionOpen": _session,
        "onSessionClose": _session,
    }
)

_WITHOUT_TEXT: Mapping[str, bytes] = MappingProxyType(
    {"prioritize": volcano.answer_prioritize({}), "preemptable": volcano.answer_preemptable(Vote.ABSTAIN)}
)
"""Responses to calls that cannot be read, for verbs without a text in the response: the mistake is logged."""


async def _volcano(context: CallContext, body: bytes, *, verb: str) -> bytes:
    """Return the response of a verb, or the mistakes in the call or its pod; never raise for a body."""
    try:
        return await _VOLCANO[verb](context, body)
    except BadInput as error:
        if verb in _WITHOUT_TEXT:
            context.quiet_log.warning("call.unreadable", verb=f"volcano/{verb}", errors=error.mistakes)
            return _WITHOUT_TEXT[verb]
        text = f"numalign: {error}"
        if verb == "predicate":
            return volcano.answer_predicate(text, Code.BROKEN)
        return volcano.answer_task(text)


HANDLERS: Mapping[str, Callable[[CallContext, bytes], Awaitable[bytes]]] = MappingProxyType(
    {
        "filter": _filter,
        "prioritize": _prioritize,
        "bind": _bind,
        "preempt": _preempt,
        "v1/rank": _rank,
        **{f"volcano/{verb}": partial(_volcano, verb=verb) for verb in _VOLCANO},
    }
)
"""The handlers by path; each returns a response body, or raises `BadInput`."""
