"""
What is written into a pod: a requirement that keeps it away from node classes that could never align it.

Mutation never refuses. The pod may still be changed by webhooks after this one, and what is refused must be
what would be stored; so a pod that is broken or fits nowhere passes here untouched and ends at validation.
One that holds more than is read passes untouched as well, and the audit log says so. A class counts, too,
if its nodes have gone or may come: what is written holds for as long as the pod waits.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType

from numalign.cache import Fleet, Survey, dra
from numalign.model.intent import CLASS_LABEL
from webhook.patch import Mode, Operator, Requirement, Unsteered, inject
from webhook.review import Allowed, Patched
from webhook.subject import ReviewedPod

UNSTEERED = "unsteered"
"""The audit annotation of a pod that was left as it is, though it could have been kept from some classes."""


def mutate(
    subject: ReviewedPod, fleet: Fleet, *, mode: Mode, served: AbstractSet[str] = frozenset()
) -> Allowed | Patched:
    """Keep the pod from the classes that could never take it; nothing, if none could or all could.

    For resources that DRA serves it is kept from none: no class tells of them.
    """
    if not concerns(subject, mode=mode):
        return Allowed()
    # Wherever the pod may go: which classes could take it is the same for all that ask this.
    survey = fleet.ever(dra.sure(subject.asked.question, served))
    if not survey.feasible:
        return Allowed()
    requirement = _REQUIREMENTS[mode](survey)
    try:
        operations = inject(subject.pod, requirement, mode=mode)
    except Unsteered as error:
        return Allowed(audit={UNSTEERED: str(error)})
    if not operations:
        return Allowed()
    written = f"{requirement.operator} {','.join(requirement.values)}"
    return Patched(operations=operations, audit={"classes": written})


def concerns(subject: ReviewedPod, *, mode: Mode) -> bool:
    """Whether anything could be written: the pod asks for alignment, and a scheduler is to place it."""
    return subject.asked.asks and not subject.asked.pin and mode is not Mode.OFF


def _exclude(survey: Survey) -> Requirement:
    return Requirement(CLASS_LABEL, Operator.NOT_IN, survey.infeasible)


def _include(survey: Survey) -> Requirement:
    return Requirement(CLASS_LABEL, Operator.IN, survey.feasible)


_REQUIREMENTS: Mapping[Mode, Callable[[Survey], Requirement]] = MappingProxyType(
    {Mode.EXCLUDE: _exclude, Mode.INCLUDE: _include, Mode.PREFER: _include}
)
