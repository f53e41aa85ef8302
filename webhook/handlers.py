"""
The endpoints of the webhook: each decodes an AdmissionReview of the API server and answers it.

There are three kinds of errors, never mixed. For an invalid *request*, the API server gets HTTP 4xx. For an
invalid *pod*, its owner gets a denied review. For an *internal* error, the server's middleware answers 500,
and the failure policy of the webhook configuration decides.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import TypeVar

from aiohttp import web
from prometheus_client import CollectorRegistry

from numalign.cache import admission
from numalign.cache.admission import AdmissionDecision, AdmissionState, shortfalls
from numalign.cache.pod_question import PodQuestion
from numalign.decision import wording
from numalign.kube.decode.parts import Part
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.errors import ClusterError
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.late_namespaces import LateNamespaces
from numalign.model import intent
from numalign.model.errors import Mistake
from numalign.model.intent import DECISIVE, Policy
from numalign.model.node import node_class
from numalign.runtime import calls, server, tracing
from numalign.runtime.cooperative import answered_for, computed, result_of
from numalign.runtime.logs import Log, QuietLog
from numalign.runtime.metrics import CacheSizes, EvaluatedNodes
from webhook.known_cluster import KnownCluster
from webhook.metrics import PodsBelow, ReviewMetrics
from webhook.mutate import PLACERS, UNSTEERED, Avoidance, Steering, mutate, mutate_job, with_avoidance
from webhook.patch import Mode
from webhook.quota import QuotaReview, RecentlyAdmitted
from webhook.refusal_audit import RefusalAudit
from webhook.review import (
    JOB,
    MESSAGE_PREFIX,
    POD,
    AdmissionOperation,
    Allowed,
    BadReview,
    Denied,
    GroupVersionKind,
    InvalidPod,
    Patched,
    Review,
    SkipReason,
    StatusReason,
    admitted,
    created_pod,
    encode,
    exempt,
    long_warning,
    read,
    refuse_broken,
    refused,
    warning,
)
from webhook.settings import WebhookSettings
from webhook.workloads import Workloads, judge, workload

T = TypeVar("T")

JSON = "application/json"
BINDING = GroupVersionKind("", "v1", "Binding")

BURST_SECONDS = 2.0
"""How long a final answer waits for the end of a burst; an API server waits longer for the answer."""

PODS_BELOW = web.AppKey("pods_below", PodsBelow)  # The count of pods, which must be kept up to date.

# OpenTelemetry has attribute names for these kinds (semantic conventions of k8s resources).
_NAMED_IN_TRACES = frozenset(
    {"Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"}
)


@dataclass(frozen=True, slots=True)
class Context:
    """What the endpoints need; without `late_namespaces` a namespace that is not known does not exist."""

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


Outcome = tuple[str, Allowed | Patched | Denied]  # The name of a decision, and the response.


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
        QuotaReview(known, reader, recent),
    )
    below = PodsBelow(known, policy, reader, most=settings.named_namespaces)
    registry.register(below)
    registry.register(CacheSizes((known.caches, reader.caches, avoidance.refusals.caches)))
    registry.register(EvaluatedNodes(known.cache.evaluated))

    def state() -> dict[str, object]:
        return {
            "age_seconds": known.feed.age(),
            "nodes": {
                node.name: {"class": node_class(node), "label": node.label, "known": node.known}
                for node in known.cache.nodes
            },
            "nodes_without_topology": known.cache.unknown,
            "namespaces": {name: asdict(rules) for name, rules in known.cluster.namespaces.items()},
            "policy": policy.now.to_json(),
        }

    app = server.application(
        [web.post(f"/{name}", partial(_handle, context=context, name=name)) for name in _ENDPOINTS],
        log=log,
        registry=registry,
        checks={"snapshot": known.waiting_for},
        limits=settings.limits,
        state=state if settings.debug_state else None,
    )
    app[PODS_BELOW] = below
    return app


async def _handle(request: web.Request, *, context: Context, name: str) -> web.Response:
    try:
        review = read(_body(request))
    except BadReview as error:
        context.metrics.bad_calls.labels(name, str(int(error.status))).inc()
        context.quiet_log.warning("review.unreadable", webhook=name, errors=error.mistakes)
        return web.json_response({"error": str(error)}, status=error.status)
    cluster, namespace = context.known.cluster, review.namespace
    if not cluster.listed:
        return _unavailable("the state of the cluster is not known yet")
    try:
        policy = EffectivePolicy.of(cluster, context.policy.now)
        # The watch may not have reported it yet.
        if namespace not in policy.rules and context.late_namespaces is not None:
            facts = await context.late_namespaces.facts(namespace)
            if facts is not None:
                rules, labels = {namespace: facts.rules}, {namespace: facts.labels}
                policy = replace(policy, rules=rules, labels=labels)
        # The caller may have invented it.
        answered_for(namespace if namespace in policy.rules else "")
        decision, answer = await _ENDPOINTS[name](context, review, policy)
        body = encode(review.uid, answer)
    except ClusterError as error:
        context.quiet_log.warning("namespace.unread", webhook=name, error=str(error))
        return _unavailable(str(error))
    except Exception as error:
        error.add_note(f"while answering review {review.uid}")
        raise
    context.metrics.seconds.labels(name).observe(time.perf_counter() - calls.received_at(request))
    context.metrics.reviews.labels(name, decision).inc()
    _record(context, name, review, decision, answer)
    return web.Response(body=body, content_type=JSON)


def _body(request: web.Request) -> bytes:
    if request.content_type != JSON:
        message = f"unsupported content type {request.content_type}: send {JSON}"
        raise BadReview(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, [Mistake("Content-Type", message)])
    return calls.body(request)


def _unavailable(why: str) -> web.Response:
    """Return an answer after which the API server retries, and then applies the failure policy."""
    # It retries after a second, within its timeout.
    headers = {"Retry-After": "1"}
    return web.json_response({"error": why}, status=HTTPStatus.SERVICE_UNAVAILABLE, headers=headers)


def _record(
    context: Context, name: str, review: Review, decision: str, answer: Allowed | Patched | Denied
) -> None:
    """Log a decision, add it to the span of the call, and audit it if it is a denial."""
    kind, metadata = review.kind.kind, Part(review.object)["metadata"]
    # The prefix of a name still to be generated is the same for all pods of a controller.
    named = review.name or metadata["name"].text() or metadata["generateName"].text()
    # Decisions that change nothing are logged at level debug.
    line = context.log.debug if decision in {"admitted", "skipped"} else context.log.info
    refusal = {"message": answer.message} if isinstance(answer, Denied) else {}
    line(
        "review.decided",
        webhook=name,
        uid=review.uid,
        namespace=review.namespace,
        kind=kind,
        name=named,
        user=review.username,
        dry_run=review.dry_run,
        decision=decision,
        warnings=answer.warnings,
        **refusal,
        **{key: answer.audit[key] for key in PLACERS if key in answer.audit},
    )
    if span := tracing.current():
        span.add(
            {
                "numalign.review.uid": review.uid,
                "numalign.review.dry_run": review.dry_run,
                "numalign.decision": decision,
                "k8s.namespace.name": review.namespace,
                f"k8s.{kind.lower()}.name" if kind in _NAMED_IN_TRACES else "k8s.object.name": named,
            }
        )
    if context.audit and isinstance(answer, Denied):
        context.audit.refused(review, name, answer, nodes=len(context.known.cache.nodes))


async def _settled(known: KnownCluster, answer: Callable[[], T], *, is_final: Callable[[T], bool]) -> T:
    """Compute an answer; one that is final waits, in the middle of a burst of changes, for the rest."""
    by_now = await computed(known.cache.pace, answer)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(BURST_SECONDS):
            while not known.cluster.settled and is_final(by_now):
                await known.all_applied()
                by_now = await computed(known.cache.pace, answer)
    return by_now


async def _mutation(context: Context, review: Review, policy: EffectivePolicy) -> Outcome:
    known, settings = context.known, context.settings
    kind, write = (JOB, mutate_job) if review.kind == JOB else (POD, mutate)
    answer: Allowed | Patched = Allowed()
    try:
        # The API server completes pods after all webhooks that change them, and before those that validate.
        pod = created_pod(review, policy, reader=context.reader, server=known.cluster.server, kind=kind)
    except InvalidPod:
        # It is denied at validation, as it would be stored.
        return "invalid", answer
    if isinstance(pod, SkipReason):
        return "skipped", answer
    steering = Steering(settings.injection, settings.gates)
    answer = await _settled(
        known,
        lambda: write(pod, known.cache, steering, served=known.cluster.served),
        is_final=lambda by_now: isinstance(by_now, Patched),
    )
    if kind == POD and settings.injection is not Mode.OFF:
        answer = with_avoidance(answer, pod, context.avoidance.nodes(pod), known.cluster.node_labels)
    for placer in PLACERS:
        if placer in answer.audit:
            context.metrics.handed_over.labels(placer).inc()
    if isinstance(answer, Patched):
        return "patched", answer
    return UNSTEERED if UNSTEERED in answer.audit else "admitted", answer


async def _validation(context: Context, review: Review, policy: EffectivePolicy) -> Outcome:
    if is_change(review):
        return _named(judge_change(review, policy))
    try:
        pod = created_pod(review, policy, reader=context.reader)
    except InvalidPod as error:
        return _named(refuse_broken(error), "invalid")
    if pod is SkipReason.SILENT:
        answer = context.quota.limited(review, policy, Allowed())
        return _named(answer if answer != Allowed() else pod)
    if isinstance(pod, SkipReason):
        return _named(pod)
    decision = await _decided(context, pod.request)
    context.metrics.decisions.labels(decision.state).inc()
    context.metrics.below.count(pod.request.namespace, shortfalls(pod.request))
    return _named(context.quota.limited(review, policy, validate(pod.request, decision)))


async def _workloads(context: Context, review: Review, policy: EffectivePolicy) -> Outcome:
    mode, server = context.settings.workloads, context.known.cluster.server
    reviewed = await result_of(workload(review, policy, reader=context.reader, server=server))
    if isinstance(reviewed, SkipReason) or mode is Workloads.OFF:
        return _named(SkipReason.SILENT)
    decisions: dict[PodQuestion, AdmissionDecision] = {}
    for pod in reviewed.questions(mode):
        if decisions:
            await asyncio.sleep(0)
        decisions[pod] = await _decided(context, pod)

    def decide(pod: PodQuestion) -> AdmissionDecision:
        context.metrics.decisions.labels(decisions[pod].state).inc()
        return decisions[pod]

    return _named(judge(reviewed, decide, mode=mode))


async def _decided(context: Context, pod: PodQuestion) -> AdmissionDecision:
    """Decide about a pod in the state by now; a denial for its nodes waits until that is settled."""
    known = context.known

    def by_now() -> tuple[AdmissionDecision, bool]:
        cache, served = known.cache, known.cluster.served
        may_fit = context.settings.unknown_nodes == "may-fit"
        refusals = context.policy.now.refusals(unknown_may_fit=may_fit)
        decision = admission.decide(pod, cache, refusals, now=time.time(), served=served)
        return decision, admission.answered(pod, cache, served=served)

    def is_final(answer: tuple[AdmissionDecision, bool]) -> bool:
        return bool(answer[0].refusal) and answer[0].state not in admission.BY_ITSELF

    decision, answered = await _settled(known, by_now, is_final=is_final)
    context.metrics.not_answered.inc(not answered)
    return decision


def _named(answer: Allowed | Denied | SkipReason, decision: str = "") -> Outcome:
    if isinstance(answer, SkipReason):
        return "skipped", Allowed()
    named = "denied" if isinstance(answer, Denied) else "warned" if answer.warnings else "admitted"
    return decision or named, answer


def validate(pod: PodQuestion, decision: AdmissionDecision) -> Allowed | Denied:
    """Deny what the namespace does not admit or no shape could ever align; warn about the rest."""
    if decision.refusal:
        message = f"{MESSAGE_PREFIX}: {decision.refusal}"
        return Denied(reason=StatusReason.FORBIDDEN, message=message, audit=refused(pod, decision))
    return Allowed(warnings=tuple(warnings(decision)), audit={"verdict": admitted(pod)})


def warnings(decision: AdmissionDecision) -> Iterator[str]:
    """Yield the warnings of an admitted pod, as clients show them."""
    if decision.waived:
        yield long_warning(wording.first_sentence(decision.waived))
    yield from map(warning, decision.warnings)
    if decision.unpinned:
        yield long_warning(decision.unpinned)


def is_change(review: Review) -> bool:
    """Return whether a review is about a pod that exists, or a Binding of one.

    API servers send such changes only where they know no ValidatingAdmissionPolicy (before 1.30): elsewhere
    `numalign-levels` applies the same rule. The annotations of a Binding are copied to its pod.
    """
    return review.kind == BINDING or (review.kind == POD and review.operation is AdmissionOperation.UPDATE)


def judge_change(review: Review, policy: EffectivePolicy) -> Allowed | Denied | SkipReason:
    """Deny what weakens an annotation in a namespace that enforces; skip what changes none."""
    annotations = (Part(raw)["metadata"]["annotations"] for raw in (review.old, review.object))
    before, after = (
        {key: text for key in DECISIVE if isinstance(text := written[key].value, str)}
        for written in annotations
    )
    if before == after:
        return SkipReason.UNCHANGED
    if exempt(review.object, review, policy) is not None:
        return SkipReason.EXEMPT
    level = policy.rules_for(review.namespace).enforce or Policy.NONE
    weakened = intent.weakened(before, after, level)
    if level is Policy.NONE or not weakened:
        return Allowed()
    names = ", ".join(weakened)
    message = (
        f'{MESSAGE_PREFIX}: namespace "{review.namespace}" enforces NUMA alignment {level}, so the annotation'
        f" {names} of an existing pod may only become stricter: leave it as it is, or create another pod"
    )
    audit = {"verdict": "denied", "state": AdmissionState.BELOW_ENFORCED, "level": level.value}
    return Denied(reason=StatusReason.FORBIDDEN, message=message, audit=audit)


_ENDPOINTS: Mapping[str, Callable[[Context, Review, EffectivePolicy], Awaitable[Outcome]]] = MappingProxyType(
    {"mutate": _mutation, "validate": _validation, "validate-workloads": _workloads}
)
