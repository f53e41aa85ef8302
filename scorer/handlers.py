"""
Answer a scheduler that sends a pod and the names of nodes: which of them fit, and how well.

Filter, prioritize and preempt only read. Their answers reflect the current state in memory, and never wait
for an API server; the final decision is made at bind.

An invalid call is answered with a status that the scheduler treats as a failure. Errors in a pod are part of
the answer, where its owner will find them.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from types import MappingProxyType

from aiohttp import web
from prometheus_client import CollectorRegistry

from numalign.model.errors import BadInput
from numalign.runtime import calls, server
from numalign.runtime.cooperative import result_of
from numalign.runtime.logs import Log
from numalign.runtime.server_state import Check, DebugState
from numalign.scheduling import node_answers
from scorer import extender_protocol
from scorer.context import ANSWERS, OVER_QUOTA, CallContext, add_to_trace
from scorer.extender_protocol import MAX_SCORE, BadCall
from scorer.rank_page import page
from scorer.settings import ReserveAt, ScorerSettings
from scorer.volcano import handlers as volcano


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
    """Decode, decide, respond; an invalid call gets an error."""
    if not context.state.cluster.listed:
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
    filtered = await result_of(context.groups.filtered(pod, filtered))
    context.metrics.not_answered.inc(not answered)
    for answer, nodes in zip(ANSWERS, (filtered.fit, filtered.failed, filtered.unresolvable), strict=True):
        context.metrics.nodes[answer].inc(len(nodes))
    # With a single node left, the scheduler does not call prioritize.
    if len(filtered.fit) == 1:
        context.take(pod, *filtered.fit)
    context.metrics.nodes[OVER_QUOTA].inc(len(beyond))
    # Evicting other pods would not help there.
    over = {name: node_answers.over_quota(why) for name, why in beyond.items()}
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
    call = extender_protocol.read_preemption(body)
    pod = context.pending_pod(call.pod)
    candidates = await result_of(context.preemption.candidates(pod, call.priority, call.victims))
    return extender_protocol.answer_preemption(candidates)


# Calls of users.


async def _rank(context: CallContext, body: bytes) -> bytes:
    call = extender_protocol.read_rank(body)
    pod = context.pending_pod(call.pod)
    names = call.names if call.names is not None else sorted(context.state.node_names())
    not_eligible = context.nodes.not_eligible(names, pod)
    eligible = [name for name in names if name not in not_eligible]
    ranks = await context.ranks(eligible, pod)
    answers, others = context.nodes.of(eligible, pod), context.nodes.of_not_eligible(not_eligible, pod)
    reservations = context.state.reservations
    return page(
        answers,
        ranks,
        pod=pod,
        age=context.age(),
        not_eligible=others,
        sources=lambda name: reservations.count_by_source((name,)),
    )


HANDLERS: Mapping[str, Callable[[CallContext, bytes], Awaitable[bytes]]] = MappingProxyType(
    {
        "filter": _filter,
        "prioritize": _prioritize,
        "bind": _bind,
        "preempt": _preempt,
        "v1/rank": _rank,
        **volcano.HANDLERS,
    }
)
"""The handlers by path; each returns a response body, or raises `BadInput`."""
