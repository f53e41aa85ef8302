"""
The endpoints of the webhook: each decodes an AdmissionReview of the API server and answers it.

There are three kinds of errors, never mixed. For an invalid *request*, the API server gets HTTP 4xx. For an
invalid *pod*, its owner gets a denied review. For an *internal* error, the server's middleware answers 500,
and the failure policy of the webhook configuration decides.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from http import HTTPStatus
from types import MappingProxyType

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram

from numalign.cache import admission
from numalign.cache.admission import AdmissionDecision, AdmissionState, shortfalls
from numalign.cache.pod_question import PodQuestion
from numalign.kube.decode.parts import Part
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.scheduling import scheduling
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.errors import ClusterError
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.late_namespaces import LateNamespaces
from numalign.model.errors import Mistake
from numalign.model.node import node_class
from numalign.runtime import calls, server, tracing
from numalign.runtime.cooperative import computed, result_of
from numalign.runtime.logs import Log, QuietLog
from numalign.runtime.metrics import PREFIX, CacheSizes, EvaluatedNodes, not_answered
from numalign.runtime.tracing import SpanAttributes
from numalign.runtime.work_queue import answered_for
from webhook import changes
from webhook.avoidance import Avoidance, with_avoidance
from webhook.known_cluster import KnownCluster
from webhook.level_metrics import PodsBelow, ReviewsBelow
from webhook.mutate import PLACERS, UNSTEERED, Mutate, Steering, mutate, mutate_job
from webhook.patch import Mode
from webhook.quota import NewPod, QuotaReview, RecentlyAdmitted, uncounted
from webhook.refusal_audit import RefusalAudit
from webhook.review import (
    Allowed,
    BadReview,
    Denied,
    Patched,
    Review,
    answer_mutation,
    answer_validation,
    read,
)
from webhook.settings import WebhookSettings
from webhook.subject import JOB, InvalidPod, ReviewedPod, SkipReason, job_template, subject
from webhook.validate import Decide, refuse_broken, validate
from webhook.workloads import Workloads, judge, workload

JSON = "application/json"

LONGEST_NAME = 253
"""The limit of characters in the name of a pod (k8s.io/apimachinery, IsDNS1123Subdomain)."""

PODS_BELOW = web.AppKey("pods_below", PodsBelow)
"""The count of pods in an application, which must be kept up to date."""

_BUCKETS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 2.5)


class ReviewMetrics:
    """The metrics of reviews."""

    def __init__(self, known: KnownCluster, registry: CollectorRegistry, *, named: int) -> None:
        counter = partial(Counter, registry=registry)
        self.reviews = counter(f"{PREFIX}reviews", "Reviews, by decision.", ["webhook", "decision"])
        self.handed_over = counter(
            f"{PREFIX}pods_handed_over",
            "Pods that were given a scheduler or a scheduling gate.",
            ["by"],
        )
        for placer in PLACERS:
            self.handed_over.labels(placer)
        self.below = ReviewsBelow(known, registry, most=named)
        self.bad_calls = counter(
            f"{PREFIX}bad_calls", "Calls that are not a valid review, by status code.", ["webhook", "code"]
        )
        self.not_answered = not_answered(registry)
        self.decisions = counter(
            f"{PREFIX}decisions",
            "Decisions about pods and pod templates, by their basis.",
            ["state"],
        )
        for state in AdmissionState:
            self.decisions.labels(state)
        self.seconds = Histogram(
            f"{PREFIX}review_seconds",
            "Seconds from the first byte of a review to its answer.",
            ["webhook"],
            buckets=_BUCKETS,
            registry=registry,
        )


@dataclass(frozen=True, slots=True)
class Context:
    """What the endpoints need to answer reviews.

    `late_namespaces` is None with a file: a namespace that is not in it does not exist.
    """

    known: KnownCluster
    policy: PolicyKeeper
    settings: WebhookSettings
    log: Log
    reader: PodReader
    metrics: ReviewMetrics
    quiet_log: QuietLog
    avoidance: Avoidance
    audit: RefusalAudit | None
    late_namespaces: LateNamespaces | None
    quota: QuotaReview


@dataclass(frozen=True, slots=True)
class Outcome:
    """The name of a decision, the response, and its bytes."""

    decision: str
    answer: Allowed | Patched | Denied
    body: bytes


Endpoint = Callable[[Context, Review, EffectivePolicy], Awaitable[Outcome]]


def application(  # noqa: PLR0913  its dependencies
    settings: WebhookSettings,
    *,
    known: KnownCluster,
    policy: PolicyKeeper,
    avoidance: Avoidance,
    log: Log,
    registry: CollectorRegistry,
    audit: RefusalAudit | None = None,
    late_namespaces: LateNamespaces | None = None,
    recent: RecentlyAdmitted | None = None,
) -> web.Application:
    """Return the webhook's routes on the common server; denials are written to `audit`, if there is one."""
    metrics = ReviewMetrics(known, registry, named=settings.named_namespaces)
    reader = avoidance.reader
    # It is false as long as it is empty.
    recent = RecentlyAdmitted(time.monotonic) if recent is None else recent
    context = Context(
        *(known, policy, settings, log, reader, metrics, QuietLog(log), avoidance, audit, late_namespaces),
        QuotaReview(known.feed.pod_counts, lambda: known.unpinned, recent),
    )
    below = PodsBelow(known, policy, reader, most=settings.named_namespaces)
    registry.register(below)
    registry.register(CacheSizes((known.caches, reader.caches, avoidance.refusals.caches)))
    registry.register(EvaluatedNodes(known.cache.evaluated))
    app = server.application(
        [web.post(f"/{name}", partial(_handle, context=context, name=name)) for name in _ENDPOINTS],
        log=log,
        registry=registry,
        checks={"snapshot": known.waiting_for},
        limits=settings.limits,
        state=partial(_state, context) if settings.debug_state else None,
    )
    app[PODS_BELOW] = below
    return app


async def _handle(request: web.Request, *, context: Context, name: str) -> web.Response:
    """Decode, decide, respond; a request that is not a review gets a response with its mistakes."""
    try:
        review = read(_body(request))
    except BadReview as error:
        context.metrics.bad_calls.labels(name, str(int(error.status))).inc()
        context.quiet_log.warning("review.unreadable", webhook=name, errors=error.mistakes)
        return web.json_response({"error": str(error)}, status=error.status)
    cluster = context.known.cluster
    if not cluster.listed:
        return _unavailable("the state of the cluster is not known yet")
    try:
        policy = await _policy_for(context, review.namespace)
        # The caller may have invented it.
        answered_for(review.namespace if review.namespace in policy.rules else "")
        outcome = await _ENDPOINTS[name](context, review, policy)
    except ClusterError as error:
        context.quiet_log.warning("namespace.unread", webhook=name, error=str(error))
        return _unavailable(str(error))
    except Exception as error:
        error.add_note(f"while answering review {review.uid}")
        raise
    context.metrics.seconds.labels(name).observe(time.perf_counter() - calls.received_at(request))
    context.metrics.reviews.labels(name, outcome.decision).inc()
    _log(context.log, name, review, outcome)
    if span := tracing.current():
        span.add(_shown(review, outcome))
    if context.audit and isinstance(outcome.answer, Denied):
        context.audit.refused(review, name, outcome.answer, nodes=len(context.known.cache.nodes))
    return web.Response(body=outcome.body, content_type=JSON)


def _unavailable(why: str) -> web.Response:
    """Return an answer after which the API server retries, and then applies the failure policy."""
    # It retries after a second, within its timeout.
    headers = {"Retry-After": "1"}
    return web.json_response({"error": why}, status=HTTPStatus.SERVICE_UNAVAILABLE, headers=headers)


async def _policy_for(context: Context, namespace: str) -> EffectivePolicy:
    """Return the policy for a namespace, which the watch may not have reported yet; raise `ClusterError`."""
    policy = EffectivePolicy.of(context.known.cluster, context.policy.now)
    if namespace in policy.rules or context.late_namespaces is None:
        return policy
    facts = await context.late_namespaces.facts(namespace)
    if facts is None:
        return policy
    return replace(policy, rules={namespace: facts.rules}, labels={namespace: facts.labels})


def _body(request: web.Request) -> bytes:
    if request.content_type != JSON:
        message = f"unsupported content type {request.content_type}: send {JSON}"
        raise BadReview(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, [Mistake("Content-Type", message)])
    return calls.body(request)


async def _mutation(context: Context, review: Review, policy: EffectivePolicy) -> Outcome:
    # The API server completes pods after all webhooks that change them, and before those that validate.
    read = job_template if review.kind == JOB else subject
    pod = _subject(context, review, policy, partial(read, server=context.known.cluster.server))
    if isinstance(pod, ReviewedPod):
        if review.kind == JOB:
            answer = await _steered(context, pod, mutate_job)
        else:
            answer = _avoiding(context, pod, await _steered(context, pod, mutate))
        decision = _mutated(answer)
        for placer in _placers(answer):
            context.metrics.handed_over.labels(placer).inc()
    else:
        # A pod that cannot be read is denied at validation, as it would be stored.
        answer, decision = Allowed(), "skipped" if isinstance(pod, SkipReason) else "invalid"
    return Outcome(decision, answer, answer_mutation(review.uid, answer))


async def _steered(context: Context, pod: ReviewedPod, mutate: Mutate) -> Allowed | Patched:
    """Return what to write into a pod; a patch in the middle of a burst of changes waits for the rest."""
    known, answer = context.known, await _steered_by_now(context, pod, mutate)
    while isinstance(answer, Patched) and not known.cluster.settled:
        await known.all_applied()
        answer = await _steered_by_now(context, pod, mutate)
    return answer


async def _steered_by_now(context: Context, pod: ReviewedPod, mutate: Mutate) -> Allowed | Patched:
    cache, served = context.known.cache, context.known.cluster.served
    steering = Steering(context.settings.injection, context.settings.gates)
    return await computed(cache.pace, partial(mutate, pod, cache, steering, served=served))


def _avoiding(context: Context, pod: ReviewedPod, answer: Allowed | Patched) -> Allowed | Patched:
    """Return the response, extended by the nodes to avoid, unless injection is off."""
    if context.settings.injection is Mode.OFF:
        return answer
    return with_avoidance(answer, pod, context.avoidance.nodes(pod), context.known.cluster.node_labels)


def _placers(answer: Allowed | Patched | Denied) -> dict[str, str]:
    """Return the audit annotations for what places the pod."""
    return {key: answer.audit[key] for key in PLACERS if key in answer.audit}


def _mutated(answer: Allowed | Patched) -> str:
    if isinstance(answer, Patched):
        return "patched"
    return UNSTEERED if UNSTEERED in answer.audit else "admitted"


async def _validation(context: Context, review: Review, policy: EffectivePolicy) -> Outcome:
    if changes.is_change(review):
        judged = changes.judge(review, policy)
        if isinstance(judged, SkipReason):
            return _validated(review, Allowed(), "skipped")
        return _validated(review, judged)
    pod = _subject(context, review, policy)
    if pod is SkipReason.SILENT:
        answer = _within_quota(context, review, policy, Allowed())
        return _validated(review, answer, "" if answer != Allowed() else "skipped")
    if isinstance(pod, SkipReason):
        return _validated(review, Allowed(), "skipped")
    if isinstance(pod, InvalidPod):
        return _validated(review, refuse_broken(pod), "invalid")
    answer = validate(pod.request, await _decided(context, [pod.request]))
    context.metrics.below.count(pod.request.namespace, shortfalls(pod.request))
    return _validated(review, _within_quota(context, review, policy, answer))


def _within_quota(
    context: Context, review: Review, policy: EffectivePolicy, answer: Allowed | Denied
) -> Allowed | Denied:
    """Return the answer about a pod that may be beyond the quota of its namespace."""
    limit, over_quota = policy.exclusive_cpus(review.namespace), policy.policy.over_quota
    if limit is None:
        return answer
    pin = scheduling(review.object).pin
    if pin and pin.node in context.known.unpinned:
        return answer
    request = context.reader.request(review.object, most_mistakes=1)
    if (demand := request.demand) is None:
        return uncounted(review.namespace, limit, request.unreadable, over_quota)
    # Nothing but its request identifies a pod whose name is generated later.
    name = (review.name or Part(review.object)["metadata"]["name"].text())[:LONGEST_NAME] or f"/{review.uid}"
    pod = NewPod((review.namespace, name), demand.exclusive_cpus, limit)
    return context.quota.limited(pod, answer, over_quota, dry_run=review.dry_run)


def _validated(review: Review, answer: Allowed | Denied, decision: str = "") -> Outcome:
    """Return the outcome of a validation, named after the response by default."""
    named = "denied" if isinstance(answer, Denied) else "warned" if answer.warnings else "admitted"
    return Outcome(decision or named, answer, answer_validation(review.uid, answer))


async def _decided(context: Context, pods: Iterable[PodQuestion]) -> Decide:
    """Decide about these pods one by one, each in the state by then; return a function that counts uses."""
    decisions: dict[PodQuestion, AdmissionDecision] = {}
    for pod in pods:
        if decisions:
            await asyncio.sleep(0)
        decisions[pod] = await _decision(context, pod)

    def decide(pod: PodQuestion) -> AdmissionDecision:
        decision = decisions[pod]
        context.metrics.decisions.labels(decision.state).inc()
        return decision

    return decide


async def _decision(context: Context, pod: PodQuestion) -> AdmissionDecision:
    """Decide about a pod; a denial in the middle of a burst of changes waits for the rest."""
    known, decide = context.known, partial(_decision_by_now, context, pod)
    decision, answered = await computed(known.cache.pace, decide)
    while decision.refusal and decision.state not in admission.BY_ITSELF and not known.cluster.settled:
        await known.all_applied()
        decision, answered = await computed(known.cache.pace, decide)
    context.metrics.not_answered.inc(not answered)
    return decision


def _decision_by_now(context: Context, pod: PodQuestion) -> tuple[AdmissionDecision, bool]:
    """Return the decision, and whether all nodes have answered."""
    cache, served = context.known.cache, context.known.cluster.served
    may_fit = context.settings.unknown_nodes == "may-fit"
    refusals = context.policy.now.refusals(unknown_may_fit=may_fit)
    decision = admission.decide(pod, cache, refusals, now=time.time(), served=served)
    return decision, admission.answered(pod, cache, served=served)


async def _workloads(context: Context, review: Review, policy: EffectivePolicy) -> Outcome:
    mode = context.settings.workloads
    server = context.known.cluster.server
    reviewed = await result_of(workload(review, policy, reader=context.reader, server=server))
    if isinstance(reviewed, SkipReason) or mode is Workloads.OFF:
        return _validated(review, Allowed(), "skipped")
    decide = await _decided(context, reviewed.questions(mode))
    return _validated(review, judge(reviewed, decide, mode=mode))


def _state(context: Context) -> dict[str, object]:
    """Return what the webhook knows, for debugging."""
    known = context.known
    return {
        "age_seconds": known.feed.age(),
        "nodes": {
            node.name: {"class": node_class(node), "label": node.label, "known": node.known}
            for node in known.cache.nodes
        },
        "nodes_without_topology": known.cache.unknown,
        "namespaces": {name: asdict(rules) for name, rules in known.cluster.namespaces.items()},
        "policy": context.policy.now.to_json(),
    }


def _subject(
    context: Context,
    review: Review,
    policy: EffectivePolicy,
    read: Callable[..., ReviewedPod | SkipReason] = subject,
) -> ReviewedPod | SkipReason | InvalidPod:
    try:
        return read(review, policy, reader=context.reader)
    except InvalidPod as error:
        return error


def _log(log: Log, name: str, review: Review, outcome: Outcome) -> None:
    """Log one line per decision; those that change nothing at level debug."""
    line = log.debug if outcome.decision in _QUIET else log.info
    refusal = {"message": outcome.answer.message} if isinstance(outcome.answer, Denied) else {}
    line(
        "review.decided",
        webhook=name,
        uid=review.uid,
        namespace=review.namespace,
        kind=review.kind.kind,
        name=review.name or _name(review.object),
        user=review.user.username,
        dry_run=review.dry_run,
        decision=outcome.decision,
        warnings=outcome.answer.warnings,
        **refusal,
        **_placers(outcome.answer),
    )


def _shown(review: Review, outcome: Outcome) -> SpanAttributes:
    """Return the span attributes of a review."""
    kind = review.kind.kind
    return {
        "numalign.review.uid": review.uid,
        "numalign.review.dry_run": review.dry_run,
        "numalign.decision": outcome.decision,
        "k8s.namespace.name": review.namespace,
        f"k8s.{kind.lower()}.name" if kind in _NAMED_IN_TRACES else "k8s.object.name": (
            review.name or _name(review.object)
        ),
    }


def _name(pod: Mapping[str, object]) -> str:
    """Return the name, or the prefix of a name still to be generated, as for all pods of a controller."""
    metadata = Part(pod)["metadata"]
    return metadata["name"].text() or metadata["generateName"].text()


# OpenTelemetry has attribute names for these kinds (semantic conventions of k8s resources).
_NAMED_IN_TRACES = frozenset(
    {"Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"}
)
_QUIET = frozenset({"admitted", "skipped"})
_ENDPOINTS: Mapping[str, Endpoint] = MappingProxyType(
    {"mutate": _mutation, "validate": _validation, "validate-workloads": _workloads}
)
