"""
Review a workload when it is applied: what would happen to its pods.

Only the controller sees the denial of a pod; its owner finds an event, if anything. The user who applies a
workload is still there to read. So this endpoint warns, and denies only if the platform team wants it to, for
what no later step can fix and a user has just written: a controller whose update is denied would try again
for ever, and nobody would see why. It never changes a workload, and the pods are reviewed as well.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import orjson

from numalign.cache.admission import BY_ITSELF, AdmissionDecision
from numalign.cache.pod_question import PodQuestion
from numalign.cache.question import Question
from numalign.decision import wording
from numalign.kube.decode import pods, templates
from numalign.kube.decode.parts import Part, group, inner
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.scheduling import crowded
from numalign.kube.decode.templates import GroupKind, TemplateLocation, TemplateScan
from numalign.kube.effective_policy import EffectivePolicy
from numalign.model.constraints import ANYWHERE
from numalign.model.errors import MOST_MISTAKES, Mistake
from numalign.model.resources import CPU, MEMORY
from numalign.model.steps import Steps
from webhook.review import (
    MESSAGE_PREFIX,
    AdmissionOperation,
    Allowed,
    Denied,
    InvalidPod,
    Review,
    ReviewedPod,
    SkipReason,
    StatusReason,
    admitted,
    exempt,
    long_warning,
    read_pod,
    refuse_broken,
    refused,
)

Decide = Callable[[PodQuestion], AdmissionDecision]  # Decides about a pod in the current state.

# A warning must have room for its reason after the location.
_LONGEST_PLACE = 56


class Workloads(StrEnum):
    """What happens to a workload whose pods could never run as requested."""

    WARN = "warn"
    DENY = "deny"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ReviewedTemplate:
    """A pod template that has requests or rules, and its location in the object.

    A workload is denied only for a `new` one: known in full, and with requests that a user has just written.
    Of one that is `guessed`, another object has the rest.
    """

    where: str
    subject: ReviewedPod
    new: bool = True
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload under review: its templates, and the mistakes in those that cannot be read.

    Mistakes in numalign's annotations of new templates are `unclear`; the others are for the API server to
    reject, and those of guessed templates may be none. There are at most `MOST_MISTAKES` of either; templates
    after that many were not read. `notes` describe how it was read.
    """

    kind: str
    templates: tuple[ReviewedTemplate, ...] = ()
    unclear: tuple[Mistake, ...] = ()
    unreadable: tuple[Mistake, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """Return all mistakes, first those in numalign's annotations."""
        return (*self.unclear, *self.unreadable)

    def questions(self, mode: Workloads) -> tuple[PodQuestion, ...]:
        """Return the questions to answer about its pods, each once."""
        requests = [template.subject.request for template in self.templates]
        tolerant = map(_tolerant, requests) if mode is Workloads.DENY else ()
        return tuple(dict.fromkeys((*requests, *tolerant)))


def workload(
    review: Review, policy: EffectivePolicy, *, reader: PodReader, server: int
) -> Steps[Workload | SkipReason]:
    """Read the templates that a review adds or changes, one per step, or return why it is skipped."""
    group_kind, extra = (review.kind.group, review.kind.kind), policy.policy.templates
    if group_kind == templates.POD:
        return SkipReason.KIND
    if review.operation not in {AdmissionOperation.CREATE, AdmissionOperation.UPDATE} or review.sub_resource:
        return SkipReason.OPERATION
    if exempt(None, review, policy) is not None:
        return SkipReason.EXEMPT
    # A controller created it from an object that is reviewed itself.
    if any(templates.paths_of(owner, extra=extra) for owner in _controllers(review.object)):
        return SkipReason.OWNED
    scan = templates.scan(review.object, group_kind, extra=extra)
    before = templates.scan(review.old, group_kind, extra=extra)
    # Comparing the values themselves would take a comparison of each pair, and each may be long.
    old = set(filter(None, map(_written, before.places)))
    changed = [place for place in scan.places if _written(place) not in old]
    if before.places and not (changed or scan.mistakes or scan.misplaced != before.misplaced):
        return SkipReason.UNCHANGED
    places = tuple(place for place in changed if not exempt(place.raw, review, policy))
    if changed and not places:
        return SkipReason.EXEMPT

    def read(place: TemplateLocation) -> ReviewedPod | SkipReason | InvalidPod:
        try:
            return read_pod(place.raw, review, policy, reader, server)
        except InvalidPod as error:
            return error

    has_policy = policy.rules_for(review.namespace).has_policy
    scan = replace(scan, places=places)
    reviewed = yield from _requests(review, scan, before.places, read, has_policy=has_policy)
    paths = templates.paths_of(group_kind, extra=extra)
    return reviewed or (SkipReason.SILENT if paths or places else SkipReason.KIND)


def _controllers(raw: Mapping[str, object]) -> Iterator[GroupKind]:
    """Yield the types of the owners whose controllers created it; of none if it has too many."""
    owners = Part(raw)["metadata"]["ownerReferences"].elements() if not crowded(raw) else ()
    for owner in owners:
        if owner["controller"].value is True:
            yield group(owner["apiVersion"].text()), owner["kind"].text()


def _written(place: TemplateLocation) -> tuple[str, bytes] | None:
    """Return a location and its content, for comparison; None if it is nested too deeply."""
    try:
        return place.where, orjson.dumps(place.raw, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return None


def _requests(
    review: Review,
    scan: TemplateScan,
    before: Iterable[TemplateLocation],
    read: Callable[[TemplateLocation], ReviewedPod | SkipReason | InvalidPod],
    *,
    has_policy: bool,
) -> Steps[Workload | None]:
    """Return what the templates request, None if nothing; `before` are those before an update."""
    # A controller may have written it: its owner's, or one that suspends and resumes it. Most kinds of
    # Kubeflow have that field in `runPolicy`.
    specs = [inner(raw, "spec") for raw in (review.old, review.object)]
    levels = [level for spec in specs for level in (spec, inner(spec, "runPolicy"))]
    suspended = any(inner(level, "suspend") is True for level in levels)
    updated = review.operation is AdmissionOperation.UPDATE
    by_user, old = not (any(_controllers(review.object)) or (updated and suspended)), set()
    for place in before if by_user else ():
        old.add(_request(read(place)))
        yield
    reviewed: list[ReviewedTemplate] = []
    # As for pods: without any rules or requests, no mistake is shown.
    mistakes = list(scan.mistakes) if has_policy else []
    unclear: list[Mistake] = []
    for place in scan.places:
        if len(mistakes) + len(unclear) > MOST_MISTAKES:
            break
        pod = read(place)
        new = by_user and not place.guessed and _request(pod) not in old
        if isinstance(pod, InvalidPod):
            for mistake in pod.mistakes:
                ours = new and mistake.where.startswith("metadata.annotations")
                (unclear if ours else mistakes).append(place.in_object(mistake))
        elif isinstance(pod, ReviewedPod):
            reviewed.append(ReviewedTemplate(place.where, pod, new=new, guessed=place.guessed))
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


def _request(pod: ReviewedPod | SkipReason | InvalidPod) -> Question | tuple[Mistake, ...] | None:
    """Return what a template requests, wherever its pods may run; the mistakes of one that is invalid."""
    if isinstance(pod, InvalidPod):
        return pod.mistakes
    return pod.request.question if isinstance(pod, ReviewedPod) else None


def judge(workload: Workload, decide: Decide, *, mode: Workloads) -> Allowed | Denied:
    """Warn of what would happen to its pods; deny only in the mode that may."""
    if mode is Workloads.OFF:
        return Allowed()
    if mode is Workloads.DENY and workload.unclear:
        return refuse_broken(InvalidPod(workload.mistakes))
    if mode is Workloads.DENY and (final := [*_final_refusals(workload, decide)]):
        (template, decision), *others = final
        more = f" The same holds for {', '.join(other.where for other, _ in others)}." if others else ""
        message = f"{MESSAGE_PREFIX}: {template.where}: {decision.refusal}{more}"
        audit = refused(template.subject.request, decision)
        return Denied(reason=StatusReason.FORBIDDEN, message=message, audit=audit)
    verdicts = ["invalid"] if workload.mistakes else []
    verdicts += [admitted(template.subject.request) for template in workload.templates]
    audit = {"verdict": "; ".join(dict.fromkeys(verdicts))}
    return Allowed(warnings=tuple(_warnings(workload, decide)), audit=audit)


def _final_refusals(
    workload: Workload, decide: Decide
) -> Iterator[tuple[ReviewedTemplate, AdmissionDecision]]:
    """Yield decisions that would deny its pods for the nodes that exist, if nothing later could help.

    Pods of a DaemonSet, and pods that name their node, are never denied because of a node. If a container
    leaves something out, a LimitRange may still set it. Tolerations may be added later.
    """
    for template in workload.templates:
        request = template.subject.request
        if workload.kind == "DaemonSet" or request.pin or not template.new:
            continue
        containers = pods.pod(template.subject.pod).defaulted().containers
        if all({CPU, MEMORY} <= one.requests.keys() == one.limits.keys() for one in containers):
            decision = decide(_tolerant(request))
            if decision.refusal and decision.state not in BY_ITSELF:
                yield template, decision


def _tolerant(pod: PodQuestion) -> PodQuestion:
    return replace(pod, constraints=replace(pod.constraints, tolerations=ANYWHERE.tolerations))


def _warnings(workload: Workload, decide: Decide) -> Iterator[str]:
    """Yield the warnings for its owner, the decisive ones first."""
    for mistake in workload.mistakes:
        yield long_warning(f"{_short(mistake.where)}: {mistake.message}")
    decided = [(template, decide(template.subject.request)) for template in workload.templates]
    for template, decision in decided:
        if why := decision.refusal or decision.waived:
            # The rest of a guessed one may request what is missing.
            will = f"its pods {'may' if template.guessed else 'will'} be denied: "
            known = f"{will if decision.state in BY_ITSELF else ''}{wording.first_sentence(why)}"
            yield long_warning(f"{_short(template.where)}: {known}")
    for template, decision in decided:
        texts = filter(None, (*decision.warnings, decision.unpinned))
        yield from (long_warning(f"{_short(template.where)}: {text}") for text in texts)
    yield from map(long_warning, workload.notes)


def _short(where: str) -> str:
    """Shorten a location, keeping its end, which is more specific than its beginning."""
    return where if len(where) <= _LONGEST_PLACE else f"...{where[3 - _LONGEST_PLACE :]}"
