"""
Door 2: a scheduler comes in with a pod and names of nodes, and leaves with those that will take it.

Filter, prioritize and preempt only read. What they answer is right at the moment, from what is in memory, and
nobody waits for an API server; what counts is settled at bind.

A call that makes no sense is told so with a status that the scheduler takes for a failure. A pod that makes
no sense is told so in the answer, where its owner will find it. Volcano's client understands nothing but 200,
so there the answer itself has to say it.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from types import MappingProxyType

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram

from numalign.cache.ranking import Ranks
from numalign.model.errors import BadInput, Mistake
from numalign.runtime import calls, server
from numalign.runtime.cooperative import patiently
from numalign.runtime.logs import Log, QuietLog
from numalign.runtime.metrics import PREFIX, not_answered
from numalign.runtime.server_state import Check, DebugState
from scorer import extender_protocol, ranked
from scorer.binding import Binder
from scorer.extender_protocol import MAX_SCORE, BadCall, Calls, Victims
from scorer.judging import Judge
from scorer.places import Places
from scorer.preempting import Preemption
from scorer.ranking import Ranker
from scorer.scheduler_state import PendingPod, SchedulerState
from scorer.settings import PromiseAt, ScorerSettings
from scorer.volcano import protocol as volcano
from scorer.volcano.protocol import Code, Task, Vote

JSON = "application/json"

_BUCKETS = (
    *(0.0001, 0.0002, 0.0003, 0.0004, 0.0005, 0.0006, 0.0007, 0.0008, 0.001, 0.0015, 0.002, 0.003, 0.004),
    *(0.005, 0.007, 0.01, 0.015, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)


_ANSWERS = ("fits", "not_now", "never")
"""What a node can say to filter."""


@dataclass(frozen=True, slots=True)
class ScorerHandlers:
    """What the endpoints share.

    `leading` says whether promises may be made here, `elsewhere` whether that is for another replica to do.
    """

    register: SchedulerState
    judge: Judge
    binder: Binder
    preemption: Preemption
    ranker: Ranker
    promise: PromiseAt
    leading: Callable[[], bool]
    clock: Callable[[], float]
    age: Callable[[], float]
    log: Log
    quiet_log: QuietLog
    elsewhere: Callable[[], bool] = lambda: False
    calls: Calls = field(default_factory=Calls)
    places: Places = field(default_factory=Places)


@dataclass(frozen=True, slots=True)
class CallMetrics:
    """What is counted of calls; `nodes` by what they said."""

    calls: Counter
    nodes: Mapping[str, Counter]
    not_answered: Counter
    seconds: Histogram

    @classmethod
    def of(cls, registry: CollectorRegistry) -> "CallMetrics":
        """CallMetrics that this registry shows."""
        nodes = Counter(
            f"{PREFIX}filtered_nodes",
            "Nodes that filter was asked about, by what they said.",
            ["answer"],
            registry=registry,
        )
        return cls(
            Counter(
                f"{PREFIX}scheduler_calls", "Calls of schedulers.", ["verb", "result"], registry=registry
            ),
            {answer: nodes.labels(answer) for answer in _ANSWERS},
            not_answered(registry),
            Histogram(
                f"{PREFIX}scheduler_call_seconds",
                "From the whole request in hand to the answer in bytes.",
                ["verb"],
                buckets=_BUCKETS,
                registry=registry,
            ),
        )


VerbHandler = Callable[[ScorerHandlers, CallMetrics, bytes], Awaitable[bytes]]


def application(  # noqa: PLR0913  what the server and the door are made of
    settings: ScorerSettings,
    door: ScorerHandlers,
    *,
    log: Log,
    registry: CollectorRegistry,
    checks: Mapping[str, Check],
    state: DebugState,
) -> web.Application:
    """The scorer's routes on the common server."""
    meters = CallMetrics.of(registry)
    handled = [
        web.post(f"/{name}", partial(_handle, door=door, meters=meters, name=name)) for name in ENDPOINTS
    ]
    return server.application(
        handled,
        log=log,
        registry=registry,
        checks=checks,
        limits=settings.limits,
        state=state if settings.debug_state else None,
    )


async def _handle(
    request: web.Request, *, door: ScorerHandlers, meters: CallMetrics, name: str
) -> web.Response:
    """Answer; whoever calls the wrong replica is sent away."""
    said = await _answered(calls.body(request), door, meters, name)
    if door.elsewhere():
        # A scheduler keeps its connections: only one that is closed comes to whoever leads by now.
        said.force_close()
    return said


async def _answered(body: bytes, door: ScorerHandlers, meters: CallMetrics, name: str) -> web.Response:
    """Read, decide, answer; a call that makes no sense is told so."""
    if door.register.snapshot is None:
        return _not_yet()
    began = time.perf_counter()
    try:
        answer = await ENDPOINTS[name](door, meters, body)
    except BadCall as error:
        return _bad(door, meters, name, error, error.status)
    except BadInput as error:
        return _bad(door, meters, name, error, HTTPStatus.UNPROCESSABLE_ENTITY)
    meters.seconds.labels(name).observe(time.perf_counter() - began)
    meters.calls.labels(name, "answered").inc()
    return web.Response(body=answer, content_type=JSON)


def _not_yet() -> web.Response:
    said = {"error": "nothing is known of the cluster yet"}
    return web.json_response(said, status=HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "1"})


def _bad(
    door: ScorerHandlers, meters: CallMetrics, name: str, error: BadInput, status: HTTPStatus
) -> web.Response:
    meters.calls.labels(name, "bad").inc()
    door.quiet_log.warning("call.unreadable", verb=name, mistakes=error.mistakes)
    return web.json_response({"error": str(error)}, status=status)


# kube-scheduler.


async def _filter(door: ScorerHandlers, meters: CallMetrics, body: bytes) -> bytes:
    asked = door.calls.candidates(body)
    try:
        subject = door.register.subject(asked.pod)
    except BadInput as error:
        return extender_protocol.answer_filter_error(f"numalign: {error}")
    await patiently(door.judge.asking(asked.names, subject))
    poll = door.judge.poll(asked.names, subject)
    found = poll.filtered()
    meters.not_answered.inc(not poll.answered)
    for answer, nodes in zip(_ANSWERS, (found.fit, found.failed, found.unresolvable), strict=True):
        meters.nodes[answer].inc(len(nodes))
    # With a single node left nobody asks which is the best.
    if len(found.fit) == 1 and _may_promise(door, subject):
        _promise(door, subject, found.fit[0])
    return extender_protocol.answer_filter(asked, found)


async def _prioritize(door: ScorerHandlers, _meters: CallMetrics, body: bytes) -> bytes:
    asked = door.calls.candidates(body)
    subject = door.register.subject(asked.pod)
    ranks = await _ranked(door, asked.names, subject)
    if _may_promise(door, subject):
        best = ranks.best(asked.names)
        if best is not None:
            _promise(door, subject, asked.names[best])
            ranks = ranks.above_equals([best])
    return extender_protocol.answer_scores(asked.names, ranks.squeezed(MAX_SCORE))


async def _bind(door: ScorerHandlers, _meters: CallMetrics, body: bytes) -> bytes:
    return extender_protocol.answer_binding(await door.binder.bind(extender_protocol.read_binding(body)))


async def _preempt(door: ScorerHandlers, _meters: CallMetrics, body: bytes) -> bytes:
    asked = extender_protocol.read_preemption(body)
    subject = door.register.subject(asked.pod)
    return extender_protocol.answer_preemption(door.preemption.worthwhile(subject, asked.victims))


async def _ranked(door: ScorerHandlers, names: Sequence[str], subject: PendingPod) -> Ranks:
    await patiently(door.judge.asking(names, subject))
    poll = door.judge.poll(names, subject)
    return ranked.ranks(poll, subject, register=door.register, ranker=door.ranker)


def _may_promise(door: ScorerHandlers, subject: PendingPod) -> bool:
    """Whether zones are to be kept for a pod that somebody else will bind."""
    if door.promise is not PromiseAt.PRIORITIZE or not subject.uid or not door.leading():
        return False
    assigned_pod = door.register.reservations.assigned_pod(subject.uid)
    return assigned_pod is None or assigned_pod.reserved


def _promise(door: ScorerHandlers, subject: PendingPod, name: str) -> None:
    """Keep for a pod what a node offers to it."""
    [judged] = door.judge.ask([name], subject)
    door.register.reservations.reserve(name, subject.assigned_pod(now=door.clock()), judged.offer)


# People, and schedulers of other kinds.


async def _rank(door: ScorerHandlers, _meters: CallMetrics, body: bytes) -> bytes:
    asked = extender_protocol.read_rank(body)
    subject = door.register.subject(asked.pod)
    names = asked.names if asked.names is not None else sorted(door.register.names())
    away = door.places.away(names, subject.constraints, door.register.snapshot)
    judged = [name for name in names if name not in away]
    found = await _ranked(door, judged, subject)
    kept = ranked.kept_away(away, subject, judge=door.judge)
    return ranked.page(door.judge.ask(judged, subject), found, subject=subject, age=door.age(), kept=kept)


# Volcano.


async def _volcano_predicate(door: ScorerHandlers, _meters: CallMetrics, body: bytes) -> bytes:
    try:
        task, name = volcano.read_predicate(body)
        judged = door.judge.ask([name], door.register.subject(task.pod))[0]
    except BadInput as error:
        return volcano.answer_predicate(f"numalign: {error}", Code.BROKEN)
    if judged.fits:
        return volcano.answer_predicate()
    return volcano.answer_predicate(judged.reason, Code.NEVER if judged.permanent else Code.BUSY)


async def _volcano_prioritize(door: ScorerHandlers, _meters: CallMetrics, body: bytes) -> bytes:
    try:
        task, names = volcano.read_prioritize(body)
        found = await _ranked(door, names, door.register.subject(task.pod))
    except BadInput as error:
        _complain(door, "volcano/prioritize", error.mistakes)
        return volcano.answer_prioritize({})
    return volcano.answer_prioritize(dict(zip(names, found.absolute(), strict=True)))


async def _volcano_preemptable(door: ScorerHandlers, _meters: CallMetrics, body: bytes) -> bytes:
    try:
        evictor, evictees = volcano.read_preemptable(body)
        subject = door.register.subject(evictor.pod)
    except BadInput as error:
        _complain(door, "volcano/preemptable", error.mistakes)
        return volcano.answer_preemptable(Vote.ABSTAIN)
    by_node: dict[str, list[Task]] = {}
    for each in evictees:
        by_node.setdefault(each.node_name, []).append(each)
    candidates = {
        name: Victims(tuple(each.uid for each in tasks), 0) for name, tasks in by_node.items() if name
    }
    useful = door.preemption.worthwhile(subject, candidates)
    victims = [each for name in useful for each in by_node[name]]
    return volcano.answer_preemptable(Vote.PERMIT if victims else Vote.REJECT, victims)


async def _volcano_allocate(door: ScorerHandlers, _meters: CallMetrics, body: bytes) -> bytes:
    """Within its session Volcano tells where it has put a task, so the zones can be kept at once."""
    try:
        task = volcano.read_task(body)
        subject = door.register.subject(task.pod)
    except BadInput as error:
        return volcano.answer_task(f"numalign: {error}")
    if not task.node_name or not subject.uid:
        return volcano.answer_task("numalign: a task is allocated with its node and its pod's uid")
    judged = door.judge.ask([task.node_name], subject)[0]
    if not judged.fits:
        return volcano.answer_task(judged.reason)
    assigned_pod = door.register.reservations.assigned_pod(subject.uid)
    if door.leading() and (assigned_pod is None or assigned_pod.reserved):
        door.register.reservations.reserve(
            task.node_name, subject.assigned_pod(now=door.clock()), judged.offer
        )
    return volcano.answer_task()


async def _volcano_deallocate(door: ScorerHandlers, _meters: CallMetrics, body: bytes) -> bytes:
    try:
        task = volcano.read_task(body)
    except BadInput as error:
        return volcano.answer_task(f"numalign: {error}")
    door.register.reservations.unreserve(task.uid)
    return volcano.answer_task()


async def _volcano_session(_door: ScorerHandlers, _meters: CallMetrics, _body: bytes) -> bytes:
    """Sessions begin and end; what is known here does not depend on them."""
    return volcano.answer_task()


def _complain(door: ScorerHandlers, verb: str, mistakes: Iterable[Mistake]) -> None:
    door.quiet_log.warning("call.unreadable", verb=verb, mistakes=list(mistakes))


ENDPOINTS: Mapping[str, VerbHandler] = MappingProxyType(
    {
        "filter": _filter,
        "prioritize": _prioritize,
        "bind": _bind,
        "preempt": _preempt,
        "v1/rank": _rank,
        "volcano/predicate": _volcano_predicate,
        "volcano/prioritize": _volcano_prioritize,
        "volcano/preemptable": _volcano_preemptable,
        "volcano/allocate": _volcano_allocate,
        "volcano/deallocate": _volcano_deallocate,
        "volcano/onSessionOpen": _volcano_session,
        "volcano/onSessionClose": _volcano_session,
    }
)
"""By path: what answers a body, or raises `BadInput`."""
