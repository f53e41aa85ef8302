"""
What is written into a pod: its scheduler or gate, and a requirement that excludes unsuitable node classes.

Mutation never denies. Other webhooks may still change the pod, and a denial must be about the pod as it would
be stored; so a pod that is invalid or fits nowhere is not restricted, and is denied at validation. A pod with
more in it than is read passes unchanged as well, and the audit log notes it. Classes without nodes now, or
whose nodes may come later, count too: the requirement holds as long as the pod is pending.

The scheduler of a pod follows from the pod and its namespace alone, so that all pods of one owner get the
same one, whatever nodes exist when each is created. A gate is added only if some class could take the pod:
any other pod is denied, or goes to unknown nodes, and there is no node to wait for.
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
"""The audit annotation of a pod that was left unchanged, although something could have been written."""

CLASSES, SCHEDULER, GATE = "classes", "scheduler", "gate"
"""The audit annotations of what was written."""

PLACERS = (SCHEDULER, GATE)
"""Those for what places the pod."""


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
    """
    Set what places the pod, and keep it off the classes that could never take it.

    No class is written if none could or all could. Resources that DRA serves exclude no class, because
    classes do not describe them.
    """
    # The survey ignores the pod's constraints: it is the same for all pods with this question.
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
    """Return whether the changes depend on which classes could ever take the pod."""
    keeps = routing.concerns(pod.request) and steering.injection is not Mode.OFF
    return keeps or _gate(pod, steering) is not None


def _changes(pod: ReviewedPod, survey: Survey | None, steering: Steering) -> Iterator[_Change]:
    """Yield the changes; raise `Unsteered` if the pod has more in it than is read."""
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
    """Return the gate that the pod's namespace requests, if a controller lifts gates."""
    return routing.gate(pod.pod["spec"], pod.request) if steering.gates else None


def _classes(pod: ReviewedPod, survey: Survey, mode: Mode) -> _Change:
    """Return the requirement on the pod's node class."""
    operator, classes = Operator.IN, survey.feasible
    if mode is Mode.EXCLUDE:
        operator, classes = Operator.NOT_IN, survey.infeasible
    requirement = Requirement(CLASS_LABEL, operator, frozenset(classes))
    text = f"{operator} {','.join(sorted(requirement.values))}"
    return _Change(CLASSES, text, patch.inject(pod.pod, requirement, mode=mode))
