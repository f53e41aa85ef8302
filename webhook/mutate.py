"""
What is written into a pod: who places it, and that it keeps away from node classes that could never align it.

Mutation never refuses. The pod may still be changed by webhooks after this one, and what is refused must be
what would be stored; so a pod that is broken or fits nowhere is kept from nothing and ends at validation.
One that holds more than is read passes untouched as well, and the audit log says so. A class counts, too,
if its nodes have gone or may come: what is written holds for as long as the pod waits.

Which scheduler places a pod follows from the pod and its namespace alone, so that all pods of one owner go to
the same one, whatever nodes are there when each is made. A gate is added only where some class could take the
pod: any other is refused, or goes where nothing is known, and there is no node to wait for.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from numalign.cache import ClusterCache, Survey, dra
from numalign.kube import routing
from numalign.model.constraints import Operator, Requirement
from numalign.model.intent import CLASS_LABEL
from webhook import patch
from webhook.patch import Mode, Operation, Unsteered
from webhook.review import Allowed, Patched
from webhook.subject import ReviewedPod

UNSTEERED = "unsteered"
"""The audit annotation of a pod that was left as it is, though something could have been written into it."""

CLASSES, SCHEDULER, GATE = "classes", "scheduler", "gate"
"""The audit annotations of what was written."""

PLACERS = (SCHEDULER, GATE)
"""Those of them that say who places the pod."""


@dataclass(frozen=True, slots=True)
class Steering:
    """What may be written into pods: how they are kept from classes, and whether anybody lifts gates."""

    injection: Mode = Mode.EXCLUDE
    gates: bool = False


@dataclass(frozen=True, slots=True)
class _Change:
    """Something that is written into a pod, and what the audit log keeps of it under which key."""

    key: str
    text: str
    operations: tuple[Operation, ...]


def mutate(
    pod: ReviewedPod, cache: ClusterCache, steering: Steering, *, served: AbstractSet[str] = frozenset()
) -> Allowed | Patched:
    """Hand the pod to who is to place it, and keep it from the classes that could never take it.

    No class is written if none could or all could. For resources that DRA serves it is kept from none, for no
    class tells of them.
    """
    # Wherever the pod may go: which classes could take it is the same for all that ask this.
    surveyed = needs_survey(pod, steering)
    survey = cache.ever(dra.sure(pod.request.question, served)) if surveyed else None
    try:
        changes = tuple(_changes(pod, survey, steering))
        operations = patch.whole(operation for change in changes for operation in change.operations)
    except Unsteered as error:
        return Allowed(audit={UNSTEERED: str(error)})
    if not operations:
        return Allowed()
    audit = {change.key: change.text for change in changes if change.operations}
    return Patched(operations=operations, audit=audit)


def needs_survey(pod: ReviewedPod, steering: Steering) -> bool:
    """Whether what is written depends on which classes could ever take the pod."""
    keeps = routing.concerns(pod.request) and steering.injection is not Mode.OFF
    return keeps or _gate(pod, steering) is not None


def _changes(pod: ReviewedPod, survey: Survey | None, steering: Steering) -> Iterator[_Change]:
    """Each thing that is to be written; raises `Unsteered` where the pod holds more than is read."""
    name, gate = routing.scheduler(pod.pod["spec"], pod.request), _gate(pod, steering)
    gate = gate if survey and survey.feasible else None
    if pod.request.excess and (name or gate):
        raise Unsteered(pod.request.excess)
    if name:
        yield _Change(SCHEDULER, name, (patch.route(name),))
    if gate:
        yield _Change(GATE, gate, (patch.hold(pod.pod["spec"], gate),))
    if survey and survey.feasible and steering.injection is not Mode.OFF:
        yield _classes(pod, survey, steering.injection)


def _gate(pod: ReviewedPod, steering: Steering) -> str | None:
    """The gate that the pod's namespace wants, where somebody lifts gates."""
    return routing.gate(pod.pod["spec"], pod.request) if steering.gates else None


def _classes(pod: ReviewedPod, survey: Survey, mode: Mode) -> _Change:
    """The requirement on the pod's node class."""
    operator, classes = Operator.IN, survey.feasible
    if mode is Mode.EXCLUDE:
        operator, classes = Operator.NOT_IN, survey.infeasible
    requirement = Requirement(CLASS_LABEL, operator, frozenset(classes))
    text = f"{operator} {','.join(sorted(requirement.values))}"
    return _Change(CLASSES, text, patch.inject(pod.pod, requirement, mode=mode))
