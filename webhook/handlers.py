"""
Door 1: the API server comes in with an AdmissionReview and leaves with an answer.

Three ways to be wrong, never mixed. The *call* is bad: HTTP 4xx, the API server is told. The *pod* is bad: a
review that says no, its owner is told. *We* are bad: the server's middleware answers 500, and the failure
policy of the webhook configuration decides.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from http import HTTPStatus
from types import MappingProxyType

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram

from numalign.cache import admission, dra
from numalign.cache.admission import AdmissionDecision, AdmissionState, Refusals, shortfalls
from numalign.cache.pod_question import PodQuestion
from numalign.kube.cluster_state import Snapshot
from numalign.kube.decode.parts import Part
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.files.policy import PolicyKeeper
from numalign.model.errors import Mistake
from numalign.model.node import node_class
from numalign.runtime import calls, server
from numalign.runtime.cooperative import patiently, result_of
from numalign.runtime.logs import Log, QuietLog
from numalign.runtime.metrics import PREFIX, CacheSizes, not_answered
from webhook import review
from webhook.level_metrics import PodsBelow, ReviewsBelow
from webhook.mutate import UNSTEERED, concerns, mutate
from webhook.review import Allowed, BadReview, Denied, Patched, Review
from webhook.settings import WebhookSettings
from webhook.snapshot_holder import SnapshotHolder
from webhook.subject import InvalidPod, ReviewedPod, SkipReason, subject
from webhook.validate import Decide, refuse_broken, validate
from webhook.workloads import Workloads, judge, workload

JSON = "application/json"

_BUCKETS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 2.5)


@dataclass(frozen=True, slots=True)
class Handlers:
    """What the endpoints share."""

    holder: SnapshotHolder
    policy: PolicyKeeper
    settings: WebhookSettings
    log: Log
    quiet_log: QuietLog
    reader: PodReader
    reviews: Counter
    below: ReviewsBelow
    bad_calls: Counter
    not_answered: Counter
    decisions: Counter
    seconds: Histogram
    wall: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is answered: the name of the decision, the answer, and its bytes."""

    decision: str
    answer: Allowed | Patched | Denied
    body: bytes


Endpoint = Callable[[Handlers, Review, Snapshot], Awaitable[Outcome]]


def application(  # noqa: PLR0913  what is known, how it is read, and what every part is given
    settings: WebhookSettings,
    *,
    holder: SnapshotHolder,
    policy: PolicyKeeper,
    reader: PodReader,
    log: Log,
    registry: CollectorRegistry,
) -> web.Application:
    """The webhook's routes on the common server."""
    door = _door(settings, holder, policy, reader, log=log, registry=registry)
    registry.register(PodsBelow(holder, policy, reader))
    registry.register(CacheSizes((holder.caches, reader.caches)))
    return server.application(
        [web.post(f"/{name}", partial(_handle, door=door, name=name)) for name in _ENDPOINTS],
        log=log,
        registry=registry,
        checks={"snapshot": holder.waiting_for},
        limits=settings.limits,
        state=partial(_state, door) if settings.debug_state else None,
    )


def _door(  # noqa: PLR0913  likewise
    settings: WebhookSettings,
    holder: SnapshotHolder,
    policy: PolicyKeeper,
    reader: PodReader,
    *,
    log: Log,
    registry: CollectorRegistry,
) -> Handlers:
    counter = partial(Counter, registry=registry)
    return Handlers(
        holder,
        policy,
        settings,
        log,
        QuietLog(log),
        reader,
        reviews=counter(f"{PREFIX}reviews", "Answers to reviews.", ["webhook", "decision"]),
        below=ReviewsBelow(holder, registry),
        bad_calls=counter(f"{PREFIX}bad_calls", "Calls that are no review, by status.", ["webhook", "code"]),
        not_answered=not_answered(registry),
        decisions=_decisions(registry),
        seconds=Histogram(
            f"{PREFIX}review_seconds",
            "From the whole request in hand to the answer in bytes.",
            ["webhook"],
            buckets=_BUCKETS,
            registry=registry,
        ),
        wall=time.time,
    )


def _decisions(registry: CollectorRegistry) -> Counter:
    """Counts what decisions about pods and templates rest on."""
    counter = Counter(
        f"{PREFIX}decisions",
        "Decisions about pods and templates of workloads, by what they rest on.",
        ["state"],
        registry=registry,
    )
    for state in AdmissionState:
        counter.labels(state)
    return counter


async def _handle(request: web.Request, *, door: Handlers, name: str) -> web.Response:
    """Read, decide, answer; a call that is no review is told so."""
    try:
        body = _body(request)
        began = time.perf_counter()
        asked = review.read(body)
    except BadReview as error:
        door.bad_calls.labels(name, str(int(error.status))).inc()
        door.quiet_log.warning("review.unreadable", webhook=name, mistakes=error.mistakes)
        return web.json_response({"error": str(error)}, status=error.status)
    snapshot = door.holder.snapshot
    if snapshot is None:
        return _not_yet()
    try:
        outcome = await _ENDPOINTS[name](door, asked, snapshot)
    except Exception as error:
        error.add_note(f"while answering review {asked.uid}")
        raise
    door.seconds.labels(name).observe(time.perf_counter() - began)
    door.reviews.labels(name, outcome.decision).inc()
    _tell(door.log, name, asked, outcome)
    return web.Response(body=outcome.body, content_type=JSON)


def _not_yet() -> web.Response:
    """The API server asks again after a second, within the time that it has."""
    said = {"error": "no snapshot could be read yet"}
    return web.json_response(said, status=HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "1"})


def _body(request: web.Request) -> bytes:
    if request.content_type != JSON:
        message = f"the content type is {request.content_type}: send {JSON}"
        raise BadReview(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, [Mistake("Content-Type", message)])
    return calls.body(request)


async def _mutation(door: Handlers, asked: Review, snapshot: Snapshot) -> Outcome:
    found = _subject(door, asked, snapshot)
    if isinstance(found, ReviewedPod):
        if concerns(found, mode=door.settings.injection):
            await patiently(door.holder.cache.work_ever(dra.sure(found.request.question, snapshot.served)))
        answer = mutate(found, door.holder.cache, mode=door.settings.injection, served=snapshot.served)
        decision = _mutated(answer)
    else:
        # What cannot be read is refused at validation, as it would be stored.
        answer, decision = Allowed(), "skipped" if isinstance(found, SkipReason) else "invalid"
    return Outcome(decision, answer, review.answer_mutation(asked.uid, answer))


def _mutated(answer: Allowed | Patched) -> str:
    if isinstance(answer, Patched):
        return "patched"
    return UNSTEERED if UNSTEERED in answer.audit else "admitted"


async def _validation(door: Handlers, asked: Review, snapshot: Snapshot) -> Outcome:
    found = _subject(door, asked, snapshot)
    if isinstance(found, SkipReason):
        answer: Allowed | Denied = Allowed()
        decision = "skipped"
    elif isinstance(found, InvalidPod):
        answer, decision = refuse_broken(found), "invalid"
    else:
        await _find_out(door, found.request, snapshot)
        answer = validate(found.request, _judge(door, snapshot))
        door.below.count(found.request.namespace, shortfalls(found.request))
        decision = "denied" if isinstance(answer, Denied) else "warned" if answer.warnings else "admitted"
    return Outcome(decision, answer, review.answer_validation(asked.uid, answer))


async def _find_out(door: Handlers, asked: PodQuestion, snapshot: Snapshot) -> None:
    """Find out what has to be known to decide about a pod, and let others be answered meanwhile."""
    await patiently(admission.steps(asked, door.holder.cache, served=snapshot.served))
    door.not_answered.inc(not admission.answered(asked, door.holder.cache, served=snapshot.served))


def _judge(door: Handlers, snapshot: Snapshot) -> Decide:
    """What decides about pods at a snapshot, and counts what was decided."""
    policy = door.policy.now
    may_fit = door.settings.unknown_nodes == "may-fit"
    refusals = Refusals(policy.never, policy.unknown_resources, unknown_may_fit=may_fit)

    def judge(asked: PodQuestion) -> AdmissionDecision:
        found = admission.decide(asked, door.holder.cache, refusals, now=door.wall(), served=snapshot.served)
        door.decisions.labels(found.state).inc()
        return found

    return judge


async def _workloads(door: Handlers, asked: Review, snapshot: Snapshot) -> Outcome:
    mode = door.settings.workloads
    steps = workload(asked, snapshot, reader=door.reader, policy=door.policy.now)
    found = await result_of(steps)
    if isinstance(found, SkipReason) or mode is Workloads.OFF:
        answer: Allowed | Denied = Allowed()
        decision = "skipped"
    else:
        for pods in found.questions(mode):
            await _find_out(door, pods, snapshot)
        answer = judge(found, _judge(door, snapshot), mode=mode)
        decision = "denied" if isinstance(answer, Denied) else "warned" if answer.warnings else "admitted"
    return Outcome(decision, answer, review.answer_validation(asked.uid, answer))


def _state(door: Handlers) -> dict[str, object]:
    """What the webhook knows, for whoever hunts a fault."""
    holder, snapshot = door.holder, door.holder.snapshot
    return {
        "age_seconds": holder.feed.age(),
        "nodes": {
            node.name: {"class": node_class(node), "label": node.label, "known": node.known}
            for node in holder.cache.nodes
        },
        "nodes_without_topology": holder.cache.unknown,
        "namespaces": {name: asdict(rules) for name, rules in snapshot.namespaces.items()}
        if snapshot
        else {},
        "policy": door.policy.now.to_json(),
    }


def _subject(door: Handlers, asked: Review, snapshot: Snapshot) -> ReviewedPod | SkipReason | InvalidPod:
    try:
        return subject(asked, snapshot, reader=door.reader, policy=door.policy.now)
    except InvalidPod as error:
        return error


def _tell(log: Log, name: str, asked: Review, outcome: Outcome) -> None:
    """One line per decision; those that changed nothing only for whoever hunts a fault."""
    say = log.debug if outcome.decision in _QUIET else log.info
    refusal = {"message": outcome.answer.message} if isinstance(outcome.answer, Denied) else {}
    say(
        "review.decided",
        webhook=name,
        uid=asked.uid,
        namespace=asked.namespace,
        kind=asked.kind.kind,
        name=asked.name or _name(asked.object),
        user=asked.user.username,
        dry_run=asked.dry_run,
        decision=outcome.decision,
        warnings=outcome.answer.warnings,
        **refusal,
    )


def _name(pod: Mapping[str, object]) -> str:
    """The name, or its stem while it is still to be made up, as for all pods of a controller."""
    metadata = Part(pod)["metadata"]
    return metadata["name"].text() or metadata["generateName"].text()


_QUIET = frozenset({"admitted", "skipped"})
_ENDPOINTS: Mapping[str, Endpoint] = MappingProxyType(
    {"mutate": _mutation, "validate": _validation, "validate-workloads": _workloads}
)
