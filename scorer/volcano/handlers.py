"""
What Volcano's extender plugin asks, answered.

Its client understands nothing but HTTP 200, so whatever is wrong with a call or a pod stands in the answer.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from numalign.model.errors import BadInput
from scorer.context import Context
from scorer.extender_protocol import Victims
from scorer.volcano import protocol
from scorer.volcano.protocol import Code, Task, Vote


async def _predicate(context: Context, body: bytes) -> bytes:
    try:
        task, name = protocol.read_predicate(body)
        [answer] = context.nodes.of([name], context.state.pending_pod(task.pod))
    except BadInput as error:
        return protocol.answer_predicate(f"numalign: {error}", Code.BROKEN)
    if answer.fits:
        return protocol.answer_predicate()
    return protocol.answer_predicate(answer.reason, Code.NEVER if answer.permanent else Code.BUSY)


async def _prioritize(context: Context, body: bytes) -> bytes:
    try:
        task, names = protocol.read_prioritize(body)
        ranks = await context.ranks(names, context.state.pending_pod(task.pod))
    except BadInput as error:
        _log(context, "prioritize", error)
        return protocol.answer_prioritize({})
    return protocol.answer_prioritize(dict(zip(names, ranks.absolute(), strict=True)))


async def _preemptable(context: Context, body: bytes) -> bytes:
    try:
        evictor, evictees = protocol.read_preemptable(body)
        pod = context.state.pending_pod(evictor.pod)
    except BadInput as error:
        _log(context, "preemptable", error)
        return protocol.answer_preemptable(Vote.ABSTAIN)
    by_node: dict[str, list[Task]] = {}
    for task in evictees:
        by_node.setdefault(task.node_name, []).append(task)
    candidates = {
        name: Victims(tuple(task.uid for task in tasks), 0) for name, tasks in by_node.items() if name
    }
    useful = context.preemption.worthwhile(pod, candidates)
    victims = [task for name in useful for task in by_node[name]]
    return protocol.answer_preemptable(Vote.PERMIT if victims else Vote.REJECT, victims)


async def _allocate(context: Context, body: bytes) -> bytes:
    """Within its session Volcano tells where it has put a task, so the zones can be reserved at once."""
    try:
        task = protocol.read_task(body)
        pod = context.state.pending_pod(task.pod)
    except BadInput as error:
        return protocol.answer_task(f"numalign: {error}")
    if not task.node_name or not pod.uid:
        return protocol.answer_task("numalign: a task is allocated with its node and its pod's uid")
    [answer] = context.nodes.of([task.node_name], pod)
    if not answer.fits:
        return protocol.answer_task(answer.reason)
    if context.may_reserve(pod):
        context.reserve(pod, answer)
    return protocol.answer_task()


async def _deallocate(context: Context, body: bytes) -> bytes:
    try:
        task = protocol.read_task(body)
    except BadInput as error:
        return protocol.answer_task(f"numalign: {error}")
    context.state.reservations.unreserve(task.uid)
    return protocol.answer_task()


async def _session(_context: Context, _body: bytes) -> bytes:
    """Sessions begin and end; what is known here does not depend on them."""
    return protocol.answer_task()


def _log(context: Context, verb: str, error: BadInput) -> None:
    """For answers that have no room for a text."""
    context.quiet_log.warning("call.unreadable", verb=f"volcano/{verb}", mistakes=list(error.mistakes))


HANDLERS: Mapping[str, Callable[[Context, bytes], Awaitable[bytes]]] = MappingProxyType(
    {
        "volcano/predicate": _predicate,
        "volcano/prioritize": _prioritize,
        "volcano/preemptable": _preemptable,
        "volcano/allocate": _allocate,
        "volcano/deallocate": _deallocate,
        "volcano/onSessionOpen": _session,
        "volcano/onSessionClose": _session,
    }
)
"""By path; none raises for anything that a body holds."""
