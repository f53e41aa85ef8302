"""
The review of a workload when it is applied: what would happen to its pods.

A refused pod is seen by its controller alone; its owner finds an event, if anything. Whoever applies a
workload is still there to read. So this endpoint warns, and refuses only where a platform team wants it to,
for what no later step can mend. Nothing is ever written into a workload, and its pods are reviewed as well.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import orjson

from numalign.cache.admission import BY_ITSELF, AdmissionDecision
from numalign.cache.pod_question import PodQuestion
from numalign.decision import wording
from numalign.kube.cluster_state import Snapshot
from numalign.kube.decode import pods, templates
from numalign.kube.decode.excess import crowded
from numalign.kube.decode.parts import Part, group
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.templates import GroupKind, TemplateLocation, TemplateScan
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.files.policy import NO_POLICY, ClusterPolicy
from numalign.model.constraints import ANYWHERE
from numalign.model.errors import MOST_MISTAKES, Mistake
from numalign.model.resources import CPU, MEMORY
from numalign.model.steps import Steps
from webhook.review import AdmissionOperation, Allowed, Denied, Review, StatusReason
from webhook.subject import InvalidPod, ReviewedPod, SkipReason, exempt, read
from webhook.validate import SPEAKER, Decide, admitted, in_full, refuse_broken, refused

# A warning must have room for its reason beside the place.
_LONGEST_PLACE = 56
_ANNOTATIONS = "metadata.annotations"


class Workloads(StrEnum):
    """What happens to a workload whose pods could never run as they are meant."""

    WARN = "warn"
    DENY = "deny"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ReviewedTemplate:
    """A pod template of which somebody asks something, and where it stands in the object.

    Nobody is refused for one that is `guessed`.
    """

    where: str
    subject: ReviewedPod
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload under review: its templates, and the mistakes in those that cannot be read.

    The mistakes in what the owner said to numalign are `unclear`; the others are the API server's to refuse,
    and those of guessed templates may be none. There are no more than `MOST_MISTAKES` of either; the
    templates after so many were not read. `notes` say how it was read.
    """

    kind: str
    templates: tuple[ReviewedTemplate, ...] = ()
    unclear: tuple[Mistake, ...] = ()
    unreadable: tuple[Mistake, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """All of them, those that the owner can mend for us first."""
        return (*self.unclear, *self.unreadable)

    def questions(self, mode: Workloads) -> tuple[PodQuestion, ...]:
        """What has to be found out about its pods, each question once."""
        requests = [template.subject.request for template in self.templates]
        tolerant = map(_tolerant, requests) if mode is Workloads.DENY else ()
        return tuple(dict.fromkeys((*requests, *tolerant)))


def workload(
    review: Review, snapshot: Snapshot, *, reader: PodReader, policy: ClusterPolicy = NO_POLICY
) -> Steps[Workload | SkipReason]:
    """Read the workload under review, a template at each step, or say why it is none of our business.

    Of an update only the templates count that it changes.
    """
    sort = (review.kind.group, review.kind.kind)
    asked_of_pods = EffectivePolicy.of(snapshot, policy)
    if reason := _skipped(review, sort, asked_of_pods):
        return reason
    scan = templates.scan(review.object, sort, extra=policy.templates)
    before = templates.scan(review.old, sort, extra=policy.templates)
    # Values themselves would be compared each with each, and every one of them may be long.
    old = set(filter(None, map(_written, before.places)))
    changed = [place for place in scan.places if _written(place) not in old]
    if before.places and not (changed or scan.mistakes or scan.misplaced != before.misplaced):
        return SkipReason.UNCHANGED
    places = tuple(place for place in changed if not exempt(place.raw, review, asked_of_pods))
    if changed and not places:
        return SkipReason.EXEMPT
    reviewed = yield from _workload(review, replace(scan, places=places), asked_of_pods, reader)
    paths = templates.paths_of(sort, extra=policy.templates)
    return reviewed or (SkipReason.SILENT if paths or scan.places else SkipReason.KIND)


def _skipped(review: Review, sort: GroupKind, policy: EffectivePolicy) -> SkipReason | None:
    """Why the review is skipped, whatever its templates say."""
    if sort == templates.POD:
        return SkipReason.KIND
    if review.operation not in _WRITES or review.sub_resource:
        return SkipReason.OPERATION
    if exempt(None, review, policy) is not None:
        return SkipReason.EXEMPT
    return SkipReason.OWNED if _owned(review.object, policy=policy.policy) else None


_WRITES = frozenset({AdmissionOperation.CREATE, AdmissionOperation.UPDATE})


def _owned(raw: Mapping[str, object], *, policy: ClusterPolicy) -> bool:
    """Whether a controller made it from an object that was looked at itself."""
    if crowded(raw):
        return False
    for owner in Part(raw)["metadata"]["ownerReferences"].elements():
        sort = (group(owner["apiVersion"].text()), owner["kind"].text())
        if owner["controller"].value is True and templates.paths_of(sort, extra=policy.templates):
            return True
    return False


def _written(place: TemplateLocation) -> tuple[str, bytes] | None:
    """A place and what stands there, to be compared; None for what is nested too deep for that."""
    try:
        return place.where, orjson.dumps(place.raw, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return None


def _workload(
    review: Review, scan: TemplateScan, policy: EffectivePolicy, reader: PodReader
) -> Steps[Workload | None]:
    """What the templates request; None if they request nothing."""
    reviewed: list[ReviewedTemplate] = []
    # As for a pod that is none: where nobody asks anything, no mistake is shown.
    mistakes = list(scan.mistakes) if policy.rules_for(review.namespace).asks else []
    unclear: list[Mistake] = []
    for place in scan.places:
        if len(mistakes) + len(unclear) > MOST_MISTAKES:
            break
        try:
            pod = read(place.raw, review, policy, reader)
        except InvalidPod as error:
            for mistake in error.mistakes:
                ours = mistake.where.startswith(_ANNOTATIONS) and not place.guessed
                (unclear if ours else mistakes).append(place.in_object(mistake))
        else:
            if isinstance(pod, ReviewedPod):
                reviewed.append(ReviewedTemplate(place.where, pod, place.guessed))
        yield
    if not (reviewed or mistakes or unclear):
        return Workload(review.kind.kind, notes=scan.misplaced) if scan.misplaced else None
    return Workload(
        review.kind.kind,
        tuple(reviewed),
        tuple(unclear[:MOST_MISTAKES]),
        tuple(mistakes[:MOST_MISTAKES]),
        notes=(*scan.misplaced, *scan.guesses),
    )


def judge(workload: Workload, decide: Decide, *, mode: Workloads) -> Allowed | Denied:
    """Warn of what would become of its pods; refuse only in the mode that may."""
    if mode is Workloads.OFF:
        return Allowed()
    if mode is Workloads.DENY and (refusal := _refusal(workload, decide)):
        return refusal
    return Allowed(warnings=tuple(_warnings(workload, decide)), audit=_audit(workload))


def _refusal(workload: Workload, decide: Decide) -> Denied | None:
    if workload.unclear:
        return refuse_broken(InvalidPod(workload.mistakes))
    final = [
        (template, decision)
        for template in workload.templates
        if (decision := _final_refusal(template, workload, decide))
    ]
    if not final:
        return None
    (template, decision), *others = final
    more = f" The same holds for {', '.join(other.where for other, _ in others)}." if others else ""
    message = f"{SPEAKER}: {template.where}: {decision.refusal}{more}"
    audit = refused(template.subject.request, decision)
    return Denied(reason=StatusReason.FORBIDDEN, message=message, audit=audit)


def _final_refusal(
    template: ReviewedTemplate, workload: Workload, decide: Decide
) -> AdmissionDecision | None:
    """By what its pods would be refused for the nodes that there are, if nothing later could help.

    Pods of a DaemonSet, and those that name their node, are never refused for a node, and nobody is for a
    guess. Where a container leaves something out, a LimitRange may still say it; tolerations may be added.
    """
    request = template.subject.request
    if workload.kind == "DaemonSet" or request.pin or template.guessed:
        return None
    containers = pods.pod(template.subject.pod).defaulted().containers
    if not all({CPU, MEMORY} <= one.requests.keys() == one.limits.keys() for one in containers):
        return None
    decision = decide(_tolerant(request))
    return decision if decision.refusal and decision.state not in BY_ITSELF else None


def _tolerant(pod: PodQuestion) -> PodQuestion:
    """The same of a pod that tolerates every taint."""
    return replace(pod, constraints=replace(pod.constraints, tolerations=ANYWHERE.tolerations))


def _warnings(workload: Workload, decide: Decide) -> Iterator[str]:
    """What its owner should know, the decisive first."""
    for mistake in workload.mistakes:
        yield in_full(f"{_short(mistake.where)}: {mistake.message}")
    decided = [(_short(template.where), decide(template.subject.request)) for template in workload.templates]
    for where, decision in decided:
        if why := decision.refusal or decision.waived:
            will = "its pods will be denied: " if decision.state in BY_ITSELF else ""
            yield in_full(f"{where}: {will}{wording.first_sentence(why)}")
    for where, decision in decided:
        yield from (in_full(f"{where}: {text}") for text in decision.warnings)
    yield from map(in_full, workload.notes)


def _audit(workload: Workload) -> dict[str, str]:
    verdicts = ["invalid"] if workload.mistakes else []
    verdicts += [admitted(template.subject.request) for template in workload.templates]
    return {"verdict": "; ".join(dict.fromkeys(verdicts))}


def _short(where: str) -> str:
    """A place with its end, which tells more than its beginning."""
    return where if len(where) <= _LONGEST_PLACE else f"...{where[3 - _LONGEST_PLACE :]}"
