"""
What is written into a pod: what places it, and which node classes and which nodes it keeps off.

Mutation never denies. Other webhooks may still change the pod, and a denial must be about the pod as it would
be stored; so a pod that is invalid or fits nowhere is not restricted, and is denied at validation. A pod with
more in it than is read passes unchanged as well, and the audit log notes it. Classes without nodes now, or
whose nodes may come later, count too: the requirement holds as long as the pod is pending.

The scheduler of a pod follows from the pod and its namespace alone, so that all pods of one owner get the
same one, whatever nodes exist when each is created. A gate is added only if some class could take the pod:
any other pod is denied, or goes to unknown nodes, and there is no node to wait for.

Pods are watched anyway, to be counted. For pods that a kubelet rejected, the node is remembered; of all
others nothing. A new pod that is similar prefers other nodes: that ends with the pod, and no pod stays
pending for lack of another node.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from numalign.cache import ClusterCache, Survey, dra
from numalign.kube import routing
from numalign.kube.decode import movability
from numalign.kube.decode.parts import Part, inner
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.scheduling import REQUIRED
from numalign.kube.kinds import Object
from numalign.kube.pod_counts import MOST_MISTAKES
from numalign.kube.pod_informer import Phase
from numalign.model.constraints import Operator, Requirement
from numalign.model.intent import CLASS_LABEL
from numalign.model.node import is_labelled
from numalign.scheduling.recent_refusals import AVOID_SECONDS, REFUSALS, RecentRefusals
from webhook import patch
from webhook.patch import Mode, Operation, Unsteered
from webhook.review import Allowed, Patched, ReviewedPod

UNSTEERED = "unsteered"  # The audit annotation of a pod left unchanged, though there was something to write.
CLASSES, SCHEDULER, GATE, KEPT = "classes", "scheduler", "gate", "do-not-disrupt"  # Those of what is written.
PLACERS = (SCHEDULER, GATE)  # Those for what places the pod.
AVOIDED = "avoided"  # The audit annotation with the nodes that a pod should avoid.


@dataclass(frozen=True, slots=True)
class Steering:
    """What may be written into pods: how they are kept off classes, and whether a controller lifts gates."""

    injection: Mode = Mode.EXCLUDE
    gates: bool = False


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of a pod, with the key and the text of its audit annotation."""

    key: str
    text: str
    operations: tuple[Operation, ...]


def mutate(
    pod: ReviewedPod, cache: ClusterCache, steering: Steering, *, served: AbstractSet[str] = frozenset()
) -> Allowed | Patched:
    """Set what places the pod, and keep it off the classes that could never take it.

    No class is written if none could or all could. Resources that DRA serves exclude no class, because
    classes do not describe them.
    """
    # The survey ignores the pod's constraints: it is the same for all pods with this question.
    question = pod.request.question
    survey = cache.ever(dra.sure(question, served)) if needs_survey(pod, steering) else None
    try:
        changes = tuple(_changes(pod, survey, steering))
        operations = patch.whole(operation for change in changes for operation in change.operations)
    except Unsteered as error:
        return Allowed(audit={UNSTEERED: str(error)})
    if not operations:
        return Allowed()
    audit = {change.key: change.text for change in changes if change.operations}
    return Patched(operations=operations, audit=audit)


def mutate_job(
    template: ReviewedPod, cache: ClusterCache, steering: Steering, *, served: AbstractSet[str] = frozenset()
) -> Allowed | Patched:
    """Keep the pods of a Job off those classes in its template, which queues read before there are pods.

    Only exclusions are written, because a Job may wait longer than classes exist. A template with required
    node affinity is left unchanged: a Job's template is immutable, and its author, who applies the Job again,
    would have changed these terms.
    """
    # The modes that keep pods off classes for certain.
    requiring = steering.injection in {Mode.EXCLUDE, Mode.INCLUDE}
    if not template.request.rules.job_affinity or not requiring or not needs_survey(template, steering):
        return Allowed()
    survey = cache.ever(dra.sure(template.request.question, served))
    if not survey.feasible:
        return Allowed()
    if inner(inner(inner(template.pod["spec"], "affinity"), "nodeAffinity"), REQUIRED) is not None:
        return Allowed(audit={UNSTEERED: "its template has required node affinity"})
    try:
        change = _classes(template, survey, Mode.EXCLUDE)
    except Unsteered as error:
        return Allowed(audit={UNSTEERED: str(error)})
    operations = tuple(replace(each, path=f"/spec/template{each.path}") for each in change.operations)
    return Patched(operations=operations, audit={change.key: change.text}) if operations else Allowed()


def needs_survey(pod: ReviewedPod, steering: Steering) -> bool:
    """Return whether the changes depend on which classes could ever take the pod."""
    keeps = routing.concerns(pod.request) and steering.injection is not Mode.OFF
    return keeps or _gate(pod, steering) is not None


def _changes(pod: ReviewedPod, survey: Survey | None, steering: Steering) -> Iterator[_Change]:
    """Yield the changes; raise `Unsteered` if the pod has more in it than is read."""
    request, name = pod.request, routing.scheduler(pod.pod["spec"], pod.request)
    gate = _gate(pod, steering) if survey and survey.feasible else None
    if request.excess and (name or gate):
        raise Unsteered(request.excess)
    if name:
        yield _Change(SCHEDULER, name, (patch.route(name),))
    if gate:
        yield _Change(GATE, gate, (patch.hold(pod.pod["spec"], gate),))
    # Karpenter counts totals, so it may take a pod to fit where no zone is free. Which zones will be free
    # when it looks is not known now: so it must not evict any pod that a kubelet may reject for its policy.
    binding = request.question.intent.binding and request.question.concerned
    if request.rules.do_not_disrupt and routing.concerns(request) and binding and not request.excess:
        yield _Change(KEPT, "true", patch.annotate(pod.pod, *movability.UNDISRUPTED))
    if survey and survey.feasible and steering.injection is not Mode.OFF:
        yield _classes(pod, survey, steering.injection)


def _gate(pod: ReviewedPod, steering: Steering) -> str | None:
    return routing.gate(pod.pod["spec"], pod.request) if steering.gates else None


def _classes(pod: ReviewedPod, survey: Survey, mode: Mode) -> _Change:
    operator, classes = Operator.IN, survey.feasible
    if mode is Mode.EXCLUDE:
        operator, classes = Operator.NOT_IN, survey.infeasible
    requirement = Requirement(CLASS_LABEL, operator, frozenset(classes))
    text = f"{operator} {','.join(sorted(requirement.values))}"
    return _Change(CLASSES, text, patch.inject(pod.pod, requirement, mode=mode))


@dataclass(frozen=True, slots=True)
class Avoidance:
    """Recent rejections by kubelets; pods are read by `reader`."""

    refusals: RecentRefusals
    reader: PodReader

    def update_pod(self, pod: Object, *, counted: bool) -> None:
        """Handle a pod that was added or changed; `counted` is whether it was seen before it ended."""
        # Nearly all pods are not failed, and there may be a hundred thousand.
        phase = pod["status"].get("phase") if isinstance(pod.get("status"), dict) else None
        if phase != Phase.FAILED:
            return
        whole = Part(pod)
        metadata, status = whole["metadata"], whole["status"]
        if status["reason"].text() not in REFUSALS:
            return
        at = max(status["startTime"].time(), metadata["creationTimestamp"].time())
        age = 0.0 if counted else self.refusals.age(at)
        # After a start there may be thousands that failed long ago.
        if age >= AVOID_SECONDS:
            return
        demand = self.reader.request(pod, most_mistakes=MOST_MISTAKES).demand
        if demand is not None:
            node = whole["spec"]["nodeName"].text()
            self.refusals.put(metadata["namespace"].text(), demand, node=node, age=age)

    def nodes(self, pod: ReviewedPod) -> tuple[str, ...]:
        """Return the nodes that a pod under review should avoid."""
        return self.refusals.nodes(pod.request.namespace, pod.request.question.demand)


def with_avoidance(
    answer: Allowed | Patched,
    pod: ReviewedPod,
    nodes: tuple[str, ...],
    node_labels: Mapping[str, Mapping[str, str]],
) -> Allowed | Patched:
    """Return the response about a pod, extended to avoid these nodes if the pod requests alignment."""
    if not nodes or not pod.request.requests_alignment:
        return answer
    before = answer.operations if isinstance(answer, Patched) else ()
    labelled = {name for name in nodes if is_labelled(name, node_labels)}
    try:
        operations = patch.avoid(pod.pod, nodes, labelled=labelled, after=before)
    except Unsteered:
        # The operation that keeps it off classes has already reported that.
        return answer
    if not operations:
        return answer
    audit = {**answer.audit, AVOIDED: ",".join(nodes)}
    return Patched(operations=(*before, *operations), audit=audit)
