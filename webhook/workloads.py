"""
What is said of a workload when it is applied: what would happen to its pods.

A refused pod is seen by its controller alone; its owner finds an event, if anything. Whoever applies a
workload is still there to read. So this door warns, and refuses only where a platform team wants it to, for
what no later step can mend. Nothing is ever written into a workload, and its pods meet the other doors all
the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

import orjson

from numalign.cache.admission import AdmissionState
from numalign.cache.pod_question import PodQuestion
from numalign.decision import wording
from numalign.kube.decode import pods, templates
from numalign.kube.decode.excess import crowded
from numalign.kube.decode.parts import Part, group
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.templates import GroupKind, TemplateLocation, TemplateScan
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.files.policy import NO_POLICY, ClusterPolicy
from numalign.model.constraints import ANYWHERE
from numalign.model.errors import MOST_MISTAKES, Mistake
from numalign.model.intent import UNRULED
from numalign.model.resources import CPU, MEMORY
from numalign.model.steps import Steps
from webhook.review import AdmissionOperation, Allowed, Denied, Review, StatusReason
from webhook.snapshot_holder import Moment
from webhook.subject import InvalidPod, ReviewedPod, SkipReason, exempt, read
from webhook.validate import SPEAKER, Decide, admitted, in_full, refuse_broken

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
        asked = [each.subject.asked for each in self.templates]
        tolerant = map(_tolerant, asked) if mode is Workloads.DENY else ()
        return tuple(dict.fromkeys((*asked, *tolerant)))


def workload(
    review: Review, moment: Moment, *, reader: PodReader, policy: ClusterPolicy = NO_POLICY
) -> Steps[Workload | SkipReason]:
    """Read the workload under review, a template at each step, or say why it is none of our business.

    Of an update only the templates count that it changes.
    """
    sort = (review.kind.group, review.kind.kind)
    asked = EffectivePolicy.of(moment, policy)
    if reason := _none_of_ours(review, sort, asked):
        return reason
    seen = templates.scan(review.object, sort, extra=policy.templates)
    before = templates.scan(review.old, sort, extra=policy.templates)
    changed = list(_other(seen.places, before.places))
    news = changed or seen.mistakes or seen.misplaced != before.misplaced
    if before.places and not news:
        return SkipReason.UNCHANGED
    heard = tuple(place for place in changed if not exempt(place.raw, review, asked))
    if changed and not heard:
        return SkipReason.EXEMPT
    made = yield from _workload(review, replace(seen, places=heard), asked, reader)
    paths = templates.paths_of(sort, extra=policy.templates)
    return made or (SkipReason.SILENT if paths or seen.places else SkipReason.KIND)


def _none_of_ours(review: Review, sort: GroupKind, asked: EffectivePolicy) -> SkipReason | None:
    """Why the review is left, whatever its templates say."""
    verb = (
        review.operation in {AdmissionOperation.CREATE, AdmissionOperation.UPDATE} and not review.sub_resource
    )
    holds = {
        SkipReason.KIND: sort == templates.POD,
        SkipReason.OPERATION: not verb,
        SkipReason.EXEMPT: exempt(None, review, asked) is not None,
        SkipReason.OWNED: verb and _owned(review.object, policy=asked.policy),
    }
    return next((reason for reason, held in holds.items() if held), None)


def _owned(raw: Mapping[str, object], *, policy: ClusterPolicy) -> bool:
    """Whether a controller made it from an object that was looked at itself."""
    if crowded(raw):
        return False
    for owner in Part(raw)["metadata"]["ownerReferences"].elements():
        sort = (group(owner["apiVersion"].text()), owner["kind"].text())
        if owner["controller"].value is True and templates.paths_of(sort, extra=policy.templates):
            return True
    return False


def _other(
    places: Iterable[TemplateLocation], before: Iterable[TemplateLocation]
) -> Iterator[TemplateLocation]:
    """The places that did not stand there before with the same in them."""
    # Values themselves would be compared each with each, and every one of them may be long.
    there = set(filter(None, map(_written, before)))
    return (place for place in places if _written(place) not in there)


def _written(place: TemplateLocation) -> tuple[str, bytes] | None:
    """A place and what stands there, to be compared; None for what is nested too deep for that."""
    try:
        return place.where, orjson.dumps(place.raw, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return None


def _workload(
    review: Review, seen: TemplateScan, asked: EffectivePolicy, reader: PodReader
) -> Steps[Workload | None]:
    """What is said of the places; None if nobody asks anything."""
    made: list[ReviewedTemplate] = []
    # As for a pod that is none: where nobody asks anything, nothing is told.
    mistakes = list(seen.mistakes) if asked.rules_for(review.namespace) != UNRULED else []
    unclear: list[Mistake] = []
    for place in seen.places:
        if len(mistakes) + len(unclear) > MOST_MISTAKES:
            break
        try:
            found = read(place.raw, review, asked, reader)
        except InvalidPod as error:
            for each in error.mistakes:
                ours = each.where.startswith(_ANNOTATIONS) and not place.guessed
                (unclear if ours else mistakes).append(place.told(each))
        else:
            made += (
                [ReviewedTemplate(place.where, found, place.guessed)]
                if isinstance(found, ReviewedPod)
                else []
            )
        yield
    told = (tuple(unclear[:MOST_MISTAKES]), tuple(mistakes[:MOST_MISTAKES]))
    if not (made or mistakes or unclear):
        return Workload(review.kind.kind, notes=seen.misplaced) if seen.misplaced else None
    return Workload(review.kind.kind, tuple(made), *told, notes=(*seen.misplaced, *seen.guesses))


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
    final = [(each, why) for each in workload.templates if (why := _final(each, workload, decide))]
    if not final:
        return None
    (first, why), *others = final
    more = f" The same holds for {', '.join(each.where for each, _ in others)}." if others else ""
    message = f"{SPEAKER}: {first.where}: {why}{more}"
    return Denied(reason=StatusReason.FORBIDDEN, message=message, audit={"verdict": "denied"})


def _final(template: ReviewedTemplate, workload: Workload, decide: Decide) -> str | None:
    """Why its pods would be refused for the nodes that there are, if nothing that comes later could help.

    Pods of a DaemonSet, and those that name their node, are never refused for a node, and nobody is for a
    guess. Where a container leaves something out, a LimitRange may still say it; tolerations may be added.
    """
    if workload.kind == "DaemonSet" or template.subject.asked.pin or template.guessed:
        return None
    containers = pods.pod(template.subject.pod).defaulted().containers
    if not all({CPU, MEMORY} <= each.requests.keys() == each.limits.keys() for each in containers):
        return None
    found = decide(_tolerant(template.subject.asked))
    return None if found.state is AdmissionState.BELOW_ENFORCED else found.refusal


def _tolerant(asked: PodQuestion) -> PodQuestion:
    """The same of a pod that tolerates every taint."""
    return replace(asked, constraints=replace(asked.constraints, tolerations=ANYWHERE.tolerations))


def _warnings(workload: Workload, decide: Decide) -> Iterator[str]:
    """What its owner should know, the decisive first."""
    for mistake in workload.mistakes:
        yield in_full(f"{_short(mistake.where)}: {mistake.message}")
    decided = [(f"{_short(each.where)}: ", decide(each.subject.asked)) for each in workload.templates]
    for where, decision in decided:
        if why := decision.refusal or decision.waived:
            yield in_full(f"{where}{_WILL.get(decision.state, '')}{wording.first_sentence(why)}")
    for where, decision in decided:
        yield from (in_full(f"{where}{text}") for text in decision.warnings)
    yield from map(in_full, workload.notes)


_WILL = MappingProxyType({AdmissionState.BELOW_ENFORCED: "its pods will be refused: "})


def _audit(workload: Workload) -> dict[str, str]:
    kept = [admitted(each.subject.asked) for each in workload.templates]
    told = dict.fromkeys([*(["invalid"] if workload.mistakes else []), *kept])
    return {"verdict": "; ".join(told)}


def _short(where: str) -> str:
    """A place with its end, which tells more than its beginning."""
    return where if len(where) <= _LONGEST_PLACE else f"...{where[3 - _LONGEST_PLACE :]}"
