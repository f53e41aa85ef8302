"""
Answer the calls of Volcano's extender plugin.

Its client accepts only HTTP 200, so mistakes in a call or a pod are part of the response.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType

from numalign.model.errors import BadInput
from numalign.scheduling import node_answers
from scorer.context import CallContext
from scorer.extender_protocol import Victims
from scorer.volcano import protocol
from scorer.volcano.protocol import Code, Task, Vote


async def _predicate(context: CallContext, body: bytes) -> bytes:
    task, name = protocol.read_predicate(body)
    pod = context.pending_pod(task.pod)
    if why := context.state.over_quota(pod, node=name):
        return protocol.answer_predicate(node_answers.over_quota(why), Code.NEVER)
    [answer] = context.nodes.of([name], pod)
    if answer.fits:
        return protocol.answer_predicate()
    return protocol.answer_predicate(answer.reason, Code.NEVER if answer.permanent else Code.BUSY)


async def _prioritize(context: CallContext, body: bytes) -> bytes:
    task, names = protocol.read_prioritize(body)
    ranks = await context.ranks(names, context.pending_pod(task.pod))
    return protocol.answer_prioritize(dict(zip(names, ranks.absolute(), strict=True)))


async def _preemptable(context: CallContext, body: bytes) -> bytes:
    evictor, evictees = protocol.read_preemptable(body)
    pod = context.pending_pod(evictor.pod)
    by_node: dict[str, list[Task]] = {}
    for task in evictees:
        by_node.setdefault(task.node_name, []).append(task)
    candidates = {
        name: Victims(tuple(task.uid for task in tasks), 0) for name, tasks in by_node.items() if name
    }
    useful = context.preemption.worthwhile(pod, candidates)
    victims = [task for name in useful for task in by_node[name]]
    return protocol.answer_preemptable(Vote.PERMIT if victims else Vote.REJECT, victims)


async def _allocate(context: CallContext, body: bytes) -> bytes:
    """Reserve zones for a task that Volcano has placed in its session."""
    task = protocol.read_task(body)
    pod = context.pending_pod(task.pod)
    if not task.node_name or not pod.uid:
        return protocol.answer_task("numalign: an allocated task must have its node and its pod's UID")
    await context.seen(pod, body)
    if why := context.state.over_quota(pod, node=task.node_name):
        return protocol.answer_task(node_answers.over_quota(why))
    [answer] = context.nodes.of([task.node_name], pod)
    if not answer.fits:
        return protocol.answer_task(answer.reason)
    context.reserve(pod, task.node_name)
    return protocol.answer_task()


async def _deallocate(context: CallContext, body: bytes) -> bytes:
    task, reservations = protocol.read_task(body), context.state.reservations
    assigned_pod = reservations.assigned_pod(task.uid)
    # A pod that is being pinned or bound keeps its zones, whoever calls.
    if assigned_pod and assigned_pod.name == (task.namespace, task.name) and not assigned_pod.unconfirmed:
        reservations.unreserve(task.uid)
    return protocol.answer_task()


async def _session(_context: CallContext, _body: bytes) -> bytes:
    """Answer the start or end of a session; the state here does not depend on it."""
    return protocol.answer_task()


_VERBS: Mapping[str, Callable[[CallContext, bytes], Awaitable[bytes]]] = MappingProxyType(
    {
        "predicate": _predicate,
        "prioritize": _prioritize,
        "preemptable": _preemptable,
        "allocate": _allocate,
        "deallocate": _deallocate,
        "onSessionOpen": _session,
        "onSessionClose": _session,
    }
)

_WITHOUT_TEXT: Mapping[str, bytes] = MappingProxyType(
    {
        "prioritize": protocol.answer_prioritize({}),
        "preemptable": protocol.answer_preemptable(Vote.ABSTAIN),
    }
)
"""Responses to calls that cannot be read, for verbs without a text in the response: the mistake is logged."""


async def _answer(context: CallContext, body: bytes, *, verb: str) -> bytes:
    """Return the response of a verb, or the mistakes in the call or its pod."""
    try:
        return await _VERBS[verb](context, body)
    except BadInput as error:
        if verb in _WITHOUT_TEXT:
            context.quiet_log.warning("call.unreadable", verb=f"volcano/{verb}", errors=error.mistakes)
            return _WITHOUT_TEXT[verb]
        text = f"numalign: {error}"
        return (
            protocol.answer_predicate(text, Code.BROKEN)
            if verb == "predicate"
            else protocol.answer_task(text)
        )


HANDLERS: Mapping[str, Callable[[CallContext, bytes], Awaitable[bytes]]] = MappingProxyType(
    {f"volcano/{verb}": partial(_answer, verb=verb) for verb in _VERBS}
)
"""The handlers by path; none raises for any content of a body."""
